//! Options objects: those of databases and families, and those of single calls.
//!
//! In: setters and getters. The build makes most of them from tables (`build/tables.rs`). This file
//! has those that take objects, arrays or texts, and the presets. Out: Esker's option structs.
//! Options take a share of the objects that they name, so Java may close these at any time.

use crate::border::NativeResult;
use crate::callbacks::JavaCallback;
use crate::field::HeldNumbers;
use crate::given::{SnapshotObject, ended};
use crate::handle::{NativeHandle, give};
use crate::jni::{JavaEnv, Reference};
use crate::listeners::JavaListeners;
use crate::objects::{
    CacheObject, CompactionFilterFactoryObject, CompactionFilterObject, EnvObject, Limiter, LoggerObject,
    Manager, MergeObject, Partitioner, SpaceManager, StatisticsObject, TableFactory,
};
use crate::release::JavaRelease;
use esker::options::{
    BlockCache, CompactionOptionsFifo, CompactionOptionsUniversal, CompressionOptions, CompressionType,
};
use esker::{ColumnFamilyOptions, DbOptions, DbPath, Error, Options, ReadOptions};
use std::path::PathBuf;
use std::sync::Arc;

/// `DBOptions`.
#[derive(Clone, Debug, Default)]
pub(crate) struct DbSettings {
    pub(crate) db: DbOptions,
    pub(crate) listeners: JavaListeners,
    pub(crate) held: HeldNumbers,
}

/// `ColumnFamilyOptions`.
#[derive(Clone, Debug, Default)]
pub(crate) struct CfSettings {
    pub(crate) cf: ColumnFamilyOptions,
    pub(crate) held: HeldNumbers,
}

/// `Options`.
#[derive(Clone, Debug, Default)]
pub(crate) struct AllSettings {
    pub(crate) db: DbOptions,
    pub(crate) cf: ColumnFamilyOptions,
    pub(crate) listeners: JavaListeners,
    pub(crate) held: HeldNumbers,
}

impl AllSettings {
    pub(crate) fn options(&self) -> Options {
        Options { db: self.db.clone(), cf: self.cf.clone() }
    }
}

/// Options of a call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Call<T> {
    pub(crate) options: T,
    pub(crate) held: HeldNumbers,
}

/// `ReadOptions`.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadSettings {
    pub(crate) options: ReadOptions,
    /// The handles that getters return: of the snapshot, and of slices.
    pub(crate) named: [i64; 5],
    pub(crate) held: HeldNumbers,
}

fn db_defaults(release: JavaRelease) -> DbOptions {
    DbOptions { compatible_with: release.target(), ..DbOptions::default() }
}

fn cf_defaults(release: JavaRelease) -> ColumnFamilyOptions {
    let mut options = ColumnFamilyOptions::default();
    options.table.format_version = release.format_version();
    options.level_compaction_dynamic_level_bytes &= release > JavaRelease::V7_0;
    options.compression =
        if release == JavaRelease::V11_8 { options.compression } else { CompressionType::Snappy };
    options
}

pub(crate) fn new_db(env: &JavaEnv<'_>) -> NativeResult<i64> {
    let db = db_defaults(JavaRelease::of_caller(env)?);
    Ok(give(DbSettings { db, ..DbSettings::default() }))
}

pub(crate) fn new_cf(env: &JavaEnv<'_>) -> NativeResult<i64> {
    let cf = cf_defaults(JavaRelease::of_caller(env)?);
    Ok(give(CfSettings { cf, held: HeldNumbers::new() }))
}

pub(crate) fn new_both(env: &JavaEnv<'_>) -> NativeResult<i64> {
    let release = JavaRelease::of_caller(env)?;
    let (db, cf) = (db_defaults(release), cf_defaults(release));
    Ok(give(AllSettings { db, cf, ..AllSettings::default() }))
}

pub(crate) fn both_of(db: NativeHandle<DbSettings>, cf: NativeHandle<CfSettings>) -> NativeResult<i64> {
    let (db, cf) = (db.get()?, cf.get()?);
    let mut held = db.held.clone();
    held.extend(cf.held.clone());
    let listeners = db.listeners.clone();
    Ok(give(AllSettings { db: db.db.clone(), cf: cf.cf.clone(), listeners, held }))
}

pub(crate) fn db_of_both(both: NativeHandle<AllSettings>) -> NativeResult<i64> {
    let both = both.get()?;
    let listeners = both.listeners.clone();
    Ok(give(DbSettings { db: both.db.clone(), listeners, held: both.held.clone() }))
}

