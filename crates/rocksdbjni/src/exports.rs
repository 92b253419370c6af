//! Families that move from one database to another, and descriptions of tables.
//!
//! In: a family of one database. Out: an export, which another database takes as a new family. The
//! export keeps what the engine said of the tables, so it has bounds that no Java object has.

use crate::border::{JavaInput, NativeResult};
use crate::db::{Database, Family, name_of, path};
use crate::handle::{NativeHandle, give, handles};
use crate::jni::{JavaEnv, Reference, boolean, int, long, reference};
use crate::objects::Checkpoints;
use crate::options::{Call, CfSettings};
use crate::release::JavaRelease;
use esker::comparator::Comparator;
use esker::{Error, ExportImportFilesMetaData, ImportColumnFamilyOptions, LiveFileMetaData};

/// `ExportImportFilesMetaData`: the files of an exported family.
#[derive(Debug)]
pub(crate) struct Exported(ExportImportFilesMetaData);

pub(crate) fn export_family(
    env: &JavaEnv<'_>,
    checkpoints: NativeHandle<Checkpoints>,
    family: NativeHandle<Family>,
    directory: Reference,
) -> NativeResult<i64> {
    let (db, directory) = (&checkpoints.get()?.0, path(env, directory)?);
    Ok(give(Exported(db.export_column_family(family.get()?.handle()?, directory)?)))
}

/// Creates a family with the tables of all exports in the array.
pub(crate) fn import_family(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    name: JavaInput,
    options: NativeHandle<CfSettings>,
    import: NativeHandle<Call<ImportColumnFamilyOptions>>,
    exports: Reference,
) -> NativeResult<i64> {
    let (db, name) = (db.get()?, name_of(&name.read(env)?)?);
    let (options, import) = (&options.get()?.cf, &import.get()?.options);
    let exports = handles::<Exported>(env, exports)?;
    let exports = exports.into_iter().map(NativeHandle::get).collect::<NativeResult<Vec<_>>>()?;
    let export = joined(&exports, &*options.comparator)?;
    Ok(db.give_family(db.db.create_column_family_with_import(import, &name, options, &export)?))
}

/// The exports as one.
/// # Errors
/// `InvalidArgument`: no export, exports of different comparators, an export without tables, or two
/// exports whose keys overlap.
fn joined(exports: &[&Exported], order: &dyn Comparator) -> NativeResult<ExportImportFilesMetaData> {
    let mut exports = exports.iter().map(|export| &export.0);
    let first = exports.next().ok_or_else(|| Error::invalid_argument("no export is given"))?;
    let mut all = first.clone();
    let mut spans = vec![span(first, order)?];
    for export in exports {
        if export.db_comparator_name != all.db_comparator_name {
            return Err(Error::invalid_argument("the exports have different comparators").into());
        }
        spans.push(span(export, order)?);
        all.files.extend(export.files.iter().cloned());
    }
    spans.sort_by(|(a, _), (b, _)| order.compare(a, b));
    if spans.windows(2).any(|pair| order.compare(pair[0].1, pair[1].0).is_ge()) {
        return Err(Error::invalid_argument("the keys of two exports overlap").into());
    }
    Ok(all)
}

/// The smallest and the largest user key of an export.
fn span<'a>(
    export: &'a ExportImportFilesMetaData,
    order: &dyn Comparator,
) -> NativeResult<(&'a [u8], &'a [u8])> {
    let (smallest, largest) = (
        export.files.iter().map(|file| &file.smallest_key[..]).min_by(|a, b| order.compare(a, b)),
        export.files.iter().map(|file| &file.largest_key[..]).max_by(|a, b| order.compare(a, b)),
    );
    let span = smallest.zip(largest);
    Ok(span.ok_or_else(|| Error::invalid_argument("an export has no files"))?)
}

/// Deletes all keys of the family outside of `[begin, end)`.
pub(crate) fn clip_family(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    family: NativeHandle<Family>,
    begin: JavaInput,
    end: JavaInput,
) -> NativeResult<()> {
    let db = db.get()?;
    Ok(db.db.clip_column_family(db.family(family)?, begin.read(env)?, end.read(env)?)?)
}

/// An array of `LiveFileMetaData`: the tables of all families.
pub(crate) fn live_files_metadata(env: &JavaEnv<'_>, db: NativeHandle<Database>) -> NativeResult<Reference> {
    let files = db.get()?.db.live_files();
    env.new_array_of("org/rocksdb/LiveFileMetaData", &files, |file| env.in_frame(16, || described(env, file)))
}

/// A new `LiveFileMetaData`. As in RocksDB, a file's name begins with a slash.
fn described(env: &JavaEnv<'_>, file: &LiveFileMetaData) -> NativeResult<Reference> {
    let checksum = file.file_checksum.as_ref().map_or(&[][..], |(checksum, _)| checksum);
    let mut arguments = vec![
        reference(env.new_bytes(file.column_family_name.as_bytes())?),
        int(i32::try_from(file.level).unwrap_or(i32::MAX)),
        reference(env.new_text(&format!("/{}", file.relative_filename))?),
        reference(env.new_text(&file.directory.to_string_lossy())?),
        long(file.size.cast_signed()),
        long(file.smallest_seqno.0.cast_signed()),
        long(file.largest_seqno.0.cast_signed()),
        reference(env.new_bytes(&file.smallest_key)?),
        reference(env.new_bytes(&file.largest_key)?),
        long(file.num_reads_sampled.cast_signed()),
        boolean(file.being_compacted),
        long(file.num_entries.cast_signed()),
        long(file.num_deletions.cast_signed()),
    ];
    let mut descriptor = "([BILjava/lang/String;Ljava/lang/String;JJJ[B[BJZJJ)V";
    if JavaRelease::of_caller(env)? >= JavaRelease::V8_10 {
        descriptor = "([BILjava/lang/String;Ljava/lang/String;JJJ[B[BJZJJ[B)V";
        arguments.push(reference(env.new_bytes(checksum)?));
    }
    env.new_object("org/rocksdb/LiveFileMetaData", descriptor, &arguments)
}
