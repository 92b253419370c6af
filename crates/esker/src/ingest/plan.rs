//! Plans an ingestion: the level and the sequence number of each file, and the edits.
//!
//! In: prepared files in the caller's order, the versions, and the last sequence number. Out: a
//! [`Plan`]. Files that overlap each other get levels and numbers by which the later one wins.
//!
//! Source: RocksDB `ExternalSstFileIngestionJob::Run`, `AssignLevelsForOneBatch`.

use super::place::{Batches, IngestPlace, place};
use super::{Ingestion, PreparedFile};
use crate::cf::FamilyState;
use crate::engine::{DbState, Engine};
use crate::picker::CompactionStyle;
use crate::picker::score::LevelSizes;
use crate::version::{EPOCH_BEHIND_ALL, FileMeta};
use esker_base::sync::Arc;
use esker_base::sync::atomic::Ordering;
use esker_base::{ColumnFamilyId, Error, Result, SequenceNumber};
use esker_format::version_edit::VersionEdit;
use std::collections::{BTreeMap, BTreeSet};

/// The changes that an ingestion makes.
pub(super) struct Plan {
    /// One edit for each family.
    pub(super) edits: Vec<VersionEdit>,
    /// The newest sequence number afterwards.
    pub(super) newest: SequenceNumber,
    /// The files that go.
    pub(super) replaced: Vec<ReplacedFiles>,
}

/// The files of one family that an ingestion replaces, with their levels.
pub(super) struct ReplacedFiles {
    pub(super) family: ColumnFamilyId,
    pub(super) files: Vec<(usize, Arc<FileMeta>)>,
}

/// Chooses the levels and sequence numbers of all files, and notes them in the files.
/// # Errors
/// See `Db::ingest_external_files`.
pub(super) fn plan(
    engine: &Engine,
    state: &DbState,
    ingestion: &mut Ingestion,
    last: SequenceNumber,
) -> Result<Plan> {
    let now = engine.env.clock.now_seconds();
    let has_snapshots = engine.snapshots.oldest().is_some();
    let mutual = families_whose_files_overlap(&ingestion.files);
    let mut edits: BTreeMap<ColumnFamilyId, VersionEdit> = BTreeMap::new();
    let mut batches: BTreeMap<ColumnFamilyId, Batches> = BTreeMap::new();
    let mut newest = last;
    let replaced = replaced_files(state, ingestion, &mut edits)?;
    for file in &mut ingestion.files {
        let family = live_family(state, file.cf.id)?;
        let together = mutual.contains(&file.cf.id);
        let replaces = replaced.iter().any(|replaced| replaced.family == file.cf.id);
        let at = match file.options.ingest_behind {
            true => place_behind(file, family, together).map_err(|e| e.at(file.source.display()))?,
            false => place_of(file, family, together, replaces, &mut batches),
        };
        if file.options.fail_if_not_bottommost_level && at.level + 1 < family.version.num_levels() {
            let what = "Files cannot be ingested to Lmax. Please make sure key range of Lmax and ongoing compaction's output to Lmax does not overlap with files to ingest.";
            return Err(Error::try_again(what).at(file.source.display()));
        }
        let sequence = sequence_for(file, at, last, newest, together, has_snapshots)
            .map_err(|e| e.at(file.source.display()))?;
        newest = newest.max(sequence);
        if let Some((smallest, own)) = file.own_seqnos() {
            engine.check_foreign_numbers(smallest, own).map_err(|e| e.at(file.source.display()))?;
            // One number is used up: conflict checks and readers of the WAL find the ingestion by
            // it.
            newest = newest.max(own).max(SequenceNumber(last.0 + 1));
        }
        (file.sequence, file.level) = (sequence, at.level);
        let epoch_number = match file.options.ingest_behind {
            true => EPOCH_BEHIND_ALL,
            false => family.epochs.fetch_add(1, Ordering::Relaxed),
        };
        let mut metadata = file.metadata(sequence, epoch_number, now);
        metadata.temperature = file.temperature as u8;
        if !file.is_linked {
            // RocksDB knows the level of a copy only if it must be the last one.
            let is_known = file.options.fail_if_not_bottommost_level || file.options.ingest_behind;
            let level = if is_known { at.level } else { 0 };
            metadata.temperature = family.options.temperature_of(level, family.version.num_levels()) as u8;
        }
        edit_of(&mut edits, file.cf.id).new_files.push((at.level, metadata));
    }
    for edit in edits.values_mut() {
        edit.last_sequence = Some(newest);
    }
    Ok(Plan { edits: edits.into_values().collect(), newest, replaced })
}

fn live_family(state: &DbState, id: ColumnFamilyId) -> Result<&FamilyState> {
    let dropped = || Error::column_family_dropped("ingest_external_file: the family was dropped");
    state.families.get(&id).ok_or_else(dropped)
}

fn edit_of(edits: &mut BTreeMap<ColumnFamilyId, VersionEdit>, id: ColumnFamilyId) -> &mut VersionEdit {
    edits.entry(id).or_insert_with(|| VersionEdit { column_family: id, ..VersionEdit::default() })
}

