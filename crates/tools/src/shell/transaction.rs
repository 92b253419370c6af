//! Transactions: begin, commit, rollback, savepoints, locks.
//!
//! Invariant: a savepoint of the user is a save point of the transaction, in the same order.

use super::Out;
use super::database::DbShell;
use super::words::key_text;
use crate::failure::{CommandOutcome, Failure};
use crate::units;
use esker::txn::{LockInfo, LockMode};
use esker::{
    OptimisticTransaction, OptimisticTransactionDb, Transaction, TransactionDb, TransactionDbOptions,
};
use std::io::Write;

/// An open transaction, and the names of its savepoints, oldest first.
pub(super) enum ShellTransaction {
    Locking(Transaction, Vec<String>),
    Optimistic(Box<OptimisticTransaction>, Vec<String>),
}

impl ShellTransaction {
    /// The number of writes.
    pub(super) fn writes(&self) -> u64 {
        match self {
            ShellTransaction::Locking(txn, _) => txn.num_puts() + txn.num_deletes() + txn.num_merges(),
            ShellTransaction::Optimistic(txn, _) => txn.num_puts() + txn.num_deletes() + txn.num_merges(),
        }
    }

    fn savepoints(&mut self) -> &mut Vec<String> {
        match self {
            ShellTransaction::Locking(_, names) | ShellTransaction::Optimistic(_, names) => names,
        }
    }

    fn set_save_point(&self) {
        match self {
            ShellTransaction::Locking(txn, _) => txn.set_save_point(),
            ShellTransaction::Optimistic(txn, _) => txn.set_save_point(),
        }
    }

    fn roll_back_to_save_point(&self) -> esker::Result<()> {
        match self {
            ShellTransaction::Locking(txn, _) => txn.rollback_to_save_point(),
            ShellTransaction::Optimistic(txn, _) => txn.rollback_to_save_point(),
        }
    }
}

impl DbShell<'_> {
    pub(super) fn begin(&mut self, is_optimistic: bool, out: &mut Out) -> CommandOutcome {
        if self.transaction.is_some() {
            return Err(Failure::new("a transaction is open: commit or rollback ends it"));
        }
        if self.limits.is_some() {
            return Err(Failure::new("the database is not open for writing"));
        }
        self.transaction = Some(if is_optimistic {
            let txn = OptimisticTransactionDb::wrap(&self.db)?.begin_transaction();
            ShellTransaction::Optimistic(Box::new(txn), Vec::new())
        } else {
            let locking = match self.locking.take() {
                Some(locking) => locking,
                None => TransactionDb::wrap(&self.db, &TransactionDbOptions::default())?,
            };
            let txn = self.locking.insert(locking).begin_transaction();
            ShellTransaction::Locking(txn, Vec::new())
        });
        self.say_ok(out)
    }

    /// The transaction for the prompt.
    pub(super) fn describe(&self, transaction: &ShellTransaction) -> String {
        let writes = units::counted(transaction.writes(), "write");
        match transaction {
            ShellTransaction::Locking(..) => {
                let locks = self.locks().len() as u64;
                format!("transaction: {writes}, {}", units::counted(locks, "lock"))
            }
            ShellTransaction::Optimistic(..) => format!("optimistic: {writes}"),
        }
    }

    fn locks(&self) -> Vec<LockInfo> {
        self.locking.as_ref().map(TransactionDb::get_lock_status_data).unwrap_or_default()
    }

    fn open_transaction(&mut self) -> CommandOutcome<&mut ShellTransaction> {
        self.transaction.as_mut().ok_or_else(|| Failure::new("no transaction is open: begin opens one"))
    }

    pub(super) fn commit(&mut self, out: &mut Out) -> CommandOutcome {
        match self.open_transaction()? {
            ShellTransaction::Locking(txn, _) => txn.commit()?,
            ShellTransaction::Optimistic(txn, _) => txn.commit().map_err(|e| {
                Failure::new(format_args!("{e}; the transaction is still open: rollback ends it"))
            })?,
        }
        self.transaction = None;
        self.say_ok(out)
    }

    pub(super) fn roll_back(&mut self, out: &mut Out) -> CommandOutcome {
        match self.open_transaction()? {
            ShellTransaction::Locking(txn, _) => txn.rollback()?,
            ShellTransaction::Optimistic(txn, _) => txn.rollback()?,
        }
        self.transaction = None;
        self.say_ok(out)
    }

    pub(super) fn set_savepoint(&mut self, name: Option<&str>, out: &mut Out) -> CommandOutcome {
        let transaction = self.open_transaction()?;
        transaction.set_save_point();
        transaction.savepoints().push(name.unwrap_or_default().to_owned());
        self.say_ok(out)
    }

    /// Undoes the writes behind the newest savepoint, or the newest of this name.
    pub(super) fn roll_back_to(&mut self, name: Option<&str>, out: &mut Out) -> CommandOutcome {
        let transaction = self.open_transaction()?;
        let names = transaction.savepoints();
        let at = names.iter().rposition(|other| name.is_none_or(|name| name == other));
        let at = at.ok_or_else(|| match name {
            None => Failure::new("there is no savepoint"),
            Some(name) => {
                let names = names.iter().filter(|name| !name.is_empty()).cloned().collect::<Vec<_>>();
                Failure::new(format_args!("there is no savepoint '{name}'; there are: {}", names.join(", ")))
            }
        })?;
        for _ in at..transaction.savepoints().len() {
            transaction.roll_back_to_save_point()?;
        }
        // The engine has removed the save point, and the user's savepoint stays.
        transaction.set_save_point();
        transaction.savepoints().truncate(at + 1);
        self.say_ok(out)
    }

    pub(super) fn list_locks(&mut self, out: &mut Out) -> CommandOutcome {
        if let ShellTransaction::Optimistic(..) = self.open_transaction()? {
            return self.say("an optimistic transaction holds no locks", out);
        }
        for lock in self.locks() {
            let names = self.db.column_family_names();
            let mut families = names.iter().filter_map(|name| self.db.column_family(name));
            let family = families.find(|family| family.id() == lock.family);
            let family = family.map_or_else(|| "?".to_owned(), |f| key_text(f.name().as_bytes()));
            let mode = match lock.mode {
                LockMode::Shared => "shared",
                LockMode::Exclusive => "exclusive",
            };
            let (start, end) = (&lock.start.key, &lock.end.key);
            let keys = match start == end {
                true => key_text(start),
                false => format!("{} to {}", key_text(start), key_text(end)),
            };
            writeln!(out, "{family}  {mode}  {keys}")?;
        }
        Ok(())
    }
}
