//! Column families from outside: handles, creating, dropping, listing.

use super::Db;
use super::compaction_timer::family_is_there;
use super::descriptor::{ColumnFamilyDescriptor, family_tables, make_consistent};
use super::log_header::{FAMILIES_SHOWN, family_lines};
use super::recorded_times::family_changed;
use crate::cf::{ColumnFamily, FamilyState, MemTables, SuperVersion, WriteStall};
use crate::deleted_runs::DeletedRunMemory;
use crate::engine::{Engine, UnderWay, maybe_schedule, publish_super_versions};
use crate::files::{other_directories, take_directories};
use crate::flush::{oldest_section_without, raise_log_numbers};
use crate::observe::{IngestedFiles, LevelCompactionStats, StallCounts};
use crate::options::ColumnFamilyOptions;
use crate::picker::{PickerOptions, RunningCompactions, prepare};
use crate::version::{STATS_HISTORY_COLUMN_FAMILY_NAME, VersionSet, VersionSetFamily};
use crate::write::new_memtable;
use esker_base::comparator::ComparatorRef;
use esker_base::logger::InfoLogLevel;
use esker_base::sync::Arc;
use esker_base::sync::atomic::Ordering;
use esker_base::{ColumnFamilyId, Error, FileNumber, Result, SequenceNumber};
use esker_format::key::InternalKeyComparator;
use esker_memtable::MemTable;
use esker_table::TableCache;
use std::collections::{BTreeSet, HashSet};

/// Names a column family of an open database. Stays valid when the family is dropped: while the
/// handle lives, reads see the family's last contents; writes give `ColumnFamilyDropped`.
///
/// ```
/// # let dir = esker_testkit::TempDir::new("doc");
/// # let db = esker::Db::open_default(dir.path())?;
/// let users = db.create_column_family("users", &Default::default())?;
/// assert_eq!((users.name(), users.id().0), ("users", 1));
/// assert_eq!(users.comparator().name(), "leveldb.BytewiseComparator");
/// # Ok::<_, esker::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ColumnFamilyHandle {
    pub(crate) cf: Arc<ColumnFamily>,
}

/// The family's id, by which batches name it.
impl From<&ColumnFamilyHandle> for ColumnFamilyId {
    fn from(family: &ColumnFamilyHandle) -> ColumnFamilyId {
        family.id()
    }
}

impl ColumnFamilyHandle {
    /// The family's name.
    pub fn name(&self) -> &str {
        &self.cf.name
    }

    /// The family's id; write batches name families by it.
    pub fn id(&self) -> ColumnFamilyId {
        self.cf.id
    }

    /// The order of its user keys.
    pub fn comparator(&self) -> &ComparatorRef {
        self.cf.icmp.user_comparator()
    }

    /// Checks that the family belongs to `db` and was not dropped.
    /// # Errors
    /// `InvalidArgument` for a family of another database than `db` · `ColumnFamilyDropped`.
    pub(crate) fn check_live(&self, db: &Db) -> Result<()> {
        db.inner.check_family(&self.cf)?;
        if self.cf.is_dropped() {
            return Err(Error::column_family_dropped(format!(
                "column family '{}' was dropped",
                self.cf.name
            )));
        }
        Ok(())
    }
}

impl Db {
    /// Reports to listeners that a handle is destroyed, and drops it. Handles are clones: the drop
    /// of a handle without this call is not reported. RocksDB's `DestroyColumnFamilyHandle`.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// let users = db.create_column_family("users", &Default::default())?;
    /// db.destroy_column_family_handle(users)?;
    /// assert!(db.column_family("users").is_some());
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: a family of another database · `NotSupported` in a forked child of the
    /// process that opened the database.
    pub fn destroy_column_family_handle(&self, family: ColumnFamilyHandle) -> Result<()> {
        self.inner.check_family(&family.cf)?;
        for listener in &self.engine().options.listeners {
            listener.on_column_family_handle_deletion_started(family.id(), family.name());
        }
        drop(family);
        Ok(())
    }

    /// The family that every database has.
    pub fn default_column_family(&self) -> ColumnFamilyHandle {
        ColumnFamilyHandle { cf: self.engine().families.default_family().clone() }
    }

