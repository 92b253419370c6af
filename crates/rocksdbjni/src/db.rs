//! `RocksDB`: opens, closes and describes databases; families and snapshots.
//!
//! In: options, paths, families. Out: a handle of the database, and handles of families and
//! snapshots, which end with the database (`given.rs`).

use crate::border::{JavaInput, NativeResult};
use crate::given::{
    GivenHandle, GivenObjects, OfDatabase, SnapshotObject, dispose_listed, ended, give_listed,
};
use crate::handle::{NativeHandle, dispose, give, give_typed, handles, none};
use crate::jni::{JavaEnv, Reference, long, reference};
use crate::kind::DatabaseKind;
use crate::listeners::DatabaseEvents;
use crate::objects::EnvObject;
use crate::options::{AllSettings, Call, CfSettings, DbSettings, HasDb};
use crate::transaction_dbs::TransactionNames;
use esker::options::{Clock, Env};
use esker::{
    ColumnFamilyDescriptor, ColumnFamilyHandle, ColumnFamilyId, ColumnFamilyOptions, CompactRangeOptions, Db,
    DbOptions, Error, FlushOptions, OpenMode, Options, RangeOpt, WalFile, WalFileType,
};
use std::path::PathBuf;
use std::sync::Arc;

/// An open database. [`free`] closes it. Its drop ends what it gave.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) db: Db,
    pub(crate) kind: DatabaseKind,
    /// The directory as Java named it.
    name: PathBuf,
    pub(crate) default: ColumnFamilyHandle,
    pub(crate) list: Arc<GivenObjects>,
    /// The default family for Java, which does not free it.
    default_for_java: NativeHandle<Family>,
    /// The environment for Java, which does not free it; 0: the default one.
    env: NativeHandle<EnvObject>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) names: Arc<TransactionNames>,
    events: DatabaseEvents,
}

/// A family.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) id: ColumnFamilyId,
    name: String,
    open: Option<OpenFamily>,
    list: Arc<GivenObjects>,
    events: DatabaseEvents,
}

/// A family's handle, and the options that the family had when the handle was made.
#[derive(Debug)]
struct OpenFamily {
    handle: ColumnFamilyHandle,
    options: Box<ColumnFamilyOptions>,
}

impl Family {
    fn open(&self) -> NativeResult<&OpenFamily> {
        self.open.as_ref().ok_or_else(|| ended().into())
    }

    /// The engine's handle of the family.
    /// # Errors
    /// `ShutdownInProgress`: the database is closed.
    pub(crate) fn handle(&self) -> NativeResult<&ColumnFamilyHandle> {
        Ok(&self.open()?.handle)
    }

    /// Lets go of the database.
    pub(crate) fn end(&mut self) {
        self.open = None;
    }
}

impl OfDatabase for Family {
    fn list(&self) -> &Arc<GivenObjects> {
        &self.list
    }

    fn listed(handle: NativeHandle<Family>) -> GivenHandle {
        GivenHandle::Family(handle)
    }
}

/// A new handle of a family, with the options that the family has now.
fn give_family(
    db: &Db,
    list: &Arc<GivenObjects>,
    events: &DatabaseEvents,
    handle: ColumnFamilyHandle,
) -> NativeHandle<Family> {
    let options = Box::new(db.options_cf(&handle));
    let (id, name) = (handle.id(), handle.name().to_owned());
    let open = Some(OpenFamily { handle, options });
    give_listed(Family { id, name, open, list: list.clone(), events: events.clone() })
}

impl Database {
    fn new(db: Db, name: PathBuf, env: &Env, events: DatabaseEvents) -> Database {
        Database::of_kind(DatabaseKind::Plain, db, name, env, events)
    }

    /// A database; `db` is the engine's database behind `kind`.
    pub(crate) fn of_kind(
        kind: DatabaseKind,
        db: Db,
        name: PathBuf,
        env: &Env,
        events: DatabaseEvents,
    ) -> Database {
        let (default, list) = (db.default_column_family(), Arc::<GivenObjects>::default());
        let default_for_java = give_family(&db, &list, &events, default.clone());
        let is_default = Arc::ptr_eq(&env.fs, &Env::default().fs);
        let (clock, names) = (env.clock.clone(), Arc::default());
        let env = if is_default { none() } else { give_typed(EnvObject(env.clone())) };
        Database { db, kind, name, default, list, default_for_java, env, clock, names, events }
    }

