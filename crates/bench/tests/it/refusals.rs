//! What cannot be run says so, and touches nothing.

use crate::run::run;
use esker_testkit::TempDir;

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
    assert_eq!(why, "unknown benchmark 'readrandum'");
    assert!(!dir.join("db").exists());
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
        ("--merge_operator=magic", "--merge_operator: there is no 'magic'"),
        ("--value_size_distribution_type=odd", "'odd' is none of fixed, uniform, normal"),
    ] {
        let failed = run(&dir, &["--benchmarks=fillseq", flag]).failed();
        assert!(failed.contains(why), "{flag}: {failed}");
    }
}
