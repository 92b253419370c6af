//! Checks the counts of each benchmark in a tiny run with seed 1.

use crate::run::{result, run, run_on_nothing};
use esker_testkit::TempDir;

/// The result of `benchmark`, run after `before`, over 1000 keys.
fn after(before: &str, benchmark: &str, flags: &[&str]) -> String {
    let dir = TempDir::new("bench");
    let list = format!("--benchmarks={before},{benchmark}");
    let all = [&["--num=1000", "--seed=1", list.as_str()], flags].concat();
    result(&run(&dir, &all).ok(), benchmark)
}

#[test]
fn fills_write_as_many_as_asked_for() {
    for (name, operations) in
        [("fillseq", 1000), ("fillrandom", 1000), ("filluniquerandom", 1000), ("overwrite", 1000)]
    {
        assert_eq!(after("", name, &[]), format!("{operations} operations;"), "{name}");
    }
    assert_eq!(after("", "fillseq", &["--writes=10", "--threads=3"]), "30 operations;");
    assert_eq!(after("", "fillsync", &["--num=5000", "--writes=5"]), "5 operations; (5 ops)");
    assert_eq!(after("", "fill100K", &["--num=5000", "--writes=5"]), "5 operations; (5 ops)");
    assert_eq!(after("", "fillbatch", &["--num=3000"]), "3000 operations;");
}

#[test]
fn filled_keys_are_found() {
    assert_eq!(after("fillseq", "readrandom", &[]), "1000 operations; (1000 of 1000 found)");
    assert_eq!(after("filluniquerandom", "readrandom", &[]), "1000 operations; (1000 of 1000 found)");
    assert_eq!(after("fillseq,flush", "readrandom", &["--reads=10"]), "10 operations; (10 of 10 found)");
    assert_eq!(after("fillseq,compact", "readhot", &[]), "1000 operations; (1000 of 1000 found)");
    assert_eq!(after("fillseq", "readmissing", &[]), "1000 operations; (0 of 1000 found)");
    assert_eq!(after("fillseq", "readseq", &[]), "1000 operations;");
    assert_eq!(after("fillseq", "readreverse", &["--reads=77"]), "77 operations;");
    assert_eq!(after("fillseq", "seekrandom", &[]), "1000 operations; (1000 of 1000 found)");
}

#[test]
fn multi_gets_count_keys() {
    for flags in [["--batch_size=7", "--multiread_batched"], ["--batch_size=7", "--nomultiread_batched"]] {
        let flags = [&flags[..], &["--reads=70"]].concat();
        assert_eq!(after("fillseq", "multireadrandom", &flags), "70 operations; (70 of 70 found)");
    }
    let strided = ["--batch_size=10", "--multiread_stride=50", "--reads=100"];
    assert_eq!(after("fillseq", "multireadrandom", &strided), "100 operations; (100 of 100 found)");
    assert_eq!(after("fillseq", "readrandom", &strided), "100 operations; (100 of 100 found)");
}

#[test]
fn multi_scans_go_through_their_ranges() {
    let few = ["--multiscan_size=3", "--multiscan_stride=20", "--seek_nexts=10", "--reads=95"];
    assert_eq!(after("fillseq,flush", "multiscan", &few), "4 operations; (multiscans:4)");
    let reverse = [&few[..], &["--reverse_iterator", "--multiscan_max_prefetch_size=500"]].concat();
    assert_eq!(after("fillseq,flush", "multiscan", &reverse), "4 operations; (multiscans:4)");
    for flag in ["--use_multiscan", "--nouse_multiscan", "--reverse_iterator"] {
        let flags = [flag, "--reads=3000", "--value_size=20000"];
        let text = after("fillseq,flush", "multiscanrandom", &flags);
        assert!(text.contains("rows_scanned:3") && text.contains("max_range_keys:52)"), "{flag}: {text}");
    }
}

#[test]
fn deletions_delete() {
    assert_eq!(after("fillseq,deleteseq", "readrandom", &[]), "1000 operations; (0 of 1000 found)");
    assert_eq!(after("fillseq,deleteseq", "readseq", &["--deletes=400"]), "600 operations;");
    let left = after("fillseq,deleterandom", "readseq", &["--deletes=400", "--batch_size=4"]);
    let left: u64 = left.strip_suffix(" operations;").unwrap().parse().unwrap();
    assert!((600..700).contains(&left), "{left}");
}

