//! `esker ldb repair --salvage` as a user calls it, beside RocksDB's `ldb repair`.

use crate::run::{copy, esker, files, ldb, ldb_with_input, peer};
use esker_testkit::TempDir;
use std::path::{Path, PathBuf};

/// A database with two tables of many blocks: the second overwrites some keys of the first and
/// deletes others.
fn two_tables(temp: &TempDir) -> PathBuf {
    let db = temp.join("db");
    let lines: String = (0..2000).map(|n| format!("key{n:05} ==> value {n} of the first table\n")).collect();
    let flags = ["--create_if_missing", "--compression_type=no", "--block_size=1000"];
    ldb_with_input(&db, &[&flags[..], &["load"]].concat(), lines).ok();
    let lines: String = (0..2000).step_by(2).map(|n| format!("key{n:05} ==> newer {n}\n")).collect();
    ldb_with_input(&db, &["--compression_type=no", "load"], lines).ok();
    ldb(&db, &["deleterange", "key00500", "key00600"]).ok();
    assert_eq!(files(&db, ".sst").len(), 2);
    db
}

fn overwrite(path: &Path, at: usize, noise: &[u8]) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at..at + noise.len()].copy_from_slice(noise);
    std::fs::write(path, bytes).unwrap();
}

fn contents(db: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    files(db, "")
        .into_iter()
        .filter(|f| f.is_file())
        .map(|f| (f.clone(), std::fs::read(f).unwrap()))
        .collect()
}

#[test]
fn a_bad_block_is_named_with_its_keys_and_the_rest_is_kept() {
    let temp = TempDir::new("tools-salvage");
    let db = two_tables(&temp);
    let table = files(&db, ".sst").remove(0);
    overwrite(&table, 20_000, b"sixteen of noise");
    let before = contents(&db);
    let dry = ldb(&db, &["repair", "--salvage", "--dry_run"]);
    assert!(contents(&db) == before, "a dry run changes nothing");
    assert!(dry.code == Some(1) && dry.out.contains("dry run: nothing was changed\n"), "{dry:?}");

    let done = ldb(&db, &["repair", "--salvage"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    let bad_line = done.out.lines().find(|line| line.contains("bad, keys from")).unwrap();
    let name = table.file_name().unwrap().to_str().unwrap();
    assert!(
        bad_line.contains(&format!("{name}: 1 of ")) && bad_line.contains(" may be missing: "),
        "{bad_line}"
    );
    assert!(done.err.contains("data is lost"), "{done:?}");
    let bad_lines =
        |text: &str| text.lines().filter(|l| l.contains("blocks bad")).map(str::to_owned).collect();
    let (of_dry, of_repair): (Vec<_>, Vec<String>) = (bad_lines(&dry.out), bad_lines(&done.out));
    assert_eq!(of_dry, of_repair);
    let found = ldb(&db, &["scan"]).ok().lines().count();
    assert!((1860..1900).contains(&found), "{found} keys");
    esker(&["verify", db.to_str().unwrap()]).ok();
    assert!(db.join("lost").join(name).exists());
    assert_eq!(ldb(&db, &["repair", "--salvage"]).ok(), "OK\n", "nothing is lost any more");
}

#[test]
fn a_flipped_bit_is_flipped_back() {
    let temp = TempDir::new("tools-mended");
    let db = two_tables(&temp);
    let before = ldb(&db, &["scan"]).ok();
    let table = files(&db, ".sst").remove(0);
    crate::run::flip(&table, 20_000);
    let bad_lines = ldb(&db, &["repair", "--salvage"]).ok();
    assert!(bad_lines.contains("1 blocks had one flipped bit") && bad_lines.ends_with("OK\n"), "{bad_lines}");
    assert_eq!(ldb(&db, &["scan"]).ok(), before);
}

#[test]
fn a_plain_repair_says_which_table_it_drops_and_fails() {
    let temp = TempDir::new("tools-dropped");
    let db = two_tables(&temp);
    let table = files(&db, ".sst").remove(0);
    overwrite(&table, 20_000, b"sixteen of noise");
    let done = ldb(&db, &["repair"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    let name = table.file_name().unwrap().to_str().unwrap();
    assert!(done.out.contains(&format!("lost: table {name}: ")) && !done.out.contains("OK"), "{done:?}");
    assert!(done.err.contains("--salvage"), "{done:?}");
    // Follows the message: moves the table back, so that its readable blocks are added to the
    // database.
    std::fs::rename(db.join("lost").join(name), &table).unwrap();
    let done = ldb(&db, &["repair", "--salvage"]);
    assert!(done.out.contains("entries kept in"), "{done:?}");
    assert!(ldb(&db, &["scan"]).ok().lines().count() > 1850);
}

/// A key that RocksDB's repair keeps is kept by ours.
#[test]
fn a_salvage_keeps_what_rocksdbs_repair_keeps() {
    let temp = TempDir::new("tools-salvage-peer");
    let db = two_tables(&temp);
    let size = std::fs::metadata(&files(&db, ".sst")[0]).unwrap().len() as usize;
    let (mut more, mut cases) = (0, 0);
    for (n, at) in (100..size - 60).step_by(size / 9).chain([size - 53, size - 200]).enumerate() {
        let (theirs, ours) = (temp.join(format!("theirs-{n}")), temp.join(format!("ours-{n}")));
        copy(&db, &theirs);
        let table = files(&theirs, ".sst").remove(0);
        overwrite(&table, at, b"sixteen of noise");
        copy(&theirs, &ours);
        let path = format!("--db={}", theirs.display());
        let Some(done) = peer("ldb", &[&path, "repair"]) else { return };
        assert!(done.out.contains("OK") || done.err.contains("OK"), "{done:?}");
        let scanned = peer("ldb", &[&path, "scan"]).unwrap();
        ldb(&ours, &["repair", "--salvage"]);
        let own = ldb(&ours, &["scan"]).ok();
        let own: std::collections::BTreeSet<&str> = own.lines().collect();
        // A read of the damaged block ends RocksDB's scan.
        for line in scanned.out.lines().filter(|line| line.contains(" : ")) {
            let key = line.split(" : ").next().unwrap();
            let has = own.iter().any(|own| own.starts_with(key));
            assert!(own.contains(line) || has, "offset {at}: {line} is missing");
        }
        more += own.len().saturating_sub(scanned.out.lines().filter(|l| l.contains(" : ")).count());
        cases += 1;
    }
    println!("{cases} cases; ours kept {more} more keys");
    assert!(more > 1000, "{more}");
}
