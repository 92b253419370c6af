//! Transactions, with locks and without, over memory and a disk that crashes.

mod bad_input;
mod batch;
mod batch_counts;
mod batches;
mod coalescing;
mod counts;
mod cut_short;
mod early_sections;
mod entities;
mod foreign_numbers;
mod indices;
mod ingest_batch;
mod isolation;
mod locking;
mod optimistic;
mod parallel_validation;
mod popped;
mod repaired;
mod secondaries;
mod single_deletions;
mod timestamped_snapshots;
mod timestamps;
mod two_phase;
mod uncommitted_entries;
mod unseen_reads;
mod write_prepared;
mod write_unprepared;

use esker::internals::env::mem::MemFs;
use esker::{Env, Options, TransactionDb, TransactionDbOptions};
use std::sync::Arc;

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.merge_operator = Some(esker::builtin::string_append(","));
    options
}

fn open() -> TransactionDb {
    TransactionDb::open(&options(), &TransactionDbOptions::default(), "/db").unwrap()
}

/// Returns as soon as `waits` requests for locks are waiting.
fn until_waits(db: &TransactionDb, waits: usize) {
    while db.get_waiting_transactions().len() < waits {
        std::thread::yield_now();
    }
}
