//! How does a second opening read what a first one writes?
//!
//! Run: `cargo run -p esker --example read_beside_a_writer`
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use esker::{Db, Options};

fn main() -> esker::Result<()> {
    let dir = std::env::temp_dir().join(format!("esker-example-reader-{}", std::process::id()));
    let mut options = Options::default();
    options.db.create_if_missing = true;
    let writer = Db::open(&options, &dir)?;
    writer.put("news", "first")?;

    // A reader takes no lock. It sees all writes before its opening, those in the WAL included.
    let reader = Db::open_for_read_only(&options, &dir)?;
    writer.put("news", "second")?;
    assert_eq!(reader.get("news")?.as_deref(), Some(&b"first"[..]));
    assert!(reader.put("news", "mine").is_err());

    // A secondary follows the writer. Its own LOG is in another directory.
    let of_secondary = dir.with_extension("secondary");
    let secondary = Db::open_as_secondary(&options, &dir, &of_secondary)?;
    writer.put("news", "third")?;
    assert_eq!(secondary.get("news")?.as_deref(), Some(&b"second"[..]));
    secondary.try_catch_up_with_primary()?;
    assert_eq!(secondary.get("news")?.as_deref(), Some(&b"third"[..]));

    // A second writer is refused: the directory has one owner.
    let refused = Db::open(&options, &dir).expect_err("it is open");
    println!("{refused}");

    drop((reader, secondary, writer));
    std::fs::remove_dir_all(&of_secondary).expect("it holds a LOG");
    esker::destroy_db(&options.db, &dir)
}
