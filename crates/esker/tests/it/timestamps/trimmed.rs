//! Automatic compactions drop histories that no read may see any more.

use super::{NAMES, at, options, rewrite, ts};
use crate::ingest::becomes;
use esker::{Db, WriteOptions};

/// One key in the last level, with versions at these timestamps; only a released snapshot kept
/// them.
fn database(timestamps: &[u64]) -> Db {
    let mut options = options(NAMES[0]);
    options.cf.merge_operator = None;
    let db = Db::open(&options, "/db").unwrap();
    let (write, family) = (WriteOptions::default(), db.default_column_family());
    for time in timestamps {
        db.put_with_ts(&write, &family, "key", &ts(*time), format!("v{time}")).unwrap();
    }
    rewrite(&db);
    db.put_with_ts(&write, &family, "other", &ts(1), "v").unwrap();
    drop(db.snapshot());
    db
}

/// The number of the file with the key, and how many entries it has.
fn file_of_key(db: &Db) -> (u64, u64) {
    let files = db.live_files();
    let file = files.iter().find(|f| f.smallest_key.starts_with(b"key")).unwrap();
    (file.file.file_number.0, file.num_entries)
}

#[test]
fn versions_that_no_reader_may_see_go_from_the_last_level() {
    let db = database(&[1, 2, 5]);
    let family = db.default_column_family();
    let before = file_of_key(&db);
    assert_eq!(before.1, 3);
    // The file is not compacted while it has a version at or above the bound: it would be due again
    // each time.
    for low in [3, 5] {
        db.increase_full_history_ts_low(&family, &ts(low)).unwrap();
        db.wait_for_background_work().unwrap();
        assert_eq!(file_of_key(&db), before, "{low}");
    }
    db.increase_full_history_ts_low(&family, &ts(6)).unwrap();
    assert!(becomes(|| file_of_key(&db).1 == 1), "{:?}", file_of_key(&db));
    assert_eq!(db.get_opt(&at(6), &family, "key").unwrap().as_deref(), Some(&b"v5"[..]));
    // The file is not compacted again.
    db.wait_for_background_work().unwrap();
    let after = file_of_key(&db);
    db.increase_full_history_ts_low(&family, &ts(9)).unwrap();
    drop(db.snapshot());
    db.wait_for_background_work().unwrap();
    assert_eq!(file_of_key(&db), after);
}
