//! `preserve_internal_time_seconds`: young entries keep their sequence numbers in the last level.

use crate::timestamps::rewrite;
use esker::internals::env::MockClock;
use esker::internals::env::mem::MemFs;
use esker::{Db, Env, Options, SequenceNumber};
use std::sync::Arc;
use std::time::Duration;

/// The largest sequence number in any file.
fn largest(db: &Db) -> SequenceNumber {
    db.live_files().into_iter().map(|f| f.file.largest_seqno).max().unwrap()
}

#[test]
fn sequence_numbers_stay_while_their_entries_are_young() {
    let clock = Arc::new(MockClock::new(1_000_000 * 1_000_000));
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::new(Arc::new(MemFs::new()), clock.clone());
    options.cf.preserve_internal_time_seconds = 100;
    let db = Db::open(&options, "/db").unwrap();
    for i in 0..10 {
        db.put(format!("key{i}"), "value").unwrap();
    }
    rewrite(&db);
    assert_eq!(largest(&db), SequenceNumber(110));
    clock.advance(Duration::from_secs(50));
    rewrite(&db);
    assert_eq!(largest(&db), SequenceNumber(110));
    clock.advance(Duration::from_secs(200));
    rewrite(&db);
    assert_eq!(largest(&db), SequenceNumber::ZERO);

    db.set_options(&db.default_column_family(), &[("preserve_internal_time_seconds", "0")]).unwrap();
    db.put("key0", "again").unwrap();
    rewrite(&db);
    assert_eq!(largest(&db), SequenceNumber::ZERO);
}