    /// The open family of this name.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// db.create_column_families(["users"])?;
    /// let users = db.column_family("users").expect("it was just created");
    /// assert_eq!(users.name(), "users");
    /// assert!(db.column_family("orders").is_none());
    /// # Ok::<_, esker::Error>(())
    /// ```
    pub fn column_family(&self, name: &str) -> Option<ColumnFamilyHandle> {
        self.engine().check_process().ok()?;
        self.engine().families.by_name(name).map(|cf| ColumnFamilyHandle { cf })
    }

    /// Names of all open families, by id. The hidden family of the statistics' history
    /// (`persist_stats_to_disk`) is among them only if the open named it.
    pub fn column_family_names(&self) -> Vec<String> {
        if !self.engine().owner.is_here() {
            return Vec::new();
        }
        let hidden =
            |name: &str| self.engine().hides_stats_history && name == STATS_HISTORY_COLUMN_FAMILY_NAME;
        let families = self.engine().families.all();
        families.iter().map(|cf| cf.name.clone()).filter(|name| !hidden(name)).collect()
    }

    /// Creates a family. Its name may be of any length.
    ///
    /// ```
    /// use esker::ColumnFamilyOptions;
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    ///
    /// let users = db.create_column_family("users", &ColumnFamilyOptions::default())?;
    /// db.put_cf(&users, "ada", "countess")?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the name is taken, empty or has a NUL, or an option is out of range ·
    /// `NotSupported`: the database is read-only · `IoError` from the MANIFEST.
    pub fn create_column_family(
        &self,
        name: &str,
        options: &ColumnFamilyOptions,
    ) -> Result<ColumnFamilyHandle> {
        let mut made = self.create_column_families([(name, options.clone())])?;
        Ok(made.remove(0))
    }

    /// Creates families with one sync of the MANIFEST. The cost of each does not depend on the
    /// number of families.
    ///
    /// Takes what [`Db::open_cf`] takes: names, names with options, or descriptors.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// let families = db.create_column_families(["users", "orders"])?;
    /// db.put_cf(&families[1], "1", "two shovels")?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: a name is taken, empty, named twice or has a NUL, or an option is out of
    /// range · `NotSupported`: the database is read-only · `IoError` from the MANIFEST. No family
    /// is created then, with two exceptions. If the MANIFEST can take no more writes, the next
    /// opening may find some of them. After an `IoError` from the OPTIONS file all of them exist
    /// ([`Db::column_family`]).
    pub fn create_column_families(
        &self,
        families: impl IntoIterator<Item = impl Into<ColumnFamilyDescriptor>>,
    ) -> Result<Vec<ColumnFamilyHandle>> {
        let families = &ColumnFamilyDescriptor::list(families)[..];
        let _under_way = UnderWay::begin(self.engine())?;
        let made = self.add_column_families(families)?;
        let engine = self.engine();
        if engine.families.len() <= FAMILIES_SHOWN {
            for handle in &made {
                let lines = family_lines(handle.name(), &self.options_cf(handle));
                engine.info_log.log_all(InfoLogLevel::Header, &lines);
            }
        }
        self.inner.options_changed(made.len())?;
        Ok(made)
    }

    /// Creates families; the caller writes the OPTIONS file.
    pub(super) fn add_column_families(
        &self,
        families: &[ColumnFamilyDescriptor],
    ) -> Result<Vec<ColumnFamilyHandle>> {
        if families.is_empty() {
            return Ok(Vec::new());
        }
        let engine = self.engine();
        let descriptor = |f: &ColumnFamilyDescriptor| self.descriptor_of_new_family(&f.name, &f.options);
        let descriptors: Vec<_> = families.iter().map(descriptor).collect::<Result<_>>()?;
        self.take_directories(&descriptors)?;
        // The write leader does this: no write may fall between the read of the WAL's number and
        // the creation of the families.
        let lead = self.inner.write_path.lead_alone_urgently();
        let mut manifest = engine.manifest.lock();
        let log_number = engine.wals.lock().current_number();
        let in_manifest = descriptors.iter().map(|d| d.for_manifest(&engine.path)).collect();
        let ids = manifest.create_column_families(in_manifest, log_number)?;
        let made = show_families(engine, &manifest, &ids, &descriptors, log_number);
        drop(manifest);
        drop(lead);
        for descriptor in &descriptors {
            family_is_there(engine, &descriptor.options);
            family_changed(engine, &descriptor.options);
        }
        Ok(made.into_iter().map(|cf| ColumnFamilyHandle { cf }).collect())
    }