pub(crate) fn cf_of_both(both: NativeHandle<AllSettings>) -> NativeResult<i64> {
    let both = both.get()?;
    Ok(give(CfSettings { cf: both.cf.clone(), held: both.held.clone() }))
}

/// A new object with defaults.
pub(crate) fn new<T: Default>() -> NativeResult<i64> {
    Ok(give(T::default()))
}

pub(crate) fn copy<T: Clone>(object: NativeHandle<T>) -> NativeResult<i64> {
    Ok(give(object.get()?.clone()))
}

/// Objects with options of a database.
pub(crate) trait HasDb {
    fn db(&mut self) -> &mut DbOptions;
    /// The same options, to read them: several threads may do so.
    fn db_ref(&self) -> &DbOptions;
    fn listeners(&mut self) -> &mut JavaListeners;
    fn listeners_ref(&self) -> &JavaListeners;
}

/// Objects with options of a family.
pub(crate) trait HasCf {
    fn cf(&mut self) -> &mut ColumnFamilyOptions;
    /// The same options, to read them: several threads may do so.
    fn cf_ref(&self) -> &ColumnFamilyOptions;
}

macro_rules! parts {
    ($($ty:ty: $trait:ident { $($part:ident $part_ref:ident = $options:ty),* })*) => {$(
        impl $trait for $ty {$(
            fn $part(&mut self) -> &mut $options {
                &mut self.$part
            }
            fn $part_ref(&self) -> &$options {
                &self.$part
            }
        )*}
    )*};
}
parts! {
    DbSettings: HasDb { db db_ref = DbOptions, listeners listeners_ref = JavaListeners }
    AllSettings: HasDb { db db_ref = DbOptions, listeners listeners_ref = JavaListeners }
    CfSettings: HasCf { cf cf_ref = ColumnFamilyOptions }
    AllSettings: HasCf { cf cf_ref = ColumnFamilyOptions }
}

pub(crate) fn set_table_factory<T: HasCf>(
    object: NativeHandle<T>,
    factory: NativeHandle<TableFactory>,
) -> NativeResult<()> {
    // The options own the factory: no Java object frees it.
    object.get_mut()?.cf().table = factory.take()?.0;
    Ok(())
}

pub(crate) fn set_merge_operator<T: HasCf>(
    object: NativeHandle<T>,
    operator: NativeHandle<MergeObject>,
) -> NativeResult<()> {
    object.get_mut()?.cf().merge_operator = Some(operator.get()?.0.clone());
    Ok(())
}

pub(crate) fn set_merge_operator_name<T: HasCf>(
    env: &JavaEnv<'_>,
    object: NativeHandle<T>,
    name: Reference,
) -> NativeResult<()> {
    // As in RocksDB, an unknown name leaves the family without an operator.
    object.get_mut()?.cf().merge_operator = esker::builtin::merge_operator(&env.text(name)?);
    Ok(())
}

pub(crate) fn set_builtin_comparator<T: HasCf>(object: NativeHandle<T>, number: i32) -> NativeResult<()> {
    object.get_mut()?.cf().comparator = match number {
        1 => Arc::new(esker::comparator::ReverseBytewiseComparator),
        _ => Arc::new(esker::comparator::BytewiseComparator),
    };
    Ok(())
}

pub(crate) fn set_comparator<T: HasCf>(
    object: NativeHandle<T>,
    comparator: NativeHandle<JavaCallback>,
) -> NativeResult<()> {
    let JavaCallback::Comparator(comparators) = comparator.get()?;
    object.get_mut()?.cf().comparator = comparators.comparator.clone();
    Ok(())
}

pub(crate) fn set_compaction_filter<T: HasCf>(
    object: NativeHandle<T>,
    filter: NativeHandle<CompactionFilterObject>,
) -> NativeResult<()> {
    object.get_mut()?.cf().compaction_filter = Some(filter.get()?.0.clone());
    Ok(())
}

pub(crate) fn set_compaction_filter_factory<T: HasCf>(
    object: NativeHandle<T>,
    factory: NativeHandle<CompactionFilterFactoryObject>,
) -> NativeResult<()> {
    object.get_mut()?.cf().compaction_filter_factory = Some(factory.get()?.0.clone());
    Ok(())
}

pub(crate) fn set_partitioner<T: HasCf>(
    object: NativeHandle<T>,
    factory: NativeHandle<Partitioner>,
) -> NativeResult<()> {
    object.get_mut()?.cf().sst_partitioner_factory = Some(factory.get()?.0.clone());
    Ok(())
}

