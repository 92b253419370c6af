//! Files whose reads and writes are counted in statistics.
//!
//! In: a table or blob file. Out: the same file. Each read adds to the tickers of its level and its
//! temperature, and its time to the histograms of the file's kind and of the thread's
//! [`IoActivity`]. Source of the names' meaning: RocksDB `file/random_access_file_reader.cc`,
//! `file/writable_file_writer.cc`.
//!
//! Reads through a descriptor ([`RandomAccessFile::descriptor`]) pass the file by:
//! [`read_many`](crate::read_many()) counts them. Reads that go together are timed as one.

use crate::clock::Clock;
use crate::direct::Alignment;
use crate::fs::{RandomAccessFile, WritableFile, WriteLifeTimeHint};
use esker_base::iostats_context::with_live_iostats;
use esker_base::stats::{Histogram, HistogramStat, Statistics, Ticker};
use esker_base::{IoActivity, Result};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

/// Each temperature as a MANIFEST stores it, with the tickers of bytes and reads for its files.
const TEMPERATURES: [(u8, Ticker, Ticker); 5] = [
    (0x04, Ticker::HotFileReadBytes, Ticker::HotFileReadCount),
    (0x08, Ticker::WarmFileReadBytes, Ticker::WarmFileReadCount),
    (0x0A, Ticker::CoolFileReadBytes, Ticker::CoolFileReadCount),
    (0x0C, Ticker::ColdFileReadBytes, Ticker::ColdFileReadCount),
    (0x10, Ticker::IceFileReadBytes, Ticker::IceFileReadCount),
];

/// Counts the reads of one file.
#[derive(Clone, Debug)]
pub struct ReadCounter {
    /// The counters.
    pub statistics: Arc<Statistics>,
    /// The clock for times.
    pub clock: Arc<dyn Clock>,
    /// The histogram that gets the time of each read.
    pub histogram: Histogram,
    /// Whether the file lies in the last level.
    pub is_last_level: bool,
    /// The file's temperature, as the MANIFEST stores it; 0: unknown.
    pub temperature: u8,
    /// Gets the time of each read, too: those of files of one level, or of blob files, of a family.
    pub latencies: Option<Arc<HistogramStat>>,
}

impl ReadCounter {
    /// Counts a read of `bytes` bytes.
    pub fn count(&self, bytes: usize) {
        let (read_bytes, reads) = if self.is_last_level {
            (Ticker::LastLevelReadBytes, Ticker::LastLevelReadCount)
        } else {
            (Ticker::NonLastLevelReadBytes, Ticker::NonLastLevelReadCount)
        };
        let of_temperature = TEMPERATURES.iter().find(|(temperature, ..)| *temperature == self.temperature);
        let of_temperature = of_temperature.map(|&(_, bytes, reads)| (bytes, reads));
        for (read_bytes, reads) in [Some((read_bytes, reads)), of_temperature].into_iter().flatten() {
            self.statistics.record_tick(read_bytes, bytes as u64);
            self.statistics.record_tick(reads, 1);
        }
        self.count_for_thread(bytes as u64);
    }

    /// Counts the read in the thread's `IoStatsContext`, by temperature.
    fn count_for_thread(&self, bytes: u64) {
        with_live_iostats(|io| {
            let (read_bytes, reads) = match self.temperature {
                0x04 => (&io.hot_file_bytes_read, &io.hot_file_read_count),
                0x08 => (&io.warm_file_bytes_read, &io.warm_file_read_count),
                0x0A => (&io.cool_file_bytes_read, &io.cool_file_read_count),
                0x0C => (&io.cold_file_bytes_read, &io.cold_file_read_count),
                0x10 => (&io.ice_file_bytes_read, &io.ice_file_read_count),
                _ if self.is_last_level => {
                    (&io.unknown_last_level_bytes_read, &io.unknown_last_level_read_count)
                }
                _ => (&io.unknown_non_last_level_bytes_read, &io.unknown_non_last_level_read_count),
            };
            read_bytes.set(read_bytes.get() + bytes);
            reads.set(reads.get() + 1);
        });
    }

    /// Starts to time another part of a read, such as decompression, for `histogram`.
    pub fn time(&self, histogram: Histogram) -> IoWatch<'_> {
        IoWatch::start(&self.statistics, &*self.clock, [Some(histogram), None], None)
    }

    /// Starts the time of a read, or of several reads that go together.
    pub fn watch(&self) -> IoWatch<'_> {
        let activity = IoActivity::current().read_histogram(&self.statistics);
        let histograms = [Some(self.histogram), activity];
        IoWatch::start(&self.statistics, &*self.clock, histograms, self.latencies.as_deref())
    }
}

/// A stopwatch. Its drop adds the elapsed microseconds to one or two histograms. It reads no clock
/// if the statistics collect no times.
pub struct IoWatch<'a> {
    statistics: &'a Statistics,
    clock: &'a dyn Clock,
    histograms: [Option<Histogram>; 2],
    latencies: Option<&'a HistogramStat>,
    begun: Option<u64>,
}

