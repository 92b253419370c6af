//! Subcompactions in families with user-defined timestamps.

use super::{Event, NAMES, apply, at, check, options, rewrite, state, ts};
use esker::Db;
use esker::observe::{EventListener, SubcompactionJobInfo};
use esker::options::TargetVersion;
use esker_testkit::seed::for_each_seed;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The largest number of parts of a compaction.
#[derive(Default)]
struct MostParts(AtomicUsize);

impl EventListener for MostParts {
    fn on_subcompaction_begin(&self, info: &SubcompactionJobInfo) {
        self.0.fetch_max(info.subcompaction_job_id + 1, Ordering::Relaxed);
    }
}

#[test]
fn compactions_of_keys_with_timestamps_are_done_in_parts_that_part_no_history() {
    for_each_seed("parts", 4, |seed, mut rng| {
        let is_reverse = seed % 2 == 1;
        let is_persisted = seed % 4 < 3;
        let parts = Arc::new(MostParts::default());
        let mut options = options(NAMES[usize::from(is_reverse)]);
        options.db.max_subcompactions = 4;
        options.db.listeners.push(parts.clone());
        options.db.compatible_with = TargetVersion::V8;
        options.cf.persist_user_defined_timestamps = is_persisted;
        options.cf.target_file_size_base = 500;
        options.cf.table.block_size = 50;
        let db = Db::open(&options, "/db").unwrap();
        let family = db.default_column_family();
        let key = |rng: &mut fastrand::Rng| format!("k{:02}", rng.u32(..20));
        let (mut history, mut low) = (Vec::new(), 0);
        for round in 0..4 {
            let first = 100 * round + 1;
            for time in first..first + 100 {
                let event = match rng.u32(..20) {
                    0..10 => Event::Put(key(&mut rng), format!("v{time}")),
                    10..13 => Event::Delete(key(&mut rng)),
                    13..19 => Event::Merge(key(&mut rng), format!("m{time}")),
                    _ if is_reverse => Event::DeleteRange("k12".into(), "k07".into()),
                    _ => Event::DeleteRange("k07".into(), "k12".into()),
                };
                apply(&db, time, &event);
                history.push((time, event));
            }
            db.flush().unwrap();
            if round > 1 && is_persisted {
                low = rng.u64(low..first);
                db.increase_full_history_ts_low(&family, &ts(low)).unwrap();
            }
            rewrite(&db);
            if is_persisted {
                (0..4).for_each(|_| check(&db, &history, rng.u64(low..first + 101), is_reverse));
            } else {
                let newest = state(&history, u64::MAX);
                for key in (0..20).map(|n| format!("k{n:02}")) {
                    let found = db.get_opt(&at(u64::MAX), &family, &key).unwrap();
                    assert_eq!(found, newest.get(&key).map(|(value, _)| value.clone().into_bytes()), "{key}");
                }
            }
        }
        assert_eq!(parts.0.load(Ordering::Relaxed), 4);
        db.close().unwrap();
    });
}
