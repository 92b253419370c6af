//! A benchmark that cannot be run says so, and touches nothing.

use crate::run::{result, run, run_on_store};
use esker::internals::env::{FaultFs, MemFs};
use esker::{Env, Options};
use esker_bench::engine::EskerStore;
use esker_testkit::TempDir;
use std::sync::Arc;

#[test]
fn a_directory_of_something_else_is_left_alone() {
    let dir = TempDir::new("bench");
    std::fs::create_dir(dir.join("db")).unwrap();
    std::fs::write(dir.join("db").join("thesis.tex"), "years of work").unwrap();
    let why = run(&dir, &["--benchmarks=fillseq", "--num=10"]).failed();
    assert!(why.contains("holds files but no database"), "{why}");
    let names: Vec<_> = std::fs::read_dir(dir.join("db")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["thesis.tex"]);
}

#[test]
fn a_file_in_place_of_the_directory_is_named() {
    let dir = TempDir::new("bench");
    std::fs::write(dir.join("db"), "a file").unwrap();
    let why = run(&dir, &["--benchmarks=fillseq", "--num=10"]).failed();
    assert!(why.contains("db"), "{why}");
    assert_eq!(std::fs::read_to_string(dir.join("db")).unwrap(), "a file");
}

#[test]
fn reading_what_is_not_there_is_an_error() {
    let dir = TempDir::new("bench");
    let why = run(&dir, &["--benchmarks=readrandom", "--readonly", "--num=10"]).failed();
    assert!(why.contains("does not exist"), "{why}");
    assert!(!dir.join("db").exists());
}

#[test]
fn an_unknown_benchmark_is_found_before_anything_is_run() {
    let dir = TempDir::new("bench");
    let why = run(&dir, &["--benchmarks=fillseq,readrandum", "--num=10"]).failed();
    assert_eq!(why, "unknown benchmark 'readrandum'; did you mean 'readrandom'?");
    assert!(!dir.join("db").exists());
}

#[test]
fn a_report_that_cannot_be_written_is_an_error() {
    let dir = TempDir::new("bench");
    let file = format!("--report_file={}", dir.join("missing").join("report.csv").display());
    let why = run(&dir, &["--benchmarks=fillseq", "--num=10", "--report_interval_seconds=1", &file]).failed();
    assert!(why.starts_with("--report_file: IO error"), "{why}");
}

#[test]
fn numbers_without_sense_are_named() {
    let dir = TempDir::new("bench");
    for (flag, why) in [
        ("--num=0", "--num: 0 is less than 1"),
        ("--threads=-1", "--threads: -1 is less than 1"),
        ("--compression_ratio=2", "--compression_ratio: must be between 0 and 1"),
        ("--cache_type=tape", "--cache_type: 'tape' is not supported"),
        ("--compression_type=bzip2", "--compression_type: 'bzip2' cannot be written"),
        ("--checksum_type=9", "--checksum_type: 9 is not in 0..=4"),
        ("--perf_level=7", "--perf_level: 7 is not in 1..=6"),
        ("--merge_operator=magic", "--merge_operator: there is no 'magic'"),
        ("--value_size_distribution_type=odd", "'odd' is none of fixed, uniform, normal"),
    ] {
        let failed = run(&dir, &["--benchmarks=fillseq", flag]).failed();
        assert!(failed.contains(why), "{flag}: {failed}");
    }
}

#[test]
fn a_full_disk_ends_the_run_and_keeps_what_was_measured() {
    let faults = FaultFs::new(Arc::new(MemFs::new()));
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(faults.clone()));
    options.cf.write_buffer_size = 64 << 10;
    let store = EskerStore { path: "/db".into(), options, read_only: false, watch: None };
    // The disk is full when the second benchmark has begun to write.
    let list = "--benchmarks=fillseq,overwrite,readrandom";
    let ran = run_on_store(&store, &[list, "--num=2000", "--seed=1"], move |out| {
        if out.contains("\nfillseq ") {
            faults.no_space_after(Some(20_000));
        }
    });
    let out = ran.out.clone();
    let why = ran.failed();
    assert!(why.starts_with("overwrite: put error: IO error: "), "{why}");
    assert!(why.contains("No space left on device"), "{why}");
    assert_eq!(result(&out, "fillseq"), "2000 operations;");
    assert!(result(&out, "overwrite").ends_with("(partial: ended by an error)"), "{out}");
    assert!(!out.contains("readrandom"), "{out}");
}

#[test]
fn a_benchmark_that_only_rocksdb_has_is_named_as_such() {
    let dir = TempDir::new("bench");
    let why = run(&dir, &["--benchmarks=fillseq,mixgraph"]).failed();
    assert_eq!(why, "benchmark 'mixgraph': RocksDB's db_bench has it, but it is not supported yet");
    assert!(!dir.join("db").exists());
}
