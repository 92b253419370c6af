//! How do I change what I have read, while others do the same? With locks.
//!
//! Run: `cargo run -p esker --example transfer_money`
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use esker::{ErrorKind, Options, TransactionDb, TransactionDbOptions, TransactionOptions, WriteOptions};

fn balance(text: Option<Vec<u8>>) -> u64 {
    text.and_then(|text| String::from_utf8(text).ok()?.parse().ok()).unwrap_or(0)
}

/// Moves `amount` if `from` has it. Returns whether it did.
fn transfer(db: &TransactionDb, from: &str, to: &str, amount: u64) -> esker::Result<bool> {
    let options = TransactionOptions { deadlock_detect: true, ..TransactionOptions::default() };
    let transaction = db.begin_transaction_opt(&WriteOptions::default(), &options);
    let source = balance(transaction.get_for_update(from)?);
    let target = balance(transaction.get_for_update(to)?);
    if source < amount {
        return Ok(false); // the drop rolls the transaction back
    }
    transaction.put(from, (source - amount).to_string())?;
    transaction.put(to, (target + amount).to_string())?;
    transaction.commit()?;
    Ok(true)
}

/// Deadlocks and timeouts undo the transaction: it runs again.
fn transfer_with_retry(db: &TransactionDb, from: &str, to: &str, amount: u64) -> esker::Result<bool> {
    loop {
        match transfer(db, from, to, amount) {
            Err(e) if matches!(e.kind(), ErrorKind::Busy | ErrorKind::TimedOut | ErrorKind::TryAgain) => {
                continue;
            }
            outcome => return outcome,
        }
    }
}

fn main() -> esker::Result<()> {
    let dir = std::env::temp_dir().join(format!("esker-example-transfer-{}", std::process::id()));
    let mut options = Options::default();
    options.db.create_if_missing = true;
    let db = TransactionDb::open(&options, &TransactionDbOptions::default(), &dir)?;
    db.put("ada", "1000")?;
    db.put("grace", "1000")?;

    std::thread::scope(|scope| {
        for (from, to) in [("ada", "grace"), ("grace", "ada"), ("ada", "grace")] {
            let db = &db;
            scope.spawn(move || (0..100).try_for_each(|_| transfer_with_retry(db, from, to, 1).map(drop)));
        }
    });
    let (ada, grace) = (balance(db.db().get("ada")?), balance(db.db().get("grace")?));
    println!("ada has {ada}, grace has {grace}");
    assert_eq!((ada, grace), (900, 1100));

    drop(db);
    esker::destroy_db(&options.db, &dir)
}
