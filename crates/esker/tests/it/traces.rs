//! Traces of queries, and their replay.

use esker::internals::env::MockClock;
use esker::internals::env::mem::MemFs;
use esker::trace::{
    BlockAccess, BlockCacheTraceOptions, IoOp, Query, TableReaderCaller, TraceFrame, TraceKind, TraceOptions,
    TraceWriter, new_file_trace_reader, new_file_trace_writer, parse_binary_header, trace_filter,
};
use esker::{
    ColumnFamilyHandle, Db, Env, Error, ErrorKind, FlushOptions, Options, ReadOptions, ReplayOptions,
    ReplayedAnswer, ReplayedQuery, Replayer, Result, TransactionDb, TransactionDbOptions, WriteBatch,
};
use std::sync::{Arc, Mutex};

const NOW: u64 = 1_700_000_000_000_000;

fn env() -> Env {
    Env { clock: Arc::new(MockClock::new(NOW)), ..Env::with_fs(Arc::new(MemFs::new())) }
}

fn options(env: &Env) -> Options {
    let mut options = Options::new().create_if_missing(true);
    options.db.env = env.clone();
    // A compaction after the last snapshot would be in the traces, too.
    options.cf.disable_auto_compactions = true;
    options
}

fn open(env: &Env, path: &str) -> (Db, ColumnFamilyHandle) {
    let options = options(env);
    let db = Db::open(&options, path).unwrap();
    let family = db.create_column_family("other", &options.cf).unwrap();
    (db, family)
}

fn start(db: &Db, options: &TraceOptions) {
    db.start_trace(options, new_file_trace_writer(db.env(), "/trace").unwrap()).unwrap();
}

/// The records of the trace as text. A header or footer is shown by its kind.
fn recorded(env: &Env) -> Vec<String> {
    let mut reader = new_file_trace_reader(env, "/trace").unwrap();
    let mut all = Vec::new();
    while let Some(record) = reader.read().unwrap() {
        let frame = TraceFrame::decode(&record).unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        all.push(match Query::decode(frame.kind, frame.payload, 2).unwrap() {
            Some(Query::Write(batch)) => {
                format!("write {}", WriteBatch::from_bytes(batch.to_vec()).unwrap().count())
            }
            Some(Query::Get { family, key }) => format!("get {family} {}", text(key)),
            Some(Query::IteratorSeek { family, for_prev, key, lower_bound, upper_bound }) => {
                let name = if for_prev { "seek_for_prev" } else { "seek" };
                format!("{name} {family} {} {}..{}", text(key), text(lower_bound), text(upper_bound))
            }
            Some(Query::MultiGet(keys)) => {
                let keys: Vec<_> =
                    keys.iter().map(|(family, key)| format!("{family} {}", text(key))).collect();
                format!("multi_get {}", keys.join(", "))
            }
            None => format!("{:?}", TraceKind::from_u8(frame.kind).unwrap()),
        });
    }
    all
}

/// Runs queries of each kind.
fn query(db: &Db, family: &ColumnFamilyHandle) {
    db.put("a", "1").unwrap();
    let mut batch = WriteBatch::new();
    batch.put_cf(family, "b", "2").unwrap();
    batch.delete("a").unwrap();
    db.write(batch).unwrap();
    db.get("a").unwrap();
    db.get_pinned_opt(&ReadOptions::default(), family, "b").unwrap();
    drop(db.multi_get(&["a", "b"]));
    drop(db.multi_get_cf(&ReadOptions::default(), &[(family, b"b"), (&db.default_column_family(), b"a")]));
    let mut iter = db.iter_cf(family).unwrap();
    iter.seek("a");
    iter.next();
    iter.seek_for_prev("z");
    iter.seek_to_first();
    let bounded = ReadOptions::new().lower_bound("b").upper_bound("c");
    let mut iter = db.iter_opt(bounded, family).unwrap();
    iter.seek("a");
    iter.seek_to_first();
    iter.seek_to_last();
}

#[test]
fn a_trace_has_every_query_and_no_others() {
    let env = env();
    let (db, family) = open(&env, "/db");
    query(&db, &family);
    start(&db, &TraceOptions::default());
    query(&db, &family);
    db.end_trace().unwrap();
    query(&db, &family);
    let expected = [
        "Begin",
        "write 1",
        "write 2",
        "get 0 a",
        "get 1 b",
        "multi_get 0 a, 0 b",
        "multi_get 1 b, 0 a",
        "seek 1 a ..",
        "seek_for_prev 1 z ..",
        "seek 1 a b..c",
        "seek 1 b b..c",
        "seek_for_prev 1 c b..c",
        "End",
    ];
    assert_eq!(recorded(&env), expected);
    assert_eq!(db.end_trace().unwrap_err().kind(), ErrorKind::IoError);
}

