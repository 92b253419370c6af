//! Recovery of transactions that were in memtables before their commit, as RocksDB's policies
//! write-prepared and write-unprepared leave them. The tests write the WALs themselves.

use super::options;
use esker::internals::env::FileSystem;
use esker::internals::format::log::LogWriter;
use esker::internals::format::write_batch::{BatchOp, PrepareKind, WriteBatch};
use esker::{Options, TransactionDb, TransactionDbOptions};
use std::path::{Path, PathBuf};

/// One record, which takes one sequence number: at most one op, and markers.
type Record<'a> = &'a [&'a str];

/// `put k v`, `merge k v`, `del k`, `sd k`, `noop`, `spill`, `prepare`, `end T`, `commit T`,
/// `rollback T`.
fn batch_of(record: Record<'_>) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for op in record {
        let words: Vec<&[u8]> = op.split(' ').map(str::as_bytes).collect();
        match words[..] {
            [b"put", key, value] => batch.put(key, value),
            [b"merge", key, value] => batch.merge(key, value),
            [b"del", key] => batch.delete(key),
            [b"sd", key] => batch.single_delete(key),
            [b"noop"] => batch.put_marker(BatchOp::Noop),
            [b"spill"] => batch.put_marker(BatchOp::BeginPrepare(PrepareKind::Unprepared)),
            [b"prepare"] => batch.put_marker(BatchOp::BeginPrepare(PrepareKind::Persisted)),
            [b"end", xid] => batch.put_marker(BatchOp::EndPrepare { xid }),
            [b"commit", xid] => batch.put_marker(BatchOp::Commit { xid }),
            [b"rollback", xid] => batch.put_marker(BatchOp::Rollback { xid }),
            _ => panic!("{op}?"),
        }
        .unwrap();
    }
    batch
}

fn open(options: &Options) -> TransactionDb {
    TransactionDb::open(options, &TransactionDbOptions::default(), "/db").unwrap()
}

fn wals(fs: &dyn FileSystem) -> Vec<PathBuf> {
    let mut names = fs.children(Path::new("/db")).unwrap();
    names.retain(|name| name.ends_with(".log"));
    names.sort();
    names.iter().map(|name| Path::new("/db").join(name)).collect()
}

