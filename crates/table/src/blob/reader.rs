//! One open blob file.
//!
//! In: a value's location and its user key. Out: the value, checked and decompressed.
//!
//! Invariants
//!  1. A location is checked against the file's size before anything is allocated for it.
//!  2. Every error names the file and the offset.
//!  3. Damaged bytes are read once more before they are an error. No checksum covers the header: if
//!     it does not fit an index, which has a checksum, or a value, the header is read once more.
//!
//! Source: RocksDB `db/blob/blob_file_reader.cc`.

use crate::block_source::may_be_damage;
use crate::counts;
use esker_base::stats::{Histogram, Statistics};
use esker_base::sync::atomic::{AtomicU8, Ordering};
use esker_base::{Error, ErrorKind, Result, perf_time};
use esker_env::{Clock, RandomAccessFile, SystemClock};
use esker_format::blob::BlobLocation;
use esker_format::blob::file::{
    BlobFileFooter, BlobFileHeader, BlobRecordHeader, FOOTER_BYTES, HEADER_BYTES, RECORD_HEADER_BYTES,
};
use esker_format::compression::{CompressionType, Decompressor};
use std::sync::Arc;

/// Bytes that `for_each_record` reads at a time.
const SCAN_BYTES: usize = 1 << 20;

/// An open, finished blob file. Shared; all methods may be called from any thread.
#[derive(Debug)]
pub struct BlobFileReader {
    file: Arc<dyn RandomAccessFile>,
    file_size: u64,
    header: BlobFileHeader,
    /// The code for the compression of values, from the header as read last.
    compression: AtomicU8,
    blob_count: u64,
    decompressor: Decompressor,
    statistics: Option<Arc<Statistics>>,
}

/// One record, as `for_each_record` shows it.
#[derive(Clone, Copy, Debug)]
pub struct BlobRecord<'a> {
    /// File offset of the stored value.
    pub offset: u64,
    /// The key that has the value.
    pub user_key: &'a [u8],
    /// The value as it is stored.
    pub stored: &'a [u8],
}

impl BlobFileReader {
    /// Checks header and footer of a file.
    /// # Errors
    /// `Corruption` (cut off, damaged), `NotSupported` (values that expire, an unknown codec) and
    /// `IoError` name the file.
    pub fn open(file: Arc<dyn RandomAccessFile>) -> Result<BlobFileReader> {
        BlobFileReader::open_counting(file, None)
    }

    /// [`open`](Self::open), which also counts repeated reads.
    /// # Errors
    /// `Corruption` (cut off, damaged), `NotSupported` (values that expire, an unknown codec) and
    /// `IoError` name the file.
    pub fn open_counting(
        file: Arc<dyn RandomAccessFile>,
        statistics: Option<Arc<Statistics>>,
    ) -> Result<BlobFileReader> {
        let open = || BlobFileReader::open_file(&file, &statistics);
        let opened = open().or_else(|e| {
            again(e, statistics.as_ref(), || {
                file.read_anew(0, file.size()?);
                open()
            })
        });
        opened.map_err(|e| e.at(file.path().display()))
    }

    fn open_file(
        file: &Arc<dyn RandomAccessFile>,
        statistics: &Option<Arc<Statistics>>,
    ) -> Result<BlobFileReader> {
        let file_size = file.size()?;
        if file_size < (HEADER_BYTES + FOOTER_BYTES) as u64 {
            return Err(Error::corruption(format!("a blob file of {file_size} bytes is cut off")));
        }
        let mut header = [0; HEADER_BYTES];
        read_exactly(file.as_ref(), 0, &mut header)?;
        let header = BlobFileHeader::parse(&header)?;
        let mut footer = [0; FOOTER_BYTES];
        read_exactly(file.as_ref(), file_size - FOOTER_BYTES as u64, &mut footer)?;
        let footer = BlobFileFooter::parse(&footer)?;
        CompressionType::from_u8(header.compression)?;
        Ok(BlobFileReader {
            file: Arc::clone(file),
            file_size,
            header,
            compression: AtomicU8::new(header.compression),
            blob_count: footer.blob_count,
            decompressor: Decompressor::new(2),
            statistics: statistics.clone(),
        })
    }

    /// The header, as it was when the file was opened.
    pub fn header(&self) -> &BlobFileHeader {
        &self.header
    }

    /// Records in it, as its footer says.
    pub fn blob_count(&self) -> u64 {
        self.blob_count
    }

    /// Bytes of the file.
    pub fn file_size(&self) -> u64 {
        self.file_size
    }

