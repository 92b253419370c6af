//! Unwritten operations of a batch or a transaction, as a memtable of one family.
//!
//! Invariant: own writes have the numbers from [`OwnWrites::FIRST`] on, in their order, above every
//! sequence number of the database. So the code that merges memtables and files merges them, too.

use crate::deleted_runs::DeletedRunMemory;
use crate::snapshot::OwnNumbers;
use esker_base::sync::{Arc, Mutex, Weak};
use esker_base::{Result, SequenceNumber};
use esker_format::key::LookupKey;
use esker_memtable::MemTable;

/// Writes of a batch in one family.
#[derive(Clone, Debug)]
pub(crate) struct OwnWrites {
    pub(crate) mem: Arc<MemTable>,
    /// The number of the last own write that reads see.
    pub(crate) up_to: SequenceNumber,
    /// The deleted runs that scans over `mem` remember.
    pub(crate) runs: Arc<OwnRuns>,
    /// The numbers of older own writes, which are in the database's memtables and tables; `None`:
    /// there are none. Only databases with a commit table have such writes.
    pub(crate) spilled: Option<OwnNumbers>,
}

/// The memory of deleted runs for scans that see a memtable of own writes over the database.
#[derive(Default, Debug)]
pub(crate) struct OwnRuns(Mutex<Option<OverDatabase>>);

#[derive(Debug)]
struct OverDatabase {
    /// The memory of the super versions below. A batch may outlive its database, and must not keep
    /// what is charged to its cache.
    base: Weak<DeletedRunMemory>,
    memory: Arc<DeletedRunMemory>,
}

impl OwnRuns {
    /// The memory for a scan over a super version whose own memory is `base`. It is a new one if
    /// `base` has changed, because old entries may be visible again then.
    pub(crate) fn over(&self, base: &Arc<DeletedRunMemory>) -> Arc<DeletedRunMemory> {
        let mut current = self.0.lock();
        match &*current {
            Some(over) if over.base.as_ptr() == Arc::as_ptr(base) => over.memory.clone(),
            _ => {
                let memory = Arc::new(base.for_own_writes());
                *current = Some(OverDatabase { base: Arc::downgrade(base), memory: memory.clone() });
                memory
            }
        }
    }
}

impl OwnWrites {
    /// The first number. Sequence numbers of databases stay below it.
    pub(crate) const FIRST: SequenceNumber = SequenceNumber(1 << 55);

    /// Whether the own writes have an operation on `key`, other than range deletions.
    pub(crate) fn name(&self, key: &[u8]) -> Result<bool> {
        let mut found = false;
        self.mem.get(&LookupKey::new(key, self.up_to), |_, _, _| {
            found = true;
            false
        })?;
        Ok(found)
    }

    /// Whether these writes may change the value of `key`.
    pub(crate) fn concern(&self, key: &[u8]) -> bool {
        // On an error the answer is yes, and the read of the key reports it.
        self.spilled.is_some()
            || self.mem.max_covering_tombstone_seq(key, self.up_to) > SequenceNumber::ZERO
            || self.name(key).unwrap_or(true)
    }
}
