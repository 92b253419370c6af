use super::watch::Watch;
use crate::builtin::string_append;
use crate::merge::vec_iter::VecIter;
use crate::observe::{Explanation, KeyRead, ReadSource};
use crate::scan::iterator::{RunWatch, WatchedRun};
use crate::{Db, Env, ExplainScan, Options, ReadOptions};
use esker_base::ValueType;
use esker_base::perf_context::PerfContext;
use esker_base::sync::Arc;
use esker_env::MockClock;
use esker_env::mem::MemFs;
use esker_format::cursor::{ScanIterator, ScanProgress};
use esker_format::key::InternalKeyComparator;
use esker_table::{FilterPolicy, FoundAt, TouchedKind};

fn open(more: impl FnOnce(&mut Options)) -> Db {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.merge_operator = Some(string_append(","));
    options.cf.disable_auto_compactions = true;
    options.cf.table.block_size = 128;
    options.cf.table.filter_policy = Some(FilterPolicy::bloom(10.0));
    more(&mut options);
    Db::open(&options, "/db").unwrap()
}

fn get(db: &Db, key: &str) -> KeyRead {
    let family = db.default_column_family();
    let mut explanation = db.explain_get(&ReadOptions::default(), &family, key).unwrap();
    explanation.keys.pop().unwrap()
}

fn kinds(read: &KeyRead) -> Vec<(TouchedKind, FoundAt)> {
    read.steps.iter().flat_map(|step| &step.touched).map(|t| (t.kind, t.found_at)).collect()
}

#[test]
fn a_lookup_tells_its_sources_and_what_it_touched_in_them() {
    let db = open(|_| {});
    for n in 0..100 {
        db.put(format!("key{n:03}"), [b'v'; 20]).unwrap();
    }
    db.flush().unwrap();
    db.merge("key050", "x").unwrap();
    let passes = TouchedKind::Filter { passes: true };
    let cold = get(&db, "key050");
    assert_eq!(cold.outcome, Ok(Some(22)));
    assert_eq!(
        kinds(&cold),
        [
            (passes, FoundAt::Reader),
            (TouchedKind::Index, FoundAt::Reader),
            (TouchedKind::Data, FoundAt::File)
        ]
    );
    let entries: Vec<_> = cold.steps.iter().flat_map(|step| &step.entries).map(|e| e.value_type).collect();
    assert_eq!(entries, [ValueType::Merge, ValueType::Value]);
    assert!(matches!(cold.steps[0].source, ReadSource::Memtable { is_immutable: false, .. }));
    assert_eq!(kinds(&get(&db, "key050"))[2], (TouchedKind::Data, FoundAt::BlockCache));
    let absent = get(&db, "key050a");
    assert_eq!(absent.outcome, Ok(None));
    assert_eq!(kinds(&absent), [(TouchedKind::Filter { passes: false }, FoundAt::Reader)]);
    let outside = get(&db, "other");
    assert_eq!(outside.steps.last().unwrap().why, "not asked: the key is not within the bounds of any file");
    db.delete_range("key0", "key1").unwrap();
    let hidden = get(&db, "key007");
    assert_eq!(hidden.outcome, Ok(None));
    assert!(hidden.steps[0].tombstone.is_some(), "{hidden:?}");
}

/// An explained lookup gives the same answer as the plain lookup, and reads the same number of
/// blocks.
#[test]
fn lookups_do_what_they_are_told_to_do() {
    let db = open(|options| options.cf.table.no_block_cache = true);
    let mut rng = fastrand::Rng::with_seed(7);
    for round in 0..6 {
        for _ in 0..60 {
            let key = format!("key{:02}", rng.u8(..60));
            match rng.u8(..12) {
                0..6 => db.put(&key, vec![b'v'; rng.usize(..90)]).unwrap(),
                6..9 => db.merge(&key, "m").unwrap(),
                9..11 => db.delete(&key).unwrap(),
                _ => db.delete_range(&key, format!("key{:02}", rng.u8(..60))).unwrap_or(()),
            }
        }
        db.flush().unwrap();
        if round == 2 {
            db.compact_range(None, None).unwrap();
        }
    }
    for n in 0..62 {
        let key = format!("key{n:02}");
        let blocks = || PerfContext::current().block_read_count;
        let before = blocks();
        let value = db.get(&key).unwrap();
        let of_get = blocks() - before;
        let explained = get(&db, &key);
        assert_eq!(explained.outcome, Ok(value.map(|v| v.len() as u64)), "{key}");
        let data = kinds(&explained).iter().filter(|(kind, _)| *kind == TouchedKind::Data).count() as u64;
        assert_eq!((blocks() - before - of_get, data), (of_get, of_get), "{key}: {explained:?}");
    }
}

