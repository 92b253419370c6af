//! Loads in progress: a thread that misses a key being loaded waits for that load.
//!
//! In: keys that missed. Out: for one thread the right to load, for the others a wait until that
//! load is done.
//!
//! Invariants
//!  1. At most one thread has the flight of a key. The drop of the `Flight` ends the flight, even
//!     after a panic.
//!  2. Only misses take a lane's lock. No load runs under the lock.

use crate::key::CacheKey;
use crossbeam_utils::CachePadded;
use esker_base::sync::fork::PerProcess;
use esker_base::sync::{Condvar, Mutex};
use smallvec::SmallVec;

const LANES: usize = 16;

/// The keys being loaded. The hash of a key selects its lane, so misses of different keys rarely
/// share a lock.
#[derive(Default)]
pub(crate) struct Flights {
    /// A forked child starts without loads in progress: those of its parent's threads would never
    /// end.
    lanes: PerProcess<[CachePadded<Lane>; LANES]>,
}

#[derive(Default)]
struct Lane {
    keys: Mutex<SmallVec<[CacheKey; 4]>>,
    landed: Condvar,
}

/// The right to load a key.
pub(crate) struct Flight<'a> {
    lane: &'a Lane,
    key: CacheKey,
}

impl Flights {
    /// The flight of this key if it is free; otherwise waits until another thread's load has ended,
    /// and returns `None`.
    pub(crate) fn begin_or_wait(&self, key: &CacheKey) -> Option<Flight<'_>> {
        let lanes = self.lanes.get(|_| Default::default());
        let lane = &lanes[(key.hash(0) >> 32) as usize % LANES];
        let mut keys = lane.keys.lock();
        if !keys.contains(key) {
            keys.push(*key);
            return Some(Flight { lane, key: *key });
        }
        while keys.contains(key) {
            lane.landed.wait(&mut keys);
        }
        None
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.lane.keys.lock().retain(|key| *key != self.key);
        self.lane.landed.notify_all();
    }
}
