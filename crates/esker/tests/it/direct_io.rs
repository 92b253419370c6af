//! `use_direct_reads` and `use_direct_io_for_flush_and_compaction`: the same answers and the same
//! files as through the page cache.

use esker::internals::env::fault::{FaultRule, OpKind};
use esker::internals::env::{CrashFs, FaultFs, FileSystem, MemFs, PosixFileSystem};
use esker::{
    BackupEngine, BackupEngineOptions, Db, Env, ErrorKind, Options, ReadOptions, SstFileReader,
    SstFileWriter, options::FileChecksumGenCrc32cFactory,
};
use esker_testkit::TempDir;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const KEYS: u64 = 600;

fn options(fs: &Arc<dyn FileSystem>, is_direct: (bool, bool)) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(fs.clone());
    (options.db.use_direct_reads, options.db.use_direct_io_for_flush_and_compaction) = is_direct;
    options.db.writable_file_max_buffer_size = 10_000;
    options.db.compaction_readahead_size = 30_000;
    options.db.file_checksum_gen_factory = Some(Arc::new(FileChecksumGenCrc32cFactory));
    options.cf.paranoid_file_checks = true;
    options.cf.enable_blob_files = true;
    options.cf.min_blob_size = 900;
    options.cf.target_file_size_base = 40 << 10;
    options.cf.table.no_block_cache = true;
    options
}

fn key(n: u64) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

fn write(db: &Db, model: &mut Model, rng: &mut fastrand::Rng) {
    for _ in 0..KEYS {
        let (key, mut value) = (key(rng.u64(..KEYS)), vec![0; rng.usize(..1000)]);
        rng.fill(&mut value);
        db.put(&key, &value).unwrap();
        model.insert(key, value);
    }
    db.flush().unwrap();
}

/// Checks all ways to read against the model.
fn check(db: &Db, model: &Model, rng: &mut fastrand::Rng) {
    let rows = || model.iter().map(|(k, v)| (k.clone(), v.clone()));
    for readahead_size in [0, 5000] {
        let mut iter = db
            .iter_opt(ReadOptions { readahead_size, ..ReadOptions::default() }, &db.default_column_family())
            .unwrap();
        let mut found = Vec::new();
        iter.seek_to_first();
        while let Some((key, value)) = iter.item() {
            found.push((key.to_vec(), value.to_vec()));
            iter.next();
        }
        iter.status().unwrap();
        assert!(found.iter().cloned().eq(rows()), "forward");
        found.clear();
        iter.seek_to_last();
        while let Some((key, value)) = iter.item() {
            found.push((key.to_vec(), value.to_vec()));
            iter.prev();
        }
        iter.status().unwrap();
        assert!(found.iter().rev().cloned().eq(rows()), "backward");
    }
    for batch in [1, 2, 300] {
        let keys: Vec<_> = (0..batch).map(|_| key(rng.u64(..KEYS + 10))).collect();
        for (key, value) in keys.iter().zip(db.multi_get(&keys)) {
            assert_eq!(value.unwrap().as_deref(), model.get(key).map(Vec::as_slice));
            assert_eq!(db.get(key).unwrap().as_deref(), model.get(key).map(Vec::as_slice));
        }
    }
    let ranges = (0..KEYS).step_by(60).map(|from| (key(from), key(from + 20)));
    let (mut scans, mut found) = (db.multi_scan(ranges).unwrap(), 0);
    while let Some(mut scan) = scans.next_scan() {
        while let Some((key, value)) = scan.next_item().unwrap() {
            assert_eq!(model.get(key).map(Vec::as_slice), Some(value));
            found += 1;
        }
    }
    let expected =
        (0..KEYS).step_by(60).map(|from| model.range(key(from)..key(from + 20)).count()).sum::<usize>();
    assert_eq!(found, expected);
}

