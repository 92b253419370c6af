//! Write batches: the operations of one atomic write, in the bytes that the WAL holds.
//!
//! In: operations. Out: RocksDB's bytes, and back again, checked. Source: RocksDB
//! `db/write_batch.cc`. Page: `docs/format/write-batch.md`.
//!
//! ```text
//! sequence u64 | count u32 | op*        op = tag u8 | [family varint32] | length-prefixed slices
//! ```
//!
//! Invariants
//!  1. `count` is the number of ops that take a sequence number when they are applied; log data and
//!     transaction markers do not.
//!  2. The bytes of a [`WriteBatch`] or [`WriteBatchView`] were checked (or made) op by op:
//!     iterating over them cannot fail.
//!  3. The family id 0 is written in the short form, without the id.
//!  4. `rep` begins with a header, or is empty: a batch without operations owns no memory.
//!  5. A protected batch has a checksum of each counted op, made of the caller's arguments
//!     (`protection.rs`).

mod kinds;
mod op;
mod points;
mod protection;
#[cfg(test)]
mod tests;
mod timed;
mod timestamps;

pub use op::{BatchOp, Ops, PrepareKind};
pub use points::WalTerminationPoint;
pub use protection::BATCH_PROTECTION_BYTES;
pub use timed::TimedValue;

use crate::key::{MAX_ENTRY_BYTES, entry_too_long, fits_entry};
use crate::wide_column;
use esker_base::coding::{Decoder, put_length_prefixed, put_varint32};
use esker_base::entry_checksum::EntryChecksum;
use esker_base::{ColumnFamilyId, Error, ErrorKind, Result, SequenceNumber, SubCode};
use op::{Decoded, decode_op, tag};
use points::BatchPoint;

/// Bytes before the first op.
pub const BATCH_HEADER_BYTES: usize = 12;

/// The kinds of ops in a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BatchContent {
    /// Merges.
    pub merge: bool,
    /// Range deletions.
    pub delete_range: bool,
    /// Single deletions.
    pub single_delete: bool,
    /// Transaction markers other than no-ops.
    pub transaction_markers: bool,
    /// Features that only some readers support: wide columns, blob indexes.
    pub extended: bool,
    /// Timed puts.
    pub timed: bool,
}

/// The bytes of an empty batch.
const NO_OPS: &[u8] = &[0; BATCH_HEADER_BYTES];

/// Operations that are written together or not at all. Holds the bytes that go to the WAL.
///
/// ```
/// # use esker_format::write_batch::{BatchOp, WriteBatch, WriteBatchView};
/// # use esker_base::ColumnFamilyId;
/// let users = ColumnFamilyId(3);
/// let mut batch = WriteBatch::with_capacity(1 << 10);
/// batch.set_max_bytes(1 << 20);
/// batch.put_cf(users, "ada", "countess")?;
/// batch.set_save_point();
/// batch.delete_cf(users, "grace")?;
/// batch.single_delete_cf(users, "once")?;
/// batch.merge_cf(users, "visits", 1u64.to_le_bytes())?;
/// batch.delete_range_cf(users, "x", "y")?;
/// batch.put_entity_cf(users, "e", &[(b"column", b"value")])?;
/// batch.rollback_to_save_point()?;
/// batch.set_save_point();
/// batch.pop_save_point()?;
/// assert_eq!((batch.len(), batch.count(), batch.is_empty()), (1, 1, false));
///
/// for op in batch.iter() {
///     assert!(matches!(op, BatchOp::Put { key: b"ada", .. }));
/// }
/// let mut both = WriteBatch::from_bytes(batch.data().to_vec())?;
/// both.append(&batch)?;
/// both.push(BatchOp::Put { family: users, key: b"k", value: b"v" })?;
/// assert_eq!(both.view().iter().count(), 3);
/// assert!(both.data_size() > batch.ops_bytes().len());
/// assert!(!both.content().merge);
/// assert_eq!(both.clone().into_bytes(), both.data());
/// both.clear();
///
/// let mut guarded = WriteBatch::with_protection(8)?;
/// guarded.put("k", "v")?;
/// guarded.verify_checksum()?;
/// assert!(guarded.is_protected() && !batch.is_protected());
/// batch.protect(8)?;
/// # Ok::<_, esker_base::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct WriteBatch {
    /// See invariant 4.
    rep: Vec<u8>,
    count: u32,
    max_bytes: usize,
    content: BatchContent,
    /// Save points and termination points of the WAL, in the order in which they were set.
    points: Vec<BatchPoint>,
    /// A checksum for each counted op, if the batch is protected.
    checksums: Option<Vec<EntryChecksum>>,
}

