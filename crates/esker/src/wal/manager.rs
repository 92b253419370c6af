//! The WAL files of an open database: the current one, those not yet synced, those still needed.
//!
//! In: the pieces of one record (a batch header and batch bodies). Out: bytes in the kernel
//! (`append`) or on the medium (`sync`).
//!
//! Invariants
//!  1. A record is appended whole before `append` returns, so that it survives the process.
//!  2. `sync` makes everything appended before it durable, also in files that are closed, and the
//!     names of those files.
//!  3. A file leaves `alive` only when the caller says that no family needs it. It is then
//!     recycled, or listed in [`OldWals`].
//!  4. If a file gets its first record before the previous file is synced, it also records where
//!     the previous file ended. So recovery notices if that end was lost. The file that replaces a
//!     failed one does so for as long as recovery may need that.
//!  5. After a failed append or sync the current file's end is unknown: nothing more is appended to
//!     it.
//!  6. A record that the memtables refuse is removed: recovery applies no write that failed.
//!  7. Only the last file may end in older records of a recycled file, which readers take for
//!     damage. So a recycled file is cut behind its last record before the next file begins, and
//!     the cut is durable before a family's tables are. RocksDB (7.8, 11.8) refuses the database if
//!     a family's tables are newer than that damage and no later file has a record.
//!  8. A reader gets whole records that are settled: published, or never to be published. An append
//!     settles all records before it, because one leader at a time appends and publishes.

use super::{OldWals, Predecessor};
use esker_base::sync::Arc;
use esker_base::{ColumnFamilyId, Error, FileNumber, Result, SequenceNumber};
use esker_env::{ChecksumHandoff, Directory, FileSystem, WritableFile, WriteLifeTimeHint};
use esker_format::file_name;
use esker_format::log::{BLOCK_BYTES, LogWriter, RecordCompressor};
use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

/// A larger buffer goes back to the allocator after an append. It holds some groups of the usual
/// limit.
const KEEP_BUFFER_BYTES: usize = 4 << 20;

/// The bytes that a file reserves at its first append.
const FIRST_RESERVE_BYTES: u64 = 1 << 20;

/// Options for writing WALs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WalOptions {
    /// Old files to keep for reuse; > 0 writes recyclable records.
    pub(crate) recycle_log_file_num: usize,
    /// The most bytes to reserve at a time; 0 for none.
    pub(crate) preallocate_bytes: u64,
    /// Bytes after which write-back is started; 0: never.
    pub(crate) wal_bytes_per_sync: u64,
    /// Leave bytes in the process until `flush_wal`.
    pub(crate) manual_wal_flush: bool,
    pub(crate) use_fsync: bool,
    /// Whether records are compressed, as zstd frames.
    pub(crate) compresses: bool,
    /// Whether files record the timestamp sizes of families. RocksDB from 8.4 on misreads keys
    /// without them. An older RocksDB takes such a record for the end of the file.
    pub(crate) timestamp_sizes: bool,
    /// Whether appends carry checksums to the file system.
    pub(crate) checksum_handoff: bool,
}

struct WalFile {
    number: FileNumber,
    writer: LogWriter,
    file: Box<dyn WritableFile>,
    /// Bytes written to the kernel; they end with a record.
    flushed: u64,
    /// Bytes whose write-back has begun.
    range_synced: u64,
    synced: u64,
    name_synced: bool,
    /// The offset up to which space is reserved.
    reserved: u64,
    /// Whether bytes of an older log may lie behind the last record.
    has_old_tail: bool,
    /// Whether such bytes were cut off since the last sync.
    is_cut: bool,
    /// The sequence number that the next record must have.
    due: SequenceNumber,
    records: u64,
}

/// A WAL that some family may still need.
#[derive(Clone, Copy, Debug)]
struct AliveWal {
    number: FileNumber,
    bytes: u64,
    /// Whether this process wrote it. Then its records carry its number, if files are recycled at
    /// all. Only these files are recycled: records without a number could pass, after a power loss,
    /// for records of the log that overwrites them.
    ours: bool,
}

/// A file that replaces a failed one.
#[derive(Clone, Copy, Debug)]
struct Fresh {
    number: FileNumber,
    /// Length of the first part, once that durably holds everything needed from before. `None`: it
    /// does not yet.
    complete: Option<u64>,
}

