//! Moves the tables of a worker into the database's directory and checks them.
//!
//! In: a worker's result. Out: files with numbers of this database, every entry checked; or an
//! error, and no file is left.
//!
//! Cost: one read of the tables, which may have come over a network.

use super::super::subjob::{SubjobContext, SubjobResult, kept_for_snapshots};
use super::{JobRange, entries_of};
use crate::files::{copy_file, type_of};
use crate::merge::CompactionIteratorStats;
use crate::picker::CompactionPlan;
use esker_base::stats::{Ticker, record_tick};
use esker_base::{Error, FileNumber, Result, SequenceNumber, ValueType};
use esker_format::compaction_service::{CompactionServiceOutputFile, CompactionServiceResult};
use esker_format::file_name::{FileType, parse_file_name};
use esker_format::key::{self, InternalKeyComparator};
use esker_format::version_edit::FileMetaData;
use esker_format::wide_column::stored::for_each_blob;
use esker_table::{TableFile, TableReader};
use std::cmp::Ordering;
use std::path::Path;

/// Checks the result and moves its tables in.
/// # Errors
/// `Corruption` says why the result is refused · `IoError`. After an error the moved files are
/// deleted.
pub(super) fn accept(
    context: &SubjobContext<'_>,
    range: JobRange<'_>,
    result: &CompactionServiceResult,
) -> Result<SubjobResult> {
    check_counts(context, range, result)?;
    let mut done = SubjobResult { is_remote: true, ..SubjobResult::default() };
    let taken = take_files(context, range, result, &mut done);
    if let Err(error) = taken {
        let tables = done.created.into_iter();
        context.engine.delete_outputs(context.cf, context.plan.output_path, tables, std::iter::empty());
        return Err(error);
    }
    if let Some(manager) = &context.engine.options.sst_file_manager {
        let path = |f: &FileMetaData| context.cf.tables.paths().table(f.path_id, f.number);
        done.outputs(context.plan).for_each(|(_, f)| manager.on_add_file(&path(f), f.file_size));
    }
    done.kept_for_snapshots = kept_for_snapshots(context, &done.files);
    let stats = &result.stats;
    done.cpu_micros = stats.cpu_micros;
    done.stats = CompactionIteratorStats {
        records_in: stats.num_input_records,
        records_out: stats.num_output_records,
        deletions_in: stats.num_input_deletion_records,
        key_bytes_in: stats.total_input_raw_key_bytes,
        value_bytes_in: stats.total_input_raw_value_bytes,
        dropped_hidden: stats.num_records_replaced,
        dropped_obsolete: stats.num_expired_deletion_records,
        single_deletion_mismatches: stats.num_single_del_mismatch,
        // A compaction filter of the worker may have removed entries that hid older ones.
        may_reappear: 1,
        ..CompactionIteratorStats::default()
    };
    let statistics = &context.engine.options.statistics;
    record_tick(statistics, Ticker::RemoteCompactReadBytes, result.bytes_read);
    record_tick(statistics, Ticker::RemoteCompactWriteBytes, result.bytes_written);
    Ok(done)
}

fn check_counts(
    context: &SubjobContext<'_>,
    range: JobRange<'_>,
    result: &CompactionServiceResult,
) -> Result<()> {
    if result.output_level != context.plan.output_level {
        let (is, should) = (result.output_level, context.plan.output_level);
        return Err(refused(format!("its tables are for level {is}, not {should}")));
    }
    if !result.has_accurate_num_input_records {
        return Err(refused("it does not say how many entries the worker has read"));
    }
    let (read, entries) = (result.stats.num_input_records, entries_of(context.cf, context.plan)?);
    let is_whole = range.0.is_none() && range.1.is_none();
    if read > entries || is_whole && read < entries {
        return Err(refused(format!("the worker has read {read} of {entries} entries")));
    }
    Ok(())
}

fn take_files(
    context: &SubjobContext<'_>,
    range: JobRange<'_>,
    result: &CompactionServiceResult,
    done: &mut SubjobResult,
) -> Result<()> {
    let directory = Path::new(&result.output_path);
    let mut entries = 0;
    for file in &result.output_files {
        let named = |e: Error| e.at(&file.file_name);
        let is_table = matches!(parse_file_name(&file.file_name), Some((FileType::Table, _)));
        let above = context.plan.proximal.as_ref().filter(|_| file.is_proximal_level_output);
        if !is_table || file.is_proximal_level_output != above.is_some() {
            return Err(named(refused("it is no table of the output level")));
        }
        let level = above.map_or(context.plan.output_level, |place| place.level);
        let (number, meta) = adopt_file(context, directory, file, done).map_err(named)?;
        let before = if above.is_some() { done.proximal_files.last() } else { done.files.last() };
        let range = Bounds { icmp: &context.cf.icmp, range, before };
        let reader = context.cf.tables.reader(&TableFile { meta: &meta, level: Some(level) });
        let (meta, points) = reader.and_then(|reader| checked(&range, &reader, meta)).map_err(named)?;
        check_in_plan(context, &meta).map_err(named)?;
        entries += points;
        debug_assert_eq!(meta.number, number, "the metadata has the file's own number");
        if above.is_some() { done.proximal_files.push(meta) } else { done.files.push(meta) }
    }
    check_young(context.plan, done)?;
    if entries != result.stats.num_output_records {
        let claimed = result.stats.num_output_records;
        return Err(refused(format!("its tables have {entries} entries, not {claimed}")));
    }
    Ok(())
}