impl Default for WriteBatch {
    fn default() -> WriteBatch {
        WriteBatch::new()
    }
}

impl WriteBatch {
    /// An empty batch. Allocates nothing.
    pub fn new() -> WriteBatch {
        WriteBatch::from_rep(Vec::new())
    }

    /// An empty batch with room for `bytes`.
    pub fn with_capacity(bytes: usize) -> WriteBatch {
        WriteBatch::from_rep(Vec::with_capacity(bytes))
    }

    /// REQUIRES: no ops in `rep`, or the caller counts them.
    fn from_rep(rep: Vec<u8>) -> WriteBatch {
        WriteBatch {
            rep,
            count: 0,
            max_bytes: usize::MAX,
            content: BatchContent::default(),
            points: Vec::new(),
            checksums: None,
        }
    }

    /// Makes a batch of `bytes` after checking all of them.
    /// # Errors
    /// `Corruption`: the bytes are no batch · `InvalidArgument`: an entry has more than
    /// [`MAX_ENTRY_BYTES`].
    pub fn from_bytes(bytes: Vec<u8>) -> Result<WriteBatch> {
        let view = WriteBatchView::parse(&bytes)?;
        view.check_entries()?;
        let (count, content) = (view.count, view.content);
        Ok(WriteBatch { count, content, ..WriteBatch::from_rep(bytes) })
    }

    /// Ops that would make the batch larger than this fail with `Aborted`/`MemoryLimit`; 0 means no
    /// limit.
    pub fn set_max_bytes(&mut self, bytes: usize) {
        self.max_bytes = if bytes == 0 { usize::MAX } else { bytes };
    }

