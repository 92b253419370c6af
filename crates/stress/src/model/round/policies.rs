//! Write policies of transactions, each for one life of the database.
//!
//! In: the parameters of the round. Out: a policy for each life, and steps in the journal for the
//! sequence numbers that spills and rollbacks take.

use super::journal::Journal;
use super::transactions::TransactionStage;
use super::{Changes, Round};
use esker::txn::WritePolicy;

impl Round {
    /// Draws the write policy of the next life.
    pub(super) fn draw_policy(&mut self) {
        if !self.parameters.mixes_policies {
            return;
        }
        let policy = [WritePolicy::WriteCommitted, WritePolicy::WritePrepared, WritePolicy::WriteUnprepared];
        self.settings.write_policy = policy[self.rng.usize(1..6) / 2];
        // Spills do not skip the WAL, and would survive without earlier writes that do.
        if policy[2] == self.settings.write_policy && !self.journal.as_ref().is_some_and(Journal::unlogged) {
            self.settings.spill_threshold = [0, 1, 100, 1000][self.rng.usize(..4)];
        }
    }

    /// Counts an opening for transactions.
    pub(super) fn count_policy(&mut self) {
        self.steps.policies[self.settings.write_policy as usize] += 1;
    }

    /// Whether transactions spill ops, so that they have a name from the beginning.
    pub(super) fn may_spill(&self) -> bool {
        self.settings.spill_threshold > 0
    }

    /// Enters the numbers that spills and rollbacks took into the journal, as an empty step.
    pub(super) fn note_spills(&mut self) {
        let last = self.db().latest_sequence_number().0;
        if self.may_spill()
            && !self.refuses_writes()
            && std::mem::replace(&mut self.noted_sequence, last) != last
            && let Some(journal) = &mut self.journal
        {
            journal.stepped(last, false, TransactionStage::Changes(Changes::new()));
        }
    }
}
