use super::*;
use crate::options::Options;
use esker_base::probe::Probes;
use esker_base::stats::Ticker;
use esker_env::{Env, MemFs};
use futures_executor::block_on;
use futures_util::future::{BoxFuture, FutureExt, join_all};
use futures_util::{StreamExt, TryStreamExt};
use pool::{CALLS, COMMITS, READS};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc;
use std::task::{Context, Waker};

fn options(no_block_cache: bool) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.db.statistics = Some(Arc::default());
    options.cf.table.no_block_cache = no_block_cache;
    options.cf.table.block_size = 512;
    options
}

fn key(n: usize) -> String {
    format!("key{n:04}")
}

/// A database with `count` keys in one table. `is_cold`: each read of a block needs I/O.
fn filled(is_cold: bool, count: usize) -> AsyncDb {
    let db = Db::open(&options(is_cold), "/db").unwrap();
    (0..count).for_each(|n| db.put(key(n), n.to_string()).unwrap());
    db.flush().unwrap();
    AsyncDb::new(db, &AsyncOptions::default().read_threads(1).call_threads(1)).unwrap()
}

fn poll_once<T>(future: &mut BoxFuture<'_, T>) -> Option<T> {
    match future.poll_unpin(&mut Context::from_waker(Waker::noop())) {
        std::task::Poll::Ready(value) => Some(value),
        std::task::Poll::Pending => None,
    }
}

/// Occupies a thread of the pool until it is dropped.
struct Occupied(#[expect(dead_code, reason = "its drop ends the wait")] Vec<mpsc::Sender<()>>);

/// All threads, of which each priority has one.
fn occupy(db: &AsyncDb) -> Occupied {
    let take = |priority| {
        let (sender, receiver) = mpsc::channel::<()>();
        db.pool.hand_over(priority, move || assert!(receiver.recv().is_err(), "nobody sends"));
        sender
    };
    Occupied([READS, CALLS, COMMITS].map(take).into())
}

/// Whether nothing is in line, or on a thread, or holds a permit.
fn is_idle(db: &AsyncDb) -> bool {
    for priority in [READS, CALLS, COMMITS] {
        db.pool.threads.wait_until_idle(priority);
    }
    let permits =
        [&db.pool.reads, &db.pool.calls, &db.commits.room].map(|permits| permits.available_permits());
    permits == [1, 1, db.commits.permits as usize] && !db.commits.is_busy()
}

fn synced(key: &str, value: &str) -> (WriteOptions, WriteBatch) {
    let mut batch = WriteBatch::new();
    batch.put(key, value).unwrap();
    (WriteOptions::new().sync(true), batch)
}

#[test]
fn reads_of_cached_blocks_are_ready_at_once() {
    let db = filled(false, 1000);
    let family = db.db.default_column_family();
    // A table has its blocks in the cache after the first read only.
    assert_eq!(block_on(db.range(..).count()), 1000);
    let _occupied = occupy(&db);
    let mut get = db.get("key0007").boxed();
    assert_eq!(poll_once(&mut get).unwrap().unwrap().as_deref(), Some(&b"7"[..]));
    let mut get = db.get_opt(ReadOptions::new(), &family, "key0008").boxed();
    assert_eq!(poll_once(&mut get).unwrap().unwrap().as_deref(), Some(&b"8"[..]));
    let mut batch = db.multi_get_opt(ReadOptions::new(), &family, vec!["key0007", "absent"]).boxed();
    assert_eq!(poll_once(&mut batch).unwrap().len(), 2);
    let mut rows = db.range(..).count().boxed();
    assert_eq!(poll_once(&mut rows), Some(1000));
    let mut put = db.put("key0007", "new").boxed();
    poll_once(&mut put).unwrap().unwrap();
    drop((get, batch, rows, put));
}

#[test]
fn a_read_that_may_do_no_io_says_so() {
    let db = filled(true, 10);
    let (family, cached) =
        (db.db.default_column_family(), ReadOptions::new().read_tier(ReadTier::BlockCache));
    let _occupied = occupy(&db);
    let refused = block_on(db.get_opt(cached.clone(), &family, "key0007")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Incomplete);
    let refused = block_on(db.multi_get_opt(cached.clone(), &family, vec!["key0007"])).remove(0).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Incomplete);
    let rows: Vec<_> = block_on(db.range_opt(cached, &family, ..).collect());
    assert!(matches!(&rows[..], [Err(e)] if e.kind() == ErrorKind::Incomplete));
}

