//! The operations: every kind of call, on a database in which something has grown.
//!
//! In: a [`GrowthSubject`] that an axis has grown. Out: the call to be measured, with all
//! preparations done. To add an operation: a line in [`ALL`], a function, and its rows in
//! `docs/growth.md`.

use super::subject::{Act, GrowthSubject, SIDE, VALUE};
use esker::internals::env::fault::{FaultRule, OpKind};
use esker::options::CompactionStyle;
use esker::txn::{TransactionState, WritePolicy};
use esker::{
    BackupEngine, BackupEngineOptions, ColumnFamilyDescriptor, Db, DbIterator, ErrorKind,
    IngestExternalFileOptions, Options, Result, WriteBatch,
};

/// A kind of call.
pub(super) struct Operation {
    /// Its name in `docs/growth.md`.
    pub(super) name: &'static str,
    /// Whether it needs a database of its own, because its effects would change the measurement of
    /// the next operation.
    pub(super) alone: bool,
    /// Options that it needs, if it has a database of its own.
    pub(super) options: fn(&mut Options),
    /// Prepares it.
    pub(super) prepare: fn(&mut GrowthSubject) -> Result<Act>,
}

/// An operation on a database that it shares with other operations.
const fn beside(name: &'static str, prepare: fn(&mut GrowthSubject) -> Result<Act>) -> Operation {
    Operation { name, alone: false, options: |_| (), prepare }
}

/// An operation on a database of its own.
const fn alone(name: &'static str, prepare: fn(&mut GrowthSubject) -> Result<Act>) -> Operation {
    Operation { name, alone: true, options: |_| (), prepare }
}

/// Every operation. Those that share a database run in this order.
pub(super) const ALL: &[Operation] = &[
    beside("get", |_| act(get)),
    beside("multi_get", |_| act(multi_get)),
    beside("iterator", |_| act(|s| s.iterator("b").map(drop))),
    beside("seek", seek),
    beside("seek again", seek),
    beside("next", |s| walk(s, "a31", DbIterator::next)),
    beside("next again", |s| walk(s, "a31", DbIterator::next)),
    beside("prev", |s| walk(s, "z00", DbIterator::prev)),
    beside("prev again", |s| walk(s, "z00", DbIterator::prev)),
    beside("snapshot", |_| act(|s| times(4, |_| s.db().put("b", VALUE).map(|()| drop(s.db().snapshot()))))),
    beside("properties", |_| act(|s| properties(s, NUMBERS))),
    beside("texts", |_| act(|s| properties(s, TEXTS))),
    beside("verify", |_| act(|s| s.db().verify_checksum())),
    beside("lock", |_| act(lock)),
    beside("prepare", |s| {
        let mut transactions = named(s, "prepare")?;
        act(move |s| {
            transactions.iter_mut().try_for_each(|transaction| transaction.prepare())?;
            s.keep(transactions);
            Ok(())
        })
    }),
    beside("commit", |s| {
        let mut transactions = named(s, "commit")?;
        transactions.iter_mut().try_for_each(|transaction| transaction.prepare())?;
        act(move |_| transactions.iter_mut().try_for_each(|transaction| transaction.commit()))
    }),
    beside("put", |_| act(|s| times(4, |i| s.db().put(format!("p{i}"), VALUE)))),
    beside("batch", |_| act(batch)),
    alone("delete_range", |_| act(|s| times(4, |i| s.db().delete_range(format!("n{i}"), format!("n{i}5"))))),
    alone("delete_range then seek", |s| {
        delete_range_then_seek(s)?;
        act(delete_range_then_seek)
    }),
    alone("pop", |s| {
        pop(s)?;
        act(pop)
    }),
    alone("create family", |s| {
        let options = s.options.cf.clone();
        act(move |s| times(2, |i| s.db().create_column_family(&format!("new{i}"), &options).map(drop)))
    }),
    alone("drop family", |s| {
        let options = s.options.cf.clone();
        let made = (0..2).map(|i| s.db().create_column_family(&format!("new{i}"), &options));
        let made = made.collect::<Result<Vec<_>>>()?;
        act(move |s| made.iter().try_for_each(|family| s.db().drop_column_family(family)))
    }),
    alone("ingest", |s| {
        let table = s.table(vec![("p5".to_owned(), VALUE.to_vec())])?;
        let options = IngestExternalFileOptions { move_files: true, ..Default::default() };
        act(move |s| s.db().ingest_external_file_opt(&options, &s.db().default_column_family(), &[table]))
    }),
    alone("commit the axis", |s| {
        let mut transactions = std::mem::take(&mut s.transactions);
        transactions.retain(|transaction| transaction.state() == TransactionState::Prepared);
        act(move |s| {
            transactions.iter().try_for_each(|transaction| transaction.commit())?;
            // Their locks and batches are freed later.
            s.keep(transactions);
            Ok(())
        })
    }),
    alone("flush", |s| {
        s.db().put("b", VALUE)?;
        act(|s| s.flush())
    }),
    Operation { options: leveled, ..alone("leveled compaction", compaction) },
    Operation { options: universal, ..alone("universal compaction", compaction) },
    Operation { options: fifo, ..alone("FIFO compaction", fifo_compaction) },
    alone("compact_range", |_| act(|s| s.db().compact_range(None, None))),
    alone("resume", resume),
    alone("set_options", |_| {
        act(|s| s.db().set_options(&s.default_family(), &[("max_successive_merges", "7")]))
    }),
    alone("checkpoint", |s| {
        let path = s.fresh_path("checkpoint");
        act(move |s| s.db().create_checkpoint(path, u64::MAX).map(drop))
    }),
    alone("backup", |s| {
        let path = s.fresh_path("backup");
        let options = BackupEngineOptions { env: s.options.db.env.clone(), ..BackupEngineOptions::new(path) };
        act(move |s| BackupEngine::open(&options)?.create_new_backup(s.db(), false).map(drop))
    }),
    alone("catch up", catch_up),
    alone("close", |_| act(GrowthSubject::shut)),
    alone("open", |s| {
        s.close()?;
        act(GrowthSubject::open)
    }),
    alone("repair", |s| {
        s.close()?;
        let (options, families, path) = (s.options.clone(), s.families.clone(), s.path());
        act(move |_| esker::repair_db(&options, path, &families).map(drop))
    }),
];

