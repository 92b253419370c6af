//! Counts a cursor's seeks: those that checked a filter, read a data block, or were of use.
//!
//! In: the steps of a seek. Out: RocksDB's tickers `*.seek.*` of the last level and of the others.
//! Cursors of compactions count nothing. A seek that stays in its data block counts no data block,
//! and no use.

use crate::reader::TableReader;
use esker_base::IoActivity;
use esker_base::stats::Ticker;
use esker_base::sync::process::atomic::{AtomicU8, Ordering};

/// The seek has checked a filter.
const FILTERED: u8 = 1;
/// The seek has come to a data block.
const HAS_DATA: u8 = 2;
/// The first use of an entry is still to be counted.
const COUNTS_USE: u8 = 4;
/// Nothing is counted.
const OFF: u8 = 8;

/// The state of a cursor's last seek. Only the cursor's thread changes it.
#[derive(Debug)]
pub(super) struct SeekCounts {
    state: AtomicU8,
}

impl SeekCounts {
    /// Counts nothing if there are no statistics, or if a compaction makes the cursor.
    pub(super) fn new(has_statistics: bool) -> SeekCounts {
        let counts = has_statistics && IoActivity::current() != IoActivity::Compaction;
        SeekCounts { state: AtomicU8::new(if counts { 0 } else { OFF }) }
    }

    /// Begins a seek.
    #[inline]
    pub(super) fn begin(&mut self) {
        let state = self.state.get_mut();
        *state &= OFF;
    }

    /// Counts the answer of a filter.
    pub(super) fn count_filter(&mut self, reader: &TableReader, passes: bool) {
        match passes {
            true => count(reader, [Ticker::NonLastLevelSeekFilterMatch, Ticker::LastLevelSeekFilterMatch]),
            false => count(reader, [Ticker::NonLastLevelSeekFiltered, Ticker::LastLevelSeekFiltered]),
        }
        *self.state.get_mut() |= FILTERED;
    }

    /// Counts the first data block since the seek.
    #[inline]
    pub(super) fn count_data(&mut self, reader: &TableReader) {
        let state = self.state.get_mut();
        if *state & (HAS_DATA | OFF) == 0 {
            *state |= HAS_DATA | COUNTS_USE;
            count(reader, [Ticker::NonLastLevelSeekData, Ticker::LastLevelSeekData]);
        }
    }

    /// Counts the first use of an entry since the seek.
    #[inline]
    pub(super) fn count_use(&self, reader: &TableReader) {
        if self.state.load(Ordering::Relaxed) & COUNTS_USE != 0 {
            self.count_first_use(reader);
        }
    }

    #[cold]
    fn count_first_use(&self, reader: &TableReader) {
        let state = self.state.load(Ordering::Relaxed);
        self.state.store(HAS_DATA, Ordering::Relaxed);
        count(
            reader,
            match state & FILTERED {
                0 => [Ticker::NonLastLevelSeekDataUsefulNoFilter, Ticker::LastLevelSeekDataUsefulNoFilter],
                _ => [
                    Ticker::NonLastLevelSeekDataUsefulFilterMatch,
                    Ticker::LastLevelSeekDataUsefulFilterMatch,
                ],
            },
        );
    }
}

/// Counts one of two tickers: that of the last level, or that of the others.
#[cold]
fn count(reader: &TableReader, [of_others, of_last]: [Ticker; 2]) {
    if let Some(statistics) = &reader.source.statistics {
        statistics.record_tick(if reader.options.is_last_level { of_last } else { of_others }, 1);
    }
}
