//! Checksums (`checksum_handoff_file_types`) and lifetimes
//! (`calculate_sst_write_lifetime_hint_set`) that a database hands to its file system.

use esker::internals::env::{
    Directory, FileLock, FileSystem, MemFs, RandomAccessFile, SequentialFile, WritableFile, WriteLifeTimeHint,
};
use esker::options::{CompactionStyle, FileType};
use esker::{CompactionOptions, Db, Env, Options, Result, SstFileWriter};
use esker_base::crc32c;
use esker_format::file_name::parse_file_name;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// The facts about the files of one type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Told {
    appends: usize,
    with_checksum: usize,
    hints: BTreeSet<WriteLifeTimeHint>,
}

type ToldByType = Arc<Mutex<BTreeMap<FileType, Told>>>;

/// A file system that checks checksums and notes hints.
#[derive(Debug)]
struct CheckingFs {
    inner: MemFs,
    told: ToldByType,
}

struct CheckingFile {
    inner: Box<dyn WritableFile>,
    file_type: Option<FileType>,
    told: ToldByType,
}

impl CheckingFile {
    fn note(&self, note: impl FnOnce(&mut Told)) {
        if let Some(file_type) = self.file_type {
            note(self.told.lock().unwrap().entry(file_type).or_default());
        }
    }
}

impl WritableFile for CheckingFile {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.note(|told| told.appends += 1);
        self.inner.append(data)
    }
    fn append_with_checksum(&mut self, data: &[u8], checksum: u32) -> Result<()> {
        assert_eq!(checksum, crc32c::value(data));
        self.note(|told| told.with_checksum += 1);
        self.append(data)
    }
    fn set_write_life_time_hint(&mut self, hint: WriteLifeTimeHint) {
        self.note(|told| {
            told.hints.insert(hint);
        });
    }
    fn flush(&mut self) -> Result<()> {
        self.inner.flush()
    }
    fn sync(&mut self) -> Result<()> {
        self.inner.sync()
    }
    fn truncate(&mut self, size: u64) -> Result<()> {
        self.inner.truncate(size)
    }
    fn close(&mut self) -> Result<()> {
        self.inner.close()
    }
    fn file_size(&self) -> u64 {
        self.inner.file_size()
    }
}

impl CheckingFs {
    fn checking(&self, path: &Path, inner: Box<dyn WritableFile>) -> Box<dyn WritableFile> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let file_type = parse_file_name(name).map(|(file_type, _)| file_type);
        Box::new(CheckingFile { inner, file_type, told: self.told.clone() })
    }
}

impl FileSystem for CheckingFs {
    fn new_writable_file(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        Ok(self.checking(path, self.inner.new_writable_file(path)?))
    }
    fn reopen_writable_file(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        Ok(self.checking(path, self.inner.reopen_writable_file(path)?))
    }
    fn reuse_writable_file(&self, new: &Path, old: &Path) -> Result<Box<dyn WritableFile>> {
        Ok(self.checking(new, self.inner.reuse_writable_file(new, old)?))
    }
    fn new_direct_writable_file(&self, path: &Path, buffer: usize) -> Result<Box<dyn WritableFile>> {
        Ok(self.checking(path, self.inner.new_direct_writable_file(path, buffer)?))
    }
    fn new_direct_random_access_file(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        self.inner.new_direct_random_access_file(path)
    }
    fn new_direct_sequential_file(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        self.inner.new_direct_sequential_file(path)
    }
    fn new_sequential_file(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        self.inner.new_sequential_file(path)
    }
    fn new_random_access_file(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        self.inner.new_random_access_file(path)
    }
    fn new_directory(&self, path: &Path) -> Result<Box<dyn Directory>> {
        self.inner.new_directory(path)
    }
    fn file_exists(&self, path: &Path) -> Result<bool> {
        self.inner.file_exists(path)
    }
    fn children(&self, dir: &Path) -> Result<Vec<String>> {
        self.inner.children(dir)
    }
    fn delete_file(&self, path: &Path) -> Result<()> {
        self.inner.delete_file(path)
    }
    fn create_dir_if_missing(&self, path: &Path) -> Result<()> {
        self.inner.create_dir_if_missing(path)
    }
    fn delete_dir(&self, path: &Path) -> Result<()> {
        self.inner.delete_dir(path)
    }
    fn file_size(&self, path: &Path) -> Result<u64> {
        self.inner.file_size(path)
    }
    fn modification_time(&self, path: &Path) -> Result<u64> {
        self.inner.modification_time(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.rename(from, to)
    }
    fn link_file(&self, existing: &Path, new: &Path) -> Result<()> {
        self.inner.link_file(existing, new)
    }
    fn lock_file(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.inner.lock_file(path)
    }
    fn absolute_path(&self, path: &Path) -> Result<PathBuf> {
        self.inner.absolute_path(path)
    }
    fn free_space(&self, path: &Path) -> Result<u64> {
        self.inner.free_space(path)
    }
    fn truncate(&self, path: &Path, size: u64) -> Result<()> {
        self.inner.truncate(path, size)
    }
}

/// Writes WALs, tables of level 0, of the base level, and then of `levels`, blob files, a MANIFEST,
/// and an external table.
fn told(change: impl FnOnce(&mut Options), levels: Range<usize>) -> BTreeMap<FileType, Told> {
    let told = ToldByType::default();
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(CheckingFs { inner: MemFs::new(), told: told.clone() }));
    options.db.recycle_log_file_num = 2;
    options.cf.enable_blob_files = true;
    options.cf.min_blob_size = 1000;
    options.cf.compression = esker::options::CompressionType::None;
    change(&mut options);
    let db = Db::open(&options, "/db").unwrap();
    for round in 0..4 {
        for n in 0..100 {
            let value = vec![round; if n % 10 == 0 { 2000 } else { 10 }];
            db.put(format!("key{n}"), value).unwrap();
        }
        db.flush().unwrap();
    }
    db.compact_range(None, None).unwrap();
    for level in levels {
        let files: Vec<_> = db.live_files().iter().map(|f| f.file.file_number).collect();
        db.compact_files(&CompactionOptions::default(), &db.default_column_family(), &files, level).unwrap();
    }
    let mut writer = SstFileWriter::new(&options);
    writer.open("/db/900000.sst").unwrap();
    writer.put(b"key", b"value").unwrap();
    writer.finish().unwrap();
    assert_eq!(db.get("key11").unwrap().unwrap(), vec![3; 10]);
    db.close().unwrap();
    let told = told.lock().unwrap();
    told.clone()
}

