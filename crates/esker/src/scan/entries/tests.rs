//! The entries of ranges against a sorted map: every range and order, with entries taken from both
//! ends.

use super::*;
use crate::Db;
use crate::options::{Env, Options, ReadOptions};
use esker_base::ErrorKind;
use esker_base::comparator::ReverseBytewiseComparator;
use esker_env::MemFs;
use std::ops::Bound;
use std::sync::Arc;

const KEYS: [&str; 8] = ["a", "b", "ba", "bb", "c", "d\u{7f}", "e", "f"];

fn open(change: impl FnOnce(&mut Options)) -> Db {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    change(&mut options);
    let db = Db::open(&options, "/db").unwrap();
    for (i, key) in KEYS.iter().enumerate() {
        db.put(key, format!("value {i}")).unwrap();
        if i == 3 {
            db.flush().unwrap();
        }
    }
    db
}

/// Sets a custom comparator, which the engine must call.
fn by_bytes(options: &mut Options) {
    options.cf.comparator = esker_base::closures::comparator("tests.ByBytes", |a, b| a.cmp(b));
}

fn reverse(options: &mut Options) {
    options.cf.comparator = Arc::new(ReverseBytewiseComparator);
}

fn key(entry: Result<KeyValue>) -> String {
    String::from_utf8(entry.unwrap().0).unwrap()
}

/// Takes entries by the bits of `turns`: a set bit takes from the back.
fn taken<C: EntryCursor>(mut entries: Entries<C>, turns: u32) -> (Vec<String>, Vec<String>) {
    let (mut front, mut back) = (Vec::new(), Vec::new());
    for turn in 0.. {
        let from_back = turns >> (turn % 16) & 1 == 1;
        let entry = if from_back { entries.next_back() } else { entries.next() };
        let Some(entry) = entry else { break };
        if from_back { back.push(key(entry)) } else { front.push(key(entry)) }
    }
    assert!(entries.next().is_none() && entries.next_back().is_none());
    (front, back)
}

#[test]
fn every_range_gives_what_a_sorted_map_gives_from_both_ends() {
    let ends: Vec<&str> = KEYS.iter().copied().chain(["", "aa", "bab", "d", "g"]).collect();
    let bounds: Vec<Bound<&str>> = ends
        .iter()
        .flat_map(|key| [Bound::Included(*key), Bound::Excluded(*key)])
        .chain([Bound::Unbounded])
        .collect();
    for (name, change) in
        [("bytewise", (|_| ()) as fn(&mut Options)), ("own", by_bytes), ("reverse", reverse)]
    {
        let db = open(change);
        let icmp = db.default_column_family().cf.icmp.clone();
        let order = |a: &str, b: &str| icmp.compare_user_keys(a.as_bytes(), b.as_bytes());
        let mut sorted = KEYS.to_vec();
        sorted.sort_by(|a, b| order(a, b));
        for (i, &start) in bounds.iter().enumerate() {
            for (j, &end) in bounds.iter().enumerate() {
                let begins = |key: &str| match start {
                    Bound::Unbounded => true,
                    Bound::Included(start) => order(start, key).is_le(),
                    Bound::Excluded(start) => order(start, key).is_lt(),
                };
                let ends = |key: &str| match end {
                    Bound::Unbounded => true,
                    Bound::Included(end) => order(key, end).is_le(),
                    Bound::Excluded(end) => order(key, end).is_lt(),
                };
                let due: Vec<&str> = sorted.iter().copied().filter(|key| begins(key) && ends(key)).collect();
                let turns = [0, u32::MAX, 0b0101_0110_0010_0101 + (i * 31 + j) as u32];
                for turns in turns {
                    let (front, mut back) = taken(db.range((start, end)), turns);
                    back.reverse();
                    let all = [front, back].concat();
                    assert_eq!(all, due, "{name}: {start:?} to {end:?}, turns {turns:b}");
                }
            }
        }
    }
}

#[test]
fn ranges_of_the_standard_library_mean_what_they_say() {
    let db = open(|_| ());
    let count = |entries: Entries| entries.count();
    assert_eq!(count(db.range(..)), 8);
    assert_eq!(count(db.range("b"..)), 7);
    assert_eq!(count(db.range(.."c")), 4);
    assert_eq!(count(db.range(..="c")), 5);
    assert_eq!(count(db.range("b".."c")), 3);
    assert_eq!(count(db.range(b"b".to_vec()..=b"c".to_vec())), 4);
    assert_eq!(count(db.range("c".."b")), 0);
    assert_eq!(count(db.range("b".."b")), 0);
}

