//! Checksums of whole files: each engine records them in the MANIFEST, keeps them, and compares
//! them.

use crate::peer_process::{check_7, check_11, check_open_esker, small_files};
use esker::options::{CompressionType, FileChecksumGenCrc32cFactory, load_latest_options_from};
use esker::{
    BackupEngine, BackupEngineOptions, ColumnFamilyOptions, Db, DbOptions, ErrorKind, IngestExternalFileArg,
    IngestExternalFileOptions, Options, SstFileWriter, WriteOptions,
};
use esker_peer::model_ops::{Kinds, write_to_esker};
use esker_peer::{ModelOps, RocksDb, Tools, WriteFlags, fixture, require};
use esker_testkit::{TempDir, seed};
use std::path::Path;
use std::sync::Arc;

const FACTORY: &str = "file_checksum_gen_factory=FileChecksumGenCrc32cFactory";

fn db_options() -> DbOptions {
    DbOptions {
        file_checksum_gen_factory: Some(Arc::new(FileChecksumGenCrc32cFactory)),
        ..crate::peer_process::db_options()
    }
}

fn open(dir: &Path, model: &ModelOps, options: &ColumnFamilyOptions) -> Db {
    Db::open_cf(&db_options(), dir, model.descriptors(options)).expect("opens")
}

/// The lines of `ldb file_checksum_dump --hex`, in order of the files.
fn dumped(tools: Tools, dir: &Path) -> Vec<String> {
    let text = tools.ldb(dir, ["file_checksum_dump", "--hex"]).expect("dumped");
    let mut lines: Vec<(u64, String)> = text
        .lines()
        .filter_map(|line| Some((line.split_once(',')?.0.parse().ok()?, line.to_owned())))
        .collect();
    lines.sort();
    lines.into_iter().map(|(_, line)| line).collect()
}

fn recorded(db: &Db) -> Vec<String> {
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02X}")).collect::<String>();
    let files = db.live_files_checksum_info();
    files.iter().map(|(n, (sum, function))| format!("{}, {function}, 0x{}", n.0, hex(sum))).collect()
}

#[test]
fn checksums_of_files_are_recorded_kept_and_compared_by_both() {
    let Some(tools) = require("ldb 7.8", Tools::find()) else { return };
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    seed::for_each_seed("file-checksums", 2, |round, mut rng| {
        let dir = TempDir::new("file-checksums");
        let mut options = small_files(CompressionType::Lz4);
        options.enable_blob_files = round % 2 == 1;
        options.min_blob_size = 40;
        let mut model = ModelOps::new(&[]);
        let specs = format!(
            "write_buffer_size=65536;target_file_size_base=32768;max_bytes_for_level_base=131072;{}",
            if options.enable_blob_files { "enable_blob_files=true;min_blob_size=40;" } else { "" }
        );
        for turn in 0..3 {
            let db = open(dir.path(), &model, &options);
            db.verify_file_checksums().expect("as recorded");
            for _ in 0..40 {
                write_to_esker(&db, &model.random_ops(&mut rng, 20, Kinds::ALL), &WriteOptions::default())
                    .expect("written");
            }
            db.flush().expect("flushed");
            if turn == 1 {
                db.compact_range(None, None).expect("compacted");
            }
            db.wait_for_background_work().expect("settled");
            db.verify_file_checksums().expect("as recorded");
            let files = recorded(&db);
            assert!(!files.is_empty() && tables(&db) == db.live_files().len(), "all files have a checksum");
            db.close().expect("closes");
            drop(db);
            assert_eq!(dumped(tools, dir.path()), files);
            check_7(dir.path(), &model, "with file checksums");
            // The option is in the OPTIONS file.
            let fs = DbOptions::default().env.fs;
            let loaded = load_latest_options_from(fs.as_ref(), dir.path()).expect("loads");
            assert!(loaded.db.file_checksum_gen_factory.is_some());

            let db = RocksDb::open(dir.path(), FACTORY, &model.specs(&specs)).expect("opens");
            db.verify_file_checksums().expect("as recorded");
            for _ in 0..20 {
                db.write(&model.random_ops(&mut rng, 20, Kinds::ALL), WriteFlags::default())
                    .expect("written");
            }
            db.flush("default").expect("flushed");
            db.wait_for_compact().expect("settled");
            db.verify_file_checksums().expect("as recorded");
            drop(db);
            check_11(dir.path(), &model, "written on by RocksDB 11.8.1");
        }
        let db = open(dir.path(), &model, &options);
        db.verify_file_checksums().expect("as recorded");
        check_open_esker(&db, &model, "at the end");
    });
}

/// Number of tables with a checksum.
fn tables(db: &Db) -> usize {
    db.live_files().iter().filter(|file| file.file_checksum.is_some()).count()
}

