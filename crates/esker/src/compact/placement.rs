//! The place of a compaction's young entries.
//!
//! In: the times of sequence numbers in the properties of the inputs, and the family's options.
//! Out: the times for the outputs, the sequence numbers that stay, and those of entries that the
//! last level may not get.
//! Source: RocksDB `CompactionJob::PrepareTimes`.

use crate::cf::ColumnFamily;
use crate::engine::Engine;
use crate::files::open_table::open_file;
use crate::options::ColumnFamilyOptions;
use crate::picker::CompactionPlan;
use esker_base::SequenceNumber;
use esker_format::seqno_to_time::{MAX_PAIRS, SeqnoToTimeMapping};

/// The placement of a compaction's entries.
#[derive(Debug)]
pub(super) struct Placement {
    /// Times of sequence numbers, for the outputs' properties; empty if the family keeps none.
    pub(super) times: SeqnoToTimeMapping,
    /// Entries with larger sequence numbers keep them.
    pub(super) zero_up_to: SequenceNumber,
    /// Entries with smaller sequence numbers may go into the last level; `MAX` if the family has no
    /// `preclude_last_level_data_seconds`.
    pub(super) old_before: SequenceNumber,
    /// The entries for the level above the last one, if it gets any.
    pub(super) young: Option<YoungEntries>,
}

/// The entries that stay above the last level.
#[derive(Debug)]
pub(super) struct YoungEntries {
    /// The level that gets them.
    pub(super) level: usize,
    /// They have larger sequence numbers.
    pub(super) after: SequenceNumber,
    /// The time at which the oldest of them may have been written, in Unix seconds.
    pub(super) oldest_seconds: u64,
}

impl Placement {
    /// The placement in a family without options for young entries.
    fn of_old_entries() -> Placement {
        let (zero_up_to, old_before) = (SequenceNumber::MAX, SequenceNumber::MAX);
        Placement { times: SeqnoToTimeMapping::default(), zero_up_to, old_before, young: None }
    }

    /// The placement for a plan. Opens each input if the family keeps times; otherwise costs
    /// nothing. An input that cannot be read fails the compaction later.
    pub(super) fn of(
        engine: &Engine,
        cf: &ColumnFamily,
        options: &ColumnFamilyOptions,
        plan: &CompactionPlan,
        snapshots: &[SequenceNumber],
    ) -> Placement {
        let kept = options.kept_seconds();
        if kept == 0 {
            return Placement::of_old_entries();
        }
        let mut samples = Vec::new();
        for (_, file) in plan.input_files() {
            let Ok(reader) = open_file(&cf.tables, file) else { continue };
            match SeqnoToTimeMapping::decode(&reader.properties().seqno_to_time_mapping) {
                Ok(of_file) => samples.extend(of_file),
                Err(e) => esker_base::info_log!(
                    engine.info_log,
                    Warn,
                    "[{}] Table {}: problem reading or processing seqno-to-time mapping: {e}",
                    cf.name,
                    file.number
                ),
            }
        }
        let now = engine.env.clock.now_seconds();
        let mut times = SeqnoToTimeMapping::from_samples(samples);
        times.forget_before(now, kept);
        let first_young = first_after(&times, plan, now.saturating_sub(kept));
        let oldest_snapshot = snapshots.first().copied().unwrap_or(SequenceNumber::MAX);
        let limit = now.saturating_sub(options.preclude_last_level_data_seconds);
        // Entries that only readers after a snapshot see are read more often: they stay above.
        let old_before = match options.preclude_last_level_data_seconds {
            0 => SequenceNumber::MAX,
            _ => first_after(&times, plan, limit).min(oldest_snapshot),
        };
        let young = plan.proximal.as_ref().map(|place| YoungEntries {
            level: place.level,
            after: old_before.max(place.keep_through),
            oldest_seconds: times.pairs().iter().map(|p| p.time).find(|t| *t > limit).unwrap_or(now),
        });
        times.thin_out(MAX_PAIRS);
        let is_any_young = plan.input_files().any(|(_, file)| file.largest_seqno >= first_young);
        let zero_up_to = SequenceNumber(first_young.0 - 1).min(oldest_snapshot);
        let zero_up_to = if is_any_young { zero_up_to } else { SequenceNumber::MAX };
        let old_before = young.as_ref().map_or(old_before, |young| young.after);
        Placement { times, zero_up_to, old_before, young }
    }
}

/// The first sequence number that may have been written after `limit`, in Unix seconds.
fn first_after(times: &SeqnoToTimeMapping, plan: &CompactionPlan, limit: u64) -> SequenceNumber {
    // No entry of a file is younger than the file.
    let old = |time: u64| time > 0 && time <= limit;
    let old_files = plan.input_files().filter(|(_, file)| old(file.file_creation_time));
    let in_old_files = old_files.map(|(_, file)| file.largest_seqno).max().unwrap_or_default();
    SequenceNumber(times.seqno_at(limit).max(in_old_files).0 + 1)
}