    /// Moves the database to the heap, tells its listeners the handle, and returns the handle.
    pub(crate) fn give(self) -> i64 {
        let events = self.events.clone();
        let number = give(self);
        events.set_handle(number);
        number
    }

    pub(crate) fn give_family(&self, handle: ColumnFamilyHandle) -> i64 {
        give_family(&self.db, &self.list, &self.events, handle).number()
    }

    /// The family of a handle; the default family for 0.
    /// # Errors
    /// `ShutdownInProgress`: the family is of a closed database.
    pub(crate) fn family(&self, family: NativeHandle<Family>) -> NativeResult<&ColumnFamilyHandle> {
        family.find().map_or(Ok(&self.default), Family::handle)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.list.end().ok();
        dispose(self.default_for_java).ok();
        dispose(self.env).ok();
    }
}

/// A database's directory as Java names it.
pub(crate) fn path(env: &JavaEnv<'_>, path: Reference) -> NativeResult<PathBuf> {
    Ok(PathBuf::from(env.text(path)?))
}

/// Options for opening, and the listeners in them. Java may destroy a database without naming its
/// other directories.
pub(crate) fn for_open<T: HasDb>(settings: &T) -> (DbOptions, DatabaseEvents) {
    let (options, events) = DatabaseEvents::of(settings);
    (DbOptions { move_leftovers_of_paths: true, ..options }, events)
}

pub(crate) fn open(
    env: &JavaEnv<'_>,
    settings: NativeHandle<AllSettings>,
    directory: Reference,
) -> NativeResult<i64> {
    let (settings, name) = (settings.get()?, path(env, directory)?);
    let (db, events) = for_open(settings);
    let options = Options { db, cf: settings.cf.clone() };
    Ok(Database::new(Db::open(&options, &name)?, name, &options.db.env, events).give())
}

pub(crate) fn descriptors(
    env: &JavaEnv<'_>,
    names: Reference,
    options: Reference,
) -> NativeResult<Vec<ColumnFamilyDescriptor>> {
    let names = names_of(env, names)?;
    let options = handles::<CfSettings>(env, options)?;
    if names.len() != options.len() {
        return Err(Error::invalid_argument("families and their options differ in number").into());
    }
    let mut families = Vec::new();
    for (name, options) in names.into_iter().zip(options) {
        families.push(ColumnFamilyDescriptor::new(name, options.get()?.cf.clone()));
    }
    Ok(families)
}

fn names_of(env: &JavaEnv<'_>, names: Reference) -> NativeResult<Vec<String>> {
    env.elements(names, |name| name_of(&env.all_bytes(name)?))
}

pub(crate) fn name_of(bytes: &[u8]) -> NativeResult<String> {
    let name = std::str::from_utf8(bytes);
    Ok(name.map_err(|_| Error::invalid_argument("a family's name is not UTF-8"))?.to_owned())
}

/// The array that `open` returns: the database, then its families as listed.
pub(crate) fn give_opened(
    env: &JavaEnv<'_>,
    database: Database,
    families: &[ColumnFamilyDescriptor],
) -> NativeResult<Reference> {
    let mut found = Vec::new();
    for family in families {
        let handle = database.db.column_family(&family.name);
        let handle = handle.ok_or_else(|| Error::invalid_argument(format!("no family '{}'", family.name)))?;
        found.push(handle);
    }
    let mut numbers = vec![0];
    numbers.extend(found.into_iter().map(|family| database.give_family(family)));
    numbers[0] = database.give();
    env.new_longs(&numbers)
}

pub(crate) fn open_families(
    env: &JavaEnv<'_>,
    options: NativeHandle<DbSettings>,
    directory: Reference,
    names: Reference,
    family_options: Reference,
    mode: OpenMode,
    refuses_wals: bool,
) -> NativeResult<Reference> {
    let families = descriptors(env, names, family_options)?;
    let (options, events) = for_open(options.get()?);
    let name = path(env, directory)?;
    let db = Db::open_with(&options, &name, families.clone(), mode)?;
    refuse_wals(&db, refuses_wals)?;
    give_opened(env, Database::new(db, name, &options.env, events), &families)
}

