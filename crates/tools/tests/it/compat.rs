//! `esker compat`, `esker compare`, `esker ldb downgrade` and `esker ldb repair`, as a user calls
//! them.

use crate::run::{ProgramResult, copy, esker, files, flip, ldb, sample};
use esker_testkit::TempDir;
use std::path::{Path, PathBuf};

fn fixture(temp: &TempDir, name: &str) -> PathBuf {
    let from = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures")).join(name).join("db");
    let to = temp.join(name);
    copy(&from, &to);
    to
}

fn compare(a: &Path, b: &Path) -> ProgramResult {
    esker(&["compare", a.to_str().unwrap(), b.to_str().unwrap()])
}

#[test]
fn the_compat_report_says_what_needs_the_newest_and_a_downgrade_takes_it_out() {
    let temp = TempDir::new("tools-compat");
    let (db, before) = (fixture(&temp, "v11_9_separate_kv"), temp.join("before"));
    copy(&db, &before);
    let output = esker(&["compat", db.to_str().unwrap()]).ok();
    assert!(
        output.starts_with(
            "RocksDB 11.0 and later open it; it needs\n  11.0: separate_key_value_in_data_block"
        )
    );
    assert_eq!(esker(&["door", db.to_str().unwrap()]).ok(), output, "the old spelling is accepted");
    let json = esker(&["compat", "--json", db.to_str().unwrap()]).ok();
    assert!(json.starts_with(r#"{"oldest":"11.0","tools":"#), "{json}");
    assert!(
        json.contains(r#""compatible_with":["11.x","11.10"],"needs":[{"feature":"separate_key_value"#),
        "{json}"
    );
    let done = ldb(&db, &["downgrade", "--to", "7.8"]).ok();
    assert!(done.ends_with("OK: RocksDB 7.8 and later open it\n"), "{done}");
    assert!(done.contains("gone: format_version=7"), "{done}");
    assert!(esker(&["compat", db.to_str().unwrap()]).ok().starts_with("RocksDB 7.8 and later open it\n"));
    assert!(compare(&before, &db).ok().starts_with("equal: 1 column families, "));
    assert!(ldb(&db, &["downgrade", "--to", "6.0"]).failed().contains("one of 7.8, 8.x"));
    let hopeless = fixture(&temp, "v11_9_udt_memtable_only");
    let refused = ldb(&hopeless, &["downgrade", "--to=7.8"]).failed();
    assert!(refused.contains("persist_user_defined_timestamps=false needs RocksDB 8.4"), "{refused}");
}

#[test]
fn the_compat_report_of_nothing_is_an_error() {
    let temp = TempDir::new("tools-compat-none");
    assert!(esker(&["compat", temp.path().to_str().unwrap()]).failed().contains("CURRENT"));
}

#[test]
fn comparing_names_the_first_difference_and_says_it_by_its_exit_code() {
    let temp = TempDir::new("tools-compare");
    let (a, b) = (sample(&temp), temp.join("b"));
    copy(&a, &b);
    assert_eq!(compare(&a, &b).ok(), "equal: 2 column families, 6 keys\n");
    // Another way to store the same.
    ldb(&b, &["compact"]).ok();
    assert_eq!(compare(&a, &b).ok(), "equal: 2 column families, 6 keys\n");
    ldb(&b, &["put", "a3", "other"]).ok();
    let result = compare(&a, &b);
    assert_eq!(result.err, "column family 'default': key 0x6133: 0x7468726565 and 0x6F74686572\n");
    assert_eq!(result.code, Some(1));
    ldb(&b, &["delete", "a1"]).ok();
    assert!(compare(&a, &b).failed().contains(&format!("key 0x6131: only in {}", a.display())));
    ldb(&b, &["drop_column_family", "cf1"]).ok();
    assert!(compare(&a, &b).failed().contains("column family 'cf1': only in"));
    assert_eq!(compare(&a, temp.path()).code, Some(2), "a directory without a database is refused");
}

#[test]
fn columns_and_timestamps_are_compared() {
    let temp = TempDir::new("tools-compare-columns");
    for name in ["v11_9_wide_columns", "v11_9_udt_u64", "v7_8_blob"] {
        let (a, b) = (fixture(&temp, name), temp.join(format!("{name}-again")));
        copy(&a, &b);
        ldb(&b, &["downgrade", "--to", "7.8"]).ok();
        assert!(compare(&a, &b).ok().starts_with("equal: "), "{name}");
    }
    let (seven, eleven) = (fixture(&temp, "v7_8_udt_u64"), fixture(&temp, "v7_8_wide_columns"));
    assert!(compare(&seven, &eleven).failed().contains("the order is leveldb.BytewiseComparator"));
}

#[test]
fn a_repair_keeps_what_is_whole_and_lists_what_is_not() {
    let temp = TempDir::new("tools-repair");
    let db = sample(&temp);
    ldb(&db, &["put", "z", "in a table of its own"]).ok();
    ldb(&db, &["--column_family=cf1", "compact"]).ok();
    let tables = files(&db, ".sst");
    let newest = tables.last().unwrap();
    flip(newest, 20);
    std::fs::remove_file(db.join("CURRENT")).unwrap();
    let done = ldb(&db, &["repair", "--verbose"]);
    let lost = format!("lost: table {}: ", newest.file_name().unwrap().to_str().unwrap());
    assert!(done.code == Some(1) && done.out.contains(&lost), "{done:?}");
    assert!(!done.out.contains("OK"), "{done:?}");
    assert_eq!(ldb(&db, &["get", "a1"]).ok(), "one\n");
    assert!(ldb(&temp.join("nothing"), &["repair"]).failed().contains("does not exist"));
}

/// The remains of a power loss in a MANIFEST that was being synced: half a record, and zeros or
/// something else behind it. RocksDB refuses both, too.
#[test]
fn a_manifest_with_a_torn_record_before_other_bytes_says_how_it_is_repaired() {
    for (what, tail) in [("zeros", [0u8; 100]), ("garbage", [0xA5; 100])] {
        let temp = TempDir::new("tools-torn-manifest");
        let db = sample(&temp);
        let manifest = files(&db, "").into_iter().find(|path| path.to_string_lossy().contains("MANIFEST-"));
        let manifest = manifest.expect("there is one");
        let mut bytes = std::fs::read(&manifest).unwrap();
        let half = bytes.len() - 3;
        bytes.truncate(half);
        bytes.extend_from_slice(&tail);
        std::fs::write(&manifest, &bytes).unwrap();
        let result = ldb(&db, &["get", "a1"]).failed();
        let name = manifest.file_name().unwrap().to_string_lossy().into_owned();
        assert!(result.contains(&name) && result.contains("esker ldb repair"), "{what}: {result}");
        let output = ldb(&db, &["repair", "--verbose"]).ok();
        assert!(!output.contains("lost: ") && output.ends_with("OK\n"), "{what}: {output}");
        assert_eq!(ldb(&db, &["get", "a1"]).ok(), "one\n", "{what}");
    }
}
