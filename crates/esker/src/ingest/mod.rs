//! Ingestion: adds tables that were written outside the database, all at once.
//!
//! In: files of `SstFileWriter` or of another database, by family. Out: the files in the deepest
//! levels into which they fit. Files of `SstFileWriter` get a sequence number that is newer than
//! all entries that they overlap; those of a database keep theirs.
//!
//! Steps: `prepare.rs` check, link or copy → as write leader: flush overlapping memtables →
//! `plan.rs` and `place.rs` level by level → MANIFEST → publish the new versions → publish the
//! sequence number. Users may prepare and commit apart (`Db::prepare_file_ingestion`).
//!
//! Invariants
//!  1. All files of a commit appear together, also after a crash. The files that they replace
//!     (`replace.rs`) go in the same edit.
//!  2. An earlier snapshot sees none of them: their sequence number is newer than any published
//!     one, and is published after the versions that hold them. Options may waive this. Files that
//!     go behind all others (`ingest_behind`) have number 0, in the last level.
//!  3. While levels are chosen and logged, no write runs and the MANIFEST is locked, so no level
//!     changes. No compaction begins that would write into the files' ranges.
//!  4. A close waits for preparations and commits: afterwards another process may open the
//!     directory and use the same file numbers.
//!
//! Source: RocksDB `db/external_sst_file_ingestion_job.cc`.

mod import;
mod overlap;
mod place;
mod plan;
mod prepare;
mod replace;

pub(crate) use import::Import;

use crate::cf::ColumnFamily;
use crate::engine::{DbState, Engine, UnderWay, maybe_schedule, publish_super_version, queue_if_due};
use crate::observe::FlushReason;
use crate::options::{IngestExternalFileOptions, RangeOpt, Temperature};
use crate::picker::RunningId;
use crate::sst_file_writer::PreparedFileInfo;
use crate::version::LogOptions;
use crate::write::{Leader, WritePath};
use esker_base::stats::Histogram;
use esker_base::sync::Arc;
use esker_base::sync::atomic::Ordering;
use esker_base::{ColumnFamilyId, Error, Result, SequenceNumber, perf_time};
use overlap::{check_blocking_flush, families_with_overlap};
use plan::{Plan, plan};
use prepare::{GivenChecksums, PreparedFile};
use replace::ReplacedRange;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The files for one family.
pub(crate) struct FamilyFiles<'a> {
    pub(crate) cf: &'a Arc<ColumnFamily>,
    pub(crate) files: &'a [PathBuf],
    pub(crate) checksums: &'a [Vec<u8>],
    pub(crate) checksum_func_names: &'a [String],
    /// The temperature that the files have.
    pub(crate) temperature: Temperature,
    /// The facts about each file that spare its opening; or none.
    pub(crate) infos: &'a [Arc<PreparedFileInfo>],
    /// The keys that the files replace.
    pub(crate) replaced: Option<RangeOpt<'a>>,
}

/// Files that are ready for a commit. A drop deletes those that were not committed.
#[derive(Debug)]
pub(crate) struct Ingestion {
    files: Vec<PreparedFile>,
    replaced: Vec<ReplacedRange>,
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
    let ingestion = Ingestion::prepare(engine, families, options)?;
    ingestion.commit(engine, write_path, under_way)
}