/// The current file as it was before its last append.
struct Mark {
    /// The first sequence number of that append.
    sequence: SequenceNumber,
    bytes: u64,
    writer: LogWriter,
    told_sizes: usize,
    due: SequenceNumber,
    records: u64,
}

/// The part of a WAL that a reader may read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WalEnd {
    /// The file is being written.
    Growing {
        /// Length of the whole records that are settled and in the kernel.
        bytes: u64,
        /// The sequence number after the last record, settled or not; `None` without records.
        due: Option<SequenceNumber>,
    },
    /// The file stays as it is. Bytes beyond this length are no records; `None`: read to its end.
    Final(Option<u64>),
}

/// All WALs of a database.
pub(crate) struct Wals {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    directory: Option<Box<dyn Directory>>,
    options: WalOptions,
    current: Option<WalFile>,
    fresh: Option<Fresh>,
    /// Full files with bytes that are not synced, oldest first.
    unsynced: Vec<WalFile>,
    alive: VecDeque<AliveWal>,
    recyclable: VecDeque<FileNumber>,
    /// Families whose keys have timestamps, with the timestamps' size.
    timestamp_sizes: Vec<(ColumnFamilyId, u16)>,
    /// Number of entries of `timestamp_sizes` that the current file has recorded.
    told_sizes: usize,
    /// The state that [`Wals::take_back`] restores.
    mark: Option<Mark>,
    /// Compresses records, if the options request it; made with the first record.
    compressor: Option<RecordCompressor>,
    /// Physical records of the append in progress.
    buffer: Vec<u8>,
    failed: Option<Error>,
    /// The start of the record in the current file whose write has failed.
    refused_from: Option<u64>,
    /// WALs that no family needs.
    pub(crate) old: OldWals,
    /// The failed file that was abandoned, until no recovery can need it.
    replaced: Option<FileNumber>,
}

impl Wals {
    /// WALs without a current file. `alive` gets the files that recovery found and that may still
    /// be needed.
    pub(crate) fn new(fs: Arc<dyn FileSystem>, dir: PathBuf, options: WalOptions, old: OldWals) -> Wals {
        Wals {
            fs,
            dir,
            directory: None,
            options,
            current: None,
            fresh: None,
            unsynced: Vec::new(),
            alive: VecDeque::new(),
            recyclable: VecDeque::new(),
            timestamp_sizes: Vec::new(),
            told_sizes: 0,
            mark: None,
            compressor: None,
            buffer: Vec::new(),
            failed: None,
            refused_from: None,
            old,
            replaced: None,
        }
    }

    /// Records that keys of `family` have timestamps of `size` bytes. Files record that, if the
    /// options request it.
    pub(crate) fn set_timestamp_size(&mut self, family: ColumnFamilyId, size: usize) {
        if size > 0 && self.options.timestamp_sizes {
            let size = u16::try_from(size).expect("timestamps are small");
            self.timestamp_sizes.push((family, size));
        }
    }

    /// Records that `family` gets no more writes. Later files do not record its timestamps.
    pub(crate) fn forget_family(&mut self, family: ColumnFamilyId) {
        if let Some(at) = self.timestamp_sizes.iter().position(|(id, _)| *id == family) {
            self.timestamp_sizes.remove(at);
            self.told_sizes -= usize::from(at < self.told_sizes);
        }
    }

    /// Sets the bytes after which write-back is started; 0: never.
    pub(crate) fn set_bytes_per_sync(&mut self, bytes: u64) {
        self.options.wal_bytes_per_sync = bytes;
    }

    /// Records a file from before this open that is still needed (its contents are in memtables
    /// only). In order, before the first `switch`.
    pub(crate) fn add_alive(&mut self, number: FileNumber, bytes: u64) {
        debug_assert!(self.current.is_none(), "old files come first");
        self.alive.push_back(AliveWal { number, bytes, ours: false });
    }

    /// The current file.
    pub(crate) fn current_number(&self) -> FileNumber {
        self.current.as_ref().map_or(FileNumber(0), |c| c.number)
    }

