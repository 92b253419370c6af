//! RocksDB's library behind a safe interface: version 11.8.1, unless
//! [`load_library`](crate::load_library) has loaded another one.
//!
//! In: a directory, option texts of the form `name=value;…`, operations. Out: contents, and
//! RocksDB's error texts.
//!
//! Invariants
//!  1. Every handle, iterator and snapshot borrows its database or is closed by it, in RocksDB's
//!     order: snapshots, then families, then the database.
//!  2. A string or buffer that RocksDB gives is copied and freed at once.

mod counted;
mod cursor;
mod ingest;
mod traces;
mod trimmed;
mod unknown;
mod updates;

pub use cursor::{CursorOptions, RocksCursor};
pub use traces::TraceOf;
pub use updates::RocksUpdates;

use crate::api::{Api, Database, Family, Iter, NEEDS_11, Options, SnapshotPtr, api};
use crate::c_data::{c_path, c_string, call, copy, slice, take, take_string};
use crate::contents::{Contents, ContentsPair};
use crate::model_ops::PeerOp;
use crate::option_set::{LoadedOptionSet, OptionSet, Preset};
use crate::stamped_order::StampedOrder;
use esker_testkit::timestamps::TimestampFormat;
use std::ffi::{CStr, CString, c_char, c_int, c_uchar};
use std::path::{Path, PathBuf};
use std::ptr;

/// A family to open: its name, and its options as text, for example
/// `comparator=rocksdb.ReverseBytewiseComparator;…`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FamilySpec {
    /// Its name.
    pub name: String,
    /// `name=value;…`, as `rocksdb_get_options_from_string` takes it.
    pub options: String,
    /// A comparator of Esker's tests, if RocksDB has none for the keys: its name, and the format of
    /// the timestamps if keys end with one.
    pub own_order: Option<(String, Option<TimestampFormat>)>,
    /// `cf_paths`: directories of the family's tables and their target sizes.
    pub paths: Vec<(PathBuf, u64)>,
}

impl FamilySpec {
    /// A family with these options.
    pub fn new(name: impl Into<String>, options: impl Into<String>) -> FamilySpec {
        FamilySpec { name: name.into(), options: options.into(), own_order: None, paths: Vec::new() }
    }

    /// The same family with keys that end with a timestamp, under a comparator of this name.
    #[must_use]
    pub fn stamped(self, comparator: &str, format: TimestampFormat) -> FamilySpec {
        FamilySpec { own_order: Some((comparator.to_owned(), Some(format))), ..self }
    }

    /// The same family with keys in the order of their bytes, under a comparator of this name.
    #[must_use]
    pub fn ordered_by(self, comparator: &str) -> FamilySpec {
        FamilySpec { own_order: Some((comparator.to_owned(), None)), ..self }
    }

    pub(crate) fn options(&self, api: &'static Api) -> Result<OptionSet, String> {
        let mut options = OptionSet::parse(api, &self.options)?;
        if let Some((name, format)) = &self.own_order {
            options.order_by(match format {
                Some(format) => StampedOrder::new(api, name, *format),
                None => StampedOrder::bytewise(api, name),
            });
        }
        if !self.paths.is_empty() {
            options.put_tables_into(&self.paths, true);
        }
        Ok(options)
    }
}

/// Durability of a write.
#[derive(Clone, Copy, Default, Debug)]
pub struct WriteFlags {
    /// Whether to wait for the medium.
    pub sync: bool,
    /// Whether to skip the WAL.
    pub disable_wal: bool,
}

