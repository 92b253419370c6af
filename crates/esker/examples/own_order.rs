//! How do I keep keys in an order of my own?
//!
//! Run: `cargo run -p esker --example own_order`
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use esker::comparator::Comparator;
use esker::{Db, Options};
use std::cmp::Ordering;
use std::sync::Arc;

/// Orders decimal numbers of any length by value. The database stores the comparator's name, so the
/// order behind a name must never change.
struct ByNumber;

impl Comparator for ByNumber {
    fn name(&self) -> &str {
        "example.ByNumber"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.len().cmp(&b.len()).then_with(|| a.cmp(b))
    }
}

fn main() -> esker::Result<()> {
    let dir = std::env::temp_dir().join(format!("esker-example-order-{}", std::process::id()));
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.cf.comparator = Arc::new(ByNumber);
    let db = Db::open(&options, &dir)?;
    for number in ["10", "9", "100", "1"] {
        db.put(number, "")?;
    }

    let (mut iter, mut found) = (db.iter()?, Vec::new());
    iter.seek_to_first();
    while let Some((key, _)) = iter.item() {
        found.push(String::from_utf8_lossy(key).into_owned());
        iter.next();
    }
    iter.status()?;
    println!("{found:?}");
    assert_eq!(found, ["1", "9", "10", "100"]);

    drop((iter, db));
    // Without the comparator the database does not open: its files would be misread.
    assert!(Db::open(&Options::default(), &dir).is_err());
    esker::destroy_db(&options.db, &dir)
}