    /// The value of `user_key` at `location`, decompressed. With `verify`, reads the whole record
    /// and checks it, also that it belongs to this key.
    /// # Errors
    /// `Corruption` and `IoError` name file and offset.
    pub fn value(&self, user_key: &[u8], location: &BlobLocation, verify: bool) -> Result<Vec<u8>> {
        self.read_value(user_key, location, verify).map_err(|e| self.at(e, location.offset))
    }

    fn read_value(&self, user_key: &[u8], location: &BlobLocation, verify: bool) -> Result<Vec<u8>> {
        if location.compression != self.compression.load(Ordering::Relaxed) {
            self.expect_compression(location.compression)?;
        }
        let before = (RECORD_HEADER_BYTES + user_key.len()) as u64;
        let end = location.offset.checked_add(location.size);
        let last = self.file_size - FOOTER_BYTES as u64;
        if location.offset < HEADER_BYTES as u64 + before || end.is_none_or(|end| end > last) {
            return Err(Error::corruption(format!(
                "a blob index points to {} bytes, outside of a blob file of {}",
                location.size, self.file_size
            )));
        }
        let read = || self.read_record(user_key, location, verify);
        read().or_else(|e| {
            again(e, self.statistics.as_ref(), || {
                self.file.read_anew(location.offset - before, before + location.size);
                read()
            })
        })
    }

    /// Reads the header once more, and checks that it has this code.
    /// # Errors
    /// `Corruption` if it has another code.
    #[cold]
    fn expect_compression(&self, code: u8) -> Result<()> {
        let recorded = self.compression.load(Ordering::Relaxed);
        let wrong =
            Error::corruption(format!("a blob index says compression {code}, its blob file {recorded}"));
        again(wrong.clone(), self.statistics.as_ref(), || {
            if self.read_compression()? == code { Ok(()) } else { Err(wrong) }
        })
    }

    /// Reads the header's codec again; later reads use it.
    fn read_compression(&self) -> Result<u8> {
        self.file.read_anew(0, HEADER_BYTES as u64);
        let mut header = [0; HEADER_BYTES];
        read_exactly(self.file.as_ref(), 0, &mut header)?;
        let code = BlobFileHeader::parse(&header)?.compression;
        CompressionType::from_u8(code)?;
        self.compression.store(code, Ordering::Relaxed);
        Ok(code)
    }

    /// REQUIRES: the location and its record's header lie within the file.
    fn read_record(&self, user_key: &[u8], location: &BlobLocation, verify: bool) -> Result<Vec<u8>> {
        let skip = if verify { (RECORD_HEADER_BYTES + user_key.len()) as u64 } else { 0 };
        let bytes = usize::try_from(location.size + skip)
            .map_err(|_| Error::corruption("a blob is larger than this machine can address"))?;
        let mut record = vec![0; bytes];
        read_exactly(self.file.as_ref(), location.offset - skip, &mut record)?;
        let (head, stored) = record.split_at(skip as usize);
        if verify {
            let (header, key) = head.split_at(RECORD_HEADER_BYTES);
            let header = BlobRecordHeader::parse(header)?;
            if key != user_key {
                return Err(Error::corruption(format!(
                    "the blob is of key '{}', not of '{}'",
                    key.escape_ascii(),
                    user_key.escape_ascii()
                )));
            }
            perf_time!(blob_checksum_time, SystemClock, header.check(user_key, stored))?;
        }
        match CompressionType::from_u8(location.compression)? {
            CompressionType::None => {
                record.drain(..skip as usize);
                Ok(record)
            }
            codec => {
                let counter = self.file.read_counter();
                let _watch = counter.map(|counter| counter.time(Histogram::BlobDbDecompressionMicros));
                let decompress = || self.decompressor.decompress(codec, stored);
                perf_time!(blob_decompress_time, SystemClock, decompress())
            }
        }
    }

    /// The value that a record stores, decompressed.
    /// # Errors
    /// `Corruption` names file and offset.
    pub fn decompress(&self, record: &BlobRecord<'_>) -> Result<Vec<u8>> {
        let decompress = |code| self.decompressor.decompress(CompressionType::from_u8(code)?, record.stored);
        let recorded = self.compression.load(Ordering::Relaxed);
        let value = decompress(recorded).or_else(|e| {
            // The record's checksum is right, so the header may be damaged.
            again(e.clone(), self.statistics.as_ref(), || match self.read_compression()? {
                code if code != recorded => decompress(code),
                _ => Err(e),
            })
        });
        value.map_err(|e| self.at(e, record.offset))
    }