    /// Creates and holds the directories that only these new families use.
    pub(super) fn take_directories(&self, families: &[ColumnFamilyDescriptor]) -> Result<()> {
        let engine = self.engine();
        let own = families.iter().filter(|family| !family.options.cf_paths.is_empty());
        let paths: Vec<_> = own.map(|family| family.options.file_paths(&engine.path)).collect();
        let directories = other_directories(&engine.path, &paths);
        take_directories(engine.fs().as_ref(), &engine.path, &directories, &engine.numbers)?;
        let mut known = engine.other_directories.lock();
        let new: Vec<_> = directories.into_iter().filter(|directory| !known.contains(directory)).collect();
        known.extend(new);
        Ok(())
    }

    /// The name and the options, made consistent with each other and with the database's options.
    pub(super) fn descriptor_of_new_family(
        &self,
        name: &str,
        options: &ColumnFamilyOptions,
    ) -> Result<ColumnFamilyDescriptor> {
        let engine = self.engine();
        engine.check_writable()?;
        engine.check_open()?;
        let mut descriptor = ColumnFamilyDescriptor::new(name, options.clone());
        for change in make_consistent(&engine.db_options(), &mut descriptor)? {
            esker_base::info_log!(engine.info_log, Warn, "Options: {change}");
        }
        Ok(descriptor)
    }

    /// Drops a family. Its data is deleted when the last handle and iterator are gone.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// # let users = db.create_column_family("users", &Default::default())?;
    /// db.drop_column_family(&users)?;
    /// assert_eq!(db.column_family_names(), ["default"]);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the default family, a family that was dropped already, or one of another
    /// database · `IoError` from the MANIFEST: after a crash the family may be gone · `IoError`
    /// from the OPTIONS file: the family is dropped.
    pub fn drop_column_family(&self, family: &ColumnFamilyHandle) -> Result<()> {
        self.drop_column_families(&[family])
    }

    /// Drops families with one sync of the MANIFEST. Their data is deleted when the last handles
    /// and iterators are gone. The cost of each does not depend on the number of families.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// # let made = db.create_column_families(["users", "orders"])?;
    /// # let (users, orders) = (&made[0], &made[1]);
    /// db.drop_column_families(&[users, orders])?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the default family, a family that is named twice or was dropped already,
    /// or one of another database; none is dropped · `IoError` from the MANIFEST: after a crash,
    /// some may be gone · `IoError` from the OPTIONS file: all are dropped.
    pub fn drop_column_families(&self, families: &[&ColumnFamilyHandle]) -> Result<()> {
        let engine = self.engine();
        engine.check_writable()?;
        if families.is_empty() {
            return Ok(());
        }
        let _under_way = UnderWay::begin(engine)?;
        let lead = self.inner.write_path.lead_alone_urgently();
        let mut manifest = engine.manifest.lock();
        let mut leaving = HashSet::with_capacity(families.len());
        for family in families {
            self.inner.check_family(&family.cf)?;
            if family.id() == ColumnFamilyId::DEFAULT {
                return Err(Error::invalid_argument("Can't drop default column family"));
            }
            if family.cf.is_dropped() || !leaving.insert(family.id()) {
                return Err(Error::invalid_argument("Column family already dropped!"));
            }
        }
        raise_log_numbers(engine, &mut manifest, &leaving);
        manifest.keep_sections_from(oldest_section_without(engine, &leaving));
        manifest.drop_column_families(&leaving)?;
        let mut state = engine.state.lock();
        let mut dropped = Vec::with_capacity(families.len());
        for family in families {
            family.cf.set_dropped();
            engine.families.remove(&family.cf);
            let removed = state.families.remove(&family.id());
            state.throttled.retain(|id| *id != family.id());
            let history = removed.as_ref().and_then(|f| f.memtables.oldest_history());
            state.history_changed(family.id(), history);
            dropped.extend(removed);
        }
        engine.update_wal_bytes_limit(&state);
        crate::engine::forget_shares(engine, &mut state, &leaving);
        drop(state);
        for id in &leaving {
            engine.wals.lock().forget_family(*id);
        }
        drop(manifest);
        drop(lead);
        dropped.iter().for_each(|family| family_changed(engine, &family.options));
        // The last holders of a family have its files deleted.
        drop(dropped);
        engine.purger.request();
        self.inner.options_changed(families.len())
    }
}

