//! deleteseq, deleterandom.

use super::{While, Worker, WorkloadOutcome};
use crate::engine::{BenchBatch, BenchEngine};
use crate::report::BenchOpKind;

impl<E: BenchEngine> Worker<'_, E> {
    /// Deletes keys in batches of `batch_size`.
    pub(super) fn delete(&mut self, sequential: bool) -> WorkloadOutcome {
        let (plan, count) = (self.plan, self.key_count());
        let mut batch = self.engine.new_batch();
        let mut key = self.keys.buffer();
        let mut next = 0;
        let mut budget =
            if sequential { self.budget_within(plan.deletes, 0) } else { self.budget(plan.deletes) };
        while budget.take(plan.batch_size) {
            self.skip_choice_of_database();
            batch.clear();
            for _ in 0..plan.batch_size {
                let number = if sequential { next } else { self.random.below(count) };
                next += 1;
                self.keys.fill(number, count, &mut key);
                batch.delete(&key).doing("delete")?;
            }
            self.engine.write(&plan.write_options, &mut batch).doing("delete")?;
            self.stats.finished(plan.batch_size, BenchOpKind::Delete);
        }
        Ok(())
    }
}
