//! Compares the whole database with the expected values, by every kind of read.
//!
//! In: a database to which no thread writes. Out: success, with every open change settled; or the
//! first key with another value.

use super::{Run, StressKind};
use crate::audit::{self, AuditSubject};
use esker::comparator::{BytewiseComparator, ComparatorRef};
use esker::{ColumnFamilyHandle, Db, ReadOptions};
use std::sync::Arc;

/// Number of keys in one read.
const CHUNK: u32 = 100;

/// Compares all keys of all families. If a process died during a change, the value found settles
/// it.
pub(super) fn all(run: &Run<'_>, db: &Db, seed: u64) -> Result<(), String> {
    let mut rng = fastrand::Rng::with_seed(seed);
    for (number, name) in run.setup.families.iter().enumerate() {
        let family = db.column_family(name).ok_or_else(|| format!("family {name} is gone"))?;
        let found = scan(run, db, &family, number, rng.bool())?;
        for (key, found) in (0..).zip(&found) {
            let place = run.expected.place(number, key);
            let expected = run.expected.seen(place);
            if !run.expected.settle(place, *found) {
                return Err(format!("{name}, key {key}: a scan finds {found:?}, expected {expected:?}"));
            }
        }
        let mut first = 0;
        while first < run.flags.max_key {
            let keys = first..(first + CHUNK).min(run.flags.max_key);
            read(run, db, &family, number, keys, &mut rng)?;
            first += CHUNK;
        }
        run.report.count(StressKind::Verified, u64::from(run.flags.max_key));
    }
    Ok(())
}

/// Audits tables, blob files and the directory at one opening in four.
pub(super) fn besides_answers(run: &Run<'_>, db: &Db) -> Result<(), String> {
    if !(run.flags.seed ^ run.phase).is_multiple_of(4) {
        return Ok(());
    }
    let handles: Vec<_> = run.setup.families.iter().filter_map(|name| db.column_family(name)).collect();
    let order: ComparatorRef = Arc::new(BytewiseComparator);
    let families = handles.iter().map(|handle| (handle, &order)).collect();
    let fs = run.setup.env.fs.as_ref();
    let subject =
        AuditSubject { db, fs, path: db.path(), families, may_be_left: false, all_garbage_is_counted: true };
    audit::audit(&subject, run.setup.env.clock.as_ref())?;
    run.report.count(StressKind::Audited, 1);
    Ok(())
}

/// Scans a family. Returns the number of each key's value.
fn scan(
    run: &Run<'_>,
    db: &Db,
    family: &ColumnFamilyHandle,
    number: usize,
    forward: bool,
) -> Result<Vec<Option<u32>>, String> {
    let options = ReadOptions::default().total_order_seek(true);
    let mut iter = db.iter_opt(options, family).map_err(|e| e.to_string())?;
    let mut found = vec![None; run.flags.max_key as usize];
    if forward {
        iter.seek_to_first()
    } else {
        iter.seek_to_last()
    }
    let mut last = None;
    while let Some((key, value)) = iter.item() {
        let Some(key) = run.setup.number(key) else {
            return Err(format!("{}: a key that nobody wrote: {}", family.name(), key.escape_ascii()));
        };
        if last.is_some_and(|last| if forward { last >= key } else { last <= key }) {
            return Err(format!("{}: key {key} comes behind {last:?}", family.name()));
        }
        last = Some(key);
        found[key as usize] = Some(run.setup.number_of(number, key, value)?);
        if forward { iter.next() } else { iter.prev() }
    }
    iter.status().map_err(|e| format!("{}: a scan ends with {e}", family.name()))?;
    Ok(found)
}

/// Reads some keys by a random kind of read other than a full scan.
fn read(
    run: &Run<'_>,
    db: &Db,
    family: &ColumnFamilyHandle,
    number: usize,
    keys: std::ops::Range<u32>,
    rng: &mut fastrand::Rng,
) -> Result<(), String> {
    let compare = |key: u32, found: Option<&[u8]>, how: &str| {
        let found = found.map(|value| run.setup.number_of(number, key, value)).transpose()?;
        let expected = run.expected.now(run.expected.place(number, key)).value();
        if found == expected {
            return Ok(());
        }
        Err(format!("{}, key {key}: {how} finds {found:?}, expected {expected:?}", family.name()))
    };
    let failed = |e: esker::Error| format!("{}: a read of {keys:?} ends with {e}", family.name());
    let options = ReadOptions::default().total_order_seek(true);
    match rng.u8(..4) {
        0 => {
            for key in keys.clone() {
                compare(key, db.get_cf(family, run.setup.key(key)).map_err(failed)?.as_deref(), "get")?;
            }
        }
        1 => {
            let bytes: Vec<_> = keys.clone().map(|key| run.setup.key(key)).collect();
            for (key, found) in keys.clone().zip(db.multi_get_opt(&options, family, &bytes)) {
                compare(key, found.map_err(failed)?.as_deref(), "multi_get")?;
            }
        }
        2 => {
            for key in keys.clone() {
                let entity = db.get_entity(&options, family, run.setup.key(key)).map_err(failed)?;
                compare(key, entity.as_ref().map(|columns| columns.default_column()), "get_entity")?;
            }
        }
        _ => {
            let mut iter = db.iter_opt(options, family).map_err(failed)?;
            for key in keys.clone() {
                let bytes = run.setup.key(key);
                if rng.bool() {
                    iter.seek(bytes)
                } else {
                    iter.seek_for_prev(bytes)
                }
                iter.status().map_err(failed)?;
                let here = iter.item().filter(|(found, _)| *found == bytes);
                compare(key, here.map(|(_, value)| value), "seek")?;
            }
        }
    }
    Ok(())
}
