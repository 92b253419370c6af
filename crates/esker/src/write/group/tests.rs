//! The write queue and a group's steps in all interleavings that loom distinguishes (`cargo xtask
//! long loom`).
//!
//! The model runs the real code: `WriteQueue`, `Leader`, `write_group`, `ApplyTask`, `Countdown`.
//! Only the engine is replaced, by a WAL and a memtable that remember their records and the writer
//! that may access them.
//!
//! Shown for every interleaving
//!  * No writer waits forever (loom reports a deadlock), and there is at most one leader.
//!  * An acknowledged write is once in the WAL, synced if its options request it, and once in the
//!    memtables, under its number.
//!  * Numbers are in the WAL's order, without gaps, and are published in this order. Published
//!    writes are in the memtables.
//!  * An error reaches exactly the writers that shared the record; all other writes succeed.

use super::*;
use crate::write::queue::{Joined, WriteQueue};
use esker_base::sync::atomic::{AtomicU64, Ordering};
use esker_base::sync::process::atomic::AtomicUsize;
use esker_base::sync::{Condvar, Mutex};
use esker_base::{ColumnFamilyId, ErrorKind};
use esker_format::write_batch::BatchOp;
use loom::thread;

/// The name of a write: the key of its batch.
type Name = u8;

fn name_of(batch: &WriteBatch) -> Name {
    let Some(BatchOp::Put { key, .. }) = batch.iter().next() else {
        panic!("every batch of a model is a put")
    };
    key[0]
}

fn put(name: Name) -> WriteRequest {
    let mut batch = WriteBatch::default();
    batch.put_cf(ColumnFamilyId::DEFAULT, &[name], b"value").expect("a small batch takes the op");
    WriteRequest { batch, ..WriteRequest::default() }
}

/// Large enough that a follower inserts it itself.
fn large_put(name: Name) -> WriteRequest {
    let mut batch = WriteBatch::default();
    batch
        .put_cf(ColumnFamilyId::DEFAULT, &[name], &[0; PARALLEL_APPLY_BYTES])
        .expect("a small batch takes the op");
    WriteRequest { batch, ..WriteRequest::default() }
}

fn synced(request: WriteRequest) -> WriteRequest {
    WriteRequest { sync: true, ..request }
}

/// Stands in for the memtables: numbers and names, in the order of their insertion.
#[derive(Debug, Default)]
struct Inserted {
    entries: Mutex<Vec<(u64, Name)>>,
    refuses: Option<Name>,
}

impl Memtables for Inserted {
    fn apply(&self, batch: &WriteBatch, first: SequenceNumber) -> Result<(), Refused> {
        let name = name_of(batch);
        if self.refuses == Some(name) {
            let error = Error::try_again("refused by the model");
            return Err(Refused { error, is_clean: false });
        }
        self.entries.lock().push((first.0, name));
        Ok(())
    }

