//! The axes: each makes a database with `n` things of one kind.
//!
//! In: `n`. Out: the [`GrowthSubject`], open, with `n` more of these things. To add an axis: a line
//! in [`ALL`], a function, and a section in `docs/growth.md`.

use super::subject::{GrowthSubject, SIDE, VALUE, key};
use esker::options::{BottommostLevelCompaction, CompactRangeOptions};
use esker::txn::WritePolicy;
use esker::{
    ColumnFamilyDescriptor, CompactionOptions, Options, Result, TransactionOptions, WriteBatch, WriteOptions,
};

/// A kind of thing of which a database may have many.
pub(super) struct Axis {
    /// Its name in `docs/growth.md`.
    pub(super) name: &'static str,
    /// The smallest `n` of the short form.
    pub(super) unit: u64,
    /// Options that it needs.
    pub(super) options: fn(&mut Options, u64),
    /// The policy of its transactions.
    pub(super) write_policy: WritePolicy,
    /// Makes `n` things of this kind.
    pub(super) grow: fn(&mut GrowthSubject, u64) -> Result<()>,
}

const fn axis(name: &'static str, unit: u64, grow: fn(&mut GrowthSubject, u64) -> Result<()>) -> Axis {
    Axis { name, unit, options: |_, _| (), write_policy: WritePolicy::WriteCommitted, grow }
}

/// Every axis.
pub(super) const ALL: &[Axis] = &[
    axis("families", 32, families),
    axis("files in level 0", 8, files_in_level_0),
    axis("files in a level", 32, files_in_a_level),
    Axis { options: many_levels, ..axis("levels", 3, levels) },
    axis("snapshots", 256, snapshots),
    axis("iterators", 64, iterators),
    axis("range deletions apart", 64, |s, n| range_deletions(s, n, |i, _| (10 * i, 10 * i + 5))),
    axis("range deletions nested", 64, |s, n| range_deletions(s, n, |i, n| (i, 2 * n - i))),
    axis("range deletions overlapping", 64, |s, n| range_deletions(s, n, |i, n| (i, n + i))),
    axis("range deletions from one begin", 64, |s, n| range_deletions(s, n, |i, _| (0, i + 1))),
    axis("range deletions in a table", 64, |s, n| {
        range_deletions(s, n, |i, _| (0, i + 1))?;
        s.flush()
    }),
    axis("deletions in a row", 256, deletions_in_a_row),
    axis("deletions in a table", 256, |s, n| {
        deletions_in_a_row(s, n)?;
        s.flush()
    }),
    axis("keys in a memtable", 256, |s, n| (0..n).try_for_each(|i| s.put(i))),
    axis("WAL records", 256, |s, n| (0..n).try_for_each(|i| s.put(i % 8))),
    axis("WAL files", 8, wal_files),
    axis("prepared transactions", 32, prepared_transactions),
    Axis {
        write_policy: WritePolicy::WritePrepared,
        ..axis("prepared transactions in memtables", 64, prepared_transactions)
    },
    Axis {
        write_policy: WritePolicy::WriteUnprepared,
        ..axis("transactions that have spilled", 64, spilled_transactions)
    },
    axis("writes of a prepared transaction", 256, writes_of_a_transaction),
    Axis {
        write_policy: WritePolicy::WritePrepared,
        ..axis("writes of a prepared transaction in memtables", 256, writes_of_a_transaction)
    },
    axis("transactions with locks", 32, transactions_with_locks),
    axis("locks of a transaction", 64, locks_of_a_transaction),
    Axis { options: |options, _| options.cf.enable_blob_files = true, ..axis("blob files", 8, blob_files) },
    axis("bytes of a value", 400_000, |s, n| s.db().put(key(0), vec![b'v'; n as usize])),
];

/// `n` families with a key each in memory. The database is opened again in between, so that their
/// creation is in the MANIFEST.
fn families(subject: &mut GrowthSubject, n: u64) -> Result<()> {
    let family = |i| ColumnFamilyDescriptor::new(format!("family{i}"), subject.options.cf.clone());
    let families: Vec<_> = (0..n).map(family).collect();
    subject.transaction_db().create_column_families(&families)?;
    subject.families.extend(families);
    subject.close()?;
    subject.open()?;
    let mut batch = WriteBatch::new();
    for name in subject.db().column_family_names() {
        let made = subject.db().column_family(&name).filter(|_| name != "default");
        made.map_or(Ok(()), |family| batch.put_cf(family.id(), b"key", VALUE))?;
    }
    subject.db().write(&mut batch)
}

fn files_in_level_0(subject: &mut GrowthSubject, n: u64) -> Result<()> {
    (0..n).try_for_each(|i| {
        subject.put(i)?;
        subject.db().put("b", VALUE)?;
        subject.db().put("y", VALUE)?;
        subject.flush()
    })
}

fn files_in_a_level(subject: &mut GrowthSubject, n: u64) -> Result<()> {
    let files = (0..n).map(|i| subject.table(vec![(key(i), VALUE.to_vec())])).collect::<Result<_>>()?;
    subject.ingest(files)
}

/// Sets enough levels for the files. With this limit, an iterator seeks from the third version of a
/// key on, at every `n`. With the default limit, it would begin to seek only at larger `n`.
fn many_levels(options: &mut Options, n: u64) {
    options.cf.num_levels = n as i32 + 3;
    options.cf.max_sequential_skip_in_iterations = 2;
}

