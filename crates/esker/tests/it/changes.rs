//! The change stream: positions, families, gaps, retention, waits.
#![allow(clippy::disallowed_methods, reason = "a reader waits in real time, and a timer ends another one")]

use esker::internals::env::mem::MemFs;
use esker::internals::env::{CrashChoices, CrashFs};
use esker::txn::WritePolicy;
use esker::{
    ChangeBatch, ChangeOp, ChangePosition, ChangeStream, ChangesEnd, ChangesOptions, Db, Env, ErrorKind,
    Options, SequenceNumber, TransactionDb, TransactionDbOptions, WriteBatch, WriteOptions, builtin,
};
use esker_testkit::seed::for_each_seed;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn options() -> Options {
    let mut options = Options::new().create_if_missing(true);
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.db.avoid_flush_during_shutdown = true;
    options.cf.merge_operator = Some(builtin::string_append(","));
    options
}

/// Options with an archive that keeps everything.
fn archiving() -> Options {
    let mut options = options();
    options.db.wal_ttl_seconds = 1 << 30;
    options
}

fn from(db: &Db, next: u64) -> ChangeStream {
    db.changes(SequenceNumber(next), &ChangesOptions::default()).unwrap()
}

/// A batch as text: its first number, its operations, and the position behind it.
fn text(batch: &ChangeBatch) -> String {
    let mut text = format!("{}:", batch.first_sequence());
    for change in batch.iter() {
        let family = change.family.map_or_else(String::new, |family| {
            let dropped = if family.is_dropped { "!" } else { "" };
            format!("@{}{dropped}", family.name.as_deref().unwrap_or("?"))
        });
        let at = change.timestamp.map_or_else(String::new, |at| format!("/{}", at.escape_ascii()));
        let show = |bytes: &[u8]| bytes.escape_ascii().to_string();
        let op = match change.op {
            ChangeOp::Put { key, value } => format!("{}={}", show(key), show(value)),
            ChangeOp::Delete { key } => format!("-{}", show(key)),
            ChangeOp::SingleDelete { key } => format!("--{}", show(key)),
            ChangeOp::Merge { key, operand } => format!("{}+={}", show(key), show(operand)),
            ChangeOp::DeleteRange { begin, end } => format!("-[{},{})", show(begin), show(end)),
            ChangeOp::PutEntity { key, columns } => {
                let columns: Vec<_> =
                    columns.iter().map(|(name, value)| format!("{}:{}", show(name), show(value))).collect();
                format!("{}={{{}}}", show(key), columns.join(" "))
            }
            ChangeOp::LogData(blob) => format!("({})", show(blob)),
            other => format!("{other:?}"),
        };
        let number = change.sequence.map_or_else(String::new, |number| format!("#{number}"));
        text.push_str(&format!(" {op}{at}{family}{number}"));
    }
    format!("{text} ->{}", batch.next_position())
}

/// The batches up to the newest one.
fn rest(changes: &mut ChangeStream) -> Vec<String> {
    changes.map(|batch| text(&batch.unwrap())).collect()
}

fn flush(db: &Db) {
    db.flush().unwrap();
    db.wait_for_background_work().unwrap();
}

#[test]
fn operations_of_each_kind_come_with_their_family_and_number() {
    let db = Db::open(&options(), "/db").unwrap();
    let other = db.create_column_family("other", &options().cf).unwrap();
    let mut batch = WriteBatch::new();
    batch.put_cf(&other, "a", "1").unwrap();
    batch.put_log_data(b"note").unwrap();
    batch.delete("b").unwrap();
    batch.single_delete("c").unwrap();
    batch.merge_cf(&other, "d", "2").unwrap();
    batch.delete_range("e", "f").unwrap();
    batch.put_entity("g", &[(b"y", b"2"), (b"x", b"1")]).unwrap();
    db.write(&mut batch).unwrap();
    let mut changes = from(&db, 0);
    let got = changes.next().unwrap().unwrap();
    assert_eq!(
        text(&got),
        "1: a=1@other#1 (note) -b@default#2 --c@default#3 d+=2@other#4 -[e,f)@default#5 \
         g={x:1 y:2}@default#6 ->7"
    );
    assert_eq!((got.len(), got.is_empty()), (6, false));
    assert_eq!(got.families().map(|family| family.id.0).collect::<Vec<_>>(), [1, 0]);
    assert_eq!(changes.position(), ChangePosition::after(SequenceNumber(6)));
    assert!(changes.next().is_none());
}