/// Checks that no WAL has records, if `refuses`.
/// # Errors
/// `Corruption`: a WAL outside of the archive has records.
fn refuse_wals(db: &Db, refuses: bool) -> NativeResult<()> {
    let is_alive = |file: &WalFile| file.file_type == WalFileType::Alive;
    if refuses && db.sorted_wal_files()?.iter().any(is_alive) {
        return Err(
            Error::corruption("errorIfWalFileExists: the database has a WAL that is not empty").into()
        );
    }
    Ok(())
}

pub(crate) fn open_read_only(
    env: &JavaEnv<'_>,
    settings: NativeHandle<AllSettings>,
    directory: Reference,
) -> NativeResult<i64> {
    let (settings, name) = (settings.get()?, path(env, directory)?);
    let (db, events) = DatabaseEvents::of(settings);
    let options = Options { db, cf: settings.cf.clone() };
    let db = Db::open_for_read_only(&options, &name)?;
    Ok(Database::new(db, name, &options.db.env, events).give())
}

pub(crate) fn open_secondary(
    env: &JavaEnv<'_>,
    settings: NativeHandle<AllSettings>,
    directory: Reference,
    own: Reference,
) -> NativeResult<i64> {
    let (name, own) = (path(env, directory)?, path(env, own)?);
    let settings = settings.get()?;
    let (db, events) = DatabaseEvents::of(settings);
    let options = Options { db, cf: settings.cf.clone() };
    let db = Db::open_as_secondary(&options, &name, own)?;
    Ok(Database::new(db, name, &options.db.env, events).give())
}

pub(crate) fn open_families_secondary(
    env: &JavaEnv<'_>,
    options: NativeHandle<DbSettings>,
    directory: Reference,
    own: Reference,
    names: Reference,
    family_options: Reference,
) -> NativeResult<Reference> {
    let families = descriptors(env, names, family_options)?;
    let (name, own) = (path(env, directory)?, path(env, own)?);
    let (options, events) = DatabaseEvents::of(options.get()?);
    let db = Db::open_cf_as_secondary(&options, &name, own, families.clone())?;
    give_opened(env, Database::new(db, name, &options.env, events), &families)
}

pub(crate) fn close(db: NativeHandle<Database>) -> NativeResult<()> {
    Ok(db.get()?.db.close()?)
}

/// Closes the database, and frees it. Errors have no way to Java here. Listeners have the handle
/// until the close returns, because then no job runs any more.
pub(crate) fn free(db: NativeHandle<Database>) -> NativeResult<()> {
    if let Some(database) = db.find() {
        database.db.close().ok();
        database.events.set_handle(0);
    }
    dispose(db)
}

/// Frees a family's handle, after listeners were told.
pub(crate) fn free_family(family: NativeHandle<Family>) -> NativeResult<()> {
    if let Some(object) = family.find().filter(|family| family.open.is_some()) {
        object.events.family_handle_deleted(family.number());
    }
    dispose_listed(family)
}

/// The database's environment.
pub(crate) fn env(db: NativeHandle<Database>) -> NativeResult<i64> {
    let env = db.get()?.env;
    if env.is_null() { crate::objects::default_env() } else { Ok(env.number()) }
}

pub(crate) fn destroy(
    env: &JavaEnv<'_>,
    directory: Reference,
    options: NativeHandle<AllSettings>,
) -> NativeResult<()> {
    Ok(esker::destroy_db(&options.get()?.db, path(env, directory)?)?)
}

pub(crate) fn list_families(
    env: &JavaEnv<'_>,
    options: NativeHandle<AllSettings>,
    directory: Reference,
) -> NativeResult<Reference> {
    // As in RocksJava, a database that cannot be read has no families: programs ask before they
    // make it.
    let names = Db::list_column_families(&options.get()?.db, path(env, directory)?).unwrap_or_default();
    env.new_array_of("[B", &names, |name| env.new_bytes(name.as_bytes()))
}

pub(crate) fn default_family(db: NativeHandle<Database>) -> NativeResult<i64> {
    Ok(db.get()?.default_for_java.number())
}

pub(crate) fn create_family(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    name: JavaInput,
    options: NativeHandle<CfSettings>,
) -> NativeResult<i64> {
    let name = name_of(&name.read(env)?)?;
    let db = db.get()?;
    Ok(db.give_family(db.create_family(&name, &options.get()?.cf)?))
}

