//! How do I open a database, write, read, scan and delete?
//!
//! Run: `cargo run -p esker --example hello`
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use esker::{Db, Options};

fn main() -> esker::Result<()> {
    let dir = std::env::temp_dir().join(format!("esker-example-hello-{}", std::process::id()));
    let mut options = Options::default();
    options.db.create_if_missing = true;
    let db = Db::open(&options, &dir)?;

    db.put("apple", "red")?;
    db.put("banana", "yellow")?;
    db.put("cherry", "dark red")?;
    db.delete("banana")?;
    assert_eq!(db.get("apple")?.as_deref(), Some(&b"red"[..]));
    assert_eq!(db.get("banana")?, None);

    let mut iter = db.iter()?;
    iter.seek_to_first();
    while let Some((key, value)) = iter.item() {
        println!("{} is {}", String::from_utf8_lossy(key), String::from_utf8_lossy(value));
        iter.next();
    }
    // An iterator also stops at an error, which its status returns.
    iter.status()?;

    drop((iter, db));
    esker::destroy_db(&options.db, &dir)
}
