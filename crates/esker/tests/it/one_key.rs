//! A user's comparator is not called where there is one key.

use crate::shared::CountingComparator;
use esker::internals::env::mem::MemFs;
use esker::{Db, Env, Options};
use std::sync::Arc;

/// Some clients' comparators end the process when they are called without need.
#[test]
fn writing_and_flushing_one_key_compares_nothing() {
    let counting = Arc::new(CountingComparator::default());
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.comparator = counting.clone();
    let db = Db::open(&options, "/db").unwrap();
    let mut counts = vec![counting.count()];
    db.put("key", "value").unwrap();
    counts.push(counting.count());
    db.flush().unwrap();
    db.wait_for_background_work().unwrap();
    counts.push(counting.count());
    db.close().unwrap();
    drop(db);
    let db = Db::open(&options, "/db").unwrap();
    counts.push(counting.count());
    assert_eq!(counts, [0; 4], "after an open, a put, a flush, another open");
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]));
}