const LOGGED: [FileType; 4] = [FileType::Wal, FileType::Table, FileType::Descriptor, FileType::Blob];

#[test]
fn each_append_to_a_chosen_type_of_file_carries_its_checksum_and_no_other_append_does() {
    for direct in [false, true] {
        for chosen in LOGGED.into_iter().map(|one| vec![one]).chain([vec![], LOGGED.to_vec()]) {
            let change = |options: &mut Options| {
                options.db.checksum_handoff_file_types = chosen.iter().copied().collect();
                options.db.use_direct_io_for_flush_and_compaction = direct;
            };
            let told = told(change, 0..0);
            for (file_type, told) in told {
                let expected = if chosen.contains(&file_type) { told.appends } else { 0 };
                assert_eq!(told.with_checksum, expected, "{file_type:?} of {chosen:?}, direct: {direct}");
            }
        }
    }
}

#[test]
fn tables_and_blob_files_have_the_lifetimes_of_their_levels_and_wals_are_short_lived() {
    use WriteLifeTimeHint::{Extreme, Long, Medium, Short};
    let hints = |change: &dyn Fn(&mut Options), file_type| told(change, 0..0)[&file_type].hints.clone();
    let universal = |chosen| {
        move |options: &mut Options| {
            options.cf.compaction_style = CompactionStyle::Universal;
            options.db.calculate_sst_write_lifetime_hint_set = BTreeSet::from([chosen]);
        }
    };
    // The last level is the base level, and lives as long as level 0.
    assert_eq!(hints(&|_| {}, FileType::Table), BTreeSet::from([Medium]));
    assert_eq!(hints(&|_| {}, FileType::Blob), BTreeSet::from([Medium]));
    assert_eq!(hints(&|_| {}, FileType::Wal), BTreeSet::from([Short]));
    assert_eq!(hints(&|_| {}, FileType::Descriptor), BTreeSet::new());
    assert_eq!(hints(&universal(CompactionStyle::Universal), FileType::Table), BTreeSet::from([Short, Long]));
    assert_eq!(hints(&universal(CompactionStyle::Level), FileType::Table), BTreeSet::new());
    // Levels 1, 2 and 3 below the base level 1.
    let fixed_levels = |options: &mut Options| options.cf.level_compaction_dynamic_level_bytes = false;
    let deeper = |last: usize| told(fixed_levels, 2..last + 1)[&FileType::Table].hints.clone();
    assert_eq!(deeper(1), BTreeSet::from([Medium]));
    assert_eq!(deeper(2), BTreeSet::from([Medium, Long]));
    assert_eq!(deeper(4), BTreeSet::from([Medium, Long, Extreme]));
}