fn write_wal(fs: &dyn FileSystem, path: &Path, first: usize, records: &[Record<'_>]) {
    let number = path.file_stem().unwrap().to_str().unwrap().parse().unwrap();
    let (mut writer, mut log) = (LogWriter::new(number, false), Vec::new());
    for (i, record) in records.iter().enumerate() {
        let mut batch = batch_of(record);
        batch.set_sequence(esker::SequenceNumber((first + i) as u64));
        writer.add_record(batch.data(), &mut log);
    }
    let mut file = fs.new_writable_file(path).unwrap();
    file.append(&log).unwrap();
    file.close().unwrap();
}

/// A directory after a crash: `in_tables` are records before a flush, whose WAL is still needed,
/// and `behind` are those after it.
fn crashed(in_tables: &[Record<'_>], behind: &[Record<'_>]) -> Options {
    crashed_after(in_tables, behind, |_| {})
}

/// [`crashed`], where `work` follows the flush. The flushed writes are committed for it.
fn crashed_after(
    in_tables: &[Record<'_>],
    behind: &[Record<'_>],
    work: impl FnOnce(&TransactionDb),
) -> Options {
    let mut options = options();
    options.cf.disable_auto_compactions = true;
    let fs = options.db.env.fs.clone();
    let db = open(&options);
    let keeps_wal = db.begin_transaction();
    keeps_wal.set_name(b"keeps the WAL").unwrap();
    keeps_wal.put("~", "").unwrap();
    keeps_wal.prepare().unwrap();
    // Neither a flush nor a compaction drops what is below an uncommitted entry.
    let mut snapshots = Vec::new();
    for record in in_tables {
        let mut plain = WriteBatch::new();
        for op in batch_of(record).iter().filter(|op| op.family().is_some()) {
            plain.push(op).unwrap();
        }
        if plain.count() == 0 {
            plain.delete("~").unwrap();
        }
        db.db().write(&plain).unwrap();
        snapshots.push(db.db().snapshot());
    }
    db.db().flush().unwrap();
    drop(snapshots);
    work(&db);
    drop((keeps_wal, db));
    let [old, new] = &wals(fs.as_ref())[..] else { panic!("two WALs") };
    write_wal(fs.as_ref(), old, 1, in_tables);
    write_wal(fs.as_ref(), new, in_tables.len() + 1, behind);
    options
}

fn compact(db: &TransactionDb) {
    db.db().compact_range(None, None).unwrap();
}

fn values(db: &TransactionDb, keys: &str) -> String {
    let value = |key: char| match db.db().get(key.to_string()).unwrap() {
        Some(value) => format!("{key}={} ", value.escape_ascii()),
        None => String::new(),
    };
    keys.chars().map(value).collect::<String>().trim_end().to_owned()
}

/// Opens the directory several times, and checks that readers see `before`. Then it commits the
/// transactions in this order and checks that they see `after`.
fn check(options: &Options, commits: &[&str], before: &str, after: &str) {
    for _ in 0..2 {
        let db = open(options);
        assert_eq!(values(&db, "abkxyz"), before, "{commits:?}");
        db.put("~", "").unwrap();
    }
    let db = open(options);
    assert_eq!(values(&db, "abkxyz"), before, "{commits:?}");
    for name in commits {
        db.get_transaction_by_name(name.as_bytes()).expect(name).commit().unwrap();
    }
    assert_eq!(values(&db, "abkxyz"), after, "{commits:?}");
    drop(db);
    let db = open(options);
    db.db().compact_range(None, None).unwrap();
    assert_eq!(values(&db, "abkxyz"), after, "{commits:?}");
    assert!(db.get_all_prepared_transactions().is_empty());
}

#[test]
fn committed_writes_between_the_sections_of_a_transaction_stay_wherever_a_flush_came() {
    let records: [Record<'_>; 6] = [
        &["put b old", "noop"],
        &["spill", "put x t", "end T"],
        &["put b v", "noop"],
        &["spill", "put b t", "end T"],
        &["put a v", "noop"],
        &["prepare", "put a t", "end T"],
    ];
    for flushed in 1..=records.len() {
        for len in flushed.max(4)..=records.len() {
            let options = crashed(&records[..flushed], &records[flushed..len]);
            let a = if len > 4 { "a=v " } else { "" };
            let before = format!("{a}b=v");
            match len {
                6 => check(&options, &["T"], &before, "a=t b=t x=t"),
                _ => check(&options, &[], &before, &before),
            }
        }
    }
}

#[test]
fn the_last_transaction_that_wrote_a_key_decides_about_it_whatever_its_name() {
    for (first, second) in [("s", "t"), ("t", "s")] {
        let end = |name: &str| format!("end {name}");
        let (end_first, end_second) = (end(first), end(second));
        let records: [Record<'_>; 5] = [
            &["put k old", "noop"],
            &["spill", "put k one", &end_first],
            // A save point gave the key back.
            &["spill", "put k old", &end_first],
            &["prepare", "put k two", &end_second],
            &["prepare", "put x one", &end_first],
        ];
        for flushed in 1..=records.len() {
            for commits in [[first, second], [second, first]] {
                let options = crashed(&records[..flushed], &records[flushed..]);
                check(&options, &commits, "k=old", "k=two x=one");
            }
            let options = crashed(&records[..flushed.min(4)], &records[flushed.min(4)..4]);
            check(&options, &[second], "k=old", "k=two");
        }
    }
}

#[test]
fn a_key_that_a_save_point_gave_back_keeps_the_later_writes_of_others() {
    let records: [Record<'_>; 6] = [
        &["put k old", "noop"],
        &["spill", "put k one", "end T"],
        &["spill", "put k old", "end T"],
        &["merge k two", "noop"],
        &["prepare", "put x one", "end T"],
        &["put y v", "noop"],
    ];
    for flushed in 1..=records.len() {
        let options = crashed(&records[..flushed], &records[flushed..]);
        check(&options, &["T"], "k=old,two y=v", "k=old,two x=one y=v");
    }
}

#[test]
fn a_merge_without_a_lock_over_an_uncommitted_entry_does_not_show_it() {
    let records: [Record<'_>; 3] =
        [&["put k old", "noop"], &["spill", "put k one", "end T"], &["merge k two", "noop"]];
    for flushed in 1..=records.len() {
        check(&crashed(&records[..flushed], &records[flushed..]), &[], "k=old,two", "k=old,two");
    }
}

#[test]
fn a_rolled_back_single_deletion_and_the_put_that_undoes_it_stay_together() {
    let records: [Record<'_>; 4] = [
        &["put k old", "noop"],
        &["prepare", "sd k", "end T"],
        &["put k old", "rollback T"],
        &["sd k", "noop"],
    ];
    for flushed in 1..=records.len() {
        check(&crashed(&records[..flushed], &records[flushed..]), &[], "", "");
    }
}

/// RocksDB's compaction gives the committed write number 0, or drops it if it is a deletion, and
/// drops the uncommitted entries below it.
#[test]
fn a_committed_write_that_a_compaction_left_without_its_number_stays() {
    for (write, is) in [("put k two", "k=two"), ("del k", "")] {
        let records: [Record<'_>; 6] = [
            &["put k old", "noop"],
            &["spill", "put k one", "end T"],
            // A save point gave the key back.
            &["spill", "put k old", "end T"],
            &[write, "noop"],
            &["put y v", "noop"],
            &["prepare", "put x one", "end T"],
        ];
        let options = crashed_after(&records[..5], &records[5..], compact);
        check(&options, &["T"], format!("{is} y=v").trim(), format!("{is} x=one y=v").trim());
        let options = crashed_after(&records[..5], &[], compact);
        check(&options, &[], format!("{is} y=v").trim(), format!("{is} y=v").trim());
    }
}

#[test]
fn an_open_section_does_not_come_behind_a_table_that_replay_has_written() {
    let filler = format!("put f {}", "f".repeat(100 << 10));
    for (end, k) in [("commit T", "k=two"), ("rollback T", "k=two")] {
        let records: [Record<'_>; 7] = [
            &["put k old", "noop"],
            &["spill", "put k one", "end T"],
            &["spill", "put k old", "end T"],
            &["put k two", "noop"],
            &[&filler, "noop"],
            &[end],
            &[&filler, "noop"],
        ];
        let mut options = crashed(&records[..1], &records[1..]);
        options.cf.write_buffer_size = 64 << 10;
        check(&options, &[], k, k);
    }
}

struct Refuses(std::sync::Arc<dyn esker::merge_operator::MergeOperator>);

impl esker::merge_operator::MergeOperator for Refuses {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn full_merge(&self, _: &[u8], _: Option<&[u8]>, _: &[&[u8]]) -> Option<Vec<u8>> {
        None
    }
}

#[test]
fn a_merge_that_fails_does_not_prevent_an_open_that_has_nothing_to_take_back() {
    let records: [Record<'_>; 6] = [
        &["put k old", "noop"],
        &["spill", "put k one", "end T"],
        &["spill", "put k old", "end T"],
        &["put k two", "noop"],
        &["put y v", "noop"],
        &["merge k three", "noop"],
    ];
    let options = crashed_after(&records[..5], &records[5..], compact);
    let mut refusing = options.clone();
    let operator = options.cf.merge_operator.clone().unwrap();
    refusing.cf.merge_operator = Some(std::sync::Arc::new(Refuses(operator)));
    let db = open(&refusing);
    assert!(db.db().get("k").is_err());
    assert_eq!(values(&db, "xy"), "y=v");
    drop(db);
    check(&options, &[], "k=two,three y=v", "k=two,three y=v");
}