/// Moves a table into the database's directory.
fn adopt_file(
    context: &SubjobContext<'_>,
    directory: &Path,
    file: &CompactionServiceOutputFile,
    done: &mut SubjobResult,
) -> Result<(FileNumber, FileMetaData)> {
    let (engine, fs) = (context.engine, context.engine.fs().as_ref());
    let from = directory.join(&file.file_name);
    let file_size = fs.file_size(&from)?;
    if file_size != file.file_size {
        return Err(refused(format!("it has {file_size} bytes, not {}", file.file_size)));
    }
    let number = engine.numbers.new_file_number();
    done.created.push(number);
    let to = context.cf.tables.paths().table(context.plan.output_path, number);
    if fs.rename(&from, &to).is_err() {
        // The directory may be on another file system.
        copy_file(fs, &from, &to, file_size)?;
        fs.delete_file(&from)?;
    }
    let checksum = (file.file_checksum.clone(), file.file_checksum_func_name.clone());
    let is_unknown = checksum.1.is_empty() || checksum.1 == "Unknown";
    let meta = FileMetaData {
        number,
        path_id: context.plan.output_path,
        file_size,
        smallest: file.smallest_internal_key.clone(),
        largest: file.largest_internal_key.clone(),
        smallest_seqno: file.smallest_seqno,
        largest_seqno: file.largest_seqno,
        oldest_ancestor_time: file.oldest_ancester_time,
        file_creation_time: file.file_creation_time,
        epoch_number: file.epoch_number,
        file_checksum: (!is_unknown).then_some(checksum),
        unique_id: (file.unique_id != [0, 0]).then_some(file.unique_id),
        marked_for_compaction: file.marked_for_compaction,
        temperature: file.file_temperature,
        ..FileMetaData::default()
    };
    Ok((number, meta))
}

/// The bounds for the entries of a table.
struct Bounds<'a> {
    icmp: &'a InternalKeyComparator,
    range: JobRange<'a>,
    /// The previous table of the result.
    before: Option<&'a FileMetaData>,
}

/// Reads and checks the whole table. Returns the metadata, completed with facts that the result
/// lacks, and the number of point entries.
/// # Errors
/// `Corruption`: wrong checksum, wrong order, or an entry beyond the bounds that the result states.
fn checked(bounds: &Bounds<'_>, reader: &TableReader, meta: FileMetaData) -> Result<(FileMetaData, u64)> {
    let icmp = bounds.icmp;
    check_key(icmp, &meta.smallest)?;
    check_key(icmp, &meta.largest)?;
    if icmp.compare(&meta.smallest, &meta.largest).is_gt() {
        return Err(refused("it ends before it begins"));
    }
    let overlaps = |last: &FileMetaData| {
        let order = icmp.compare_user_keys(key::user_key(&last.largest), key::user_key(&meta.smallest));
        let is_exclusive = key::trailer(&last.largest) == key::RANGE_END_SENTINEL;
        order == Ordering::Greater || order == Ordering::Equal && !is_exclusive
    };
    if meta.epoch_number == 0 || bounds.before.is_some_and(overlaps) {
        return Err(refused("it overlaps the table before it"));
    }
    let mut seen = CheckedKeys { points: 0, last: Vec::new(), meta };
    reader.for_each_data_block(&mut |block| {
        block.for_each(&mut |internal_key, value| seen.add_point(bounds, internal_key, value))
    })?;
    reader
        .for_each_stored_tombstone(&mut |internal_key, end| seen.add_tombstone(bounds, internal_key, end))?;
    let tail = reader.properties().tail_start_offset;
    if tail > 0 {
        seen.meta.tail_size = seen.meta.file_size.saturating_sub(tail);
    }
    Ok((seen.meta, seen.points))
}

/// Checks that a key is long enough for its trailer and its timestamp.
fn check_key(icmp: &InternalKeyComparator, internal_key: &[u8]) -> Result<()> {
    match internal_key.len() < key::TRAILER_BYTES + icmp.timestamp_size() {
        true => Err(refused("it has keys that are no internal keys")),
        false => Ok(()),
    }
}

/// Facts about the entries of a table that were read so far.
struct CheckedKeys {
    points: u64,
    /// Internal key of the last point entry.
    last: Vec<u8>,
    meta: FileMetaData,
}

