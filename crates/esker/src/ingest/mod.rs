//! Ingestion: adds tables that were written outside the database, all at once.
//!
//! In: files of `SstFileWriter`, by family. Out: the files in the deepest levels into which they
//! fit, under a sequence number that is newer than all entries that they overlap.
//!
//! Steps: `prepare.rs` check, link or copy → as write leader: flush overlapping memtables →
//! `place.rs` level by level → MANIFEST → publish the new versions → publish the sequence number.
//!
//! Invariants
//!  1. All files of a call appear together, also after a crash.
//!  2. An earlier snapshot sees none of them: their sequence number is newer than any published
//!     one, and is published after the versions that hold them.
//!  3. While levels are chosen and logged, no write runs and the MANIFEST is locked, so no level
//!     changes. No compaction begins that would write into the files' ranges.
//!  4. A close waits for ingestions: afterwards another process may open the directory and use the
//!     same file numbers.
//!
//! Source: RocksDB `db/external_sst_file_ingestion_job.cc`.

mod import;
mod place;
mod prepare;

pub(crate) use import::Import;

use crate::cf::ColumnFamily;
use crate::engine::{DbState, Engine, UnderWay, maybe_schedule, publish_super_version, queue_if_due};
use crate::observe::FlushReason;
use crate::options::IngestExternalFileOptions;
use crate::picker::score::LevelSizes;
use crate::picker::{CompactionStyle, RunningId};
use crate::version::LogOptions;
use crate::write::{Leader, WritePath};
use esker_base::sync::Arc;
use esker_base::sync::atomic::Ordering;
use esker_base::{ColumnFamilyId, Error, Result, SequenceNumber};
use esker_format::cursor::InternalIterator;
use esker_format::key::{self, InternalKeyComparator};
use esker_format::version_edit::VersionEdit;
use esker_memtable::MemTable;
use place::{IngestPlace, place};
use prepare::{GivenChecksums, PreparedFiles};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The files for one family.
pub(crate) struct FamilyFiles<'a> {
    pub(crate) cf: &'a Arc<ColumnFamily>,
    pub(crate) files: Vec<PathBuf>,
    pub(crate) checksums: &'a [Vec<u8>],
    pub(crate) checksum_func_names: &'a [String],
}