    /// Shows every record, checked, in the order of the file.
    /// # Errors
    /// `Corruption` (a damaged record, or another number of records than the footer says),
    /// `IoError`, or the error of `visit`.
    pub fn for_each_record(&self, visit: &mut dyn FnMut(&BlobRecord<'_>) -> Result<()>) -> Result<()> {
        let end = self.file_size - FOOTER_BYTES as u64;
        let (mut at, mut count) = (HEADER_BYTES as u64, 0u64);
        let (mut window, mut window_start) = (Vec::new(), at);
        while at < end {
            let record = self.record_at(&mut window, &mut window_start, at, end).or_else(|e| {
                again(e, self.statistics.as_ref(), || {
                    self.file.read_anew(window_start, window.len() as u64);
                    window.clear();
                    self.record_at(&mut window, &mut window_start, at, end)
                })
            });
            let (header, total) = record.map_err(|e| self.at(e, at))?;
            let from = (at - window_start) as usize;
            let record = &window[from..from + total as usize];
            let (key, stored) = record[RECORD_HEADER_BYTES..].split_at(header.key_bytes as usize);
            let offset = at + RECORD_HEADER_BYTES as u64 + header.key_bytes;
            visit(&BlobRecord { offset, user_key: key, stored })?;
            at += total;
            count += 1;
        }
        if count != self.blob_count {
            let what = format!("{count} blobs, but the footer says {}", self.blob_count);
            return Err(Error::corruption(what).at(self.file.path().display()));
        }
        Ok(())
    }

    /// The checked header of the record at `at`, and the record's length. The window then has the
    /// record.
    fn record_at(
        &self,
        window: &mut Vec<u8>,
        start: &mut u64,
        at: u64,
        end: u64,
    ) -> Result<(BlobRecordHeader, u64)> {
        let header =
            BlobRecordHeader::parse(self.window(window, start, at, RECORD_HEADER_BYTES as u64, end)?)?;
        let bytes = header.key_bytes.checked_add(header.value_bytes);
        let total = bytes.and_then(|n| n.checked_add(RECORD_HEADER_BYTES as u64));
        let total = total.ok_or_else(|| Error::corruption("a blob is too large"))?;
        let record = self.window(window, start, at, total, end)?;
        let (key, stored) = record[RECORD_HEADER_BYTES..].split_at(header.key_bytes as usize);
        header.check(key, stored)?;
        Ok((header, total))
    }

    /// The `bytes` bytes at `at`, up to `end` at most, from a window that moves through the file.
    fn window<'w>(
        &self,
        window: &'w mut Vec<u8>,
        start: &mut u64,
        at: u64,
        bytes: u64,
        end: u64,
    ) -> Result<&'w [u8]> {
        if bytes > end - at {
            return Err(Error::corruption(format!("a blob of {bytes} bytes does not end before the footer")));
        }
        if at < *start || at + bytes > *start + window.len() as u64 {
            let wanted = bytes.max(SCAN_BYTES as u64).min(end - at);
            let wanted = usize::try_from(wanted)
                .map_err(|_| Error::corruption("a blob is larger than this machine can address"))?;
            window.resize(wanted, 0);
            *start = at;
            read_exactly(self.file.as_ref(), at, window)?;
        }
        let from = (at - *start) as usize;
        Ok(&window[from..from + bytes as usize])
    }

    /// Reads the whole file and checks every record, decompression included.
    /// # Errors
    /// As `for_each_record`.
    pub fn verify(&self) -> Result<()> {
        self.for_each_record(&mut |record| self.decompress(record).map(drop))
    }

    #[cold]
    fn at(&self, e: Error, offset: u64) -> Error {
        e.at(format_args!("{} at offset {offset}", self.file.path().display()))
    }
}