impl CheckedKeys {
    fn add_point(&mut self, bounds: &Bounds<'_>, internal_key: &[u8], value: &[u8]) -> Result<()> {
        let icmp = bounds.icmp;
        check_key(icmp, internal_key)?;
        if self.points > 0 && icmp.compare(&self.last, internal_key).is_ge() {
            return Err(refused("its keys are out of order"));
        }
        let (smallest, largest) = (&self.meta.smallest, &self.meta.largest);
        let is_inside =
            icmp.compare(internal_key, smallest).is_ge() && icmp.compare(internal_key, largest).is_le();
        if !is_inside || !bounds.contain(key::user_key(internal_key)) {
            return Err(refused("it has keys beyond its bounds"));
        }
        let value_type = type_of(internal_key);
        if let Some(value_type @ (ValueType::BlobIndex | ValueType::WideColumnEntity)) = value_type {
            let mut blobs = 0;
            for_each_blob(value_type, value, &mut |_| blobs += 1)?;
            if blobs > 0 {
                return Err(refused("it refers to blob files"));
            }
        }
        self.points += 1;
        internal_key.clone_into(&mut self.last);
        self.note(icmp, internal_key)
    }

    fn add_tombstone(&mut self, bounds: &Bounds<'_>, internal_key: &[u8], end: &[u8]) -> Result<()> {
        let icmp = bounds.icmp;
        check_key(icmp, internal_key)?;
        if end.len() < icmp.timestamp_size() {
            return Err(refused("it has a range deletion whose end is no key"));
        }
        let (begin, largest) = (key::user_key(internal_key), key::user_key(&self.meta.largest));
        let is_inside = icmp.compare_plain_keys(begin, key::user_key(&self.meta.smallest)).is_ge()
            && icmp.compare_plain_keys(end, largest).is_le();
        if !is_inside || !bounds.contain(begin) {
            return Err(refused("it has a range deletion beyond its bounds"));
        }
        self.note(icmp, internal_key)
    }

    /// Checks the sequence number of an entry, and extends the metadata's timestamp bounds.
    fn note(&mut self, icmp: &InternalKeyComparator, internal_key: &[u8]) -> Result<()> {
        let sequence = SequenceNumber(key::trailer(internal_key) >> 8);
        let meta = &mut self.meta;
        if sequence < meta.smallest_seqno || sequence > meta.largest_seqno {
            return Err(refused(format!("it has the sequence number {sequence}, beyond its bounds")));
        }
        if icmp.timestamp_size() > 0 {
            let (_, timestamp) = icmp.split_timestamp(key::user_key(internal_key));
            if meta.max_timestamp.is_empty()
                || icmp.compare_timestamps(timestamp, &meta.max_timestamp).is_gt()
            {
                timestamp.clone_into(&mut meta.max_timestamp);
            }
            if meta.min_timestamp.is_empty()
                || icmp.compare_timestamps(timestamp, &meta.min_timestamp).is_lt()
            {
                timestamp.clone_into(&mut meta.min_timestamp);
            }
        }
        Ok(())
    }
}

impl Bounds<'_> {
    /// Whether the user key lies in the range of the job.
    fn contain(&self, user_key: &[u8]) -> bool {
        let (start, end) = self.range;
        let is_behind = |start: &Vec<u8>| self.icmp.compare_user_keys(user_key, start).is_ge();
        let is_before = |end: &Vec<u8>| self.icmp.compare_user_keys(user_key, end).is_lt();
        start.as_ref().is_none_or(is_behind) && end.as_ref().is_none_or(is_before)
    }
}

/// Checks that a table lies between the bounds of the inputs.
fn check_in_plan(context: &SubjobContext<'_>, meta: &FileMetaData) -> Result<()> {
    let (icmp, plan) = (&context.cf.icmp, context.plan);
    let starts = icmp.compare_plain_keys(key::user_key(&meta.smallest), &plan.smallest_user_key);
    let ends = icmp.compare_plain_keys(key::user_key(&meta.largest), &plan.largest_user_key);
    match starts.is_ge() && ends.is_le() {
        true => Ok(()),
        false => Err(refused("it has keys that the inputs do not have")),
    }
}

/// Checks the tables for the level above the last one: their keys, and that each entry there is
/// newer than all entries of the last level.
fn check_young(plan: &CompactionPlan, done: &SubjobResult) -> Result<()> {
    let Some(place) = &plan.proximal else { return Ok(()) };
    let icmp = plan.version.icmp();
    let old = done.files.iter().map(|f| f.largest_seqno).max().unwrap_or_default().max(place.keep_through);
    let fits = |f: &FileMetaData| {
        f.smallest_seqno > old
            && icmp.compare_plain_keys(key::user_key(&f.smallest), &place.smallest).is_ge()
            && icmp.compare_plain_keys(key::user_key(&f.largest), &place.largest).is_le()
    };
    match done.proximal_files.iter().all(fits) {
        true => Ok(()),
        false => Err(refused("a table for the level above the last one has other entries")),
    }
}

fn refused(what: impl Into<String>) -> Error {
    Error::corruption(what)
}
