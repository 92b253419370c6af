//! How do I load much sorted data fast? Write table files and ingest them: nothing is logged or
//! compacted.
//!
//! Run: `cargo run -p esker --example bulk_load`
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use esker::{Db, IngestExternalFileOptions, Options, SstFileWriter};

fn main() -> esker::Result<()> {
    let dir = std::env::temp_dir().join(format!("esker-example-load-{}", std::process::id()));
    let mut options = Options::default();
    options.db.create_if_missing = true;
    let db = Db::open(&options, &dir)?;

    let mut files = Vec::new();
    for part in 0..4 {
        let path = dir.with_extension(format!("part-{part}.sst"));
        let mut writer = SstFileWriter::new(&options);
        writer.open(&path)?;
        for i in 0..25_000 {
            // Keys come in order.
            writer.put(format!("key-{:08}", part * 25_000 + i), format!("value {i}"))?;
        }
        let info = writer.finish()?;
        println!("{}: {} entries", info.file_path.display(), info.num_entries);
        files.push(path);
    }

    // All files or none, atomically. `move_files` links them in place of copying them.
    let ingest = IngestExternalFileOptions { move_files: true, ..IngestExternalFileOptions::default() };
    db.ingest_external_file_opt(&ingest, &db.default_column_family(), &files)?;
    assert!(db.get("key-00099999")?.is_some());

    drop(db);
    esker::destroy_db(&options.db, &dir)
}
