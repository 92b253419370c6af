//! Names that a column family may have, and names that RocksDB refuses.

use esker::compat::inspect;
use esker::internals::base::FileNumber;
use esker::internals::format::log::LogWriter;
use esker::internals::format::version_edit::VersionEdit;
use esker::{
    ColumnFamilyDescriptor, ColumnFamilyId, Db, DbOptions, ErrorKind, ImportColumnFamilyOptions, Options,
};
use esker_testkit::TempDir;
use std::path::Path;

const WRONG: [&str; 3] = ["", "\0", "a\0b"];

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.create_missing_column_families = true;
    options
}

fn descriptors(names: &[&str]) -> Vec<ColumnFamilyDescriptor> {
    names.iter().map(|name| ColumnFamilyDescriptor::new(*name, options().cf)).collect()
}

#[test]
fn a_family_without_a_name_or_with_a_nul_in_it_is_made_nowhere() {
    let temp = TempDir::new("family-names");
    let dir = temp.join("db");
    for name in WRONG {
        let refused = Db::open_cf(&options().db, &dir, descriptors(&["default", name])).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
        assert!(refused.to_string().contains("no name for a column family"), "{refused}");
    }
    assert!(!dir.join("CURRENT").exists(), "a refused open makes no database");
    let db = Db::open(&options(), &dir).unwrap();
    let exported = db.create_column_family("exported", &options().cf).unwrap();
    db.put_cf(&exported, "key", "value").unwrap();
    let export = db.export_column_family(&exported, temp.join("export")).unwrap();
    let import = ImportColumnFamilyOptions::default();
    for name in WRONG {
        for result in [
            db.create_column_family(name, &options().cf).map(drop),
            db.create_column_families(descriptors(&["good", name])).map(drop),
            db.create_column_family_with_import(&import, name, &options().cf, &export).map(drop),
        ] {
            let refused = result.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
        }
    }
    assert_eq!(db.column_family_names(), ["default", "exported"]);
    drop(exported);
    db.close().unwrap();
    let refused = Db::open_cf(&options().db, &dir, descriptors(&["default", "exported", ""])).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
}

#[test]
fn a_family_may_have_any_other_name() {
    let temp = TempDir::new("family-names-odd");
    let long = "x".repeat(100_000);
    let names = ["default", "a\nb", "q\"]#\\:", " between spaces ", "\u{1F980}", &long];
    let db = Db::open_cf(&options().db, temp.path(), descriptors(&names)).unwrap();
    for name in names {
        db.put_cf(&db.column_family(name).unwrap(), "key", name).unwrap();
    }
    db.close().unwrap();
    drop(db);
    let found = esker::options::load_latest_options_from(&*options().db.env.fs, temp.path()).unwrap();
    let of_file: Vec<&str> = found.families.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(of_file, names, "the OPTIONS file has the names");
    let db = Db::open_cf(&options().db, temp.path(), descriptors(&names)).unwrap();
    for name in names {
        assert_eq!(db.get_cf(&db.column_family(name).unwrap(), "key").unwrap().unwrap(), name.as_bytes());
    }
    db.close().unwrap();
}

/// Adds families to the MANIFEST of a closed database, as an older Esker did.
fn add_families(dir: &Path, names: &[&str]) {
    let fs = options().db.env.fs;
    let read = |path: &Path| {
        let mut bytes = vec![0; usize::try_from(fs.file_size(path).unwrap()).unwrap()];
        fs.new_random_access_file(path).unwrap().read_at(0, &mut bytes).unwrap();
        bytes
    };
    let current = String::from_utf8(read(&dir.join("CURRENT"))).unwrap();
    let path = dir.join(current.trim());
    let mut bytes = read(&path);
    let mut writer = LogWriter::resume(0, false, bytes.len() as u64);
    for (id, name) in (1..).zip(names) {
        let edit = VersionEdit {
            column_family: ColumnFamilyId(id),
            column_family_add: Some((*name).to_owned()),
            comparator: Some("leveldb.BytewiseComparator".to_owned()),
            log_number: Some(FileNumber(0)),
            ..VersionEdit::default()
        };
        writer.add_record(&edit.encode(), &mut bytes);
    }
    let mut file = fs.new_writable_file(&path).unwrap();
    file.append(&bytes).unwrap();
    file.close().unwrap();
}

#[test]
fn a_directory_that_has_such_families_opens_and_the_compat_report_names_them() {
    let temp = TempDir::new("family-names-there");
    let dir = temp.path();
    Db::open(&options(), dir).unwrap().close().unwrap();
    assert_eq!(inspect(&*options().db.env.fs, dir, dir).unwrap().notes, [""; 0]);
    add_families(dir, &["", "a\0b"]);
    let notes = inspect(&*options().db.env.fs, dir, dir).unwrap().notes;
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[0].contains("column family 1 is called ''"), "{notes:?}");
    assert!(notes[1].contains("column family 2 is called 'a\\0b'"), "{notes:?}");
    let db = Db::open_cf(&options().db, dir, descriptors(&["default", "", "a\0b"])).unwrap();
    for name in ["", "a\0b"] {
        let family = db.column_family(name).unwrap();
        db.put_cf(&family, "key", "value").unwrap();
        assert_eq!(db.get_cf(&family, "key").unwrap().unwrap(), b"value");
        db.drop_column_family(&family).unwrap();
    }
    db.close().unwrap();
    drop(db);
    assert_eq!(inspect(&*options().db.env.fs, dir, dir).unwrap().notes, [""; 0]);
}

#[test]
fn a_family_that_is_missing_is_created_only_if_the_option_says_so() {
    for exists in [false, true] {
        for if_missing in [false, true] {
            for families in [false, true] {
                let dir = TempDir::new("missing-families");
                if exists {
                    Db::open_default(dir.path()).unwrap();
                }
                let options =
                    DbOptions::new().create_if_missing(if_missing).create_missing_column_families(families);
                let opened = Db::open_cf(&options, dir.path(), ["default", "other"]);
                let what = format!("exists {exists}, {if_missing}, {families}");
                assert_eq!(opened.is_ok(), families && (exists || if_missing), "{what}");
                if let Err(error) = opened {
                    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{what}: {error}");
                }
                // A refused opening makes no database.
                let is_there = exists || if_missing && families;
                assert_eq!(dir.path().join("CURRENT").exists(), is_there, "{what}");
            }
        }
    }
}