fn give_families(
    env: &JavaEnv<'_>,
    db: &Database,
    families: Vec<ColumnFamilyHandle>,
) -> NativeResult<Reference> {
    let numbers: Vec<i64> = families.into_iter().map(|family| db.give_family(family)).collect();
    env.new_longs(&numbers)
}

/// Creates families with one set of options.
pub(crate) fn create_families(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    options: NativeHandle<CfSettings>,
    names: Reference,
) -> NativeResult<Reference> {
    let options = &options.get()?.cf;
    let names = names_of(env, names)?.into_iter();
    let families = names.map(|name| ColumnFamilyDescriptor::new(name, options.clone())).collect::<Vec<_>>();
    let db = db.get()?;
    give_families(env, db, db.create_families(families)?)
}

/// Creates families, each with its options.
pub(crate) fn create_families_each(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    options: Reference,
    names: Reference,
) -> NativeResult<Reference> {
    let families = descriptors(env, names, options)?;
    let db = db.get()?;
    give_families(env, db, db.create_families(families)?)
}

pub(crate) fn drop_family(db: NativeHandle<Database>, family: NativeHandle<Family>) -> NativeResult<()> {
    Ok(db.get()?.drop_families(&[family.get()?.handle()?])?)
}

/// The families of an array of handles.
pub(crate) fn families<'a>(env: &JavaEnv<'_>, array: Reference) -> NativeResult<Vec<&'a ColumnFamilyHandle>> {
    handles::<Family>(env, array)?.into_iter().map(|family| family.get()?.handle()).collect()
}

pub(crate) fn drop_families(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    dropped: Reference,
) -> NativeResult<()> {
    Ok(db.get()?.drop_families(&families(env, dropped)?)?)
}

pub(crate) fn family_name(env: &JavaEnv<'_>, family: NativeHandle<Family>) -> NativeResult<Reference> {
    env.new_bytes(family.get()?.name.as_bytes())
}

pub(crate) fn family_id(family: NativeHandle<Family>) -> NativeResult<i32> {
    Ok(family.get()?.id.0.cast_signed())
}

/// A family's name and options, as `ColumnFamilyDescriptor`.
pub(crate) fn family_descriptor(env: &JavaEnv<'_>, family: NativeHandle<Family>) -> NativeResult<Reference> {
    let family = family.get()?;
    let cf = (*family.open()?.options).clone();
    let name = env.new_bytes(family.name.as_bytes())?;
    let options = give(CfSettings { cf, ..CfSettings::default() });
    let options = env.new_object("org/rocksdb/ColumnFamilyOptions", "(J)V", &[long(options)])?;
    let descriptor = "([BLorg/rocksdb/ColumnFamilyOptions;)V";
    env.new_object("org/rocksdb/ColumnFamilyDescriptor", descriptor, &[reference(name), reference(options)])
}

pub(crate) fn snapshot(db: NativeHandle<Database>) -> NativeResult<i64> {
    let db = db.get()?;
    let snapshot = db.db.snapshot();
    let sequence = snapshot.sequence().0.cast_signed();
    Ok(give_listed(SnapshotObject { snapshot: Some(snapshot), sequence, list: db.list.clone() }).number())
}

pub(crate) fn snapshot_sequence(snapshot: NativeHandle<SnapshotObject>) -> NativeResult<i64> {
    Ok(snapshot.get()?.sequence)
}

pub(crate) fn latest_sequence(db: NativeHandle<Database>) -> NativeResult<i64> {
    Ok(db.get()?.db.latest_sequence_number().0.cast_signed())
}

fn no_property(name: &str) -> Error {
    Error::not_found(format!("property '{name}'"))
}

pub(crate) fn property(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    family: NativeHandle<Family>,
    name: Reference,
) -> NativeResult<Reference> {
    let (db, name) = (db.get()?, env.text(name)?);
    let value = db.db.property_cf(db.family(family)?, &name).ok_or_else(|| no_property(&name))?;
    env.new_text(&value)
}

pub(crate) fn long_property(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    family: NativeHandle<Family>,
    name: Reference,
) -> NativeResult<i64> {
    let (db, name) = (db.get()?, env.text(name)?);
    let value = db.db.int_property_cf(db.family(family)?, &name).ok_or_else(|| no_property(&name))?;
    Ok(value.cast_signed())
}

