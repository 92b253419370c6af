//! `esker explain`, as a user calls it.

use crate::run::{esker, ldb};
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
    let told = explain(&["get", "b"]).ok();
    assert!(told.starts_with("get in 'default' at sequence 3: "), "{told}");
    assert!(told.contains("key \"b\": found, 1 B, "), "{told}");
    assert!(told.contains("this settles it: the search ends"), "{told}");
    assert!(explain(&["--hex", "get", "0x62"]).ok().contains("key \"b\": found, 1 B, "));
    let json = explain(&["--json", "multiget", "a", "z"]).ok();
    assert!(json.starts_with(r#"{"operation": "multiget", "#) && json.ends_with("}\n"), "{json}");
    assert!(json.contains(r#""key": "z", "outcome": "not found""#), "{json}");
    assert!(explain(&["seek", "aa"]).ok().contains("1 rows, 2 B, \"b\" to \"b\""));
    let scan = explain(&["--warm", "scan", "--to", "c", "--reverse"]).ok();
    assert!(scan.contains("2 rows, 4 B, \"b\" to \"a\""), "{scan}");
    assert!(explain(&["--column-family", "none", "get", "a"]).failed().contains("no column family 'none'"));
}