pub(crate) fn set_compression_per_level<T: HasCf>(
    env: &JavaEnv<'_>,
    object: NativeHandle<T>,
    levels: Reference,
) -> NativeResult<()> {
    let mut compressions = Vec::new();
    for code in env.all_bytes(levels)? {
        let mut compression = CompressionType::None;
        crate::field::JavaField::store(&mut compression, code.cast_signed())
            .map_err(|code| Error::invalid_argument(format!("compressionPerLevel: '{code}'")))?;
        compressions.push(compression);
    }
    object.get_mut()?.cf().compression_per_level = compressions;
    Ok(())
}

pub(crate) fn compression_per_level<T: HasCf>(
    env: &JavaEnv<'_>,
    object: NativeHandle<T>,
) -> NativeResult<Reference> {
    let levels = &object.get()?.cf_ref().compression_per_level;
    let code = |compression: &CompressionType| {
        let code: i8 = crate::field::JavaField::load(compression);
        code.cast_unsigned()
    };
    env.new_bytes(&levels.iter().map(code).collect::<Vec<u8>>())
}

pub(crate) fn set_level_multipliers<T: HasCf>(
    env: &JavaEnv<'_>,
    object: NativeHandle<T>,
    multipliers: Reference,
) -> NativeResult<()> {
    object.get_mut()?.cf().max_bytes_for_level_multiplier_additional = env.ints(multipliers)?;
    Ok(())
}

pub(crate) fn level_multipliers<T: HasCf>(
    env: &JavaEnv<'_>,
    object: NativeHandle<T>,
) -> NativeResult<Reference> {
    env.new_ints(&object.get()?.cf_ref().max_bytes_for_level_multiplier_additional)
}

pub(crate) fn set_compression_options<T: HasCf>(
    object: NativeHandle<T>,
    options: NativeHandle<Call<CompressionOptions>>,
) -> NativeResult<()> {
    object.get_mut()?.cf().compression_opts = options.get()?.options;
    Ok(())
}

pub(crate) fn set_bottommost_compression_options<T: HasCf>(
    object: NativeHandle<T>,
    options: NativeHandle<Call<CompressionOptions>>,
) -> NativeResult<()> {
    object.get_mut()?.cf().bottommost_compression_opts = options.get()?.options;
    Ok(())
}

pub(crate) fn set_universal<T: HasCf>(
    object: NativeHandle<T>,
    options: NativeHandle<Call<CompactionOptionsUniversal>>,
) -> NativeResult<()> {
    object.get_mut()?.cf().compaction_options_universal = options.get()?.options;
    Ok(())
}

pub(crate) fn set_fifo<T: HasCf>(
    object: NativeHandle<T>,
    options: NativeHandle<Call<CompactionOptionsFifo>>,
) -> NativeResult<()> {
    object.get_mut()?.cf().compaction_options_fifo = options.get()?.options.clone();
    Ok(())
}

pub(crate) fn fixed_prefix<T: HasCf>(object: NativeHandle<T>, bytes: i32) -> NativeResult<()> {
    let bytes = usize::try_from(bytes).unwrap_or(0);
    object.get_mut()?.cf().prefix_extractor = Some(esker::prefix::fixed(bytes));
    Ok(())
}

pub(crate) fn capped_prefix<T: HasCf>(object: NativeHandle<T>, bytes: i32) -> NativeResult<()> {
    let bytes = usize::try_from(bytes).unwrap_or(0);
    object.get_mut()?.cf().prefix_extractor = Some(esker::prefix::capped(bytes));
    Ok(())
}

/// Applies a preset to the family's part.
fn preset<T: HasCf>(
    object: NativeHandle<T>,
    preset: impl FnOnce(ColumnFamilyOptions) -> esker::Result<ColumnFamilyOptions>,
) -> NativeResult<()> {
    let cf = object.get_mut()?.cf();
    *cf = preset(std::mem::take(cf))?;
    Ok(())
}

pub(crate) fn optimize_level<T: HasCf>(object: NativeHandle<T>, memory: i64) -> NativeResult<()> {
    preset(object, |cf| Ok(cf.optimize_level_style_compaction(memory.unsigned_abs())))
}

pub(crate) fn optimize_universal<T: HasCf>(object: NativeHandle<T>, memory: i64) -> NativeResult<()> {
    preset(object, |cf| Ok(cf.optimize_universal_style_compaction(memory.unsigned_abs())))
}

pub(crate) fn optimize_point_lookup<T: HasCf>(object: NativeHandle<T>, cache_mb: i64) -> NativeResult<()> {
    preset(object, |cf| cf.optimize_for_point_lookup(cache_mb.unsigned_abs()))
}