/// The sum of a property over all families.
pub(crate) fn aggregated_property(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    name: Reference,
) -> NativeResult<i64> {
    let (db, name) = (db.get()?, env.text(name)?);
    let mut sum = 0_u64;
    for family in db.db.column_family_names().iter().filter_map(|name| db.db.column_family(name)) {
        sum += db.db.int_property_cf(&family, &name).ok_or_else(|| no_property(&name))?;
    }
    Ok(sum.cast_signed())
}

pub(crate) fn map_property(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    family: NativeHandle<Family>,
    name: Reference,
) -> NativeResult<Reference> {
    let (db, name) = (db.get()?, env.text(name)?);
    let values = db.db.map_property_cf(db.family(family)?, &name).ok_or_else(|| no_property(&name))?;
    let map = env.new_object("java/util/HashMap", "()V", &[])?;
    let class = env.class_of(map)?;
    let put = env.method(class, "put", "(Ljava/lang/Object;Ljava/lang/Object;)Ljava/lang/Object;")?;
    for (key, value) in values {
        let (key, value) = (env.new_text(&key)?, env.new_text(&value)?);
        env.call_object(map, put, &[reference(key), reference(value)])?;
        env.forget(key);
        env.forget(value);
    }
    Ok(map)
}

pub(crate) fn flush(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    options: NativeHandle<Call<FlushOptions>>,
    flushed: Reference,
) -> NativeResult<()> {
    let (db, options) = (db.get()?, options.get()?.options);
    if flushed.is_null() {
        return Ok(db.db.flush_opt(&options, &[&db.default])?);
    }
    Ok(db.db.flush_opt(&options, &families(env, flushed)?)?)
}

/// Compacts from `begin` to `end`; null means no bound.
pub(crate) fn compact_range(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    (begin, begin_len): (Reference, i32),
    (end, end_len): (Reference, i32),
    options: NativeHandle<Call<CompactRangeOptions>>,
    family: NativeHandle<Family>,
) -> NativeResult<()> {
    let db = db.get()?;
    let bound = |key: Reference, len| {
        if key.is_null() { Ok(None) } else { env.bytes(key, 0, len).map(Some) }
    };
    let (begin, end) = (bound(begin, begin_len)?, bound(end, end_len)?);
    let options = options.find().map(|options| options.options.clone()).unwrap_or_default();
    Ok(db.db.compact_range_opt(&options, db.family(family)?, begin.as_deref(), end.as_deref())?)
}

/// Deletes the tables within key ranges, two keys a range; null means no bound.
pub(crate) fn delete_files_in_ranges(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    family: NativeHandle<Family>,
    ranges: Reference,
    includes_end: bool,
) -> NativeResult<()> {
    let db = db.get()?;
    let bound = |key: Reference| if key.is_null() { Ok(None) } else { env.all_bytes(key).map(Some) };
    let bounds = env.elements(ranges, bound)?;
    let pairs = bounds.chunks_exact(2);
    let ranges: Vec<RangeOpt<'_>> =
        pairs.map(|pair| RangeOpt { start: pair[0].as_deref(), limit: pair[1].as_deref() }).collect();
    db.db.delete_files_in_ranges(db.family(family)?, &ranges, includes_end)?;
    Ok(())
}

/// The directory as Java named it.
pub(crate) fn name(env: &JavaEnv<'_>, db: NativeHandle<Database>) -> NativeResult<Reference> {
    env.new_text(&db.get()?.name.to_string_lossy())
}

pub(crate) fn enable_auto_compaction(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    enabled: Reference,
) -> NativeResult<()> {
    for family in families(env, enabled)? {
        db.get()?.db.set_options(family, &[("disable_auto_compactions", "false")])?;
    }
    Ok(())
}

fn changes(env: &JavaEnv<'_>, names: Reference, values: Reference) -> NativeResult<Vec<(String, String)>> {
    Ok(env.texts(names)?.into_iter().zip(env.texts(values)?).collect())
}

pub(crate) fn set_options(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    family: NativeHandle<Family>,
    names: Reference,
    values: Reference,
) -> NativeResult<()> {
    let (db, changes) = (db.get()?, changes(env, names, values)?);
    let changes: Vec<(&str, &str)> = changes.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    Ok(db.db.set_options(db.family(family)?, &changes)?)
}

