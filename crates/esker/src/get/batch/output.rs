//! The results of a batch of reads.
//!
//! Invariants
//!  1. Small values of a lent batch lie in `bytes`. Large values and errors lie in `apart`, once
//!     for each distinct key. The value of a batch's only key lies there too, if it is in a
//!     memtable.
//!  2. Small values of a pinned batch of many keys lie together in chunks. A kept value updates a
//!     reference count that no other batch uses, and holds no block of the cache.
//!  3. The result of a key is a few words, written in place. A move from elsewhere would wait for
//!     all earlier loads, also for those that miss the caches.

use crate::get::answer::{Answer, LentValue};
use esker_base::bytes::Parts;
use esker_base::{Error, PinnedBytes, Result};
use smallvec::SmallVec;

/// Values of up to this many bytes are copied. A copy is cheaper than keeping their block or
/// memtable alive.
const COPY_UP_TO_BYTES: usize = 1 << 10;

/// The values of a batch of keys, lent by [`get`](Self::get) or taken along by
/// [`take_pinned`](Self::take_pinned).
///
/// Use one output for many batches: it reuses its memory. Between batches it keeps alive only the
/// blocks of large values, and the memtable of a batch's only value.
///
/// ```
/// # let dir = esker_testkit::TempDir::new("doc");
/// # let db = esker::Db::open_default(dir.path())?;
/// use esker::MultiGetOutput;
///
/// db.put("a", "1")?;
/// let family = db.default_column_family();
/// let mut output = MultiGetOutput::new();
/// db.multi_get_lent(&Default::default(), &family, &["a", "b"], &mut output);
/// assert_eq!((output.len(), output.is_empty()), (2, false));
/// assert_eq!(output.get(0)?, Some(&b"1"[..]));
/// assert_eq!(output.iter().filter(|value| matches!(value, Ok(Some(_)))).count(), 1);
/// let kept = output.take_pinned(0)?;
/// # Ok::<_, esker::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct MultiGetOutput {
    found: Vec<Found>,
    bytes: Vec<u8>,
    /// Results that are not in `bytes`.
    apart: Vec<Result<PinnedBytes>>,
    value_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
enum Found {
    Nothing,
    /// Length and offset of the value in `bytes`.
    Copied(u32, usize),
    /// Index in `apart`.
    Apart(usize),
}

impl MultiGetOutput {
    /// An output without results.
    pub fn new() -> MultiGetOutput {
        MultiGetOutput::default()
    }

    /// Number of keys in the batch.
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// Whether the batch had no keys.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The value of key `i` of the batch, or `None` if there is none.
    /// # Errors
    /// `Corruption` and `IoError` name the file and offset · `Incomplete`: the read needs I/O that
    /// `read_tier` forbids · `TimedOut`: it needs I/O after `deadline` · `InvalidArgument`: merge
    /// operands without a merge operator, a snapshot or family of another database, or timestamps
    /// that the options and the family do not agree on · `NotSupported`: a newer version wrote it,
    /// or this is a forked child of the process that opened the database · `ShutdownInProgress`:
    /// the database was closed.
    /// # Panics
    /// If the batch had no key `i`.
    #[inline]
    pub fn get(&self, i: usize) -> Result<Option<&[u8]>> {
        match self.found[i] {
            Found::Nothing => Ok(None),
            Found::Copied(len, start) => Ok(Some(&self.bytes[start..start + len as usize])),
            Found::Apart(at) => self.apart[at].as_ref().map(|value| Some(&**value)).map_err(Error::clone),
        }
    }

    /// The value of key `i` of the batch, which stays readable while the caller holds it. A small
    /// value is copied, a large one is not.
    /// # Errors
    /// `Corruption` and `IoError` name the file and offset · `Incomplete`: the read needs I/O that
    /// `read_tier` forbids · `TimedOut`: it needs I/O after `deadline` · `InvalidArgument`: merge
    /// operands without a merge operator, a snapshot or family of another database, or timestamps
    /// that the options and the family do not agree on · `NotSupported`: a newer version wrote it,
    /// or this is a forked child of the process that opened the database · `ShutdownInProgress`:
    /// the database was closed.
    /// # Panics
    /// If the batch had no key `i`.
    pub fn take_pinned(&self, i: usize) -> Result<Option<PinnedBytes>> {
        match self.found[i] {
            Found::Apart(at) => self.apart[at].clone().map(Some),
            _ => Ok(self.get(i)?.map(PinnedBytes::copy_from)),
        }
    }

