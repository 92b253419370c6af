//! Whether a block's restart points are what they should be: places of entries that hold their
//! whole key.
//!
//! In: a block, and a cursor that walks over it forwards. Out: nothing, or what is wrong. A walk
//! forwards needs no restarts, so what is wrong with them it does not meet; seeks and ways back do.
//! Source: RocksDB `table/block_based/block_builder.cc`.

use super::{Block, BlockCursor, EntryShape};
use esker_base::{Error, Result};

/// Compares restarts with entries: told of every entry, in their order, then of the end.
#[derive(Debug, Default)]
pub struct RestartCheck {
    /// The first restart whose entry has not come.
    next: u32,
}

impl RestartCheck {
    /// The cursor has come to the next entry. REQUIRES: it stands on one.
    /// # Errors
    /// `Corruption` if a restart points to it and its key needs another one.
    #[inline]
    pub fn entry(&mut self, block: &Block, cursor: &BlockCursor) -> Result<()> {
        if self.next == block.restart_count() || cursor.entry_offset() != Some(block.restart(self.next)) {
            return Ok(());
        }
        self.next += 1;
        if cursor.shared() > 0 { Err(self.wrong(block, "to a key that is not whole")) } else { Ok(()) }
    }

    /// There are no more entries.
    /// # Errors
    /// `Corruption` if a restart points to none of them.
    pub fn end(mut self, block: &Block) -> Result<()> {
        if self.next == block.restart_count() || block.is_empty() {
            return Ok(());
        }
        self.next += 1;
        Err(self.wrong(block, "to no entry"))
    }

    /// The last restart looked at points `to` something.
    #[cold]
    fn wrong(&self, block: &Block, to: &str) -> Error {
        let restart = self.next - 1;
        Error::corruption(format!(
            "restart {restart} of a block points to byte {}, {to}",
            block.restart(restart)
        ))
    }
}

/// Walks over a block and compares.
/// # Errors
/// `Corruption`, also of its entries.
pub(crate) fn check(block: &Block, shape: EntryShape) -> Result<()> {
    let (mut cursor, mut check) = (BlockCursor::with_buffer(shape, Vec::new()), RestartCheck::default());
    cursor.seek_to_first(block)?;
    while cursor.valid() {
        check.entry(block, &cursor)?;
        cursor.next(block)?;
    }
    check.end(block)
}
