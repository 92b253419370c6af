//! One group of writes: numbered, logged, inserted, published, acknowledged, in this order.
//!
//! In: leadership, the leader's own request, and a [`Sink`]: the engine, or its stand-in in a model
//! check. Out: the sink has every batch of the group, the followers are woken, and the leader has
//! its batch and the group's result.
//!
//! Invariants
//!  1. `publish` is called only after the memtables have every batch of the group, including the
//!     batches that followers insert.
//!  2. A leader writes groups for other writers only after its own group has ended. It never waits
//!     for room for these groups.
//!  3. An error of one member fails the whole group, because the members share one record and are
//!     published together. If the memtables refuse the group, its record is removed from the log.

use super::apply::{ApplyTask, Countdown, Memtables, Refused};
use super::queue::{Follower, Leader, WriteRequest};
use esker_base::sync::{Arc, hesitate};
use esker_base::{Error, Result, SequenceNumber};
use esker_format::write_batch::WriteBatch;
use std::ops::Range;

/// Followers insert their own batches if the sum of these batches' bytes is at least this bound. In
/// a smaller group the leader inserts all batches, because waking the followers would take longer.
/// The simulated machine (`--cfg shuttle`) writes small batches, so its bound is lower.
const PARALLEL_APPLY_BYTES: usize = if cfg!(shuttle) { 64 } else { 16 << 10 };

/// Largest number of groups that a leader writes for others before it hands over leadership. The
/// leader's own caller waits meanwhile.
const ROUNDS: usize = 4;

/// The log and the memtables, as the target of a group.
pub(super) trait Sink {
    type Memtables: Memtables + 'static;

    /// Whether `request` can be written at once: nothing blocks writes, and no memtable or WAL is
    /// due for a switch.
    fn has_room_for(&self, request: &WriteRequest) -> bool;

    /// Allocates `count` sequence numbers; returns the first.
    fn allocate(&self, count: u64) -> SequenceNumber;

    /// Logs the group, and syncs the log if a writer of the group requests a sync.
    fn log(&self, own: &WriteRequest, group: &[Follower], numbers: Range<SequenceNumber>) -> Result<()>;

    fn memtables(&self) -> &Arc<Self::Memtables>;

    /// Runs `insert`, and counts its time for the calling thread.
    fn time_insert<R>(&self, insert: impl FnOnce() -> R) -> R {
        insert()
    }

    /// Whether followers may insert their own batches.
    fn applies_concurrently(&self) -> bool;

    /// Handles a batch that the memtables refused: removes the group's record from the log, and
    /// returns the error for the writers. If no memtable has an entry of the group, the next group
    /// may get the same sequence numbers.
    fn refused(&self, refused: &Refused, own: &WriteRequest, group: &[Follower]) -> Error;

    /// Makes the writes of `group` and its leader, up to the end of `numbers`, visible to reads.
    fn publish(&self, own: &WriteRequest, group: &[Follower], numbers: Range<SequenceNumber>);
}

/// Writes a group of at most `max_bytes`: the leader's batch, and batches of followers that may
/// share its record. Then writes up to `ROUNDS` groups for other waiters.
pub(super) fn write_group(
    sink: &impl Sink,
    leader: &Leader<'_>,
    mut own: WriteRequest,
    max_bytes: usize,
) -> (WriteBatch, Result<()>) {
    let mut group = leader.take_group(&own, max_bytes);
    let result = commit(sink, &mut own, &mut group);
    for follower in group {
        follower.finish(result.clone());
    }
    for _ in 0..ROUNDS {
        if !serve_next(sink, leader, max_bytes) {
            break;
        }
    }
    (own.batch, result)
}

/// Writes the leader's batch alone, and nothing for other waiters.
pub(super) fn write_alone(sink: &impl Sink, mut own: WriteRequest) -> (WriteBatch, Result<()>) {
    let result = commit(sink, &mut own, &mut []);
    (own.batch, result)
}

/// Writes a group for the first waiter in line. Returns false if nobody waits, or if this leader
/// cannot write for the first waiter.
fn serve_next(sink: &impl Sink, leader: &Leader<'_>, max_bytes: usize) -> bool {
    let Some(mut first) = leader.take_next(|request| sink.has_room_for(request)) else { return false };
    esker_base::probe!("write:led_for_others");
    let mut group = leader.take_group(&first.request, max_bytes);
    let result = commit(sink, &mut first.request, &mut group);
    first.finish(result.clone());
    for follower in group {
        follower.finish(result.clone());
    }
    true
}

fn commit(sink: &impl Sink, own: &mut WriteRequest, group: &mut [Follower]) -> Result<()> {
    let count = std::iter::once(&*own).chain(group.iter().map(|f| &f.request));
    let first = sink.allocate(count.map(WriteRequest::sequences).sum());
    let mut next = first;
    for request in std::iter::once(&mut *own).chain(group.iter_mut().map(|f| &mut f.request)) {
        request.batch.set_sequence(next);
        next.0 += request.sequences();
    }
    sink.log(own, group, first..next)?;
    if let Err(e) = sink.time_insert(|| insert(sink, own, group)) {
        return Err(sink.refused(&e, own, group));
    }
    hesitate();
    sink.publish(own, group, first..next);
    Ok(())
}

fn insert(sink: &impl Sink, own: &WriteRequest, group: &mut [Follower]) -> Result<(), Refused> {
    let memtables = sink.memtables();
    let bytes: usize = group.iter().map(|f| f.bytes).sum();
    let has_two_phase = || group.iter().any(|f| f.request.two_phase.is_some());
    if group.is_empty() || bytes < PARALLEL_APPLY_BYTES || !sink.applies_concurrently() || has_two_phase() {
        let apply = |request: &WriteRequest| match request.two_phase.as_deref() {
            None => memtables.apply(&request.batch, request.batch.sequence()),
            Some(step) => step.apply(memtables.as_ref(), request),
        };
        apply(own)?;
        let rest = group.iter().try_for_each(|f| apply(&f.request));
        return rest.map_err(|refused| Refused { is_clean: false, ..refused });
    }
    esker_base::probe!("write:followers_insert");
    let countdown = Countdown::new(group.len());
    for follower in group.iter_mut() {
        let (memtables, countdown) = (Arc::clone(memtables) as Arc<dyn Memtables>, countdown.clone());
        follower.apply_itself(|batch| ApplyTask { memtables, first: batch.sequence(), batch, countdown });
    }
    let own_part = own.applied().map_or(Ok(()), |batch| memtables.apply(batch, own.batch.sequence()));
    let others = countdown.wait();
    own_part.and(others).map_err(|refused| Refused { is_clean: false, ..refused })
}

#[cfg(all(test, loom))]
mod tests;
