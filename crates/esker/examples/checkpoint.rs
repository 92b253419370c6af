//! How do I get a consistent copy quickly, to read or to ship it?
//!
//! Run: `cargo run -p esker --example checkpoint`
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use esker::{Db, Options};

fn main() -> esker::Result<()> {
    let dir = std::env::temp_dir().join(format!("esker-example-checkpoint-{}", std::process::id()));
    let copy = dir.with_extension("copy");
    let mut options = Options::default();
    options.db.create_if_missing = true;
    let db = Db::open(&options, &dir)?;
    for i in 0..1_000 {
        db.put(format!("key-{i:04}"), "before")?;
    }

    // Tables are hard links: the copy takes no space until one of the two databases drops them.
    db.create_checkpoint(&copy, 0)?;
    db.put("key-0000", "after")?;

    let checkpoint = Db::open_for_read_only(&options, &copy)?;
    assert_eq!(checkpoint.get("key-0000")?.as_deref(), Some(&b"before"[..]));
    assert_eq!(db.get("key-0000")?.as_deref(), Some(&b"after"[..]));
    println!("the checkpoint keeps what was there");

    drop((db, checkpoint));
    esker::destroy_db(&options.db, &copy)?;
    esker::destroy_db(&options.db, &dir)
}