#[test]
fn a_position_behind_the_newest_write_begins_there_whatever_was_deleted_before() {
    let db = Db::open(&options(), "/db").unwrap();
    let mut empty = from(&db, 0);
    assert!(empty.next().is_none());
    db.put("a", "1").unwrap();
    assert_eq!(rest(&mut empty), ["1: a=1@default#1 ->2"]);
    flush(&db);
    // No WAL has number 1 any more.
    drop(empty);
    flush(&db);
    let mut changes = from(&db, 2);
    assert!(changes.next().is_none());
    flush(&db);
    db.put("b", "2").unwrap();
    flush(&db);
    db.put("c", "3").unwrap();
    assert_eq!(rest(&mut changes), ["2: b=2@default#2 ->3", "3: c=3@default#3 ->4"]);
    assert_eq!(rest(&mut from(&db, 4)), Vec::<String>::new());
}

#[test]
fn a_reader_that_begins_again_at_its_position_sees_each_operation_once() {
    for_each_seed("changes resumed", 30, |_, mut rng| {
        let mut options = archiving();
        options.db.recycle_log_file_num = rng.usize(..2);
        options.db.avoid_flush_during_recovery = rng.bool();
        let mut db = Db::open(&options, "/db").unwrap();
        let (mut written, mut seen) = (Vec::new(), Vec::new());
        let mut position = ChangePosition::START;
        let mut changes = from(&db, 0);
        for step in 0..200 {
            match rng.u8(..10) {
                0..5 => {
                    let mut batch = WriteBatch::new();
                    for part in 0..rng.usize(1..4) {
                        batch.put(format!("{step}-{part}"), vec![b'v'; rng.usize(..200)]).unwrap();
                        written.push(format!("{step}-{part}"));
                    }
                    db.write(&mut batch).unwrap();
                }
                5 => flush(&db),
                6 => {
                    drop(changes);
                    drop(db);
                    db = Db::open(&options, "/db").unwrap();
                    changes = db.changes(position, &ChangesOptions::default()).unwrap();
                }
                7 => changes = db.changes(position, &ChangesOptions::default()).unwrap(),
                _ => {
                    for batch in changes.by_ref().take(rng.usize(..5)) {
                        let batch = batch.unwrap();
                        assert_eq!(batch.first_sequence(), position.next_sequence());
                        for change in batch.iter() {
                            let ChangeOp::Put { key, .. } = change.op else { panic!("{change:?}") };
                            seen.push(String::from_utf8(key.to_vec()).unwrap());
                        }
                        // A follower stores the text of the position.
                        position = batch.next_position().to_string().parse().unwrap();
                    }
                }
            }
        }
        for batch in changes.by_ref() {
            for change in batch.unwrap().iter() {
                let ChangeOp::Put { key, .. } = change.op else { panic!("{change:?}") };
                seen.push(String::from_utf8(key.to_vec()).unwrap());
            }
        }
        assert_eq!(seen, written);
    });
}

#[test]
fn a_gap_names_the_missing_numbers_and_a_copy_continues_behind_them() {
    let options = options();
    let db = Db::open(&options, "/db").unwrap();
    let unlogged = WriteOptions::new().disable_wal(true);
    let default = db.default_column_family();
    db.put("a", "1").unwrap();
    db.put_opt(&unlogged, &default, "b", "2").unwrap();
    db.put_opt(&unlogged, &default, "c", "3").unwrap();
    db.put("d", "4").unwrap();
    let mut changes = from(&db, 1);
    assert_eq!(text(&changes.next().unwrap().unwrap()), "1: a=1@default#1 ->2");
    assert_eq!(changes.end(), None);
    let error = changes.next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.message().starts_with("Gap in the changes: no WAL has the sequence numbers 2 to 3"));
    assert!(error.message().contains("Db::create_checkpoint"), "{error}");
    let gap = ChangesEnd::Gap { from: SequenceNumber(2), to: SequenceNumber(3) };
    assert_eq!((changes.end(), changes.next().is_none()), (Some(gap), true));
    assert_eq!(changes.wait(Duration::ZERO).unwrap_err().to_string(), error.to_string());
    // The start of another stream finds it, too.
    let mut again = db.changes(changes.position(), &ChangesOptions::default()).unwrap();
    assert!(again.next().unwrap().is_err());
    assert_eq!(again.end(), Some(gap));

    let copied = db.create_checkpoint("/copy", 0).unwrap();
    db.put("e", "5").unwrap();
    let mut changes = db.changes(ChangePosition::after(copied), &ChangesOptions::default()).unwrap();
    assert_eq!(rest(&mut changes), ["5: e=5@default#5 ->6"]);
    let copy = Db::open(&options, "/copy").unwrap();
    assert_eq!((copy.latest_sequence_number(), copied), (SequenceNumber(4), SequenceNumber(4)));
}

