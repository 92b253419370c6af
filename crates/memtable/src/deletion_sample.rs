//! A sample of the memtable's point deletions. Background pre-scans use it to find long deleted
//! runs before a scan does.
//!
//! In: deletions. Out: batches of user keys, about one key for 2^`one_in_power` deletions. Each
//! batch has a limit on the entries that its pre-scans may read. A batch repeats some keys of the
//! last batch, because a run may continue beyond them.
//!
//! A hash of the sequence number decides which deletions are sampled. So writers share no counter,
//! and take a lock only for a sampled deletion.
//!
//! Invariants
//!  1. A batch allows pre-scans `ENTRIES_EACH` entries for each deletion of the memtable so far,
//!     less the entries that pre-scans have read and reported.
//!  2. The samples are addresses of the memtable's own records. At most `MOST` wait, and at most
//!     `MOST` are kept from the last batch: 16 KiB together. Neither long keys nor late pre-scans
//!     increase this.

use crate::record::Record;
use esker_base::SequenceNumber;
use esker_base::sync::Mutex;
use esker_base::sync::atomic::{AtomicBool, Ordering};
use std::ptr::NonNull;

/// The first batch is due at `FIRST` to `2 * FIRST` samples, and later batches at a quarter of
/// that. For runs shorter than `2 * FIRST`, every deletion is sampled, and a whole run makes the
/// first batch due.
const FIRST: u64 = 32;

/// Entries that pre-scans may read for each deletion.
const ENTRIES_EACH: u64 = 8;

/// Largest number of waiting samples. A further sample replaces the oldest.
const MOST: usize = 1024;

/// Deletions of longer keys are not sampled: no remembered run begins or ends with a longer key.
const MAX_KEY_BYTES: usize = 4096;

/// See the head of the file.
#[derive(Debug)]
pub(crate) struct DeletionSample {
    /// The sample has one deletion of 2^N, for this N. `None`: no deletion is sampled.
    one_in_power: Option<u32>,
    first: u64,
    is_due: AtomicBool,
    keys: Mutex<Keys>,
}

/// The place of a record.
#[derive(Clone, Copy, Debug)]
struct SamplePosition(NonNull<u8>);

// SAFETY: it points to a record, whose bytes never change (`record`, invariant 1).
unsafe impl Send for SamplePosition {}

#[derive(Default, Debug)]
struct Keys {
    waiting: Vec<SamplePosition>,
    /// The newest samples of the last batch. The next batch repeats them.
    before: Vec<SamplePosition>,
    /// Number of sampled deletions so far.
    sampled: u64,
    /// Number of sampled deletions up to the last batch.
    taken: u64,
    /// Deletions in the memtable at the last batch.
    deletions: u64,
    looked_at: u64,
}

/// The number of waiting samples that a caller requires for a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Take {
    /// Enough samples for a writer to start a pre-scan: a quarter of a run; for the first batch, a
    /// whole run.
    Due,
    /// A quarter of the samples that `Due` requires.
    Early,
    /// At least one deletion since the last batch, sampled or not. The first batch requires as much
    /// as `Early`.
    Any,
}

/// A batch of samples.
#[derive(Debug)]
pub struct SampledDeletions {
    /// User keys that were deleted, in no order.
    pub keys: Vec<Vec<u8>>,
    /// Largest number of entries that the pre-scans may read.
    pub most_entries: u64,
    /// Deletions since the last batch.
    pub deletions: u64,
}

impl DeletionSample {
    /// A sample that finds runs of about `run` deletions or more; with 0 it samples nothing.
    pub(crate) fn new(run: u64) -> DeletionSample {
        let one_in_power = if run == 0 { None } else { Some((run / FIRST).checked_ilog2().unwrap_or(0)) };
        let first = run >> one_in_power.unwrap_or(0);
        DeletionSample { one_in_power, first, is_due: AtomicBool::new(false), keys: Mutex::default() }
    }

    /// Records a deletion.
    ///
    /// # Safety
    /// The record stays in place for as long as `self`.
    #[inline]
    pub(crate) unsafe fn deleted(&self, sequence: SequenceNumber, record: Record<'_>) {
        let Some(power) = self.one_in_power else { return };
        let hash = sequence.0.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        if power == 0 || hash >> (64 - power) == 0 {
            self.note(record);
        }
    }

