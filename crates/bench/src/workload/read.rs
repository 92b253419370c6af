//! Point reads: readrandom, readmissing, readhot, multireadrandom.

use super::{While, Worker, WorkloadOutcome, non_negative};
use crate::engine::BenchEngine;
use crate::report::BenchOpKind;

/// Reads between two requests to the rate limiter.
const READS_PER_REQUEST: u64 = 256;

impl<E: BenchEngine> Worker<'_, E> {
    /// Reads random keys among the first `among` keys, one by one.
    pub(super) fn read_random(&mut self, among: u64) -> WorkloadOutcome {
        let (mut read, mut found) = (0, 0);
        let outcome = self.read_counting(among, &mut read, &mut found);
        self.stats.add_message(&format!("({found} of {read} found)\n"));
        outcome
    }

    fn read_counting(&mut self, among: u64, read: &mut u64, found: &mut u64) -> WorkloadOutcome {
        let (plan, count) = (self.plan, self.key_count());
        let mut picker = KeyPicker::new(self, among);
        let mut key = self.keys.buffer();
        let mut budget = self.budget(plan.reads);
        while budget.take(1) {
            self.skip_choice_of_database();
            let number = picker.next_single(self);
            self.keys.fill(number, count, &mut key);
            *read += 1;
            if let Some(value_bytes) = self.engine.get(&plan.read_options, &key).doing("get")? {
                *found += 1;
                self.stats.add_bytes((key.len() + value_bytes) as u64);
            }
            if *read % READS_PER_REQUEST == READS_PER_REQUEST - 1 {
                self.limit_reads(READS_PER_REQUEST);
            }
            self.stats.finished(1, BenchOpKind::Read);
        }
        Ok(())
    }

    /// Reads random keys in batches of `batch_size`.
    pub(super) fn multi_read_random(&mut self) -> WorkloadOutcome {
        let (mut read, mut found) = (0, 0);
        let outcome = self.multi_read_counting(&mut read, &mut found);
        self.stats.add_message(&format!("({found} of {read} found)"));
        outcome
    }

    fn multi_read_counting(&mut self, read: &mut u64, found: &mut u64) -> WorkloadOutcome {
        let (plan, count) = (self.plan, self.key_count());
        let batch = usize::try_from(plan.batch_size).expect("a batch fits into memory");
        let mut picker = KeyPicker::new(self, count);
        let mut keys = vec![self.keys.buffer(); batch];
        // Without --multiread_batched, values are copied as in RocksDB's MultiGet into strings.
        let mut copies = vec![Vec::new(); if self.flags.multiread_batched { 0 } else { batch }];
        let mut values = E::Values::default();
        let (mut multi_reads, mut budget) = (0, self.budget(plan.reads));
        while budget.take(plan.batch_size) {
            self.skip_choice_of_database();
            picker.start_batch(self);
            for key in &mut keys {
                let number = picker.next_of_batch(self);
                self.keys.fill(number, count, key);
            }
            let mut bytes = 0;
            let each = |i: usize, value: Option<&[u8]>| {
                let Some(value) = value else { return };
                *found += 1;
                bytes += keys[i].len() + value.len();
                if let Some(copy) = copies.get_mut(i) {
                    copy.clear();
                    copy.extend_from_slice(value);
                }
            };
            self.engine.multi_get(&plan.read_options, &keys, &mut values, each).doing("multi_get")?;
            *read += plan.batch_size;
            self.stats.add_bytes(bytes as u64);
            if multi_reads % READS_PER_REQUEST == READS_PER_REQUEST - 1 {
                self.limit_reads(READS_PER_REQUEST * plan.batch_size);
            }
            multi_reads += 1;
            self.stats.finished(plan.batch_size, BenchOpKind::Read);
        }
        Ok(())
    }
}

/// Chooses keys to read: uniformly, skewed, or at a fixed distance from each other.
struct KeyPicker {
    count: u64,
    /// The exponent of `--read_random_exp_range`; 0 for uniform keys.
    skew: f64,
    /// The distance of `--multiread_stride`; 0 for random keys.
    stride: u64,
    batch_size: u64,
    in_batch: u64,
    number: u64,
}

impl KeyPicker {
    fn new<E: BenchEngine>(worker: &Worker<'_, E>, count: u64) -> KeyPicker {
        KeyPicker {
            count,
            skew: worker.flags.read_random_exp_range,
            stride: non_negative(worker.flags.multiread_stride),
            batch_size: worker.plan.batch_size,
            in_batch: 0,
            number: 0,
        }
    }

    /// A random key.
    #[inline]
    fn random<E: BenchEngine>(&self, worker: &mut Worker<'_, E>) -> u64 {
        let drawn = worker.random.next();
        if self.skew == 0.0 { drawn % self.count } else { self.skewed(drawn) }
    }

    /// A skewed random key. Low numbers are likelier, by e^skew. A multiplication then scatters
    /// them over all keys, so that hot keys are not neighbours.
    fn skewed(&self, drawn: u64) -> u64 {
        const RANGE: u64 = 1 << 62;
        /// RocksDB's factor: the same keys are hot as in its tool.
        const PRIME: u64 = 0x5bd1_e995;
        let exponent = -((drawn % RANGE) as f64) / RANGE as f64 * self.skew;
        ((exponent.exp() * self.count as f64) as u64).wrapping_mul(PRIME) % self.count
    }

    /// The next key of a loop that reads one by one.
    #[inline]
    fn next_single<E: BenchEngine>(&mut self, worker: &mut Worker<'_, E>) -> u64 {
        if self.batch_size <= 1 || self.stride == 0 {
            return self.random(worker);
        }
        self.in_batch += 1;
        if self.in_batch == self.batch_size {
            self.in_batch = 0;
            self.start_batch(worker);
        } else {
            self.number += self.stride;
        }
        self.number
    }

    /// Chooses the first key of a batch with a fixed distance, so that all keys of the batch exist.
    fn start_batch<E: BenchEngine>(&mut self, worker: &mut Worker<'_, E>) {
        if self.stride == 0 {
            return;
        }
        let first = self.random(worker);
        let fits = first + (self.batch_size - 1) * self.stride < self.count;
        self.number = if fits { first } else { self.count.saturating_sub(self.batch_size * self.stride) };
    }

    /// The next key of the batch.
    #[inline]
    fn next_of_batch<E: BenchEngine>(&mut self, worker: &mut Worker<'_, E>) -> u64 {
        if self.stride == 0 {
            return self.random(worker);
        }
        self.number += self.stride;
        self.number - self.stride
    }
}
