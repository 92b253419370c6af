//! A detached iterator holds no resources, and continues as if it had not been detached.

use super::super::tests::{key, options};
use super::super::*;
use crate::db::Db;

const KEYS: usize = 100;

/// A database with merged, plain and large values, and deletions between them.
fn open() -> Db {
    let db = Db::open(&options(), "/db").unwrap();
    for i in 0..KEYS {
        db.put(key(i), vec![b'a' + (i % 26) as u8; if i % 7 == 0 { 10_000 } else { 10 }]).unwrap();
        if i % 5 == 0 {
            db.merge(key(i), b"more").unwrap();
        }
        if i % 3 == 0 {
            db.delete(key(i)).unwrap();
        }
        if i == KEYS / 2 {
            db.flush().unwrap();
        }
    }
    db
}

/// Waits until the super version is released: readers of other tests may delay that.
fn is_released(super_version: &std::sync::Weak<SuperVersion>) -> bool {
    esker_base::sync::epoch::settle(100_000, std::thread::yield_now);
    super_version.upgrade().is_none()
}

fn replace_super_version(db: &Db, round: usize) {
    for i in 0..KEYS {
        db.put(key(i), format!("later{round}")).unwrap();
    }
    db.flush().unwrap();
    db.compact_range(None, None).unwrap();
}

#[test]
fn it_holds_no_super_version_and_shows_what_it_showed() {
    let db = open();
    let family = db.default_column_family();
    let mut iter = db.iter().unwrap();
    for (round, backwards) in [(0, false), (1, true)] {
        if backwards {
            iter.seek_to_last();
        } else {
            iter.seek_to_first();
        }
        for step in 0.. {
            if !iter.valid() {
                break;
            }
            let super_version = Arc::downgrade(&family.cf.pinned_super_version());
            let shown = (iter.key().to_vec(), iter.value().to_vec());
            if step % 4 == 1 {
                iter.detach().unwrap();
                assert!(iter.is_detached());
                iter.detach().unwrap();
            }
            if step % 12 == 1 {
                replace_super_version(&db, round);
                assert!(is_released(&super_version), "no other object holds the super version");
            }
            assert_eq!((iter.key().to_vec(), iter.value().to_vec()), shown);
            assert_eq!(iter.pinned_value().as_slice(), shown.1);
            assert_eq!(iter.columns()[0].1, shown.1);
            if backwards {
                iter.prev();
            } else {
                iter.next();
            }
            assert!(!iter.is_detached());
        }
        iter.status().unwrap();
    }
}

#[test]
fn it_can_be_sought_refreshed_and_shown_an_error_while_it_is_detached() {
    let db = open();
    let mut iter = db.iter().unwrap();
    iter.detach().unwrap();
    assert!(!iter.valid());
    iter.seek(key(1));
    assert_eq!(iter.key(), key(1));
    iter.detach().unwrap();
    iter.seek_for_prev(key(2));
    assert_eq!(iter.key(), key(2));
    db.put(key(2), "new").unwrap();
    iter.detach().unwrap();
    iter.seek_to_first();
    iter.next();
    assert_ne!(iter.value(), b"new", "the iterator keeps its point in time");
    iter.detach().unwrap();
    iter.refresh().unwrap();
    assert!(!iter.valid() && !iter.is_detached());
    iter.seek(key(2));
    assert_eq!(iter.value(), b"new");
}

#[test]
fn an_iterator_that_stays_at_its_super_version_is_not_detached() {
    let db = open();
    let options = ReadOptions { pin_data: true, ..ReadOptions::default() };
    let mut iter = db.iter_opt(options, &db.default_column_family()).unwrap();
    iter.seek_to_first();
    let shown = iter.key().to_vec();
    assert_eq!(iter.detach().unwrap_err().kind(), esker_base::ErrorKind::NotSupported);
    assert!(!iter.is_detached());
    assert_eq!(iter.key(), shown);
    iter.next();
    assert!(iter.valid());
}