#[test]
fn range_deletions_cover_their_width() {
    let dir = TempDir::new("bench");
    let flags = [
        "--num=1000",
        "--seed=1",
        "--benchmarks=filluniquerandom,readseq",
        "--writes_before_delete_range=990",
        "--writes_per_range_tombstone=2",
        "--max_num_range_tombstones=3",
        "--range_tombstone_width=10",
    ];
    for expand in ["--noexpand_range_tombstones", "--expand_range_tombstones"] {
        let out = run(&dir, &[&flags[..], &[expand]].concat()).ok();
        assert!(out.contains("Number of range deletions: 3\n"), "{out}");
        let left: u64 = result(&out, "readseq").strip_suffix(" operations;").unwrap().parse().unwrap();
        assert!((960..1000).contains(&left), "{left}");
    }
}

#[test]
fn mixes_count_both() {
    assert_eq!(
        after("fillseq", "readrandomwriterandom", &["--readwritepercent=80"]),
        "1000 operations; ( reads:800 writes:200 total:1000 found:800)"
    );
    assert_eq!(after("fillseq", "updaterandom", &[]), "1000 operations; ( updates:1000 found:1000)");
    let merges = ["--merge_operator=stringappend", "--merge_keys=10"];
    assert_eq!(after("fillseq", "mergerandom", &merges), "1000 operations; ( updates:1000)");
    let out = after("mergerandom", "readseq", &merges);
    assert_eq!(out, "10 operations;");
}

#[test]
fn readers_are_measured_and_the_writer_behind_them_is_not() {
    let writer = ["--threads=2", "--reads=500"];
    for name in ["readwhilewriting", "multireadwhilewriting"] {
        assert_eq!(
            after("fillseq", name, &writer),
            match name {
                "readwhilewriting" => "1000 operations; (500 of 500 found)",
                _ => "1000 operations; (500 of 500 found)",
            }
        );
    }
    let seeks = after("fillseq", "seekrandomwhilewriting", &writer);
    assert_eq!(seeks, "1000 operations; (500 of 500 found)");
    assert_eq!(after("fillseq", "newiteratorwhilewriting", &writer), "1000 operations;");
    let merges = ["--merge_operator=put", "--reads=500"];
    assert_eq!(after("fillseq", "readwhilemerging", &merges), "500 operations; (500 of 500 found)");
    // As in RocksDB, the scan counts as well.
    assert_eq!(
        after("fillseq", "readwhilescanning", &["--reads=500"]),
        "1000 operations; (500 of 500 found)"
    );
}

#[test]
fn the_writer_can_be_told_to_finish() {
    let dir = TempDir::new("bench");
    let flags = ["--num=1000", "--seed=1", "--writes=300", "--reads=1", "--finish_after_writes"];
    let out = run(&dir, &[&flags[..], &["--benchmarks=readwhilewriting,readseq"]].concat()).ok();
    // The order of the threads decides whether the key exists yet.
    assert!(result(&out, "readwhilewriting").starts_with("1 operations; ("));
    assert!(out.contains("\nreadseq      : "), "{out}");
}

#[test]
fn seeks_step_both_ways_and_stop_at_their_bounds() {
    let bytes_of = |flags: &[&str]| {
        let dir = TempDir::new("bench");
        let fill = ["--benchmarks=fillseq,seekrandom", "--num=1000", "--seed=1", "--reads=100"];
        let out = run(&dir, &[&fill[..], flags].concat()).ok();
        assert_eq!(result(&out, "seekrandom"), "100 operations; (100 of 100 found)");
        out.lines().any(|line| line.starts_with("seekrandom") && line.contains("MB/s"))
    };
    assert!(!bytes_of(&[]));
    assert!(bytes_of(&["--seek_nexts=10"]));
    assert!(bytes_of(&["--seek_nexts=10", "--reverse_iterator", "--max_scan_distance=5"]));
    assert!(bytes_of(&["--seek_nexts=10", "--max_scan_distance=5", "--explicit_snapshot"]));
}