    /// Sets `key` to `value` in the default family.
    ///
    /// ```
    /// # use esker_format::write_batch::WriteBatch;
    /// let mut batch = WriteBatch::new();
    /// batch.put("esker", "gravel")?;
    /// assert_eq!(batch.len(), 1);
    /// # Ok::<_, esker_base::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: key and value together have more than [`MAX_ENTRY_BYTES`], or the batch
    /// has 2^32 - 1 operations · `Aborted`: the batch would pass [`WriteBatch::set_max_bytes`]. The
    /// batch stays as it was.
    #[inline]
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.op2(tag::PUT, ColumnFamilyId::DEFAULT, key.as_ref(), value.as_ref())
    }

    /// Sets `key` to `value` in `family`: a handle, or its id.
    /// # Errors
    /// `InvalidArgument`: key and value together have more than [`MAX_ENTRY_BYTES`], or the batch
    /// has 2^32 - 1 operations · `Aborted`: the batch would pass [`WriteBatch::set_max_bytes`]. The
    /// batch stays as it was.
    #[inline]
    pub fn put_cf(
        &mut self,
        family: impl Into<ColumnFamilyId>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.op2(tag::PUT, family.into(), key.as_ref(), value.as_ref())
    }

    /// Removes `key` from the default family.
    ///
    /// ```
    /// # use esker_format::write_batch::WriteBatch;
    /// let mut batch = WriteBatch::new();
    /// batch.delete("fjord")?;
    /// # Ok::<_, esker_base::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the key has more than [`MAX_ENTRY_BYTES`], or the batch has 2^32 - 1
    /// operations · `Aborted`: the batch would pass [`WriteBatch::set_max_bytes`]. The batch stays
    /// as it was.
    #[inline]
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.op1(tag::DELETE, ColumnFamilyId::DEFAULT, key.as_ref())
    }

    /// Removes `key` from `family`: a handle, or its id.
    /// # Errors
    /// `InvalidArgument`: the key has more than [`MAX_ENTRY_BYTES`], or the batch has 2^32 - 1
    /// operations · `Aborted`: the batch would pass [`WriteBatch::set_max_bytes`]. The batch stays
    /// as it was.
    #[inline]
    pub fn delete_cf(&mut self, family: impl Into<ColumnFamilyId>, key: impl AsRef<[u8]>) -> Result<()> {
        self.op1(tag::DELETE, family.into(), key.as_ref())
    }

    /// Removes `key` from the default family. The key was put exactly once since its last deletion.
    ///
    /// ```
    /// # use esker_format::write_batch::WriteBatch;
    /// let mut batch = WriteBatch::new();
    /// batch.put("visit", "1")?;
    /// batch.single_delete("visit")?;
    /// # Ok::<_, esker_base::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the key has more than [`MAX_ENTRY_BYTES`], or the batch has 2^32 - 1
    /// operations · `Aborted`: the batch would pass [`WriteBatch::set_max_bytes`]. The batch stays
    /// as it was.
    pub fn single_delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.single_delete_cf(ColumnFamilyId::DEFAULT, key)
    }

    /// Removes `key` from `family`: a handle, or its id. The key was put exactly once since its
    /// last deletion.
    /// # Errors
    /// `InvalidArgument`: the key has more than [`MAX_ENTRY_BYTES`], or the batch has 2^32 - 1
    /// operations · `Aborted`: the batch would pass [`WriteBatch::set_max_bytes`]. The batch stays
    /// as it was.
    pub fn single_delete_cf(
        &mut self,
        family: impl Into<ColumnFamilyId>,
        key: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.op1(tag::SINGLE_DELETE, family.into(), key.as_ref())?;
        self.content.single_delete = true;
        Ok(())
    }

    /// Adds an operand to `key` in the default family, for its merge operator.
    ///
    /// ```
    /// # use esker_format::write_batch::WriteBatch;
    /// let mut batch = WriteBatch::new();
    /// batch.merge("visits", 1u64.to_le_bytes())?;
    /// # Ok::<_, esker_base::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: key and operand together have more than [`MAX_ENTRY_BYTES`], or the batch
    /// has 2^32 - 1 operations · `Aborted`: the batch would pass [`WriteBatch::set_max_bytes`]. The
    /// batch stays as it was.
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.merge_cf(ColumnFamilyId::DEFAULT, key, operand)
    }

    /// Adds an operand to `key` in `family` (a handle, or its id), for the family's merge operator.
    /// # Errors
    /// `InvalidArgument`: key and operand together have more than [`MAX_ENTRY_BYTES`], or the batch
    /// has 2^32 - 1 operations · `Aborted`: the batch would pass [`WriteBatch::set_max_bytes`]. The
    /// batch stays as it was.
    pub fn merge_cf(
        &mut self,
        family: impl Into<ColumnFamilyId>,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.op2(tag::MERGE, family.into(), key.as_ref(), operand.as_ref())?;
        self.content.merge = true;
        Ok(())
    }

    /// Removes every key of the default family from `begin` up to `end`, exclusive.
    ///
    /// ```
    /// # use esker_format::write_batch::WriteBatch;
    /// let mut batch = WriteBatch::new();
    /// batch.delete_range("log/2025", "log/2026")?;
    /// # Ok::<_, esker_base::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the two keys together have more than [`MAX_ENTRY_BYTES`], or the batch
    /// has 2^32 - 1 operations · `Aborted`: the batch would pass [`WriteBatch::set_max_bytes`]. The
    /// batch stays as it was.
    pub fn delete_range(&mut self, begin: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<()> {
        self.delete_range_cf(ColumnFamilyId::DEFAULT, begin, end)
    }

    /// Removes every key of `family` (a handle, or its id) from `begin` up to `end`, exclusive.
    /// # Errors
    /// `InvalidArgument`: the two keys together have more than [`MAX_ENTRY_BYTES`], or the batch
    /// has 2^32 - 1 operations · `Aborted`: the batch would pass [`WriteBatch::set_max_bytes`]. The
    /// batch stays as it was.
    pub fn delete_range_cf(
        &mut self,
        family: impl Into<ColumnFamilyId>,
        begin: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.op2(tag::DELETE_RANGE, family.into(), begin.as_ref(), end.as_ref())?;
        self.content.delete_range = true;
        Ok(())
    }

    /// Sets `key` in the default family to an entity of these columns (name, value), in any order.
    ///
    /// ```
    /// # use esker_format::write_batch::WriteBatch;
    /// let mut batch = WriteBatch::new();
    /// batch.put_entity("ada", &[(b"born", b"1815"), (b"name", b"Ada")])?;
    /// # Ok::<_, esker_base::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: a name occurs twice, key and columns together have more than
    /// [`MAX_ENTRY_BYTES`], or the batch has 2^32 - 1 operations · `Aborted`: the batch would pass
    /// [`WriteBatch::set_max_bytes`]. The batch stays as it was.
    pub fn put_entity(&mut self, key: impl AsRef<[u8]>, columns: &[(&[u8], &[u8])]) -> Result<()> {
        self.put_entity_cf(ColumnFamilyId::DEFAULT, key, columns)
    }

    /// Sets `key` in `family` (a handle, or its id) to an entity of these columns (name, value), in
    /// any order.
    /// # Errors
    /// `InvalidArgument`: a name occurs twice, key and columns together have more than
    /// [`MAX_ENTRY_BYTES`], or the batch has 2^32 - 1 operations · `Aborted`: the batch would pass
    /// [`WriteBatch::set_max_bytes`]. The batch stays as it was.
    pub fn put_entity_cf(
        &mut self,
        family: impl Into<ColumnFamilyId>,
        key: impl AsRef<[u8]>,
        columns: &[(&[u8], &[u8])],
    ) -> Result<()> {
        let mut entity = Vec::new();
        wide_column::serialize(columns, &mut entity)?;
        self.put_serialized_entity(family.into(), key.as_ref(), &entity)
    }

    /// Sets `key` to a set of columns that [`wide_column::serialize`] made.
    /// # Errors
    /// `InvalidArgument`: the entry has 4 GiB or more, or the batch 2^32 - 1 operations ·
    /// `Aborted`: the batch would pass [`set_max_bytes`](Self::set_max_bytes). The batch stays as
    /// it was.
    #[doc(hidden)]
    pub fn put_serialized_entity(&mut self, family: ColumnFamilyId, key: &[u8], entity: &[u8]) -> Result<()> {
        self.op2(tag::PUT_ENTITY, family, key, entity)?;
        self.content.extended = true;
        Ok(())
    }

    /// Puts bytes into the WAL that mean nothing to the database.
    /// # Errors
    /// `InvalidArgument`: the entry has 4 GiB or more, or the batch 2^32 - 1 operations ·
    /// `Aborted`: the batch would pass [`set_max_bytes`](Self::set_max_bytes). The batch stays as
    /// it was.
    pub fn put_log_data(&mut self, blob: &[u8]) -> Result<()> {
        self.add(0, |rep| {
            rep.push(tag::LOG_DATA);
            put_length_prefixed(rep, check_length("log data", blob)?);
            Ok(())
        })
    }

    /// Writes a transaction marker or a no-op. Data ops have methods of their own.
    /// # Errors
    /// `InvalidArgument`: `op` is no marker · `Aborted`: the batch would pass
    /// [`set_max_bytes`](Self::set_max_bytes). The batch stays as it was.
    #[doc(hidden)]
    pub fn put_marker(&mut self, op: BatchOp<'_>) -> Result<()> {
        let is_noop = matches!(op, BatchOp::Noop);
        self.add(0, |rep| op::encode_marker(op, rep))?;
        self.content.transaction_markers |= !is_noop;
        Ok(())
    }

    /// Adds any op, as [`WriteBatchView::iter`] gives it.
    /// # Errors
    /// `InvalidArgument`: the entry has 4 GiB or more, or the batch 2^32 - 1 operations ·
    /// `Aborted`: the batch would pass [`set_max_bytes`](Self::set_max_bytes). The batch stays as
    /// it was.
    pub fn push(&mut self, op: BatchOp<'_>) -> Result<()> {
        match op {
            BatchOp::Put { family, key, value } => self.put_cf(family, key, value),
            BatchOp::Delete { family, key } => self.delete_cf(family, key),
            BatchOp::SingleDelete { family, key } => self.single_delete_cf(family, key),
            BatchOp::Merge { family, key, operand } => self.merge_cf(family, key, operand),
            BatchOp::DeleteRange { family, begin, end } => self.delete_range_cf(family, begin, end),
            BatchOp::PutEntity { family, key, entity } => self.put_serialized_entity(family, key, entity),
            BatchOp::BlobIndex { family, key, index } => {
                self.op2(tag::BLOB_INDEX, family, key, index)?;
                self.content.extended = true;
                Ok(())
            }
            BatchOp::TimedPut { family, key, value } => self.put_timed_value(family, key, value),
            BatchOp::LogData(blob) => self.put_log_data(blob),
            marker => self.put_marker(marker),
        }
    }

    /// Appends all ops of `other`; its sequence number and save points do not count.
    /// # Errors
    /// `InvalidArgument`: the entry has 4 GiB or more, or the batch 2^32 - 1 operations ·
    /// `Aborted`: the batch would pass [`set_max_bytes`](Self::set_max_bytes). The batch stays as
    /// it was.
    pub fn append(&mut self, other: &WriteBatch) -> Result<()> {
        self.add(other.count, |rep| {
            rep.extend_from_slice(other.ops_bytes());
            Ok(())
        })?;
        self.protect_appended(other);
        self.content = self.content.and(other.content);
        Ok(())
    }

    /// Makes the batch empty; its memory stays, and if it is protected, so does that.
    pub fn clear(&mut self) {
        self.rep.clear();
        self.count = 0;
        self.content = BatchContent::default();
        self.points.clear();
        if let Some(checksums) = &mut self.checksums {
            checksums.clear();
        }
    }

    /// Number of operations. Log data and transaction markers do not count.
    ///
    /// ```
    /// # use esker_format::write_batch::WriteBatch;
    /// let mut batch = WriteBatch::new();
    /// batch.put("a", "1")?;
    /// batch.put_log_data(b"a note in the WAL")?;
    /// assert_eq!(batch.len(), 1);
    /// # Ok::<_, esker_base::Error>(())
    /// ```
    #[inline]
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// [`len`](Self::len) as the batch's header has it: the sequence numbers the batch takes.
    #[inline]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether there is no op at all, not even log data.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rep.len() <= BATCH_HEADER_BYTES
    }

    /// Size of the batch in bytes, header included.
    #[inline]
    pub fn data_size(&self) -> usize {
        self.rep.len().max(BATCH_HEADER_BYTES)
    }

    /// The bytes that go to the WAL.
    #[inline]
    pub fn data(&self) -> &[u8] {
        if self.rep.is_empty() { NO_OPS } else { &self.rep }
    }

    /// Returns the bytes, and consumes the batch.
    pub fn into_bytes(mut self) -> Vec<u8> {
        self.ensure_header();
        self.rep
    }

    /// The bytes behind the header.
    #[inline]
    pub fn ops_bytes(&self) -> &[u8] {
        self.rep.get(BATCH_HEADER_BYTES..).unwrap_or_default()
    }

    /// The sequence number of the first op.
    #[doc(hidden)]
    pub fn sequence(&self) -> SequenceNumber {
        self.view().sequence()
    }

    /// The header of a batch with this first sequence number and op count, for a group of batches
    /// that is logged as one record.
    #[doc(hidden)]
    pub fn encode_header(sequence: SequenceNumber, count: u32) -> [u8; BATCH_HEADER_BYTES] {
        let mut header = [0; BATCH_HEADER_BYTES];
        let (first, second) = header.split_at_mut(8);
        first.copy_from_slice(&sequence.0.to_le_bytes());
        second.copy_from_slice(&count.to_le_bytes());
        header
    }

    /// Sets the sequence number of the first op.
    #[doc(hidden)]
    #[inline]
    pub fn set_sequence(&mut self, sequence: SequenceNumber) {
        self.ensure_header();
        if let Some(to) = self.rep.first_chunk_mut() {
            *to = sequence.0.to_le_bytes();
        }
    }

    /// The kinds of ops.
    #[inline]
    pub fn content(&self) -> BatchContent {
        self.content
    }

    /// The ops, in order.
    #[inline]
    pub fn iter(&self) -> Ops<'_> {
        Ops::new(self.ops_bytes())
    }

    /// The ops behind the first `bytes` of [`WriteBatch::ops_bytes`], which was its length at some
    /// time.
    #[doc(hidden)]
    pub fn iter_from(&self, bytes: usize) -> Ops<'_> {
        Ops::new(self.ops_bytes().get(bytes..).unwrap_or_default())
    }

    /// The batch, borrowed.
    pub fn view(&self) -> WriteBatchView<'_> {
        WriteBatchView { rep: self.data(), count: self.count, content: self.content }
    }

    #[inline]
    fn ensure_header(&mut self) {
        if self.rep.is_empty() {
            self.rep.extend_from_slice(NO_OPS);
        }
    }

    #[inline]
    fn op1(&mut self, short_tag: u8, family: ColumnFamilyId, key: &[u8]) -> Result<()> {
        self.add(1, |rep| {
            check_entry(key, &[])?;
            rep.reserve(key.len() + 16);
            put_tag(rep, short_tag, family);
            put_length_prefixed(rep, key);
            Ok(())
        })?;
        if self.is_protected() {
            self.protect_op(short_tag, family, key, &[]);
        }
        Ok(())
    }

    #[inline]
    fn op2(&mut self, short_tag: u8, family: ColumnFamilyId, key: &[u8], value: &[u8]) -> Result<()> {
        self.add(1, |rep| {
            check_entry(key, value)?;
            rep.reserve(key.len() + value.len() + 16);
            put_tag(rep, short_tag, family);
            put_length_prefixed(rep, key);
            put_length_prefixed(rep, value);
            Ok(())
        })?;
        if self.is_protected() {
            self.protect_op(short_tag, family, key, value);
        }
        Ok(())
    }

    /// Adds what `write` appends and `ops` to the count, or leaves everything as it is.
    #[inline]
    fn add(&mut self, ops: u32, write: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<()> {
        self.ensure_header();
        let before = self.rep.len();
        let count = self.count.checked_add(ops).ok_or_else(too_many_ops)?;
        let result = write(&mut self.rep).and_then(|()| {
            if self.rep.len() > self.max_bytes { Err(over_max_bytes(self.max_bytes)) } else { Ok(()) }
        });
        match result {
            Ok(()) => self.set_count(count),
            Err(_) => self.rep.truncate(before),
        }
        result
    }

    #[inline]
    fn set_count(&mut self, count: u32) {
        self.count = count;
        if let Some((_, to)) = self.rep.split_first_chunk_mut::<8>()
            && let Some(to) = to.first_chunk_mut()
        {
            *to = count.to_le_bytes();
        }
    }
}

