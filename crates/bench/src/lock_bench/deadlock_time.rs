//! The time until a deadlock is reported: from the call that closes a cycle to its error.
//!
//! In: the number of deadlocks. Out: nanoseconds for each. Two transactions hold a key each. The
//! first waits for the key of the second, and the second requests the key of the first. If the
//! first transaction is still awake and finds the deadlock itself, the attempt is repeated.

use super::cell::{SystemTime, monotonic_nanos};
use esker::Result;
use esker::internals::env::spawn_scoped;
use esker_lock::{
    ColumnFamilyId, FamilyOptions, LockManager, LockManagerOptions, LockMode, LockerOptions, Timeout,
};
use std::sync::Arc;

/// Measures the times. Returns them in ascending order.
/// # Errors
/// The system refuses a thread.
pub(super) fn times_until_reported(count: usize) -> Result<Vec<u64>> {
    let manager = LockManager::new(LockManagerOptions::new(Arc::new(SystemTime)));
    let family = manager
        .add_family(ColumnFamilyId::DEFAULT, &FamilyOptions::default())
        .expect("the manager has no family yet");
    let options =
        LockerOptions { lock_timeout: Timeout::Forever, deadlock_detect: true, ..LockerOptions::default() };
    let mut times = Vec::with_capacity(count);
    while times.len() < count {
        let (mut first, mut second) = (manager.locker(options), manager.locker(options));
        let lock =
            |locker: &mut esker_lock::Locker, key: &[u8]| locker.lock_key(&family, key, LockMode::Exclusive);
        lock(&mut first, b"a").expect("no locker holds the key");
        lock(&mut second, b"b").expect("no locker holds the key");
        std::thread::scope(|scope| {
            spawn_scoped(scope, "lock_bench", || {
                if lock(&mut first, b"b").is_err() {
                    first.release_all();
                }
            })?;
            while manager.waits().is_empty() {
                std::thread::yield_now();
            }
            let start = monotonic_nanos();
            let refused = lock(&mut second, b"a").is_err();
            let time = monotonic_nanos() - start;
            second.release_all();
            times.extend(refused.then_some(time));
            Ok(())
        })?;
    }
    times.sort_unstable();
    Ok(times)
}
