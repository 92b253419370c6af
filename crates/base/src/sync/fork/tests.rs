#![expect(clippy::disallowed_methods, reason = "processes and threads of the system are what is tested")]

use super::*;
use crate::sync::Arc;
use crate::sync::epoch::{self, Swap};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Runs `work` in a forked child and returns its result. `None` if it panics or does not end within
/// 20 seconds.
fn in_a_child(work: impl FnOnce() -> u8) -> Option<u8> {
    // SAFETY: the child runs `work`, whose allocations are safe after `fork` with this platform's
    // allocator, and `_exit`.
    in_the_child(unsafe { libc::fork() }, work)
}

/// As `in_a_child`, by a bare `clone` system call, so that no fork handler runs. `work` must not
/// allocate.
#[cfg(target_os = "linux")]
fn in_a_bare_child(work: impl FnOnce() -> u8) -> Option<u8> {
    // SAFETY: without flags the child gets a copy of the memory; it runs `work`, which takes no
    // lock, and `_exit`.
    let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
    in_the_child(libc::pid_t::try_from(child).expect("a number of a process"), work)
}

#[cfg(target_os = "linux")]
#[test]
fn the_generation_has_whole_pages_to_itself() {
    assert_eq!(size_of::<Page>(), PAGE_BYTES);
    // The loader may put a program at any address, as far as the program's alignment allows.
    assert!(std::ptr::from_ref(&PAGE).addr().is_multiple_of(PAGE_BYTES));
    assert!(PAGE_BYTES.is_multiple_of(page_size()), "pages of {} bytes", page_size());
}

#[cfg(target_os = "linux")]
#[test]
fn a_child_of_a_bare_clone_is_not_the_owner_but_has_owners_of_its_own() {
    let (owner, value) = (ProcessOwner::here(), PerProcess::<u8>::new());
    assert_eq!(*value.get(|_| 1), 1);
    let seen = in_a_bare_child(|| {
        let was_here = owner.is_here() || value.here().is_some();
        let own = ProcessOwner::here();
        u8::from(was_here) + 2 * u8::from(own.is_here()) + 4 * u8::from(owner.is_here())
    });
    assert_eq!(seen, Some(2));
    assert!(owner.is_here() && value.here().is_some());
}

fn in_the_child(child: libc::pid_t, work: impl FnOnce() -> u8) -> Option<u8> {
    if child == 0 {
        let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(255);
        // SAFETY: ends this child without running what the parent's test harness has registered.
        unsafe { libc::_exit(i32::from(code)) };
    }
    assert!(child > 0, "the fork failed");
    for _ in 0..2000 {
        let mut status = 0;
        // SAFETY: the status is a live value of ours.
        if unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == child {
            return libc::WIFEXITED(status)
                .then(|| libc::WEXITSTATUS(status) as u8)
                .filter(|code| *code != 255);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    // SAFETY: a child of ours that has not been waited for.
    unsafe { libc::kill(child, libc::SIGKILL) };
    None
}

#[test]
fn a_forked_child_is_not_the_owner_and_says_so() {
    let owner = ProcessOwner::here();
    assert!(owner.is_here());
    let seen = in_a_child(|| {
        let message = owner.check("the database in /db").unwrap_err().to_string();
        let names_both = message.contains(&format!("process {}", owner.process_id))
            && message.contains(&format!("process {}", std::process::id()));
        u8::from(owner.is_here()) + 2 * u8::from(names_both) + 4 * u8::from(ProcessOwner::here().is_here())
    });
    assert_eq!(seen, Some(6));
    assert!(owner.is_here());
}

#[test]
fn a_forked_child_makes_its_own_value_and_frees_nothing_of_its_parent() {
    let alive = Arc::new(());
    let value = PerProcess::<(u8, Arc<()>)>::new();
    assert_eq!(value.get(|_| (1, alive.clone())).0, 1);
    let seen = in_a_child(|| {
        let new = value.get(|old| (old.map_or(0, |old| old.0) + 1, alive.clone())).0;
        drop(value);
        // In the child the parent's value is still alive, and the child's own is freed.
        new + 10 * u8::try_from(Arc::strong_count(&alive)).unwrap_or(0)
    });
    assert_eq!(seen, Some(22));
}

#[test]
fn a_lock_that_a_lost_thread_held_is_no_hang() {
    static LOCK: StaticMutex<u8> = StaticMutex::new(7);
    _ = ProcessOwner::here();
    let (held, is_held) = channel();
    let (end, ends) = channel::<()>();
    let thread = std::thread::spawn(move || {
        let guard = LOCK.lock();
        held.send(()).unwrap();
        ends.recv().unwrap();
        drop(guard);
    });
    is_held.recv().unwrap();
    let while_held = in_a_child(|| LOCK.lock().map_or(1, |value| *value));
    end.send(()).unwrap();
    thread.join().unwrap();
    let while_free = in_a_child(|| LOCK.lock().map_or(1, |value| *value));
    assert_eq!((while_held, while_free), (Some(1), Some(7)));
}

#[test]
fn values_retired_in_a_forked_child_are_released_although_a_lost_thread_was_pinned() {
    _ = ProcessOwner::here();
    let (pinned, is_pinned) = channel();
    let (end, ends) = channel::<()>();
    let thread = std::thread::spawn(move || {
        let guard = epoch::pin();
        pinned.send(()).unwrap();
        ends.recv().unwrap();
        drop(guard);
    });
    is_pinned.recv().unwrap();
    // The forking thread must have used the parent's epochs.
    drop(epoch::pin());
    let seen = in_a_child(|| {
        let (first, second) = (Arc::new(1), Arc::new(2));
        let swap = Swap::new(first.clone());
        swap.store(second);
        let settled = epoch::settle(1000, std::thread::yield_now);
        u8::from(settled) + 10 * u8::try_from(Arc::strong_count(&first)).unwrap_or(0)
    });
    end.send(()).unwrap();
    thread.join().unwrap();
    assert_eq!(seen, Some(11));
}