pub(crate) fn optimize_small_cf<T: HasCf>(
    object: NativeHandle<T>,
    cache: NativeHandle<CacheObject>,
) -> NativeResult<()> {
    let cache = cache.find().map(|cache| cache.0.clone());
    preset(object, |cf| Ok(cf.optimize_for_small_db(cache.as_ref())))
}

pub(crate) fn optimize_small_db<T: HasDb>(
    object: NativeHandle<T>,
    cache: NativeHandle<CacheObject>,
) -> NativeResult<()> {
    let cache: Option<&Arc<BlockCache>> = cache.find().map(|cache| &cache.0);
    let db = object.get_mut()?.db();
    *db = std::mem::take(db).optimize_for_small_db(cache);
    Ok(())
}

pub(crate) fn optimize_small_both(object: NativeHandle<AllSettings>) -> NativeResult<()> {
    let both = object.get_mut()?;
    let options = both.options().optimize_for_small_db()?;
    (both.db, both.cf) = (options.db, options.cf);
    Ok(())
}

pub(crate) fn prepare_for_bulk_load(object: NativeHandle<AllSettings>) -> NativeResult<()> {
    let both = object.get_mut()?;
    let options = both.options().prepare_for_bulk_load();
    (both.db, both.cf) = (options.db, options.cf);
    Ok(())
}

pub(crate) fn increase_parallelism<T: HasDb>(object: NativeHandle<T>, threads: i32) -> NativeResult<()> {
    let db = object.get_mut()?.db();
    *db = std::mem::take(db).increase_parallelism(threads.max(1).unsigned_abs());
    Ok(())
}

pub(crate) fn set_env<T: HasDb>(object: NativeHandle<T>, env: NativeHandle<EnvObject>) -> NativeResult<()> {
    object.get_mut()?.db().env = env.get()?.0.clone();
    Ok(())
}

pub(crate) fn set_statistics<T: HasDb>(
    object: NativeHandle<T>,
    statistics: NativeHandle<StatisticsObject>,
) -> NativeResult<()> {
    object.get_mut()?.db().statistics = Some(statistics.get()?.counts.clone());
    Ok(())
}

/// A new handle of the same statistics; 0 without statistics.
pub(crate) fn statistics<T: HasDb>(object: NativeHandle<T>) -> NativeResult<i64> {
    let counts = object.get()?.db_ref().statistics.clone();
    Ok(counts.map_or(0, |counts| give(StatisticsObject { counts, ignored: Vec::new() })))
}

pub(crate) fn set_write_buffer_manager<T: HasDb>(
    object: NativeHandle<T>,
    manager: NativeHandle<Manager>,
) -> NativeResult<()> {
    object.get_mut()?.db().write_buffer_manager = Some(manager.get()?.0.clone());
    Ok(())
}

pub(crate) fn set_row_cache<T: HasDb>(
    object: NativeHandle<T>,
    cache: NativeHandle<CacheObject>,
) -> NativeResult<()> {
    object.get_mut()?.db().row_cache = Some(cache.get()?.0.clone());
    Ok(())
}

pub(crate) fn set_rate_limiter<T: HasDb>(
    object: NativeHandle<T>,
    limiter: NativeHandle<Limiter>,
) -> NativeResult<()> {
    object.get_mut()?.db().rate_limiter = Some(limiter.get()?.0.clone());
    Ok(())
}

pub(crate) fn set_sst_file_manager<T: HasDb>(
    object: NativeHandle<T>,
    manager: NativeHandle<SpaceManager>,
) -> NativeResult<()> {
    object.get_mut()?.db().sst_file_manager = Some(manager.get()?.0.clone());
    Ok(())
}

pub(crate) fn set_logger<T: HasDb>(
    object: NativeHandle<T>,
    logger: NativeHandle<LoggerObject>,
) -> NativeResult<()> {
    object.get_mut()?.db().info_log = Some(logger.get()?.log.clone());
    Ok(())
}

fn directory(env: &JavaEnv<'_>, path: Reference) -> NativeResult<Option<PathBuf>> {
    Ok(Some(env.text(path)?).filter(|path| !path.is_empty()).map(PathBuf::from))
}

fn text_of(path: Option<&PathBuf>) -> String {
    path.map_or(String::new(), |path| path.to_string_lossy().into_owned())
}

pub(crate) fn set_wal_dir<T: HasDb>(
    env: &JavaEnv<'_>,
    object: NativeHandle<T>,
    path: Reference,
) -> NativeResult<()> {
    object.get_mut()?.db().wal_dir = directory(env, path)?;
    Ok(())
}

