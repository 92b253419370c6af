use super::*;

#[test]
fn stamps_are_times_of_the_gregorian_calendar() {
    let (micros, rest) = stamp("2026/11/20-20:25:43.123456 4242 [WARN] text").unwrap();
    assert_eq!((micros, rest), (1_795_206_343_123_456, "4242 [WARN] text"));
    assert_eq!(stamp("1970/01/01-00:00:00.000000 1").unwrap().0, 0);
    assert_eq!(stamp("2000/03/01-00:00:00.000000 1").unwrap().0, 951_868_800_000_000);
    for bad in
        ["", "text", "2026/13/20-20:25:43.123456 1", "2026/11/20-25:25:43.123456 1", "2026/11/20-20:25:43 1"]
    {
        assert!(stamp(bad).is_none(), "{bad}");
    }
}

#[test]
fn lines_of_both_programs_have_a_meaning() {
    let text =
        "[WARN] [db/column_family.cc:1001] [users] Stalling writes because we have 6 level-0 files rate 8";
    let LogMeaning::Stall(found) = meaning(text) else { panic!("a stall") };
    assert_eq!(found, StallLine { family: "users".to_owned(), stops: false, cause: CAUSES[0] });
    let text = "[default] Stopping writes because we have 2 immutable memtables (waiting for flush)";
    assert!(
        matches!(meaning(text), LogMeaning::Stall(StallLine { stops: true, cause, .. }) if cause == CAUSES[1])
    );
    assert!(matches!(meaning("Esker version: 0.1.0"), LogMeaning::Version(v) if v == "Esker 0.1.0"));
    assert!(matches!(meaning("Compatible with RocksDB version: 11.x"), LogMeaning::Other));
    assert!(matches!(meaning("[ERROR] Flush failed"), LogMeaning::Failure(_)));
    let text = "(Original Log Time x) EVENT_LOG_v1 {\"time_micros\": 7, \"job\": 2, \"event\": \"flush_finished\", \
                \"lsm_state\": [1,0,0,0,0,0,0,2,3], \"new\": {\"a\": [1]}}";
    let LogMeaning::Event(event) = meaning(text) else { panic!("an event") };
    assert_eq!((event.time_micros, event.job, &event.event[..]), (7, 2, "flush_finished"));
    assert_eq!(event.lsm_state, [1, 0, 0, 0, 0, 0, 0, 5]);
    assert!(matches!(meaning("EVENT_LOG_v1 {\"time_micros\": 7, \"jo"), LogMeaning::Unreadable));
}

#[test]
fn dumps_of_both_programs_have_a_meaning() {
    let read = |text: &str| match meaning(text) {
        LogMeaning::Dump(line) => Some(line),
        _ => None,
    };
    assert_eq!(read("------- DUMPING STATS -------"), Some(DumpLine::Begin));
    assert_eq!(read("** Compaction Stats [a b] **"), Some(DumpLine::Family("a b".to_owned())));
    let row = "  L2     20/0   17.50 MB   0.4      0.0     0.0      0.0       0.0      0.0";
    assert_eq!(read(row), Some(DumpLine::Level { level: 2, bytes: 17.5 * 1048576.0 }));
    assert_eq!(read(" Sum     28/8   22.40 MB   0.0"), None);
    let text = "Interval writes: 24K writes, 24K keys, 24K commit groups, 1.0 writes per commit group, ingest: 10.00 MB, 9.99 MB/s";
    assert_eq!(read(text), Some(DumpLine::IntervalIngest(9.99)));
    assert_eq!(read("Interval stall: 00:00:0.436 H:M:S, 43.6 percent"), Some(DumpLine::IntervalStall(43.6)));
    let text = "Block cache LRUCache@0x5565f59a26e0#14780 capacity: 8.00 KB usage: 2.00 KB table_size: 128";
    assert_eq!(read(text), Some(DumpLine::Cache { capacity: 8192.0, usage: 2048.0 }));
    assert_eq!(
        read("rocksdb.block.cache.hit COUNT : 12"),
        Some(DumpLine::Ticker { is_hit: true, count: 12 })
    );
    assert_eq!(read("rocksdb.block.cache.add COUNT : 12"), None);
    let new = "Write Stall (count): l0-file-count-limit-delays: 19, l0-file-count-limit-stops: 1, memtable-limit-stops: 4";
    assert_eq!(read(new), Some(DumpLine::StallCounts([(19, 1), (0, 4), (0, 0)])));
    let old = "Stalls(count): 7 level0_slowdown, 7 level0_slowdown_with_compaction, 1 level0_numfiles, \
               2 stop for pending_compaction_bytes, 29 slowdown for pending_compaction_bytes, 3 memtable_compaction, \
               0 memtable_slowdown, interval 0 total count";
    assert_eq!(read(old), Some(DumpLine::StallCounts([(7, 1), (0, 3), (29, 2)])));
    assert_eq!(read("Write Stall (count): write-buffer-manager-limit-stops: 0"), None);
}
