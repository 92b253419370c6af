//! The program from outside: a small run, and what it says to nonsense.
#![allow(clippy::disallowed_methods, reason = "what is tested here is a process and its files")]

use esker_testkit::TempDir;
use std::process::{Command, Output};

fn compare(dir: &TempDir, flags: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_esker-compare"))
        .args(flags)
        .arg("--json")
        .arg(dir.join("compare.json"))
        .env_remove("ESKER_ROCKSDB_LIBRARY")
        .output()
        .expect("the program can be started")
}

fn errors(output: &Output) -> String {
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_small_run_gives_figures_for_every_step() {
    let dir = TempDir::new("compare");
    let work = dir.join("work");
    let flags = ["--num", "2000", "--pairs", "2", "--engines", "esker,memory", "--no-warm-up", "--directory"];
    let output = compare(&dir, &[&flags[..], &[work.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{output:?}");
    assert!(!work.exists(), "the work directory is deleted");
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(table.contains("seekrandom + 100 nexts"), "{table}");

    let page = std::fs::read_to_string(dir.join("compare.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    for fetched in ["<script", "<link", "src=", "url(", "@import"] {
        assert!(!page.contains(fetched), "the page stands alone: {fetched}");
    }

    let report: serde_json::Value =
        serde_json::from_slice(&std::fs::read(dir.join("compare.json")).unwrap()).unwrap();
    assert_eq!(report["partial"], false, "{report}");
    for row in report["suites"].as_array().unwrap().iter().flat_map(|s| s["rows"].as_array().unwrap()) {
        let mut digests = Vec::new();
        for cell in row["cells"].as_array().unwrap() {
            let samples = cell["samples"].as_array().unwrap();
            assert!(samples.len() == 2 || cell["missing"].is_string(), "{row}");
            digests.extend(samples.iter().map(|sample| sample["digest"].as_u64().unwrap()));
        }
        digests.dedup();
        assert!(digests.len() <= 1, "every engine reads the same values: {row}");
    }
}

#[test]
fn nonsense_is_refused_by_name() {
    let dir = TempDir::new("compare");
    let cases: &[(&[&str], &str)] = &[
        (&["--only", "core/fillsec"], "core/fillsec"),
        (&["--num", "3"], "--num"),
        (&["--engines", "sqlite"], "sqlite"),
        (&["--step-seconds", "0"], "--step-seconds"),
        (&["--pears", "5"], "--pears"),
    ];
    for (flags, word) in cases {
        let output = compare(&dir, flags);
        assert!(errors(&output).contains(word), "{flags:?}: {output:?}");
    }
}

#[test]
fn a_directory_that_belongs_to_something_else_is_left_alone() {
    let dir = TempDir::new("compare");
    let foreign = dir.join("thesis.txt");
    std::fs::write(&foreign, "chapter 1").unwrap();
    let output = compare(&dir, &["--engines", "esker", "--directory", dir.path().to_str().unwrap()]);
    assert!(errors(&output).contains("it holds something else"), "{output:?}");
    assert_eq!(std::fs::read_to_string(foreign).unwrap(), "chapter 1");
}

#[test]
fn a_peer_that_is_not_there_is_left_out_by_name() {
    let dir = TempDir::new("compare");
    let output = compare(&dir, &["--engines", "rocksdb", "--rocksdb-library", "/nowhere/librocksdb.so"]);
    let text = errors(&output);
    assert!(text.contains("RocksDB is left out: /nowhere/librocksdb.so is not there"), "{text}");
}

#[test]
fn an_esker_library_that_is_not_there_is_left_out_by_name() {
    let dir = TempDir::new("compare");
    let output = compare(&dir, &["--engines", "esker-c", "--esker-library", "/nowhere/librocksdb.so.11"]);
    let text = errors(&output);
    assert!(text.contains("Esker (C ABI) is left out: /nowhere/librocksdb.so.11 is not there"), "{text}");
}

#[test]
fn an_engine_that_dies_is_named_and_the_others_go_on() {
    let dir = TempDir::new("compare");
    let library = dir.join("librocksdb.so");
    std::fs::write(&library, "not a library").unwrap();
    let flags = ["--engines", "rocksdb,memory", "--only", "core/fillseq", "--num", "1000", "--pairs", "2"];
    let output = compare(&dir, &[&flags[..], &["--rocksdb-library", library.to_str().unwrap()]].concat());
    assert!(errors(&output).contains("partial"), "{output:?}");
    let report: serde_json::Value =
        serde_json::from_slice(&std::fs::read(dir.join("compare.json")).unwrap()).unwrap();
    assert_eq!(report["partial"], true);
    assert!(
        report["problems"][0].as_str().unwrap().contains("RocksDB stopped at 'core/fillseq'"),
        "{report}"
    );
    let cells = &report["suites"][0]["rows"][0]["cells"];
    assert_eq!(cells[1]["kind"], "memory");
    assert_eq!(cells[1]["samples"].as_array().unwrap().len(), 2, "measured samples are kept");
}

/// Fills are cut at different places in each round; the run fails if engines or rounds then read
/// different values.
#[test]
fn fills_that_are_cut_are_completed() {
    let dir = TempDir::new("compare");
    let flags =
        ["--num", "2000", "--pairs", "2", "--engines", "esker,memory", "--no-warm-up", "--only", "core"];
    let output = compare(&dir, &[&flags[..], &["--step-seconds", "0.002"]].concat());
    assert!(output.status.success(), "{output:?}");
}