type Call = fn(&AsyncDb) -> BoxFuture<'_, Result<usize>>;

/// The calls that wait; each gives the same number each time.
const CALLS_THAT_WAIT: [(&str, Call); 6] = [
    ("get", |db| async { Ok(db.get("key0007").await?.map_or(0, |value| value.len())) }.boxed()),
    ("get_opt", |db| {
        let read = async {
            let family = db.db.default_column_family();
            Ok(db.get_opt(ReadOptions::new(), &family, "key0123").await?.map_or(0, |value| value.len()))
        };
        read.boxed()
    }),
    ("multi_get_opt", |db| {
        let read = async {
            let (family, keys) = (db.db.default_column_family(), vec!["key0007", "key0321", "absent"]);
            let values = db.multi_get_opt(ReadOptions::new(), &family, keys).await;
            values.into_iter().try_fold(0, |sum, value| Ok(sum + usize::from(value?.is_some())))
        };
        read.boxed()
    }),
    ("range", |db| db.range("key0100".."key0900").try_fold(0, |n, _| async move { Ok(n + 1) }).boxed()),
    ("write_opt", |db| {
        let (options, mut batch) = synced("written", "1");
        batch.put("written too", "1").unwrap();
        async move { db.write_opt(options, batch).await.map(|()| 0) }.boxed()
    }),
    ("call", |db| db.call(|db| db.put("called", "1").map(|()| 0)).boxed()),
];

#[test]
fn a_dropped_future_has_done_nothing_or_the_whole_call_and_leaves_nothing() {
    for (name, call) in CALLS_THAT_WAIT {
        let db = filled(true, 1000);
        let writes = |db: &Db| ["written", "written too", "called"].map(|key| db.get(key).unwrap().is_some());
        let expected = block_on(call(&db)).unwrap();
        db.db.delete_range("w", "x").unwrap();
        db.db.delete("called").unwrap();
        assert!(is_idle(&db), "{name}");
        let handles = Arc::strong_count(&db.db.inner);

        drop(call(&db));
        // It waits for its turn.
        let all = db.commits.permits;
        let permits = [(&db.pool.reads, 1), (&db.pool.calls, 1), (&db.commits.room, all)]
            .map(|(permits, n)| Arc::clone(permits).try_acquire_many_owned(n).unwrap());
        let mut future = call(&db);
        assert!(poll_once(&mut future).is_none(), "{name}");
        drop(future);
        drop(permits);
        assert!(is_idle(&db), "{name}");
        assert_eq!(writes(&db.db), [false; 3], "{name}");
        // It waits for its result.
        let occupied = occupy(&db);
        let mut future = call(&db);
        assert!(poll_once(&mut future).is_none(), "{name}");
        drop(future);
        drop(occupied);
        assert!(is_idle(&db), "{name}");
        let is_made = [name == "write_opt", name == "write_opt", name == "call"];
        assert_eq!(writes(&db.db), is_made, "{name}");

        assert_eq!(Arc::strong_count(&db.db.inner), handles, "{name}");
        assert_eq!(block_on(call(&db)).unwrap(), expected, "{name}");
    }
}

#[test]
fn a_stream_dropped_between_two_pieces_leaves_nothing() {
    let db = filled(true, 1000);
    let handles = Arc::strong_count(&db.db.inner);
    for taken in [0, 1, 255, 256, 257, 700] {
        let mut rows = db.range(..);
        let keys = block_on((&mut rows).take(taken).try_collect::<Vec<_>>()).unwrap();
        assert_eq!(keys.len(), taken);
        drop((rows, keys));
        assert!(is_idle(&db));
    }
    assert_eq!(Arc::strong_count(&db.db.inner), handles);
}