#[test]
fn a_write_without_a_wal_is_a_gap_also_while_nothing_follows_it() {
    let db = Db::open(&options(), "/db").unwrap();
    db.put("a", "1").unwrap();
    let mut changes = from(&db, 2);
    assert!(changes.next().is_none());
    db.put_opt(&WriteOptions::new().disable_wal(true), &db.default_column_family(), "b", "2").unwrap();
    assert!(changes.next().unwrap().is_err());
    assert_eq!(changes.end(), Some(ChangesEnd::Gap { from: SequenceNumber(2), to: SequenceNumber(2) }));
}

#[test]
fn log_data_behind_a_gap_shows_the_gap() {
    let db = Db::open(&options(), "/db").unwrap();
    db.put("a", "1").unwrap();
    let mut changes = from(&db, 1);
    assert_eq!(changes.by_ref().count(), 1);
    db.put_opt(&WriteOptions::new().disable_wal(true), &db.default_column_family(), "b", "2").unwrap();
    let mut note = WriteBatch::new();
    note.put_log_data(b"note").unwrap();
    db.write(&mut note).unwrap();
    // Log data comes with the next batch only.
    assert!(changes.next().is_none());
    db.put("c", "3").unwrap();
    assert!(changes.next().unwrap().is_err());
    assert_eq!(changes.position(), ChangePosition::after(SequenceNumber(1)));
    assert_eq!(changes.end(), Some(ChangesEnd::Gap { from: SequenceNumber(2), to: SequenceNumber(2) }));
    // Behind a batch it comes, and moves no position.
    db.write(&mut note).unwrap();
    db.put("d", "4").unwrap();
    let texts = ["3: c=3@default#3 ->4", "4: (note) ->4", "4: d=4@default#4 ->5"];
    assert_eq!(rest(&mut from(&db, 3)), texts);
}

#[test]
fn a_position_ahead_of_the_database_is_no_place_to_wait() {
    let db = Db::open(&options(), "/db").unwrap();
    db.put("a", "1").unwrap();
    let mut changes = from(&db, 3);
    let error = changes.next().unwrap().unwrap_err();
    assert!(error.message().contains("position 3 is ahead of the database"), "{error}");
    let position = ChangePosition::after(SequenceNumber(2));
    assert_eq!(changes.end(), Some(ChangesEnd::Ahead { position, newest: SequenceNumber(1) }));
}

