use super::*;
#[cfg(loom)]
use esker_base::sync::Arc;
#[cfg(loom)]
use loom::thread;
#[cfg(not(loom))]
use std::thread;

fn write(at: NonNull<u64>, mark: u64) {
    // SAFETY: the caller owns the slot.
    unsafe { at.write_volatile(mark) };
}

fn read(at: NonNull<u64>) -> u64 {
    // SAFETY: the slot belongs to this test, which has written to it.
    unsafe { at.read_volatile() }
}

/// Takes a slot, writes to it, and releases it.
fn use_one(slab: &Slab<u64>, mark: u64) {
    let (at, number) = slab.take().expect("the slab has a free number");
    write(at, mark);
    #[cfg(loom)]
    thread::yield_now();
    assert_eq!(read(at), mark, "two owners of one slot");
    slab.release(number);
}

#[cfg(not(loom))]
mod plain {
    use super::*;

    #[test]
    fn slots_lie_side_by_side_and_are_used_again_last_first() {
        let slab: Slab<u64> = Slab::new();
        let take = || slab.take().unwrap();
        let all: Vec<(NonNull<u64>, u32)> = (0..1000).map(|_| take()).collect();
        for (i, &(at, number)) in all.iter().enumerate() {
            assert_eq!(number, i as u32);
            if locate(number).1 > 0 {
                assert_eq!(
                    at.as_ptr(),
                    all[i - 1].0.as_ptr().wrapping_add(1),
                    "the next slot is the next in memory"
                );
            }
        }
        [3, 700, 64].into_iter().for_each(|number| slab.release(number));
        assert_eq!([take(), take(), take()], [all[64], all[700], all[3]]);
        assert_eq!(take().1, 1000, "then a slot that was never used");
    }

    #[test]
    fn every_number_has_its_own_place() {
        let mut next = (0, 0);
        for number in 0..100_000 {
            assert_eq!(locate(number), next);
            next = if next.1 + 1 == segment_len(next.0) { (next.0 + 1, 0) } else { (next.0, next.1 + 1) };
        }
        assert_eq!(locate(u32::MAX).0, SEGMENTS - 1, "the last number has a segment");
    }

    #[test]
    fn slots_of_other_stacks_are_used_before_new_ones() {
        let slab: Slab<u64> = Slab::new();
        let taken: Vec<u32> = (0..64).map(|_| slab.take_by(0).unwrap().1).collect();
        taken.iter().for_each(|&number| slab.release_by(number as usize % STACKS, number));
        let again: Vec<u32> = (0..64).map(|_| slab.take_by(3).unwrap().1).collect();
        assert!(
            again[..64 / STACKS].iter().all(|number| number % STACKS as u32 == 3),
            "the own stack is used first"
        );
        assert_eq!(slab.used.load(Ordering::Relaxed), 64);
    }

    #[test]
    fn no_slot_has_two_owners_among_many_threads() {
        let slab = Slab::new();
        thread::scope(|scope| {
            for t in 0..8 {
                let slab = &slab;
                scope.spawn(move || (0..20_000).for_each(|i| use_one(slab, t << 32 | i)));
            }
        });
        assert!(slab.used.load(Ordering::Relaxed) <= 8, "released slots are used before new ones");
    }
}

#[cfg(loom)]
mod loom_models {
    use super::*;

    fn check(model: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(model);
    }

    /// The classic fault of a lock-free stack (ABA): between one thread's read of the link and its
    /// update, another thread takes the slot and returns it.
    #[test]
    fn loom_a_slot_that_comes_back_has_one_owner() {
        check(|| {
            let slab = Arc::new(Slab::new());
            // Two free slots, because a wrong link needs a second slot to name.
            let free = [0, 1].map(|_| slab.take().unwrap().1);
            free.into_iter().for_each(|number| slab.release(number));
            let other = {
                let slab = slab.clone();
                thread::spawn(move || {
                    let [(_, first), (second, number)] = [0, 1].map(|_| slab.take().unwrap());
                    write(second, 8);
                    slab.release(first);
                    thread::yield_now();
                    assert_eq!(read(second), 8, "two owners of one slot");
                    slab.release(number);
                })
            };
            let held = [0, 1].map(|_| slab.take().unwrap());
            (0..).zip(held).for_each(|(mark, (at, _))| write(at, mark));
            thread::yield_now();
            (0..).zip(held).for_each(|(mark, (at, _))| assert_eq!(read(at), mark, "two owners of one slot"));
            held.into_iter().for_each(|(_, number)| slab.release(number));
            other.join().unwrap();
        });
    }

    /// The same fault, with a stack for each thread.
    #[test]
    fn loom_a_slot_that_goes_to_another_stack_has_one_owner() {
        check(|| {
            let slab = Arc::new(Slab::new());
            let free = [0, 1].map(|_| slab.take().unwrap().1);
            free.into_iter().for_each(|number| slab.release_by(0, number));
            let other = {
                let slab = slab.clone();
                thread::spawn(move || {
                    let [(_, first), (second, number)] = [0, 1].map(|_| slab.take_by(1).unwrap());
                    write(second, 8);
                    slab.release_by(1, first);
                    thread::yield_now();
                    assert_eq!(read(second), 8, "two owners of one slot");
                    slab.release_by(0, number);
                })
            };
            let held = [0, 1].map(|_| slab.take_by(0).unwrap());
            (0..).zip(held).for_each(|(mark, (at, _))| write(at, mark));
            thread::yield_now();
            (0..).zip(held).for_each(|(mark, (at, _))| assert_eq!(read(at), mark, "two owners of one slot"));
            held.into_iter().for_each(|(_, number)| slab.release_by(0, number));
            other.join().unwrap();
        });
    }

    #[test]
    fn loom_a_segment_is_made_once() {
        check(|| {
            let slab = Arc::new(Slab::new());
            let other = {
                let slab = slab.clone();
                thread::spawn(move || use_one(&slab, 1))
            };
            use_one(&slab, 2);
            other.join().unwrap();
        });
    }
}
