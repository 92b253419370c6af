//! How do I store large values, without compactions that copy them again and again?
//!
//! Run: `cargo run -p esker --example large_values`
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use esker::{Db, Options};

fn main() -> esker::Result<()> {
    let dir = std::env::temp_dir().join(format!("esker-example-large-{}", std::process::id()));
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.cf.enable_blob_files = true;
    options.cf.min_blob_size = 4 << 10;
    options.cf.enable_blob_garbage_collection = true;
    let db = Db::open(&options, &dir)?;

    for i in 0..200 {
        db.put(format!("image-{i:03}"), vec![i as u8; 64 << 10])?;
    }
    db.put("title", "small values stay in the tables")?;
    db.flush()?;

    // A pinned value is lent from the cache or the read buffer; `get` would copy it.
    let image = db.get_pinned("image-007")?.expect("it was written");
    assert!(image.len() == 64 << 10 && image.iter().all(|byte| *byte == 7));
    let in_blobs = db.property("rocksdb.total-blob-file-size").unwrap_or_default();
    println!("bytes in blob files: {in_blobs}");

    drop((image, db));
    esker::destroy_db(&options.db, &dir)
}
