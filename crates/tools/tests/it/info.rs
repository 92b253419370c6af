//! `esker info` on databases of RocksDB and Esker, beside an owner, and on directories that are no
//! database. Every run is checked to leave the directory as it was.

use crate::run::{ProgramResult, copy, esker, files, golden, ldb, sample};
use esker::options::CompactRangeOptions;
use esker::{Db, FlushOptions, Options};
use esker_testkit::TempDir;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Names, times and bytes of all files of a directory.
fn image(dir: &Path) -> BTreeMap<PathBuf, (SystemTime, Vec<u8>)> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let of = |path: &Path| {
        let metadata = std::fs::metadata(path).unwrap();
        let bytes = if metadata.is_file() { std::fs::read(path).unwrap() } else { Vec::new() };
        (metadata.modified().unwrap(), bytes)
    };
    entries.map(|entry| (entry.path(), of(&entry.path()))).collect()
}

/// Runs `esker info`, which must change nothing.
#[track_caller]
fn info(dir: &Path, flags: &[&str]) -> ProgramResult {
    let before = image(dir);
    let result = esker(&[&["info", dir.to_str().unwrap()], flags].concat());
    assert!(image(dir) == before, "{}: a file has changed", dir.display());
    result
}

fn json(dir: &Path) -> Value {
    let text = info(dir, &["--json"]).ok();
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}: {text}", dir.display()))
}

/// The golden databases of RocksDB.
fn all_golden() -> Vec<PathBuf> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures"));
    let dirs = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path().join("db"));
    let mut found: Vec<PathBuf> = dirs.filter(|dir| dir.join("CURRENT").exists()).collect();
    found.sort();
    found
}

/// The sum of a number over a list of objects.
fn sum(list: &Value, name: &str) -> u64 {
    list.as_array().unwrap().iter().map(|item| item[name].as_u64().unwrap()).sum()
}

#[test]
fn every_golden_database_is_described_and_left_alone() {
    let all = all_golden();
    assert!(all.len() > 100, "{} databases", all.len());
    for dir in all {
        let model = json(&dir);
        assert_eq!(model["damage"], Value::Array(Vec::new()), "{}", dir.display());
        let on_disk = files(&dir, ".sst").len() + files(&dir, ".blob").len();
        let named = sum(&model["families"], "tables") + sum(&model["families"], "blob_files");
        let unnamed = model["totals"]["unnamed_files"].as_u64().unwrap();
        assert_eq!(named + unnamed, on_disk as u64, "{}", dir.display());
        for family in model["families"].as_array().unwrap() {
            for name in ["entries", "tombstones"] {
                assert_eq!(family[name].as_u64().unwrap(), sum(&family["levels"], name), "{}", dir.display());
            }
        }
    }
}

#[test]
fn text_fits_into_80_and_140_columns() {
    for name in ["v11_12_column_families", "v11_12_blob", "v7_8_multi_level", "v11_8_udt_reverse"] {
        // A copy under a short name: the paths of the fixtures may be long.
        let temp = TempDir::new("info-width");
        let dir = temp.join("db");
        copy(&golden(name), &dir);
        for width in [80, 140] {
            let text = info(&dir, &["--width", &width.to_string()]).ok();
            let long: Vec<&str> = text.lines().filter(|line| line.chars().count() > width).collect();
            assert!(long.iter().all(|line| line.contains(dir.to_str().unwrap())), "{width}: {long:?}");
            assert!(text.contains("comparator") && text.contains("  level "), "{text}");
        }
    }
}

