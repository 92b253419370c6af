//! Human-readable traces of block accesses: a line of 21 fields for each access, in RocksDB's form.
//!
//! Keys are not in the lines. A block has its number and the offset in its key, a get the number of
//! its key; a reader makes keys of the same lengths from them.

use crate::failure::CommandOutcome;
use esker::internals::base::coding::{Decoder, put_fixed32, put_fixed64, put_varint64};
use esker::internals::env::WritableFile;
use esker::internals::format::key::user_key;
use esker::trace::{BlockAccess, GetAccess};
use esker::{Error, Result};
use std::fmt::Write;

/// Bytes of text that are kept before they are written.
const BUFFER_BYTES: usize = 64 << 10;

/// The longest key that a line may name.
const MAX_KEY_BYTES: u64 = 1 << 20;

/// The numbers of a block and of a get's key; 0 for no get.
#[derive(Clone, Copy, Default)]
pub(super) struct AccessNumbers {
    pub(super) block: u64,
    pub(super) get_key: u64,
}

/// A human-readable trace under way.
pub(super) struct ReadableTrace {
    file: Box<dyn WritableFile>,
    text: String,
}

impl ReadableTrace {
    pub(super) fn new(file: Box<dyn WritableFile>) -> ReadableTrace {
        ReadableTrace { file, text: String::new() }
    }

    pub(super) fn add(&mut self, access: &BlockAccess<'_>, numbers: AccessNumbers) -> Result<()> {
        let get = access.get.unwrap_or_default();
        let AccessNumbers { block, get_key } = numbers;
        let BlockAccess { timestamp, block_type, block_size, cf_id, level, sst_fd_number, caller, .. } =
            access;
        let family = String::from_utf8_lossy(access.cf_name);
        let (no_insert, is_hit) = (u8::from(access.no_insert), u8::from(access.is_cache_hit));
        let (exists, key) = (u8::from(get.referenced_key_exists), get.referenced_key);
        let GetAccess { get_id, referenced_data_size, num_keys_in_block, .. } = get;
        let sequence = sequence_of(&get);
        writeln!(
            self.text,
            "{timestamp},{block},{block_type},{block_size},{cf_id},{family},{level},{sst_fd_number},{caller},\
             {no_insert},{get_id},{get_key},{referenced_data_size},{is_hit},{exists},{num_keys_in_block},{},\
             {sequence},{},{},{}",
            table_of(&get),
            access.block_key.len(),
            key.len(),
            offset_of(access.block_key)
        )
        .expect("a write to a string cannot fail");
        if self.text.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        self.file.append(self.text.as_bytes())?;
        self.text.clear();
        Ok(())
    }

    pub(super) fn close(mut self) -> CommandOutcome {
        self.flush()?;
        Ok(self.file.close()?)
    }
}

/// The number in the first 4 bytes of a get's key, from 1 on: the table's in some databases above
/// RocksDB. 0 for no key.
fn table_of(get: &GetAccess<'_>) -> u64 {
    get.referenced_key.first_chunk().map_or(0, |bytes| u64::from(u32::from_le_bytes(*bytes)) + 1)
}

/// The sequence number of a get at a snapshot of the user, from 1 on; otherwise 0.
fn sequence_of(get: &GetAccess<'_>) -> u64 {
    match get.referenced_key.last_chunk() {
        Some(trailer) if get.from_user_specified_snapshot => 1 + (u64::from_le_bytes(*trailer) >> 8),
        _ => 0,
    }
}

/// The last of the varints that a block's key consists of.
fn offset_of(block_key: &[u8]) -> u64 {
    let mut decoder = Decoder::new(block_key);
    std::iter::from_fn(|| decoder.varint64().ok()).last().unwrap_or(0)
}

/// The user key of a get; empty if its key is too short to be an internal one.
pub(super) fn get_key<'a>(get: &GetAccess<'a>) -> &'a [u8] {
    if get.referenced_key.len() < 8 { &[] } else { user_key(get.referenced_key) }
}

/// Calls `visit` with the access of a line.
/// # Errors
/// `Corruption`: the line is no access · an error of `visit`.
pub(super) fn read_line(line: &str, visit: &mut dyn FnMut(&BlockAccess<'_>) -> Result<()>) -> Result<()> {
    let parts: Vec<&str> = line.split(',').collect();
    if parts.len() != 21 {
        return Err(Error::corruption("an access has 21 fields"));
    }
    let mut fields = [0u64; 21];
    for (at, part) in parts.iter().enumerate().filter(|(at, _)| *at != 5) {
        fields[at] = part.parse().map_err(|_| Error::corruption(format!("'{part}' is no number")))?;
    }
    if fields[18].max(fields[19]) > MAX_KEY_BYTES {
        return Err(Error::corruption("a key is longer than 1 MiB"));
    }
    let byte = |at: usize| u8::try_from(fields[at]).map_err(|_| Error::corruption("a kind is above 255"));
    let mut ending = Vec::new();
    put_varint64(&mut ending, fields[1]);
    put_varint64(&mut ending, fields[20]);
    let block_key = padded(Vec::new(), fields[18], &ending);
    let mut key = Vec::new();
    if fields[11] != 0 {
        ending.clear();
        put_fixed64(&mut ending, fields[11]);
        put_fixed64(&mut ending, fields[17].saturating_sub(1) << 8);
        put_fixed32(&mut key, fields[16].saturating_sub(1) as u32);
        key = padded(key, fields[19], &ending);
    }
    let caller = byte(8)?;
    let get = (caller == 1 || caller == 2).then_some(GetAccess {
        get_id: fields[10],
        from_user_specified_snapshot: fields[17] > 0,
        referenced_key: &key,
        referenced_data_size: fields[12],
        num_keys_in_block: fields[15],
        referenced_key_exists: fields[14] != 0,
    });
    visit(&BlockAccess {
        timestamp: fields[0],
        block_type: byte(2)?,
        block_key: &block_key,
        block_size: fields[3],
        cf_id: fields[4],
        cf_name: parts[5].as_bytes(),
        level: u32::try_from(fields[6]).map_err(|_| Error::corruption("a level is too large"))?,
        sst_fd_number: fields[7],
        caller,
        is_cache_hit: fields[13] != 0,
        no_insert: fields[9] != 0,
        get,
    })
}

/// `begin`, digits up to the length, and `ending`.
fn padded(mut begin: Vec<u8>, length: u64, ending: &[u8]) -> Vec<u8> {
    let length = (length as usize).saturating_sub(ending.len());
    if begin.len() < length {
        begin.resize(length, b'1');
    }
    begin.extend_from_slice(ending);
    begin
}