#[test]
fn golden_checksums_are_verified_and_outlive_a_new_manifest() {
    for name in ["v7_8_file_checksum", "v11_9_file_checksum"] {
        let found = fixture::all(&[name]);
        let copy = found.first().expect("there").copy();
        let mut options = Options { db: db_options(), ..Options::default() };
        let db = Db::open(&options, copy.path()).expect("opens");
        db.verify_file_checksums().expect("as recorded");
        let before = recorded(&db);
        assert!(!before.is_empty());
        db.close().expect("closes");
        drop(db);
        // Without the option no checksum is made, and none is lost.
        options.db.file_checksum_gen_factory = None;
        let db = Db::open(&options, copy.path()).expect("opens");
        assert!(before.iter().all(|file| recorded(&db).contains(file)));
        assert_eq!(
            db.verify_file_checksums().expect_err("has no factory").kind(),
            ErrorKind::InvalidArgument
        );
        let files = db.live_files();
        let file = files.iter().find(|file| file.file_checksum.is_some()).expect("one");
        let path = file.directory.join(&file.relative_filename);
        db.close().expect("closes");
        drop(db);
        let mut bytes = std::fs::read(&path).expect("read");
        bytes[10] ^= 1;
        std::fs::write(&path, bytes).expect("written");
        options.db.file_checksum_gen_factory = Some(Arc::new(FileChecksumGenCrc32cFactory));
        let db = Db::open(&options, copy.path()).expect("opens");
        let error = db.verify_file_checksums().expect_err("another checksum");
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(error.to_string().contains("file checksum mismatch"), "{error}");
        assert!(error.to_string().contains(&file.relative_filename), "{error}");
        // A backup does not accept the wrong checksum.
        let backups = TempDir::new("file-checksum-backups");
        let mut engine = BackupEngine::open(&BackupEngineOptions::new(backups.path())).expect("opens");
        assert_eq!(engine.create_new_backup(&db, true).expect_err("damaged").kind(), ErrorKind::Corruption);
    }
}

#[test]
fn ingested_files_are_compared_with_the_checksums_they_come_with() {
    let dir = TempDir::new("file-checksum-ingest");
    let options = Options { db: db_options(), ..Options::default() };
    let made = |name: &str, key: &str| {
        let path = dir.path().join(name);
        let mut writer = SstFileWriter::new(&options);
        writer.open(&path).expect("opens");
        writer.put(key, "value").expect("put");
        writer.finish().expect("finished");
        let sum = esker_base::crc32c::value(&std::fs::read(&path).expect("read"));
        (path, sum.to_be_bytes().to_vec())
    };
    let function = || FileChecksumGenCrc32cFactory::FUNCTION.to_owned();
    let db_dir = dir.path().join("db");
    let db = Db::open(&options, &db_dir).expect("opens");
    let family = db.default_column_family();
    let ingest = |paths: Vec<_>, sums: Vec<Vec<u8>>, functions: Vec<String>, verify| {
        let mut arg = IngestExternalFileArg::new(&family, paths);
        arg.files_checksums = sums;
        arg.files_checksum_func_names = functions;
        let options = IngestExternalFileOptions {
            verify_file_checksum: verify,
            ..IngestExternalFileOptions::default()
        };
        db.ingest_external_files(&options, &[arg])
    };
    let (none, _) = made("none.sst", "a");
    ingest(vec![none], vec![], vec![], true).expect("a checksum is made");
    let (right, sum) = made("right.sst", "b");
    let wrong = vec![1, 2, 3, 4];
    let refused = ingest(vec![right.clone()], vec![wrong.clone()], vec![function()], true);
    assert_eq!(refused.expect_err("another checksum").kind(), ErrorKind::Corruption);
    let refused = ingest(vec![right.clone()], vec![sum.clone()], vec![], true);
    assert_eq!(refused.expect_err("no function").kind(), ErrorKind::InvalidArgument);
    for verify in [true, false] {
        let refused = ingest(vec![right.clone()], vec![sum.clone()], vec!["Sha1".to_owned()], verify);
        assert_eq!(refused.expect_err("unknown").kind(), ErrorKind::InvalidArgument);
    }
    assert_eq!(db.get("b").expect("read"), None, "no entry of the refused file is visible");
    ingest(vec![right], vec![sum], vec![function()], true).expect("compared");
    db.verify_file_checksums().expect("as recorded");
    // A checksum that an ingestion does not compare is recorded as given. A later verification
    // finds that it is wrong.
    let (believed, _) = made("believed.sst", "c");
    ingest(vec![believed], vec![wrong], vec![function()], false).expect("believed");
    assert_eq!(db.verify_file_checksums().expect_err("wrong").kind(), ErrorKind::Corruption);
    let files = recorded(&db);
    assert_eq!(files.len(), 3);
    drop(family);
    db.close().expect("closes");
    drop(db);
    if let Some(tools) = require("ldb 7.8", Tools::find()) {
        assert_eq!(dumped(tools, &db_dir), files);
    }
}

/// RocksDB before 9.2 computes the checksum over other padding bytes than those that it writes. Its
/// own `VerifyFileChecksums` fails too.
#[test]
fn checksums_by_7_8_of_files_with_aligned_blocks_are_those_of_other_bytes() {
    let Some(tools) = require("ldb 7.8", Tools::find()) else { return };
    let dir = TempDir::new("aligned-checksums");
    let mut options = small_files(CompressionType::None);
    options.table.block_align = true;
    let model = ModelOps::new(&[]);
    let fill = |db: &Db| {
        (0..100).for_each(|i| db.put(format!("key{i:03}"), [b'v'; 50]).expect("written"));
        db.flush().expect("flushed");
    };
    let db = open(dir.path(), &model, &options);
    fill(&db);
    db.verify_file_checksums().expect("Esker's are right");
    db.close().expect("closes");
    assert_eq!(tools.check_file_checksums(dir.path()), Ok(1));
    tools.ldb(dir.path(), ["put", "key", "of 7.8"]).expect("written");
    tools.ldb(dir.path(), ["compact"]).expect("compacted");
    assert!(tools.check_file_checksums(dir.path()).unwrap_err().contains("the MANIFEST says"));
    let db = open(dir.path(), &model, &options);
    db.verify_checksum().expect("each block is right");
    assert_eq!(db.verify_file_checksums().unwrap_err().kind(), ErrorKind::Corruption);
    // A rewritten file has the right checksum.
    fill(&db);
    db.compact_range(None, None).expect("compacted");
    db.verify_file_checksums().expect("Esker's are right");
    db.close().expect("closes");
}
