//! The process that is killed: several threads write as fast as they can and tell of each write
//! once it has returned.
//!
//! Out, on standard output: `THREAD SEQUENCE\n` for each write that was acknowledged to its thread,
//! in one system call, so that a line is there whole or was never told. One thread of the four
//! syncs each write; `kill -9` does not ask for it.
//!
//! Each write is a batch of two keys with the same value: both must survive, or neither.

use super::db_options;
use super::records::fill_value;
use crate::failure::{Failure, Outcome};
use clap::Args;
use esker::internals::env::spawn;
use esker::{Db, WriteBatch, WriteOptions};
use std::io::Write;
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct VictimOptions {
    #[arg(long)]
    dir: PathBuf,
    #[arg(long)]
    round: u32,
}

/// Threads that write; the first one syncs.
pub(super) const WRITERS: u32 = 4;

/// What a writer thread of a round wrote as its `sequence`-th batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    pub(super) round: u32,
    pub(super) thread: u32,
    pub(super) sequence: u64,
}

impl Written {
    /// Sorts behind the records' keys, and by sequence.
    pub(super) fn key(&self, half: u8) -> Vec<u8> {
        let mut key = Written::prefix(self.round, self.thread, half);
        key.extend_from_slice(format!("{:010}", self.sequence).as_bytes());
        key
    }

    /// Of all keys of one half of a thread's batches.
    pub(super) fn prefix(round: u32, thread: u32, half: u8) -> Vec<u8> {
        format!("victim-{round:03}-{thread:02}-{half}-").into_bytes()
    }

    pub(super) fn fill_value(&self, value: &mut Vec<u8>) {
        let seed = (u64::from(self.round) << 48) ^ (u64::from(self.thread) << 40) ^ self.sequence;
        fill_value(seed, 100, value);
    }
}

/// Writes until it is killed, or until nobody reads its standard output any more.
pub(crate) fn run(options: &VictimOptions) -> Outcome {
    let db = Db::open(&db_options()?, &options.dir)?;
    let mut writers = Vec::new();
    for thread in 0..WRITERS {
        let (db, round) = (db.clone(), options.round);
        writers.push(spawn("demo-victim", move || write_forever(&db, round, thread))?);
    }
    for writer in writers {
        writer.join().map_err(|_| Failure::new("a writer panicked"))??;
    }
    Ok(())
}

fn write_forever(db: &Db, round: u32, thread: u32) -> Outcome {
    let options = WriteOptions::default().sync(thread == 0);
    let family = db.default_column_family().id();
    let mut batch = WriteBatch::new();
    let mut value = Vec::new();
    for sequence in 0.. {
        let written = Written { round, thread, sequence };
        written.fill_value(&mut value);
        batch.clear();
        batch.put(family, &written.key(0), &value)?;
        batch.put(family, &written.key(1), &value)?;
        db.write(&options, &mut batch)?;
        acknowledge(thread, sequence)?;
    }
    Ok(())
}

/// A whole line ending in a newline goes from the line buffer to the pipe in one `write`, which is
/// atomic at this length.
fn acknowledge(thread: u32, sequence: u64) -> Outcome {
    std::io::stdout().lock().write_all(format!("{thread} {sequence}\n").as_bytes())?;
    Ok(())
}
