//! Reads and writes by the same thread: readrandomwriterandom, updaterandom, mergerandom.

use super::{While, Worker, WorkloadOutcome, non_negative};
use crate::engine::BenchEngine;
use crate::report::BenchOpKind;

impl<E: BenchEngine> Worker<'_, E> {
    /// Cycles of a hundred operations: first `readwritepercent` reads, then writes.
    pub(super) fn read_random_write_random(&mut self) -> WorkloadOutcome {
        let (plan, count) = (self.plan, self.key_count());
        let gets_of_hundred = non_negative(self.flags.readwritepercent).min(100);
        let mut values = self.values();
        let mut key = self.keys.buffer();
        let (mut gets_left, mut puts_left) = (0, 0);
        let (mut reads, mut writes, mut found) = (0u64, 0u64, 0u64);
        let mut budget = self.budget(plan.readwrites);
        while budget.take(1) {
            self.skip_choice_of_database();
            let number = self.random.below(count);
            self.keys.fill(number, count, &mut key);
            if gets_left == 0 && puts_left == 0 {
                (gets_left, puts_left) = (gets_of_hundred, 100 - gets_of_hundred);
            }
            if gets_left > 0 {
                let value = self.engine.get(&plan.read_options, &key).doing("get")?;
                found += u64::from(value.is_some());
                gets_left -= 1;
                reads += 1;
                self.stats.finished(1, BenchOpKind::Read);
            } else {
                self.engine.put(&plan.write_options, &key, values.next()).doing("put")?;
                puts_left -= 1;
                writes += 1;
                self.stats.finished(1, BenchOpKind::Write);
            }
        }
        let total = plan.readwrites;
        self.stats.add_message(&format!("( reads:{reads} writes:{writes} total:{total} found:{found})"));
        Ok(())
    }

    /// Reads a random key, then overwrites it.
    pub(super) fn update_random(&mut self) -> WorkloadOutcome {
        let (plan, count) = (self.plan, self.key_count());
        let mut values = self.values();
        let mut key = self.keys.buffer();
        let mut found = 0u64;
        let mut budget = self.budget(plan.readwrites);
        while budget.take(1) {
            self.skip_choice_of_database();
            let number = self.random.below(count);
            self.keys.fill(number, count, &mut key);
            let value = self.engine.get(&plan.read_options, &key).doing("get")?;
            let mut bytes = 0;
            if let Some(value_bytes) = value {
                found += 1;
                bytes += key.len() + value_bytes;
            }
            self.limit_writes((key.len() + value.unwrap_or(0)) as u64);
            let value = values.next();
            self.engine.put(&plan.write_options, &key, value).doing("put")?;
            bytes += key.len() + value.len();
            self.stats.add_bytes(bytes as u64);
            self.stats.finished(1, BenchOpKind::Update);
        }
        self.stats.add_message(&format!("( updates:{} found:{found})", plan.readwrites));
        Ok(())
    }

    /// Adds operands to random keys.
    pub(super) fn merge_random(&mut self) -> WorkloadOutcome {
        let plan = self.plan;
        let mut values = self.values();
        let mut key = self.keys.buffer();
        let mut budget = self.budget(plan.readwrites);
        while budget.take(1) {
            self.skip_choice_of_database();
            let number = self.random.below(plan.merge_keys);
            self.keys.fill(number, plan.merge_keys, &mut key);
            let value = values.next();
            self.engine.merge(&plan.write_options, &key, value).doing("merge")?;
            self.stats.add_bytes((key.len() + value.len()) as u64);
            self.stats.finished(1, BenchOpKind::Merge);
        }
        self.stats.add_message(&format!("( updates:{})", plan.readwrites));
        Ok(())
    }
}