/// The files of the replaced ranges, which `edits` then delete.
fn replaced_files(
    state: &DbState,
    ingestion: &Ingestion,
    edits: &mut BTreeMap<ColumnFamilyId, VersionEdit>,
) -> Result<Vec<ReplacedFiles>> {
    let mut all = Vec::new();
    for range in &ingestion.replaced {
        let family = live_family(state, range.cf.id)?;
        let files = range.files(&family.version, &family.running)?;
        let deleted = files.iter().map(|(level, file)| (*level, file.number));
        edit_of(edits, range.cf.id).deleted_files.extend(deleted);
        all.push(ReplacedFiles { family: range.cf.id, files });
    }
    Ok(all)
}

/// The level of a file. `together`: whether files of its family overlap each other. `replaces`:
/// whether they replace a range.
fn place_of(
    file: &PreparedFile,
    family: &FamilyState,
    together: bool,
    replaces: bool,
    batches: &mut BTreeMap<ColumnFamilyId, Batches>,
) -> IngestPlace {
    let base_level = LevelSizes::new(&family.version, &family.compaction_options).base_level;
    let style = family.compaction_options.compaction_style;
    let has_levels = matches!(style, CompactionStyle::Level | CompactionStyle::Universal);
    let keys = (file.smallest(), file.largest());
    let num_levels = family.version.num_levels();
    if file.own_seqnos().is_none() {
        // Level 0 orders files by age, and FIFO has only level 0.
        return match together || !has_levels {
            true => IngestPlace { level: 0, overlaps: true },
            false => place(&family.version, &family.running, (base_level, num_levels), keys, replaces),
        };
    }
    let levels = if has_levels { num_levels } else { 0 };
    let batches = batches.entry(file.cf.id).or_insert_with(|| Batches::new(levels));
    let below = if together { batches.next(&file.cf.icmp, file.span()) } else { levels };
    let at = place(&family.version, &family.running, (base_level, below), keys, replaces);
    batches.went_into(at.level);
    at
}

/// The last level, for a file that goes behind all others.
/// # Errors
/// `NotSupported`: files of the family overlap each other · `InvalidArgument`: the last level has
/// such keys already, or other levels have entries that would not hide the file's.
fn place_behind(file: &PreparedFile, family: &FamilyState, together: bool) -> Result<IngestPlace> {
    if together {
        let what = "Files with overlapping ranges cannot be ingested with ingestion behind mode.";
        return Err(Error::not_supported(what));
    }
    let (version, last) = (&family.version, family.version.num_levels() - 1);
    let (smallest, largest) = (file.smallest(), file.largest());
    let is_taken = version.overlaps(last, Some(smallest), Some(largest))
        || family.running.writes_into(last, smallest, largest, version.icmp());
    if is_taken || last == 0 {
        let what = "Can't ingest_behind file as it doesn't fit at the last level!";
        return Err(Error::invalid_argument(what));
    }
    // A family that did not have the option from the beginning may have dropped numbers.
    if version.all_files().any(|(level, f)| level < last && f.smallest_seqno == SequenceNumber::ZERO) {
        let what = "Can't ingest_behind file as despite cf_allow_ingest_behind=true there are files with 0 \
                    seqno in database at upper levels!";
        return Err(Error::invalid_argument(what));
    }
    Ok(IngestPlace { level: last, overlaps: false })
}

/// Files that overlap each other get one sequence number each, in the given order; all others share
/// one. A snapshot taken during the installation, and an iterator that moves to the newer super
/// version, must not see the file later. So a file without overlaps gets a number, too, if the
/// options allow it. A database's table keeps its numbers.
fn sequence_for(
    file: &PreparedFile,
    at: IngestPlace,
    last: SequenceNumber,
    newest: SequenceNumber,
    together: bool,
    has_snapshots: bool,
) -> Result<SequenceNumber> {
    let options = &file.options;
    if options.ingest_behind {
        return Ok(SequenceNumber::ZERO);
    }
    let needs_number = at.overlaps || options.snapshot_consistency && has_snapshots;
    if file.own_seqnos().is_some() {
        return match needs_number {
            true => Err(Error::invalid_argument(
                "An ingested file overlaps with existing data in the DB and has been assigned a non-zero \
                 sequence number, which is not allowed when 'allow_db_generated_files' is enabled.",
            )),
            false => Ok(SequenceNumber::ZERO),
        };
    }
    if !options.allow_global_seqno {
        return match needs_number {
            true => Err(Error::invalid_argument("Global seqno is required, but disabled")),
            false => Ok(SequenceNumber::ZERO),
        };
    }
    Ok(SequenceNumber(if together { newest.0 + 1 } else { last.0 + 1 }))
}

/// The families of which two files overlap.
fn families_whose_files_overlap(prepared: &[PreparedFile]) -> BTreeSet<ColumnFamilyId> {
    let mut by_family: BTreeMap<ColumnFamilyId, Vec<&PreparedFile>> = BTreeMap::new();
    for file in prepared {
        by_family.entry(file.cf.id).or_default().push(file);
    }
    by_family.retain(|_, files| {
        let icmp = files[0].cf.icmp.clone();
        files.sort_by(|a, b| icmp.compare_user_keys(a.smallest(), b.smallest()));
        files.windows(2).any(|pair| !pair[0].span().ends_before(pair[1].span(), &icmp))
    });
    by_family.into_keys().collect()
}
