//! A change whose write to the MANIFEST failed does not appear later: neither after a close, nor
//! after `resume` and a crash.

use esker::internals::env::{CrashChoices, CrashFs, FaultFs, FaultRule, FileSystem, OpKind};
use esker::{ColumnFamilyDescriptor, ColumnFamilyHandle, Db, Env, Options, RangeOpt, Result, SstFileWriter};
use std::sync::Arc;

type Change = fn(&Db, &ColumnFamilyHandle, &Options) -> Result<()>;

/// Changes that only the MANIFEST makes durable.
const CHANGES: [(&str, Change); 4] = [
    ("ingest", |db, _, _| db.ingest_external_file(&["/outside"])),
    ("create", |db, _, options| db.create_column_family("new", &options.cf).map(drop)),
    ("drop", |db, kept, _| db.drop_column_family(kept)),
    ("delete files", |db, kept, _| {
        let all = RangeOpt { start: None, limit: None };
        db.delete_files_in_ranges(kept, &[all], false).map(drop)
    }),
];

fn options(fs: impl FileSystem + 'static) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.create_missing_column_families = true;
    options.db.max_bgerror_resume_count = 0;
    options.db.env = Env::with_fs(Arc::new(fs));
    options
}

fn open(options: &Options) -> (Db, ColumnFamilyHandle) {
    let named = |name| ColumnFamilyDescriptor::new(name, options.cf.clone());
    let db = Db::open_cf(&options.db, "/db", vec![named("default"), named("kept")]).unwrap();
    let kept = db.column_family("kept").unwrap();
    (db, kept)
}

/// A database after a failed change, and its disk.
fn failed(what: &str, change: Change) -> (CrashFs, Db) {
    let disk = CrashFs::new();
    let fs = FaultFs::new(Arc::new(disk.clone()));
    let options = options(fs.clone());
    let (db, kept) = open(&options);
    db.put_cf(&kept, "key", "value").unwrap();
    db.compact_range_opt(&Default::default(), &kept, None, None).unwrap();
    let mut outside = SstFileWriter::new(&options);
    outside.open("/outside").unwrap();
    outside.put("ingested", "value").unwrap();
    outside.finish().unwrap();
    fs.add_rule(FaultRule::fail(&[OpKind::Sync]).on_name("MANIFEST"));
    let error = change(&db, &kept, &options).unwrap_err();
    assert!(error.to_string().contains("injected"), "{what}: {error}");
    (disk, db)
}

fn check_unchanged(what: &str, disk: &CrashFs) {
    let options = options(disk.clone());
    let families = Db::list_column_families(&options.db, "/db").unwrap();
    assert_eq!(families, ["default", "kept"], "{what}");
    let (db, kept) = open(&options);
    assert_eq!(db.get("ingested").unwrap(), None, "{what}");
    assert_eq!(db.get_cf(&kept, "key").unwrap().as_deref(), Some(&b"value"[..]), "{what}");
}

#[test]
fn a_failed_change_is_not_in_force_after_a_close() {
    for (what, change) in CHANGES {
        let (disk, db) = failed(what, change);
        db.close().unwrap();
        drop(db);
        check_unchanged(what, &disk);
    }
}

#[test]
fn a_failed_change_is_not_in_force_after_resume_and_the_death_of_the_process() {
    for (what, change) in CHANGES {
        let (disk, db) = failed(what, change);
        db.resume().unwrap();
        check_unchanged(what, &disk.crash_clone(&CrashChoices::process_kill()));
    }
}