#[test]
fn writes_in_line_share_a_sync() {
    let db = filled(false, 0);
    let syncs = || db.db.engine().options.statistics.as_ref().unwrap().ticker_count(Ticker::WalFileSynced);
    let (before, occupied) = (syncs(), occupy(&db));
    let writes = (0..48).map(|n| {
        let (options, batch) = synced(&key(n), "value");
        let mut write = db.write_opt(options, batch).boxed();
        assert!(poll_once(&mut write).is_none());
        write
    });
    let writes: Vec<_> = writes.collect();
    drop(occupied);
    block_on(join_all(writes)).into_iter().for_each(|result| result.unwrap());
    assert_eq!(syncs() - before, 1);
    assert_eq!(db.db.range(..).count(), 48);
    assert!(is_idle(&db));
}

#[test]
fn a_write_comes_after_an_earlier_one_whose_future_was_dropped() {
    let db = filled(false, 0);
    let occupied = occupy(&db);
    let (options, batch) = synced("key", "first");
    assert!(poll_once(&mut db.write_opt(options, batch).boxed()).is_none());
    let mut second = db.put("key", "second").boxed();
    assert!(poll_once(&mut second).is_none());
    drop(occupied);
    block_on(second).unwrap();
    assert_eq!(db.db.get("key").unwrap().as_deref(), Some(&b"second"[..]));
}

#[test]
fn a_write_with_sync_takes_in_those_without() {
    let db = filled(false, 0);
    let syncs = || db.db.engine().options.statistics.as_ref().unwrap().ticker_count(Ticker::WalFileSynced);
    let (before, occupied) = (syncs(), occupy(&db));
    let mut writes: Vec<_> = (0..20)
        .map(|n| {
            let (options, batch) = synced(&key(n), "value");
            db.write_opt(options.sync(n % 2 == 0), batch).boxed()
        })
        .collect();
    writes.iter_mut().for_each(|write| assert!(poll_once(write).is_none()));
    drop(occupied);
    block_on(join_all(writes)).into_iter().for_each(|result| result.unwrap());
    assert_eq!(syncs() - before, 1);
}

#[test]
fn a_protected_batch_is_checked_when_it_is_committed() {
    let db = filled(false, 0);
    let occupied = occupy(&db);
    let mut writes: Vec<_> = (0..3)
        .map(|n| {
            let mut batch = if n == 1 { WriteBatch::with_protection(8).unwrap() } else { WriteBatch::new() };
            batch.put(key(n), "value").unwrap();
            db.write_opt(WriteOptions::new().sync(true), batch).boxed()
        })
        .collect();
    writes.iter_mut().for_each(|write| assert!(poll_once(write).is_none()));
    let line: Vec<bool> = db.commits.line.lock().iter().map(|waiting| waiting.may_join()).collect();
    assert_eq!(line, [true, false, true]);
    drop(occupied);
    block_on(join_all(writes)).into_iter().for_each(|result| result.unwrap());
}

#[test]
fn an_error_belongs_to_its_own_batch() {
    let db = filled(false, 0);
    let dropped = db.db.create_column_family("dropped", &Default::default()).unwrap();
    db.db.drop_column_family(&dropped).unwrap();
    let occupied = occupy(&db);
    let mut batches: Vec<_> = (0..5).map(|n| synced(&key(n), "value")).collect();
    batches[2].1.put_cf(&dropped, "key", "value").unwrap();
    let mut writes: Vec<_> =
        batches.into_iter().map(|(options, batch)| db.write_opt(options, batch).boxed()).collect();
    writes.iter_mut().for_each(|write| assert!(poll_once(write).is_none()));
    drop(occupied);
    let results: Vec<bool> = block_on(join_all(writes)).iter().map(Result::is_ok).collect();
    assert_eq!(results, [true, true, false, true, true]);
    let keys: Vec<_> = db.db.range(..).map(|row| row.unwrap().0).collect();
    assert_eq!(keys, [0, 1, 3, 4].map(|n| key(n).into_bytes()));
}

#[test]
fn writes_beyond_the_bound_wait_outside_the_line() {
    let db = Db::open(&options(false), "/db").unwrap();
    let db = AsyncDb::new(db, &AsyncOptions::default().max_waiting_write_bytes(10_000)).unwrap();
    let occupied = occupy(&db);
    let (value, large) = ("v".repeat(1000), "l".repeat(1 << 20));
    let mut writes: Vec<_> = (0..30)
        .map(|n| synced(&key(n), if n == 20 { &large } else { &value }))
        .map(|(options, batch)| db.write_opt(options, batch).boxed())
        .collect();
    writes.iter_mut().for_each(|write| assert!(poll_once(write).is_none()));
    let in_line = db.commits.line.lock().len();
    assert!((5..10).contains(&in_line), "{in_line}");
    drop(occupied);
    block_on(join_all(writes)).into_iter().for_each(|result| result.unwrap());
    assert_eq!(db.db.range(..).count(), 30);
}