impl<'a> IntoIterator for &'a WriteBatch {
    type Item = BatchOp<'a>;
    type IntoIter = Ops<'a>;
    fn into_iter(self) -> Ops<'a> {
        self.iter()
    }
}

/// The bytes of a batch, checked, where they lie: a WAL record becomes one without being copied.
#[derive(Clone, Copy, Debug)]
pub struct WriteBatchView<'a> {
    rep: &'a [u8],
    count: u32,
    content: BatchContent,
}

impl<'a> WriteBatchView<'a> {
    /// Checks all of `bytes`.
    /// # Errors
    /// `Corruption` if they are shorter than the header, or the number of ops is not the header's
    /// count. Also if an op is cut off or has an unknown tag. The message gives the offset in the
    /// batch.
    pub fn parse(bytes: &'a [u8]) -> Result<WriteBatchView<'a>> {
        let mut decoder = Decoder::new(bytes);
        let (Ok(_sequence), Ok(count)) = (decoder.fixed64(), decoder.fixed32()) else {
            return Err(Error::corruption(format!(
                "write batch of {} bytes is shorter than its {BATCH_HEADER_BYTES}-byte header",
                bytes.len()
            )));
        };
        let mut content = BatchContent::default();
        let mut found = 0u64;
        while !decoder.is_empty() {
            let offset = bytes.len() - decoder.rest().len();
            let op =
                decode_op(&mut decoder).map_err(|e| e.at(format_args!("write batch offset {offset}")))?;
            let Decoded { op, is_counted } = op;
            content.note(&op);
            found += u64::from(is_counted);
        }
        if found != u64::from(count) {
            return Err(Error::corruption(format!(
                "write batch says that it has {count} operations, but has {found}"
            )));
        }
        Ok(WriteBatchView { rep: bytes, count, content })
    }

    /// The sequence number of the first op.
    #[doc(hidden)]
    pub fn sequence(&self) -> SequenceNumber {
        SequenceNumber(esker_base::coding::fixed64(self.rep).unwrap_or_default())
    }

    /// Number of ops that take a sequence number.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The kinds of ops.
    pub fn content(&self) -> BatchContent {
        self.content
    }

    /// All the bytes.
    pub fn data(&self) -> &'a [u8] {
        self.rep
    }