/// A file with the same two keys in each of `n` levels.
fn levels(subject: &mut GrowthSubject, n: u64) -> Result<()> {
    (1..=n).rev().try_for_each(|level| {
        subject.put(0)?;
        subject.put(1)?;
        subject.flush()?;
        let files = subject.db().live_files().into_iter();
        let flushed: Vec<_> = files.filter(|file| file.level == 0).map(|file| file.file_number).collect();
        let options = CompactionOptions::default();
        subject.db().compact_files(&options, &subject.default_family(), &flushed, level as usize).map(drop)
    })
}

/// Compacts the keys of an axis into one table.
fn compact(subject: &GrowthSubject) -> Result<()> {
    let options = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::ForceOptimized,
        ..CompactRangeOptions::default()
    };
    subject.db().compact_range_opt(&options, &subject.default_family(), Some(b"m"), Some(b"n"))
}

fn snapshots(subject: &mut GrowthSubject, n: u64) -> Result<()> {
    (0..n).try_for_each(|_| {
        subject.put(0)?;
        subject.snapshots.push(subject.db().snapshot());
        Ok(())
    })
}

fn iterators(subject: &mut GrowthSubject, n: u64) -> Result<()> {
    subject.put(0)?;
    (0..n).try_for_each(|_| {
        let mut iterator = subject.iterator("m")?;
        iterator.seek_to_first();
        iterator.status()?;
        subject.iterators.push(iterator);
        Ok(())
    })
}

/// `n` range deletions in the memtable; `shape` gives begin and end of the `i`-th.
fn range_deletions(subject: &mut GrowthSubject, n: u64, shape: fn(u64, u64) -> (u64, u64)) -> Result<()> {
    (0..n).try_for_each(|i| {
        let (begin, end) = shape(i, n);
        subject.db().delete_range(key(begin), key(end))
    })
}

/// `n` keys in a table of the last level, and their deletions in the memtable.
fn deletions_in_a_row(subject: &mut GrowthSubject, n: u64) -> Result<()> {
    let table = subject.table((0..n).map(|i| (key(i), VALUE.to_vec())).collect())?;
    subject.ingest(vec![table])?;
    (0..n).try_for_each(|i| subject.db().delete(key(i)))
}

/// `n` WAL files: an idle family keeps the first WAL, and so all later ones.
fn wal_files(subject: &mut GrowthSubject, n: u64) -> Result<()> {
    let idle = ColumnFamilyDescriptor::new("idle", subject.options.cf.clone());
    let made = subject.transaction_db().create_column_families(std::slice::from_ref(&idle))?;
    subject.families.push(idle);
    subject.db().put_cf(&made[0], "key", VALUE)?;
    (0..n).try_for_each(|_| {
        subject.put(0)?;
        subject.flush()
    })?;
    compact(subject)
}

fn prepared_transactions(subject: &mut GrowthSubject, n: u64) -> Result<()> {
    (0..n).try_for_each(|i| {
        let transaction = subject.transaction();
        transaction.set_name(format!("axis{i}").as_bytes())?;
        transaction.put(key(i), VALUE)?;
        transaction.prepare()?;
        subject.transactions.push(transaction);
        Ok(())
    })
}

/// `n` transactions, each with a write that it has spilled and one that it has not.
fn spilled_transactions(subject: &mut GrowthSubject, n: u64) -> Result<()> {
    (0..n).try_for_each(|i| {
        let how = TransactionOptions { write_batch_flush_threshold: 1, ..TransactionOptions::default() };
        let transaction = subject.transaction_db().begin_transaction_opt(&WriteOptions::default(), &how);
        transaction.set_name(format!("axis{i}").as_bytes())?;
        transaction.put(key(2 * i), VALUE)?;
        transaction.put(key(2 * i + 1), VALUE)?;
        subject.transactions.push(transaction);
        Ok(())
    })
}

/// One prepared transaction of `n` writes.
fn writes_of_a_transaction(subject: &mut GrowthSubject, n: u64) -> Result<()> {
    let transaction = subject.transaction();
    transaction.set_name(b"axis")?;
    (0..n).try_for_each(|i| transaction.put(key(i), VALUE))?;
    transaction.prepare()?;
    subject.transactions.push(transaction);
    Ok(())
}

fn transactions_with_locks(subject: &mut GrowthSubject, n: u64) -> Result<()> {
    (0..n).try_for_each(|i| {
        let transaction = subject.transaction();
        transaction.get_for_update(key(i))?;
        subject.transactions.push(transaction);
        Ok(())
    })
}

fn locks_of_a_transaction(subject: &mut GrowthSubject, n: u64) -> Result<()> {
    let transaction = subject.transaction();
    (0..n).try_for_each(|i| transaction.get_for_update(key(i)).map(drop))?;
    subject.transactions.push(transaction);
    Ok(())
}

/// `n` blob files behind one table.
fn blob_files(subject: &mut GrowthSubject, n: u64) -> Result<()> {
    (0..n).try_for_each(|i| {
        subject.put(i)?;
        subject.flush()
    })?;
    compact(subject)
}

const _: () = assert!(SIDE >= 16, "operations use the first keys of each side");