#[test]
fn a_write_behind_stalled_writers_waits_as_a_future() {
    let db = filled(false, 0);
    let lock = db.db.lock_wal().unwrap();
    let mut write = db.put("key", "value").boxed();
    assert!(poll_once(&mut write).is_none());
    let mut impatient = WriteBatch::new();
    impatient.put("impatient", "value").unwrap();
    let refused = db.write_opt(WriteOptions::new().no_slowdown(true), impatient);
    drop(lock);
    block_on(write).unwrap();
    block_on(refused).unwrap();
    assert_eq!(db.db.range(..).count(), 2);
}

#[test]
fn a_closed_database_answers_the_writes_in_line() {
    let db = filled(false, 0);
    let occupied = occupy(&db);
    let (options, batch) = synced("key", "value");
    let mut write = db.write_opt(options, batch).boxed();
    assert!(poll_once(&mut write).is_none());
    db.db.close().unwrap();
    drop(occupied);
    assert_eq!(block_on(write).unwrap_err().kind(), ErrorKind::ShutdownInProgress);
    assert_eq!(block_on(db.get("key")).unwrap_err().kind(), ErrorKind::ShutdownInProgress);
}

#[test]
fn the_panic_of_a_call_is_one_of_its_future() {
    let db = filled(false, 0);
    let panicking = db.call(|_| -> Result<()> { panic!("the work panics") });
    let panic = block_on(std::panic::AssertUnwindSafe(panicking).catch_unwind()).unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"the work panics"));
    block_on(db.call(|db| db.flush())).unwrap();
    assert!(is_idle(&db));
}

#[test]
fn calls_run_where_they_are_polled_if_there_are_no_threads() {
    if !cfg!(debug_assertions) {
        return;
    }
    let (db, refusal, this) = (filled(true, 10), Probes::new(), std::thread::current().id());
    refusal.on("spawn", move |value| {
        let is_refused = value.downcast_mut::<bool>().expect("the point shows whether it refuses");
        *is_refused |= std::thread::current().id() == this;
    });
    let mut get = db.get("key0007").boxed();
    assert_eq!(poll_once(&mut get).unwrap().unwrap().as_deref(), Some(&b"7"[..]));
    let (options, batch) = synced("key", "value");
    poll_once(&mut db.write_opt(options, batch).boxed()).unwrap().unwrap();
    poll_once(&mut db.call(|db| db.flush()).boxed()).unwrap().unwrap();
}

#[test]
fn options_that_allow_nothing_are_refused_by_name() {
    let db = Db::open(&options(false), "/db").unwrap();
    for (options, name) in [
        (AsyncOptions::default().read_threads(0), "read_threads"),
        (AsyncOptions::default().call_threads(0), "call_threads"),
        (AsyncOptions::default().max_waiting_write_bytes(0), "max_waiting_write_bytes"),
    ] {
        let refused = AsyncDb::new(db.clone(), &options).unwrap_err();
        assert!(refused.message().contains(name), "{refused}");
    }
}

/// A step of a task, which has keys of its own. Pairs of keys are written together.
#[derive(Clone, Debug)]
enum Step {
    Put { pair: u8, sync: bool, polls: Option<u8> },
    Get { pair: u8, polls: Option<u8> },
    Rows { is_reverse: bool, taken: usize },
    Flush,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let polls = || prop::option::weighted(0.3, 0..3_u8);
    let step = prop_oneof![
        4 => (0..20_u8, any::<bool>(), polls()).prop_map(|(pair, sync, polls)| Step::Put { pair, sync, polls }),
        4 => (0..20_u8, polls()).prop_map(|(pair, polls)| Step::Get { pair, polls }),
        1 => (any::<bool>(), 0..60_usize).prop_map(|(is_reverse, taken)| Step::Rows { is_reverse, taken }),
        1 => Just(Step::Flush),
    ];
    prop::collection::vec(step, 0..60)
}

