//! Deletes a tenth of the records with one range delete, while a snapshot lives. The snapshot must
//! still see the deleted records, and new reads must not. Both are checked twice: before and after
//! a flush and a compaction.

use crate::Stage;
use crate::failure::DemoOutcome;
use crate::reads::{check, wrong};
use crate::records::Records;
use crate::scans::{check_end, check_key};
use esker::{Db, ReadOptions, Snapshot};
use std::ops::Range;

/// Runs this part of the story. Returns the number of records left.
pub(crate) fn run(stage: &mut Stage, db: &Db) -> DemoOutcome<u64> {
    let records = stage.records.clone();
    let gone = records.count() / 10 * 4..records.count() / 10 * 5;
    let deleted = gone.end - gone.start;
    let part = stage.progress.begin("Deleting a range under a snapshot", 4);
    let snapshot = db.snapshot();
    db.delete_range(records.key(gone.start), records.key(gone.end))?;
    part.advance(1);
    check_both(db, &records, &snapshot, &gone)?;
    part.advance(1);
    db.flush()?;
    db.compact_range(None, None)?;
    part.advance(1);
    check_both(db, &records, &snapshot, &gone)?;
    part.advance(1);
    stage.report.rate("delete_range, full compaction, checks", deleted, 0, part.end());
    stage
        .report
        .verified("deleted keys that the snapshot still sees, before and after compaction", 2 * deleted);
    stage
        .report
        .verified("deleted keys that other reads do not see, before and after compaction", 2 * deleted);
    Ok(records.count() - deleted)
}

fn check_both(db: &Db, records: &Records, snapshot: &Snapshot, gone: &Range<u64>) -> DemoOutcome {
    check_snapshot(db, records, snapshot, gone)?;
    check_present(db, records, gone)
}

/// Checks that the snapshot shows each deleted record.
fn check_snapshot(db: &Db, records: &Records, snapshot: &Snapshot, gone: &Range<u64>) -> DemoOutcome {
    let family = db.default_column_family();
    let options = ReadOptions::new().snapshot(snapshot);
    let within = options.clone().lower_bound(records.key(gone.start)).upper_bound(records.key(gone.end));
    let mut iter = db.iter_opt(within, &family)?;
    let mut expected = Vec::new();
    iter.seek_to_first();
    for index in gone.clone() {
        check_key(iter.item().map(|(key, _)| key), &records.key(index))?;
        check(records, index, true, Some(iter.value()), &mut expected)?;
        iter.next();
    }
    check_end(&iter)?;
    for index in gone.clone().step_by(100) {
        let found = db.get_pinned_opt(&options, &family, records.key(index))?;
        check(records, index, true, found.as_deref(), &mut expected)?;
    }
    Ok(())
}

/// Checks that a new iterator steps over the range in both directions, and that point reads find no
/// key of the range.
fn check_present(db: &Db, records: &Records, gone: &Range<u64>) -> DemoOutcome {
    let (before, behind) = (records.key(gone.start - 1), records.key(gone.end));
    let mut iter = db.iter()?;
    iter.seek(before);
    check_key(iter.item().map(|(key, _)| key), &before)?;
    iter.next();
    check_key(iter.item().map(|(key, _)| key), &behind)?;
    iter.prev();
    check_key(iter.item().map(|(key, _)| key), &before)?;
    iter.status()?;
    for key in gone.clone().map(|index| records.key(index)) {
        if db.get_pinned(key)?.is_some() {
            return Err(wrong(&key, "has a value, and should not be there"));
        }
    }
    Ok(())
}
