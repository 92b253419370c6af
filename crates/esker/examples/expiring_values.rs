//! How do I store values that expire, as a cache or a session store does?
//!
//! Run: `cargo run -p esker --example expiring_values`
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "an example talks to its reader and waits"
)]

use esker::{ColumnFamilyDescriptor, ColumnFamilyOptions, DbWithTtl, OpenMode, Options};

fn main() -> esker::Result<()> {
    let dir = std::env::temp_dir().join(format!("esker-example-ttl-{}", std::process::id()));
    let mut options = Options::default();
    options.db.create_if_missing = true;
    let families = vec![ColumnFamilyDescriptor::new("default", ColumnFamilyOptions::default())];

    // One second to live. Compactions drop what has expired; reads may still show it until then.
    let db = DbWithTtl::open(&options.db, &dir, families, &[1], OpenMode::ReadWrite)?;
    db.put("session", "ada")?;
    assert_eq!(db.get("session")?.as_deref(), Some(&b"ada"[..]));

    std::thread::sleep(std::time::Duration::from_millis(2_100));
    db.base_db().compact_range(None, None)?;
    assert_eq!(db.get("session")?, None);
    println!("the session has expired");

    drop(db);
    esker::destroy_db(&options.db, &dir)
}