#[test]
fn seeks_can_delete_what_lies_ahead() {
    let flags = ["--reads=5", "--seek_nexts_to_delete=3"];
    let dir = TempDir::new("bench");
    let fill = ["--benchmarks=fillseq,seekrandom", "--num=1000", "--seed=1"];
    run(&dir, &[&fill[..], &flags].concat()).ok();
    let again = run(&dir, &["--benchmarks=readseq", "--use_existing_db", "--num=1000"]).ok();
    let left: u64 = result(&again, "readseq").strip_suffix(" operations;").unwrap().parse().unwrap();
    assert!((985..=988).contains(&left), "{left}");
}

#[test]
fn checksums_and_codecs_run() {
    let names = ["crc32c", "xxhash", "xxhash64", "xxh3", "compress", "uncompress"];
    let list = format!("--benchmarks={}", names.join(","));
    // The clock moves a millisecond at each read, and here each operation reads it.
    let ran = run_on_nothing(&[&list, "--seed=1", "--duration=1", "--ops_between_duration_checks=1"]).ok();
    for name in names {
        let operations: u64 = result(&ran, name).split(' ').next().unwrap().parse().unwrap();
        assert!((900..=1000).contains(&operations), "{name}: {operations}");
    }
    assert_eq!(result(&ran, "crc32c").split_once(';').unwrap().1, " (4096 per op)");
    // Half of the text repeats, so that a little more than half remains.
    let left = result(&ran, "compress");
    let left = left.split_once("(output: ").unwrap().1.trim_end_matches("%)").parse::<f64>().unwrap();
    assert!((50.0..65.0).contains(&left), "{left}");
}

#[test]
fn repeats_end_with_averages_and_medians() {
    let dir = TempDir::new("bench");
    let out = run(&dir, &["--benchmarks=fillseq,readrandom[-W1-X3]", "--num=1000", "--seed=1"]).ok();
    assert!(out.contains("\nWarming up benchmark by running 1 times\n"), "{out}");
    assert!(out.contains("\nRunning benchmark for 3 times\n"), "{out}");
    assert_eq!(out.matches("\nreadrandom   : ").count(), 4, "{out}");
    assert_eq!(out.matches("\nreadrandom [AVG 2 runs] : ").count(), 1, "{out}");
    assert_eq!(out.matches("\nreadrandom [AVG    3 runs] : ").count(), 1, "{out}");
    assert_eq!(out.matches("\nreadrandom [MEDIAN 3 runs] : ").count(), 1, "{out}");
}

#[test]
fn meta_operations_print_what_rocksdb_prints() {
    let dir = TempDir::new("bench");
    let list = "--benchmarks=fillseq,flush,waitforcompaction,levelstats,stats,memstats,sstables,compactall";
    let out = run(&dir, &[list, "--num=1000", "--seed=1"]).ok();
    assert!(out.contains("\nflush memtable\n"), "{out}");
    assert!(out.contains("): finished with status (OK)\n"), "{out}");
    assert!(out.contains("\nLevel Files Size(MB)\n--------------------\n  0        1        0\n"), "{out}");
    assert!(out.contains("** Compaction Stats [default] **"), "{out}");
    assert!(out.contains("rocksdb.num-entries-active-mem-table: 0\n"), "{out}");
    assert!(!out.contains("(failed)"), "{out}");
}

#[test]
fn an_existing_database_is_kept_and_read() {
    let dir = TempDir::new("bench");
    run(&dir, &["--benchmarks=fillseq", "--num=1000", "--seed=1"]).ok();
    for keep in ["--use_existing_db", "--readonly"] {
        let out = run(&dir, &["--benchmarks=fillseq,readrandom", "--num=1000", "--seed=1", keep]).ok();
        assert!(out.contains("fillseq      : skipped (--use_existing_db is true)\n"), "{out}");
        assert_eq!(result(&out, "readrandom"), "1000 operations; (1000 of 1000 found)");
    }
    let afresh = run(&dir, &["--benchmarks=readseq", "--num=1000", "--seed=1"]).ok();
    assert_eq!(result(&afresh, "readseq"), "1 operations;");
}

