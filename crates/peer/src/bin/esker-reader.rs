//! What RocksDB reads of a directory, told to whoever started this: see `esker_peer::reader`.

fn main() -> std::io::Result<()> {
    esker_peer::reader::serve()
}