pub(crate) fn wal_dir<T: HasDb>(env: &JavaEnv<'_>, object: NativeHandle<T>) -> NativeResult<Reference> {
    env.new_text(&text_of(object.get()?.db_ref().wal_dir.as_ref()))
}

pub(crate) fn set_log_dir<T: HasDb>(
    env: &JavaEnv<'_>,
    object: NativeHandle<T>,
    path: Reference,
) -> NativeResult<()> {
    object.get_mut()?.db().db_log_dir = directory(env, path)?;
    Ok(())
}

pub(crate) fn log_dir<T: HasDb>(env: &JavaEnv<'_>, object: NativeHandle<T>) -> NativeResult<Reference> {
    env.new_text(&text_of(object.get()?.db_ref().db_log_dir.as_ref()))
}

fn paths(env: &JavaEnv<'_>, paths: Reference, sizes: Reference) -> NativeResult<Vec<DbPath>> {
    let sizes = env.longs(sizes)?;
    let paths = env.texts(paths)?.into_iter().zip(sizes);
    Ok(paths.map(|(path, size)| DbPath::new(path, size.unsigned_abs())).collect())
}

pub(crate) fn set_db_paths<T: HasDb>(
    env: &JavaEnv<'_>,
    object: NativeHandle<T>,
    names: Reference,
    sizes: Reference,
) -> NativeResult<()> {
    object.get_mut()?.db().db_paths = paths(env, names, sizes)?;
    Ok(())
}

pub(crate) fn set_cf_paths<T: HasCf>(
    env: &JavaEnv<'_>,
    object: NativeHandle<T>,
    names: Reference,
    sizes: Reference,
) -> NativeResult<()> {
    object.get_mut()?.cf().cf_paths = paths(env, names, sizes)?;
    Ok(())
}

/// Options from the properties that Java has put into one text, "name=value;…"; 0 if the text has
/// errors.
pub(crate) fn db_of_text(env: &JavaEnv<'_>, text: Reference) -> NativeResult<i64> {
    let base = Options { db: db_defaults(JavaRelease::of_caller(env)?), ..Options::default() };
    let parsed = esker::options::options_from_string(&base, &env.text(text)?);
    Ok(parsed.map_or(0, |options| give(DbSettings { db: options.db, ..DbSettings::default() })))
}

pub(crate) fn cf_of_text(env: &JavaEnv<'_>, text: Reference) -> NativeResult<i64> {
    let base = cf_defaults(JavaRelease::of_caller(env)?);
    let parsed = esker::options::cf_options_from_string(&base, &env.text(text)?);
    Ok(parsed.map_or(0, |cf| give(CfSettings { cf, held: HeldNumbers::new() })))
}

pub(crate) fn new_reads(verify_checksums: bool, fill_cache: bool) -> NativeResult<i64> {
    let options = ReadOptions { verify_checksums, fill_cache, ..ReadOptions::default() };
    Ok(give(ReadSettings { options, ..ReadSettings::default() }))
}

/// Slots of [`ReadSettings::named`].
const SNAPSHOT: usize = 0;
pub(crate) const LOWER: usize = 1;
pub(crate) const UPPER: usize = 2;
pub(crate) const TIMESTAMP: usize = 3;
pub(crate) const START_TS: usize = 4;

pub(crate) fn set_snapshot(
    object: NativeHandle<ReadSettings>,
    snapshot: NativeHandle<SnapshotObject>,
) -> NativeResult<()> {
    let taken = snapshot.find().map(|snapshot| snapshot.snapshot.clone().ok_or_else(ended)).transpose()?;
    let reads = object.get_mut()?;
    reads.options.snapshot = taken;
    reads.named[SNAPSHOT] = snapshot.number();
    Ok(())
}

/// The handle of the object that a setter has named; 0 for none.
pub(crate) fn named(object: NativeHandle<ReadSettings>, slot: usize) -> NativeResult<i64> {
    Ok(object.get()?.named[slot])
}

/// Sets the bytes of a bound or a timestamp to those of a slice.
pub(crate) fn set_slice(
    object: NativeHandle<ReadSettings>,
    slot: usize,
    slice: NativeHandle<crate::objects::SliceObject>,
) -> NativeResult<()> {
    let reads = object.get_mut()?;
    let bytes = slice.find().map(|slice| slice.bytes().to_vec());
    let options = &mut reads.options;
    *match slot {
        LOWER => &mut options.iterate_lower_bound,
        UPPER => &mut options.iterate_upper_bound,
        TIMESTAMP => &mut options.timestamp,
        _ => &mut options.iter_start_ts,
    } = bytes;
    reads.named[slot] = slice.number();
    Ok(())
}