pub(crate) fn set_db_options(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    names: Reference,
    values: Reference,
) -> NativeResult<()> {
    let changes = changes(env, names, values)?;
    let changes: Vec<(&str, &str)> = changes.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    Ok(db.get()?.db.set_db_options(&changes)?)
}

pub(crate) fn number_of_levels(
    db: NativeHandle<Database>,
    family: NativeHandle<Family>,
) -> NativeResult<i32> {
    let db = db.get()?;
    Ok(db.db.options_cf(db.family(family)?).num_levels)
}

pub(crate) fn stop_trigger(db: NativeHandle<Database>, family: NativeHandle<Family>) -> NativeResult<i32> {
    let db = db.get()?;
    Ok(db.db.options_cf(db.family(family)?).level0_stop_writes_trigger)
}

/// Java's list of the database's live files, relative to its directory. The last entry is the
/// MANIFEST's size.
pub(crate) fn live_files(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    flushes: bool,
) -> NativeResult<Reference> {
    let db = db.get()?;
    let options = esker::options::LiveFilesStorageInfoOptions {
        wal_size_for_flush: if flushes { 0 } else { u64::MAX },
        ..Default::default()
    };
    let files = db.db.live_files_storage_info(&options)?;
    let is_log = |name: &str| name.ends_with(".log");
    let size = files.iter().find(|file| file.relative_filename.starts_with("MANIFEST"));
    let size = size.map_or(0, |manifest| manifest.size);
    let names = files.iter().map(|file| file.relative_filename.as_str()).filter(|name| !is_log(name));
    let mut listed: Vec<String> = names.map(|name| format!("/{name}")).collect();
    listed.push(size.to_string());
    env.new_array_of("java/lang/String", &listed, |name| env.new_text(name))
}

/// Bits of `SizeApproximationFlag`.
const MEMTABLES: i8 = 1;
const TABLES: i8 = 2;

/// The sizes of key ranges, two slices a range, in the places that the bits of `counted` name.
pub(crate) fn approximate_sizes(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    family: NativeHandle<Family>,
    ranges: Reference,
    counted: i8,
) -> NativeResult<Reference> {
    let db = db.get()?;
    let bounds = handles::<crate::objects::SliceObject>(env, ranges)?;
    let mut sizes = Vec::new();
    for range in bounds.chunks_exact(2) {
        let (begin, end) = (range[0].get()?, range[1].get()?);
        let (family, begin, end) = (db.family(family)?, begin.bytes(), end.bytes());
        let mut size = 0;
        if counted & MEMTABLES != 0 {
            size += db.db.approximate_memtable_size(family, begin, end);
        }
        if counted & TABLES != 0 {
            size += db.db.approximate_size(family, begin, end);
        }
        sizes.push(size.cast_signed());
    }
    env.new_longs(&sizes)
}

pub(crate) fn flush_wal(db: NativeHandle<Database>, syncs: bool) -> NativeResult<()> {
    Ok(db.get()?.db.flush_wal(syncs)?)
}

pub(crate) fn sync_wal(db: NativeHandle<Database>) -> NativeResult<()> {
    Ok(db.get()?.db.sync_wal()?)
}

pub(crate) fn cancel_background_work(db: NativeHandle<Database>, waits: bool) -> NativeResult<()> {
    Ok(db.get()?.db.cancel_all_background_work(waits)?)
}

pub(crate) fn pause_background_work(db: NativeHandle<Database>) -> NativeResult<()> {
    db.get()?.db.pause_background_work();
    Ok(())
}

pub(crate) fn continue_background_work(db: NativeHandle<Database>) -> NativeResult<()> {
    Ok(db.get()?.db.continue_background_work()?)
}

pub(crate) fn disable_file_deletions(db: NativeHandle<Database>) -> NativeResult<()> {
    db.get()?.db.disable_file_deletions();
    Ok(())
}

pub(crate) fn enable_file_deletions(db: NativeHandle<Database>) -> NativeResult<()> {
    Ok(db.get()?.db.enable_file_deletions()?)
}

pub(crate) fn verify_checksum(db: NativeHandle<Database>) -> NativeResult<()> {
    Ok(db.get()?.db.verify_checksum()?)
}

pub(crate) fn catch_up(db: NativeHandle<Database>) -> NativeResult<()> {
    Ok(db.get()?.db.try_catch_up_with_primary()?)
}
