//! `esker explain`, as a user calls it.

use crate::run::{esker, files, flip, ldb, sample};
use esker_testkit::TempDir;

#[test]
fn reads_are_explained_for_people_and_programs() {
    let temp = TempDir::new("tools-explain");
    let db = temp.join("db");
    ldb(&db, &["--create_if_missing", "batchput", "a", "1", "b", "2", "c", "3"]).ok();
    let explain = |arguments: &[&str]| {
        let command = [&["explain", db.to_str().unwrap()], arguments].concat();
        esker(&command)
    };
    let output = explain(&["get", "b"]).ok();
    assert!(output.starts_with("get in 'default' at sequence 3: "), "{output}");
    assert!(output.contains("key \"b\": found, 1 B, "), "{output}");
    assert!(output.contains("this settles it: the search ends"), "{output}");
    assert!(explain(&["--hex", "get", "0x62"]).ok().contains("key \"b\": found, 1 B, "));
    let json = explain(&["--json", "multiget", "a", "z"]).ok();
    assert!(json.starts_with(r#"{"operation": "multiget", "#) && json.ends_with("}\n"), "{json}");
    assert!(json.contains(r#""key": "z", "outcome": "not found""#), "{json}");
    assert!(explain(&["seek", "aa"]).ok().contains("1 rows, 2 B, \"b\" to \"b\""));
    let scan = explain(&["--warm", "scan", "--to", "c", "--reverse"]).ok();
    assert!(scan.contains("2 rows, 4 B, \"b\" to \"a\""), "{scan}");
    assert!(explain(&["--column-family", "none", "get", "a"]).failed().contains("no column family 'none'"));
}

#[test]
fn flags_may_come_before_or_after_the_operation_in_both_spellings() {
    let temp = TempDir::new("tools-explain-flags");
    let db = temp.join("db");
    ldb(&db, &["--create_if_missing", "batchput", "a", "1"]).ok();
    let dir = db.to_str().unwrap();
    for flag in ["--column-family", "--column_family"] {
        let output = esker(&["explain", dir, "get", "a", flag, "default"]).ok();
        assert!(output.contains("found, 1 B"), "{output}");
        let output = esker(&["explain", dir, flag, "default", "scan", "--json"]).ok();
        assert!(output.starts_with('{'), "{output}");
        assert_eq!(ldb(&db, &["get", "a", &format!("{flag}=default")]).ok().trim(), "1");
    }
}

#[test]
fn a_failed_read_fails_the_program() {
    let temp = TempDir::new("tools-explain-corruption");
    let db = sample(&temp);
    let dir = db.to_str().unwrap();
    let scan = ["explain", dir, "scan", "--rows", "1000000"];
    esker(&scan).ok();
    // A byte of the first data block: the tables open still.
    files(&db, ".sst").iter().for_each(|table| flip(table, 10));
    let output = esker(&scan);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.out.contains("Corruption: "), "{output:?}");
}