/// The kind of an open.
#[derive(Clone, Copy)]
pub(crate) enum RocksAccess<'a> {
    Write,
    Read,
    /// As a secondary with this directory.
    Follow(&'a Path),
    /// Opens the database and removes entries that are newer than this timestamp.
    Trim(&'a [u8]),
}

/// A database that RocksDB has open. Closed when dropped.
#[derive(Debug)]
pub struct RocksDb {
    api: &'static Api,
    db: *mut Database,
    families: Vec<(String, *mut Family)>,
    /// Comparators of Esker's tests, which the families use.
    orders: Vec<StampedOrder>,
}

// SAFETY: RocksDB's database, family handles and comparators may be used from any thread.
unsafe impl Send for RocksDb {}
// SAFETY: RocksDB synchronises calls on its handles from several threads at once.
unsafe impl Sync for RocksDb {}

impl RocksDb {
    /// Checks that the library can be loaded.
    /// # Errors
    /// The reason why it cannot.
    pub fn available() -> Result<(), String> {
        api().map(|_| ())
    }

    /// Opens the database in `path` for reading and writing. `families` are all its families.
    /// # Errors
    /// RocksDB's, as text.
    pub fn open(path: &Path, db_options: &str, families: &[FamilySpec]) -> Result<RocksDb, String> {
        RocksDb::open_with(path, db_options, &[], families, RocksAccess::Write)
    }

    /// [`RocksDb::open`] with `db_paths`: directories of tables and their target sizes.
    /// # Errors
    /// RocksDB's, as text.
    pub fn open_in_paths(
        path: &Path,
        db_options: &str,
        db_paths: &[(PathBuf, u64)],
        families: &[FamilySpec],
    ) -> Result<RocksDb, String> {
        RocksDb::open_with(path, db_options, db_paths, families, RocksAccess::Write)
    }

    /// Opens the database in `path`, whose only family is the default one, with a preset of
    /// options.
    /// # Errors
    /// RocksDB's, as text.
    pub fn open_preset(path: &Path, options: &str, preset: Preset) -> Result<RocksDb, String> {
        let api = api()?;
        let mut set = OptionSet::parse(api, options)?;
        set.apply(preset);
        RocksDb::open_raw(
            api,
            path,
            set.as_ptr(),
            vec!["default".to_owned()],
            &[set.as_ptr()],
            RocksAccess::Write,
        )
    }

    /// Opens the database in `path` with these families, read-only.
    /// # Errors
    /// RocksDB's, as text.
    pub fn open_for_read_only(
        path: &Path,
        db_options: &str,
        families: &[FamilySpec],
    ) -> Result<RocksDb, String> {
        RocksDb::open_with(path, db_options, &[], families, RocksAccess::Read)
    }

    /// Opens these families of the database in `path` as a secondary. It writes its own files to
    /// `secondary_path`.
    /// # Errors
    /// RocksDB's, as text.
    pub fn open_as_secondary(
        path: &Path,
        secondary_path: &Path,
        db_options: &str,
        families: &[FamilySpec],
    ) -> Result<RocksDb, String> {
        RocksDb::open_with(path, db_options, &[], families, RocksAccess::Follow(secondary_path))
    }

    /// Brings a secondary to the primary's present state.
    /// # Errors
    /// RocksDB's, as text.
    pub fn try_catch_up_with_primary(&self) -> Result<(), String> {
        // SAFETY: the database is live.
        call(self.api, |error| unsafe { (self.api.try_catch_up_with_primary)(self.db, error) })
    }

    fn open_with(
        path: &Path,
        db_options: &str,
        db_paths: &[(PathBuf, u64)],
        families: &[FamilySpec],
        access: RocksAccess<'_>,
    ) -> Result<RocksDb, String> {
        let api = api()?;
        let mut options = OptionSet::parse(api, db_options)?;
        if !db_paths.is_empty() {
            options.put_tables_into(db_paths, false);
        }
        let mut sets: Vec<OptionSet> = families.iter().map(|f| f.options(api)).collect::<Result<_, _>>()?;
        let pointers: Vec<*const Options> = sets.iter().map(OptionSet::as_ptr).collect();
        let names = families.iter().map(|f| f.name.clone()).collect();
        let mut db = RocksDb::open_raw(api, path, options.as_ptr(), names, &pointers, access)?;
        db.orders = sets.iter_mut().filter_map(OptionSet::take_order).collect();
        Ok(db)
    }

    /// Opens the database in `path` for reading and writing with the options of its newest OPTIONS
    /// file. RocksDB must know all of them.
    /// # Errors
    /// RocksDB's, as text.
    pub fn open_as_its_options_say(path: &Path) -> Result<RocksDb, String> {
        let api = api()?;
        let loaded = LoadedOptionSet::load(api, path)?;
        let (options, of_families) = (loaded.db_options(), loaded.family_options());
        RocksDb::open_raw(api, path, options, loaded.names(), of_families, RocksAccess::Write)
    }

    /// Opens the database. The options must be live, one set for each family name.
    pub(crate) fn open_raw(
        api: &'static Api,
        path: &Path,
        options: *const Options,
        names: Vec<String>,
        family_options: &[*const Options],
        access: RocksAccess<'_>,
    ) -> Result<RocksDb, String> {
        assert_eq!(names.len(), family_options.len(), "options for each family");
        let path = c_path(path);
        let c_names: Vec<CString> = names.iter().map(|n| c_string(n)).collect();
        let name_ptrs: Vec<*const c_char> = c_names.iter().map(|n| n.as_ptr()).collect();
        let mut handles: Vec<*mut Family> = vec![ptr::null_mut(); names.len()];
        let count = c_int::try_from(names.len()).expect("the number of families fits into c_int");
        let (path, c_names, out) = (path.as_ptr(), name_ptrs.as_ptr(), handles.as_mut_ptr());
        let sets = family_options.as_ptr();
        let db = call(api, |error| match access {
            RocksAccess::Read => {
                let open = api.open_for_read_only_column_families;
                // SAFETY: all three arrays have `count` elements, all strings end in NUL, all
                // outlive the call.
                unsafe { open(options, path, count, c_names, sets, out, 0, error) }
            }
            RocksAccess::Write => {
                // SAFETY: all three arrays have `count` elements, all strings end in NUL, all
                // outlive the call.
                unsafe { (api.open_column_families)(options, path, count, c_names, sets, out, error) }
            }
            RocksAccess::Follow(dir) => {
                let (open, dir) = (api.open_as_secondary_column_families, c_path(dir));
                // SAFETY: all three arrays have `count` elements, all strings end in NUL, all
                // outlive the call.
                unsafe { open(options, path, dir.as_ptr(), count, c_names, sets, out, error) }
            }
            RocksAccess::Trim(ts) => {
                let (open, ts, len) = (api.open_and_trim_history, ts.as_ptr().cast_mut().cast(), ts.len());
                // SAFETY: all three arrays have `count` elements, all strings end in NUL, `len`
                // bytes are at `ts`. All outlive the call. RocksDB does not write to `ts`.
                unsafe { open.expect(NEEDS_11)(options, path, count, c_names, sets, out, ts, len, error) }
            }
        })?;
        assert!(!db.is_null(), "RocksDB returned neither a database nor an error");
        let families = names.into_iter().zip(handles).collect();
        Ok(RocksDb { api, db, families, orders: Vec::new() })
    }

    /// Names of the families of the database in `path`.
    /// # Errors
    /// RocksDB's, as text.
    pub fn list_column_families(path: &Path) -> Result<Vec<String>, String> {
        let api = api()?;
        let options = OptionSet::parse(api, "")?;
        let path = c_path(path);
        let mut count = 0;
        let list = call(api, |error| {
            // SAFETY: the string ends in NUL; `count` outlives the call.
            unsafe { (api.list_column_families)(options.as_ptr(), path.as_ptr(), &raw mut count, error) }
        })?;
        // SAFETY: RocksDB gave `count` strings, which live until they are destroyed below.
        let strings = unsafe { std::slice::from_raw_parts(list, count) };
        let name = |text: &*mut c_char| {
            // SAFETY: each ends in NUL.
            unsafe { CStr::from_ptr(*text) }.to_string_lossy().into_owned()
        };
        let names = strings.iter().map(name).collect();
        // SAFETY: list and count are as given, and not used again.
        unsafe { (api.list_column_families_destroy)(list, count) };
        Ok(names)
    }

    /// Creates a family.
    /// # Errors
    /// RocksDB's, as text.
    pub fn create_column_family(&mut self, family: &FamilySpec) -> Result<(), String> {
        let mut options = family.options(self.api)?;
        let name = c_string(&family.name);
        let handle = call(self.api, |error| {
            // SAFETY: database and options are live; the string ends in NUL.
            unsafe { (self.api.create_column_family)(self.db, options.as_ptr(), name.as_ptr(), error) }
        })?;
        self.families.push((family.name.clone(), handle));
        self.orders.extend(options.take_order());
        Ok(())
    }

    /// Drops a family.
    /// # Errors
    /// RocksDB's, as text.
    pub fn drop_column_family(&mut self, name: &str) -> Result<(), String> {
        let family = self.family(name);
        // SAFETY: database and family are live.
        call(self.api, |error| unsafe { (self.api.drop_column_family)(self.db, family, error) })?;
        self.families.retain(|(n, _)| n != name);
        // SAFETY: made at open or creation, not used again.
        unsafe { (self.api.column_family_handle_destroy)(family) };
        Ok(())
    }

    fn family(&self, name: &str) -> *mut Family {
        let found = self.families.iter().find(|(n, _)| n == name);
        found.unwrap_or_else(|| panic!("family '{name}' was not opened")).1
    }

    /// Applies `ops` as one batch.
    /// # Errors
    /// RocksDB's, as text.
    pub fn write(&self, ops: &[PeerOp], flags: WriteFlags) -> Result<(), String> {
        let api = self.api;
        // SAFETY: no requirements.
        let batch = unsafe { (api.writebatch_create)() };
        for op in ops {
            let family = self.family(op.family());
            match op {
                PeerOp::Put { key, value, .. } => {
                    let ((k, kn), (v, vn)) = (slice(key), slice(value));
                    // SAFETY: `batch` and `family` are live; the slices are copied during the call.
                    unsafe { (api.writebatch_put_cf)(batch, family, k, kn, v, vn) }
                }
                PeerOp::Merge { key, operand, .. } => {
                    let ((k, kn), (v, vn)) = (slice(key), slice(operand));
                    // SAFETY: `batch` and `family` are live; the slices are copied during the call.
                    unsafe { (api.writebatch_merge_cf)(batch, family, k, kn, v, vn) }
                }
                PeerOp::Delete { key, .. } => {
                    let (k, kn) = slice(key);
                    // SAFETY: `batch` and `family` are live; the slices are copied during the call.
                    unsafe { (api.writebatch_delete_cf)(batch, family, k, kn) }
                }
                PeerOp::SingleDelete { key, .. } => {
                    let (k, kn) = slice(key);
                    // SAFETY: `batch` and `family` are live; the slices are copied during the call.
                    unsafe { (api.writebatch_singledelete_cf)(batch, family, k, kn) }
                }
                PeerOp::DeleteRange { begin, end, .. } => {
                    let ((b, bn), (e, en)) = (slice(begin), slice(end));
                    // SAFETY: `batch` and `family` are live; the slices are copied during the call.
                    unsafe { (api.writebatch_delete_range_cf)(batch, family, b, bn, e, en) }
                }
            }
        }
        // SAFETY: no requirements.
        let options = unsafe { (api.writeoptions_create)() };
        // SAFETY: `options` is live until destroyed below.
        unsafe { (api.writeoptions_set_sync)(options, c_uchar::from(flags.sync)) };
        // SAFETY: `options` is live until destroyed below.
        unsafe { (api.writeoptions_disable_WAL)(options, c_int::from(flags.disable_wal)) };
        // SAFETY: database, options and batch are live.
        let result = call(api, |error| unsafe { (api.write)(self.db, options, batch, error) });
        // SAFETY: made above, not used again.
        unsafe { (api.writeoptions_destroy)(options) };
        // SAFETY: made above, not used again.
        unsafe { (api.writebatch_destroy)(batch) };
        result
    }

    /// The value of `key` in `family`, at `snapshot` or now.
    /// # Errors
    /// RocksDB's, as text.
    pub fn get(
        &self,
        family: &str,
        key: &[u8],
        snapshot: Option<&RocksSnapshot<'_>>,
    ) -> Result<Option<Vec<u8>>, String> {
        let options = ReadOptionSet::new(self.api, snapshot);
        let (k, kn) = slice(key);
        let mut len = 0;
        let value = call(self.api, |error| {
            // SAFETY: database, options and family are live; `len` and the key outlive the call.
            unsafe {
                (self.api.get_cf)(self.db, options.ptr, self.family(family), k, kn, &raw mut len, error)
            }
        })?;
        Ok((!value.is_null()).then(|| take(self.api, value, len)))
    }

    /// All entries of `family`, in its order. Reads them in both directions and checks that both
    /// agree.
    /// # Errors
    /// RocksDB's, as text; or a sentence if the two directions differ.
    pub fn contents(&self, family: &str, snapshot: Option<&RocksSnapshot<'_>>) -> Result<Contents, String> {
        let forward = self.scan(family, snapshot, true)?;
        let mut backward = self.scan(family, snapshot, false)?;
        backward.reverse();
        let (forward, backward) = (Contents(forward), Contents(backward));
        match backward.difference(&forward) {
            Some(difference) => Err(format!("family '{family}' backwards against forwards: {difference}")),
            None => Ok(forward),
        }
    }

    fn scan(
        &self,
        family: &str,
        snapshot: Option<&RocksSnapshot<'_>>,
        forward: bool,
    ) -> Result<Vec<ContentsPair>, String> {
        self.scan_with(family, &ReadOptionSet::new(self.api, snapshot), forward)
    }

    fn scan_with(
        &self,
        family: &str,
        options: &ReadOptionSet,
        forward: bool,
    ) -> Result<Vec<ContentsPair>, String> {
        // SAFETY: database, options and family are live, and outlive the iterator.
        let iter = unsafe { (self.api.create_iterator_cf)(self.db, options.ptr, self.family(family)) };
        let iter = Cursor { api: self.api, iter };
        let mut all = Vec::new();
        iter.start(forward);
        while let Some(pair) = iter.pair() {
            all.push(pair);
            iter.step(forward);
        }
        iter.status()?;
        Ok(all)
    }

    /// All entries of `family`, whose keys have timestamps, as of `timestamp`.
    /// # Errors
    /// RocksDB's, as text; or a sentence if the two directions differ.
    pub fn contents_at(&self, family: &str, timestamp: &[u8]) -> Result<Contents, String> {
        let scan = |forward| {
            let options = ReadOptionSet::new(self.api, None);
            // SAFETY: the options are live; the timestamp outlives them.
            unsafe {
                (self.api.readoptions_set_timestamp)(options.ptr, timestamp.as_ptr().cast(), timestamp.len());
            }
            self.scan_with(family, &options, forward)
        };
        let (forward, mut backward) = (scan(true)?, scan(false)?);
        backward.reverse();
        if forward != backward {
            return Err(format!("family '{family}' is another backwards"));
        }
        Ok(Contents(forward))
    }

    /// A snapshot of the present state.
    pub fn snapshot(&self) -> RocksSnapshot<'_> {
        // SAFETY: the database is live.
        RocksSnapshot { db: self, ptr: unsafe { (self.api.create_snapshot)(self.db) } }
    }

    /// Flushes `family` and waits.
    /// # Errors
    /// RocksDB's, as text.
    pub fn flush(&self, family: &str) -> Result<(), String> {
        // SAFETY: no requirements.
        let options = unsafe { (self.api.flushoptions_create)() };
        // SAFETY: `options` is live until destroyed below.
        unsafe { (self.api.flushoptions_set_wait)(options, 1) };
        let result = call(self.api, |error| {
            // SAFETY: database, options and family are live.
            unsafe { (self.api.flush_cf)(self.db, options, self.family(family), error) }
        });
        // SAFETY: made above, not used again.
        unsafe { (self.api.flushoptions_destroy)(options) };
        result
    }

    /// Compacts all of `family`.
    pub fn compact(&self, family: &str) {
        let family = self.family(family);
        // SAFETY: database and family are live; null means unbounded.
        unsafe { (self.api.compact_range_cf)(self.db, family, ptr::null(), 0, ptr::null(), 0) };
    }

    /// Waits until no flush or compaction runs or is due.
    /// # Errors
    /// RocksDB's, as text.
    pub fn wait_for_compact(&self) -> Result<(), String> {
        // SAFETY: no requirements.
        let options = unsafe { self.api.wait_for_compact_options_create.expect(NEEDS_11)() };
        let result = call(self.api, |error| {
            // SAFETY: database and options are live.
            unsafe { self.api.wait_for_compact.expect(NEEDS_11)(self.db, options, error) }
        });
        // SAFETY: made above, not used again.
        unsafe { self.api.wait_for_compact_options_destroy.expect(NEEDS_11)(options) };
        result
    }

    /// Makes a copy of the database in `dir`, which must not exist. RocksDB first flushes all
    /// families if the WALs have at least `log_size_for_flush` bytes.
    /// # Errors
    /// RocksDB's, as text.
    pub fn create_checkpoint(&self, dir: &Path, log_size_for_flush: u64) -> Result<(), String> {
        // SAFETY: the database is live.
        let checkpoint =
            call(self.api, |error| unsafe { (self.api.checkpoint_object_create)(self.db, error) })?;
        let dir = c_path(dir);
        let result = call(self.api, |error| {
            // SAFETY: the checkpoint is live; the string ends in NUL.
            unsafe { (self.api.checkpoint_create)(checkpoint, dir.as_ptr(), log_size_for_flush, error) }
        });
        // SAFETY: made above, not used again.
        unsafe { (self.api.checkpoint_object_destroy)(checkpoint) };
        result
    }

    /// A property of `family`, such as `rocksdb.num-files-at-level0`.
    pub fn property(&self, family: &str, name: &str) -> Option<String> {
        let name = c_string(name);
        // SAFETY: database and family are live; the string ends in NUL.
        let value = unsafe { (self.api.property_value_cf)(self.db, self.family(family), name.as_ptr()) };
        (!value.is_null()).then(|| take_string(self.api, value))
    }

    /// The database's id.
    pub fn identity(&self) -> String {
        let mut len = 0;
        // SAFETY: the database is live; `len` outlives the call.
        let id = unsafe { (self.api.get_db_identity.expect(NEEDS_11))(self.db, &raw mut len) };
        String::from_utf8_lossy(&take(self.api, id, len)).into_owned()
    }

    /// Reads and checks every block of every table, if the library has a function for it (11 has
    /// one).
    /// # Errors
    /// RocksDB's, as text.
    pub fn verify_checksum(&self) -> Result<(), String> {
        let Some(verify) = self.api.verify_checksum else { return Ok(()) };
        // SAFETY: the database is live.
        call(self.api, |error| unsafe { verify(self.db, error) })
    }
}

