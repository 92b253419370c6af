//! Real RocksDB, in a process that may abort: see `esker_fuzz::oracle`.

fn main() -> std::io::Result<()> {
    esker_fuzz::oracle::serve()
}