    /// The ops, in order.
    pub fn iter(&self) -> Ops<'a> {
        Ops::new(self.rep.get(BATCH_HEADER_BYTES..).unwrap_or_default())
    }

    /// Checks that each entry fits into a memtable. Free for a batch of less than 4 GiB.
    /// # Errors
    /// `InvalidArgument` for an entry beyond [`MAX_ENTRY_BYTES`].
    pub fn check_entries(&self) -> Result<()> {
        if self.rep.len() <= MAX_ENTRY_BYTES {
            return Ok(());
        }
        self.iter().try_for_each(|op| {
            let (key, value) = op.entry_bytes();
            if fits_entry(key, value) { Ok(()) } else { Err(entry_too_long(key, value)) }
        })
    }

    /// A batch of its own with these bytes.
    pub fn to_batch(&self) -> WriteBatch {
        WriteBatch { count: self.count, content: self.content, ..WriteBatch::from_rep(self.rep.to_vec()) }
    }
}

impl BatchContent {
    fn note(&mut self, op: &BatchOp<'_>) {
        match op {
            BatchOp::Merge { .. } => self.merge = true,
            BatchOp::DeleteRange { .. } => self.delete_range = true,
            BatchOp::SingleDelete { .. } => self.single_delete = true,
            BatchOp::PutEntity { .. } | BatchOp::BlobIndex { .. } => self.extended = true,
            BatchOp::TimedPut { .. } => self.timed = true,
            BatchOp::BeginPrepare(_)
            | BatchOp::EndPrepare { .. }
            | BatchOp::Commit { .. }
            | BatchOp::CommitWithTimestamp { .. }
            | BatchOp::Rollback { .. } => self.transaction_markers = true,
            BatchOp::Put { .. } | BatchOp::Delete { .. } | BatchOp::LogData(_) | BatchOp::Noop => {}
        }
    }