    #[cold]
    fn note(&self, record: Record<'_>) {
        if record.user_key().len() > MAX_KEY_BYTES {
            return;
        }
        let Some(place) = NonNull::new(record.as_ptr()).map(SamplePosition) else { return };
        let mut keys = self.keys.lock();
        if keys.waiting.len() < MOST {
            keys.waiting.push(place);
        } else {
            let at = (keys.sampled - keys.taken) as usize % MOST;
            keys.waiting[at] = place;
        }
        keys.sampled += 1;
        if keys.waiting.len() as u64 >= self.enough(&keys) {
            self.is_due.store(true, Ordering::Relaxed);
        }
    }

    fn enough(&self, keys: &Keys) -> u64 {
        if keys.taken == 0 { self.first } else { self.first.div_ceil(4) }
    }

    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.is_due.load(Ordering::Relaxed)
    }

    /// A batch of the waiting samples, if there are enough for `when`. `deletions` gives the number
    /// of deletions in the memtable so far.
    pub(crate) fn take(&self, when: Take, deletions: impl FnOnce() -> u64) -> Option<SampledDeletions> {
        self.one_in_power?;
        if !self.is_due.swap(false, Ordering::Relaxed) && when == Take::Due {
            return None;
        }
        let now = deletions();
        let mut keys = self.keys.lock();
        let is_any = when == Take::Any && keys.taken > 0;
        if !is_any && (keys.waiting.len() as u64) < self.enough(&keys).div_ceil(4) {
            return None;
        }
        let since = now.saturating_sub(keys.deletions);
        if since == 0 {
            return None;
        }
        (keys.deletions, keys.taken) = (now, keys.sampled);
        let fresh = std::mem::take(&mut keys.waiting);
        // Keep some samples for the next batch: a run may continue without another sampled
        // deletion.
        let stays = (self.first.div_ceil(4) as usize).saturating_sub(fresh.len()).min(keys.before.len());
        let all: Vec<SamplePosition> = keys.before.iter().chain(&fresh).copied().collect();
        let gone = keys.before.len() - stays;
        keys.before.drain(..gone);
        keys.before.extend(fresh);
        // SAFETY: the caller of `deleted` promised that the record stays in place.
        let user_key =
            |&SamplePosition(place): &SamplePosition| unsafe { Record::from_ptr(place) }.user_key().to_vec();
        let most_entries = (ENTRIES_EACH * now).saturating_sub(keys.looked_at);
        Some(SampledDeletions { keys: all.iter().map(user_key).collect(), most_entries, deletions: since })
    }

    pub(crate) fn looked_at(&self, entries: u64) {
        self.keys.lock().looked_at += entries;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::{Arena, ShardStats};
    use crate::record::encoded_len;
    use esker_base::ValueType;

    fn scene_of(run: u64) -> (DeletionSample, Arena) {
        (DeletionSample::new(run), Arena::new(1 << 16, false))
    }

    /// Deletes the keys with these numbers.
    fn delete((sample, arena): &(DeletionSample, Arena), numbers: std::ops::Range<u64>) {
        numbers.for_each(|n| delete_key(sample, arena, n, &n.to_be_bytes()));
    }

    fn delete_key(sample: &DeletionSample, arena: &Arena, n: u64, key: &[u8]) {
        let len = encoded_len(key.len(), 0);
        let place = arena.allocate_record(len, &ShardStats::NONE).unwrap();
        // SAFETY: `place` has `len` fresh bytes of the arena.
        let record = unsafe { Record::write(place, len, SequenceNumber(n), ValueType::Deletion, key, b"") };
        // SAFETY: the tests keep the arena as long as the sample.
        unsafe { sample.deleted(SequenceNumber(n), record) };
    }

    #[test]
    fn a_batch_has_about_the_wanted_number_and_repeats_the_last_batch() {
        let scene = scene_of(4096);
        let mut last = 0;
        let mut rounds = Vec::new();
        let mut before: Vec<Vec<u8>> = Vec::new();
        let mut deletions = 0;
        for n in 0..100_000u64 {
            delete(&scene, n..n + 1);
            if !scene.0.is_due() {
                assert!(scene.0.take(Take::Due, || n + 1).is_none());
                continue;
            }
            let taken = scene.0.take(Take::Due, || n + 1).unwrap();
            deletions += taken.deletions;
            assert_eq!(deletions, n + 1);
            assert_eq!(taken.keys[..before.len()], before);
            before = taken.keys[before.len()..].to_vec();
            assert!(taken.most_entries <= 8 * (n + 512), "{} at {n}", taken.most_entries);
            scene.0.looked_at(taken.most_entries);
            rounds.push((before.len(), n - last));
            last = n;
        }
        assert_eq!(rounds[0].0, 32);
        assert!((3500..4700).contains(&rounds[0].1), "{rounds:?}");
        assert!(
            rounds[1..].iter().all(|&(keys, apart)| keys == 8 && (700..1400).contains(&apart)),
            "{rounds:?}"
        );
    }

    #[test]
    fn short_runs_are_sampled_whole_and_no_run_with_length_zero() {
        let scene = scene_of(4);
        delete(&scene, 0..3);
        assert!(scene.0.take(Take::Due, || 3).is_none());
        delete(&scene, 3..4);
        assert_eq!(scene.0.take(Take::Due, || 4).unwrap().keys.len(), 4);
        delete(&scene, 4..5);
        assert_eq!(scene.0.take(Take::Due, || 5).unwrap().keys.len(), 5);
        assert!(scene.0.take(Take::Early, || 5).is_none(), "there is no new sample");
        let scene = scene_of(4096);
        delete(&scene, 0..2000);
        assert!(scene.0.take(Take::Due, || 2000).is_none());
        assert!(scene.0.take(Take::Early, || 2000).is_some_and(|taken| (12..20).contains(&taken.keys.len())));
        let scene = scene_of(0);
        delete(&scene, 0..10_000);
        assert!(
            scene.0.take(Take::Any, || 10_000).is_none() && scene.0.take(Take::Early, || 10_000).is_none()
        );
    }

    #[test]
    fn the_end_of_a_run_is_sampled_again_when_no_deletion_was_sampled_since() {
        let scene = scene_of(4096);
        delete(&scene, 0..500);
        assert!(scene.0.take(Take::Any, || 500).is_none(), "the deletions are too few for a run");
        delete(&scene, 500..6000);
        let first = scene.0.take(Take::Any, || 6000).unwrap();
        assert_eq!(first.deletions, 6000);
        let last = first.keys.last().unwrap().clone();
        assert!(scene.0.take(Take::Any, || 6000).is_none(), "no key was deleted");
        for deletions in 6001..6040 {
            let again = scene.0.take(Take::Any, || deletions).unwrap();
            assert!(again.deletions == 1 && again.keys.contains(&last) && again.keys.len() < 60);
        }
        assert_eq!(scene.0.keys.lock().before.len(), 8);
    }

    #[test]
    fn samples_that_wait_take_little_memory_and_the_newest_are_kept() {
        let scene = scene_of(1);
        delete(&scene, 0..100_000);
        delete_key(&scene.0, &scene.1, 100_000, &[7; MAX_KEY_BYTES + 1]);
        let keys = scene.0.take(Take::Due, || 100_001).unwrap().keys;
        assert_eq!(keys.len(), MOST);
        assert!(keys.iter().all(|key| key.as_slice() >= 98_976u64.to_be_bytes().as_slice()));
        assert_eq!(scene.0.take(Take::Any, || 100_002).unwrap().keys.len(), MOST);
        delete(&scene, 200_000..200_700);
        scene.0.take(Take::Any, || 100_702).unwrap();
        delete(&scene, 300_000..301_300);
        let keys = scene.0.take(Take::Any, || 102_002).unwrap().keys;
        let newest: Vec<u64> =
            keys.iter().map(|key| u64::from_be_bytes(key[..].try_into().unwrap())).collect();
        assert!((300_276..301_300).all(|key| newest.contains(&key)), "the oldest went first");
        assert!(scene.0.keys.lock().waiting.capacity() <= MOST, "the sample was returned");
    }
}