impl RocksDb {
    /// Every version of every key of `family` from timestamp `from` up to `to`, under internal
    /// keys.
    /// # Errors
    /// RocksDB's, as text; or that the library has no such function.
    pub fn versions(&self, family: &str, from: &[u8], to: &[u8]) -> Result<Vec<ContentsPair>, String> {
        let set_start =
            self.api.readoptions_set_iter_start_ts.ok_or("no rocksdb_readoptions_set_iter_start_ts")?;
        let options = ReadOptionSet::new(self.api, None);
        // SAFETY: the options are live; the timestamp outlives them.
        unsafe { (self.api.readoptions_set_timestamp)(options.ptr, to.as_ptr().cast(), to.len()) };
        // SAFETY: the options are live; the timestamp outlives them.
        unsafe { set_start(options.ptr, from.as_ptr().cast(), from.len()) };
        self.scan_with(family, &options, true)
    }

    /// Stores `value` under `key` at a timestamp. `None` deletes the key.
    /// # Errors
    /// RocksDB's, as text.
    pub fn write_at(
        &self,
        family: &str,
        key: &[u8],
        timestamp: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), String> {
        let family = self.family(family);
        let ((k, kn), (t, tn)) = (slice(key), slice(timestamp));
        // SAFETY: no requirements.
        let options = unsafe { (self.api.writeoptions_create)() };
        let result = call(self.api, |error| match value {
            Some(value) => {
                let (v, vn) = slice(value);
                let put = self.api.put_cf_with_ts.expect(NEEDS_11);
                // SAFETY: database, options and family are live; the bytes are copied.
                unsafe { put(self.db, options, family, k, kn, t, tn, v, vn, error) }
            }
            None => {
                let delete = self.api.delete_cf_with_ts.expect(NEEDS_11);
                // SAFETY: database, options and family are live; the bytes are copied.
                unsafe { delete(self.db, options, family, k, kn, t, tn, error) }
            }
        });
        // SAFETY: made above, not used again.
        unsafe { (self.api.writeoptions_destroy)(options) };
        result
    }