#[test]
fn sums_are_those_of_the_open_database() {
    let temp = TempDir::new("info-sums");
    let dir = temp.join("db");
    let mut options = Options::new().create_if_missing(true);
    options.cf.enable_blob_files = true;
    options.cf.min_blob_size = 100;
    options.cf.disable_auto_compactions = true;
    let db = Db::open(&options, &dir).unwrap();
    let users = db.create_column_family("users", &options.cf).unwrap();
    for round in 0..3_u32 {
        for key in 0..50_u32 {
            db.put(key.to_be_bytes(), vec![7; 10 + 20 * round as usize]).unwrap();
            db.put_cf(&users, key.to_be_bytes(), vec![8; 150]).unwrap();
        }
        db.delete(round.to_be_bytes()).unwrap();
        db.flush_opt(&FlushOptions::default(), &[&db.default_column_family()]).unwrap();
        db.flush_opt(&FlushOptions::default(), &[&users]).unwrap();
    }
    db.compact_range_opt(&CompactRangeOptions::default(), &users, None, None).unwrap();
    db.wait_for_background_work().unwrap();
    let model = json(&dir);
    let described = model["families"].as_array().unwrap();
    assert_eq!(described.len(), 2);
    for (family, described) in [(db.default_column_family(), &described[0]), (users.clone(), &described[1])] {
        let real = db.column_family_metadata(&family);
        assert_eq!(described["name"], Value::from(real.name.clone()));
        assert_eq!(described["tables"].as_u64().unwrap(), real.file_count as u64);
        assert_eq!(described["table_bytes"].as_u64().unwrap(), real.size);
        assert_eq!(described["blob_files"].as_u64().unwrap(), real.blob_file_count as u64);
        let live = real.levels.iter().flat_map(|level| &level.files);
        let (entries, deletions) = live.fold((0, 0), |(e, d), f| (e + f.num_entries, d + f.num_deletions));
        assert_eq!(described["entries"].as_u64().unwrap(), entries);
        assert_eq!(described["tombstones"].as_u64().unwrap(), deletions);
        for level in described["levels"].as_array().unwrap() {
            let number = level["level"].as_u64().unwrap() as usize;
            assert_eq!(level["bytes"].as_u64().unwrap(), real.levels[number].size, "L{number}");
            assert_eq!(level["files"].as_u64().unwrap(), real.levels[number].files.len() as u64, "L{number}");
        }
    }
    let holders = &model["lock"]["holders"];
    if cfg!(target_os = "linux") {
        assert_eq!(model["lock"]["is_known"], Value::Bool(true));
        assert_eq!(holders[0]["pid"].as_u64(), Some(u64::from(std::process::id())), "{holders}");
    }
    drop((users, db));
    assert_eq!(json(&dir)["lock"]["holders"], Value::Array(Vec::new()));
}

#[test]
fn keys_have_the_wanted_form() {
    let temp = TempDir::new("info-keys");
    let db = sample(&temp);
    assert!(info(&db, &[]).ok().contains("'a1' to 'b2'"));
    assert!(info(&db, &["--hex"]).ok().contains("'0x6131' to '0x6232'"));
    assert!(!info(&db, &["--keys=none"]).ok().contains("' to '"));
}

#[test]
fn damaged_and_missing_files_are_named() {
    let temp = TempDir::new("info-damage");
    let db = sample(&temp);
    let tables = files(&db, ".sst");
    let bytes = std::fs::read(&tables[0]).unwrap();
    std::fs::write(&tables[0], &bytes[..bytes.len() / 2]).unwrap();
    std::fs::remove_file(&tables[1]).unwrap();
    let text = info(&db, &[]).ok();
    let short =
        format!("{} has {} bytes, the MANIFEST says {}", tables[0].display(), bytes.len() / 2, bytes.len());
    assert!(text.contains(&short), "{text}");
    let missing = tables[1].file_name().unwrap().to_str().unwrap();
    assert!(text.contains(&format!("{missing} is missing")), "{text}");
    assert!(text.contains("3 damaged; `esker verify` checks every block"), "{text}");
    let name = tables[0].file_name().unwrap().to_str().unwrap();
    assert!(text.lines().any(|line| line.contains("Corruption") && line.contains(name)), "{text}");
}