    /// Bytes of all files still needed.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.alive.iter().map(|w| w.bytes).sum()
    }

    /// The files still needed, oldest first, with the bytes of their records.
    pub(crate) fn alive(&self) -> impl DoubleEndedIterator<Item = (FileNumber, u64)> + '_ {
        self.alive.iter().map(|w| (w.number, w.bytes))
    }

    /// The oldest file still needed.
    pub(crate) fn oldest_alive(&self) -> Option<FileNumber> {
        self.alive.front().map(|w| w.number)
    }

    /// The next file behind `number` that readers may read.
    pub(crate) fn readable_after(&self, number: FileNumber) -> Option<FileNumber> {
        let alive = self.alive.iter().map(|w| w.number).find(|alive| *alive > number);
        alive.into_iter().chain(self.old.first_after(number)).min()
    }

    /// The last file before `number` that readers may read.
    pub(crate) fn readable_before(&self, number: FileNumber) -> Option<FileNumber> {
        let alive = self.alive.iter().map(|w| w.number).rev().find(|alive| *alive < number);
        alive.max(self.old.last_before(number))
    }

    /// The part of file `number` that may be read, where `published` is the last published number.
    pub(crate) fn end_of(&self, number: FileNumber, published: SequenceNumber) -> WalEnd {
        let Some(current) = self.current.as_ref().filter(|c| c.number == number) else {
            let written = self.alive.iter().find(|w| w.number == number && w.ours).map(|w| w.bytes);
            return WalEnd::Final(self.old.cut_of(number).or(written));
        };
        let mut bytes = current.flushed.min(self.refused_from.unwrap_or(u64::MAX));
        if let Some(mark) = &self.mark
            && (mark.sequence == current.due || published.0 + 1 < current.due.0)
        {
            bytes = bytes.min(mark.bytes);
        }
        WalEnd::Growing { bytes, due: (current.records > 0).then_some(current.due) }
    }

    /// All needed files with smaller numbers are durable.
    pub(crate) fn durable_before(&self) -> FileNumber {
        self.unsynced.first().map_or(self.current_number(), |f| f.number)
    }

    /// Whether the current file holds no record.
    pub(crate) fn current_is_empty(&self) -> bool {
        self.current.as_ref().is_none_or(|c| c.file.file_size() == 0)
    }

    /// Creates file `number` and writes to it from now on. The old one stays to be synced and, when
    /// no longer needed, released.
    /// # Errors
    /// As `append`; or `IoError` if the old file cannot be cut or the new one not be created; the
    /// old one stays current.
    pub(crate) fn switch(&mut self, number: FileNumber) -> Result<()> {
        self.check_usable()?;
        let flushed = self.current.as_mut().map_or(Ok(()), WalFile::flush);
        self.note(flushed)?;
        if let Some(current) = &mut self.current {
            current.cut_old_tail()?;
        }
        let fresh = self.create(number)?;
        if let Some(old) = self.current.replace(fresh)
            && !old.is_synced()
        {
            self.unsynced.push(old);
        }
        self.alive.push_back(AliveWal { number, bytes: 0, ours: true });
        self.mark = None;
        Ok(())
    }

    /// Creates file `number` after a failure of the current one, which is left as it is. The caller
    /// makes sure that soon nothing needs the failed file, or older files that are not synced. If
    /// the current file was begun this way and never completed, returns its number: it must be
    /// deleted.
    /// # Errors
    /// `IoError` if the file cannot be created; everything stays as it was.
    pub(crate) fn abandon_current(&mut self, number: FileNumber) -> Result<Option<FileNumber>> {
        let before = self.current_number();
        self.current = Some(self.create(number)?);
        self.mark = None;
        if let Some(bytes) = self.refused_from.take() {
            self.old.cut(before, bytes);
        }
        self.replaced = self.replaced.or(Some(before));
        self.unsynced.clear();
        let fresh = self.fresh.replace(Fresh { number, complete: None });
        let useless = fresh.filter(|f| f.number == before && f.complete.is_none()).map(|f| f.number);
        self.alive.retain(|wal| Some(wal.number) != useless);
        self.alive.push_back(AliveWal { number, bytes: 0, ours: true });
        self.failed = None;
        Ok(useless)
    }

    /// Whether the current file is certainly undamaged: it has no record, or only those that a
    /// recovery has made durable.
    pub(crate) fn current_is_sound(&self) -> bool {
        self.failed.is_none() && (self.current_is_empty() || self.current_is_complete())
    }

    /// Whether the current WAL has exactly the records that a recovery wrote.
    pub(crate) fn current_is_complete(&self) -> bool {
        let bytes = self.current.as_ref().map(|c| c.file.file_size());
        self.fresh.is_some_and(|f| f.number == self.current_number() && f.complete == bytes)
    }

    /// Says that the current file durably holds all that is needed from before.
    pub(crate) fn set_current_complete(&mut self) {
        let complete = self.current.as_ref().map(|c| c.file.file_size());
        self.fresh = Some(Fresh { number: self.current_number(), complete });
    }

    /// The MANIFEST no longer needs the abandoned file or earlier ones.
    pub(crate) fn forget_replaced(&mut self) {
        self.replaced = None;
    }

    fn create(&mut self, number: FileNumber) -> Result<WalFile> {
        let path = file_name::wal_file_name(&self.dir, number);
        let has_old_tail = !self.recyclable.is_empty();
        // Leaves the list in any case: after an error the file may have either name.
        let mut file = match self.recyclable.pop_front() {
            Some(old) => self.fs.reuse_writable_file(&path, &file_name::wal_file_name(&self.dir, old))?,
            None => self.fs.create_writable_file(&path)?,
        };
        file.set_write_life_time_hint(WriteLifeTimeHint::Short);
        if self.options.checksum_handoff {
            file = Box::new(ChecksumHandoff::new(file));
        }
        Ok(WalFile {
            number,
            writer: LogWriter::new(number.0, self.options.recycle_log_file_num > 0),
            file,
            flushed: 0,
            range_synced: 0,
            synced: 0,
            name_synced: false,
            reserved: 0,
            has_old_tail,
            is_cut: false,
            due: SequenceNumber::ZERO,
            records: 0,
        })
    }

    /// Appends one record made of `pieces`, which takes these sequence numbers. Writes it to the
    /// kernel, except with `manual_wal_flush`.
    /// # Errors
    /// `IoError`; the end of the file is then unknown and every later append fails until `switch`.
    pub(crate) fn append(&mut self, pieces: &[&[u8]], sequences: Range<SequenceNumber>) -> Result<()> {
        self.check_usable()?;
        let encoded = self.encode(pieces, sequences);
        self.note(encoded)?;
        let manual = self.options.manual_wal_flush;
        let per_sync = self.options.wal_bytes_per_sync;
        let current = self.current.as_mut().expect("a writable database has a WAL");
        current.reserve(self.buffer.len() as u64, &self.options);
        let result = current
            .file
            .append(&self.buffer)
            .and_then(|()| if manual { Ok(()) } else { current.file.flush() })
            .and_then(|()| current.write_back(per_sync));
        let bytes = current.file.file_size();
        if !manual && result.is_ok() {
            current.flushed = bytes;
        }
        if let Some(last) = self.alive.back_mut() {
            last.bytes = bytes;
        }
        if self.buffer.capacity() > KEEP_BUFFER_BYTES {
            self.buffer = Vec::new();
        }
        if let Some(compressor) = &mut self.compressor {
            compressor.keep_at_most(KEEP_BUFFER_BYTES);
        }
        if result.is_err() {
            self.refuse_last();
        }
        self.note(result)
    }

    /// Records that the write of the last record has failed: readers get neither that record nor
    /// bytes behind it.
    pub(crate) fn refuse_last(&mut self) {
        self.refused_from = self.refused_from.or(self.mark.as_ref().map(|mark| mark.bytes));
    }

    /// Puts the physical records of an append into `buffer`: the first records of a new file, then
    /// the record. Marks where the file was.
    fn encode(&mut self, pieces: &[&[u8]], sequences: Range<SequenceNumber>) -> Result<()> {
        if self.options.compresses && self.compressor.is_none() {
            self.compressor = Some(RecordCompressor::new()?);
        }
        let current = self.current.as_mut().expect("a writable database has a WAL");
        let is_new = current.file.file_size() == 0;
        self.buffer.clear();
        self.mark = Some(Mark {
            sequence: sequences.start,
            bytes: current.file.file_size(),
            writer: current.writer.clone(),
            told_sizes: self.told_sizes,
            due: current.due,
            records: current.records,
        });
        if is_new {
            self.told_sizes = 0;
            if self.compressor.is_some() {
                current.writer.add_zstd_compression(&mut self.buffer);
            }
        }
        if self.told_sizes < self.timestamp_sizes.len() {
            current.writer.add_timestamp_sizes(&self.timestamp_sizes[self.told_sizes..], &mut self.buffer);
            self.told_sizes = self.timestamp_sizes.len();
        }
        let predecessor = match (self.replaced, self.unsynced.last()) {
            (Some(replaced), _) => Some(Predecessor::that_failed(replaced)),
            (None, Some(last)) => {
                Some(Predecessor { number: last.number, due: last.due, records: Some(last.records) })
            }
            (None, None) => None,
        };
        if let Some(predecessor) = predecessor.filter(|_| is_new) {
            let batch = predecessor.to_batch(sequences.start)?;
            add_record(&mut current.writer, self.compressor.as_mut(), &[batch.data()], &mut self.buffer)?;
            current.records += 1;
        }
        add_record(&mut current.writer, self.compressor.as_mut(), pieces, &mut self.buffer)?;
        current.due = sequences.end;
        current.records += 1;
        Ok(())
    }

    /// Bytes of memory that appends keep for the next one.
    #[cfg(test)]
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// Makes [`Wals::take_back`] remove nothing until the next append: for a write that appends
    /// nothing, whose first number may be that of the record before.
    pub(crate) fn forget_mark(&mut self) {
        self.mark = None;
    }

    /// Removes the record appended last, if its first sequence number is `first`, so that no
    /// recovery applies it. If the record was durable, its removal is, too.
    /// # Errors
    /// `IoError`: it is unknown whether the record is there after a crash, and nothing more is
    /// appended.
    pub(crate) fn take_back(&mut self, first: SequenceNumber) -> Result<()> {
        let Some(mark) = self.mark.take_if(|mark| mark.sequence == first) else { return Ok(()) };
        let Some(current) = &mut self.current else { return Ok(()) };
        let was_synced = current.synced > mark.bytes;
        let cut = current.file.truncate(mark.bytes);
        (current.writer, current.due, current.records) = (mark.writer, mark.due, mark.records);
        // The cut gave the reserved space back.
        (current.has_old_tail, current.is_cut, current.reserved) = (false, true, 0);
        current.range_synced = current.range_synced.min(mark.bytes);
        current.flushed = current.flushed.min(mark.bytes);
        self.told_sizes = mark.told_sizes;
        let use_fsync = self.options.use_fsync;
        let result = cut.and_then(|()| if was_synced { current.sync(use_fsync) } else { Ok(()) });
        if let Some(last) = self.alive.back_mut() {
            last.bytes = current.file.file_size();
        }
        if result.is_err() {
            self.refused_from = Some(mark.bytes);
        }
        self.note(result)
    }

    /// Hands buffered bytes to the kernel (`manual_wal_flush`).
    /// # Errors
    /// As `append`.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.check_usable()?;
        let result = self.current.as_mut().map_or(Ok(()), WalFile::flush);
        self.note(result)
    }

    /// Makes everything appended so far durable.
    /// # Errors
    /// As `append`.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.check_usable()?;
        // If the directory was removed or replaced, a sync would report durable bytes that are
        // lost.
        self.fs.check_may_change(&self.dir)?;
        let result = self.sync_closed_files().and_then(|()| {
            let use_fsync = self.options.use_fsync;
            match self.current.as_mut() {
                Some(current) => current.sync(use_fsync),
                None => Ok(()),
            }
        });
        let result = result.and_then(|()| self.sync_names());
        self.note(result)
    }

    /// Makes everything in files before the current one durable: a flush of one family must not
    /// become durable before the earlier writes of the others.
    /// # Errors
    /// `IoError`; the end of the file is then unknown and every later append fails until `switch`.
    pub(crate) fn sync_closed(&mut self) -> Result<()> {
        if self.unsynced.is_empty() {
            return Ok(());
        }
        self.check_usable()?;
        let result = self.sync_closed_files().and_then(|()| self.sync_names());
        self.note(result)
    }

    fn sync_closed_files(&mut self) -> Result<()> {
        while let Some(file) = self.unsynced.first_mut() {
            file.sync(self.options.use_fsync)?;
            let done = self.unsynced.remove(0);
            // Forces the next directory sync, which makes its name durable.
            if !done.name_synced
                && let Some(current) = self.current.as_mut()
            {
                current.name_synced = false;
            }
        }
        Ok(())
    }

    fn sync_names(&mut self) -> Result<()> {
        let Some(current) = self.current.as_mut().filter(|c| !c.name_synced) else { return Ok(()) };
        if self.directory.is_none() {
            self.directory = Some(self.fs.new_directory(&self.dir)?);
        }
        self.directory.as_ref().expect("the directory was opened above").fsync()?;
        current.name_synced = true;
        Ok(())
    }

    /// Releases every file numbered below `oldest_needed`, except the newest one. A released file
    /// is recycled, or goes to the old files.
    pub(crate) fn release_before(&mut self, oldest_needed: FileNumber) {
        // After a close there is no current file.
        let Some(newest) = self.alive.back() else { return };
        let limit = oldest_needed.min(newest.number);
        self.unsynced.retain(|f| f.number >= limit);
        while let Some(front) = self.alive.front().filter(|w| w.number < limit) {
            let has_room = self.recyclable.len() < self.options.recycle_log_file_num;
            if front.ours && has_room && !self.old.is_held(front.number) {
                self.recyclable.push_back(front.number);
            } else {
                self.old.retire(front.number);
            }
            self.alive.pop_front();
        }
    }

    /// Files kept for reuse: they must not be deleted.
    pub(crate) fn recyclable(&self) -> impl Iterator<Item = FileNumber> + '_ {
        self.recyclable.iter().copied()
    }

    /// Closes the current file without syncing it.
    /// # Errors
    /// `IoError` if buffered bytes could not be written, or the file could not be truncated.
    pub(crate) fn close(&mut self) -> Result<()> {
        let Some(mut current) = self.current.take() else { return Ok(()) };
        let cut = if self.failed.is_none() { current.cut_old_tail() } else { Ok(()) };
        current.file.close().and(cut)
    }

    /// Whether the end of the current file is unknown, or the durable part of any file.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    fn check_usable(&self) -> Result<()> {
        self.failed.as_ref().map_or(Ok(()), |e| Err(e.clone()))
    }

    fn note(&mut self, result: Result<()>) -> Result<()> {
        if let Err(e) = &result {
            self.failed = Some(e.clone());
        }
        result
    }
}