    /// Raises the oldest readable timestamp of `family` to `ts_low`.
    /// # Errors
    /// RocksDB's, as text; or that the library has no such function.
    pub fn increase_full_history_ts_low(&self, family: &str, ts_low: &[u8]) -> Result<(), String> {
        let increase =
            self.api.increase_full_history_ts_low.ok_or("no rocksdb_increase_full_history_ts_low")?;
        let (low, len) = slice(ts_low);
        // SAFETY: database and family are live; the bytes are copied during the call.
        call(self.api, |error| unsafe { increase(self.db, self.family(family), low, len, error) })
    }

    /// Compares every live file with its checksum in the MANIFEST. The database must have been
    /// opened with `file_checksum_gen_factory`.
    /// # Errors
    /// RocksDB's, as text; or that the library has no such function.
    pub fn verify_file_checksums(&self) -> Result<(), String> {
        let verify = self.api.verify_file_checksums.ok_or("no rocksdb_verify_file_checksums")?;
        // SAFETY: the database is live.
        call(self.api, |error| unsafe { verify(self.db, error) })
    }
}

/// Writes a table for ingestion at `path` with RocksDB's `SstFileWriter`. `options` are those of a
/// family; `ops` are in its order.
/// # Errors
/// RocksDB's, as text.
///
/// # Panics
/// At a single deletion: the C functions have none.
pub fn write_sst_file(path: &Path, options: &str, ops: &[PeerOp]) -> Result<(), String> {
    let api = api()?;
    let options = OptionSet::parse(api, options)?;
    // SAFETY: no requirements.
    let env = unsafe { (api.envoptions_create)() };
    // SAFETY: both are live, and outlive the writer.
    let writer = unsafe { (api.sstfilewriter_create)(env, options.as_ptr()) };
    let path = c_path(path);
    let write = || {
        // SAFETY: the writer is live; the string ends in NUL.
        call(api, |error| unsafe { (api.sstfilewriter_open)(writer, path.as_ptr(), error) })?;
        for op in ops {
            call(api, |error| match op {
                PeerOp::Put { key, value, .. } => {
                    let ((k, kn), (v, vn)) = (slice(key), slice(value));
                    // SAFETY: the writer is live; the slices are copied during the call.
                    unsafe { (api.sstfilewriter_put)(writer, k, kn, v, vn, error) }
                }
                PeerOp::Merge { key, operand, .. } => {
                    let ((k, kn), (v, vn)) = (slice(key), slice(operand));
                    // SAFETY: the writer is live; the slices are copied during the call.
                    unsafe { (api.sstfilewriter_merge)(writer, k, kn, v, vn, error) }
                }
                PeerOp::Delete { key, .. } => {
                    let (k, kn) = slice(key);
                    // SAFETY: the writer is live; the slices are copied during the call.
                    unsafe { (api.sstfilewriter_delete)(writer, k, kn, error) }
                }
                PeerOp::DeleteRange { begin, end, .. } => {
                    let ((b, bn), (e, en)) = (slice(begin), slice(end));
                    // SAFETY: the writer is live; the slices are copied during the call.
                    unsafe { (api.sstfilewriter_delete_range)(writer, b, bn, e, en, error) }
                }
                PeerOp::SingleDelete { .. } => panic!("there is no C function for {op:?}"),
            })?;
        }
        // SAFETY: the writer is live.
        call(api, |error| unsafe { (api.sstfilewriter_finish)(writer, error) })
    };
    let result = write();
    // SAFETY: made above, not used again.
    unsafe { (api.sstfilewriter_destroy)(writer) };
    // SAFETY: made above, not used again.
    unsafe { (api.envoptions_destroy)(env) };
    result
}

