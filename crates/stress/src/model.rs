//! Compares the answers of random operations with a model. The database has several families, lies
//! in memory, and is so small that all its parts interact. The model of a family is a sorted array
//! of its expected contents.
//!
//! In: a seed, numbers of rounds and operations, kinds of operation to leave out. Out: counts, or
//! the first [`Divergence`]. Each round is a database of its own with seed `seed + round`. Flushes
//! and compactions run in background threads. So a seed repeats the operations, but not the times
//! of background work.
//!
//! Reading order: `families` (order, merge operator and keys), `state` (expected contents),
//! `settings` (options of one opening), `cursor` (an iterator and its expected position), `round`
//! (the operations).

mod cursor;
pub(crate) mod families;
pub(crate) mod round;
pub(crate) mod settings;
pub(crate) mod state;

pub use round::OperationKind;

use crate::audit::Audited;
use round::Round;
use std::fmt;
use std::time::Instant;

/// Parameters of a campaign.
#[derive(Clone, Debug)]
pub struct ModelParameters {
    /// Seed of the first round.
    pub seed: u64,
    /// Number of databases, one after the other.
    pub rounds: u64,
    /// Number of operations of each database.
    pub operations: u64,
    /// Kinds of operation to leave out, for shrinking.
    pub without: Vec<OperationKind>,
    /// Keys of each family; 0 lets the seed choose.
    pub keys: usize,
    /// Wait for background work after every operation: slow, but repeatable.
    pub calm: bool,
    /// Use only families that RocksDB can read too.
    pub shared_orders: bool,
    /// Use timestamps of eight bytes, which databases with transactions need.
    pub timestamps_of_transactions: bool,
    /// Open the database under `WritePrepared`, too. Then no family has timestamps.
    pub mixes_policies: bool,
    /// Print each round's numbers to standard error.
    pub verbose: bool,
}

impl ModelParameters {
    /// The parameters of a round with or without transactions, and perhaps with all write policies.
    pub(crate) fn with_policies(&self, rng: &mut fastrand::Rng, with_transactions: bool) -> ModelParameters {
        let mixes_policies = with_transactions && rng.bool();
        ModelParameters { timestamps_of_transactions: with_transactions, mixes_policies, ..self.clone() }
    }
}

impl Default for ModelParameters {
    fn default() -> ModelParameters {
        ModelParameters {
            seed: 1,
            rounds: 1,
            operations: 20_000,
            without: Vec::new(),
            keys: 0,
            calm: false,
            shared_orders: false,
            timestamps_of_transactions: false,
            mixes_policies: false,
            verbose: false,
        }
    }
}

/// Counts of a campaign.
#[derive(Clone, Debug, Default)]
pub struct ModelReport {
    /// Number of operations.
    pub operations: u64,
    /// Operations by kind.
    pub by_kind: Vec<(OperationKind, u64)>,
    /// Answers that were compared with the model.
    pub comparisons: u64,
    /// Steps of transactions, if the rounds have transactions.
    pub steps: Steps,
    /// Counts of the audits.
    pub audited: Audited,
    /// Duration in seconds.
    pub seconds: f64,
}

/// Counts of the steps of transactions, and of deleted files.
#[derive(Clone, Copy, Debug, Default)]
pub struct Steps {
    /// Transactions prepared.
    pub prepared: u64,
    /// Transactions committed without being prepared.
    pub committed: u64,
    /// Prepared transactions that were committed.
    pub committed_prepared: u64,
    /// Prepared transactions that were rolled back.
    pub rolled_back_prepared: u64,
    /// Transactions found prepared after a crash.
    pub found: u64,
    /// Crashes after which at least one transaction was found prepared.
    pub crashes_with_some: u64,
    /// Tables that were deleted as whole files.
    pub files_deleted: u64,
    /// Rollbacks to save points.
    pub save_points: u64,
    /// Openings under each write policy.
    pub policies: [u64; 3],
    /// Copies and instances beside the owner that were compared.
    pub copies: u64,
    /// Secondaries that refused the WALs of an early policy.
    pub refused_beside: u64,
}

impl Steps {
    pub(crate) fn add(&mut self, more: &Steps) {
        self.prepared += more.prepared;
        self.committed += more.committed;
        self.committed_prepared += more.committed_prepared;
        self.rolled_back_prepared += more.rolled_back_prepared;
        self.found += more.found;
        self.crashes_with_some += more.crashes_with_some;
        self.files_deleted += more.files_deleted;
        self.save_points += more.save_points;
        self.copies += more.copies;
        self.refused_beside += more.refused_beside;
        self.policies.iter_mut().zip(more.policies).for_each(|(sum, more)| *sum += more);
    }
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "transactions: {} committed, {} prepared, of which {} committed and {} rolled back; {} found prepared after {} \
             crashes; {} rollbacks to save points; openings as WriteCommitted, WritePrepared, WriteUnprepared: {:?}; {} \
             copies compared, {} secondaries refused; {} tables deleted whole",
            self.committed,
            self.prepared,
            self.committed_prepared,
            self.rolled_back_prepared,
            self.found,
            self.crashes_with_some,
            self.save_points,
            self.policies,
            self.copies,
            self.refused_beside,
            self.files_deleted
        )
    }
}

impl fmt::Display for ModelReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ModelReport { operations, comparisons, seconds, .. } = self;
        writeln!(
            f,
            "model: {operations} operations, {comparisons} answers compared, 0 divergences, {}, {seconds:.1} s",
            self.audited
        )?;
        for (kind, count) in &self.by_kind {
            write!(f, "{kind:?} {count}  ")?;
        }
        Ok(())
    }
}

/// An answer of the database that differs from the model.
#[derive(Clone, Debug)]
pub struct Divergence {
    /// Seed of the round. A run with this seed and with `rounds` 1 repeats the round.
    pub seed: u64,
    /// Number of the operation, from 0.
    pub operation: u64,
    /// The question, both answers, and the last changes of the key.
    pub what: String,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "model: divergence with seed {} at operation {}: {}", self.seed, self.operation, self.what)
    }
}

/// Runs the campaign.
/// # Errors
/// The first divergence.
#[expect(clippy::disallowed_methods, reason = "the clock of the report, not of the engine")]
#[expect(clippy::print_stderr, reason = "progress of a command that takes minutes")]
pub fn run(parameters: &ModelParameters) -> Result<ModelReport, Divergence> {
    let start = Instant::now();
    let mut report = ModelReport::default();
    for round in 0..parameters.rounds {
        let seed = parameters.seed.wrapping_add(round);
        let mut round = Round::new(seed, parameters);
        round.run(&mut report).map_err(|what| Divergence { seed, operation: round.operation(), what })?;
        if parameters.verbose {
            eprintln!(
                "model: seed {seed}: {} ({:.1} s so far)",
                round.describe(),
                start.elapsed().as_secs_f64()
            );
        }
    }
    report.seconds = start.elapsed().as_secs_f64();
    Ok(report)
}