#[test]
fn directories_that_are_no_database_are_refused_by_name() {
    let temp = TempDir::new("info-hostile");
    let refused = |dir: &Path, named: &str| {
        let error = info(dir, &[]).failed();
        assert!(error.contains(named), "{error}");
    };
    refused(temp.path(), "CURRENT");
    let (db, file) = (sample(&temp), temp.join("file"));
    std::fs::write(db.join("CURRENT"), "MANIFEST-009999\n").unwrap();
    refused(&db, "MANIFEST-009999");
    std::fs::write(db.join("CURRENT"), "no name").unwrap();
    refused(&db, "CURRENT");
    std::fs::write(&file, "").unwrap();
    let error = esker(&["info", file.to_str().unwrap()]).failed();
    assert!(error.contains(file.to_str().unwrap()), "{error}");
    let gone = temp.join("gone");
    assert!(esker(&["info", gone.to_str().unwrap()]).failed().contains(gone.to_str().unwrap()));
}

/// An open of a FIFO waits for a writer, forever.
#[test]
#[cfg(unix)]
fn a_fifo_in_place_of_a_file_is_refused_by_name() {
    let temp = TempDir::new("info-fifo");
    let db = sample(&temp);
    let table = files(&db, ".sst").remove(0);
    for path in [&table, &db.join("LOG"), &db.join("IDENTITY"), &db.join("LOCK"), &db.join("CURRENT")] {
        std::fs::remove_file(path).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
        let dir = db.to_str().unwrap();
        if path.ends_with("CURRENT") {
            let error = esker(&["info", dir]).failed();
            assert!(error.contains("CURRENT: is a FIFO"), "{error}");
        } else {
            let text = esker(&["info", dir]).ok();
            assert!(text.contains("is a FIFO") || !path.ends_with(table.file_name().unwrap()), "{text}");
        }
    }
    assert!(esker(&["report", db.to_str().unwrap()]).failed().contains("LOG: is a FIFO"));
}

/// The guide quotes an output of the command.
#[test]
fn the_guide_has_the_lines_of_the_output() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/src/what-it-holds.md");
    let page = std::fs::read_to_string(page).unwrap();
    let quoted = page.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    let labels = |text: &str| {
        let lines =
            text.lines().filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')));
        let label = |line: &str| line.split("  ").next().unwrap().split(" = ").next().unwrap().to_owned();
        lines.map(label).filter(|label| !label.starts_with('L')).collect::<Vec<_>>()
    };
    let temp = TempDir::new("info-guide");
    let text = info(&sample(&temp), &[]).ok();
    let printed = labels(&text);
    let quoted = labels(quoted);
    assert!(quoted.len() > 15, "{quoted:?}");
    for label in &quoted {
        assert!(printed.contains(label), "{label}: {text}");
    }
}

#[test]
fn pages_escape_the_names_of_families() {
    let temp = TempDir::new("info-html");
    let db = sample(&temp);
    ldb(&db, &["create_column_family", "<script>alert(1)</script>"]).ok();
    let page = temp.join("page.html");
    info(&db, &["--html", page.to_str().unwrap()]).ok();
    let text = std::fs::read_to_string(&page).unwrap();
    assert!(text.contains("&lt;script&gt;alert(1)") && !text.contains("<script"), "{text}");
    assert!(!text.contains("http://") && !text.contains("https://"), "the page loads nothing");
}

#[test]
fn scripts_and_manual_pages_know_the_commands() {
    for (shell, mark) in [("bash", "_esker()"), ("zsh", "#compdef esker"), ("fish", "complete -c esker")] {
        let script = esker(&["completions", shell]).ok();
        assert!(script.contains(mark) && script.contains("report"), "{shell}");
        assert!(script.contains("create_column_family"), "{shell}: commands of ldb");
    }
    let temp = TempDir::new("info-man");
    let dir = temp.join("man");
    esker(&["manpages", dir.to_str().unwrap()]).ok();
    let page = std::fs::read_to_string(dir.join("esker-info.1")).unwrap();
    assert!(page.contains("what a database holds") && page.contains("wal_dir"), "{page}");
    assert!(dir.join("esker-ldb-scan.1").exists() && dir.join("esker.1").exists());
    assert!(!dir.join("esker-demo-victim.1").exists(), "hidden commands have no page");
}