impl Drop for RocksDb {
    fn drop(&mut self) {
        for (_, family) in &self.families {
            // SAFETY: made at open or creation, not used again.
            unsafe { (self.api.column_family_handle_destroy)(*family) };
        }
        // SAFETY: snapshots borrow `self`, so none is left; the families are destroyed above.
        unsafe { (self.api.close)(self.db) };
    }
}

/// A snapshot of a database. Released when dropped.
#[derive(Debug)]
pub struct RocksSnapshot<'a> {
    db: &'a RocksDb,
    ptr: *const SnapshotPtr,
}

impl Drop for RocksSnapshot<'_> {
    fn drop(&mut self) {
        // SAFETY: made by this database, which is still open, and not used again.
        unsafe { (self.db.api.release_snapshot)(self.db.db, self.ptr) };
    }
}

struct ReadOptionSet {
    api: &'static Api,
    ptr: *mut crate::api::ReadOptions,
}

impl ReadOptionSet {
    fn new(api: &'static Api, snapshot: Option<&RocksSnapshot<'_>>) -> ReadOptionSet {
        // SAFETY: no requirements.
        let ptr = unsafe { (api.readoptions_create)() };
        // Without total order, a seek may skip tables by their prefix filters. So does RocksDB's
        // own seek to the end of a range tombstone. A full scan needs the keys of all prefixes.
        // SAFETY: the options are live.
        unsafe { (api.readoptions_set_total_order_seek)(ptr, 1) };
        if let Some(snapshot) = snapshot {
            // SAFETY: the snapshot outlives the call that these options are for.
            unsafe { (api.readoptions_set_snapshot)(ptr, snapshot.ptr) };
        }
        ReadOptionSet { api, ptr }
    }
}