/// Appends a logical record, as one frame if records are compressed.
fn add_record(
    writer: &mut LogWriter,
    compressor: Option<&mut RecordCompressor>,
    pieces: &[&[u8]],
    out: &mut Vec<u8>,
) -> Result<()> {
    match compressor {
        Some(compressor) => writer.add_record(compressor.compress(pieces)?, out),
        None => writer.add_record_parts(pieces, out),
    }
    Ok(())
}

impl WalFile {
    /// Reserves space for an append of `bytes`, and as much again as the file has, so that a
    /// database that writes little reserves little. Ignores failures: the append will meet them.
    fn reserve(&mut self, bytes: u64, options: &WalOptions) {
        let (size, most) = (self.file.file_size(), options.preallocate_bytes);
        let wanted = size + bytes + BLOCK_BYTES as u64;
        if most == 0 || wanted <= self.reserved {
            return;
        }
        let from = self.reserved.max(size);
        let ahead = size.clamp(FIRST_RESERVE_BYTES.min(most), most);
        let end = wanted.max(from + ahead);
        match self.file.preallocate(from, end - from) {
            Ok(()) | Err(_) => self.reserved = end,
        }
        if size == 0 && options.recycle_log_file_num == 0 && !options.manual_wal_flush {
            // A killed process leaves zeros behind the last record. No reader of logs takes those
            // for damage, in any mode.
            match self.file.append_in_place(BLOCK_BYTES as u64) {
                Ok(()) | Err(_) => {}
            }
        }
    }