impl<'a> IoWatch<'a> {
    fn start(
        statistics: &'a Statistics,
        clock: &'a dyn Clock,
        histograms: [Option<Histogram>; 2],
        latencies: Option<&'a HistogramStat>,
    ) -> IoWatch<'a> {
        let begun = statistics.collects_times().then(|| clock.monotonic_nanos());
        IoWatch { statistics, clock, histograms, latencies, begun }
    }

    /// Ends without adding anything.
    pub fn cancel(mut self) {
        self.begun = None;
    }
}

impl Drop for IoWatch<'_> {
    fn drop(&mut self) {
        let Some(begun) = self.begun else { return };
        let micros = self.clock.monotonic_nanos().saturating_sub(begun) / 1000;
        for histogram in self.histograms.into_iter().flatten() {
            self.statistics.report_time_to_histogram(histogram, micros);
        }
        if let Some(latencies) = self.latencies {
            latencies.add(micros);
        }
    }
}

impl std::fmt::Debug for IoWatch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IoWatch").field("histograms", &self.histograms).finish_non_exhaustive()
    }
}

/// A file whose reads are counted.
#[derive(Debug)]
pub struct CountedRandomAccessFile {
    inner: Arc<dyn RandomAccessFile>,
    counter: ReadCounter,
}

impl CountedRandomAccessFile {
    /// Counts the reads of `inner` with `counter`.
    pub fn new(inner: Arc<dyn RandomAccessFile>, counter: ReadCounter) -> CountedRandomAccessFile {
        CountedRandomAccessFile { inner, counter }
    }

    fn counted(&self, read: impl FnOnce() -> Result<usize>) -> Result<usize> {
        let read = {
            let _watch = self.counter.watch();
            read()
        };
        self.counter.count(read.as_ref().map_or(0, |&bytes| bytes));
        read
    }
}

impl RandomAccessFile for CountedRandomAccessFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.counted(|| self.inner.read_at(offset, buf))
    }
    fn read_vectored_at(&self, offset: u64, bufs: &mut [&mut [u8]]) -> Result<usize> {
        self.counted(|| self.inner.read_vectored_at(offset, bufs))
    }
    fn alignment(&self) -> Option<Alignment> {
        self.inner.alignment()
    }
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner.descriptor()
    }
    fn read_counter(&self) -> Option<&ReadCounter> {
        Some(&self.counter)
    }
    fn never_waits(&self) -> bool {
        self.inner.never_waits()
    }
    fn prefetch(&self, offset: u64, bytes: u64) {
        self.inner.prefetch(offset, bytes);
    }
    fn read_anew(&self, offset: u64, bytes: u64) {
        self.inner.read_anew(offset, bytes);
    }
    fn size(&self) -> Result<u64> {
        self.inner.size()
    }
    fn path(&self) -> &Path {
        self.inner.path()
    }
}

/// A file whose appends are timed.
pub struct CountedWritableFile {
    inner: Box<dyn WritableFile>,
    statistics: Arc<Statistics>,
    clock: Arc<dyn Clock>,
    histogram: Histogram,
}

impl CountedWritableFile {
    /// Times each append to `inner`, for `histogram` and for the histogram of the thread's
    /// [`IoActivity`].
    pub fn new(
        inner: Box<dyn WritableFile>,
        statistics: Arc<Statistics>,
        clock: Arc<dyn Clock>,
        histogram: Histogram,
    ) -> CountedWritableFile {
        CountedWritableFile { inner, statistics, clock, histogram }
    }
}

impl std::fmt::Debug for CountedWritableFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CountedWritableFile").field("histogram", &self.histogram).finish_non_exhaustive()
    }
}

impl WritableFile for CountedWritableFile {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        let histograms = [Some(self.histogram), IoActivity::current().write_histogram()];
        let _watch = IoWatch::start(&self.statistics, &*self.clock, histograms, None);
        self.inner.append(data)
    }
    fn flush(&mut self) -> Result<()> {
        self.inner.flush()
    }
    fn sync(&mut self) -> Result<()> {
        self.inner.sync()
    }
    fn fsync(&mut self) -> Result<()> {
        self.inner.fsync()
    }
    fn range_sync(&mut self, offset: u64, bytes: u64) -> Result<()> {
        self.inner.range_sync(offset, bytes)
    }
    fn preallocate(&mut self, offset: u64, bytes: u64) -> Result<()> {
        self.inner.preallocate(offset, bytes)
    }
    fn set_write_life_time_hint(&mut self, hint: WriteLifeTimeHint) {
        self.inner.set_write_life_time_hint(hint);
    }
    fn append_in_place(&mut self, block: u64) -> Result<()> {
        self.inner.append_in_place(block)
    }
    fn truncate(&mut self, size: u64) -> Result<()> {
        self.inner.truncate(size)
    }
    fn close(&mut self) -> Result<()> {
        self.inner.close()
    }
    fn file_size(&self) -> u64 {
        self.inner.file_size()
    }
}
