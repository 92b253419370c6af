//! Scans in both directions: every key once, in order, with its value.

use crate::Stage;
use crate::failure::{DemoFailure, DemoOutcome};
use crate::reads::check;
use esker::Db;

pub(crate) fn forward(stage: &mut Stage, db: &Db) -> DemoOutcome {
    let records = stage.records.clone();
    let part = stage.progress.begin("Scanning forward", records.count());
    let mut iter = db.iter()?;
    let mut expected = Vec::new();
    iter.seek_to_first();
    for index in 0..records.count() {
        check_key(iter.item().map(|(key, _)| key), &records.key(index))?;
        check(&records, index, true, Some(iter.value()), &mut expected)?;
        iter.next();
        part.advance(1);
    }
    check_end(&iter)?;
    let bytes = records.count() * records.record_bytes();
    stage.report.rate("scan forward", records.count(), bytes, part.end());
    stage.report.verified("keys and values of the scan forward, in order, none missing", records.count());
    Ok(())
}

pub(crate) fn backward(stage: &mut Stage, db: &Db) -> DemoOutcome {
    let records = stage.records.clone();
    let part = stage.progress.begin("Scanning backward", records.count());
    let mut iter = db.iter()?;
    let mut expected = Vec::new();
    iter.seek_to_last();
    for index in (0..records.count()).rev() {
        check_key(iter.item().map(|(key, _)| key), &records.key(index))?;
        check(&records, index, true, Some(iter.value()), &mut expected)?;
        iter.prev();
        part.advance(1);
    }
    check_end(&iter)?;
    let bytes = records.count() * records.record_bytes();
    stage.report.rate("scan backward", records.count(), bytes, part.end());
    stage.report.verified("keys and values of the scan backward, in order, none missing", records.count());
    Ok(())
}

/// Counts all keys at the end: there must be `expected`, in strictly ascending order.
pub(crate) fn everything(stage: &mut Stage, db: &Db, expected: u64) -> DemoOutcome {
    let part = stage.progress.begin("Counting what survived", expected);
    let mut iter = db.iter()?;
    let (mut count, mut last) = (0, Vec::new());
    iter.seek_to_first();
    while let Some((key, _)) = iter.item() {
        if count > 0 && key <= last.as_slice() {
            return Err(DemoFailure::new("VERIFICATION FAILED: keys of the last scan are out of order"));
        }
        last.clear();
        last.extend_from_slice(key);
        count += 1;
        part.advance(1);
        iter.next();
    }
    iter.status()?;
    if count != expected {
        return Err(DemoFailure::new(format_args!(
            "VERIFICATION FAILED: {count} keys at the end, {expected} expected"
        )));
    }
    part.end();
    stage.report.verified("keys there after everything", count);
    Ok(())
}

pub(crate) fn check_key(found: Option<&[u8]>, expected: &[u8]) -> DemoOutcome {
    if found == Some(expected) {
        return Ok(());
    }
    let text = |key: &[u8]| String::from_utf8_lossy(key).trim_end().to_owned();
    Err(DemoFailure::new(format_args!(
        "VERIFICATION FAILED: the scan shows {}, expected '{}'",
        found.map_or("its end".to_owned(), |key| format!("'{}'", text(key))),
        text(expected)
    )))
}

/// Checks that the iterator has reached its end without an error.
pub(crate) fn check_end(iter: &esker::DbIterator) -> DemoOutcome {
    iter.status()?;
    match iter.item() {
        None => Ok(()),
        Some(_) => Err(DemoFailure::new("VERIFICATION FAILED: the scan shows more keys than were loaded")),
    }
}