    fn apply_parts(&self, batch: &WriteBatch, first: SequenceNumber) -> Result<(), Refused> {
        self.apply(batch, first)
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Record {
    first: u64,
    names: Vec<Name>,
    sync: bool,
}

/// Stands in for the engine, around the real queue.
#[derive(Debug, Default)]
struct Model {
    queue: WriteQueue,
    wal: Mutex<Vec<Record>>,
    memtables: Arc<Inserted>,
    allocated: AtomicU64,
    published: AtomicU64,
    /// The write whose record cannot be written.
    wal_refuses: Option<Name>,
    /// The write that finds no room when it leads.
    no_room_for: Option<Name>,
}

impl Sink for Model {
    type Memtables = Inserted;

    fn has_room_for(&self, request: &WriteRequest) -> bool {
        self.no_room_for != Some(name_of(&request.batch))
    }

    fn allocate(&self, count: u64) -> SequenceNumber {
        let last = self.allocated.load(Ordering::Relaxed);
        self.allocated.store(last + count, Ordering::Relaxed);
        SequenceNumber(last + 1)
    }

    fn log(&self, own: &WriteRequest, group: &[Follower], numbers: Range<SequenceNumber>) -> Result<()> {
        let names: Vec<Name> =
            std::iter::once(&own.batch).chain(group.iter().map(|f| &f.request.batch)).map(name_of).collect();
        let failed = self.wal_refuses.is_some_and(|name| names.contains(&name));
        self.wal.try_lock().expect("one leader at a time").push(Record {
            first: numbers.start.0,
            names,
            sync: own.sync,
        });
        if failed { Err(Error::io("refused by the model")) } else { Ok(()) }
    }

    fn memtables(&self) -> &Arc<Inserted> {
        &self.memtables
    }

    fn applies_concurrently(&self) -> bool {
        true
    }

    fn refused(&self, refused: &Refused, _own: &WriteRequest, _group: &[Follower]) -> Error {
        refused.error.clone()
    }

    fn publish(&self, _own: &WriteRequest, _group: &[Follower], numbers: Range<SequenceNumber>) {
        let before = self.published.load(Ordering::Relaxed);
        assert!(before < numbers.start.0, "{numbers:?} published after {before}");
        self.published.store(numbers.end.0 - 1, Ordering::Release);
    }
}

/// The result of a write, for its writer.
type Outcome = (Name, Result<()>);

impl Model {
    /// Does the same steps as `WritePath::write`.
    fn write(&self, request: WriteRequest) -> Outcome {
        let name = name_of(&request.batch);
        let (batch, result) = match self.queue.join(request) {
            Joined::Done(batch, result) => (batch, result),
            Joined::Lead(_leader, own) if self.no_room_for == Some(name) => {
                (own.batch, Err(Error::io("no room in the model")))
            }
            Joined::Lead(leader, own) => write_group(self, &leader, own, 1 << 20),
        };
        assert_eq!(name_of(&batch), name, "each writer gets its own batch back");
        if result.is_ok() {
            assert!(self.memtables.entries.lock().contains(&(batch.sequence().0, name)));
            assert!(self.published.load(Ordering::Acquire) >= batch.sequence().0);
        }
        (name, result)
    }

    /// Reads like a user: every published write must be in the memtables.
    fn read(&self) {
        let last = self.published.load(Ordering::Acquire);
        let entries = self.memtables.entries.lock();
        for number in 1..=last {
            assert!(entries.iter().any(|&(n, _)| n == number), "{number} of {last} in {entries:?}");
        }
    }

    /// The record of a write, if it was logged.
    fn record_of(wal: &[Record], name: Name) -> Option<&Record> {
        let mut records = wal.iter().filter(|r| r.names.contains(&name));
        let record = records.next();
        assert!(records.next().is_none(), "{name} is in two records of {wal:?}");
        record.inspect(|r| assert_eq!(r.names.iter().filter(|&&n| n == name).count(), 1, "{r:?}"))
    }

    /// Checks the outcome once all writers have returned.
    fn check(&self, outcomes: &[Outcome], must_be_synced: &[Name]) {
        let wal = self.wal.lock();
        let mut next = 1;
        for record in wal.iter() {
            assert_eq!(record.first, next, "{wal:?}");
            next += record.names.len() as u64;
        }
        let mut entries = self.memtables.entries.lock().clone();
        entries.sort_unstable();
        assert!(entries.is_sorted_by(|a, b| a.0 < b.0), "{entries:?}");
        for (name, result) in outcomes {
            let record = Model::record_of(&wal, *name);
            let shared =
                |with: Option<Name>| record.is_some_and(|r| with.is_some_and(|n| r.names.contains(&n)));
            match result {
                Ok(()) => {
                    let record = record.expect("an acknowledged write is in the WAL");
                    let at = record.names.iter().position(|n| n == name).expect("the record has this name");
                    assert!(entries.contains(&(record.first + at as u64, *name)), "{record:?}, {entries:?}");
                    assert!(record.sync || !must_be_synced.contains(name), "{name} is not synced: {wal:?}");
                    assert!(!shared(self.wal_refuses) && !shared(self.memtables.refuses));
                }
                Err(e) => match e.kind() {
                    ErrorKind::IoError if record.is_none() => assert_eq!(self.no_room_for, Some(*name)),
                    ErrorKind::IoError => assert!(shared(self.wal_refuses), "{name}: {e}, {wal:?}"),
                    ErrorKind::TryAgain => assert!(shared(self.memtables.refuses), "{name}: {e}, {wal:?}"),
                    ErrorKind::Incomplete => assert!(record.is_none(), "{name} was refused: {wal:?}"),
                    _ => panic!("{name}: {e}"),
                },
            }
        }
    }
}

/// Counts sightings over all runs of a model.
#[derive(Clone, Default)]
struct Seen(std::sync::Arc<AtomicUsize>);

impl Seen {
    fn count(&self, yes: bool) {
        self.0.fetch_add(usize::from(yes), Ordering::Relaxed);
    }
    fn times(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Runs `once` in all interleavings with at most this many preemptions. A small number of runs is a
/// failure: the search then found no choices.
#[expect(clippy::print_stdout, reason = "how much was searched is part of the result")]
fn explore(name: &str, preemptions: usize, once: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    let runs = Seen::default();
    let counter = runs.clone();
    builder.check(move || {
        counter.count(true);
        once();
    });
    println!("{name}: {} runs", runs.times());
    assert!(runs.times() >= 100, "{} runs cannot have been all interleavings", runs.times());
}

/// Makes each thread's writes one after the other, the first thread's on this thread; then checks.
/// `look` gets the model and the outcomes of every run.
fn writers(
    name: &str,
    preemptions: usize,
    make: fn() -> Model,
    threads: &'static [fn() -> Vec<WriteRequest>],
    look: impl Fn(&Model, &[Outcome]) + Send + Sync + 'static,
) {
    explore(name, preemptions, move || {
        let model = Arc::new(make());
        let must_be_synced: Vec<Name> = threads
            .iter()
            .flat_map(|requests| requests())
            .filter(|r| r.sync)
            .map(|r| name_of(&r.batch))
            .collect();
        let (own, others) = threads.split_first().expect("a model has at least one writer");
        let spawned: Vec<_> = others
            .iter()
            .map(|requests| {
                let model = Arc::clone(&model);
                thread::spawn(move || requests().into_iter().map(|r| model.write(r)).collect::<Vec<_>>())
            })
            .collect();
        let mut outcomes: Vec<Outcome> = own().into_iter().map(|r| model.write(r)).collect();
        outcomes.extend(spawned.into_iter().flat_map(|t| t.join().expect("no assertion failed")));
        model.check(&outcomes, &must_be_synced);
        look(&model, &outcomes);
    });
}

fn largest_group(model: &Model) -> usize {
    model.wal.lock().iter().map(|r| r.names.len()).max().unwrap_or(0)
}

#[test]
fn loom_three_writers_are_written_once_each_alone_or_in_groups() {
    let (alone, grouped) = (Seen::default(), Seen::default());
    let (count_alone, count_grouped) = (alone.clone(), grouped.clone());
    writers(
        "three writers",
        4,
        Model::default,
        &[|| vec![put(1), put(2)], || vec![put(3)], || vec![put(4)]],
        move |model, outcomes| {
            assert!(outcomes.iter().all(|(_, result)| result.is_ok()));
            let wal = model.wal.lock();
            let first_of = |name| Model::record_of(&wal, name).map(|r| r.first);
            assert!(first_of(1) < first_of(2), "a writer's own writes are in order");
            drop(wal);
            count_alone.count(largest_group(model) == 1);
            count_grouped.count(largest_group(model) == 2);
        },
    );
    assert!(alone.times() > 0 && grouped.times() > 0, "{} and {}", alone.times(), grouped.times());
}

#[test]
fn loom_a_synced_write_never_rides_on_one_that_is_not() {
    let mixed = Seen::default();
    let count = mixed.clone();
    writers(
        "sync and not",
        4,
        Model::default,
        &[|| vec![synced(put(1))], || vec![put(2)], || vec![synced(put(3)), put(4)]],
        move |model, outcomes| {
            assert!(outcomes.iter().all(|(_, result)| result.is_ok()));
            count.count(model.wal.lock().iter().any(|r| r.sync && r.names.contains(&2)));
        },
    );
    assert!(mixed.times() > 0, "a write without sync may share a group with a synced one");
}

#[test]
fn loom_inserts_of_followers_are_done_before_they_are_published() {
    let parallel = Seen::default();
    explore("followers insert, somebody reads", 2, {
        let parallel = parallel.clone();
        move || {
            let model = Arc::new(Model::default());
            let spawned: Vec<_> = [1, 2]
                .map(|name| {
                    let model = Arc::clone(&model);
                    thread::spawn(move || vec![model.write(large_put(name))])
                })
                .into_iter()
                .chain([{
                    let model = Arc::clone(&model);
                    thread::spawn(move || {
                        model.read();
                        model.read();
                        Vec::new()
                    })
                }])
                .collect();
            let mut outcomes = vec![model.write(put(3))];
            outcomes.extend(spawned.into_iter().flat_map(|t| t.join().expect("no assertion failed")));
            assert!(outcomes.iter().all(|(_, result)| result.is_ok()));
            model.check(&outcomes, &[]);
            parallel.count(largest_group(&model) > 1);
        }
    });
    assert!(parallel.times() > 0);
}

#[test]
fn loom_three_writers_insert_a_group_together() {
    let all_three = Seen::default();
    let count = all_three.clone();
    writers(
        "one leads, two insert their own",
        3,
        Model::default,
        &[|| vec![put(1), large_put(2)], || vec![large_put(3)], || vec![large_put(4)]],
        move |model, outcomes| {
            assert!(outcomes.iter().all(|(_, result)| result.is_ok()));
            count.count(largest_group(model) == 3);
        },
    );
    assert!(all_three.times() > 0);
}

#[test]
fn loom_a_wal_error_reaches_its_group_only() {
    let (shared, spared) = (Seen::default(), Seen::default());
    let (count_shared, count_spared) = (shared.clone(), spared.clone());
    writers(
        "the WAL fails",
        4,
        || Model { wal_refuses: Some(2), ..Model::default() },
        &[|| vec![put(1), put(4)], || vec![put(2)], || vec![put(3)]],
        move |model, outcomes| {
            let failed = outcomes.iter().filter(|(_, result)| result.is_err()).count();
            let wal = model.wal.lock();
            let record = Model::record_of(&wal, 2).expect("the write reached the WAL");
            assert_eq!(failed, record.names.len());
            count_shared.count(failed > 1);
            count_spared.count(failed == 1);
        },
    );
    assert!(shared.times() > 0 && spared.times() > 0);
}

#[test]
fn loom_a_followers_failed_insert_fails_its_group_only() {
    let (as_follower, as_leader) = (Seen::default(), Seen::default());
    let (count_follower, count_leader) = (as_follower.clone(), as_leader.clone());
    writers(
        "the memtables fail",
        4,
        || Model {
            memtables: Arc::new(Inserted { refuses: Some(3), ..Inserted::default() }),
            ..Model::default()
        },
        &[|| vec![put(1), large_put(2)], || vec![large_put(3)], || vec![large_put(4)]],
        move |model, outcomes| {
            let failed = outcomes.iter().filter(|(_, result)| result.is_err()).count();
            let wal = model.wal.lock();
            let record = Model::record_of(&wal, 3).expect("the write reached the WAL");
            assert_eq!(failed, record.names.len());
            count_leader.count(record.names[0] == 3);
            count_follower.count(record.names[0] != 3);
        },
    );
    assert!(as_follower.times() > 0 && as_leader.times() > 0);
}

#[test]
fn loom_a_leader_without_room_fails_alone_and_the_next_one_leads() {
    let (failed, carried) = (Seen::default(), Seen::default());
    let (count_failed, count_carried) = (failed.clone(), carried.clone());
    writers(
        "no room",
        4,
        || Model { no_room_for: Some(2), ..Model::default() },
        &[|| vec![put(1)], || vec![put(2)], || vec![put(3)]],
        move |_, outcomes| {
            let errors: Vec<Name> =
                outcomes.iter().filter(|(_, result)| result.is_err()).map(|(name, _)| *name).collect();
            assert!(errors.is_empty() || errors == [2], "{errors:?}");
            count_failed.count(errors == [2]);
            count_carried.count(errors.is_empty());
        },
    );
    assert!(failed.times() > 0 && carried.times() > 0);
}

/// A leader stays stalled until the writer that may not wait has returned. A writer that waited for
/// this leader would wait forever.
#[test]
fn loom_a_writer_that_may_not_wait_is_turned_away_from_a_stall() {
    let (turned_away, written) = (Seen::default(), Seen::default());
    let (count_turned_away, count_written) = (turned_away.clone(), written.clone());
    explore("a stall", 3, move || {
        let model = Arc::new(Model::default());
        let is_over = Arc::new((Mutex::new(false), Condvar::new()));
        let impatient = {
            let (model, is_over) = (Arc::clone(&model), Arc::clone(&is_over));
            thread::spawn(move || {
                let outcome = model.write(WriteRequest { no_slowdown: true, ..put(2) });
                *is_over.0.lock() = true;
                is_over.1.notify_one();
                outcome
            })
        };
        let patient = {
            let model = Arc::clone(&model);
            thread::spawn(move || model.write(put(3)))
        };
        let stalled = match model.queue.join(put(1)) {
            Joined::Done(_, result) => (1, result),
            Joined::Lead(leader, own) => {
                leader.begin_stall();
                let mut over = is_over.0.lock();
                while !*over {
                    is_over.1.wait(&mut over);
                }
                drop(over);
                leader.end_stall();
                (1, write_group(&*model, &leader, own, 1 << 20).1)
            }
        };
        let impatient = impatient.join().expect("no assertion failed");
        let patient = patient.join().expect("no assertion failed");
        assert!(stalled.1.is_ok() && patient.1.is_ok());
        count_written.count(impatient.1.is_ok());
        count_turned_away.count(impatient.1.is_err());
        model.check(&[stalled, impatient, patient], &[]);
    });
    assert!(turned_away.times() > 0 && written.times() > 0);
}

/// A leader stays stalled until a writer that needs no room has led. A writer that waited for the
/// stalled leader would wait forever.
#[test]
fn loom_a_writer_that_needs_no_room_leads_alone_during_a_stall() {
    let (lent, came_first) = (Seen::default(), Seen::default());
    let (count_lent, count_came_first) = (lent.clone(), came_first.clone());
    explore("a lead is lent", 3, move || {
        let model = Arc::new(Model::default());
        let is_over = Arc::new((Mutex::new(false), Condvar::new()));
        let urgent = {
            let (model, is_over) = (Arc::clone(&model), Arc::clone(&is_over));
            thread::spawn(move || {
                let leader = model.queue.lead_alone_urgently(|| {
                    let held = is_over.0.lock();
                    is_over.1.notify_all();
                    drop(held);
                });
                let records = || model.wal.try_lock().expect("no other thread leads").len();
                let before = records();
                *is_over.0.lock() = true;
                is_over.1.notify_all();
                assert_eq!(records(), before);
                drop(leader);
            })
        };
        let other = {
            let model = Arc::clone(&model);
            thread::spawn(move || model.write(put(2)))
        };
        let mut lends = 0;
        let stalled = match model.queue.join(put(1)) {
            Joined::Done(_, result) => (1, result),
            Joined::Lead(leader, own) => {
                leader.begin_stall();
                let mut over = is_over.0.lock();
                while !*over {
                    if leader.is_wanted() {
                        drop(over);
                        leader.lend();
                        lends += 1;
                        over = is_over.0.lock();
                    } else {
                        is_over.1.wait(&mut over);
                    }
                }
                drop(over);
                leader.end_stall();
                (1, write_group(&*model, &leader, own, 1 << 20).1)
            }
        };
        urgent.join().expect("no assertion failed");
        let other = other.join().expect("no assertion failed");
        assert!(stalled.1.is_ok() && other.1.is_ok());
        count_lent.count(lends == 1);
        count_came_first.count(lends == 0);
        model.check(&[stalled, other], &[]);
    });
    assert!(lent.times() > 0 && came_first.times() > 0);
}

#[test]
fn loom_nothing_is_written_while_a_writer_leads_alone() {
    explore("alone", 3, || {
        let model = Arc::new(Model::default());
        let spawned = [1, 2].map(|name| {
            let model = Arc::clone(&model);
            thread::spawn(move || model.write(put(name)))
        });
        let leader = model.queue.lead_alone();
        let records = |model: &Model| model.wal.try_lock().expect("no other thread leads").len();
        let before = records(&model);
        thread::yield_now();
        assert_eq!(records(&model), before);
        drop(leader);
        let outcomes = spawned.map(|t| t.join().expect("no assertion failed"));
        assert!(outcomes.iter().all(|(_, result)| result.is_ok()));
        model.check(&outcomes, &[]);
    });
}
