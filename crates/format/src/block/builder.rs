//! Writes key/value blocks.

use super::hash_index::{HashIndexBuilder, MAX_BLOCK_BYTES};
use super::{EntryShape, HASH_INDEX, SEPARATED_VALUES};
use crate::key;
use esker_base::coding::{Decoder, put_fixed32, put_varint32, varint_len};

/// Collects sorted entries into one block. Reused from block to block.
#[derive(Debug)]
pub struct BlockBuilder {
    buffer: Vec<u8>,
    restarts: Vec<u32>,
    since_restart: usize,
    restart_interval: usize,
    share_prefixes: bool,
    last_key: Vec<u8>,
    /// Values, if they are stored apart from the keys.
    values: Option<Vec<u8>>,
    /// For data blocks: entries are internal keys.
    hash_index: Option<HashIndexBuilder>,
    /// The common prefix of the user keys so far, if the block will store it once.
    prefix: Option<CommonPrefix>,
}

/// See the field.
#[derive(Debug)]
struct CommonPrefix {
    shape: EntryShape,
    is_user_key: bool,
    bytes: Vec<u8>,
    /// The finished block is put together here.
    rewritten: Vec<u8>,
}

impl BlockBuilder {
    /// Makes a builder that stores a full key every `restart_interval` entries (at least 1).
    pub fn new(restart_interval: usize) -> BlockBuilder {
        BlockBuilder {
            buffer: Vec::new(),
            restarts: vec![0],
            since_restart: 0,
            restart_interval: restart_interval.max(1),
            share_prefixes: true,
            last_key: Vec::new(),
            values: None,
            hash_index: None,
            prefix: None,
        }
    }

    /// Whether keys share prefixes with the ones before them (RocksDB's `use_delta_encoding`). On
    /// by default.
    #[must_use]
    pub fn share_prefixes(mut self, on: bool) -> BlockBuilder {
        self.share_prefixes = on;
        self
    }

    /// Whether values are stored behind all keys (RocksDB 11's `separate_key_value_in_data_block`).
    /// Off by default.
    #[must_use]
    pub fn values_apart(mut self, on: bool) -> BlockBuilder {
        self.values = on.then(Vec::new);
        self
    }

    /// Adds a hash index with `util_ratio` keys for each bucket to blocks of internal keys
    /// (RocksDB's `kDataBlockBinaryAndHash`), if they are small enough. Off by default.
    #[must_use]
    pub fn hash_index(mut self, util_ratio: f64) -> BlockBuilder {
        self.hash_index = Some(HashIndexBuilder::new(util_ratio));
        self
    }

    /// Stores the common prefix of all user keys once (format version 8), if keys share prefixes.
    /// The block is put together anew at its end, which copies it once. `is_user_key`: keys have no
    /// trailer. Off by default.
    #[must_use]
    pub fn key_prefix(mut self, shape: EntryShape, is_user_key: bool) -> BlockBuilder {
        self.prefix = Some(CommonPrefix { shape, is_user_key, bytes: Vec::new(), rewritten: Vec::new() });
        self
    }

