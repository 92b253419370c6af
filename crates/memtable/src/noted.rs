//! A few of a memtable's point deletions, by which those find long runs of deleted keys who go through them before a scan does.
//!
//! In: deletions. Out: now and then the user keys of about one in so many, those of the last time once more (a run goes on where it
//! ended), and how many entries it is worth to look at because of them.
//!
//! Which are noted is decided by a hash of their sequence numbers: nothing is counted, so writers share nothing but, once in
//! `every` deletions, a lock.
//!
//! Invariant: over its life a memtable allows no more than `ENTRIES_EACH` entries to be looked at for each deletion that it has.

use esker_base::SequenceNumber;
use esker_base::sync::Mutex;
use esker_base::sync::atomic::{AtomicBool, Ordering};

/// How many are handed out together the first time at least, unless a run is shorter; later a quarter of that.
const FIRST: u64 = 32;

/// Entries that may be looked at for each deletion.
const ENTRIES_EACH: u64 = 8;

/// See the head of the file.
#[derive(Debug)]
pub(crate) struct Noted {
    /// One deletion in 2 to this power; `None`: none.
    one_in_power: Option<u32>,
    first: u64,
    is_due: AtomicBool,
    keys: Mutex<Keys>,
}

#[derive(Default, Debug)]
struct Keys {
    waiting: Vec<Vec<u8>>,
    /// Those that were handed out the last time.
    before: Vec<Vec<u8>>,
    taken: u64,
    looked_at: u64,
}

/// What is handed out.
#[derive(Debug)]
pub struct NotedDeletions {
    /// User keys that were deleted, in no order.
    pub keys: Vec<Vec<u8>>,
    /// Entries that may be looked at.
    pub most_entries: u64,
}

impl Noted {
    /// For who looks at runs of about `run` deletions and more; 0 if nobody does.
    pub(crate) fn new(run: u64) -> Noted {
        let one_in_power = if run == 0 { None } else { Some((run / FIRST).checked_ilog2().unwrap_or(0)) };
        let first = run >> one_in_power.unwrap_or(0);
        Noted { one_in_power, first, is_due: AtomicBool::new(false), keys: Mutex::default() }
    }

    /// A deletion was added.
    #[inline]
    pub(crate) fn deleted(&self, sequence: SequenceNumber, user_key: &[u8]) {
        let Some(power) = self.one_in_power else { return };
        let hash = sequence.0.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        if power == 0 || hash >> (64 - power) == 0 {
            self.note(user_key);
        }
    }

    #[cold]
    fn note(&self, user_key: &[u8]) {
        let mut keys = self.keys.lock();
        keys.waiting.push(user_key.to_vec());
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

    /// Those that wait, if it is due or, `early`, if there are a quarter of as many as that takes.
    pub(crate) fn take(&self, early: bool) -> Option<NotedDeletions> {
        let power = self.one_in_power?;
        if !self.is_due.swap(false, Ordering::Relaxed) && !early {
            return None;
        }
        let mut keys = self.keys.lock();
        if (keys.waiting.len() as u64) < self.enough(&keys).div_ceil(4) {
            return None;
        }
        let fresh = std::mem::take(&mut keys.waiting);
        keys.taken += fresh.len() as u64;
        let mut all = std::mem::replace(&mut keys.before, fresh.clone());
        all.extend(fresh);
        let deletions = keys.taken << power;
        let most_entries = (ENTRIES_EACH * deletions).saturating_sub(keys.looked_at);
        Some(NotedDeletions { keys: all, most_entries })
    }

    pub(crate) fn looked_at(&self, entries: u64) {
        self.keys.lock().looked_at += entries;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delete(noted: &Noted, numbers: std::ops::Range<u64>) {
        numbers.for_each(|n| noted.deleted(SequenceNumber(n), &n.to_be_bytes()));
    }

    #[test]
    fn about_so_many_come_together_each_time_and_those_of_the_last_time_once_more() {
        let noted = Noted::new(4096);
        let mut last = 0;
        let mut rounds = Vec::new();
        let mut before: Vec<Vec<u8>> = Vec::new();
        for n in 0..100_000u64 {
            delete(&noted, n..n + 1);
            if !noted.is_due() {
                assert!(noted.take(false).is_none());
                continue;
            }
            let taken = noted.take(false).unwrap();
            assert_eq!(taken.keys[..before.len()], before);
            before = taken.keys[before.len()..].to_vec();
            assert!(taken.most_entries <= 8 * (n + 512), "{} at {n}", taken.most_entries);
            noted.looked_at(taken.most_entries);
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
    fn short_runs_are_noted_whole_and_none_if_nobody_looks() {
        let noted = Noted::new(4);
        delete(&noted, 0..3);
        assert!(noted.take(false).is_none());
        delete(&noted, 3..4);
        assert_eq!(noted.take(false).unwrap().keys.len(), 4);
        delete(&noted, 4..5);
        assert_eq!(noted.take(false).unwrap().keys.len(), 5);
        assert!(noted.take(true).is_none(), "nothing is new");
        let noted = Noted::new(4096);
        delete(&noted, 0..2000);
        assert!(noted.take(false).is_none());
        assert!(noted.take(true).is_some_and(|taken| (12..20).contains(&taken.keys.len())));
        let noted = Noted::new(0);
        delete(&noted, 0..10_000);
        assert!(noted.take(false).is_none() && noted.take(true).is_none(), "nobody looks");
    }
}
