//! `RocksDB`: opens, closes and describes databases; families and snapshots.
//!
//! In: options, paths, families. Out: a handle of the database, and handles of families. Iterators
//! and snapshots hold a share of the database, so none of them dangles when Java closes in another
//! order than RocksJava asks for.

use crate::border::{JavaInput, NativeResult};
use crate::handle::{NativeHandle, give};
use crate::jni::{JavaEnv, Reference, long, reference};
use crate::options::{AllSettings, Call, CfSettings, DbSettings};
use esker::{
    ColumnFamilyDescriptor, ColumnFamilyHandle, ColumnFamilyOptions, CompactRangeOptions, Db, DbOptions,
    Error, FlushOptions, OpenMode, Snapshot,
};
use std::path::PathBuf;

/// An open database.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) db: Db,
    /// The directory as Java named it.
    name: PathBuf,
    pub(crate) default: ColumnFamilyHandle,
}

/// A family's handle, and the options that the family had when the handle was made.
#[derive(Debug)]
pub(crate) struct Family(pub(crate) ColumnFamilyHandle, Box<ColumnFamilyOptions>);

impl Family {
    /// A new handle, with the options that the family has now.
    fn give(db: &Db, family: ColumnFamilyHandle) -> i64 {
        let options = db.options_cf(&family);
        give(Family(family, Box::new(options)))
    }
}

impl Database {
    fn new(db: Db, name: PathBuf) -> Database {
        Database { default: db.default_column_family(), db, name }
    }

    /// The family of a handle; the default family for 0.
    pub(crate) fn family(&self, family: NativeHandle<Family>) -> &ColumnFamilyHandle {
        family.find().map_or(&self.default, |family| &family.0)
    }
}

/// A database's directory as Java names it.
pub(crate) fn path(env: &JavaEnv<'_>, path: Reference) -> NativeResult<PathBuf> {
    Ok(PathBuf::from(env.text(path)?))
}

/// Options for opening. Java may destroy a database without naming its other directories.
fn for_open(options: &DbOptions) -> DbOptions {
    DbOptions { move_leftovers_of_paths: true, ..options.clone() }
}

pub(crate) fn open(
    env: &JavaEnv<'_>,
    options: NativeHandle<AllSettings>,
    directory: Reference,
) -> NativeResult<i64> {
    let mut options = options.get()?.options();
    options.db = for_open(&options.db);
    let name = path(env, directory)?;
    Ok(give(Database::new(Db::open(&options, &name)?, name)))
}

fn descriptors(
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

fn name_of(bytes: &[u8]) -> NativeResult<String> {
    let name = std::str::from_utf8(bytes);
    Ok(name.map_err(|_| Error::invalid_argument("a family's name is not UTF-8"))?.to_owned())
}

/// The handles in an array of numbers.
pub(crate) fn handles<T>(env: &JavaEnv<'_>, array: Reference) -> NativeResult<Vec<NativeHandle<T>>> {
    // SAFETY: Java's arrays of handles have handles of the class that the native is for.
    Ok(env.longs(array)?.into_iter().map(|number| unsafe { NativeHandle::new(number) }).collect())
}

/// The array that `open` returns: the database, then its families as listed.
fn give_opened(
    env: &JavaEnv<'_>,
    db: Db,
    name: PathBuf,
    families: &[ColumnFamilyDescriptor],
) -> NativeResult<Reference> {
    let mut found = Vec::new();
    for family in families {
        let handle = db.column_family(&family.name);
        let handle = handle.ok_or_else(|| Error::invalid_argument(format!("no family '{}'", family.name)))?;
        found.push(handle);
    }
    let mut numbers = vec![0];
    numbers.extend(found.into_iter().map(|family| Family::give(&db, family)));
    numbers[0] = give(Database::new(db, name));
    env.new_longs(&numbers)
}

pub(crate) fn open_families(
    env: &JavaEnv<'_>,
    options: NativeHandle<DbSettings>,
    directory: Reference,
    names: Reference,
    family_options: Reference,
    mode: OpenMode,
) -> NativeResult<Reference> {
    let families = descriptors(env, names, family_options)?;
    let options = for_open(&options.get()?.db);
    let name = path(env, directory)?;
    let db = Db::open_with(&options, &name, families.clone(), mode)?;
    give_opened(env, db, name, &families)
}

pub(crate) fn open_read_only(
    env: &JavaEnv<'_>,
    options: NativeHandle<AllSettings>,
    directory: Reference,
) -> NativeResult<i64> {
    let name = path(env, directory)?;
    Ok(give(Database::new(Db::open_for_read_only(&options.get()?.options(), &name)?, name)))
}

pub(crate) fn open_secondary(
    env: &JavaEnv<'_>,
    options: NativeHandle<AllSettings>,
    directory: Reference,
    own: Reference,
) -> NativeResult<i64> {
    let (name, own) = (path(env, directory)?, path(env, own)?);
    Ok(give(Database::new(Db::open_as_secondary(&options.get()?.options(), &name, own)?, name)))
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
    let db = Db::open_cf_as_secondary(&options.get()?.db, &name, own, families.clone())?;
    give_opened(env, db, name, &families)
}

pub(crate) fn close(db: NativeHandle<Database>) -> NativeResult<()> {
    Ok(db.get()?.db.close()?)
}

/// Frees a database. Closes it, if Java has not: errors have no way to Java here.
pub(crate) fn dispose(db: NativeHandle<Database>) -> NativeResult<()> {
    if !db.is_null() {
        let database = db.take()?;
        drop(database.db.close());
    }
    Ok(())
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
    let db = db.get()?;
    Ok(Family::give(&db.db, db.default.clone()))
}

pub(crate) fn create_family(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    name: JavaInput,
    options: NativeHandle<CfSettings>,
) -> NativeResult<i64> {
    let name = name_of(&name.read(env)?)?;
    let db = &db.get()?.db;
    Ok(Family::give(db, db.create_column_family(&name, &options.get()?.cf)?))
}

fn give_families(env: &JavaEnv<'_>, db: &Db, families: Vec<ColumnFamilyHandle>) -> NativeResult<Reference> {
    let numbers: Vec<i64> = families.into_iter().map(|family| Family::give(db, family)).collect();
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
    let db = &db.get()?.db;
    give_families(env, db, db.create_column_families(families)?)
}

/// Creates families, each with its options.
pub(crate) fn create_families_each(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    options: Reference,
    names: Reference,
) -> NativeResult<Reference> {
    let families = descriptors(env, names, options)?;
    let db = &db.get()?.db;
    give_families(env, db, db.create_column_families(families)?)
}

pub(crate) fn drop_family(db: NativeHandle<Database>, family: NativeHandle<Family>) -> NativeResult<()> {
    Ok(db.get()?.db.drop_column_family(&family.get()?.0)?)
}

/// The families of an array of handles.
pub(crate) fn families<'a>(env: &JavaEnv<'_>, array: Reference) -> NativeResult<Vec<&'a ColumnFamilyHandle>> {
    handles::<Family>(env, array)?.into_iter().map(|family| Ok(&family.get()?.0)).collect()
}

