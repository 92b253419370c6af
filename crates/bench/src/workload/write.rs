//! The writing benchmarks: fillseq, fillrandom, filluniquerandom, overwrite and their variants.

use super::{While, Worker, WorkloadOutcome, non_negative};
use crate::engine::{BenchBatch, BenchEngine};
use crate::keys::{KeyNumbers, WriteOrder};
use crate::report::BenchOpKind;

impl<E: BenchEngine> Worker<'_, E> {
    /// Writes keys in `order`, in batches of `batch_size`, and the range deletions that flags
    /// request.
    pub(super) fn write(&mut self, order: WriteOrder) -> WorkloadOutcome {
        let mut tombstones = RangeTombstones::new(self);
        let outcome = self.write_with(order, &mut tombstones);
        tombstones.report(self);
        outcome
    }

    fn write_with(&mut self, order: WriteOrder, tombstones: &mut RangeTombstones) -> WorkloadOutcome {
        let plan = self.plan;
        let operations = if plan.writes == 0 { plan.num } else { plan.writes };
        if plan.num != non_negative(self.flags.num) {
            self.stats.add_message(&format!("({} ops)", plan.num));
        }
        let count = plan.num + non_negative(self.flags.max_num_range_tombstones);
        if count == 0 {
            return Ok(());
        }
        let seconds = if order == WriteOrder::Random { non_negative(self.flags.duration) } else { 0 };
        let mut numbers = KeyNumbers::new(order, count, self.seed);
        let mut values = self.values();
        let mut batch = self.engine.new_batch();
        let mut key = self.keys.buffer();
        let key_count = self.key_count();
        let mut budget = self.budget_within(operations, seconds);
        while budget.take(plan.batch_size) {
            if order != WriteOrder::Sequential {
                self.skip_choice_of_database();
            }
            batch.clear();
            let mut bytes = 0;
            for _ in 0..plan.batch_size {
                let Some(number) = numbers.next(&mut self.random) else { break };
                self.keys.fill(number, key_count, &mut key);
                let value = values.next();
                batch.put(&key, value).doing("put")?;
                bytes += (key.len() + value.len()) as u64;
                if tombstones.is_due()
                    && let Some(begin) = numbers.next(&mut self.random)
                {
                    tombstones.add_to(self, begin, &mut batch)?;
                }
            }
            self.limit_writes(bytes);
            self.engine.write(&plan.write_options, &mut batch).doing("put")?;
            self.stats.finished(plan.batch_size, BenchOpKind::Write);
            self.stats.add_bytes(bytes);
        }
        Ok(())
    }
}

/// The schedule of range deletions between writes, and their length.
pub(super) struct RangeTombstones {
    writes_before_first: u64,
    writes_between: u64,
    most: u64,
    width: u64,
    expand: bool,
    /// Number of writes until the next range deletion; `u64::MAX` for none.
    until_next: u64,
    done: u64,
    begin: Vec<u8>,
    end: Vec<u8>,
}

impl RangeTombstones {
    pub(super) fn new<E: BenchEngine>(worker: &Worker<'_, E>) -> RangeTombstones {
        let flags = worker.flags;
        let mut tombstones = RangeTombstones {
            writes_before_first: non_negative(flags.writes_before_delete_range),
            writes_between: non_negative(flags.writes_per_range_tombstone),
            most: non_negative(flags.max_num_range_tombstones),
            width: non_negative(flags.range_tombstone_width),
            expand: flags.expand_range_tombstones,
            until_next: 0,
            done: 0,
            begin: worker.keys.buffer(),
            end: worker.keys.buffer(),
        };
        tombstones.plan_next(tombstones.writes_before_first);
        tombstones
    }

    /// Counts a write; returns whether a range deletion follows it.
    #[inline]
    pub(super) fn is_due(&mut self) -> bool {
        if self.until_next == u64::MAX {
            return false;
        }
        self.until_next -= 1;
        if self.until_next > 0 {
            return false;
        }
        self.done += 1;
        self.plan_next(0);
        true
    }

    fn plan_next(&mut self, before: u64) {
        let any_left = self.writes_between > 0 && self.done < self.most;
        self.until_next = if any_left { before + self.writes_between } else { u64::MAX };
    }

    /// Adds the deletion of `width` keys, from key number `begin` on, to `batch`.
    fn add_to<E: BenchEngine>(
        &mut self,
        worker: &Worker<'_, E>,
        begin: u64,
        batch: &mut E::Batch,
    ) -> WorkloadOutcome {
        let count = worker.key_count();
        if self.expand {
            for number in begin..begin + self.width {
                worker.keys.fill(number, count, &mut self.begin);
                batch.delete(&self.begin).doing("delete")?;
            }
            return Ok(());
        }
        worker.keys.fill(begin, count, &mut self.begin);
        worker.keys.fill(begin + self.width, count, &mut self.end);
        batch.delete_range(&self.begin, &self.end).doing("deleterange")
    }

    /// Deletes `width` keys, from key number `begin` on.
    pub(super) fn write<E: BenchEngine>(&mut self, worker: &Worker<'_, E>, begin: u64) -> WorkloadOutcome {
        let mut batch = worker.engine.new_batch();
        self.add_to(worker, begin, &mut batch)?;
        worker.engine.write(&worker.plan.write_options, &mut batch).doing("deleterange")
    }

    /// Prints the number of range deletions, if there were any.
    pub(super) fn report<E: BenchEngine>(&self, worker: &Worker<'_, E>) {
        if self.done > 0 {
            let text = format_args!("Number of range deletions: {}\n", self.done);
            // If the output is closed, the print of the result line returns the error.
            worker.output.print(text).ok();
        }
    }
}