impl Drop for ReadOptionSet {
    fn drop(&mut self) {
        // SAFETY: made in `new`, not used again.
        unsafe { (self.api.readoptions_destroy)(self.ptr) };
    }
}

struct Cursor {
    api: &'static Api,
    iter: *mut Iter,
}

impl Cursor {
    fn start(&self, forward: bool) {
        let seek = if forward { self.api.iter_seek_to_first } else { self.api.iter_seek_to_last };
        // SAFETY: the iterator is live.
        unsafe { seek(self.iter) };
    }

    fn step(&self, forward: bool) {
        let step = if forward { self.api.iter_next } else { self.api.iter_prev };
        // SAFETY: the iterator is live. The callers have checked that it is valid.
        unsafe { step(self.iter) };
    }

    fn pair(&self) -> Option<ContentsPair> {
        // SAFETY: the iterator is live.
        if unsafe { (self.api.iter_valid)(self.iter) } == 0 {
            return None;
        }
        Some((self.bytes(self.api.iter_key), self.bytes(self.api.iter_value)))
    }

    fn bytes(&self, part: unsafe extern "C" fn(*const Iter, *mut usize) -> *const c_char) -> Vec<u8> {
        let mut len = 0;
        // SAFETY: the iterator is live and valid.
        let bytes = unsafe { part(self.iter, &raw mut len) };
        copy(bytes, len)
    }

    fn status(&self) -> Result<(), String> {
        // SAFETY: the iterator is live.
        call(self.api, |error| unsafe { (self.api.iter_get_error)(self.iter, error) })
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        // SAFETY: not used again.
        unsafe { (self.api.iter_destroy)(self.iter) };
    }
}