pub(crate) fn drop_families(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    dropped: Reference,
) -> NativeResult<()> {
    Ok(db.get()?.db.drop_column_families(&families(env, dropped)?)?)
}

pub(crate) fn family_name(env: &JavaEnv<'_>, family: NativeHandle<Family>) -> NativeResult<Reference> {
    env.new_bytes(family.get()?.0.name().as_bytes())
}

pub(crate) fn family_id(family: NativeHandle<Family>) -> NativeResult<i32> {
    Ok(family.get()?.0.id().0.cast_signed())
}

/// A family's name and options, as `ColumnFamilyDescriptor`.
pub(crate) fn family_descriptor(env: &JavaEnv<'_>, family: NativeHandle<Family>) -> NativeResult<Reference> {
    let family = family.get()?;
    let name = env.new_bytes(family.0.name().as_bytes())?;
    let options = give(CfSettings { cf: (*family.1).clone(), ..CfSettings::default() });
    let options = env.new_object("org/rocksdb/ColumnFamilyOptions", "(J)V", &[long(options)])?;
    let descriptor = "([BLorg/rocksdb/ColumnFamilyOptions;)V";
    env.new_object("org/rocksdb/ColumnFamilyDescriptor", descriptor, &[reference(name), reference(options)])
}

pub(crate) fn snapshot(db: NativeHandle<Database>) -> NativeResult<i64> {
    Ok(give(db.get()?.db.snapshot()))
}

pub(crate) fn snapshot_sequence(snapshot: NativeHandle<Snapshot>) -> NativeResult<i64> {
    Ok(snapshot.get()?.sequence().0.cast_signed())
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
    let value = db.db.property_cf(db.family(family), &name).ok_or_else(|| no_property(&name))?;
    env.new_text(&value)
}

pub(crate) fn long_property(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    family: NativeHandle<Family>,
    name: Reference,
) -> NativeResult<i64> {
    let (db, name) = (db.get()?, env.text(name)?);
    let value = db.db.int_property_cf(db.family(family), &name).ok_or_else(|| no_property(&name))?;
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
    let values = db.db.map_property_cf(db.family(family), &name).ok_or_else(|| no_property(&name))?;
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
    Ok(db.db.compact_range_opt(&options, db.family(family), begin.as_deref(), end.as_deref())?)
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
    Ok(db.db.set_options(db.family(family), &changes)?)
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
    Ok(db.db.options_cf(db.family(family)).num_levels)
}

pub(crate) fn stop_trigger(db: NativeHandle<Database>, family: NativeHandle<Family>) -> NativeResult<i32> {
    let db = db.get()?;
    Ok(db.db.options_cf(db.family(family)).level0_stop_writes_trigger)
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

/// The sizes of key ranges in tables: two slices a range.
pub(crate) fn approximate_sizes(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    family: NativeHandle<Family>,
    ranges: Reference,
) -> NativeResult<Reference> {
    let db = db.get()?;
    let bounds = handles::<crate::objects::SliceObject>(env, ranges)?;
    let mut sizes = Vec::new();
    for range in bounds.chunks_exact(2) {
        let (begin, end) = (range[0].get()?, range[1].get()?);
        let size = db.db.approximate_size(db.family(family), begin.bytes(), end.bytes());
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