#[test]
fn scans_tell_their_runs() {
    let db = open(|_| {});
    for n in 0..200 {
        db.put(format!("key{n:03}"), "old").unwrap();
    }
    db.flush().unwrap();
    db.put("zzz", "elsewhere").unwrap();
    db.flush().unwrap();
    (50..60).for_each(|n| db.delete(format!("key{n:03}")).unwrap());
    let family = db.default_column_family();
    let options = ReadOptions { iterate_upper_bound: Some(b"key070".to_vec()), ..ReadOptions::default() };
    let scan = |reverse, from: &str| {
        let scan = ExplainScan { from: Some(from.into()), rows: 100, reverse };
        db.explain_scan(&options, &family, &scan).unwrap()
    };
    for (reverse, from) in [(false, "key040"), (true, "key069")] {
        let explained = scan(reverse, from);
        let read = explained.scan.as_ref().unwrap();
        assert_eq!(read.rows, if reverse { 60 } else { 20 });
        assert!(reverse || read.skipped_deletions == 10, "{explained}");
        assert_eq!((read.runs.len(), read.left_out.len()), (2, 1), "{explained}");
        assert!(read.runs[1].blocks_read + read.runs[1].cached_blocks > 2, "{explained}");
    }
    let seek = db.explain_seek(&options, &family, "key055").unwrap();
    assert_eq!(seek.scan.unwrap().ends.unwrap().0, b"key060");
}

#[test]
fn it_is_printed_for_people_and_for_programs() {
    let db = open(|_| {});
    db.put("a\"b", "1").unwrap();
    db.flush().unwrap();
    let family = db.default_column_family();
    let explained = db.explain_multi_get(&ReadOptions::default(), &family, &["a\"b", "c", "c"]).unwrap();
    assert_eq!(explained.keys.len(), 2, "each key has one report");
    let text = explained.to_string();
    for part in ["multiget in 'default' at sequence 1: ", "key \"a\\\"b\": found, 1 B, ", "data block at 0"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let json = explained.to_json();
    assert!(json.starts_with("{\"operation\": \"multiget\", \"family\": \"default\""), "{json}");
    assert!(json.contains("\"key\": \"a\\\\\\\"b\", \"outcome\": \"found\", \"value_bytes\": 1"), "{json}");
    let scan: Explanation = db.explain_seek(&ReadOptions::default(), &family, "a").unwrap();
    let json = scan.to_json();
    assert!(json.contains("\"rows\": 1, \"row_bytes\": 4, \"first\": \"a\\\\\\\"b\""), "{json}");
    assert!(json.contains("\"left_out\": [{\"source\": \"memtable"), "{json}");
}

/// The sum of the times in the lines of the first level, and the time in the head, in microseconds.
fn micros_in(explained: &str) -> (f64, f64) {
    let micros = |line: &str| {
        let before = line.split(" µs").next()?;
        before.rsplit([' ', ':']).next()?.parse::<f64>().ok()
    };
    let lines = explained.lines().filter(|line| line.starts_with("  ") && !line.starts_with("    "));
    (lines.filter_map(micros).sum(), explained.lines().next().and_then(micros).unwrap())
}

#[test]
fn the_lines_of_an_explanation_add_up_to_the_whole() {
    let db = open(|options| options.cf.write_buffer_size = 8 << 20);
    for n in 0..20_000 {
        db.put(format!("key{n:05}"), "value").unwrap();
    }
    db.flush().unwrap();
    // In a nearly empty queue, the deleted run takes the time.
    (0..19_990).for_each(|n| db.delete(format!("key{n:05}")).unwrap());
    let (family, read) = (db.default_column_family(), ReadOptions::default());
    let scan = ExplainScan { from: None, rows: 1, reverse: false };
    for explained in [
        db.explain_scan(&read, &family, &scan).unwrap(),
        db.explain_scan(&read, &family, &ExplainScan { rows: 100, ..scan.clone() }).unwrap(),
        db.explain_get(&read, &family, "key19995").unwrap(),
        db.explain_multi_get(&read, &family, &["key00001", "key19995", "none"]).unwrap(),
    ] {
        let text = explained.to_string();
        let (lines, whole) = micros_in(&text);
        assert!((lines - whole).abs() <= whole * 0.05 + 0.1, "{lines} of {whole} µs\n{text}");
    }
}

#[test]
fn a_watched_cursor_hands_on_how_far_its_scan_has_come() {
    let far = ScanProgress { bytes: 7, read_bytes: 5 };
    let inner = VecIter::new(&InternalKeyComparator::default(), Arc::default());
    let mut watched = Watch::new(Arc::new(MockClock::new(0))).over(WatchedRun::Memtable(1), Box::new(inner));
    watched.continue_from(far);
    assert_eq!(watched.progress(), far);
}
