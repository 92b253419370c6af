//! `open_and_trim_history`: nothing newer than the timestamp is left, and nothing else is gone.

use super::{Event, NAMES, apply, check, options, rewrite, ts};
use esker::options::CompactionStyle;
use esker::{Db, ErrorKind, Options};
use esker_testkit::seed::for_each_seed;

fn trim(options: &Options, newest: u64) -> esker::Result<Db> {
    let families = [("default", options.cf.clone()), ("plain", Options::default().cf)];
    Db::open_and_trim_history(&options.db, "/db", families, &ts(newest))
}

#[test]
fn a_database_is_opened_as_it_was_at_a_timestamp() {
    for_each_seed("trim_history", 8, |seed, mut rng| {
        let is_reverse = seed % 2 == 1;
        let mut options = options(NAMES[usize::from(is_reverse)]);
        options.db.create_missing_column_families = true;
        options.db.max_subcompactions = 1 + rng.u32(..3);
        options.cf.enable_blob_files = rng.bool();
        options.cf.level_compaction_dynamic_level_bytes = rng.bool();
        if rng.u32(..3) == 0 {
            options.cf.compaction_style = CompactionStyle::Universal;
        }
        let families = [("default", options.cf.clone()), ("plain", Options::default().cf)];
        let mut db = Db::open_cf(&options.db, "/db", families).unwrap();
        db.put_cf(&db.column_family("plain").unwrap(), "k", "v").unwrap();
        let key = |rng: &mut fastrand::Rng| format!("k{:02}", rng.u32(..20));
        let (mut history, mut time) = (Vec::new(), 0);
        for _ in 0..4 {
            for _ in 0..100 {
                time += 1;
                let event = match rng.u32(..20) {
                    0..10 => Event::Put(key(&mut rng), format!("v{time}")),
                    10..13 => Event::Delete(key(&mut rng)),
                    13..17 => Event::Merge(key(&mut rng), format!("m{time}")),
                    _ if is_reverse => Event::DeleteRange("k12".into(), "k07".into()),
                    _ => Event::DeleteRange("k07".into(), "k12".into()),
                };
                apply(&db, time, &event);
                history.push((time, event));
                match rng.u32(..40) {
                    0 => db.flush().unwrap(),
                    1 => rewrite(&db),
                    _ => {}
                }
            }
            db.close().unwrap();
            drop(db);
            // Sometimes everything stays, sometimes all goes.
            let newest = rng.u64(..time + 3);
            history.retain(|(time, _)| *time <= newest);
            db = trim(&options, newest).unwrap();
            for point in [newest.saturating_sub(20), newest, newest + 1, u64::MAX] {
                check(&db, &history, point, is_reverse);
            }
            let plain = db.column_family("plain").unwrap();
            assert_eq!(db.get_cf(&plain, "k").unwrap().as_deref(), Some(&b"v"[..]));
            time = time.max(newest);
        }
        db.close().unwrap();
    });
}

#[test]
fn a_database_that_cannot_be_trimmed_is_left_alone() {
    let mut options = options(NAMES[0]);
    options.db.create_missing_column_families = true;
    let families = [("default", options.cf.clone()), ("plain", Options::default().cf)];
    let db = Db::open_cf(&options.db, "/db", families).unwrap();
    apply(&db, 7, &Event::Put("k01".into(), "v".into()));
    db.close().unwrap();
    drop(db);
    let refused = |options: &Options, bytes: &[u8]| {
        let families = [("default", options.cf.clone()), ("plain", Options::default().cf)];
        Db::open_and_trim_history(&options.db, "/db", families, bytes).unwrap_err()
    };
    let mut without_flush = options.clone();
    without_flush.db.avoid_flush_during_recovery = true;
    let error = refused(&without_flush, &ts(1));
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("avoid_flush_during_recovery"), "{error}");
    let error = refused(&options, b"short");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("column family 'default'"), "{error}");
    let mut fifo = options.clone();
    fifo.cf.compaction_style = CompactionStyle::Fifo;
    fifo.db.compatible_with = esker::options::TargetVersion::V11;
    assert_eq!(refused(&fifo, &ts(1)).kind(), ErrorKind::NotSupported);
    let mut in_memory = options.clone();
    in_memory.cf.persist_user_defined_timestamps = false;
    assert_eq!(refused(&in_memory, &ts(1)).kind(), ErrorKind::NotSupported);

    let db = trim(&options, 7).unwrap();
    check(&db, &[(7, Event::Put("k01".into(), "v".into()))], u64::MAX, false);
    db.close().unwrap();
}
