//! The process that the demonstration kills. Its threads write at full speed and report each
//! acknowledged write.
//!
//! Out, on standard output: `THREAD SEQUENCE\n` for each acknowledged write. One system call writes
//! the line, so a kill cannot cut it. The first of the four threads syncs each of its writes. The
//! other threads do not sync, and `kill -9` must not lose their writes, either.
//!
//! Each write is a batch of two keys with the same value. Both keys must survive, or neither key.

use crate::db_options;
use crate::failure::{DemoFailure, DemoOutcome};
use crate::options::VictimOptions;
use crate::records::fill_value;
use esker::internals::env::spawn;
use esker::{Db, WriteBatch, WriteOptions};
use std::io::Write;

/// Number of writing threads. The first thread syncs.
pub(crate) const WRITERS: u32 = 4;

/// The `sequence`-th batch of a writer thread in a round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VictimWrites {
    pub(crate) round: u32,
    pub(crate) thread: u32,
    pub(crate) sequence: u64,
}

impl VictimWrites {
    /// The first (`half` 0) or second (`half` 1) key of the batch. Keys sort behind all records, in
    /// the order of `sequence`.
    pub(crate) fn key(&self, half: u8) -> Vec<u8> {
        let mut key = VictimWrites::prefix(self.round, self.thread, half);
        key.extend_from_slice(format!("{:010}", self.sequence).as_bytes());
        key
    }

    /// The prefix of the first (`half` 0) or second (`half` 1) keys of a thread's batches.
    pub(crate) fn prefix(round: u32, thread: u32, half: u8) -> Vec<u8> {
        format!("victim-{round:03}-{thread:02}-{half}-").into_bytes()
    }

    pub(crate) fn fill_value(&self, value: &mut Vec<u8>) {
        let seed = (u64::from(self.round) << 48) ^ (u64::from(self.thread) << 40) ^ self.sequence;
        fill_value(seed, 100, value);
    }
}

/// Writes until the process is killed or its standard output is closed.
pub(crate) fn run(options: &VictimOptions) -> DemoOutcome {
    let db = Db::open(&db_options()?, &options.dir)?;
    let mut writers = Vec::new();
    for thread in 0..WRITERS {
        let (db, round) = (db.clone(), options.round);
        writers.push(spawn("demo-victim", move || write_forever(&db, round, thread))?);
    }
    for writer in writers {
        writer.join().map_err(|_| DemoFailure::new("a writer panicked"))??;
    }
    Ok(())
}

fn write_forever(db: &Db, round: u32, thread: u32) -> DemoOutcome {
    let options = WriteOptions::default().sync(thread == 0);
    let family = db.default_column_family().id();
    let mut batch = WriteBatch::new();
    let mut value = Vec::new();
    for sequence in 0.. {
        let written = VictimWrites { round, thread, sequence };
        written.fill_value(&mut value);
        batch.clear();
        batch.put_cf(family, written.key(0), &value)?;
        batch.put_cf(family, written.key(1), &value)?;
        db.write_opt(&options, &mut batch)?;
        acknowledge(thread, sequence)?;
    }
    Ok(())
}

/// Reports a write. The line buffer passes a whole line to the pipe in one call of `write`, which
/// is atomic for short lines.
fn acknowledge(thread: u32, sequence: u64) -> DemoOutcome {
    std::io::stdout().lock().write_all(format!("{thread} {sequence}\n").as_bytes())?;
    Ok(())
}