/// Makes families visible to all threads after the MANIFEST has recorded them. The caller is the
/// write leader.
pub(super) fn show_families(
    engine: &Arc<Engine>,
    manifest: &VersionSet,
    ids: &[ColumnFamilyId],
    descriptors: &[ColumnFamilyDescriptor],
    log_number: FileNumber,
) -> Vec<Arc<ColumnFamily>> {
    let mut families = Vec::with_capacity(ids.len());
    for (id, descriptor) in ids.iter().zip(descriptors) {
        let in_manifest = manifest.family(*id).expect("the caller created the family");
        engine.wals.lock().set_timestamp_size(*id, descriptor.options.comparator.timestamp_size());
        let family = new_family(engine, manifest, in_manifest, descriptor, log_number);
        // An imported family comes with files.
        prepare(&family.version, &family.compaction_options, engine.env.clock.now_seconds());
        families.push(family);
    }
    let shown = families.iter().map(|family| family.cf.clone()).collect();
    let mut state = engine.state.lock();
    for (id, family) in ids.iter().zip(families) {
        engine.families.insert(family.cf.clone());
        state.families.insert(*id, family);
    }
    engine.update_wal_bytes_limit(&state);
    publish_super_versions(engine, &mut state, ids);
    // Imported tables may be due.
    maybe_schedule(engine, &mut state);
    shown
}

/// A new family with an empty memtable.
fn new_family(
    engine: &Engine,
    manifest: &VersionSet,
    in_manifest: &VersionSetFamily,
    descriptor: &ColumnFamilyDescriptor,
    log_number: FileNumber,
) -> FamilyState {
    let icmp = InternalKeyComparator::new(descriptor.options.comparator.clone());
    let earliest = SequenceNumber(engine.allocated_sequence.load(Ordering::Relaxed));
    let mem = new_memtable(&engine.options, &icmp, &descriptor.options, 1, earliest);
    let default =
        engine.families.by_id(ColumnFamilyId::DEFAULT).expect("the default family is never dropped");
    let (paths, open_files) = (in_manifest.current().paths().clone(), default.tables.open_files());
    let tables = family_tables(&engine.db_options(), paths, descriptor, open_files);
    family_with(engine.tag, (manifest, in_manifest), descriptor, mem, log_number, tables)
}

/// A family of this database with the given memtable over the current version.
pub(super) fn family_with(
    database: u64,
    (manifest, in_manifest): (&VersionSet, &VersionSetFamily),
    descriptor: &ColumnFamilyDescriptor,
    mem: Arc<MemTable>,
    log_number: FileNumber,
    tables: Arc<TableCache>,
) -> FamilyState {
    let options = Arc::new(descriptor.options.clone());
    let version = in_manifest.current().clone();
    let icmp = InternalKeyComparator::new(options.comparator.clone());
    let deleted_run_memory = DeletedRunMemory::of(&icmp, &options);
    let super_version =
        SuperVersion::first(mem.clone(), version.clone(), options.clone(), deleted_run_memory.clone());
    let name = descriptor.name.clone();
    let (id, obsolete) = (in_manifest.id(), manifest.obsolete.clone());
    let cf = ColumnFamily::new(database, id, name, icmp, Arc::new(super_version), tables, obsolete);
    FamilyState {
        cf: Arc::new(cf),
        compaction_options: PickerOptions::from(options.as_ref()),
        compaction_stats: LevelCompactionStats::new(version.num_levels()),
        bytes_flushed: 0,
        ingested: IngestedFiles::default(),
        stall_counts: StallCounts::default(),
        options,
        next_memtable_id: mem.id() + 1,
        memtables: MemTables::new(mem, log_number),
        version,
        deleted_run_memory,
        epochs: in_manifest.epochs().clone(),
        running: RunningCompactions::default(),
        flush_queued: false,
        flushing: false,
        flush_wanted: None,
        failed_flush: None,
        compaction_queued: false,
        compactions_aborted: 0,
        suggested: BTreeSet::new(),
        stall: WriteStall::default(),
        pending_compaction_bytes: 0,
        bottommost_threshold: SequenceNumber::MAX,
    }
}
