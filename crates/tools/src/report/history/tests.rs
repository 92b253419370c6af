use super::*;

fn history(text: &str) -> LogHistory {
    let mut history = LogHistory::default();
    text.lines().for_each(|line| history.add(line));
    history.finish();
    history
}

/// A LOG of two hours east of the epoch's zone.
const LOG: &str = r#"2026/11/20-02:00:00.000000 1 Esker version: 0.1.0
2026/11/20-02:00:01.000000 1 EVENT_LOG_v1 {"time_micros": 1795132801000000, "job": 2, "event": "flush_started", "flush_reason": "Write Buffer Full"}
2026/11/20-02:00:01.500000 1 EVENT_LOG_v1 {"time_micros": 1795132801500000, "cf_name": "users", "job": 2, "event": "table_file_creation", "file_number": 9, "file_size": 1000}
2026/11/20-02:00:02.000000 1 EVENT_LOG_v1 {"time_micros": 1795132802000000, "job": 2, "event": "flush_finished", "lsm_state": [1, 0]}
2026/11/20-02:00:03.000000 1 [WARN] [users] Stopping writes because we have 2 immutable memtables
2026/11/20-02:00:04.000000 1 EVENT_LOG_v1 {"time_micros": 1795132804000000, "job": 3, "event": "compaction_started", "cf_name": "users", "compaction_reason": "LevelL0FilesNum", "input_data_size": 1000}
2026/11/20-02:00:05.000000 1 EVENT_LOG_v1 {"time_micros": 1795132805000000, "job": 3, "event": "compaction_finished", "output_level": 1, "total_output_size": 900, "lsm_state": [0, 1]}
2026/11/20-02:00:06.000000 1 [WARN] ------- DUMPING STATS -------
** Compaction Stats [users] **
  L1      1/0   2.00 KB   0.4      0.0
** Compaction Stats [users] **
 Low      1/0   9.00 KB   0.4      0.0
Write Stall (count): l0-file-count-limit-delays: 3, memtable-limit-stops: 1
rocksdb.block.cache.miss COUNT : 1
rocksdb.block.cache.hit COUNT : 3
2026/11/20-02:00:07.000000 1 [ERROR] Flush failed
"#;

#[test]
fn jobs_levels_and_stalls_are_found() {
    let history = history(LOG);
    assert_eq!((history.lines, history.unreadable), (16, 0));
    assert_eq!(history.opens, [(1_795_132_801_000_000, "Esker 0.1.0".to_owned())]);
    let [flush, compaction] = &history.jobs[..] else { panic!("{:?}", history.jobs) };
    assert_eq!((flush.kind, &flush.family[..], flush.bytes_written), (JobKind::Flush, "users", 1000));
    assert_eq!(flush.end - flush.begin, 1_000_000);
    assert_eq!((compaction.level, compaction.bytes_read, compaction.bytes_written), (1, 1000, 900));
    let family = &history.families["users"];
    assert_eq!(family.files.points()[1].1[..2], [0.0, 1.0]);
    assert_eq!(
        family.bytes.points(),
        [(1_795_132_806_000_000, vec![0.0, 2048.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])]
    );
    assert_eq!(history.hits.points(), [(1_795_132_806_000_000, 75.0)]);
    // A line about a stall has the time of its zone.
    assert_eq!(history.stalls.buckets().map(|(_, sum)| sum.stopped).sum::<u64>(), 1);
    assert_eq!(history.last, Some(1_795_132_806_000_000));
    assert_eq!(history.stalls_by_cause().len(), 1);
    assert_eq!(history.stall_counts[CAUSES[0]].slowed, 3);
    assert_eq!(history.failures.len(), 1);
}

/// Lines whose every job, family, reason and level is another one.
#[test]
fn forged_lines_fill_no_memory() {
    let mut history = LogHistory::default();
    for n in 0..20_000_u64 {
        let time = 1_700_000_000_000_000 + n * 1_000_003;
        history.add(&format!(
            r#"EVENT_LOG_v1 {{"time_micros": {time}, "job": {n}, "event": "compaction_started", "cf_name": "f{n}", "compaction_reason": "r{n}"}}"#
        ));
        if n % 2 == 0 {
            history.add(&format!(
                r#"EVENT_LOG_v1 {{"time_micros": {}, "job": {n}, "event": "compaction_finished", "output_level": {n}, "lsm_state": [{n}]}}"#,
                u64::MAX - n
            ));
        }
        history.add("[ERROR] again");
    }
    history.finish();
    assert!(history.families.len() <= MOST_FAMILIES + 1);
    assert!(history.jobs.len() <= 2 * MOST_JOBS && history.left_out > 0);
    assert!(history.reasons.len() <= MOST_REASONS + 2);
    assert!(history.open_jobs.len() <= MOST_OPEN_JOBS);
    assert_eq!(history.failures.len(), MOST_FAILURES);
}

/// Each cut and each changed byte of a real LOG, and random bytes.
#[test]
fn cut_and_damaged_lines_are_read_without_a_panic() {
    let mut random = fastrand::Rng::with_seed(11);
    for round in 0..2000 {
        let mut bytes = LOG.as_bytes().to_vec();
        match round % 3 {
            0 => bytes.truncate(random.usize(..bytes.len())),
            1 => (0..8).for_each(|_| {
                let at = random.usize(..bytes.len());
                bytes[at] = random.u8(..);
            }),
            _ => bytes = std::iter::repeat_with(|| random.u8(..)).take(500).collect(),
        }
        let read = history(&String::from_utf8_lossy(&bytes));
        assert!(read.jobs.len() <= 2);
    }
}