/// Ingests all files of all families.
/// # Errors
/// See `Db::ingest_external_files`; nothing is ingested then.
pub(crate) fn ingest(
    engine: &Arc<Engine>,
    write_path: &WritePath,
    families: &[FamilyFiles<'_>],
    options: &IngestExternalFileOptions,
) -> Result<()> {
    let under_way = UnderWay::begin(engine)?;
    let mut prepared = Vec::new();
    for family in families {
        let family_options = family.cf.super_version.load_full().options.clone();
        let first = prepared.len();
        for path in &family.files {
            engine.check_open()?;
            prepared.push(PreparedFiles::new(engine, family.cf, &family_options, path, options)?);
        }
        let given = GivenChecksums::new(engine, family)?;
        for (i, file) in prepared[first..].iter_mut().enumerate() {
            file.take_checksum(&given, i, options.verify_file_checksum)?;
        }
    }
    engine.sync_directories(families.iter().map(|family| family.cf.tables.paths().first()))?;
    let together = overlap_each_other(&prepared);
    // Flushes most of the overlap before writers have to wait.
    let overlapped = families_with_overlap(&prepared);
    if !overlapped.is_empty() {
        check_blocking_flush(options)?;
        write_path.flush(&overlapped, FlushReason::ExternalFileIngestion, true)?;
    }
    esker_base::probe!("ingest:prepared");
    let lead = write_path.lead_alone();
    engine.check_open()?;
    install(engine, write_path, &lead, &mut prepared, together, options)?;
    drop(lead);
    drop(under_way);
    if !engine.options.listeners.is_empty() {
        prepared.iter().for_each(|file| engine.tell_ingested(&file.info()));
    }
    if options.move_files {
        for file in &prepared {
            // The database has the file under a name of its own, so a failure is only logged.
            if let Err(e) = engine.fs().delete_file(&file.source) {
                esker_base::info_log!(engine.info_log, Warn, "Could not remove an ingested file: {e}");
            }
        }
    }
    Ok(())
}

fn check_blocking_flush(options: &IngestExternalFileOptions) -> Result<()> {
    if options.allow_blocking_flush {
        return Ok(());
    }
    Err(Error::invalid_argument("External file requires flush, and allow_blocking_flush is false"))
}

fn install(
    engine: &Arc<Engine>,
    write_path: &WritePath,
    lead: &Leader<'_>,
    prepared: &mut [PreparedFiles<'_>],
    together: bool,
    options: &IngestExternalFileOptions,
) -> Result<()> {
    // The end of a recycled WAL looks like damage. Recovery continues with the next WAL only if
    // that WAL begins with the next sequence number. The ingested files use up a number, so no
    // older WAL may be needed.
    let recycled = engine.options.recycle_log_file_num > 0;
    let overlapped = families_with_overlap(prepared);
    if !overlapped.is_empty() {
        // A write has come after the check, and overlaps.
        check_blocking_flush(options)?;
    }
    let overlapped = if recycled { engine.family_ids() } else { overlapped };
    if !overlapped.is_empty() {
        write_path.flush_as_leader(lead, &overlapped, FlushReason::ExternalFileIngestion)?;
    }
    write_path.sync_closed_wals()?;
    let mut manifest = engine.manifest.lock();
    let last = SequenceNumber(engine.allocated_sequence.load(Ordering::Relaxed));
    let (edits, newest, places) = {
        let mut state = engine.state.lock();
        state.background_error.check_writes()?;
        let (edits, newest) = plan(engine, &state, prepared, together, last, options)?;
        (edits, newest, ReservedPlaces::new(&mut state, prepared))
    };
    esker_base::probe!("ingest:planned");
    prepared.iter().for_each(PreparedFiles::open_deletions);
    let log = LogOptions { atomic_group: edits.len() > 1, ..LogOptions::default() };
    let logged = manifest.log_and_apply(edits, log);
    // After a failed write the MANIFEST's content on disk is unknown.
    prepared.iter_mut().for_each(|file| {
        file.is_named = logged.is_ok() || manifest.may_be_named(file.number);
    });
    // A crash may keep the files under these numbers: later writes get newer ones.
    engine.allocated_sequence.store(newest.0, Ordering::Relaxed);
    if let Ok(versions) = &logged {
        engine.prepare_versions(versions);
    }
    let mut state = engine.state.lock();
    places.release(engine, &mut state);
    let versions = logged.inspect_err(|_| maybe_schedule(engine, &mut state))?;
    for (id, version) in versions {
        if let Some(family) = state.family_mut(id) {
            family.version = version;
            family.memtables.ingested = newest;
            // Ingested entries may lie in deleted runs that scans remember.
            family.deleted_run_memory = Arc::new(family.deleted_run_memory.fresh());
        }
        publish_super_version(engine, &mut state, id);
    }
    for file in prepared.iter() {
        if let Some(family) = state.family_mut(file.cf.id) {
            family.ingested.bytes += file.file_size;
            family.ingested.files += 1;
            family.ingested.l0_files += u64::from(file.level == 0);
            family.ingested.keys += file.num_entries;
        }
    }
    engine.numbers.set_last_sequence(newest);
    maybe_schedule(engine, &mut state);
    drop(state);
    drop(manifest);
    engine.release_super_versions();
    engine.tell_stall_changes();
    Ok(())
}

/// The reserved ranges of the files, so that no compaction begins that would write into them.
struct ReservedPlaces(Vec<(ColumnFamilyId, RunningId)>);

impl ReservedPlaces {
    /// Reserves the ranges of files whose levels are chosen. Files of level 0 need no range: they
    /// may overlap.
    fn new(state: &mut DbState, prepared: &[PreparedFiles<'_>]) -> ReservedPlaces {
        let reserve = |file: &PreparedFiles<'_>| {
            let family = state.family_mut(file.cf.id)?;
            Some((file.cf.id, family.running.reserve(file.level, file.smallest(), file.largest())))
        };
        ReservedPlaces(prepared.iter().filter(|file| file.level > 0).filter_map(reserve).collect())
    }

    fn release(self, engine: &Engine, state: &mut DbState) {
        // The last reservation first, which is cheap: there may be thousands.
        for (id, place) in self.0.iter().rev() {
            if let Some(family) = state.family_mut(*id) {
                family.running.finish(*place);
            }
        }
        // The reservations may have blocked compactions.
        for id in self.0.iter().map(|(id, _)| *id).collect::<BTreeSet<_>>() {
            queue_if_due(engine, state, id, engine.oldest_snapshot_at_release());
        }
        engine.state_changed.notify_all();
    }
}

/// An edit for each family, and the newest sequence number of the files.
fn plan(
    engine: &Engine,
    state: &DbState,
    prepared: &mut [PreparedFiles<'_>],
    together: bool,
    last: SequenceNumber,
    options: &IngestExternalFileOptions,
) -> Result<(Vec<VersionEdit>, SequenceNumber)> {
    let now = engine.env.clock.now_seconds();
    let has_snapshots = engine.snapshots.oldest().is_some();
    let mut edits: BTreeMap<ColumnFamilyId, VersionEdit> = BTreeMap::new();
    let mut newest = last;
    for file in prepared {
        let Some(family) = state.families.get(&file.cf.id) else {
            return Err(Error::column_family_dropped("ingest_external_file: the family was dropped"));
        };
        let base_level = LevelSizes::new(&family.version, &family.compaction_options).base_level;
        let style = family.compaction_options.compaction_style;
        let has_levels = matches!(style, CompactionStyle::Level | CompactionStyle::Universal);
        let at = if together || !has_levels {
            // Level 0 orders files by age, and FIFO has only level 0.
            IngestPlace { level: 0, overlaps: true }
        } else {
            place(&family.version, &family.running, base_level, file.smallest(), file.largest())
        };
        if options.fail_if_not_bottommost_level && at.level + 1 < family.version.num_levels() {
            let what = "Files cannot be ingested to Lmax. Please make sure key range of Lmax and ongoing compaction's output to Lmax does not overlap with files to ingest.";
            return Err(Error::try_again(what).at(file.source.display()));
        }
        let sequence = sequence_for(at, last, newest, together, has_snapshots, options)
            .map_err(|e| e.at(file.source.display()))?;
        newest = newest.max(sequence);
        (file.sequence, file.level) = (sequence, at.level);
        let edit = edits
            .entry(file.cf.id)
            .or_insert_with(|| VersionEdit { column_family: file.cf.id, ..VersionEdit::default() });
        let epoch_number = family.epochs.fetch_add(1, Ordering::Relaxed);
        edit.new_files.push((at.level, file.metadata(sequence, epoch_number, now)));
    }
    for edit in edits.values_mut() {
        edit.last_sequence = Some(newest);
    }
    Ok((edits.into_values().collect(), newest))
}

/// Files that overlap each other get one sequence number each, in the given order; all others share
/// one. A snapshot taken during the installation, and an iterator that moves to the newer super
/// version, must not see the file later. So a file without overlaps gets a number, too, if the
/// options allow it.
fn sequence_for(
    at: IngestPlace,
    last: SequenceNumber,
    newest: SequenceNumber,
    together: bool,
    has_snapshots: bool,
    options: &IngestExternalFileOptions,
) -> Result<SequenceNumber> {
    if !options.allow_global_seqno {
        return match at.overlaps || options.snapshot_consistency && has_snapshots {
            true => Err(Error::invalid_argument("Global seqno is required, but disabled")),
            false => Ok(SequenceNumber::ZERO),
        };
    }
    Ok(SequenceNumber(if together { newest.0 + 1 } else { last.0 + 1 }))
}

fn overlap_each_other(prepared: &[PreparedFiles<'_>]) -> bool {
    let mut by_family: BTreeMap<ColumnFamilyId, Vec<&PreparedFiles<'_>>> = BTreeMap::new();
    for file in prepared {
        by_family.entry(file.cf.id).or_default().push(file);
    }
    by_family.values_mut().any(|files| {
        let icmp = files[0].cf.icmp.clone();
        files.sort_by(|a, b| icmp.compare_user_keys(a.smallest(), b.smallest()));
        files.windows(2).any(|pair| icmp.compare_user_keys(pair[0].largest(), pair[1].smallest()).is_ge())
    })
}

/// Families with a memtable entry in the range of a file.
fn families_with_overlap(prepared: &[PreparedFiles<'_>]) -> Vec<ColumnFamilyId> {
    let overlapped: BTreeSet<ColumnFamilyId> = prepared
        .iter()
        .filter(|file| {
            let super_version = file.cf.super_version.load_full();
            super_version
                .memtables()
                .any(|mem| holds_any(mem, &file.cf.icmp, file.smallest(), file.largest()))
        })
        .map(|file| file.cf.id)
        .collect();
    overlapped.into_iter().collect()
}

/// Whether a memtable has a user key within the bounds, at any timestamp.
fn holds_any(mem: &Arc<MemTable>, icmp: &InternalKeyComparator, smallest: &[u8], largest: &[u8]) -> bool {
    let (smallest, _) = icmp.split_timestamp(smallest);
    let mut entries = mem.iter();
    entries.seek(&key::seek_key(&icmp.first_version(smallest), SequenceNumber::MAX));
    if entries.valid() && icmp.compare_plain_keys(key::user_key(entries.key()), largest).is_le() {
        return true;
    }
    // A tombstone that ends at the first key, with any timestamp, does not cover it; one that
    // begins at the last key does.
    let (first, last) = (icmp.last_version(smallest), icmp.last_version(icmp.split_timestamp(largest).0));
    mem.num_range_deletes() > 0
        && mem.range_tombstones().iter().any(|set| set.overlaps(&first, &last, icmp, SequenceNumber::MAX))
}
