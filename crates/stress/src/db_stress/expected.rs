//! The expected contents of the database, in a file outside of it that survives a killed process.
//!
//! In: the changes that writers begin and end. Out: the values that a reader may find.
//!
//!   magic u64 | families u32 | keys u32 | (now u32 | next u32) for each key of each family
//!
//! A state is the number of the key's newest value. Its highest bit is set if that value has been
//! deleted since. Numbers count up, so a number identifies a value.
//!
//! Invariants
//!  1. The file has `next` before the database is called for the change, and `now` after the call
//!     has returned. So whenever a process dies, each key is in one of the two states.
//!  2. Only the thread that holds a key's lock changes its state.
//!
//! Source of the idea: RocksDB `db_stress_tool/expected_state.h`.

use esker::internals::base::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use esker::internals::base::sync::{Mutex, MutexGuard};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Name of the file.
pub(super) const FILE: &str = "expected.state";
const MAGIC: u64 = 0x5045_5352_454B_5345;
const HEADER_BYTES: u64 = 16;
const DELETED: u32 = 1 << 31;
/// The value of `next` while no change is under way.
const NOTHING: u32 = u32::MAX;

/// One key of one family: its place in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ExpectedSlot(usize);

/// The state of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ExpectedState(u32);

impl ExpectedState {
    /// The number of the value, unless it is deleted.
    pub(super) fn value(self) -> Option<u32> {
        (self.0 & DELETED == 0).then_some(self.0)
    }

    /// The number of the newest value, deleted or not.
    fn newest(self) -> u32 {
        self.0 & !DELETED
    }
}

/// The states that a key may have had at one point in time.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyKnowledge {
    now: ExpectedState,
    next: Option<ExpectedState>,
    deletions: u32,
}

/// The states of all keys.
#[derive(Debug)]
pub(super) struct Expected {
    file: std::fs::File,
    keys: u32,
    states: Vec<AtomicU64>,
    /// For each key, the number of deletions that began in this process.
    deletions: Vec<AtomicU32>,
    locks: Vec<Mutex<()>>,
}

impl Expected {
    /// Reads the file, or makes one in which no key has a value.
    /// # Errors
    /// The file cannot be read or written, or is for other families and keys.
    #[expect(clippy::disallowed_methods, reason = "it is no file of a database")]
    pub(super) fn open(directory: &Path, families: u32, keys: u32) -> Result<Expected, String> {
        let path = directory.join(FILE);
        let named = |e: std::io::Error| format!("{}: {e}", path.display());
        std::fs::create_dir_all(directory).map_err(named)?;
        let mut open = OpenOptions::new();
        let file = open.read(true).write(true).create(true).truncate(false).open(&path).map_err(named)?;
        let count = families as usize * keys as usize;
        let length = HEADER_BYTES + 8 * count as u64;
        let header = [MAGIC.to_le_bytes(), pack(families, keys).to_le_bytes()].concat();
        let mut bytes = vec![0; 8 * count];
        let found_length = file.metadata().map_err(named)?.len();
        let mut found = [0; HEADER_BYTES as usize];
        if found_length >= HEADER_BYTES {
            file.read_exact_at(&mut found, 0).map_err(named)?;
        }
        // The head is written last: a file without it was not finished.
        if found != [0; HEADER_BYTES as usize] {
            if found[..] != header[..] || found_length != length {
                return Err(format!("{}: of other families or keys", path.display()));
            }
            file.read_exact_at(&mut bytes, HEADER_BYTES).map_err(named)?;
        } else {
            bytes.chunks_exact_mut(8).for_each(|b| b.copy_from_slice(&pack(DELETED, NOTHING).to_le_bytes()));
            file.write_all_at(&bytes, HEADER_BYTES).map_err(named)?;
            file.write_all_at(&header, 0).map_err(named)?;
        }
        let read = |b: &[u8]| AtomicU64::new(u64::from_le_bytes(b.try_into().expect("eight bytes")));
        Ok(Expected {
            file,
            keys,
            states: bytes.chunks_exact(8).map(read).collect(),
            deletions: (0..count).map(|_| AtomicU32::new(0)).collect(),
            locks: (0..count).map(|_| Mutex::new(())).collect(),
        })
    }

    pub(super) fn place(&self, family: usize, key: u32) -> ExpectedSlot {
        ExpectedSlot(family * self.keys as usize + key as usize)
    }