impl Ingestion {
    /// Checks the files, and links or copies them into the directory. The caller holds an
    /// [`UnderWay`] until the ingestion is committed, dropped or [left](Ingestion::leave).
    /// # Errors
    /// See `Db::prepare_file_ingestion`.
    pub(crate) fn prepare(
        engine: &Arc<Engine>,
        families: &[FamilyFiles<'_>],
        options: &IngestExternalFileOptions,
    ) -> Result<Ingestion> {
        perf_time!(
            file_ingestion_nanos,
            engine.env.clock,
            Ingestion::prepare_files(engine, families, options)
        )
    }

    fn prepare_files(
        engine: &Arc<Engine>,
        families: &[FamilyFiles<'_>],
        options: &IngestExternalFileOptions,
    ) -> Result<Ingestion> {
        let start = engine.start_timing();
        let mut prepared = Ingestion { files: Vec::new(), replaced: Vec::new() };
        for family in families {
            let family_options = family.cf.super_version.load_full().options.clone();
            let first = prepared.files.len();
            for i in 0..family.files.len() {
                engine.check_open()?;
                prepared.files.push(PreparedFile::new(engine, family, i, &family_options, options)?);
            }
            if let Some(range) = family.replaced {
                let replaced = ReplacedRange::new(family.cf, range, options)?;
                prepared.files[first..].iter().try_for_each(|file| replaced.check_contains(file))?;
                prepared.replaced.push(replaced);
            }
            let given = GivenChecksums::new(engine, family)?;
            for (i, file) in prepared.files[first..].iter_mut().enumerate() {
                file.take_checksum(&given, i, options.verify_file_checksum)?;
            }
        }
        engine.sync_directories(families.iter().map(|family| family.cf.tables.paths().first()))?;
        engine.end_timing(Histogram::IngestExternalFilePrepareTime, start);
        Ok(prepared)
    }

    /// Adds the files of a later ingestion, as if both were one.
    /// # Errors
    /// `InvalidArgument`: files of one family have different options · `NotSupported`: such files
    /// replace a range.
    pub(crate) fn join(&mut self, mut later: Ingestion) -> Result<()> {
        for file in &later.files {
            let Some(earlier) = self.files.iter().find(|earlier| earlier.cf.id == file.cf.id) else {
                continue;
            };
            if [&self.replaced, &later.replaced].iter().any(|of| of.iter().any(|r| r.cf.id == file.cf.id)) {
                return Err(Error::not_supported(
                    "cannot merge file ingestion handles for the same column family when atomic_replace_range is used",
                ));
            }
            if earlier.options != file.options {
                return Err(Error::invalid_argument(
                    "file ingestion handles for the same column family must be prepared with the same \
                     IngestExternalFileOptions",
                ));
            }
        }
        self.files.append(&mut later.files);
        self.replaced.append(&mut later.replaced);
        Ok(())
    }

    /// Leaves the files in the directory: the next open deletes them.
    pub(crate) fn leave(mut self) {
        self.files.iter_mut().for_each(|file| file.is_named = true);
    }

    /// Makes the files part of the database.
    /// # Errors
    /// See `Db::commit_file_ingestion_handles`; nothing is ingested then.
    pub(crate) fn commit(
        self,
        engine: &Arc<Engine>,
        write_path: &WritePath,
        under_way: UnderWay<'_>,
    ) -> Result<()> {
        perf_time!(file_ingestion_nanos, engine.env.clock, self.commit_files(engine, write_path, under_way))
    }

    fn commit_files(
        self,
        engine: &Arc<Engine>,
        write_path: &WritePath,
        under_way: UnderWay<'_>,
    ) -> Result<()> {
        // After an error the copies are deleted before a close may end: the last one drops first.
        let (under_way, mut ingestion) = (under_way, self);
        let start = engine.start_timing();
        // Flushes most of the overlap before writers have to wait.
        let overlapped = families_with_overlap(&ingestion);
        if !overlapped.is_empty() {
            check_blocking_flush(&ingestion, &overlapped)?;
            write_path.flush(&overlapped, FlushReason::ExternalFileIngestion, true)?;
        }
        esker_base::probe!("ingest:prepared");
        let lead = write_path.lead_alone_unlocked()?;
        let mut install = || {
            engine.check_open()?;
            install(engine, write_path, &lead, &mut ingestion)
        };
        perf_time!(file_ingestion_blocking_live_writes_nanos, engine.env.clock, install())?;
        drop(lead);
        drop(under_way);
        engine.end_timing(Histogram::IngestExternalFileRunTime, start);
        if !engine.options.listeners.is_empty() {
            ingestion.files.iter().for_each(|file| engine.report_ingested(&file.info()));
        }
        for file in ingestion.files.iter().filter(|file| file.options.move_files) {
            // The database has the file under a name of its own, so a failure is only logged.
            if let Err(e) = engine.fs().delete_file(&file.source) {
                esker_base::info_log!(engine.info_log, Warn, "Could not remove an ingested file: {e}");
            }
        }
        Ok(())
    }
}

fn install(
    engine: &Arc<Engine>,
    write_path: &WritePath,
    lead: &Leader<'_>,
    ingestion: &mut Ingestion,
) -> Result<()> {
    // The end of a recycled WAL looks like damage. Recovery continues with the next WAL only if
    // that WAL begins with the next sequence number. The ingested files use up a number, so no
    // older WAL may be needed.
    let recycled = engine.options.recycle_log_file_num > 0;
    let overlapped = families_with_overlap(ingestion);
    // A write may have come after the check, and overlap.
    check_blocking_flush(ingestion, &overlapped)?;
    let overlapped = if recycled { engine.family_ids() } else { overlapped };
    if !overlapped.is_empty() {
        write_path.flush_as_leader(lead, &overlapped, FlushReason::ExternalFileIngestion)?;
    }
    write_path.sync_closed_wals()?;
    let mut manifest = engine.manifest.lock();
    let last = SequenceNumber(engine.allocated_sequence.load(Ordering::Relaxed));
    let (Plan { edits, newest, replaced }, places) = {
        let mut state = engine.state.lock();
        state.background_error.check_writes()?;
        let plan = plan(engine, &state, ingestion, last)?;
        let places = ReservedPlaces::new(&mut state, &ingestion.files, &plan);
        (plan, places)
    };
    esker_base::probe!("ingest:planned");
    ingestion.files.iter().for_each(|file| file.open_deletions(engine));
    let log = LogOptions { atomic_group: edits.len() > 1, ..LogOptions::default() };
    let logged = manifest.log_and_apply(edits, log);
    // After a failed write the MANIFEST's content on disk is unknown.
    ingestion.files.iter_mut().for_each(|file| {
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
            // Ingested entries may lie in deleted runs that scans remember, and entries in such
            // runs may reappear behind replaced files.
            family.deleted_run_memory = Arc::new(family.deleted_run_memory.fresh());
        }
        publish_super_version(engine, &mut state, id);
    }
    count_files(&mut state, &ingestion.files);
    engine.numbers.set_last_sequence(newest);
    maybe_schedule(engine, &mut state);
    drop(state);
    drop(manifest);
    engine.release_super_versions();
    if !replaced.is_empty() {
        drop(replaced);
        engine.purger.request();
    }
    engine.report_stall_changes();
    Ok(())
}

fn count_files(state: &mut DbState, files: &[PreparedFile]) {
    for file in files {
        if let Some(family) = state.family_mut(file.cf.id) {
            family.ingested.bytes += file.file_size;
            family.ingested.files += 1;
            family.ingested.l0_files += u64::from(file.level == 0);
            family.ingested.keys += file.num_entries;
        }
    }
}

/// The reserved ranges of the files, so that no compaction begins that would write into them, and
/// the replaced files, so that none takes them.
struct ReservedPlaces(Vec<(ColumnFamilyId, RunningId)>);

impl ReservedPlaces {
    /// Reserves the ranges of files whose levels are chosen. Files of level 0 need no range: they
    /// may overlap.
    fn new(state: &mut DbState, files: &[PreparedFile], plan: &Plan) -> ReservedPlaces {
        let mut places = Vec::new();
        for replaced in &plan.replaced {
            if let Some(family) = state.family_mut(replaced.family) {
                places.push((replaced.family, family.running.hold(&replaced.files)));
            }
        }
        for file in files.iter().filter(|file| file.level > 0) {
            if let Some(family) = state.family_mut(file.cf.id) {
                let id = family.running.reserve(file.level, file.smallest(), file.largest());
                places.push((file.cf.id, id));
            }
        }
        ReservedPlaces(places)
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