/// A secondary follows a put and a batch. It refuses WALs of early transactions.
fn catch_up(subject: &mut GrowthSubject) -> Result<Act> {
    // A new WAL: a catch-up reads the rest of a WAL's block again.
    subject.db().put("b", VALUE)?;
    subject.db().flush()?;
    let own = subject.fresh_path("secondary");
    let (options, mut families) = (&subject.options.db, subject.families.clone());
    families.push(ColumnFamilyDescriptor::new("default", subject.options.cf.clone()));
    let opened = Db::open_cf_as_secondary(options, subject.path(), own, families);
    let secondary = match opened {
        Err(e)
            if e.kind() == ErrorKind::NotSupported && subject.write_policy != WritePolicy::WriteCommitted =>
        {
            return act(|_| Ok(()));
        }
        opened => opened?,
    };
    subject.db().put("b", VALUE)?;
    batch(subject)?;
    act(move |s| {
        secondary.try_catch_up_with_primary()?;
        s.keep(secondary);
        Ok(())
    })
}

fn act(act: impl FnOnce(&mut GrowthSubject) -> Result<()> + 'static) -> Result<Act> {
    Ok(Box::new(act))
}

fn times(count: u64, act: impl FnMut(u64) -> Result<()>) -> Result<()> {
    (0..count).try_for_each(act)
}

/// Keys before, between and behind those of an axis; the axis's first key, a key in its middle, and
/// an absent key.
const PROBES: [&str; 6] = ["a05", "b", "m00000000", "m00000007", "m00000007x", "z05"];

fn get(subject: &mut GrowthSubject) -> Result<()> {
    PROBES.iter().try_for_each(|key| subject.db().get(key).map(drop))
}

fn multi_get(subject: &mut GrowthSubject) -> Result<()> {
    subject.db().multi_get(&PROBES).into_iter().try_for_each(|value| value.map(drop))
}

fn seek(subject: &mut GrowthSubject) -> Result<Act> {
    let mut iterator = subject.iterator("a")?;
    act(move |s| {
        PROBES.iter().for_each(|key| iterator.seek(key));
        hand_back(s, iterator)
    })
}

fn hand_back(subject: &mut GrowthSubject, iterator: DbIterator) -> Result<()> {
    iterator.status()?;
    subject.keep(iterator);
    Ok(())
}

/// Four steps from `from`, which is the last key before those of an axis, or the first behind them.
fn walk(subject: &mut GrowthSubject, from: &str, step: fn(&mut DbIterator)) -> Result<Act> {
    let mut iterator = subject.iterator("a")?;
    iterator.seek(from);
    act(move |s| {
        (0..4).for_each(|_| step(&mut iterator));
        hand_back(s, iterator)
    })
}

fn batch(subject: &mut GrowthSubject) -> Result<()> {
    let mut batch = WriteBatch::new();
    let family = subject.default_family().id();
    times(4, |i| batch.put_cf(family, format!("q{i}").as_bytes(), VALUE))?;
    subject.db().write(&mut batch)
}