#[test]
fn a_waiting_reader_gets_the_next_batch_and_hears_of_the_close() {
    let db = Db::open(&options(), "/db").unwrap();
    let mut changes = from(&db, 0);
    let began = Instant::now();
    assert!(changes.wait(Duration::from_millis(30)).unwrap().is_none());
    assert!(began.elapsed() >= Duration::from_millis(30));
    std::thread::scope(|scope| {
        let (has_read, first) = std::sync::mpsc::channel();
        let reader = scope.spawn(move || {
            let batch = changes.wait(Duration::from_secs(60)).unwrap().unwrap();
            has_read.send(text(&batch)).unwrap();
            changes.wait(Duration::from_secs(60)).unwrap_err()
        });
        db.put("a", "1").unwrap();
        assert_eq!(first.recv().unwrap(), "1: a=1@default#1 ->2");
        db.close().unwrap();
        assert_eq!(reader.join().unwrap().kind(), ErrorKind::ShutdownInProgress);
    });
    assert!(began.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_reader_that_falls_behind_is_ended_and_its_wals_are_deleted() {
    let options = options();
    let db = Db::open(&options, "/db").unwrap();
    let limited = ChangesOptions::new().max_retained_bytes(190_000);
    let mut slow = db.changes(ChangePosition::START, &limited).unwrap();
    let mut quick = db.changes(ChangePosition::START, &limited).unwrap();
    let wals = || {
        let names = options.db.env.fs.children(Path::new("/db")).unwrap();
        names.iter().filter(|name| name.ends_with(".log")).count()
    };
    let mut write = || {
        db.put("a", vec![7; 20_000]).unwrap();
        assert_eq!(quick.by_ref().map(Result::unwrap).count(), 1);
        flush(&db);
    };
    (0..9).for_each(|_| write());
    assert!(wals() >= 9, "the slow reader keeps them");
    assert!(slow.lag().unwrap().bytes > 180_000 && slow.lag().unwrap().sequence_numbers == 9);
    write();
    let until = Instant::now() + Duration::from_secs(60);
    // The other reader is at the end of the last one.
    while wals() > 2 {
        assert!(Instant::now() < until, "{} WALs stay", wals());
        std::thread::yield_now();
    }
    let error = slow.next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Expired);
    let Some(ChangesEnd::FellBehind { position, bytes, limit }) = slow.end() else { panic!("{error}") };
    assert_eq!((position, limit), (ChangePosition::START, 190_000));
    assert!(bytes > 200_000 && error.message().contains(&format!("{} more than", bytes - limit)), "{error}");
    db.put("b", "1").unwrap();
    assert_eq!(rest(&mut quick), ["11: b=1@default#11 ->12"]);
    assert_eq!(quick.lag().unwrap().bytes, 0);
}

#[test]
fn a_reader_that_begins_behind_the_newest_write_has_nothing_unread() {
    let db = Db::open(&options(), "/db").unwrap();
    (0..20).for_each(|_| db.put("a", vec![7; 20_000]).unwrap());
    let limited = ChangesOptions::new().max_retained_bytes(190_000);
    let behind = ChangePosition::after(db.latest_sequence_number());
    let mut changes = db.changes(behind, &limited).unwrap();
    assert_eq!((changes.lag().unwrap().bytes, changes.lag().unwrap().sequence_numbers), (0, 0));
    db.put("b", "1").unwrap();
    let lag = changes.lag().unwrap();
    assert!((1..1000).contains(&lag.bytes) && lag.sequence_numbers == 1, "{lag:?}");
    assert_eq!(rest(&mut changes), ["21: b=1@default#21 ->22"]);
    assert_eq!(changes.lag().unwrap().bytes, 0);
}

#[test]
fn operations_of_a_dropped_family_say_so_and_a_new_one_of_its_name_is_another() {
    let db = Db::open(&options(), "/db").unwrap();
    let old = db.create_column_family("cf", &options().cf).unwrap();
    db.put_cf(&old, "a", "1").unwrap();
    let mut changes = from(&db, 0);
    assert_eq!(rest(&mut changes), ["1: a=1@cf#1 ->2"]);
    db.put_cf(&old, "b", "2").unwrap();
    db.drop_column_family(&old).unwrap();
    drop(old);
    let new = db.create_column_family("cf", &options().cf).unwrap();
    db.put_cf(&new, "c", "3").unwrap();
    let batches: Vec<ChangeBatch> = changes.map(Result::unwrap).collect();
    assert_eq!(batches.iter().map(text).collect::<Vec<_>>(), ["2: b=2@cf!#2 ->3", "3: c=3@cf#3 ->4"]);
    let ids: Vec<u32> = batches.iter().map(|batch| batch.families().next().unwrap().id.0).collect();
    assert_eq!(ids, [1, 2]);
    // This reader has not met the family while it lived.
    assert_eq!(rest(&mut from(&db, 0)), ["1: a=1@?!#1 ->2", "2: b=2@?!#2 ->3", "3: c=3@cf#3 ->4"]);
}

#[test]
fn keys_come_without_their_timestamps() {
    let mut options = options();
    options.cf.comparator = esker::comparator::by_name("leveldb.BytewiseComparator.u64ts").unwrap();
    let db = Db::open(&options, "/db").unwrap();
    let mut batch = WriteBatch::new();
    batch.put("aTIMESTMP", "1").unwrap();
    batch.delete_range("bTIMESTMP", "cTIMESTMP").unwrap();
    db.write(&mut batch).unwrap();
    let texts = rest(&mut from(&db, 0));
    assert_eq!(texts, ["1: a=1/TIMESTMP@default#1 -[b,c)/TIMESTMP@default#2 ->3"]);
}

#[test]
fn transactions_come_with_their_commit_and_other_policies_are_refused() {
    let txn_options = TransactionDbOptions::default();
    let db = TransactionDb::open(&options(), &txn_options, "/db").unwrap();
    let txn = db.begin_transaction();
    txn.set_name(b"x").unwrap();
    txn.put("a", "1").unwrap();
    txn.put("b", "2").unwrap();
    txn.prepare().unwrap();
    db.db().put("c", "3").unwrap();
    let mut changes = from(db.db(), 0);
    assert_eq!(rest(&mut changes), ["1: c=3@default#1 ->2"]);
    let position = changes.position();
    flush(db.db());
    txn.commit().unwrap();
    let committed = ["2: a=1@default#2 b=2@default#3 ->4"];
    assert_eq!(rest(&mut changes), committed);
    // The section lies before the position.
    let mut again = db.db().changes(position, &ChangesOptions::default()).unwrap();
    assert_eq!(rest(&mut again), committed);
    for policy in [WritePolicy::WritePrepared, WritePolicy::WriteUnprepared] {
        let txn_options = TransactionDbOptions { write_policy: policy, ..TransactionDbOptions::default() };
        let db = TransactionDb::open(&options(), &txn_options, "/db").unwrap();
        let error = db.db().changes(ChangePosition::START, &ChangesOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotSupported);
    }
}

#[test]
fn a_read_only_open_gives_what_was_written_before_it() {
    let options = options();
    let db = Db::open(&options, "/db").unwrap();
    db.put("a", "1").unwrap();
    let reader = Db::open_for_read_only(&options, "/db").unwrap();
    db.put("b", "2").unwrap();
    let mut changes = from(&reader, 0);
    assert_eq!(rest(&mut changes), ["1: a=1@default#1 ->2"]);
    let position = changes.position();
    let later = Db::open_for_read_only(&options, "/db").unwrap();
    let mut changes = later.changes(position, &ChangesOptions::default()).unwrap();
    assert_eq!(rest(&mut changes), ["2: b=2@default#2 ->3"]);
    let synced = ChangesOptions::new().synced_only(true);
    assert_eq!(later.changes(position, &synced).unwrap_err().kind(), ErrorKind::NotSupported);
}

#[test]
fn a_power_loss_takes_back_only_batches_that_were_read_without_a_sync() {
    for synced_only in [false, true] {
        let disk = CrashFs::new();
        let mut options = options();
        options.db.env = Env::with_fs(Arc::new(disk.clone()));
        let db = Db::open(&options, "/db").unwrap();
        db.put_opt(&WriteOptions::new().sync(true), &db.default_column_family(), "a", "1").unwrap();
        db.put("b", "2").unwrap();
        let mut changes =
            db.changes(ChangePosition::START, &ChangesOptions::new().synced_only(synced_only)).unwrap();
        assert_eq!(changes.by_ref().map(Result::unwrap).count(), 2);
        let crashed = disk.crash_clone(&CrashChoices::lose_unsynced());
        let mut options = options.clone();
        options.db.env = Env::with_fs(Arc::new(crashed));
        let after = Db::open(&options, "/db").unwrap();
        let mut again = after.changes(changes.position(), &ChangesOptions::default()).unwrap();
        assert_eq!(again.next().is_none(), synced_only);
        assert_eq!(matches!(again.end(), Some(ChangesEnd::Ahead { .. })), !synced_only);
    }
}

#[test]
fn a_position_is_a_decimal_number_and_nothing_else() {
    for (given, next) in [("0", 1), ("1", 1), ("007", 7), ("72057594037927935", (1 << 56) - 1)] {
        let position: ChangePosition = given.parse().unwrap();
        assert_eq!(position.next_sequence(), SequenceNumber(next));
        assert_eq!(position.to_string().parse::<ChangePosition>().unwrap(), position);
    }
    for given in ["", "-1", "+1", " 1", "1 ", "0x1", "1.0", "72057594037927936", "99999999999999999999"] {
        assert_eq!(
            given.parse::<ChangePosition>().unwrap_err().kind(),
            ErrorKind::InvalidArgument,
            "{given}"
        );
    }
}