    /// All values, in the order of the keys.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Result<Option<&[u8]>>> {
        (0..self.len()).map(|i| self.get(i))
    }
}

/// The destination of a batch's answers.
pub(crate) trait Output {
    /// Drops the former results and prepares for a batch of `len` keys.
    fn reset(&mut self, len: usize);

    /// Records the answer for key `i`.
    fn set(&mut self, i: usize, answer: Answer<'_>);

    /// Key `i` is the same as key `of`, which has its answer.
    fn repeat(&mut self, i: usize, of: usize);

    /// Bytes of all values. The value of a repeated key counts each time.
    fn value_bytes(&self) -> u64;

    /// Number of keys with a value.
    fn found_count(&self) -> u64;
}

impl Output for MultiGetOutput {
    fn reset(&mut self, len: usize) {
        self.bytes.clear();
        self.apart.clear();
        self.value_bytes = 0;
        self.found.clear();
        self.found.extend(std::iter::repeat_n(Found::Nothing, len));
    }

    /// Values are copied if they are small.
    #[inline]
    fn set(&mut self, i: usize, answer: Answer<'_>) {
        match answer {
            Answer::Lent(value) => self.keep(i, &value),
            Answer::Made(Ok(None)) => self.found[i] = Found::Nothing,
            Answer::Made(Ok(Some(value))) => self.put_apart(i, Ok(value)),
            Answer::Made(Err(e)) => self.put_apart(i, Err(e)),
        }
    }

    fn repeat(&mut self, i: usize, of: usize) {
        self.found[i] = self.found[of];
        if let Ok(Some(value)) = self.get(i) {
            self.value_bytes += value.len() as u64;
        }
    }

    fn value_bytes(&self) -> u64 {
        self.value_bytes
    }