/// The result of `future`; `None` if it is dropped after `polls` polls.
async fn within<T>(future: impl Future<Output = T>, polls: Option<u8>) -> Option<T> {
    let (mut future, mut left) = (Box::pin(future), polls);
    std::future::poll_fn(move |context| {
        if left == Some(0) {
            return std::task::Poll::Ready(None);
        }
        left = left.map(|left| left - 1);
        future.as_mut().poll(context).map(Some)
    })
    .await
}

/// Runs `steps`, and checks every answer against the values that each pair may have.
async fn run_task(db: AsyncDb, task: usize, steps: Vec<Step>) {
    let family = db.db.default_column_family();
    let key = |pair: u8, half: &str| format!("task{task}/{pair:02}/{half}");
    let absent = || BTreeSet::from([None]);
    let mut allowed: BTreeMap<u8, BTreeSet<Option<String>>> = BTreeMap::new();
    for (n, step) in steps.into_iter().enumerate() {
        match step {
            Step::Put { pair, sync, polls } => {
                let (value, mut batch) = (n.to_string(), WriteBatch::new());
                batch.put(key(pair, "a"), &value).unwrap();
                batch.put(key(pair, "b"), &value).unwrap();
                let write = db.write_opt(WriteOptions::new().sync(sync), batch);
                let values = allowed.entry(pair).or_insert_with(absent);
                match within(write, polls).await {
                    Some(result) => {
                        result.unwrap();
                        *values = BTreeSet::from([Some(value)]);
                    }
                    None => {
                        values.insert(Some(value));
                    }
                }
            }
            Step::Get { pair, polls } => {
                let keys = vec![key(pair, "a"), key(pair, "b")];
                let read = db.multi_get_opt(ReadOptions::new(), &family, keys);
                let Some(values) = within(read, polls).await else { continue };
                let text = |value: &Result<Option<PinnedBytes>>| {
                    value.as_ref().unwrap().as_deref().map(|value| String::from_utf8(value.to_vec()).unwrap())
                };
                assert_eq!(text(&values[0]), text(&values[1]), "a pair is written as one");
                assert!(allowed.entry(pair).or_insert_with(absent).contains(&text(&values[0])));
            }
            Step::Rows { is_reverse, taken } => {
                let rows = db.range(key(0, "")..key(99, ""));
                let rows = if is_reverse { rows.rev() } else { rows };
                let rows: Vec<_> = rows.take(taken).try_collect().await.unwrap();
                assert!(rows.windows(2).all(|two| (two[0].0 < two[1].0) != is_reverse));
                for [one, other] in rows.as_chunks::<2>().0 {
                    assert_eq!(one.1, other.1, "a pair is written as one");
                }
            }
            Step::Flush => db.call(|db| db.flush()).await.unwrap(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn tasks_that_drop_futures_at_any_await_read_what_they_wrote(
        is_cold in any::<bool>(),
        tasks in prop::collection::vec(steps(), 1..6),
    ) {
        let db = filled(is_cold, 0);
        let tasks = tasks.into_iter().enumerate().map(|(n, steps)| run_task(db.clone(), n, steps));
        block_on(join_all(tasks));
        prop_assert!(is_idle(&db));
    }

    #[test]
    fn a_stream_gives_the_entries_of_the_blocking_range(
        is_cold in any::<bool>(),
        (from, to, count) in (0..900_usize, 0..900_usize, 0..900_usize),
        is_reverse in any::<bool>(),
    ) {
        let db = filled(is_cold, count);
        let expected = db.db.range(key(from)..key(to)).map(|row| row.unwrap());
        let mut expected: Vec<_> = expected.collect();
        let rows = db.range(key(from)..key(to));
        if is_reverse {
            expected.reverse();
        }
        // The stream is as of the call that made it.
        (0..count).step_by(7).for_each(|n| db.db.put(key(n), "later").unwrap());
        let rows = if is_reverse { rows.rev() } else { rows };
        let rows: Vec<_> = block_on(rows.try_collect()).unwrap();
        prop_assert_eq!(rows, expected);
    }
}
