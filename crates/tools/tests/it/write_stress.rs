//! `esker write_stress`.

use crate::run::esker;
use esker_testkit::TempDir;

#[test]
fn writes_beside_iterators_leave_no_table_behind() {
    let temp = TempDir::new("write-stress");
    let db = format!("--db={}", temp.join("db").display());
    let flags = ["write_stress", &db, "--runtime_sec=2", "--iterator_hold_sec=1", "--low_open_files_mode"];
    let told = esker(&[&flags[..], &["--prefix_mutate_period_sec=0.1"]].concat()).ok();
    assert!(told.starts_with("OK: ") && told.ends_with(" iterators\n"), "{told}");
    assert!(esker(&["verify", temp.join("db").to_str().unwrap()]).ok().contains("OK"));
}

#[test]
fn flags_that_cannot_be_meant_are_named_before_anything_is_deleted() {
    let temp = TempDir::new("write-stress-flags");
    let dir = temp.join("db");
    let db = format!("--db={}", dir.display());
    esker(&["ldb", &db, "--create_if_missing", "put", "a", "1"]).ok();
    for (flag, name) in [
        ("--key_size=2", "--key_size"),
        ("--sync_probability=2", "--sync_probability"),
        ("--runtime_sec=-5", "--runtime_sec"),
        ("--prefix_mutate_period_sec=-1", "--prefix_mutate_period_sec"),
    ] {
        assert!(esker(&["write_stress", &db, flag]).failed().contains(name), "{flag}");
    }
    assert_eq!(esker(&["ldb", &db, "get", "a"]).ok(), "1\n");
}