    fn found_count(&self) -> u64 {
        self.iter().filter(|v| matches!(v, Ok(Some(_)))).count() as u64
    }
}

impl MultiGetOutput {
    #[inline]
    fn keep(&mut self, i: usize, value: &LentValue<'_>) {
        let bytes = value.bytes();
        if bytes.len() > COPY_UP_TO_BYTES {
            return self.put_apart(i, Ok(value.pin()));
        }
        self.value_bytes += bytes.len() as u64;
        self.found[i] = Found::Copied(bytes.len() as u32, self.bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    /// Records the answer for a batch's only key. A value in a memtable is not copied: the copy
    /// would wait for memory, with no other work to fill the time.
    #[inline]
    pub(super) fn set_only(&mut self, answer: Answer<'_>) {
        match answer {
            Answer::Lent(LentValue::Memtable(value)) => self.put_apart(0, Ok(value.pin())),
            answer => self.set(0, answer),
        }
    }

    fn put_apart(&mut self, i: usize, value: Result<PinnedBytes>) {
        self.value_bytes += value.as_ref().map_or(0, |value| value.len() as u64);
        self.found[i] = Found::Apart(self.apart.len());
        self.apart.push(value);
    }
}

/// In a batch of fewer keys, small values of tables are pinned where they lie. Memory of their own
/// would cost more.
const FEW_PINNED: usize = 15;

/// [`FEW_PINNED`] for values of memtables. It is lower, since all pins of a memtable share one
/// reference count.
const FEW_PINNED_IN_MEMTABLES: usize = 5;

/// Bytes of a chunk: the most that a kept small value keeps alive.
const CHUNK_BYTES: usize = 16 << 10;

/// Results for callers that keep the values. Small values of a large batch are copied. Pins would
/// update the reference count of each value's block, which all readers of the block share. Pins
/// would also hold all blocks of a batch, even if the cache has room for few.
#[derive(Default)]
pub(crate) struct PinnedOutput {
    values: Vec<Result<Option<PinnedBytes>>>,
    value_bytes: u64,
    /// Small values that lie in no chunk yet.
    chunk: Vec<u8>,
    /// For each value in `chunk`, the index of its key and the value's end. It begins where the
    /// value before it ends.
    copied: SmallVec<[(u32, u32); 16]>,
}

impl PinnedOutput {
    /// The answers will lie in this vector's memory.
    #[inline]
    pub(crate) fn with_memory_of(values: Vec<Result<Option<PinnedBytes>>>) -> PinnedOutput {
        PinnedOutput { values, value_bytes: 0, chunk: Vec::new(), copied: SmallVec::new() }
    }

    /// All answers.
    #[inline]
    pub(crate) fn take_values(&mut self) -> Vec<Result<Option<PinnedBytes>>> {
        self.close_chunk();
        std::mem::take(&mut self.values)
    }

    /// Copies the value of key `i` if it is small and the batch has many keys. Returns whether it
    /// did.
    #[inline]
    fn copy(&mut self, i: usize, value: &LentValue<'_>) -> bool {
        let bytes = value.bytes();
        let few = match value {
            LentValue::Memtable(_) => FEW_PINNED_IN_MEMTABLES,
            LentValue::Table(_) => FEW_PINNED,
        };
        if self.values.len() < few || bytes.len() > COPY_UP_TO_BYTES || bytes.is_empty() {
            return false;
        }
        if self.chunk.len() + bytes.len() > self.chunk.capacity() {
            self.open_chunk(bytes.len());
        }
        self.value_bytes += bytes.len() as u64;
        self.chunk.extend_from_slice(bytes);
        self.copied.push((i as u32, self.chunk.len() as u32));
        true
    }

    /// Opens a chunk with room for a value of this many bytes for each key of the batch, up to
    /// `CHUNK_BYTES`, and at least for one value.
    #[cold]
    fn open_chunk(&mut self, bytes: usize) {
        self.close_chunk();
        let most = self.values.len().saturating_mul(bytes).min(CHUNK_BYTES);
        self.chunk = Vec::with_capacity(most.max(bytes));
    }

    /// Returns the copied values.
    #[inline]
    fn close_chunk(&mut self) {
        if !self.copied.is_empty() {
            self.hand_out();
        }
    }

    #[inline(never)]
    fn hand_out(&mut self) {
        let mut parts = Parts::of(std::mem::take(&mut self.chunk), self.copied.len());
        let mut start = 0;
        for (i, end) in self.copied.drain(..) {
            let range = start..end as usize;
            start = range.end;
            self.values[i as usize] = Ok(Some(parts.take(range)));
        }
    }

    #[inline]
    fn put(&mut self, i: usize, value: Result<Option<PinnedBytes>>) {
        if let Ok(Some(value)) = &value {
            self.value_bytes += value.len() as u64;
        }
        self.values[i] = value;
    }
}

impl Output for PinnedOutput {
    #[inline]
    fn reset(&mut self, len: usize) {
        self.values.clear();
        self.values.resize_with(len, || Ok(None));
        self.value_bytes = 0;
    }

    #[inline]
    fn set(&mut self, i: usize, answer: Answer<'_>) {
        match answer {
            Answer::Lent(value) if self.copy(i, &value) => {}
            Answer::Lent(value) => self.put(i, Ok(Some(value.pin()))),
            Answer::Made(answer) => self.put(i, answer),
        }
    }

    fn repeat(&mut self, i: usize, of: usize) {
        self.close_chunk();
        self.put(i, self.values[of].clone());
    }

    fn value_bytes(&self) -> u64 {
        self.value_bytes
    }

    fn found_count(&self) -> u64 {
        let placed = self.values.iter().filter(|v| matches!(v, Ok(Some(_)))).count();
        (placed + self.copied.len()) as u64
    }
}
