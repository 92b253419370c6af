//! db_stress and its driver, for seconds.

use clap::Parser;
use esker::{Db, Options, builtin};
use esker_stress::db_stress::crash_test::{self, CrashFlags};
use esker_stress::db_stress::{self, StressFlags};
use esker_testkit::TempDir;
use std::path::Path;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    flags: StressFlags,
}

#[derive(Parser)]
struct CrashLine {
    #[command(flatten)]
    flags: CrashFlags,
}

fn flags(dir: &TempDir, more: &[&str]) -> StressFlags {
    let dirs = [
        format!("--db={}", dir.join("db").display()),
        format!("--expected_values_dir={}", dir.join("expected").display()),
    ];
    let line = ["db_stress"].into_iter().chain(dirs.iter().map(String::as_str)).chain(more.iter().copied());
    Line::parse_from(line).flags
}

const SMALL: [&str; 8] = [
    "--threads=4",
    "--ops_per_thread=1500",
    "--max_key=500",
    "--use_merge",
    "--use_multiget",
    "--use_put_entity_one_in=5",
    "--checkpoint_one_in=1500",
    "--clear_column_family_one_in=1500",
];

#[test]
fn every_answer_is_right_whatever_else_the_database_does() {
    let dir = TempDir::new("db_stress");
    for more in [
        &["--seed=1"][..],
        &["--options_seed=3", "--destroy_db_initially"],
        &["--write_fault_one_in=200", "--read_fault_one_in=500", "--destroy_db_initially"],
    ] {
        let report =
            db_stress::run(&flags(&dir, &[&SMALL[..], more].concat())).unwrap_or_else(|why| panic!("{why}"));
        assert!(report.to_string().contains("every answer was right"));
    }
}

#[test]
fn foreign_changes_are_found() {
    let dir = TempDir::new("db_stress-other");
    db_stress::run(&flags(&dir, &SMALL)).unwrap_or_else(|why| panic!("{why}"));
    let verify = flags(&dir, &[&SMALL[..], &["--verification_only"]].concat());
    db_stress::run(&verify).unwrap_or_else(|why| panic!("{why}"));
    for change in ["put", "delete", "drop"] {
        let mut options = Options::default();
        options.cf.merge_operator = Some(builtin::put());
        let families = Db::list_column_families(&options.db, dir.join("db")).unwrap();
        let families =
            families.into_iter().map(|name| esker::ColumnFamilyDescriptor::new(name, options.cf.clone()));
        let db = Db::open_cf(&options.db, dir.join("db"), families).unwrap();
        match change {
            "put" => db.put("somebody", "else").unwrap(),
            "delete" => {
                db.delete("somebody").unwrap();
                let mut iter = db.iter().unwrap();
                iter.seek_to_first();
                db.delete(iter.key()).unwrap();
            }
            _ => db.drop_column_family(&db.column_family("family1").unwrap()).unwrap(),
        }
        drop(db);
        assert!(db_stress::run(&verify).is_err(), "{change}");
    }
}

#[test]
fn processes_that_are_killed_leave_what_is_expected() {
    let dir = TempDir::new("db_crashtest");
    let path = dir.join("there").display().to_string();
    let line = [
        "db_crashtest",
        "both",
        "--dir",
        &path,
        "--duration=8",
        "--interval=1",
        "--processes_per_database=5",
    ];
    let flags = CrashLine::parse_from(line).flags;
    let program = Path::new(env!("CARGO_BIN_EXE_esker-stress"));
    let report = crash_test::run(&flags, program, &["db_stress"]).unwrap_or_else(|why| panic!("{why}"));
    assert!(report.databases > 0 && report.processes > 0, "{report}");
}
