use super::super::reason::CompactionReason;
use super::*;

fn sample() -> CfStats {
    let mut stats = CfStats::new("default", 3);
    stats.levels[0] = LevelStats { num_files: 2, being_compacted: 1, bytes: 3 << 20, score: 0.5 };
    stats.levels[2] = LevelStats { num_files: 7, being_compacted: 0, bytes: 5 << 30, score: 0.0 };
    stats.bytes_flushed = 1 << 30;
    stats.seconds_up = 100.0;
    let flush = CompactionStats { micros: 2_000_000, bytes_written: 1 << 30, count: 4, ..Default::default() };
    stats.compactions.add(0, WorkPriority::High, CompactionReason::Flush, &flush);
    let compaction = CompactionStats {
        micros: 1_000_000,
        cpu_micros: 500_000,
        bytes_read_non_output_levels: 1 << 30,
        bytes_read_output_level: 4 << 30,
        bytes_written: 5 << 30,
        num_input_records: 12_345_678,
        num_dropped_records: 9_999,
        count: 1,
        ..Default::default()
    };
    stats.compactions.add(2, WorkPriority::Low, CompactionReason::LevelL0FilesNum, &compaction);
    stats
}

#[test]
fn a_level_that_shrinks_a_little_prints_no_minus_before_0() {
    let mut stats = sample();
    let shrinks = CompactionStats {
        micros: 1_000_000,
        bytes_read_output_level: 10 << 20,
        bytes_written: 1 << 20,
        count: 1,
        ..Default::default()
    };
    stats.compactions.add(1, WorkPriority::Low, CompactionReason::LevelL0FilesNum, &shrinks);
    let text = stats.to_text(None);
    assert!(!text.contains("-0.0"), "{text}");
}

/// The header and the first rows below were laid out by hand from RocksDB's format strings.
#[test]
fn compaction_table_has_rocksdbs_columns() {
    let text = sample().to_text(None);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[1], "** Compaction Stats [default] **");
    assert_eq!(
        lines[2],
        "Level    Files   Size     Score Read(GB)  Rn(GB) Rnp1(GB) Write(GB) WPreComp(GB) Wnew(GB) Moved(GB) W-Amp \
         Rd(MB/s) Wr(MB/s) Comp(sec) CompMergeCPU(sec) Comp(cnt) Avg(sec) KeyIn KeyDrop Rblob(GB) Wblob(GB)"
    );
    assert_eq!(lines[3].len(), lines[2].len() + 1);
    assert_eq!(
        lines[4],
        "  L0      2/1      3.00 MB   0.5      0.0     0.0      0.0       1.0       0.0      1.0       0.0   1.0      \
         0.0    512.0      2.00              0.00         4    0.500       0      0       0.0       0.0"
    );
    assert_eq!(
        lines[5],
        "  L2      7/0      5.00 GB   0.0      5.0     1.0      4.0       5.0       0.0      1.0       0.0   5.0   \
         5120.0   5120.0      1.00              0.50         1    1.000     12M   9999       0.0       0.0"
    );
    assert!(lines[6].starts_with(" Sum      9/1      5.00 GB"));
    assert!(lines[7].starts_with(" Int      0/0      0.00 KB"));
    assert!(text.contains("\n Low      0/0  "));
    assert!(text.contains("\nHigh      0/0  "));
    assert!(text.contains("Uptime(secs): 100.0 total, 100.0 interval\n"));
    assert!(text.contains("Flush(GB): cumulative 1.000, interval 1.000\n"));
    assert!(text.contains(
        "Cumulative compaction: 6.00 GB write, 61.44 MB/s write, 5.00 GB read, 51.20 MB/s read, 3.0 seconds\n"
    ));
}

#[test]
fn intervals_are_since_the_last_dump() {
    let earlier = sample();
    let mut now = sample();
    now.seconds_up = 110.0;
    now.stalls.count(WriteStallCause::L0FileCountLimit, WriteStallCondition::Stopped, true);
    let text = now.to_text(Some(&earlier));
    assert!(text.contains("Uptime(secs): 110.0 total, 10.0 interval\n"));
    assert!(text.contains("Flush(GB): cumulative 1.000, interval 0.000\n"));
    assert!(text.contains(
        "Interval compaction: 0.00 GB write, 0.00 MB/s write, 0.00 GB read, 0.00 MB/s read, 0.0 seconds\n"
    ));
    assert!(text.contains("l0-file-count-limit-stops: 1"));
    assert!(text.contains("cf-l0-file-count-limit-stops-with-ongoing-compaction: 1"));
    assert!(text.ends_with("interval: 1 total count\n"));
}

#[test]
fn level_stats_and_maps() {
    assert_eq!(
        sample().level_stats_text(),
        "Level Files Size(MB)\n--------------------\n  0        2        3\n  1        0        0\n  2        7     5120\n"
    );
    let map = sample().to_map();
    assert_eq!(map["compaction.L2.KeyDrop"], "9999.000000");
    assert_eq!(map["compaction.Sum.NumFiles"], "9.000000");
    assert_eq!(map["total-stops"], "0");
    assert!(!map.contains_key("compaction.L1.NumFiles"));
}

#[test]
fn database_stats() {
    let earlier = DbStats { user_writes_by_self: 10, seconds_up: 5.0, ..Default::default() };
    let now = DbStats {
        user_writes_by_self: 20_000,
        user_writes_by_other: 10_000,
        user_keys_written: 60_000,
        user_bytes_written: 3 << 30,
        user_writes_with_wal: 30_000,
        wal_syncs: 2,
        wal_bytes_written: 1 << 30,
        user_write_stall_micros: 1_500_000,
        seconds_up: 15.0,
        ..Default::default()
    };
    assert_eq!(
        now.to_text(&earlier),
        "\n** DB Stats **\nUptime(secs): 15.0 total, 10.0 interval\n\
         Cumulative writes: 30K writes, 60K keys, 20K commit groups, 1.5 writes per commit group, ingest: 3.00 GB, 204.80 MB/s\n\
         Cumulative WAL: 30K writes, 2 syncs, 15000.00 writes per sync, written: 1.00 GB, 68.27 MB/s\n\
         Cumulative stall: 00:00:1.500 H:M:S, 10.0 percent\n\
         Interval writes: 29K writes, 60K keys, 19K commit groups, 1.5 writes per commit group, ingest: 3072.00 MB, 307.20 MB/s\n\
         Interval WAL: 30K writes, 2 syncs, 15000.00 writes per sync, written: 1.00 GB, 102.40 MB/s\n\
         Interval stall: 00:00:1.500 H:M:S, 15.0 percent\n\
         Write Stall (count): write-buffer-manager-limit-stops: 0\n"
    );
    assert_eq!(now.to_map()["db.wal_syncs"], "2");
    assert_eq!(now.to_map()["db.uptime"], "15.000000");
}