#[test]
fn a_prefix_gives_its_extensions_in_the_orders_of_bytes() {
    for (change, due) in [((|_| ()) as fn(&mut Options), ["b", "ba", "bb"]), (reverse, ["bb", "ba", "b"])] {
        let db = open(change);
        db.put([0xFF, 0xFF], "last").unwrap();
        assert_eq!(db.prefix("b").map(key).collect::<Vec<_>>(), due);
        assert_eq!(db.prefix("b").rev().map(key).count(), 3);
        assert_eq!(db.prefix([0xFF]).count(), 1);
        assert_eq!(db.prefix("").count(), 9);
        assert_eq!(db.prefix("zz").count(), 0);
    }
    let error = open(by_bytes).prefix("b").next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().contains("tests.ByBytes"), "{error}");
}

#[test]
fn both_ends_see_the_point_in_time_at_which_the_range_was_made() {
    let db = open(|_| ());
    let mut entries = db.range(..);
    assert_eq!(key(entries.next().unwrap()), "a");
    db.put("z", "new").unwrap();
    db.delete("e").unwrap();
    db.flush().unwrap();
    assert_eq!(key(entries.next_back().unwrap()), "f");
    assert_eq!(key(entries.next_back().unwrap()), "e");
    assert_eq!(entries.count(), 5);
    let pinned = ReadOptions::new().pin_data(true);
    let mut entries = db.range_opt(pinned, &db.default_column_family(), ..);
    assert_eq!(key(entries.next_back().unwrap()), "z");
    db.delete("a").unwrap();
    assert_eq!(key(entries.next().unwrap()), "a");
}

#[test]
fn a_cursor_becomes_an_iterator_from_where_it_stands() {
    let db = open(|_| ());
    assert_eq!(db.iter().unwrap().into_iter().count(), 8);
    let at = |target: &str| {
        let mut iter = db.iter().unwrap();
        iter.seek(target);
        iter
    };
    assert_eq!(at("bb").into_iter().map(key).collect::<Vec<_>>(), ["bb", "c", "d\u{7f}", "e", "f"]);
    assert_eq!(taken(at("e").into_iter(), 0b1), (vec!["e".to_owned()], vec!["f".to_owned()]));
    assert_eq!(taken(at("f").into_iter(), u32::MAX).1, ["f"]);
    let mut entries = at("e").into_iter();
    assert_eq!(key(entries.next_back().unwrap()), "f");
    assert_eq!(key(entries.next_back().unwrap()), "e");
    assert!(entries.next().is_none(), "the back has returned the front's entry");
}

#[test]
fn lent_entries_are_the_same_as_copied_ones() {
    let db = open(|_| ());
    let mut lent = Vec::new();
    let mut entries = db.range("b"..);
    while let Some((key, value)) = entries.next_item().unwrap() {
        lent.push((key.to_vec(), value.to_vec()));
    }
    let copied = db.range("b"..).map(|entry| entry.map(|(key, value)| (key, value.to_vec())));
    assert_eq!(lent, copied.collect::<Result<Vec<_>>>().unwrap());
    let mut back = Vec::new();
    let mut entries = db.range("b"..);
    while let Some((key, value)) = entries.next_item_back().unwrap() {
        back.push((key.to_vec(), value.to_vec()));
    }
    back.reverse();
    assert_eq!(back, lent);
}

#[test]
fn an_error_is_the_only_item() {
    let (db, other) = (open(|_| ()), open(|_| ()));
    let mut entries = db.range_cf(&other.default_column_family(), ..);
    assert_eq!(entries.next().unwrap().unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert!(entries.next().is_none() && entries.next_back().is_none());
    let mut entries = db.range_cf(&other.default_column_family(), ..);
    assert!(entries.next_item_back().is_err());
    assert!(entries.next_item().unwrap().is_none());
    let versions = ReadOptions { iter_start_ts: Some(vec![0; 8]), ..ReadOptions::default() };
    let mut entries = db.range_opt(versions, &db.default_column_family(), ..);
    assert_eq!(entries.next().unwrap().unwrap_err().kind(), ErrorKind::InvalidArgument);
}
