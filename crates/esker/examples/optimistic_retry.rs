//! How do I change what I have read where conflicts are rare? Without locks, checked at commit.
//!
//! Run: `cargo run -p esker --example optimistic_retry`
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use esker::{ErrorKind, OptimisticTransactionDb, Options};

fn increment(db: &OptimisticTransactionDb, key: &str) -> esker::Result<u32> {
    let mut attempts = 1;
    loop {
        let transaction = db.begin_transaction();
        let old = transaction.get_for_update(key)?;
        let old: u64 = old.and_then(|text| String::from_utf8(text).ok()?.parse().ok()).unwrap_or(0);
        transaction.put(key, (old + 1).to_string())?;
        match transaction.commit() {
            Ok(()) => return Ok(attempts),
            Err(e) if matches!(e.kind(), ErrorKind::Busy | ErrorKind::TryAgain) => attempts += 1,
            Err(e) => return Err(e),
        }
    }
}

fn main() -> esker::Result<()> {
    let dir = std::env::temp_dir().join(format!("esker-example-optimistic-{}", std::process::id()));
    let mut options = Options::default();
    options.db.create_if_missing = true;
    let db = OptimisticTransactionDb::open(&options, &dir)?;

    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..100).try_for_each(|_| increment(&db, "hits").map(drop)));
        }
    });
    let hits = db.db().get("hits")?;
    assert_eq!(hits.as_deref(), Some(&b"400"[..]));
    println!("400 increments by four threads, none lost");

    drop(db);
    esker::destroy_db(&options.db, &dir)
}
