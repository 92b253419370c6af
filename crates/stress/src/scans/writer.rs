//! Writers: values, merges, runs of deletions, ranges.

use super::history::{ScanChange, ScanValue};
use super::{JUNK, Outcome, Round, is_junk, rest};
use crate::model::families::ModelMerge;
use esker::WriteBatch;
use esker::internals::base::sync::atomic::Ordering;

struct Writer<'a> {
    round: &'a Round,
    number: usize,
    rng: fastrand::Rng,
    count: u64,
    /// For each of this writer's single-deleted keys, by family: whether its last write was a put.
    put: Vec<Vec<bool>>,
}

pub(super) fn write(round: &Round, number: usize, rng: fastrand::Rng) -> Outcome {
    let put = round.specs.iter().map(|spec| vec![false; spec.keys.len()]).collect();
    let mut writer = Writer { round, number, rng, count: 0, put };
    let mut left = round.size.batches;
    while left > 0 && !round.stopped() {
        left -= 1;
        writer.write_one()?;
        let pause = writer.rng.u64(..3000);
        rest(pause);
    }
    Ok(())
}

/// A value that fits the family's merge operator; `what` is for the report.
pub(super) fn value(rng: &mut fastrand::Rng, merge: ModelMerge, index: usize, what: &str) -> ScanValue {
    if merge == ModelMerge::Add {
        let mut bytes = rng.u64(..).to_le_bytes();
        if is_junk(index) {
            bytes[..JUNK.len()].copy_from_slice(JUNK);
        } else {
            bytes[0] = 0;
        }
        return bytes.to_vec().into();
    }
    let mut bytes = if is_junk(index) { JUNK.to_vec() } else { what.as_bytes().to_vec() };
    let length = if rng.u8(..50) == 0 { rng.usize(..6000) } else { rng.usize(..60) };
    bytes.resize(bytes.len() + length, b'.');
    bytes.into()
}

impl Writer<'_> {
    /// One batch in one family: a range deletion, or distinct keys.
    fn write_one(&mut self) -> Outcome {
        let family = self.rng.usize(..self.round.specs.len());
        let spec = &self.round.specs[family];
        let id = self.round.handles[family].id();
        let mut batch = WriteBatch::new();
        let mut changes = Vec::new();
        let begin = self.rng.usize(..spec.keys.len());
        let longest = [2, 8, 40, spec.keys.len()][self.rng.usize(..4)];
        let end = (begin + self.rng.usize(1..=longest)).min(spec.keys.len());
        let kind = self.rng.u8(..16);
        let mut fill = || -> esker::Result<()> {
            if kind == 0 && end < spec.keys.len() {
                batch.delete_range_cf(id, &spec.keys[begin], &spec.keys[end])?;
                changes.extend((begin..end).map(|index| (index, 0, ScanChange::Gone)));
                return Ok(());
            }
            let step = if self.rng.u8(..3) == 0 { 1 + self.rng.usize(..5) } else { 1 };
            for index in (begin..end).step_by(step) {
                let place = u64::from(batch.count());
                if spec.is_single(index) {
                    self.add_single(family, index, &mut batch, &mut changes)?;
                    continue;
                }
                let key = &spec.keys[index];
                self.count += 1;
                match kind {
                    1..=9 => {
                        batch.delete_cf(id, key)?;
                        changes.push((index, place, ScanChange::Gone));
                    }
                    10 | 11 if !is_junk(index) => {
                        let operand: ScanValue = match spec.merge {
                            ModelMerge::Add => self.rng.u64(..1000).to_le_bytes().to_vec().into(),
                            _ => format!("{}", self.count % 1000).into_bytes().into(),
                        };
                        batch.merge_cf(id, key, &operand)?;
                        changes.push((index, place, ScanChange::Operand(operand)));
                    }
                    _ => {
                        let what = format!("{}-{}:", self.number, self.count);
                        let value = value(&mut self.rng, spec.merge, index, &what);
                        batch.put_cf(id, key, &value)?;
                        changes.push((index, place, ScanChange::Value(value)));
                    }
                }
                // Long runs of values would leave few deletions.
                if kind >= 10 && changes.len() > 6 {
                    break;
                }
            }
            Ok(())
        };
        fill().map_err(|e| format!("batch: {e}"))?;
        self.commit(family, &mut batch, changes)
    }

    /// Adds the next write in turn, if it is this writer's key.
    fn add_single(
        &mut self,
        family: usize,
        index: usize,
        batch: &mut WriteBatch,
        changes: &mut Vec<(usize, u64, ScanChange)>,
    ) -> esker::Result<()> {
        let writers = self.round.busy.len() - 1;
        if (index / 8) % writers != self.number {
            return Ok(());
        }
        let (spec, id) = (&self.round.specs[family], self.round.handles[family].id());
        let place = u64::from(batch.count());
        let put = &mut self.put[family][index];
        if *put {
            batch.single_delete_cf(id, &spec.keys[index])?;
            changes.push((index, place, ScanChange::Gone));
        } else {
            let value = value(&mut self.rng, spec.merge, index, "single:");
            batch.put_cf(id, &spec.keys[index], &value)?;
            changes.push((index, place, ScanChange::Value(value)));
        }
        *put = !*put;
        Ok(())
    }

    fn commit(
        &mut self,
        family: usize,
        batch: &mut WriteBatch,
        changes: Vec<(usize, u64, ScanChange)>,
    ) -> Outcome {
        let round = self.round;
        if changes.is_empty() {
            return Ok(());
        }
        let _gate = round.shared_gate();
        round.busy[self.number].fetch_add(1, Ordering::SeqCst);
        let written = round.db.write(&mut *batch);
        let first = batch.sequence().0;
        round.writes.fetch_add(changes.len() as u64, Ordering::Relaxed);
        for (index, place, change) in changes {
            round.history.add(family, index, first + place, change);
        }
        round.busy[self.number].fetch_add(1, Ordering::SeqCst);
        written.map_err(|e| format!("write: {e}"))
    }
}
