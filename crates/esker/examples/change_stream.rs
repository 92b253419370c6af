//! How do I follow the changes of a database, to keep a replica or to notify others?
//!
//! Run: `cargo run -p esker --example change_stream`
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use esker::{Db, ErrorKind, Options, SequenceNumber, WalReadOptions, WriteBatch};
use std::path::Path;

/// The key under which the replica keeps the sequence number that it needs next.
const NEXT: &str = "\0next";

fn main() -> esker::Result<()> {
    let dir = std::env::temp_dir().join(format!("esker-example-changes-{}", std::process::id()));
    let mut options = Options::default();
    options.db.create_if_missing = true;
    // Keeps WALs for an hour, for followers that are away.
    options.db.wal_ttl_seconds = 3600;
    let db = Db::open(&options, dir.join("db"))?;
    db.put("stock", "3")?;
    db.put("stock", "2")?;
    db.flush()?;

    let replica = Db::open(&options, dir.join("replica"))?;
    follow(&db, &replica)?;
    db.delete("stock")?;
    db.put("orders", "1")?;
    follow(&db, &replica)?;
    assert_eq!(replica.get("stock")?, None);
    assert_eq!(replica.get("orders")?.as_deref(), Some(&b"1"[..]));

    drop((db, replica));
    esker::destroy_db(&options.db, dir.join("db"))?;
    esker::destroy_db(&options.db, dir.join("replica"))
}

/// Applies the changes that the replica lacks. A program that follows for ever keeps the iterator
/// and calls `next` again later.
fn follow(db: &Db, replica: &Db) -> esker::Result<()> {
    let next = replica.get(NEXT)?.and_then(|text| String::from_utf8(text).ok()?.parse().ok());
    let next = SequenceNumber(next.unwrap_or(1));
    let updates = match db.get_updates_since(next, &WalReadOptions::default()) {
        // There are no newer writes.
        Err(_) if next > db.latest_sequence_number() => return Ok(()),
        // The WAL is gone: the replica begins anew with a copy.
        Err(e) if e.kind() == ErrorKind::NotFound => return copy_again(db, Path::new("copy")),
        updates => updates?,
    };
    for update in updates {
        let (first, batch) = update?;
        println!("{} operations from {first} on", batch.count());
        let mut applied = WriteBatch::new();
        applied.append(&batch)?;
        applied.put(NEXT, (first.0 + u64::from(batch.count())).to_string())?;
        replica.write(&mut applied)?;
    }
    Ok(())
}

/// Makes a copy of the database. The copy has all writes up to the number that it returns.
fn copy_again(db: &Db, copy: &Path) -> esker::Result<()> {
    let newest = db.create_checkpoint(copy, 0)?;
    println!("continue behind {newest}");
    Ok(())
}
