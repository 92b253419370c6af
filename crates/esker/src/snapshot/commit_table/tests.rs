#[cfg(not(loom))]
use super::*;
#[cfg(not(loom))]
use crate::snapshot::Holder;

#[cfg(not(loom))]
fn seq(number: u64) -> SequenceNumber {
    SequenceNumber(number)
}

#[cfg(not(loom))]
#[test]
fn a_reader_sees_a_section_from_its_resolution_on() {
    let table = CommitTable::new();
    table.prepare(b"one", seq(5), 2);
    table.prepare(b"two", seq(7), 1);
    let early = table.now(|| seq(8)).1.expect("both are open");
    assert!(early.hides(seq(5)) && early.hides(seq(6)) && early.hides(seq(7)));
    assert!(!early.hides(seq(4)) && !early.hides(seq(8)));
    table.resolve(b"one", seq(9));
    assert!(early.hides(seq(6)), "what a reader sees stays");
    let late = table.now(|| seq(9)).1.expect("one is open");
    assert!(!late.hides(seq(5)) && late.hides(seq(7)));
    assert_eq!((late.visible_from(seq(5)), late.visible_from(seq(4))), (seq(9), seq(4)));
    assert_eq!((late.visible_from(seq(7)), late.first()), (SequenceNumber::MAX, seq(5)));
    assert!(table.at(seq(4)).is_none(), "it sees everything up to its number");
}

#[cfg(not(loom))]
#[test]
fn the_table_forgets_what_no_reader_needs() {
    let (table, snapshots) = (CommitTable::new(), LiveSnapshots::new());
    let take = |number| snapshots.acquire(|| seq(number), Holder::User, || 0).1;
    let rows = || table.chunks.load_full().iter().map(|chunk| chunk.rows().len()).sum::<usize>();
    table.prepare(b"one", seq(5), 1);
    let (older, within) = (take(4), take(6));
    table.resolve(b"one", seq(8));
    table.prune(&snapshots, seq(7));
    assert_eq!(rows(), 1, "the number of its commit is not published");
    table.prune(&snapshots, seq(8));
    assert_eq!(rows(), 1, "the snapshot 6 does not see the commit at 8");
    assert!(table.at(seq(6)).is_some_and(|unseen| unseen.hides(seq(5))));
    table.released(&snapshots, seq(4), || panic!("the snapshot 6 is still there"));
    snapshots.release(older, || seq(8));
    snapshots.release(within, || seq(8));
    table.released(&snapshots, seq(8), || seq(8));
    assert_eq!(rows(), 0, "no snapshot lies before the commit");
    table.released(&snapshots, seq(8), || panic!("no snapshot keeps a row"));
    table.prepare(b"three", seq(10), 1);
    table.forget(b"three");
    assert!(table.at(seq(11)).is_some_and(|unseen| !unseen.hides(seq(10))), "a later write has its number");
    table.prune(&snapshots, seq(11));
    assert!(table.at(seq(11)).is_none());
}

#[cfg(not(loom))]
#[test]
fn the_table_stays_small_beside_a_transaction_that_stays_prepared() {
    let (table, snapshots) = (CommitTable::new(), LiveSnapshots::new());
    table.prepare(b"old", seq(1), 1);
    for number in 1..1000 {
        table.prepare(b"new", seq(2 * number), 1);
        table.resolve(b"new", seq(2 * number + 1));
        table.prune(&snapshots, seq(2 * number + 1));
    }
    let unseen = table.now(|| seq(2000)).1.expect("one is prepared");
    assert!(unseen.hides(seq(1)) && (2..2000).all(|number| !unseen.hides(seq(number))));
    assert!(table.chunks.load_full().len() <= 2, "the chunk of the old one, and the newest");
}

#[cfg(not(loom))]
#[test]
fn a_job_counts_only_resolutions_that_every_later_snapshot_sees() {
    let (table, snapshots) = (CommitTable::new(), LiveSnapshots::new());
    table.prepare(b"one", seq(5), 1);
    let job = table.for_job(&snapshots, || seq(5)).1.expect("one is not resolved");
    table.resolve(b"one", seq(6));
    // A snapshot at 5 may have been taken since.
    assert_eq!(job.visible_from(seq(5)), SequenceNumber::MAX);
    assert!(table.for_job(&snapshots, || seq(6)).1.is_none(), "all readers see it");
    snapshots.acquire(|| seq(5), Holder::User, || 0);
    let job = table.for_job(&snapshots, || seq(6)).1.expect("the snapshot does not see it");
    assert_eq!((job.visible_from(seq(5)), job.visible_from(seq(3))), (seq(6), seq(3)));
}

