//! RocksDB's reading of directories, for the process that started this one: see
//! `esker_peer::reader`.

fn main() -> std::io::Result<()> {
    esker_peer::reader::serve()
}