#[test]
fn filter_sampling_and_size_leave_queries_out() {
    let env = env();
    let (db, family) = open(&env, "/db");
    let filter = trace_filter::GET | trace_filter::WRITE | trace_filter::ITERATOR_SEEK;
    start(&db, &TraceOptions { filter, ..TraceOptions::default() });
    query(&db, &family);
    db.end_trace().unwrap();
    let left: Vec<_> = recorded(&env).iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(left, ["Begin", "multi_get", "multi_get", "seek_for_prev", "seek_for_prev", "End"]);

    start(&db, &TraceOptions { sampling_frequency: 3, ..TraceOptions::default() });
    (0..10).for_each(|i| drop(db.get(i.to_string()).unwrap()));
    db.end_trace().unwrap();
    assert_eq!(recorded(&env), ["Begin", "get 0 2", "get 0 5", "get 0 8", "End"]);

    start(&db, &TraceOptions { max_trace_file_size: 100, ..TraceOptions::default() });
    (0..10).for_each(|i| drop(db.get(i.to_string()).unwrap()));
    db.end_trace().unwrap();
    assert_eq!(recorded(&env), ["Begin", "End"], "the header exceeds the limit");
}

fn replay(db: &Db, family: &ColumnFamilyHandle, options: &ReplayOptions) -> (Result<()>, Vec<ReplayedQuery>) {
    let reader = new_file_trace_reader(db.env(), "/trace").unwrap();
    let mut replayer = Replayer::new(db, std::slice::from_ref(family), reader);
    replayer.prepare().unwrap();
    let results = Mutex::new(Vec::new());
    let ended = replayer.replay(options, |result| results.lock().unwrap().push(result.clone()));
    (ended, results.into_inner().unwrap())
}

#[test]
fn a_replay_gives_the_answers_of_the_trace() {
    let env = env();
    let (db, family) = open(&env, "/db");
    start(&db, &TraceOptions::default());
    query(&db, &family);
    db.end_trace().unwrap();
    let (other, family) = open(&env, "/other");
    let (ended, results) = replay(&other, &family, &ReplayOptions::default());
    ended.unwrap();
    let answers: Vec<_> = results.iter().map(|result| result.answer.clone().unwrap()).collect();
    let (two, entry) = (Some(b"2".to_vec()), Some((b"b".to_vec(), b"2".to_vec())));
    assert_eq!(
        answers,
        [
            ReplayedAnswer::Written,
            ReplayedAnswer::Written,
            ReplayedAnswer::Value(None),
            ReplayedAnswer::Value(two.clone()),
            ReplayedAnswer::Values(vec![None, None]),
            ReplayedAnswer::Values(vec![two, None]),
            ReplayedAnswer::Entry(entry.clone()),
            ReplayedAnswer::Entry(entry.clone()),
            ReplayedAnswer::Entry(entry.clone()),
            ReplayedAnswer::Entry(entry.clone()),
            ReplayedAnswer::Entry(entry),
        ]
    );
}

#[test]
fn a_replay_keeps_the_times_of_the_trace_or_goes_faster() {
    let env = env();
    let clock = Arc::new(MockClock::new(NOW));
    let env = Env { clock: clock.clone(), ..env };
    let (db, family) = open(&env, "/db");
    start(&db, &TraceOptions::default());
    for _ in 0..3 {
        clock.advance(std::time::Duration::from_secs(10));
        db.put("a", "1").unwrap();
    }
    db.end_trace().unwrap();
    for (fast_forward, seconds) in [(1.0, 30), (10.0, 3), (0.5, 60)] {
        let before = clock.slept();
        let (ended, results) =
            replay(&db, &family, &ReplayOptions { fast_forward, ..ReplayOptions::default() });
        ended.unwrap();
        assert_eq!((clock.slept() - before).as_secs(), seconds);
        assert_eq!(results[0].timestamp, NOW + 10_000_000);
    }
}