    fn flush(&mut self) -> Result<()> {
        self.file.flush()?;
        self.flushed = self.file.file_size();
        Ok(())
    }

    fn sync(&mut self, use_fsync: bool) -> Result<()> {
        let size = self.file.file_size();
        if self.is_synced() && size > 0 {
            return Ok(());
        }
        if use_fsync {
            self.file.fsync()?
        } else {
            self.file.sync()?
        }
        (self.synced, self.flushed) = (size, size);
        self.is_cut = false;
        Ok(())
    }

    fn is_synced(&self) -> bool {
        self.synced == self.file.file_size() && !self.is_cut
    }

    fn cut_old_tail(&mut self) -> Result<()> {
        if self.has_old_tail {
            let end = self.file.file_size();
            self.file.truncate(end)?;
            self.has_old_tail = false;
            self.is_cut = true;
        }
        Ok(())
    }

    fn write_back(&mut self, bytes_per_sync: u64) -> Result<()> {
        let size = self.file.file_size();
        if bytes_per_sync > 0 && size - self.range_synced >= bytes_per_sync {
            self.file.range_sync(self.range_synced, size - self.range_synced)?;
            self.range_synced = size;
        }
        Ok(())
    }
}

impl fmt::Debug for Wals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wals")
            .field("current", &self.current_number())
            .field("alive", &self.alive)
            .finish_non_exhaustive()
    }
}