fn delete_range_then_seek(subject: &mut GrowthSubject) -> Result<()> {
    times(4, |i| {
        subject.db().delete_range(format!("n{i}"), format!("n{i}5"))?;
        let mut iterator = subject.iterator("b")?;
        iterator.seek("b");
        iterator.status()
    })
}

/// Takes the first key from a queue, four times.
fn pop(subject: &mut GrowthSubject) -> Result<()> {
    times(4, |_| {
        let mut iterator = subject.iterator("b")?;
        iterator.seek_to_first();
        let key = iterator.item().map(|(key, _)| key.to_vec());
        iterator.status()?;
        key.map_or(Ok(()), |key| subject.db().delete(key))
    })
}

fn lock(subject: &mut GrowthSubject) -> Result<()> {
    let transaction = subject.transaction();
    times(4, |i| transaction.get_for_update(format!("p{i}")).map(drop))?;
    transaction.rollback()
}

fn named(subject: &GrowthSubject, name: &str) -> Result<Vec<esker::Transaction>> {
    let transaction = |i| {
        let transaction = subject.transaction();
        transaction.set_name(format!("{name}{i}").as_bytes())?;
        transaction.put(format!("q{name}{i}"), VALUE)?;
        Ok(transaction)
    };
    (0..4).map(transaction).collect()
}

/// Prepares a compaction: flushes of the side keys make it due, without any key of the axis.
fn compaction(subject: &mut GrowthSubject) -> Result<Act> {
    flush_side(subject)?;
    compact_when_due(subject, &[])
}

fn flush_side(subject: &GrowthSubject) -> Result<()> {
    subject.flush()?;
    times(4, |i| {
        times(2, |k| subject.db().put(format!("a{:02}", i + k), VALUE))?;
        subject.flush()
    })
}

/// Allows compactions from now on, so that they begin with the measured call.
fn compact_when_due(subject: &GrowthSubject, options: &[(&str, &str)]) -> Result<Act> {
    subject.db().pause_background_work();
    let options = [options, &[("disable_auto_compactions", "false")]].concat();
    subject.db().set_options(&subject.default_family(), &options)?;
    act(|s| {
        s.db().continue_background_work()?;
        s.db().wait_for_background_work()
    })
}

/// A FIFO compaction that is due because four files are too many.
fn fifo_compaction(subject: &mut GrowthSubject) -> Result<Act> {
    flush_side(subject)?;
    let bytes = subject.db().int_property("rocksdb.live-sst-files-size").unwrap_or_default();
    let limit = format!("{{max_table_files_size={};allow_compaction=false;}}", bytes.saturating_sub(4_000));
    compact_when_due(subject, &[("compaction_options_fifo", &limit)])
}

fn leveled(options: &mut Options) {
    options.cf.level_compaction_dynamic_level_bytes = false;
}

fn universal(options: &mut Options) {
    options.cf.compaction_style = CompactionStyle::Universal;
    options.cf.compaction_options_universal.max_size_amplification_percent = u32::MAX;
}

fn fifo(options: &mut Options) {
    options.cf.compaction_style = CompactionStyle::Fifo;
}

/// A flush fails; the measured call lets the database continue.
fn resume(subject: &mut GrowthSubject) -> Result<Act> {
    subject.db().put("b", VALUE)?;
    subject.fs.add_rule(FaultRule::fail(&[OpKind::Append]).on_name(".sst").forever());
    let failed = subject.flush();
    subject.fs.clear_rules();
    if failed.is_ok() || subject.db().background_error().is_none() {
        return Err(esker::Error::invalid_argument("the flush should have failed"));
    }
    act(|s| s.db().resume())
}

fn properties(subject: &GrowthSubject, names: &[&str]) -> Result<()> {
    for name in names {
        if subject.db().property(&format!("rocksdb.{name}")).is_none() {
            return Err(esker::Error::invalid_argument(format!("no property {name}")));
        }
    }
    Ok(())
}

const NUMBERS: &[&str] = &[
    "num-files-at-level0",
    "num-immutable-mem-table",
    "compaction-pending",
    "cur-size-all-mem-tables",
    "num-entries-active-mem-table",
    "estimate-num-keys",
    "num-snapshots",
    "oldest-snapshot-sequence",
    "num-live-versions",
    "estimate-live-data-size",
    "min-log-number-to-keep",
    "total-sst-files-size",
    "live-sst-files-size",
    "estimate-pending-compaction-bytes",
    "is-write-stopped",
    "num-blob-files",
    "total-blob-file-size",
];

const TEXTS: &[&str] = &["stats", "levelstats", "cfstats", "dbstats"];

const _: () = assert!(SIDE > 8, "walks and compactions stay within a side");
