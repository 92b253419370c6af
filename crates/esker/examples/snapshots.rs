//! How do I read several keys as they were at one point in time, while others write?
//!
//! Run: `cargo run -p esker --example snapshots`
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use esker::{Db, Options, ReadOptions, WriteBatch};
use std::sync::atomic::{AtomicBool, Ordering};

/// Moves one unit from `a` to `b`; their sum stays 100.
fn transfer(db: &Db, a: u64) -> esker::Result<()> {
    let family = db.default_column_family().id();
    let mut batch = WriteBatch::new();
    batch.put_cf(family, b"a", a.to_le_bytes())?;
    batch.put_cf(family, b"b", (100 - a).to_le_bytes())?;
    db.write(&mut batch)
}

fn read(db: &Db, options: &ReadOptions, key: &str) -> esker::Result<u64> {
    let value = db.get_opt(options, &db.default_column_family(), key)?.expect("both are there");
    Ok(u64::from_le_bytes(value.try_into().expect("eight bytes")))
}

fn main() -> esker::Result<()> {
    let dir = std::env::temp_dir().join(format!("esker-example-snapshots-{}", std::process::id()));
    let mut options = Options::default();
    options.db.create_if_missing = true;
    let db = Db::open(&options, &dir)?;
    transfer(&db, 100)?;

    let done = AtomicBool::new(false);
    std::thread::scope(|scope| -> esker::Result<()> {
        scope.spawn(|| {
            (0..)
                .map_while(|i| (!done.load(Ordering::Relaxed)).then_some(i % 101))
                .try_for_each(|a| transfer(&db, a))
        });
        for _ in 0..1_000 {
            let snapshot = db.snapshot();
            let now = ReadOptions::new().snapshot(&snapshot);
            assert_eq!(read(&db, &now, "a")? + read(&db, &now, "b")?, 100);
        }
        done.store(true, Ordering::Relaxed);
        Ok(())
    })?;
    println!("1000 snapshots, each consistent");

    drop(db);
    esker::destroy_db(&options.db, &dir)
}