#[cfg(not(loom))]
#[test]
fn a_job_keeps_the_state_before_the_oldest_section_that_a_reader_may_not_see() {
    let (table, snapshots) = (CommitTable::new(), LiveSnapshots::new());
    let of_job = || {
        let (all, job) = table.for_job(&snapshots, || seq(20));
        assert_eq!(job.map_or_else(|| all.clone(), |job| job.live(&all)), snapshots.all());
        all
    };
    let at_3 = snapshots.acquire(|| seq(3), Holder::User, || 0).1;
    table.prepare(b"one", seq(5), 2);
    table.prepare(b"two", seq(9), 1);
    assert_eq!(of_job(), [seq(3), seq(4)]);
    let at_10 = snapshots.acquire(|| seq(10), Holder::User, || 0).1;
    table.resolve(b"one", seq(12));
    assert_eq!(of_job(), [seq(3), seq(4), seq(10)], "the snapshot 10 does not see the commit at 12");
    snapshots.release(at_10, || seq(20));
    assert_eq!(of_job(), [seq(3), seq(8)]);
    table.resolve(b"two", seq(13));
    assert_eq!(of_job(), [seq(3)]);
    snapshots.release(at_3, || seq(20));
}

/// In all interleavings that loom distinguishes (`cargo xtask long loom`).
#[cfg(loom)]
mod models {
    use super::super::*;
    use loom::thread;

    const PREPARED: SequenceNumber = SequenceNumber(2);
    const COMMITTED: SequenceNumber = SequenceNumber(3);

    /// A writer prepares a section, publishes it, commits it and drops it from the table. A reader
    /// without a snapshot beside it must see the entry exactly from the commit's number on.
    #[test]
    fn loom_a_reader_beside_a_commit_sees_it_exactly_from_its_number_on() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let table = Arc::new(CommitTable::new());
            let visible = Arc::new(AtomicU64::new(1));
            let writer = {
                let (table, visible) = (table.clone(), visible.clone());
                thread::spawn(move || {
                    table.prepare(b"x", PREPARED, 1);
                    visible.store(PREPARED.0, Ordering::Release);
                    table.resolve(b"x", COMMITTED);
                    visible.store(COMMITTED.0, Ordering::Release);
                    table.prune(&LiveSnapshots::new(), COMMITTED);
                })
            };
            let (number, unseen) = table.now(|| SequenceNumber(visible.load(Ordering::Acquire)));
            let is_hidden = unseen.is_some_and(|unseen| unseen.hides(PREPARED));
            assert_eq!(number == PREPARED, is_hidden, "at {number}");
            writer.join().expect("the writer does not panic");
        });
    }

    /// A super version of a key with a rolled back value.
    #[derive(Default)]
    struct RolledBack {
        /// The number of the former value above it; 0: it is not written.
        restored: AtomicU64,
    }

    /// A writer rolls a transaction back while a memtable is switched: the section is in the old
    /// super version, the former value comes into the new one. A get beside it must not read the
    /// old super version with the number of the rollback.
    #[test]
    fn loom_a_get_beside_a_rollback_and_a_switch_never_sees_what_was_rolled_back() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let table = Arc::new(CommitTable::new());
            table.prepare(b"x", PREPARED, 1);
            let visible = Arc::new(AtomicU64::new(PREPARED.0));
            let super_version = Arc::new(Swap::new(Arc::<RolledBack>::default()));
            let writer = {
                let (table, visible, super_version) = (table.clone(), visible.clone(), super_version.clone());
                thread::spawn(move || {
                    let new = Arc::<RolledBack>::default();
                    super_version.store(new.clone());
                    new.restored.store(COMMITTED.0, Ordering::Release);
                    table.resolve(b"x", COMMITTED);
                    visible.store(COMMITTED.0, Ordering::Release);
                    table.prune(&LiveSnapshots::new(), COMMITTED);
                })
            };
            let visible = || SequenceNumber(visible.load(Ordering::Acquire));
            let (read, number, unseen) = table.read_point(&super_version, visible);
            let restored = read.restored.load(Ordering::Acquire);
            let is_restored = restored != 0 && restored <= number.0;
            let is_hidden = unseen.is_some_and(|unseen| unseen.hides(PREPARED));
            assert!(is_restored || is_hidden, "at {number} the rolled back value is seen");
            writer.join().expect("the writer does not panic");
        });
    }
}
