//! Checks a block's restart points: each must point to an entry that holds its whole key.
//!
//! In: a block, and a cursor that scans it forward. Out: nothing, or the error. A forward scan
//! needs no restarts and does not notice wrong ones; seeks and backward scans do.
//! Source: RocksDB `table/block_based/block_builder.cc`.

use super::{Block, BlockCursor, EntryShape};
use esker_base::{Error, Result};

/// Compares restarts with entries. The caller reports every entry, in order, and then the end.
#[derive(Debug, Default)]
pub struct RestartCheck {
    /// The first restart whose entry was not reported yet.
    next: u32,
}

impl RestartCheck {
    /// Checks the cursor's entry, which follows the last one checked. REQUIRES: the cursor is
    /// valid.
    /// # Errors
    /// `Corruption` if a restart points to it and its key needs the key before it.
    #[inline]
    pub fn entry(&mut self, block: &Block, cursor: &BlockCursor) -> Result<()> {
        if self.next == block.restart_count() || cursor.entry_offset() != Some(block.restart(self.next)) {
            return Ok(());
        }
        self.next += 1;
        if cursor.stored_shared(block) > 0 {
            Err(self.wrong(block, "to a key that is not whole"))
        } else {
            Ok(())
        }
    }

    /// Checks, after the last entry, that each restart points to an entry.
    /// # Errors
    /// `Corruption` if a restart points to no entry.
    pub fn end(mut self, block: &Block) -> Result<()> {
        if self.next == block.restart_count() || block.is_empty() {
            return Ok(());
        }
        self.next += 1;
        Err(self.wrong(block, "to no entry"))
    }

    /// The error for a restart that points `to` a wrong place.
    #[cold]
    fn wrong(&self, block: &Block, to: &str) -> Error {
        let restart = self.next - 1;
        Error::corruption(format!(
            "restart {restart} of a block points to byte {}, {to}",
            block.restart(restart)
        ))
    }
}

/// Scans a block and checks its restarts.
/// # Errors
/// `Corruption`, also for damaged entries.
pub(crate) fn check(block: &Block, shape: EntryShape) -> Result<()> {
    let (mut cursor, mut check) = (BlockCursor::with_buffer(shape, Vec::new()), RestartCheck::default());
    cursor.seek_to_first(block)?;
    while cursor.valid() {
        check.entry(block, &cursor)?;
        cursor.next(block)?;
    }
    check.end(block)
}