    fn and(self, other: BatchContent) -> BatchContent {
        BatchContent {
            merge: self.merge | other.merge,
            delete_range: self.delete_range | other.delete_range,
            single_delete: self.single_delete | other.single_delete,
            transaction_markers: self.transaction_markers | other.transaction_markers,
            extended: self.extended | other.extended,
            timed: self.timed | other.timed,
        }
    }
}

/// The tag of the family's form: the short one for the default family.
#[inline]
fn put_tag(rep: &mut Vec<u8>, short_tag: u8, family: ColumnFamilyId) {
    if family == ColumnFamilyId::DEFAULT {
        rep.push(short_tag);
    } else {
        rep.push(tag::with_family(short_tag));
        put_varint32(rep, family.0);
    }
}

#[inline]
fn check_entry(key: &[u8], value: &[u8]) -> Result<()> {
    if fits_entry(key.len(), value.len()) { Ok(()) } else { Err(entry_too_long(key.len(), value.len())) }
}

#[inline]
fn check_length<'a>(what: &str, slice: &'a [u8]) -> Result<&'a [u8]> {
    if u32::try_from(slice.len()).is_err() { Err(too_long(what, slice.len())) } else { Ok(slice) }
}

#[cold]
fn too_long(what: &str, bytes: usize) -> Error {
    Error::invalid_argument(format!("{what} of {bytes} bytes is too large: the limit is {} bytes", u32::MAX))
}

#[cold]
fn too_many_ops() -> Error {
    Error::invalid_argument("a write batch holds at most 2^32 - 1 operations")
}

#[cold]
fn over_max_bytes(max_bytes: usize) -> Error {
    Error::new(ErrorKind::Aborted, format!("write batch would exceed its limit of {max_bytes} bytes"))
        .with_subcode(SubCode::MemoryLimit)
}
