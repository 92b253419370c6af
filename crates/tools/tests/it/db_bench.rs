//! Tests `esker db_bench` from outside: its exit codes, its streams, and RocksDB's own tool beside
//! it.

use crate::run::{esker, peer};
use esker_testkit::TempDir;
use std::path::Path;

fn on(db: &Path, flags: &[&str]) -> Vec<String> {
    let db = format!("--db={}", db.display());
    [db.as_str()].iter().chain(flags).map(|flag| flag.to_string()).collect()
}

fn db_bench(db: &Path, flags: &[&str]) -> crate::run::ProgramResult {
    let flags = on(db, flags);
    let all: Vec<&str> = std::iter::once("db_bench").chain(flags.iter().map(String::as_str)).collect();
    esker(&all)
}

#[test]
fn a_wrong_command_line_is_reported_and_exits_with_1() {
    let dir = TempDir::new("db_bench");
    let why = db_bench(&dir.join("db"), &["-benchmark=fillseq"]).failed();
    assert!(
        why.starts_with("db_bench: --benchmark: there is no such flag; did you mean --benchmarks?"),
        "{why}"
    );
    let why = db_bench(&dir.join("db"), &["-benchmarks=fillseq", "-use_blob_db"]).failed();
    assert!(
        why.contains("--use_blob_db: RocksDB's db_bench has this flag, but it is not supported yet"),
        "{why}"
    );
    let why = db_bench(&dir.join("db"), &["-benchmarks=fillsek"]).failed();
    assert_eq!(why, "db_bench: unknown benchmark 'fillsek'; did you mean 'fillseq'?\n");
    assert!(!dir.join("db").exists());
}

#[test]
fn help_and_version_are_results() {
    assert!(esker(&["db_bench", "--help"]).ok().contains("    -bloom_bits ("));
    assert!(esker(&["db_bench", "-version"]).ok().starts_with("db_bench version "));
}

#[test]
fn progress_goes_to_standard_error() {
    let dir = TempDir::new("db_bench");
    let done = db_bench(&dir.join("db"), &["-benchmarks=fillseq", "-num=1000", "-seed=1"]);
    assert!(done.err.contains("... finished 1000 ops"), "{done:?}");
    assert!(!done.out.contains("finished"), "{done:?}");
    assert!(done.ok().contains("\nfillseq      : "));
}

/// Replaces each run of digits by ` 0`, so that lines can be compared without their numbers. Blanks
/// that align a number in its column go too.
fn shape(line: &str) -> String {
    let mut shape = String::new();
    for c in line.trim_end().chars() {
        match c {
            '0'..='9' if shape.ends_with('0') => {}
            '0'..='9' => {
                shape.truncate(shape.trim_end_matches(' ').len());
                shape.push_str(" 0");
            }
            c => shape.push(c),
        }
    }
    shape
}

/// The lines from the first result on. Leaves out empty lines, lines that only one of the tools
/// prints, the database's path, and buckets of histograms, which depend on times.
fn results(out: &str) -> Vec<String> {
    const DROPPED: [&str; 5] = ["Initializing", "Integrated BlobDB", "DB path", "[", "("];
    out.lines()
        .skip_while(|line| !line.starts_with("DB path"))
        .filter(|line| !line.is_empty() && !DROPPED.iter().any(|start| line.starts_with(start)))
        .map(str::to_owned)
        .collect()
}

/// The text `(a of b found)` of each result line.
fn found(lines: &[String]) -> Vec<&str> {
    lines
        .iter()
        .filter(|line| line.contains(" found)"))
        .filter_map(|line| line.rsplit_once('('))
        .map(|l| l.1)
        .collect()
}

#[test]
fn rocksdbs_tool_prints_the_same_lines_and_finds_the_same_keys() {
    let dir = TempDir::new("db_bench");
    let flags = [
        "-num=20000",
        "-seed=7",
        "-progress_reports=0",
        "-compression_type=none",
        "-histogram",
        "-benchmarks=fillrandom,overwrite,readrandom[-X3],readmissing,readseq,readreverse,seekrandom,\
         multireadrandom,updaterandom,readrandomwriterandom,deleterandom,readseq,newiterator,flush,levelstats,compact",
    ];
    let ours = db_bench(&dir.join("ours"), &flags).ok();
    let theirs = on(&dir.join("theirs"), &flags);
    let theirs: Vec<&str> = theirs.iter().map(String::as_str).collect();
    let Some(theirs) = peer("db_bench", &theirs) else { return };
    let (ours, theirs) = (results(&ours), results(&theirs.ok()));
    let shapes = |lines: &[String]| lines.iter().map(|line| shape(line)).collect::<Vec<_>>();
    // Release 11 prints milliseconds in the line of averages, 7.8.3 does not.
    let without_millis = |shapes: Vec<String>| -> Vec<String> {
        shapes.into_iter().map(|line| line.replace("; 0. 0 ms/op", "")).collect()
    };
    assert_eq!(without_millis(shapes(&ours)), without_millis(shapes(&theirs)));
    assert_eq!(found(&ours), found(&theirs));
}