/// Runs a database with these options, with a backup, a checkpoint and an ingested file.
fn live(fs: &Arc<dyn FileSystem>, dir: &Path, is_direct: (bool, bool), seed: u64) -> Model {
    let (options, path) = (options(fs, is_direct), dir.join("db"));
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut model = Model::new();
    let db = Db::open(&options, &path).unwrap();
    for _ in 0..3 {
        write(&db, &mut model, &mut rng);
    }
    check(&db, &model, &mut rng);
    db.compact_range(None, None).unwrap();
    check(&db, &model, &mut rng);
    let outside = dir.join("outside.sst");
    let mut writer = SstFileWriter::new(&options);
    writer.open(&outside).unwrap();
    for n in 500..600 {
        writer.put(key(n), b"ingested").unwrap();
        model.insert(key(n), b"ingested".to_vec());
    }
    writer.finish().unwrap();
    let table = SstFileReader::open(&options, &outside).unwrap();
    table.verify_checksum().unwrap();
    db.ingest_external_file(&[&outside]).unwrap();
    db.verify_checksum().unwrap();
    db.verify_file_checksums().unwrap();
    db.create_checkpoint(dir.join("checkpoint"), 0).unwrap();
    let backup = BackupEngineOptions::new(dir.join("backup")).env(options.db.env.clone());
    let mut backups = BackupEngine::open(&backup).unwrap();
    let id = backups.create_new_backup(&db, false).unwrap();
    backups.restore_db_from_backup(id, dir.join("restored"), dir.join("restored")).unwrap();
    // An entry that only the WAL has.
    db.put(b"last", b"one").unwrap();
    model.insert(b"last".to_vec(), b"one".to_vec());
    drop(db);
    model
}

fn check_all(fs: &Arc<dyn FileSystem>, dir: &Path, is_direct: (bool, bool), model: &mut Model) {
    let mut rng = fastrand::Rng::with_seed(1);
    let options = options(fs, is_direct);
    check(&Db::open(&options, dir.join("db")).unwrap(), model, &mut rng);
    model.remove(&b"last"[..]);
    for copy in ["checkpoint", "restored"] {
        check(&Db::open(&options, dir.join(copy)).unwrap(), model, &mut rng);
    }
}

const MODES: [(bool, bool); 3] = [(true, false), (false, true), (true, true)];

#[test]
fn databases_past_the_page_cache_hold_and_show_the_same() {
    for (seed, is_direct) in MODES.into_iter().enumerate() {
        let systems: [Arc<dyn FileSystem>; 3] = [
            Arc::new(MemFs::new()),
            Arc::new(CrashFs::new()),
            Arc::new(FaultFs::new(Arc::new(MemFs::new()))),
        ];
        for fs in systems {
            let mut model = live(&fs, Path::new("/"), is_direct, seed as u64);
            // The files can also be read with the opposite options.
            check_all(&fs, Path::new("/"), (!is_direct.0, !is_direct.1), &mut model);
        }
    }
}

#[test]
fn real_disks_give_the_same_or_say_why_not() {
    let fs: Arc<dyn FileSystem> = Arc::new(PosixFileSystem);
    let mut dirs = vec![TempDir::new("direct-io")];
    dirs.extend(TempDir::within(Path::new("/dev/shm"), "direct-io"));
    for dir in dirs {
        for (seed, is_direct) in MODES.into_iter().enumerate() {
            let path = dir.path().join(seed.to_string());
            fs.create_dir_if_missing(&path).unwrap();
            if let Err(e) = fs.new_direct_writable_file(&path.join("probe"), 4096) {
                let e = Db::open(&options(&fs, is_direct), path.join("db"))
                    .err()
                    .unwrap_or_else(|| panic!("{e}"));
                println!("no direct I/O here: {e}");
                assert_eq!(e.kind(), ErrorKind::InvalidArgument);
                assert!(e.message().contains("Direct I/O is not supported by the specified DB"), "{e}");
                continue;
            }
            let mut model = live(&fs, &path, is_direct, seed as u64);
            check_all(&fs, &path, (!is_direct.0, !is_direct.1), &mut model);
        }
    }
}

/// The refusal comes at the opening, of a new or an old database, and not with the first table.
#[test]
fn a_file_system_without_direct_io_is_refused_by_the_options_name() {
    for (is_direct, name) in
        [((true, false), "use_direct_reads"), ((false, true), "use_direct_io_for_flush_and_compaction")]
    {
        let fault = Arc::new(FaultFs::new(Arc::new(MemFs::new())));
        let fs: Arc<dyn FileSystem> = fault.clone();
        for exists in [false, true] {
            if exists {
                drop(Db::open(&options(&fs, (false, false)), "/db").unwrap());
            }
            let asked = if exists { "CURRENT" } else { "IDENTITY" };
            let refuse = FaultRule::fail(&[OpKind::Open]).on_name(asked);
            fault.add_rule(refuse.error_kind(ErrorKind::NotSupported));
            let e = Db::open(&options(&fs, is_direct), "/db").expect_err("refused");
            fault.clear_rules();
            assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
            let expected = format!("{name}: Direct I/O is not supported by the specified DB.");
            assert!(e.message().contains(&expected), "{e}");
        }
        drop(Db::open(&options(&fs, is_direct), "/db").unwrap());
    }
}
