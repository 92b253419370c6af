//! One segment file of the file tier: blocks back to back, each behind a head that a reader can
//! check alone.
//!
//! In: blocks. Out: their places; blocks again.
//!
//! ```text
//! file:    magic 16 | record...
//! record:  head checksum u32 | payload bytes u32 | key u64 u64 | role u8 | codec u8 | 0 u16
//!          | payload checksum u32 | segment u64 | payload      little-endian, CRC32C, masked
//! ```
//!
//! Invariants
//!  1. At open only heads are read. Bytes behind the first wrong head do not count: a crash tore
//!     them.
//!  2. A payload is checked when it is read. Its checksum covers the key too, so another block's
//!     payload does not pass.
//!  3. Each head has the segment's own number, so a renamed file does not pass for another.

use super::role_of;
use esker_base::{Error, Result, crc32c};
use esker_cache::{CacheKey, Role};
use esker_env::{FileSystem, RandomAccessFile, WritableFile};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MAGIC: &[u8; 16] = b"esker tier 0001\n";
/// Bytes before the first record.
pub(super) const HEAD_BYTES: usize = MAGIC.len();
const RECORD_HEAD_BYTES: usize = 40;
const SUFFIX: &str = ".tier";

/// A block with its head, ready to be written.
pub(super) struct SegmentRecord {
    pub(super) key: CacheKey,
    pub(super) role: Role,
    pub(super) codec: u8,
    /// Room for the head, and the payload.
    bytes: Vec<u8>,
}

/// Bytes of a record in the file.
pub(super) fn stored_bytes(payload: usize) -> usize {
    RECORD_HEAD_BYTES + payload
}

pub(super) fn path(dir: &Path, number: u64) -> PathBuf {
    dir.join(file_name(number))
}

fn file_name(number: u64) -> String {
    format!("{number:06}{SUFFIX}")
}