    /// Appends an entry. Keys come in the order of the block's comparator. The engine's limits keep
    /// lengths below 4 GiB.
    #[inline]
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        let shared = common_prefix(&self.last_key, key);
        self.add_knowing_shared(key, value, shared);
    }

    /// As `add`, if the caller has already counted how many bytes the key shares with the last one.
    #[inline]
    pub fn add_knowing_shared(&mut self, key: &[u8], value: &[u8], shared_with_last: usize) {
        let shared = self.begin_entry(key, shared_with_last);
        put_lengths(&mut self.buffer, shared, key.len() - shared, value.len());
        if self.values.is_some() || self.hash_index.is_some() {
            self.add_to_sections(key, shared, value);
            return;
        }
        self.buffer.extend_from_slice(key.get(shared..).unwrap_or_default());
        self.buffer.extend_from_slice(value);
    }

    /// Appends the rest of an entry whose value goes elsewhere, or whose key also goes into the
    /// hash index.
    fn add_to_sections(&mut self, key: &[u8], shared: usize, value: &[u8]) {
        let is_restart = self.since_restart == 1;
        if let (Some(values), true) = (&self.values, is_restart) {
            put_varint32(&mut self.buffer, short(values.len()));
        }
        self.buffer.extend_from_slice(key.get(shared..).unwrap_or_default());
        self.values.as_mut().unwrap_or(&mut self.buffer).extend_from_slice(value);
        if let Some(index) = &mut self.hash_index {
            index.add(key::user_key(key), self.restarts.len() - 1);
        }
    }

    /// As `add`, sharing nothing.
    pub(crate) fn add_in_full(&mut self, key: &[u8], value: &[u8]) {
        let shares = std::mem::replace(&mut self.share_prefixes, false);
        self.add(key, value);
        self.share_prefixes = shares;
    }

    /// Appends an entry without the length of its value, as delta-encoded index blocks have it.
    /// `value` gets the number of bytes that the key shares, and appends the value. With `in_full`
    /// the key shares none.
    pub(crate) fn add_unsized(&mut self, key: &[u8], in_full: bool, value: impl FnOnce(usize, &mut Vec<u8>)) {
        let shares = std::mem::replace(&mut self.share_prefixes, !in_full);
        let shared = self.begin_entry(key, common_prefix(&self.last_key, key));
        self.share_prefixes = shares;
        put_varint32(&mut self.buffer, short(shared));
        put_varint32(&mut self.buffer, short(key.len() - shared));
        self.buffer.extend_from_slice(key.get(shared..).unwrap_or_default());
        value(shared, &mut self.buffer);
    }

    /// Sets a restart if one is due, and remembers the key. Returns the number of bytes that the
    /// key shares.
    #[inline]
    fn begin_entry(&mut self, key: &[u8], shared_with_last: usize) -> usize {
        let mut shared = if self.share_prefixes { shared_with_last } else { 0 };
        if self.since_restart >= self.restart_interval {
            self.restarts.push(short(self.buffer.len()));
            self.since_restart = 0;
        }
        if self.since_restart == 0 {
            shared = 0;
        }
        if self.prefix.is_some() {
            self.shorten_prefix(key, shared);
        }
        self.since_restart += 1;
        self.last_key.truncate(shared_with_last);
        self.last_key.extend_from_slice(key.get(shared_with_last..).unwrap_or_default());
        shared
    }

    /// Shortens the common prefix to the bytes that `key` has, too. A key within a restart interval
    /// shares all of them with the key before it, or it shares fewer and ends the prefix there.
    fn shorten_prefix(&mut self, key: &[u8], shared: usize) {
        let Some(prefix) = &mut self.prefix else { return };
        if self.since_restart > 0 {
            prefix.bytes.truncate(shared);
            return;
        }
        let user_key = if prefix.is_user_key { key } else { key::user_key(key) };
        if self.buffer.is_empty() {
            prefix.bytes.clear();
            prefix.bytes.extend_from_slice(user_key);
        } else {
            prefix.bytes.truncate(common_prefix(&prefix.bytes, user_key));
        }
    }

    /// The last key added; empty before the first.
    #[inline]
    pub fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// Whether nothing was added since the start or `reset`.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Size of the block if it were finished now, in bytes.
    #[inline]
    pub fn size_estimate(&self) -> usize {
        let plain = self.buffer.len() + 4 * self.restarts.len() + 4;
        let values = self.values.as_ref().map_or(0, |values| values.len() + 4);
        let saved = self.prefix.as_ref().map_or(0, |p| p.bytes.len() * (self.restarts.len() - 1));
        plain + values - saved + self.hash_index.as_ref().map_or(0, HashIndexBuilder::size_estimate)
    }

    /// RocksDB's estimate of `size_estimate` after one more entry. It decides where blocks are cut.
    #[inline]
    pub fn size_estimate_after(&self, key: &[u8], value: &[u8]) -> usize {
        let is_restart = self.since_restart >= self.restart_interval;
        let restart = if is_restart { 4 } else { 0 };
        let lengths = 4 + varint_len(key.len() as u64) + varint_len(value.len() as u64);
        let place = match &self.values {
            Some(values) if is_restart || self.since_restart == 0 => varint_len(values.len() as u64),
            _ => 0,
        };
        self.size_estimate() + restart + lengths + key.len() + value.len() + place
    }

    /// RocksDB's estimate of the size after one more entry of `add_unsized`, whose full value has
    /// `value_bytes` bytes.
    pub(crate) fn size_estimate_after_unsized(&self, key: &[u8], value_bytes: usize) -> usize {
        let in_full = self.since_restart >= self.restart_interval;
        let value = if in_full { value_bytes + varint_len(value_bytes as u64) + 4 } else { value_bytes / 2 };
        self.size_estimate() + 4 + varint_len(key.len() as u64) + key.len() + value
    }

    /// Ends the block and returns its contents, which stay until `reset`.
    pub fn finish(&mut self) -> &[u8] {
        self.finish_mut()
    }

    /// As `finish`; the caller may append a trailer.
    pub fn finish_mut(&mut self) -> &mut Vec<u8> {
        self.move_prefix();
        let has_room = self.hash_index.is_some() && self.size_estimate() <= MAX_BLOCK_BYTES;
        let values_at = short(self.buffer.len());
        if let Some(values) = &self.values {
            self.buffer.extend_from_slice(values);
        }
        for restart in &self.restarts {
            put_fixed32(&mut self.buffer, *restart);
        }
        let mut footer = short(self.restarts.len());
        if let (Some(index), true) = (&self.hash_index, has_room)
            && index.finish(&mut self.buffer)
        {
            footer |= HASH_INDEX;
        }
        if self.values.is_some() {
            put_fixed32(&mut self.buffer, values_at);
            footer |= SEPARATED_VALUES;
        }
        put_fixed32(&mut self.buffer, footer);
        &mut self.buffer
    }

    /// Moves the common prefix from the keys of restarts to the start of the block. All other
    /// entries stay as they are.
    fn move_prefix(&mut self) {
        let Some(prefix) = &mut self.prefix else { return };
        if prefix.bytes.is_empty() || self.buffer.is_empty() {
            return;
        }
        let has_value_len = usize::from(prefix.shape == EntryShape::KeyValue);
        let lengths = has_value_len + usize::from(self.values.is_some());
        let out = &mut prefix.rewritten;
        out.clear();
        out.extend_from_slice(&prefix.bytes);
        for i in 0..self.restarts.len() {
            let end = self.restarts.get(i + 1).map_or(self.buffer.len(), |next| *next as usize);
            let Some(start) = self.restarts.get_mut(i) else { break };
            let interval = self.buffer.get(*start as usize..end).unwrap_or_default();
            *start = short(out.len());
            put_without_prefix(out, interval, prefix.bytes.len(), lengths)
                .expect("the builder has written this entry");
        }
        std::mem::swap(&mut self.buffer, &mut prefix.rewritten);
        // Now it is no longer in the keys.
        prefix.bytes.clear();
    }

    /// The contents, after `finish`.
    pub fn into_contents(self) -> Vec<u8> {
        self.buffer
    }

    /// Starts the next block. Keeps the memory. Also keeps the last key, with which callers compare
    /// the next one. The first entry of a block shares nothing.
    pub fn reset(&mut self) {
        self.buffer.clear();
        self.restarts.clear();
        self.restarts.push(0);
        self.since_restart = 0;
        if let Some(values) = &mut self.values {
            values.clear();
        }
        if let Some(index) = &mut self.hash_index {
            index.reset();
        }
        if let Some(prefix) = &mut self.prefix {
            prefix.bytes.clear();
        }
    }
}