    /// Locks the key for changes. Several keys are locked in ascending order.
    pub(super) fn lock(&self, place: ExpectedSlot) -> MutexGuard<'_, ()> {
        self.locks[place.0].lock()
    }

    pub(super) fn now(&self, place: ExpectedSlot) -> ExpectedState {
        ExpectedState(unpack(self.states[place.0].load(Ordering::SeqCst)).0)
    }

    pub(super) fn seen(&self, place: ExpectedSlot) -> KeyKnowledge {
        let deletions = self.deletions[place.0].load(Ordering::SeqCst);
        let (now, next) = unpack(self.states[place.0].load(Ordering::SeqCst));
        KeyKnowledge {
            now: ExpectedState(now),
            next: (next != NOTHING).then_some(ExpectedState(next)),
            deletions,
        }
    }

    /// Announces a put of the next value; returns its number.
    pub(super) fn begin_put(&self, place: ExpectedSlot) -> u32 {
        let now = self.now(place);
        let number = (now.newest() + 1) & !DELETED;
        self.store(place, now.0, number);
        number
    }

    /// Announces a deletion.
    pub(super) fn begin_delete(&self, place: ExpectedSlot) {
        self.deletions[place.0].fetch_add(1, Ordering::SeqCst);
        let now = self.now(place);
        self.store(place, now.0, now.0 | DELETED);
    }

    /// Makes the announced change the state of the key.
    pub(super) fn commit(&self, place: ExpectedSlot) {
        let (now, next) = unpack(self.states[place.0].load(Ordering::SeqCst));
        self.store(place, if next == NOTHING { now } else { next }, NOTHING);
    }

    /// Settles an open change by the value found. `false` if the value fits neither state.
    pub(super) fn settle(&self, place: ExpectedSlot, found: Option<u32>) -> bool {
        let seen = self.seen(place);
        let found = [Some(seen.now), seen.next].into_iter().flatten().find(|state| state.value() == found);
        if let Some(state) = found {
            self.store(place, state.0, NOTHING);
        }
        found.is_some()
    }

    fn store(&self, place: ExpectedSlot, now: u32, next: u32) {
        let word = pack(now, next);
        self.states[place.0].store(word, Ordering::SeqCst);
        let at = HEADER_BYTES + 8 * place.0 as u64;
        self.file.write_all_at(&word.to_le_bytes(), at).expect("the file of expected values takes writes");
    }
}

/// Whether a read that began at `before` and ended at `after` may have found this value.
pub(super) fn allows(before: KeyKnowledge, after: KeyKnowledge, found: Option<u32>) -> bool {
    let states = [Some(before.now), before.next, Some(after.now), after.next];
    if states.into_iter().flatten().any(|state| state.value() == found) {
        return true;
    }
    let newest = after.next.unwrap_or(after.now).newest().max(after.now.newest());
    match found {
        Some(number) => before.now.newest() < number && number <= newest,
        None => before.deletions != after.deletions,
    }
}

fn pack(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

fn unpack(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_testkit::TempDir;

    #[test]
    fn states_outlive_the_process_and_say_what_may_be_found() {
        let dir = TempDir::new("expected");
        let expected = Expected::open(dir.path(), 2, 10).unwrap();
        let (one, other) = (expected.place(0, 9), expected.place(1, 0));
        let before = expected.seen(one);
        assert!(allows(before, before, None) && !allows(before, before, Some(1)));
        assert_eq!(expected.begin_put(one), 1);
        let during = expected.seen(one);
        assert!(allows(before, during, None) && allows(before, during, Some(1)));
        expected.commit(one);
        let after = expected.seen(one);
        assert!(
            allows(after, after, Some(1)) && !allows(after, after, None) && !allows(after, after, Some(2))
        );
        expected.begin_delete(one);
        expected.commit(one);
        expected.begin_put(one);
        expected.commit(one);
        let last = expected.seen(one);
        assert!(allows(after, last, None), "the key may have been deleted in between");
        assert!(!allows(last, last, Some(1)), "an older value cannot reappear");
        expected.begin_delete(other);
        expected.begin_put(one);
        drop(expected);

        let expected = Expected::open(dir.path(), 2, 10).unwrap();
        assert!(!expected.settle(one, Some(1)) && !expected.settle(one, None));
        assert!(expected.settle(one, Some(3)));
        assert_eq!(expected.now(one).value(), Some(3));
        assert!(!expected.settle(one, Some(2)), "the value is settled");
        assert!(expected.settle(other, None));
        drop(expected);
        for (families, keys) in [(1, 20), (2, 20), (2, 5), (1, 10)] {
            assert!(Expected::open(dir.path(), families, keys).is_err());
        }
        assert_eq!(Expected::open(dir.path(), 2, 10).unwrap().now(one).value(), Some(3));
    }
}