/// Visits the damage of a blob file whose header may be damaged, too: each record that fails its
/// checksum, and each run of bytes that is no record. Returns the number of sound records. Behind a
/// damaged record header, the next sound one is looked for byte by byte.
/// # Errors
/// `IoError`.
pub fn for_each_damage(file: &dyn RandomAccessFile, visit: &mut dyn FnMut(Error)) -> Result<u64> {
    let size = file.size()?;
    let (mut at, mut sound, mut is_lost) = (HEADER_BYTES as u64, 0, false);
    let end = size.saturating_sub(FOOTER_BYTES as u64);
    let mut head = [0; HEADER_BYTES];
    let parsed = read_exactly(file, 0, &mut head).and_then(|()| BlobFileHeader::parse(&head).map(drop));
    let mut tail = [0; FOOTER_BYTES];
    let footer = read_exactly(file, end, &mut tail).and_then(|()| BlobFileFooter::parse(&tail));
    let mut report = |e: Error, offset: u64| match e.kind() {
        ErrorKind::IoError => Err(e),
        _ => {
            visit(e.at(format_args!("{} at offset {offset}", file.path().display())));
            Ok(())
        }
    };
    parsed.or_else(|e| report(e, 0))?;
    while at < end {
        let mut bytes = [0; RECORD_HEADER_BYTES];
        let header = read_exactly(file, at, &mut bytes).and_then(|()| BlobRecordHeader::parse(&bytes));
        let within = |header: &BlobRecordHeader| {
            let bytes = header.key_bytes.checked_add(header.value_bytes)?;
            let next = at.checked_add(bytes)?.checked_add(RECORD_HEADER_BYTES as u64)?;
            Some((next, usize::try_from(bytes).ok()?)).filter(|_| next <= end)
        };
        let Some((header, (next, bytes))) = header.ok().and_then(|h| Some((h, within(&h)?))) else {
            if !std::mem::replace(&mut is_lost, true) {
                report(Error::corruption("no record begins here"), at)?;
            }
            at += 1;
            continue;
        };
        is_lost = false;
        let mut record = vec![0; bytes];
        read_exactly(file, at + RECORD_HEADER_BYTES as u64, &mut record)?;
        let (key, stored) = record.split_at(header.key_bytes as usize);
        match header.check(key, stored) {
            Ok(()) => sound += 1,
            Err(e) => report(e, at)?,
        }
        at = next;
    }
    footer.map(drop).or_else(|e| report(e, end))?;
    Ok(sound)
}

/// The value of `user_key` at `location` in a blob file whose header, footer or other records are
/// damaged. The checksum of key and value decides; if one bit of that checksum is flipped, it still
/// counts as right.
/// # Errors
/// `Corruption` and `IoError` name file and offset · `NotSupported`: a codec that is not here.
pub fn salvage_value(
    file: &dyn RandomAccessFile,
    user_key: &[u8],
    location: &BlobLocation,
) -> Result<Vec<u8>> {
    let at = |e: Error| e.at(format_args!("{} at offset {}", file.path().display(), location.offset));
    let before = (RECORD_HEADER_BYTES + user_key.len()) as u64;
    let from = location.offset.checked_sub(before).filter(|from| *from >= HEADER_BYTES as u64);
    let end = location.offset.checked_add(location.size);
    let (Some(from), Some(end)) = (from, end) else {
        return Err(at(Error::corruption("a blob index points outside of its file")));
    };
    let size = file.size().map_err(at)?;
    if end > size {
        return Err(at(Error::corruption(format!("the blob ends at {end}, its file at {size}"))));
    }
    let bytes = usize::try_from(end - from).map_err(|_| at(Error::corruption("a blob is too large")))?;
    let mut record = vec![0; bytes];
    read_exactly(file, from, &mut record).map_err(at)?;
    let (header, rest) = record.split_at(RECORD_HEADER_BYTES);
    let (key, stored) = rest.split_at(user_key.len());
    let recorded = header.last_chunk().map_or(0, |crc| u32::from_le_bytes(*crc));
    let flipped = recorded ^ BlobRecordHeader::of(user_key, stored).blob_crc;
    if key != user_key || flipped.count_ones() > 1 {
        return Err(at(Error::corruption("checksum mismatch in a blob")));
    }
    match CompressionType::from_u8(location.compression)? {
        CompressionType::None => Ok(stored.to_vec()),
        codec => Decompressor::new(2).decompress(codec, stored).map_err(at),
    }
}

/// Repeats a read that found damage: the medium may be whole.
/// # Errors
/// The first error, if it is not damage or the second read fails too.
#[cold]
fn again<T>(
    error: Error,
    statistics: Option<&Arc<Statistics>>,
    read: impl FnOnce() -> Result<T>,
) -> Result<T> {
    if !may_be_damage(&error) {
        return Err(error);
    }
    let second = read();
    counts::read_again(statistics, second.is_ok());
    second.map_err(|_| error)
}

fn read_exactly(file: &dyn RandomAccessFile, offset: u64, buffer: &mut [u8]) -> Result<()> {
    let read = file.read_at(offset, buffer)?;
    if read == buffer.len() {
        return Ok(());
    }
    Err(Error::corruption(format!("a blob file gives {read} of {} bytes at {offset}", buffer.len())))
}
