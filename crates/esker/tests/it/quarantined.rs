//! A compaction that meets a damaged table quarantines it: writes, other compactions and reads of
//! sound blocks continue, no entry is dropped, and no newer entry moves below it.

use esker::builtin;
use esker::internals::env::fault::OpKind;
use esker::internals::env::{FaultFs, FaultRule, FileSystem, MemFs};
use esker::observe::{BackgroundErrorReason, EventListener};
use esker::options::{CompactionStyle, CompressionType};
use esker::{
    CompactRangeOptions, Db, Env, Error, ErrorKind, FileNumber, FlushOptions, Options, SstFileReader,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Background errors that the listener received.
#[derive(Default)]
struct Heard(Mutex<Vec<(BackgroundErrorReason, Error)>>);

impl Heard {
    fn take(&self) -> Vec<(BackgroundErrorReason, Error)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

struct Listener(Arc<Heard>);

impl EventListener for Listener {
    fn on_background_error(&self, reason: BackgroundErrorReason, error: &mut Option<Error>) {
        self.0.0.lock().unwrap().push((reason, error.clone().unwrap()));
    }
}

fn options(fs: &MemFs) -> (Options, Arc<Heard>) {
    let heard = Arc::new(Heard::default());
    let mut options = Options::default();
    options.db.env = Env::with_fs(Arc::new(fs.clone()));
    options.db.create_if_missing = true;
    options.db.listeners = vec![Arc::new(Listener(heard.clone()))];
    options.cf.compression = CompressionType::None;
    options.cf.level0_file_num_compaction_trigger = 2;
    options.cf.table.block_size = 256;
    options.cf.table.no_block_cache = true;
    (options, heard)
}

fn key(n: usize) -> String {
    format!("key{n:05}")
}

fn value(n: usize, version: usize) -> Vec<u8> {
    format!("value {n} of {version} {}", "x".repeat(n % 40)).into_bytes()
}

fn write(db: &Db, keys: impl IntoIterator<Item = usize>, version: usize) {
    for n in keys {
        db.put(key(n), value(n, version)).unwrap();
    }
    db.flush().unwrap();
}

fn tables(fs: &MemFs) -> Vec<PathBuf> {
    files(fs, ".sst")
}

fn files(fs: &MemFs, suffix: &str) -> Vec<PathBuf> {
    let mut names = fs.children(Path::new("/db")).unwrap();
    names.retain(|name| name.ends_with(suffix));
    names.sort();
    names.into_iter().map(|name| Path::new("/db").join(name)).collect()
}

fn bytes_of(fs: &MemFs, path: &Path) -> Vec<u8> {
    let mut bytes = vec![0; fs.file_size(path).unwrap() as usize];
    fs.new_random_access_file(path).unwrap().read_at(0, &mut bytes).unwrap();
    bytes
}

fn replace(fs: &MemFs, path: &Path, bytes: &[u8]) {
    let mut file = fs.new_writable_file(path).unwrap();
    file.append(bytes).unwrap();
    file.close().unwrap();
}

/// Flips a bit in the file; returns its former bytes.
fn damage(fs: &MemFs, path: &Path, at: usize) -> Vec<u8> {
    let whole = bytes_of(fs, path);
    let mut bytes = whole.clone();
    bytes[at] ^= 4;
    replace(fs, path, &bytes);
    whole
}

/// A closed database with one table, in which the block with a key is damaged; returns the table
/// and its right bytes.
fn with_damaged_table(fs: &MemFs, options: &Options, keys: usize) -> (PathBuf, Vec<u8>) {
    let db = Db::open(options, "/db").unwrap();
    write(&db, 0..keys, 0);
    db.wait_for_background_work().unwrap();
    db.close().unwrap();
    let path = tables(fs).remove(0);
    let wanted = value(keys / 2, 0);
    let at = bytes_of(fs, &path).windows(wanted.len()).position(|w| w == wanted).unwrap();
    let whole = damage(fs, &path, at + 2);
    (path, whole)
}

/// The keys that cannot be read. Checks that the others have the values of this version.
fn unreadable(db: &Db, keys: std::ops::Range<usize>, version: usize) -> Vec<usize> {
    let read = |n: &usize| match db.get(key(*n)) {
        Ok(found) => {
            assert_eq!(found, Some(value(*n, version)), "key {n}");
            false
        }
        Err(e) => {
            assert_eq!(e.kind(), ErrorKind::Corruption);
            true
        }
    };
    keys.filter(read).collect()
}

#[test]
fn a_damaged_table_is_quarantined_and_everything_else_goes_on() {
    let fs = MemFs::new();
    let (options, heard) = options(&fs);
    let (path, whole) = with_damaged_table(&fs, &options, 1000);
    let name = path.file_name().unwrap().to_str().unwrap();
    let db = Db::open(&options, "/db").unwrap();
    assert!(db.quarantined_tables().is_empty());
    // Writes beside the damaged table, so that level 0 is due.
    write(&db, (0..1000).step_by(99), 0);
    db.wait_for_background_work().unwrap();
    let notified = heard.take();
    assert_eq!(notified.len(), 1, "{notified:?}");
    assert_eq!(
        (notified[0].0, notified[0].1.kind()),
        (BackgroundErrorReason::Compaction, ErrorKind::Corruption)
    );
    let quarantined = db.quarantined_tables();
    assert_eq!(quarantined.len(), 1);
    let text = quarantined[0].error.to_string();
    assert!(text.contains(name) && text.contains("offset"), "{text}");
    assert_eq!(db.int_property("rocksdb.num-quarantined-tables"), Some(1));
    assert!(db.background_error().is_none());
    let lost = unreadable(&db, 0..1000, 0);
    assert!(lost.contains(&500) && lost.len() < 20, "{lost:?}");

    // Writes, flushes and compactions beside the damaged table continue.
    for version in 1..5 {
        write(&db, 2000..2300, version);
    }
    db.wait_for_background_work().unwrap();
    assert!(unreadable(&db, 2000..2300, 4).is_empty());
    let (family, whole_range) = (db.default_column_family(), CompactRangeOptions::default());
    let range = (Some(key(2000)), Some(key(2999)));
    db.compact_range_opt(
        &whole_range,
        &family,
        range.0.as_deref().map(str::as_bytes),
        range.1.as_deref().map(str::as_bytes),
    )
    .unwrap();
    assert!(db.live_files().iter().any(|f| f.level > 0));
    // Compactions that overlap it end with its error.
    let refused = db.compact_range(None, None).unwrap_err();
    assert_eq!(
        (refused.kind(), refused.to_string().contains(name)),
        (ErrorKind::Corruption, true),
        "{refused}"
    );
    assert_eq!(unreadable(&db, 0..1000, 0), lost);
    assert!(heard.take().is_empty(), "the damage is reported once");

    // While the table is damaged, each further attempt finds the damage again.
    db.resume().unwrap();
    assert_eq!(db.compact_range(None, None).unwrap_err().kind(), ErrorKind::Corruption);
    db.wait_for_background_work().unwrap();
    assert_eq!((heard.take().len(), db.quarantined_tables().len()), (1, 1));
    db.close().unwrap();
    drop(db);
    replace(&fs, &path, &whole);
    let db = Db::open(&options, "/db").unwrap();
    db.compact_range(None, None).unwrap();
    assert!(unreadable(&db, 0..1000, 0).is_empty() && db.quarantined_tables().is_empty());
}

/// Level 0 does not grow until writes stop, even if entries are written over the damaged table.
#[test]
fn writes_over_a_damaged_table_go_on_for_long() {
    let fs = MemFs::new();
    let (options, _heard) = options(&fs);
    with_damaged_table(&fs, &options, 500);
    let db = Db::open(&options, "/db").unwrap();
    for version in 1..200 {
        write(&db, (0..500).step_by(7), version);
    }
    db.wait_for_background_work().unwrap();
    assert_eq!(db.quarantined_tables().len(), 1);
    assert!(db.background_error().is_none());
    for n in (0..500).step_by(7) {
        assert_eq!(db.get(key(n)).unwrap(), Some(value(n, 199)), "key {n}");
    }
    let level0 = db.live_files().iter().filter(|f| f.level == 0).count();
    assert!(level0 < options.cf.level0_slowdown_writes_trigger as usize, "{level0} files in level 0");
}

#[test]
fn a_writer_that_needs_a_compaction_of_a_damaged_table_gets_its_error() {
    let fs = MemFs::new();
    let (mut options, _heard) = options(&fs);
    options.cf.level0_file_num_compaction_trigger = 3;
    options.cf.level0_slowdown_writes_trigger = 3;
    options.cf.level0_stop_writes_trigger = 3;
    let (path, whole) = with_damaged_table(&fs, &options, 500);
    let db = Db::open(&options, "/db").unwrap();
    let (family, full) =
        (db.default_column_family(), FlushOptions { allow_write_stall: true, ..Default::default() });
    let write = |version| db.put(key(0), value(0, version)).and_then(|()| db.flush_opt(&full, &[&family]));
    let refused = (1..10).find_map(|version| write(version).err()).expect("level 0 fills up").to_string();
    assert!(refused.contains(path.file_name().unwrap().to_str().unwrap()), "{refused}");
    assert_eq!(db.quarantined_tables().len(), 1);
    // No entry is lost, and all work continues after the table is repaired.
    replace(&fs, &path, &whole);
    db.resume().unwrap();
    db.wait_for_background_work().unwrap();
    write(10).unwrap();
    assert!(unreadable(&db, 1..500, 0).is_empty() && db.quarantined_tables().is_empty());
}

#[test]
fn a_failed_write_to_the_manifest_is_not_laid_to_a_damaged_table() {
    let fs = MemFs::new();
    let (mut options, heard) = options(&fs);
    with_damaged_table(&fs, &options, 500);
    let faults = FaultFs::new(Arc::new(fs.clone()));
    options.db.env = Env::with_fs(Arc::new(faults.clone()));
    let db = Db::open(&options, "/db").unwrap();
    // Its table moves unchanged: nothing reads it.
    faults.add_rule(FaultRule::fail(&[OpKind::Sync]).on_name("MANIFEST"));
    let failed = db.compact_range(None, None).unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::IoError);
    assert_eq!(db.background_error().map(|e| e.kind()), Some(ErrorKind::IoError));
    assert_eq!((heard.take().len(), db.quarantined_tables().len()), (1, 0));
    db.resume().unwrap();
    db.compact_range(None, None).unwrap();
    assert!(db.live_files().iter().all(|file| file.level > 0));
}

/// A compaction must rewrite a blob value that it cannot read: its table stays in place, and so
/// does the blob file.
#[test]
fn a_table_with_a_damaged_value_in_a_blob_file_is_quarantined() {
    let fs = MemFs::new();
    let (mut options, heard) = options(&fs);
    options.cf.enable_blob_files = true;
    options.cf.enable_blob_garbage_collection = true;
    options.cf.blob_garbage_collection_age_cutoff = 1.0;
    let db = Db::open(&options, "/db").unwrap();
    write(&db, 0..100, 0);
    let blobs = files(&fs, ".blob");
    let wanted = value(50, 0);
    let at = bytes_of(&fs, &blobs[0]).windows(wanted.len()).position(|w| w == wanted).unwrap();
    let whole = damage(&fs, &blobs[0], at);
    write(&db, (0..100).step_by(7), 1);
    db.wait_for_background_work().unwrap();
    assert!(db.background_error().is_none());
    let notified = heard.take();
    assert_eq!(notified.len(), 1, "{notified:?}");
    assert_eq!(
        (notified[0].0, notified[0].1.kind()),
        (BackgroundErrorReason::Compaction, ErrorKind::Corruption)
    );
    let name = blobs[0].file_name().unwrap().to_str().unwrap();
    let quarantined = db.quarantined_tables();
    assert_eq!(quarantined.len(), 1);
    assert!(quarantined[0].error.to_string().contains(name), "{}", quarantined[0].error);
    assert_eq!(db.get(key(50)).unwrap_err().kind(), ErrorKind::Corruption);
    let expected = |n: usize| value(n, usize::from(n.is_multiple_of(7)));
    for n in (0..100).filter(|n| *n != 50) {
        assert_eq!(db.get(key(n)).unwrap(), Some(expected(n)), "key {n}");
    }
    // Writes, flushes and compactions beside the damaged table continue.
    for version in 1..5 {
        write(&db, 2000..2300, version);
    }
    db.wait_for_background_work().unwrap();
    assert!(unreadable(&db, 2000..2300, 4).is_empty());
    let refused = db.compact_range(None, None).unwrap_err().to_string();
    assert!(refused.contains(name), "{refused}");

    replace(&fs, &blobs[0], &whole);
    db.resume().unwrap();
    db.compact_range(None, None).unwrap();
    assert!(db.quarantined_tables().is_empty());
    for n in 0..100 {
        assert_eq!(db.get(key(n)).unwrap(), Some(expected(n)), "key {n}");
    }
    db.verify_checksum().unwrap();
}

/// The disk is sound, but one read from it gave bad bytes.
#[test]
fn a_read_that_is_damaged_once_fails_no_flush_no_compaction_and_no_batch() {
    let mut flipped = 0;
    for n in (0..).step_by(3) {
        let fs = MemFs::new();
        let (mut options, heard) = options(&fs);
        options.cf.enable_blob_files = true;
        options.cf.min_blob_size = 40;
        options.cf.enable_blob_garbage_collection = true;
        options.cf.blob_garbage_collection_age_cutoff = 1.0;
        let faults = FaultFs::with_seed(Arc::new(fs), n);
        options.db.env = Env::with_fs(Arc::new(faults.clone()));
        let db = Db::open(&options, "/db").unwrap();
        for ending in [".sst", ".blob"] {
            faults.add_rule(FaultRule::bit_flip().on_name(ending).nth(n));
        }
        write(&db, 0..100, 0);
        write(&db, (0..100).step_by(3), 1);
        db.compact_range(None, None).unwrap();
        for (i, read) in db.multi_get(&(0..100).map(key).collect::<Vec<_>>()).into_iter().enumerate() {
            assert_eq!(read.unwrap().unwrap().as_slice(), value(i, usize::from(i.is_multiple_of(3))));
        }
        assert_eq!((heard.take().len(), db.quarantined_tables().len()), (0, 0), "read {n}");
        flipped += faults.fault_count();
        if faults.fault_count() == 0 {
            break;
        }
    }
    assert!(flipped > 20, "{flipped}");
}

/// A database whose tables and blob files are damaged again and again, and a map as its model.
struct ModelRun {
    fs: MemFs,
    options: Options,
    model: BTreeMap<usize, Vec<u8>>,
    /// Damaged tables and blob files and their right bytes.
    damaged: BTreeMap<PathBuf, Vec<u8>>,
    version: usize,
    rng: fastrand::Rng,
}

const KEYS: usize = 300;

impl ModelRun {
    fn new(seed: u64) -> ModelRun {
        let mut rng = fastrand::Rng::with_seed(seed);
        let fs = MemFs::new();
        let (mut options, _heard) = options(&fs);
        let cf = &mut options.cf;
        cf.compaction_style =
            [CompactionStyle::Level, CompactionStyle::Level, CompactionStyle::Universal][rng.usize(..3)];
        cf.level_compaction_dynamic_level_bytes = rng.bool();
        cf.target_file_size_base = 2 << 10;
        cf.max_bytes_for_level_base = 8 << 10;
        cf.max_bytes_for_level_multiplier = 3.0;
        cf.level0_slowdown_writes_trigger = 1000;
        cf.level0_stop_writes_trigger = 1000;
        cf.merge_operator = Some(builtin::string_append(","));
        cf.enable_blob_files = rng.bool();
        cf.min_blob_size = [0, 16][rng.usize(..2)];
        cf.blob_file_size = [500, 4 << 10][rng.usize(..2)];
        cf.enable_blob_garbage_collection = rng.bool();
        cf.blob_garbage_collection_age_cutoff = [0.25, 0.5, 1.0][rng.usize(..3)];
        cf.blob_garbage_collection_force_threshold = [0.2, 1.0][rng.usize(..2)];
        ModelRun { fs, options, model: BTreeMap::new(), damaged: BTreeMap::new(), version: 0, rng }
    }

    fn write(&mut self, db: &Db) {
        let rng = &mut self.rng;
        for _ in 0..rng.usize(1..60) {
            self.version += 1;
            let n = rng.usize(..KEYS);
            match rng.u8(..12) {
                0 => {
                    let end = (n + rng.usize(..30)).min(KEYS);
                    db.delete_range(key(n), key(end)).unwrap();
                    self.model.retain(|k, _| !(n..end).contains(k));
                }
                1..4 => {
                    db.delete(key(n)).unwrap();
                    self.model.remove(&n);
                }
                4 => {
                    let operand = self.version.to_string().into_bytes();
                    db.merge(key(n), &operand).unwrap();
                    match self.model.get_mut(&n) {
                        Some(value) => value.extend([&b","[..], &operand].concat()),
                        None => drop(self.model.insert(n, operand)),
                    }
                }
                _ => {
                    db.put(key(n), value(n, self.version)).unwrap();
                    self.model.insert(n, value(n, self.version));
                }
            }
        }
        if rng.u8(..3) > 0 {
            db.flush().unwrap();
        }
    }

    /// Checks that each read gives the model's value, or an error if its table or blob file is
    /// damaged.
    fn check(&self, db: &Db) {
        let is_damaged = |number: FileNumber| {
            self.damaged
                .keys()
                .any(|p| p.file_name().unwrap().to_string_lossy() == format!("{:06}.sst", number.0))
        };
        let damaged: Vec<_> = db.live_files().into_iter().filter(|f| is_damaged(f.file_number)).collect();
        for n in 0..KEYS {
            let name = key(n);
            match db.get(&name) {
                Ok(found) => assert_eq!(found.as_ref(), self.model.get(&n), "{name}"),
                Err(e) => {
                    let user_key = |internal: &[u8]| internal[..internal.len() - 8].to_vec();
                    let covers = |f: &esker::LiveFileMetaData| {
                        (user_key(&f.smallest)..=user_key(&f.largest)).contains(&name.clone().into_bytes())
                    };
                    let text = e.to_string();
                    let named = |p: &PathBuf| text.contains(&*p.file_name().unwrap().to_string_lossy());
                    if text.contains(".blob") {
                        assert!(self.damaged.keys().any(named), "{name}: {e}");
                        // The head of a blob file has no checksum: damage may look like an unknown
                        // version.
                        assert!(matches!(e.kind(), ErrorKind::Corruption | ErrorKind::NotSupported), "{e}");
                        continue;
                    }
                    assert_eq!(e.kind(), ErrorKind::Corruption, "{e}");
                    assert!(damaged.iter().any(covers), "no damaged table covers {name}: {e}");
                }
            }
        }
        let mut iter = db.iter().unwrap();
        iter.seek_to_first();
        let mut expected = self.model.iter();
        while let Some((found, value)) = iter.item() {
            let (n, there) = expected.next().expect("no more than there is");
            assert_eq!((found, value), (key(*n).as_bytes(), there.as_slice()));
            iter.next();
        }
        assert!(iter.status().is_err() || expected.next().is_none());
    }

    fn damage_some(&mut self) {
        for path in tables(&self.fs) {
            if self.rng.u8(..8) == 0 && !self.damaged.contains_key(&path) {
                // Data blocks come first.
                let table = SstFileReader::open(&self.options, &path).unwrap();
                let bytes = table.table_properties().data_size as usize;
                if bytes > 0 {
                    let whole = damage(&self.fs, &path, self.rng.usize(..bytes));
                    self.damaged.insert(path, whole);
                }
            }
        }
        for path in files(&self.fs, ".blob") {
            if self.rng.u8(..8) == 0 && !self.damaged.contains_key(&path) {
                let bytes = self.fs.file_size(&path).unwrap() as usize;
                let whole = damage(&self.fs, &path, self.rng.usize(..bytes));
                self.damaged.insert(path, whole);
            }
        }
    }

    fn heal(&mut self) {
        for (path, whole) in std::mem::take(&mut self.damaged) {
            if self.fs.file_exists(&path).unwrap() {
                replace(&self.fs, &path, &whole);
            }
        }
    }
}

#[test]
fn damage_is_an_error_where_it_is_and_nothing_is_lost_when_it_is_healed() {
    let mut quarantined = 0;
    esker_testkit::seed::for_each_seed("damage_is_an_error_where_it_is", 12, |seed, _| {
        let mut model_run = ModelRun::new(seed);
        for _ in 0..8 {
            let db = Db::open(&model_run.options, "/db").unwrap();
            for _ in 0..model_run.rng.usize(2..16) {
                model_run.write(&db);
                match model_run.rng.u8(..10) {
                    // The call may be refused, but must do no harm.
                    0 => drop(db.compact_range(None, None)),
                    1 => db.resume().unwrap(),
                    _ => {}
                }
            }
            db.wait_for_background_work().unwrap();
            model_run.check(&db);
            quarantined += db.quarantined_tables().len();
            db.close().unwrap();
            drop(db);
            model_run.damage_some();
        }
        model_run.heal();
        let db = Db::open(&model_run.options, "/db").unwrap();
        model_run.check(&db);
        db.compact_range(None, None).unwrap();
        model_run.check(&db);
        db.verify_checksum().unwrap();
        assert!(db.quarantined_tables().is_empty() && db.background_error().is_none());
    });
    assert!(quarantined > 0 || std::env::var_os("SEED").is_some());
}