/// The segments of a directory, oldest first.
pub(super) fn numbers(fs: &dyn FileSystem, dir: &Path) -> Result<Vec<u64>> {
    let names = fs.children(dir)?;
    // Only the name that the tier itself gives a number counts. The last number must leave room for
    // one more.
    let number = |name: &String| {
        let number: u64 = name.strip_suffix(SUFFIX)?.parse().ok()?;
        (number < u64::MAX && file_name(number) == *name).then_some(number)
    };
    let mut numbers: Vec<u64> = names.iter().filter_map(number).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

fn payload_checksum(key: &CacheKey, payload: &[u8]) -> u32 {
    let [first, second] = key.words().map(u64::to_le_bytes);
    crc32c::extend(crc32c::extend(crc32c::value(&first), &second), payload)
}

impl SegmentRecord {
    pub(super) fn new(key: CacheKey, role: Role, codec: u8, payload: &[u8]) -> SegmentRecord {
        let mut bytes = vec![0; RECORD_HEAD_BYTES];
        bytes.extend_from_slice(payload);
        SegmentRecord { key, role, codec, bytes }
    }

    pub(super) fn payload(&self) -> &[u8] {
        &self.bytes[RECORD_HEAD_BYTES..]
    }

    pub(super) fn payload_bytes(&self) -> usize {
        self.payload().len()
    }

    pub(super) fn stored_bytes(&self) -> usize {
        self.bytes.len()
    }

    fn head(&self, segment: u64) -> [u8; RECORD_HEAD_BYTES] {
        let mut head = [0; RECORD_HEAD_BYTES];
        let [first, second] = self.key.words();
        let length = u32::try_from(self.payload_bytes()).unwrap_or(u32::MAX);
        head[4..8].copy_from_slice(&length.to_le_bytes());
        head[8..16].copy_from_slice(&first.to_le_bytes());
        head[16..24].copy_from_slice(&second.to_le_bytes());
        head[24] = self.role as u8;
        head[25] = self.codec;
        head[28..32].copy_from_slice(&payload_checksum(&self.key, self.payload()).to_le_bytes());
        head[32..40].copy_from_slice(&segment.to_le_bytes());
        let checksum = crc32c::value(&head[4..]);
        head[..4].copy_from_slice(&checksum.to_le_bytes());
        head
    }
}

/// A head that was read and has the right checksum.
struct Head {
    key: CacheKey,
    role: Role,
    codec: u8,
    length: usize,
    payload_checksum: u32,
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// `None` if it is torn, or of another segment.
fn parse_head(head: &[u8], segment: u64) -> Option<Head> {
    let is_whole = u32_at(head, 0)? == crc32c::value(head.get(4..RECORD_HEAD_BYTES)?);
    (is_whole && u64_at(head, 32)? == segment).then_some(())?;
    Some(Head {
        key: CacheKey::from_words([u64_at(head, 8)?, u64_at(head, 16)?]),
        role: role_of(*head.get(24)?)?,
        codec: *head.get(25)?,
        length: u32_at(head, 4)? as usize,
        payload_checksum: u32_at(head, 28)?,
    })
}

/// The blocks of an existing segment.
pub(super) struct Scanned {
    pub(super) file: Arc<dyn RandomAccessFile>,
    pub(super) bytes: usize,
    /// Key, offset of the record, bytes of the payload.
    pub(super) entries: Vec<(CacheKey, u64, usize)>,
}

/// Reads the heads of a segment. Wrong bytes are no error: they end the segment.
/// # Errors
/// `IoError`.
pub(super) fn scan(fs: &dyn FileSystem, dir: &Path, number: u64) -> Result<Scanned> {
    let file = fs.new_random_access_file(&path(dir, number))?;
    let size = file.size()?;
    let mut entries = Vec::new();
    let mut magic = [0; HEAD_BYTES];
    let mut offset = HEAD_BYTES as u64;
    if file.read_at(0, &mut magic)? < HEAD_BYTES || magic != *MAGIC {
        return Ok(Scanned { file, bytes: usize::try_from(size).unwrap_or(usize::MAX), entries });
    }
    loop {
        let mut bytes = [0; RECORD_HEAD_BYTES];
        if file.read_at(offset, &mut bytes)? < RECORD_HEAD_BYTES {
            break;
        }
        let Some(head) = parse_head(&bytes, number) else { break };
        let end = offset + stored_bytes(head.length) as u64;
        if end > size {
            break;
        }
        entries.push((head.key, offset, head.length));
        offset = end;
    }
    Ok(Scanned { file, bytes: usize::try_from(size).unwrap_or(usize::MAX), entries })
}

/// Reads and checks the record at `offset`.
/// # Errors
/// `IoError` · `Corruption` if its checksum, key or segment is wrong.
pub(super) fn read(
    file: &dyn RandomAccessFile,
    segment: u64,
    offset: u64,
    payload: usize,
) -> Result<SegmentRecord> {
    let mut bytes = vec![0; stored_bytes(payload)];
    let n = file.read_at(offset, &mut bytes)?;
    let torn = || Error::corruption(format!("{} at offset {offset}: torn", file.path().display()));
    let head = parse_head(&bytes, segment).filter(|head| head.length == payload && n == bytes.len());
    let head = head.ok_or_else(torn)?;
    let record = SegmentRecord { key: head.key, role: head.role, codec: head.codec, bytes };
    if payload_checksum(&record.key, record.payload()) != head.payload_checksum {
        return Err(torn());
    }
    Ok(record)
}

/// The segment that is being written.
pub(super) struct SegmentWriter {
    number: u64,
    writer: Box<dyn WritableFile>,
    file: Arc<dyn RandomAccessFile>,
    bytes: usize,
}

impl SegmentWriter {
    /// A new segment.
    /// # Errors
    /// `IoError`.
    pub(super) fn create(fs: &dyn FileSystem, dir: &Path, number: u64) -> Result<SegmentWriter> {
        let path = path(dir, number);
        let mut writer = fs.new_writable_file(&path)?;
        writer.append(MAGIC)?;
        writer.flush()?;
        let file = fs.new_random_access_file(&path)?;
        Ok(SegmentWriter { number, writer, file, bytes: HEAD_BYTES })
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn file(&self) -> &Arc<dyn RandomAccessFile> {
        &self.file
    }

    /// Writes a record where readers find it. Returns its offset.
    /// # Errors
    /// `IoError`.
    pub(super) fn append(&mut self, record: &SegmentRecord) -> Result<u64> {
        let offset = self.bytes as u64;
        self.writer.append(&record.head(self.number))?;
        self.writer.append(record.payload())?;
        self.writer.flush()?;
        self.bytes += record.stored_bytes();
        Ok(offset)
    }

    /// Closes the file without a sync: the next open ignores bytes that a power loss destroyed.
    /// # Errors
    /// `IoError`.
    pub(super) fn close(mut self) -> Result<()> {
        self.writer.close()
    }
}