/// Appends the entries of a restart interval, the first of them without the first `prefix` bytes of
/// its key. `lengths` varints follow the length of its key.
fn put_without_prefix(
    out: &mut Vec<u8>,
    interval: &[u8],
    prefix: usize,
    lengths: usize,
) -> esker_base::Result<()> {
    let mut input = Decoder::new(interval);
    let (shared, key_len) = (input.varint32()?, input.varint32()? as usize);
    debug_assert!(shared == 0 && key_len >= prefix);
    put_varint32(out, 0);
    put_varint32(out, short(key_len.saturating_sub(prefix)));
    for _ in 0..lengths {
        put_varint32(out, input.varint32()?);
    }
    input.bytes(prefix)?;
    out.extend_from_slice(input.rest());
    Ok(())
}

#[inline]
fn short(n: usize) -> u32 {
    u32::try_from(n).expect("the writer keeps blocks, keys and values below 4 GiB")
}

/// Three varints; nearly always one byte each.
#[inline]
fn put_lengths(out: &mut Vec<u8>, shared: usize, non_shared: usize, value: usize) {
    if (shared | non_shared | value) < 0x80 {
        #[expect(clippy::cast_possible_truncation, reason = "all three are below 128")]
        out.extend_from_slice(&[shared as u8, non_shared as u8, value as u8]);
    } else {
        put_varint32(out, short(shared));
        put_varint32(out, short(non_shared));
        put_varint32(out, short(value));
    }
}

/// Length of the common prefix of two keys, in bytes.
#[inline]
pub fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let (a_words, _) = a.as_chunks::<8>();
    let (b_words, _) = b.as_chunks::<8>();
    let mut n = 0;
    for (x, y) in a_words.iter().zip(b_words) {
        let differ = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if differ != 0 {
            return n + (differ.trailing_zeros() / 8) as usize;
        }
        n += 8;
    }
    let tails = a.get(n..).unwrap_or_default().iter().zip(b.get(n..).unwrap_or_default());
    n + tails.take_while(|(x, y)| x == y).count()
}
