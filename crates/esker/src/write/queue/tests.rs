use super::*;
use esker_base::ColumnFamilyId;
use esker_base::sync::atomic::{AtomicBool, AtomicUsize};

fn request(bytes: usize) -> WriteRequest {
    let mut batch = WriteBatch::new();
    batch.put_cf(ColumnFamilyId::DEFAULT, b"key", vec![7; bytes]).expect("a small batch takes the op");
    WriteRequest { batch, ..WriteRequest::default() }
}

fn lead<'q>(queue: &'q WriteQueue, bytes: usize) -> (Leader<'q>, WriteRequest) {
    match queue.join(request(bytes)) {
        Joined::Lead(leader, own) => (leader, own),
        Joined::Done(..) => panic!("no other thread writes the batch"),
    }
}

#[test]
fn an_idle_queue_is_led_at_once_again_and_again() {
    let queue = WriteQueue::default();
    for _ in 0..3 {
        let (leader, own) = lead(&queue, 10);
        assert!(leader.take_group(&own, usize::MAX).is_empty());
        assert_eq!(queue.lead.load(Ordering::Relaxed), ALONE);
        drop(leader);
        assert_eq!(queue.lead.load(Ordering::Relaxed), FREE);
    }
}

#[test]
fn a_writer_that_may_not_wait_is_turned_away_from_a_stalled_leader_and_leaves_no_trace() {
    let queue = WriteQueue::default();
    let (leader, _own) = lead(&queue, 10);
    leader.begin_stall();
    let impatient = WriteRequest { no_slowdown: true, ..request(10) };
    let Joined::Done(batch, Err(_)) = queue.join(impatient) else {
        panic!("the queue must refuse the request")
    };
    assert_eq!(batch.count(), 1);
    assert_eq!(queue.lead.load(Ordering::Relaxed), ALONE);
    leader.end_stall();
    drop(leader);
    drop(lead(&queue, 10));
}

#[test]
fn a_writer_that_needs_no_room_leads_during_a_stall_and_returns_the_lead() {
    let queue = WriteQueue::default();
    let order = Mutex::new(Vec::new());
    let woken = AtomicUsize::new(0);
    let (leader, _own) = lead(&queue, 10);
    let lead_urgently = |name| {
        let lead = queue.lead_alone_urgently(|| {
            woken.fetch_add(1, Ordering::SeqCst);
        });
        assert_ne!(queue.lead.load(Ordering::Relaxed), FREE);
        order.lock().push(name);
        drop(lead);
    };
    std::thread::scope(|scope| {
        // One request of each kind is in line when the stall begins.
        scope.spawn(|| {
            let Joined::Lead(lead, _) = queue.join(request(10)) else {
                panic!("no leader writes this request")
            };
            order.lock().push("writer");
            drop(lead);
        });
        while queue.len() < 1 {
            std::thread::yield_now();
        }
        scope.spawn(|| lead_urgently("first"));
        while queue.len() < 2 {
            std::thread::yield_now();
        }
        leader.begin_stall();
        assert!(leader.is_wanted());
        leader.lend();
        assert!(!leader.is_wanted());
        scope.spawn(|| lead_urgently("second"));
        while !leader.is_wanted() {
            std::thread::yield_now();
        }
        leader.lend();
        // No urgent request waits: the leader keeps the lead.
        leader.lend();
        order.lock().push("stalled");
        leader.end_stall();
        drop(leader);
    });
    assert_eq!(*order.lock(), ["first", "second", "stalled", "writer"]);
    assert_eq!(woken.into_inner(), 1, "the stall wakes a waiter that came before it");
    assert_eq!(queue.lead.load(Ordering::Relaxed), FREE);
}

/// Every request is served exactly once, by one leader at a time, in every order of the threads.
#[test]
fn one_leader_at_a_time_serves_everybody() {
    const THREADS: usize = 4;
    const WRITES: usize = 500;
    let queue = WriteQueue::default();
    let (leading, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (queue, leading, served) = (&queue, &leading, &served);
            scope.spawn(move || {
                for i in 0..WRITES {
                    if (i + thread) % 50 == 0 {
                        let leader =
                            if i % 4 == 0 { queue.lead_alone() } else { queue.lead_alone_urgently(|| {}) };
                        assert!(!leading.swap(true, Ordering::SeqCst), "two threads lead at once");
                        leading.store(false, Ordering::SeqCst);
                        drop(leader);
                    }
                    let batch = match queue.join(request(i % 100)) {
                        Joined::Done(batch, result) => {
                            result.unwrap();
                            batch
                        }
                        Joined::Lead(leader, own) => {
                            assert!(!leading.swap(true, Ordering::SeqCst), "two threads lead at once");
                            if i % 3 == 0 {
                                leader.begin_stall();
                                leading.store(false, Ordering::SeqCst);
                                leader.lend();
                                assert!(!leading.swap(true, Ordering::SeqCst), "two threads lead at once");
                                leader.end_stall();
                            }
                            let group = leader.take_group(&own, usize::MAX);
                            served.fetch_add(1 + group.len(), Ordering::SeqCst);
                            for follower in group {
                                follower.finish(Ok(()));
                            }
                            leading.store(false, Ordering::SeqCst);
                            own.batch
                        }
                    };
                    assert_eq!(batch.count(), 1, "the writer gets its own batch back");
                }
            });
        }
    });
    assert_eq!(served.into_inner(), THREADS * WRITES);
    assert_eq!(queue.lead.load(Ordering::Relaxed), FREE);
}
