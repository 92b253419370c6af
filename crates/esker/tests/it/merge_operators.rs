//! A database refuses to open with a merge operator that would misread another operator's operands.

use esker::internals::env::FileSystem;
use esker::internals::env::mem::MemFs;
use esker::merge_operator::MergeOperator;
use esker::options::BottommostLevelCompaction;
use esker::{CompactRangeOptions, Db, Env, ErrorKind, OpenMode, Options, SstFileReader, SstFileWriter};
use std::path::Path;
use std::sync::Arc;

fn options(fs: &Arc<MemFs>, operator: &str) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.avoid_flush_during_shutdown = true;
    options.db.env = Env::with_fs(fs.clone());
    options.cf.merge_operator = esker::builtin::merge_operator(operator);
    options.cf.disable_auto_compactions = true;
    options
}

/// A database with operands of `stringappend`, in a table or in the WAL.
fn written(flush: bool) -> Arc<MemFs> {
    let fs = Arc::new(MemFs::new());
    let db = Db::open(&options(&fs, "stringappend"), "/db").unwrap();
    for operand in ["a", "b"] {
        db.merge("key", operand).unwrap();
        if flush {
            db.flush().unwrap();
        }
    }
    db.close().unwrap();
    fs
}

/// Compacts all tables by rewriting them.
fn rewrite(db: &Db) -> esker::Result<()> {
    let options = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    db.compact_range_opt(&options, &db.default_column_family(), None, None)
}

fn check_refused<T>(result: esker::Result<T>) {
    let Err(refused) = result else { panic!("it is taken") };
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
    let text = refused.to_string();
    assert!(text.contains("StringAppendOperator") && text.contains("UInt64AddOperator"), "{text}");
}

fn value(db: &Db) -> Vec<u8> {
    db.get("key").unwrap().unwrap().to_vec()
}

#[test]
fn operands_of_another_operator_are_refused_at_open_wherever_they_lie() {
    for flush in [true, false] {
        for max_open_files in [-1, 20] {
            let fs = written(flush);
            let mut other = options(&fs, "uint64add");
            other.db.max_open_files = max_open_files;
            check_refused(Db::open(&other, "/db"));
            let families = vec![esker::ColumnFamilyDescriptor::new("default", other.cf.clone())];
            check_refused(Db::open_with(&other.db, "/db", families, OpenMode::ReadOnly));
            let db = Db::open(&options(&fs, "stringappend"), "/db").unwrap();
            assert_eq!(value(&db), b"a,b", "no operand was lost");
        }
    }
}

#[test]
fn without_an_options_file_the_table_itself_refuses() {
    let fs = written(true);
    for name in fs.children(Path::new("/db")).unwrap() {
        if name.starts_with("OPTIONS") {
            fs.delete_file(&Path::new("/db").join(name)).unwrap();
        }
    }
    let mut other = options(&fs, "uint64add");
    check_refused(Db::open(&other, "/db"));
    other.db.max_open_files = 20;
    let db = Db::open(&other, "/db").unwrap();
    check_refused(db.get("key"));
    check_refused(rewrite(&db));
    db.close().unwrap();
    drop(db);
    let db = Db::open(&options(&fs, "stringappend"), "/db").unwrap();
    assert_eq!(value(&db), b"a,b");
}

#[test]
fn once_no_operands_are_left_any_operator_is_taken() {
    let fs = written(true);
    let db = Db::open(&options(&fs, "stringappend"), "/db").unwrap();
    rewrite(&db).unwrap();
    db.close().unwrap();
    drop(db);
    let db = Db::open(&options(&fs, "uint64add"), "/db").unwrap();
    assert_eq!(value(&db), b"a,b");
}

#[test]
fn files_with_operands_of_another_operator_are_not_ingested_or_read() {
    let fs = Arc::new(MemFs::new());
    let mut writer = SstFileWriter::new(&options(&fs, "stringappend"));
    writer.open("/file").unwrap();
    writer.merge("key", "a").unwrap();
    writer.finish().unwrap();
    let other = options(&fs, "uint64add");
    check_refused(SstFileReader::open(&other, "/file"));
    let db = Db::open(&other, "/db").unwrap();
    check_refused(db.ingest_external_file(&["/file"]));
    assert_eq!(db.get("key").unwrap(), None);
}

#[test]
fn an_operator_under_a_new_name_takes_its_former_operands() {
    struct Renamed;
    impl MergeOperator for Renamed {
        fn name(&self) -> &str {
            "test.Renamed"
        }
        fn takes_operands_of(&self, name: &str) -> bool {
            name == "StringAppendOperator" || name == "test.Renamed"
        }
        fn full_merge(&self, _key: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
            let all: Vec<&[u8]> = existing.into_iter().chain(operands.iter().copied()).collect();
            Some(all.join(&b'+'))
        }
    }
    for flush in [true, false] {
        let fs = written(flush);
        let mut renamed = options(&fs, "stringappend");
        renamed.cf.merge_operator = Some(Arc::new(Renamed));
        let db = Db::open(&renamed, "/db").unwrap();
        db.merge("key", "c").unwrap();
        assert_eq!(value(&db), b"a+b+c");
        db.close().unwrap();
    }
}
