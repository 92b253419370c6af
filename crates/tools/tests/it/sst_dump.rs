//! `esker sst_dump` alone.

use crate::run::{esker, files, flip, sample};
use esker_testkit::TempDir;

#[test]
fn a_table_is_shown() {
    let temp = TempDir::new("sst-dump");
    let db = sample(&temp);
    let all = esker(&["sst_dump", &format!("--file={}", db.display()), "--command=scan"]).ok();
    assert!(all.contains("'a1' seq:") && all.contains("type:1 => one\n"), "{all}");
    let table = files(&db, ".sst").remove(0);
    let file = format!("--file={}", table.display());
    let checked = esker(&["sst_dump", &file, "--show_properties"]).ok();
    assert!(checked.contains("\nfrom [] to []\n") && checked.contains("\n  # entries: "), "{checked}");
    assert!(esker(&["sst_dump", &file, "--command=verify"]).ok().ends_with("The file is ok\n"));
    assert!(esker(&["sst_dump", &file, "--command=identify"]).ok().ends_with(" is a valid SST file\n"));
    let dumped = esker(&["sst_dump", &file, "--command=raw"]).ok();
    let text = files(&db, "_dump.txt").remove(0);
    assert!(dumped.ends_with(&format!("raw dump written to file {}\n", text.display())));
    assert!(std::fs::read_to_string(text).unwrap().starts_with("Footer Details:\n"));
}

#[test]
fn damage_and_foreign_files_are_told() {
    let temp = TempDir::new("sst-dump-damage");
    let db = sample(&temp);
    let table = files(&db, ".sst").remove(0);
    flip(&table, 5);
    let file = format!("--file={}", table.display());
    for command in ["check", "scan", "verify"] {
        let told = esker(&["sst_dump", &file, &format!("--command={command}")]).failed();
        assert!(told.contains("checksum mismatch") && told.contains("offset 0"), "{told}");
    }
    let current = format!("--file={}", db.join("CURRENT").display());
    assert!(esker(&["sst_dump", &current]).failed().contains("CURRENT is not a valid SST file"));
    assert!(esker(&["sst_dump", "--file=/nowhere"]).failed().contains("/nowhere"));
}

#[test]
fn the_first_of_several_damaged_files_is_told() {
    let temp = TempDir::new("sst-dump-damages");
    let db = sample(&temp);
    let tables = files(&db, ".sst");
    assert!(tables.len() > 1);
    tables.iter().for_each(|table| flip(table, 5));
    let told = esker(&["sst_dump", &format!("--file={}", db.display())]).failed();
    assert!(told.contains(tables[0].to_str().unwrap()), "{told}");
}