#[test]
fn several_threads_replay_everything_once() {
    let env = env();
    let (db, family) = open(&env, "/db");
    start(&db, &TraceOptions::default());
    (0..500).for_each(|i| db.put_cf(&family, format!("{i}"), "1").unwrap());
    db.end_trace().unwrap();
    let (other, family) = open(&env, "/other");
    let (ended, results) =
        replay(&other, &family, &ReplayOptions { num_threads: 4, ..ReplayOptions::default() });
    ended.unwrap();
    assert_eq!(results.len(), 500);
    assert_eq!(other.iter_cf(&family).unwrap().into_iter().count(), 500);
}

#[test]
fn the_first_error_ends_a_replay_and_a_missing_end_does_not_fail_it() {
    let env = env();
    let (db, family) = open(&env, "/db");
    start(&db, &TraceOptions::default());
    db.put("a", "1").unwrap();
    db.get_cf(&family, "b").unwrap();
    db.put("c", "1").unwrap();
    // The trace has no footer yet, and its records are still in the writer's buffer.
    db.end_trace().unwrap();
    let other = Db::open(&options(&env), "/other").unwrap();
    let reader = new_file_trace_reader(&env, "/trace").unwrap();
    let mut replayer = Replayer::new(&other, &[], reader);
    assert_eq!(
        replayer.step().unwrap_err().kind(),
        ErrorKind::Incomplete,
        "a replay before `prepare` is refused"
    );
    replayer.prepare().unwrap();
    assert_eq!(replayer.header_timestamp(), NOW);
    let wrong = ReplayOptions { fast_forward: 0.0, ..ReplayOptions::default() };
    assert_eq!(replayer.replay(&wrong, |_| {}).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let error = replayer.replay(&ReplayOptions::default(), |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.message().contains("Invalid Column Family ID"), "{error}");
    assert_eq!(other.get("a").unwrap().unwrap(), b"1");
    assert_eq!(other.get("c").unwrap(), None);
    // The replayer can continue, and a second `prepare` starts it again.
    replayer.replay(&ReplayOptions::default(), |_| {}).unwrap();
    assert_eq!(other.get("c").unwrap().unwrap(), b"1");
    assert_eq!(replayer.replay(&ReplayOptions::default(), |_| {}).unwrap_err().kind(), ErrorKind::Incomplete);
    replayer.prepare().unwrap();

    let bytes = env.fs.file_size("/trace".as_ref()).unwrap();
    env.fs.truncate("/trace".as_ref(), bytes - 13).unwrap();
    let (ended, results) = replay(&db, &family, &ReplayOptions::default());
    ended.unwrap();
    assert_eq!(results.len(), 3);
    env.fs.truncate("/trace".as_ref(), bytes - 14).unwrap();
    let (ended, _) = replay(&db, &family, &ReplayOptions::default());
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Corruption, "the trace ends within a record");
}

#[test]
fn a_prepared_transaction_is_replayed_when_it_is_committed() {
    let env = env();
    let (options, settings) = (options(&env), TransactionDbOptions::default());
    let db = TransactionDb::open(&options, &settings, "/db").unwrap();
    start(db.db(), &TraceOptions::default());
    for (name, commits) in [("one", true), ("two", false)] {
        let transaction = db.begin_transaction();
        transaction.set_name(name.as_bytes()).unwrap();
        transaction.put(name, "1").unwrap();
        transaction.prepare().unwrap();
        if commits { transaction.commit().unwrap() } else { transaction.rollback().unwrap() }
    }
    db.db().end_trace().unwrap();
    assert_eq!(recorded(&env).iter().filter(|line| line.starts_with("write")).count(), 1);
    let (other, family) = open(&env, "/other");
    replay(&other, &family, &ReplayOptions::default()).0.unwrap();
    assert!(other.get("one").unwrap().is_some());
    assert!(other.get("two").unwrap().is_none());
}

/// A writer that fails at its second record.
struct Fails(u32);

impl TraceWriter for Fails {
    fn write(&mut self, _record: &[u8]) -> Result<()> {
        self.0 += 1;
        if self.0 == 2 { Err(Error::new(ErrorKind::IoError, "no room for traces")) } else { Ok(()) }
    }
    fn file_size(&self) -> u64 {
        0
    }
    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_trace_that_cannot_be_written_fails_its_end_and_no_query() {
    let env = env();
    let (db, family) = open(&env, "/db");
    db.start_trace(&TraceOptions::default(), Box::new(Fails(0))).unwrap();
    query(&db, &family);
    assert!(db.end_trace().unwrap_err().message().contains("no room for traces"));
}

#[test]
fn closing_ends_a_trace_and_a_trace_opens_no_closed_database() {
    let env = env();
    let (db, family) = open(&env, "/db");
    start(&db, &TraceOptions::default());
    db.put("a", "1").unwrap();
    let iter = db.iter().unwrap();
    db.close().unwrap();
    assert_eq!(recorded(&env), ["Begin", "write 1", "End"]);
    assert_eq!(db.get("a").unwrap_err().kind(), ErrorKind::ShutdownInProgress);
    let writer = new_file_trace_writer(&env, "/trace").unwrap();
    let error = db.start_trace(&TraceOptions::default(), writer).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ShutdownInProgress);
    _ = db.end_trace();
    assert_eq!(db.get_cf(&family, "a").unwrap_err().kind(), ErrorKind::ShutdownInProgress);
    drop(iter);
}