#[test]
fn wals_can_lie_beside_the_tables_or_elsewhere() {
    let dir = TempDir::new("bench");
    for wal_dir in ["db", "wals"] {
        let wal_dir = format!("--wal_dir={}", dir.join(wal_dir).display());
        for _ in 0..2 {
            let out = run(&dir, &["--benchmarks=fillseq,fillseq", "--num=1000", "--seed=1", &wal_dir]).ok();
            assert_eq!(result(&out, "fillseq"), "1000 operations;");
        }
    }
}

#[test]
fn a_duration_takes_the_place_of_counts() {
    let flags = [
        "-benchmarks=multireadrandom",
        "-readonly",
        "-seed=1",
        "-num=5",
        "-duration=1",
        "-multiread_batched",
        "-batch_size=200",
    ];
    let ran = run_on_nothing(&flags).ok();
    // The benchmark reads the clock a thousand times, once every 1000 keys.
    let operations: u64 = result(&ran, "multireadrandom").split(' ').next().unwrap().parse().unwrap();
    assert!((990_000..=1_010_000).contains(&operations), "{operations}");
}

#[test]
fn histograms_statistics_and_intervals_are_reported() {
    let dir = TempDir::new("bench");
    let report = format!("--report_file={}", dir.join("report.csv").display());
    let flags = [
        "--benchmarks=fillseq,readrandom",
        "--num=1000",
        "--seed=1",
        "--histogram",
        "--statistics",
        "--report_interval_seconds=100",
        "--stats_interval=500",
        "--stats_per_interval=1",
        report.as_str(),
    ];
    let ran = run(&dir, &flags);
    assert!(ran.err.contains(" ... thread 0: (500,500) ops and ("), "{}", ran.err);
    assert!(ran.err.contains("\nnum-running-flushes: 0\n"), "{}", ran.err);
    let out = ran.ok();
    assert!(out.contains("Microseconds per write:\nCount: 1000 "), "{out}");
    assert!(out.contains("Microseconds per read:\nCount: 1000 "), "{out}");
    assert!(out.contains("\nSTATISTICS:\nrocksdb.block.cache.miss COUNT : "), "{out}");
    let report = std::fs::read_to_string(dir.join("report.csv")).unwrap();
    assert_eq!(report, "secs_elapsed,interval_qps\n");
}

#[test]
fn perf_contexts_follow_the_line_if_asked_for() {
    let dir = TempDir::new("bench");
    let fill = ["--benchmarks=fillseq,flush,readrandom", "--num=1000", "--seed=1"];
    let out = run(&dir, &[&fill[..], &["--perf_level=2"]].concat()).ok();
    assert!(out.contains("\nPerf Level: 2\n"), "{out}");
    assert!(out.contains("(1000 of 1000 found)\n PERF_CONTEXT:\nuser_key_comparison_count = "), "{out}");
    assert!(!run(&dir, &fill).ok().contains("PERF_CONTEXT"));
}

#[test]
fn prefixes_and_filters_can_be_had() {
    let flags = [
        "--prefix_size=8",
        "--keys_per_prefix=10",
        "--bloom_bits=10",
        "--memtable_bloom_size_ratio=0.1",
        "--cache_index_and_filter_blocks",
        "--cache_size=1000000",
        "--cache_numshardbits=2",
    ];
    assert_eq!(after("fillseq,compact", "readrandom", &flags), "1000 operations; (1000 of 1000 found)");
    for ribbon in [["--use_ribbon_filter"], ["--ribbon_starting_level=1"]] {
        let flags = [&["--bloom_bits=10"], &ribbon[..]].concat();
        assert_eq!(after("fillseq,compact", "readrandom", &flags), "1000 operations; (1000 of 1000 found)");
    }
}

#[test]
fn reports_come_as_often_as_asked_for() {
    // With histograms each operation reads the clock, which then moves a millisecond.
    let flags =
        ["--benchmarks=fillseq", "--num=5500", "--seed=1", "--histogram", "--stats_interval_seconds=2"];
    let ran = run_on_nothing(&flags);
    assert_eq!(ran.err.matches(" ... thread 0: (").count(), 2, "{}", ran.err);
    assert!(ran.err.contains(" ... thread 0: (2000,4000) ops and ("), "{}", ran.err);
    let ran = run_on_nothing(&["--benchmarks=fillseq", "--num=5500", "--seed=1", "--noprogress_reports"]);
    assert!(!ran.err.contains("..."), "{}", ran.err);
}
