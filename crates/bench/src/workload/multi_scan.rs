//! Benchmarks of several ranges at once: multiscan, multiscanrandom.

use super::{While, Worker, WorkloadOutcome, non_negative};
use crate::engine::{BenchCursor, BenchEngine};
use crate::report::BenchOpKind;
use esker::MultiScanArgs;

/// Most ranges of one multiscanrandom.
const MOST_RANGES: u64 = 64;
/// Most bytes of a range of multiscanrandom.
const MOST_RANGE_BYTES: u64 = 1 << 20;
/// Keys of each range of multiscan, unless `--seek_nexts` is given.
const USUAL_RANGE_KEYS: u64 = 50;

/// Keys of each range of multiscan.
pub(crate) fn range_keys(seek_nexts: i32) -> u64 {
    match non_negative(seek_nexts) {
        0 => USUAL_RANGE_KEYS,
        keys => keys,
    }
}

impl<E: BenchEngine> Worker<'_, E> {
    /// Scans `multiscan_size` ranges, `multiscan_stride` keys apart. The first one starts at a
    /// random key.
    pub(super) fn multi_scan(&mut self) -> WorkloadOutcome {
        let (flags, count) = (self.flags, self.key_count());
        let (keys, size) = (range_keys(flags.seek_nexts), non_negative(flags.multiscan_size));
        let distance = keys + non_negative(flags.multiscan_stride);
        let (mut scans, mut rows) = (0, 1);
        let mut budget = self.budget(self.plan.reads);
        while budget.take(rows) {
            self.skip_choice_of_database();
            let first = self.random.below(count - distance * size);
            let ranges: Vec<_> = (0..size).map(|i| (first + i * distance, keys)).collect();
            rows = self.scan_together(&ranges)?.max(1);
            scans += 1;
        }
        self.stats.add_message(&format!("(multiscans:{scans})"));
        Ok(())
    }

    /// Scans up to 64 ranges of up to a megabyte at random places, together or, with
    /// `--nouse_multiscan`, one by one.
    pub(super) fn multi_scan_random(&mut self) -> WorkloadOutcome {
        let count = self.key_count();
        let row_bytes = (self.plan.key_size + self.plan.value_size) as u64;
        let most_keys = (MOST_RANGE_BYTES / row_bytes.max(1)).max(1);
        let (mut scans, mut scanned, mut rows) = (0, 0, 1);
        let mut budget = self.budget(self.plan.reads);
        while budget.take(rows) {
            self.skip_choice_of_database();
            let mut ranges: Vec<(u64, u64)> = Vec::new();
            for _ in 0..1 + self.random.below(MOST_RANGES) {
                let keys = 1 + self.random.below(most_keys);
                ranges.push((self.random.below(count.saturating_sub(keys) + 1), keys));
            }
            ranges.sort_by_key(|(start, _)| *start);
            let ranges = without_overlaps(&ranges);
            rows = if self.flags.use_multiscan {
                self.scan_together(&ranges)?
            } else {
                self.scan_one_by_one(&ranges)?
            };
            scanned += rows;
            rows = rows.max(1);
            scans += 1;
        }
        let each = scanned.checked_div(scans).unwrap_or(0);
        self.stats.add_message(&format!(
            "(multiscans:{scans} rows_scanned:{scanned} rows_per_multiscan:{each} max_range_keys:{most_keys})"
        ));
        Ok(())
    }

    /// Scans ranges, each with a first key and a number of keys; returns the number of rows.
    fn scan_together(&mut self, ranges: &[(u64, u64)]) -> WorkloadOutcome<u64> {
        let (flags, count) = (self.flags, self.key_count());
        let mut args = MultiScanArgs {
            io_coalesce_threshold: flags.multiscan_coalesce_threshold,
            max_prefetch_size: flags.multiscan_max_prefetch_size,
            use_async_io: flags.multiscan_use_async_io,
            reverse: flags.reverse_iterator,
            ..MultiScanArgs::default()
        };
        let (mut from, mut to) = (self.keys.buffer(), self.keys.buffer());
        for &(start, keys) in ranges {
            self.keys.fill(start, count, &mut from);
            self.keys.fill(start + keys, count, &mut to);
            args.insert(&from, &to);
        }
        let (mut rows, mut bytes) = (0, 0);
        let each = |key: &[u8], value: &[u8]| {
            rows += 1;
            bytes += key.len() + value.len();
        };
        self.engine.multi_scan(self.plan.read_options.clone(), &args, each).doing("multi_scan")?;
        self.finish(rows, bytes);
        Ok(rows)
    }

    /// Scans the ranges with one iterator, which seeks the start of each range and steps to its
    /// end. With `--reverse_iterator`, it seeks the end and steps to the start.
    fn scan_one_by_one(&mut self, ranges: &[(u64, u64)]) -> WorkloadOutcome<u64> {
        let (count, reverse) = (self.key_count(), self.flags.reverse_iterator);
        let (mut from, mut to) = (self.keys.buffer(), self.keys.buffer());
        let mut cursor = self.engine.cursor(self.plan.read_options.clone()).doing("iterator")?;
        let (mut rows, mut bytes) = (0, 0);
        let in_turn = |i: usize| if reverse { ranges.len() - 1 - i } else { i };
        for &(start, keys) in (0..ranges.len()).map(|i| &ranges[in_turn(i)]) {
            self.keys.fill(start, count, &mut from);
            self.keys.fill(start + keys, count, &mut to);
            if reverse {
                cursor.seek_for_prev(&to);
                if cursor.valid() && cursor.key() >= to.as_slice() {
                    cursor.prev();
                }
            } else {
                cursor.seek(&from);
            }
            let is_within = |key: &[u8]| if reverse { key >= from.as_slice() } else { key < to.as_slice() };
            while cursor.valid() && is_within(cursor.key()) {
                rows += 1;
                bytes += cursor.key().len() + cursor.value().len();
                if reverse { cursor.prev() } else { cursor.next() }
            }
            cursor.status().doing("iterator")?;
        }
        self.finish(rows, bytes);
        Ok(rows)
    }

    fn finish(&mut self, rows: u64, bytes: usize) {
        std::hint::black_box(rows);
        self.stats.add_bytes(bytes as u64);
        self.limit_reads(1);
        self.stats.finished(1, BenchOpKind::MultiScan);
    }
}

/// Cuts off each range's overlap with the range before. REQUIRES: the ranges are sorted by their
/// start.
fn without_overlaps(ranges: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut apart: Vec<(u64, u64)> = Vec::new();
    for &(start, keys) in ranges {
        let taken = apart.last().map_or(0, |(start, keys)| start + keys);
        if start >= taken {
            apart.push((start, keys));
        } else if start + keys > taken {
            apart.push((taken, start + keys - taken));
        }
    }
    apart
}
