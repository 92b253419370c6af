//! The work of the first thread while the others are measured: write, merge, or scan. Its own
//! counts are left out.

use super::{Background, While, Worker, WorkloadOutcome, non_negative};
use crate::engine::{BenchCursor, BenchEngine};
use crate::report::BenchOpKind;
use crate::workload::write::RangeTombstones;

impl<E: BenchEngine> Worker<'_, E> {
    pub(super) fn run_behind(&mut self, background: Background) -> WorkloadOutcome {
        if background == Background::Scan {
            return self.scan_behind();
        }
        self.stats.exclude();
        let mut tombstones = RangeTombstones::new(self);
        let outcome = self.write_behind(background, &mut tombstones);
        tombstones.report(self);
        outcome
    }

    /// Writes random keys until the others have finished; with `--finish_after_writes`, until all
    /// keys are written.
    fn write_behind(&mut self, background: Background, tombstones: &mut RangeTombstones) -> WorkloadOutcome {
        let plan = self.plan;
        let key_count = self.key_count();
        let drawn_from = match non_negative(self.flags.bgwriter_num) {
            0 => key_count,
            own => own,
        };
        let mut values = self.values();
        let mut key = self.keys.buffer();
        let mut written = 0;
        while !self.background_is_over(written) {
            self.skip_choice_of_database();
            let number = self.random.below(drawn_from);
            self.keys.fill(number, drawn_from, &mut key);
            let value = values.next();
            let bytes = (key.len() + value.len()) as u64;
            match background {
                Background::Merge => self.engine.merge(&plan.write_options, &key, value).doing("merge")?,
                _ => self.engine.put(&plan.write_options, &key, value).doing("put")?,
            }
            written += 1;
            self.stats.finished(1, BenchOpKind::Write);
            self.limit_writes(bytes);
            if tombstones.is_due() {
                let begin = self.random.below(key_count);
                tombstones.write(self, begin)?;
                self.stats.finished(1, BenchOpKind::Write);
            }
        }
        Ok(())
    }

    fn background_is_over(&self, written: u64) -> bool {
        let nobody_left = self.shared.others_finished();
        if self.flags.finish_after_writes { written >= self.plan.writes } else { nobody_left }
    }

    /// Scans the whole database again and again: for the number of the others' reads, or for
    /// `--duration`.
    fn scan_behind(&mut self) -> WorkloadOutcome {
        let options = self.scan_options(self.flags.explicit_snapshot);
        let mut cursor = self.engine.cursor(options).doing("iterator")?;
        self.output.report(format_args!("num reads to do {}\n", self.plan.reads));
        let mut budget = self.budget(self.plan.reads);
        while budget.take(1) {
            if cursor.valid() {
                cursor.next();
            } else {
                cursor.status().doing("iterator")?;
                cursor.seek_to_first();
            }
            self.stats.finished(1, BenchOpKind::Seek);
        }
        Ok(())
    }
}
