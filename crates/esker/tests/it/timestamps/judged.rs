//! Compaction filters in families with user-defined timestamps.

use super::{Event, NAMES, apply, at, check, options, rewrite, ts, versions, versions_stored};
use esker::Db;
use esker::compaction_filter::{CompactionFilter, FilterDecision};
use esker_testkit::seed::for_each_seed;
use std::sync::Arc;

/// Removes values that begin with `x`, purges those that begin with `p`, and changes a first `c`
/// into `C`. At a value that begins with `s` it skips to `k05`.
struct Judge;

impl Judge {
    fn decide(value: &[u8]) -> FilterDecision {
        match value.first() {
            Some(b'x') => FilterDecision::Remove,
            Some(b'p') => FilterDecision::Purge,
            Some(b's') => FilterDecision::RemoveAndSkipUntil([&b"k05"[..], &[0xFF; 8]].concat()),
            Some(b'c') => FilterDecision::ChangeValue([b"C", &value[1..]].concat()),
            _ => FilterDecision::Keep,
        }
    }
}

impl CompactionFilter for Judge {
    fn name(&self) -> &str {
        "judge"
    }
    fn filter(&self, _level: usize, key: &[u8], value: &[u8]) -> FilterDecision {
        assert_eq!(key.len(), "k00".len() + ts(0).len(), "a key with its timestamp");
        Judge::decide(value)
    }
    fn filter_merge_operand(&self, _level: usize, _key: &[u8], operand: &[u8]) -> FilterDecision {
        Judge::decide(operand)
    }
}

/// The write after [`Judge`] has judged it; `None` if it is dropped.
fn judged(event: &Event) -> Option<Event> {
    let changed = |value: &str| match value.strip_prefix('c') {
        Some(rest) => format!("C{rest}"),
        None => value.to_owned(),
    };
    match event {
        Event::Put(key, value) if value.starts_with('x') => Some(Event::Delete(key.clone())),
        Event::Put(key, value) => Some(Event::Put(key.clone(), changed(value))),
        Event::Merge(_, operand) if operand.starts_with('x') => None,
        Event::Merge(key, operand) => Some(Event::Merge(key.clone(), changed(operand))),
        other => Some(other.clone()),
    }
}

#[test]
fn a_filter_judges_every_version_and_none_comes_back_for_one_that_it_removes() {
    for_each_seed("judged", 6, |seed, mut rng| {
        let is_reverse = seed % 2 == 1;
        let mut options = options(NAMES[usize::from(is_reverse)]);
        options.cf.compaction_filter = Some(Arc::new(Judge));
        options.cf.enable_blob_files = rng.bool();
        options.cf.disable_auto_compactions = true;
        let db = Db::open(&options, "/db").unwrap();
        let family = db.default_column_family();
        let key = |rng: &mut fastrand::Rng| format!("k{:02}", rng.u32(..20));
        let (mut history, mut low) = (Vec::new(), 0);
        for round in 0..6 {
            let first = 60 * round + 1;
            for time in first..first + 60 {
                let value = format!("{}{time}", ["x", "c", "v"][rng.usize(..3)]);
                let event = match rng.u32(..20) {
                    0..10 => Event::Put(key(&mut rng), value),
                    10..13 => Event::Delete(key(&mut rng)),
                    13..19 => Event::Merge(key(&mut rng), value),
                    _ if is_reverse => Event::DeleteRange("k09".into(), "k04".into()),
                    _ => Event::DeleteRange("k04".into(), "k09".into()),
                };
                apply(&db, time, &event);
                history.push((time, event));
                if rng.u32(..30) == 0 {
                    db.flush().unwrap();
                }
            }
            if round % 2 == 1 {
                low = rng.u64(low..first);
                db.increase_full_history_ts_low(&family, &ts(low)).unwrap();
            }
            let snapshot = (round == 2).then(|| db.snapshot());
            rewrite(&db);
            if snapshot.is_some() {
                // Versions that the snapshot may read stay.
                check(&db, &history, u64::MAX, is_reverse);
                drop(snapshot);
                rewrite(&db);
            }
            let judged: Vec<(u64, Event)> =
                history.iter().filter_map(|(time, event)| Some((*time, judged(event)?))).collect();
            for _ in 0..4 {
                check(&db, &judged, rng.u64(low..first + 61), is_reverse);
            }
            history = judged;
        }
        db.close().unwrap();
    });
}

#[test]
fn a_filter_purges_versions_and_skips_over_them() {
    for has_blobs in [false, true] {
        let mut options = options(NAMES[0]);
        options.cf.compaction_filter = Some(Arc::new(Judge));
        options.cf.enable_blob_files = has_blobs;
        let db = Db::open(&options, "/db").unwrap();
        let put = |key: &str, value: &str| Event::Put(key.into(), value.into());
        for (time, event) in [
            (1, put("k01", "v")),
            (2, put("k01", "s")),
            (3, put("k01", "v")),
            (4, put("k02", "v")),
            (5, Event::Delete("k02".into())),
            (6, Event::Merge("k03".into(), "m".into())),
            (7, put("k05", "v")),
            (8, put("k05", "p")),
            (9, put("k05", "v")),
        ] {
            apply(&db, time, &event);
        }
        rewrite(&db);
        let value = |key: &str, time, value: Option<&str>| (key.to_owned(), time, value.map(str::to_owned));
        let left = [
            value("k01", 3, Some("v")),
            value("k05", 9, Some("v")),
            value("k05", 8, None),
            value("k05", 7, Some("v")),
        ];
        assert_eq!(versions(&db, 1, 9), left);
        assert_eq!(db.get_opt(&at(8), &db.default_column_family(), "k05").unwrap(), None);
        db.close().unwrap();
    }
}

#[test]
fn versions_that_a_filter_removed_leave_nothing_once_no_reader_can_see_them() {
    let mut options = options(NAMES[0]);
    options.cf.compaction_filter = Some(Arc::new(Judge));
    let db = Db::open(&options, "/db").unwrap();
    let family = db.default_column_family();
    for (time, value) in [(1, "v1"), (2, "x2"), (3, "v3"), (4, "x4")] {
        apply(&db, time, &Event::Put("k01".into(), value.into()));
    }
    rewrite(&db);
    let there = |point| db.get_opt(&at(point), &family, "k01").unwrap();
    assert_eq!([1, 2, 3, 4].map(there), [Some(b"v1".to_vec()), None, Some(b"v3".to_vec()), None]);
    let expected = [(4, None), (3, Some("v3")), (2, None), (1, Some("v1"))];
    let expected = expected.map(|(time, value)| ("k01".to_owned(), time, value.map(str::to_owned)));
    assert_eq!(versions(&db, 1, 9), expected);
    db.increase_full_history_ts_low(&family, &ts(5)).unwrap();
    rewrite(&db);
    assert_eq!(versions_stored(&db), []);
    db.close().unwrap();
}