#[test]
fn a_family_of_another_database_is_refused_while_there_is_a_trace() {
    let env = env();
    let (db, _) = open(&env, "/db");
    let (_other, foreign) = open(&env, "/other");
    start(&db, &TraceOptions::default());
    assert_eq!(db.get_cf(&foreign, "a").unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert!(db.iter_cf(&foreign).is_err());
    db.end_trace().unwrap();
}

/// The records of a binary trace, without its header.
fn binary_records(env: &Env) -> Vec<Vec<u8>> {
    let mut reader = new_file_trace_reader(env, "/trace").unwrap();
    let header = reader.read().unwrap().unwrap();
    assert_eq!(parse_binary_header(&TraceFrame::decode(&header).unwrap()).unwrap(), (11, 8));
    std::iter::from_fn(|| reader.read().unwrap()).collect()
}

/// The caller, kind of block, hit or miss, column family and level of each access.
fn accesses(records: &[Vec<u8>]) -> Vec<(u8, u8, bool, u64, u32)> {
    let access = |record: &Vec<u8>| {
        let access = BlockAccess::decode(&TraceFrame::decode(record).unwrap()).unwrap();
        let name: &[u8] = if access.cf_id == 0 { b"default" } else { b"other" };
        assert_eq!((access.cf_name, access.no_insert), (name, false));
        assert!(access.block_size > 100);
        (access.caller, access.block_type, access.is_cache_hit, access.cf_id, access.level)
    };
    records.iter().map(access).collect()
}

fn start_blocks(db: &Db, sampling_frequency: u64) -> Result<()> {
    let options = BlockCacheTraceOptions { sampling_frequency, ..BlockCacheTraceOptions::default() };
    db.start_block_cache_trace(&options, new_file_trace_writer(db.env(), "/trace").unwrap())
}

#[test]
fn accesses_to_blocks_name_the_operation_and_its_key() {
    let env = env();
    let (db, family) = open(&env, "/db");
    for i in 0..10 {
        db.put(format!("k{i}"), "v".repeat(50)).unwrap();
        db.put_cf(&family, format!("k{i}"), "v".repeat(50)).unwrap();
    }
    db.flush().unwrap();
    db.flush_opt(&FlushOptions::default(), &[&family]).unwrap();
    db.get("k1").unwrap();
    start_blocks(&db, 1).unwrap();
    assert_eq!(start_blocks(&db, 1).unwrap_err().kind(), ErrorKind::Busy);
    // The rejected trace has truncated the file, so this starts a new trace.
    db.end_block_cache_trace().unwrap();
    start_blocks(&db, 1).unwrap();
    let snapshot = db.snapshot();
    db.get("k1").unwrap();
    db.get_opt(&ReadOptions { snapshot: Some(snapshot), ..ReadOptions::default() }, &family, "k22").unwrap();
    drop(db.multi_get(&["k3", "k4"]));
    let mut iter = db.iter_cf(&family).unwrap();
    iter.seek("k5");
    drop(iter);
    db.end_block_cache_trace().unwrap();
    db.end_block_cache_trace().unwrap();
    db.get("k1").unwrap();
    let records = binary_records(&env);
    let data = TraceKind::DataBlock as u8;
    let caller = |caller: TableReaderCaller| caller as u8;
    let expected = [
        (caller(TableReaderCaller::UserGet), data, true, 0, 0),
        (caller(TableReaderCaller::UserGet), data, false, 1, 0),
        (caller(TableReaderCaller::UserMultiGet), data, true, 0, 0),
        (caller(TableReaderCaller::UserMultiGet), data, true, 0, 0),
        (caller(TableReaderCaller::UserIterator), data, true, 1, 0),
    ];
    let seen = accesses(&records);
    assert_eq!(seen.iter().filter(|access| access.1 == data).copied().collect::<Vec<_>>(), expected);
    let gets: Vec<_> = records
        .iter()
        .filter_map(|record| {
            BlockAccess::decode(&TraceFrame::decode(record).unwrap()).unwrap().get.map(|get| {
                let (key, _) = get.referenced_key.split_at(get.referenced_key.len() - 8);
                let facts =
                    (get.from_user_specified_snapshot, get.num_keys_in_block, get.referenced_key_exists);
                (get.get_id, String::from_utf8_lossy(key).into_owned(), facts, get.referenced_data_size)
            })
        })
        .collect();
    assert_eq!(gets[0], (1, "k1".into(), (false, 10, true), 2 + 8 + 50));
    assert_eq!(gets[1], (2, "k22".into(), (true, 10, false), 0));
    assert_eq!((gets[2].0, gets[3].0), (3, 3));
}

#[test]
fn compactions_are_traced_and_sampling_keeps_whole_blocks() {
    let env = env();
    let mut options = options(&env);
    options.cf.compression = esker::options::CompressionType::None;
    let db = Db::open(&options, "/db").unwrap();
    for i in 0..1_000 {
        db.put(format!("k{i:04}"), "v".repeat(200)).unwrap();
    }
    db.flush().unwrap();
    start_blocks(&db, 1).unwrap();
    (0..1_000).for_each(|i| drop(db.get(format!("k{i:04}")).unwrap()));
    db.end_block_cache_trace().unwrap();
    let all = binary_records(&env);
    start_blocks(&db, 4).unwrap();
    (0..1_000).for_each(|i| drop(db.get(format!("k{i:04}")).unwrap()));
    db.end_block_cache_trace().unwrap();
    let some = binary_records(&env);
    let keys = |records: &[Vec<u8>]| {
        let mut keys = std::collections::BTreeMap::<Vec<u8>, usize>::new();
        for record in records {
            let access = BlockAccess::decode(&TraceFrame::decode(record).unwrap()).unwrap();
            *keys.entry(access.block_key.to_vec()).or_default() += 1;
        }
        keys
    };
    let (all, some) = (keys(&all), keys(&some));
    assert!(some.len() > all.len() / 10 && some.len() < all.len() / 2, "{} of {}", some.len(), all.len());
    assert!(some.iter().all(|(key, count)| all[key] == *count));
    start_blocks(&db, 1).unwrap();
    db.compact_range(None, None).unwrap();
    db.end_block_cache_trace().unwrap();
    let callers: Vec<u8> = accesses(&binary_records(&env)).iter().map(|access| access.0).collect();
    let known = [TableReaderCaller::Compaction as u8, TableReaderCaller::Prefetch as u8];
    assert!(callers.iter().all(|caller| known.contains(caller)), "{callers:?}");
}

#[test]
fn io_is_traced_with_its_places_and_not_that_of_the_trace() {
    let env = env();
    let (db, _) = open(&env, "/db");
    let start = || {
        let writer = new_file_trace_writer(db.env(), "/trace").unwrap();
        db.start_io_trace(&TraceOptions::default(), writer)
    };
    start().unwrap();
    assert_eq!(start().unwrap_err().kind(), ErrorKind::Busy);
    db.end_io_trace().unwrap();
    start().unwrap();
    db.put("a", "1").unwrap();
    db.flush().unwrap();
    db.get("a").unwrap();
    // This many operations fill the trace's buffer, so that the trace writes to its own file.
    (0..2_000).for_each(|i| db.put(format!("k{i}"), "1").unwrap());
    db.end_io_trace().unwrap();
    db.put("b", "1").unwrap();
    let records = binary_records(&env);
    let ops: Vec<_> =
        records.iter().map(|r| IoOp::decode(&TraceFrame::decode(r).unwrap()).unwrap()).collect();
    let find = |operation: &str, suffix: &str| {
        let found = ops.iter().find(|op| {
            op.file_operation == operation.as_bytes() && op.file_name.ends_with(suffix.as_bytes())
        });
        found.unwrap_or_else(|| panic!("no {operation} of {suffix}")).clone()
    };
    let append = find("Append", ".log");
    assert!(append.len.unwrap() > 12 && append.offset.is_some() && append.io_status == b"OK");
    assert_eq!(append.timestamp, NOW);
    find("NewWritableFile", ".sst");
    let read = find("Read", ".sst");
    assert!(read.len.unwrap() > 0 && read.offset.is_some());
    find("Close", ".sst");
    assert!(!ops.iter().any(|op| op.file_name == b"trace"), "a trace does not trace itself");
}
