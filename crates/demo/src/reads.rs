//! Random point reads and batched reads by several threads. Each answer is compared with the
//! record.

use crate::Stage;
use crate::failure::{DemoFailure, DemoOutcome};
use crate::progress::Part;
use crate::records::Records;
use esker::Db;
use esker::internals::env::spawn;
use std::sync::Arc;

/// On average, one of every `ABSENT` reads asks for an absent key.
const ABSENT: u64 = 10;
const BATCH: usize = 100;

pub(crate) fn point(stage: &mut Stage, db: &Db) -> DemoOutcome {
    run(stage, db, "Point reads", "get, random, one in ten absent", read_points)?;
    let reads = reads_in(&stage.records);
    stage.report.verified("values of point reads, present and absent", reads);
    Ok(())
}

pub(crate) fn batched(stage: &mut Stage, db: &Db) -> DemoOutcome {
    run(stage, db, "Batched reads", "multi_get, random, 100 keys each", read_batches)?;
    let reads = reads_in(&stage.records);
    stage.report.verified("values of batched reads, present and absent", reads);
    Ok(())
}

/// The work of one thread.
struct Reader {
    db: Db,
    records: Records,
    rng: fastrand::Rng,
    reads: u64,
    part: Arc<Part>,
}

/// The number of reads: half the number of records, rounded up to whole batches.
fn reads_in(records: &Records) -> u64 {
    (records.count() / 2).next_multiple_of(BATCH as u64)
}

fn run(
    stage: &mut Stage,
    db: &Db,
    what: &'static str,
    row: &str,
    read: fn(Reader) -> DemoOutcome,
) -> DemoOutcome {
    let reads = reads_in(&stage.records);
    let part = Arc::new(stage.progress.begin(what, reads));
    let batches = reads / BATCH as u64;
    let threads = stage.threads as u64;
    let mut running = Vec::new();
    for thread in 0..threads {
        let batches = batches / threads + u64::from(thread < batches % threads);
        let reader = Reader {
            db: db.clone(),
            records: stage.records.clone(),
            rng: fastrand::Rng::with_seed(stage.seed.wrapping_add(thread)),
            reads: batches * BATCH as u64,
            part: part.clone(),
        };
        running.push(spawn("demo-reader", move || read(reader))?);
    }
    for thread in running {
        thread.join().expect("readers do not panic")?;
    }
    let part = Arc::into_inner(part).expect("the threads are gone");
    let bytes = reads * stage.records.record_bytes();
    stage.report.rate(format!("{row}, {threads} threads"), reads, bytes, part.end());
    Ok(())
}

/// Draws an index, and whether to read the record's key (true) or the absent key that follows it
/// (false).
fn next_index(rng: &mut fastrand::Rng, records: &Records) -> (u64, bool) {
    (rng.u64(..records.count()), rng.u64(..ABSENT) != 0)
}

fn read_points(mut reader: Reader) -> DemoOutcome {
    let records = &reader.records;
    let mut expected = Vec::new();
    for read in 1..=reader.reads {
        let (index, present) = next_index(&mut reader.rng, records);
        let key = if present { records.key(index) } else { records.absent_key(index) };
        let found = reader.db.get_pinned(key)?;
        check(records, index, present, found.as_deref(), &mut expected)?;
        if read % BATCH as u64 == 0 {
            reader.part.advance(BATCH as u64);
        }
    }
    Ok(())
}

fn read_batches(mut reader: Reader) -> DemoOutcome {
    let records = &reader.records;
    let mut expected = Vec::new();
    for _ in 0..reader.reads / BATCH as u64 {
        let wanted: Vec<_> = (0..BATCH).map(|_| next_index(&mut reader.rng, records)).collect();
        let key_of = |(index, present): &(u64, bool)| match present {
            true => records.key(*index),
            false => records.absent_key(*index),
        };
        let keys: Vec<_> = wanted.iter().map(key_of).collect();
        for ((index, present), found) in wanted.into_iter().zip(reader.db.multi_get(&keys)) {
            check(records, index, present, found?.as_deref(), &mut expected)?;
        }
        reader.part.advance(BATCH as u64);
    }
    Ok(())
}

/// Compares an answer with the record.
pub(crate) fn check(
    records: &Records,
    index: u64,
    present: bool,
    found: Option<&[u8]>,
    expected: &mut Vec<u8>,
) -> DemoOutcome {
    records.fill_value(index, expected);
    match found {
        None if !present => Ok(()),
        Some(value) if present && value == expected.as_slice() => Ok(()),
        None => Err(wrong(&records.key(index), "is not there")),
        Some(_) if present => Err(wrong(&records.key(index), "has a wrong value")),
        Some(_) => Err(wrong(&records.absent_key(index), "has a value, and should not be there")),
    }
}

pub(crate) fn wrong(key: &[u8], how: &str) -> DemoFailure {
    DemoFailure::new(format_args!(
        "VERIFICATION FAILED: key '{}' {how}",
        String::from_utf8_lossy(key).trim_end()
    ))
}
