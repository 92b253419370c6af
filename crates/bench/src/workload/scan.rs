//! Scans and seeks: readseq, readreverse, seekrandom, newiterator.

use super::{While, Worker, WorkloadOutcome, non_negative};
use crate::engine::{BenchCursor, BenchEngine};
use crate::report::BenchOpKind;
use esker::ReadOptions;

/// Keys of a scan between two requests to the rate limiter.
const KEYS_PER_REQUEST: u64 = 1024;
/// Seeks between two requests to the rate limiter.
const SEEKS_PER_REQUEST: u64 = 256;
/// Bytes of each value that a scan behind a seek copies.
const COPIED_VALUE_BYTES: usize = 256;

impl<E: BenchEngine> Worker<'_, E> {
    /// Reads keys in order, forward from the first or backward from the last, until `--reads` keys
    /// or the end.
    pub(super) fn read_in_order(&mut self, reverse: bool) -> WorkloadOutcome {
        // RocksDB takes the snapshot in readseq only.
        let options = self.scan_options(!reverse && self.flags.explicit_snapshot);
        let mut cursor = self.engine.cursor(options).doing("iterator")?;
        if reverse {
            cursor.seek_to_last()
        } else {
            cursor.seek_to_first()
        }
        let mut left = self.plan.reads;
        // Like RocksDB's tool, the scan ignores --duration.
        let mut budget = self.budget_within(u64::MAX, 0);
        while left > 0 && cursor.valid() && budget.take(1) {
            let bytes = cursor.key().len() + cursor.value().len();
            self.stats.add_bytes(bytes as u64);
            self.stats.finished(1, BenchOpKind::Read);
            left -= 1;
            if left.is_multiple_of(KEYS_PER_REQUEST) {
                self.limit_reads(KEYS_PER_REQUEST);
            }
            if reverse { cursor.prev() } else { cursor.next() }
        }
        cursor.status().doing("iterator")
    }

    /// Creates and drops iterators.
    pub(super) fn new_iterator(&mut self) -> WorkloadOutcome {
        let mut budget = self.budget(self.plan.reads);
        while budget.take(1) {
            self.skip_choice_of_database();
            drop(self.engine.cursor(self.plan.read_options.clone()).doing("iterator")?);
            self.stats.finished(1, BenchOpKind::Other);
        }
        Ok(())
    }

    /// Seeks random keys, each with a new iterator, and steps `seek_nexts` times.
    pub(super) fn seek_random(&mut self) -> WorkloadOutcome {
        let (mut read, mut found) = (0, 0);
        let outcome = self.seek_counting(&mut read, &mut found);
        self.stats.add_message(&format!("({found} of {read} found)\n"));
        outcome
    }

    fn seek_counting(&mut self, read: &mut u64, found: &mut u64) -> WorkloadOutcome {
        let mut options = self.scan_options(self.flags.explicit_snapshot);
        options.auto_prefix_mode = self.flags.auto_prefix_mode;
        let count = self.key_count();
        let mut key = self.keys.buffer();
        let mut budget = self.budget(self.plan.reads);
        while budget.take(1) {
            let position = self.random.below(count);
            self.keys.fill_for_seek(position, count, &mut key);
            self.set_bounds(&mut options, position, &key);
            let mut cursor = self.engine.cursor(options.clone()).doing("iterator")?;
            cursor.seek(&key);
            *read += 1;
            *found += u64::from(cursor.valid() && cursor.key() == key);
            self.step(&mut cursor);
            self.delete_ahead(&mut cursor)?;
            cursor.status().doing("iterator")?;
            if *read % SEEKS_PER_REQUEST == SEEKS_PER_REQUEST - 1 {
                self.limit_reads(SEEKS_PER_REQUEST);
            }
            self.stats.finished(1, BenchOpKind::Seek);
        }
        Ok(())
    }

    /// Steps `seek_nexts` times, and reads each key and value.
    #[inline]
    fn step(&mut self, cursor: &mut E::Cursor) {
        let mut copy = [0; COPIED_VALUE_BYTES];
        let reverse = self.flags.reverse_iterator;
        for _ in 0..self.flags.seek_nexts {
            if !cursor.valid() {
                return;
            }
            let value = cursor.value();
            let copied = value.len().min(copy.len());
            copy[..copied].copy_from_slice(&value[..copied]);
            std::hint::black_box(&copy);
            let bytes = cursor.key().len() + value.len();
            self.stats.add_bytes(bytes as u64);
            if reverse { cursor.prev() } else { cursor.next() }
        }
    }

    /// Deletes `seek_nexts_to_delete` keys from the end of the scan on.
    fn delete_ahead(&mut self, cursor: &mut E::Cursor) -> WorkloadOutcome {
        for _ in 0..self.flags.seek_nexts_to_delete {
            if !cursor.valid() {
                break;
            }
            self.engine.delete(&self.plan.write_options, cursor.key()).doing("delete")?;
            if self.flags.reverse_iterator { cursor.prev() } else { cursor.next() }
        }
        Ok(())
    }

    /// Sets the iterator's bounds for a scan that begins at key `position`.
    fn set_bounds(&self, options: &mut ReadOptions, position: u64, key: &[u8]) {
        let (flags, count) = (self.flags, self.key_count());
        let distance = non_negative(flags.max_scan_distance);
        let prefix_size = usize::try_from(flags.prefix_size).unwrap_or(0);
        if distance != 0 {
            let bound = if flags.reverse_iterator {
                position.saturating_sub(distance)
            } else {
                count.min(position + distance)
            };
            let mut bytes = self.keys.buffer();
            self.keys.fill(bound, count, &mut bytes);
            if flags.reverse_iterator {
                options.iterate_lower_bound = Some(bytes);
            } else {
                options.iterate_upper_bound = Some(bytes);
            }
        } else if flags.auto_prefix_mode && prefix_size > 0 && !flags.reverse_iterator {
            let mut next_prefix = key[..prefix_size].to_vec();
            next_prefix[prefix_size - 1] = next_prefix[prefix_size - 1].wrapping_add(1);
            options.iterate_upper_bound = Some(next_prefix);
        }
    }

    /// Options of a scan, under a snapshot of the present if flags request it.
    pub(super) fn scan_options(&self, under_snapshot: bool) -> ReadOptions {
        let options = &self.plan.read_options;
        if under_snapshot { self.engine.under_snapshot(options) } else { options.clone() }
    }
}
