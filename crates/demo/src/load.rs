//! Loading: every record once, in batches, in an order far from that of the keys.

use crate::Stage;
use crate::failure::DemoOutcome;
use esker::{Db, WriteBatch};

const BATCH: u64 = 1_000;

pub(crate) fn run(stage: &mut Stage, db: &Db) -> DemoOutcome {
    let records = stage.records.clone();
    let part = stage.progress.begin("Loading records", records.count());
    let family = db.default_column_family().id();
    let mut batch = WriteBatch::new();
    let mut value = Vec::new();
    for start in (0..records.count()).step_by(BATCH as usize) {
        let turns = start..(start + BATCH).min(records.count());
        let loaded = turns.end - turns.start;
        batch.clear();
        for index in turns.map(|turn| records.shuffled(turn)) {
            records.fill_value(index, &mut value);
            batch.put_cf(family, records.key(index), &value)?;
        }
        db.write(&mut batch)?;
        part.advance(loaded);
    }
    let bytes = records.count() * records.record_bytes();
    stage.report.rate("load, random order, batches of 1,000", records.count(), bytes, part.end());

    let part = stage.progress.begin("Flushing and compacting", 1);
    db.flush()?;
    db.wait_for_background_work()?;
    stage.report.rate("flush and compactions after it", 1, 0, part.end());
    Ok(())
}
