//! Walks over runs of deleted keys behind flushes and compactions.
//!
//! In: a run of a new table that lies over other tables, or deletions in a memtable (`around.rs`).
//! Out: what a scan through it would have remembered (`deleted_runs/memory.rs`), so that none has to
//! step through it.
//!
//! A walk is a scan as of now over the family's present view. It goes on until its run is behind
//! it, until there is something else to do, or until it is plain that there is too little to find:
//! then what it has passed is remembered all the same.
//!
//! Invariants
//!  1. It holds no lock while it reads, and a view no longer than until it looks up and finds that
//!     replaced.
//!  2. It looks up every `LOOK_UP_EVERY` entries, and ends then if the database closes or the
//!     family is dropped; it stops for as long as background work is paused or an error stops it,
//!     and if a job waits for a thread it goes behind that.
//!  3. It changes nothing but what is remembered; blocks that it reads do not go into the block
//!     cache; an error is told in LOG only.

mod around;

use super::DeadWalk;
use crate::cf::{ColumnFamily, SuperVersion};
use crate::engine::{Engine, contained};
use crate::options::ReadOptions;
use crate::scan::DbIter;
use crate::scan::iterator::{Runs, new_db_iter};
use esker_base::sync::Arc;
use esker_base::{Result, SequenceNumber, Severity};

/// Entries between two looks at what else there is to do, some 100 µs; fewer where runs of fewer
/// entries are gone through.
const LOOK_UP_EVERY: u64 = 2048;
/// At least.
const LOOK_UP_LEAST: u64 = 16;

/// Why a walk does not go on where it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stop {
    /// For good.
    Over,
    /// Until the job is run again.
    GiveWay,
    /// To go on over the family's newer view.
    NewView,
}

/// What a walk looks at when it looks up.
struct Surroundings {
    engine: Arc<Engine>,
    cf: Arc<ColumnFamily>,
    view: Arc<SuperVersion>,
    /// Its end, if it has one.
    last: Option<Vec<u8>>,
    most_entries: u64,
}

impl Surroundings {
    /// Whether to stop before `user_key`, with so many entries passed.
    fn stop(&self, user_key: &[u8], passed: u64) -> Option<Stop> {
        let engine = &self.engine;
        if engine.is_shutting_down()
            || self.cf.is_dropped()
            || passed >= self.most_entries
            || self.last.as_ref().is_some_and(|last| self.cf.icmp.compare_user_keys(user_key, last).is_gt())
        {
            Some(Stop::Over)
        } else if engine.is_without_walks() || engine.scheduler.walk_is_in_the_way() {
            Some(Stop::GiveWay)
        } else if !self.cf.super_version.holds(&self.view) {
            Some(Stop::NewView)
        } else {
            None
        }
    }
}

/// Takes the walk that waits first, and puts what is left of it back if it had to give way.
pub(crate) fn go_on_with_dead_walk(engine: &Arc<Engine>) {
    let Some(mut walk) = engine.state.lock().dead_walks.take_first() else { return };
    let Some(cf) = engine.families.by_id(walk.family) else { return };
    let (start, passed) = (engine.env.clock.now_micros(), walk.passed);
    let ended = contained("a walk over deleted keys", Severity::NoError, || {
        loop {
            let stop = match walk.around {
                None => walk_over_view(engine, &cf, &mut walk)?,
                Some(_) => around::walk_over_view(engine, &cf, &mut walk)?,
            };
            if stop != Stop::NewView {
                return Ok(stop);
            }
        }
    });
    walk.micros += engine.env.clock.now_micros().saturating_sub(start);
    engine.state.lock().dead_walks.dead_entries_walked += walk.passed - passed;
    match ended {
        Ok(Stop::GiveWay) => engine.state.lock().dead_walks.put_back(walk),
        Ok(_) if walk.around.is_some() => around::linger(engine, (walk.passed - passed, walk.deletions)),
        Ok(_) => tell(engine, &cf, &walk),
        Err(e) => {
            esker_base::info_log!(engine.info_log, Warn, "[{}] Walk over deleted keys: {e}", cf.name);
        }
    }
}

fn tell(engine: &Engine, cf: &ColumnFamily, walk: &DeadWalk) {
    esker_base::probe!("dead_walk:over");
    let DeadWalk { passed, keys_there, micros, .. } = walk;
    esker_base::info_log!(
        engine.info_log,
        Info,
        "[{}] Walk over deleted keys: {passed} entries, {keys_there} keys there, {micros} us",
        cf.name
    );
}

/// Goes on over the present view.
/// # Errors
/// Those of reading tables.
fn walk_over_view(engine: &Arc<Engine>, cf: &Arc<ColumnFamily>, walk: &mut DeadWalk) -> Result<Stop> {
    esker_base::probe!("dead_walk:view");
    let (mut iter, around, every) = begin(engine, cf, walk)?;
    iter.seek(&walk.from);
    // Between two keys that are there few may be deleted: then the cursor does not ask.
    let (mut steps, mut look_at) = (0, every);
    let stop = loop {
        iter.status()?;
        if !iter.valid() {
            break stop_of(&iter, &around, walk);
        }
        if cf.icmp.compare_user_keys(iter.key(), &walk.last).is_gt() {
            break Stop::Over;
        }
        let passed = iter.counters().skipped + steps;
        if passed >= look_at {
            look_at = passed + every;
            if let Some(stop) = around.stop(iter.key(), passed) {
                walk.from = iter.key().to_vec();
                break stop;
            }
        }
        steps += 1;
        walk.keys_there += 1;
        if walk.keys_there > walk.most_there {
            break Stop::Over;
        }
        iter.next();
    };
    walk.passed = (walk.passed + iter.counters().skipped + steps).min(walk.most_entries);
    Ok(stop)
}

/// A cursor over the present view that looks up as it goes, what it looks at, and how often.
/// # Errors
/// Those of opening tables.
fn begin(
    engine: &Arc<Engine>,
    cf: &Arc<ColumnFamily>,
    walk: &DeadWalk,
) -> Result<(DbIter<Runs>, Arc<Surroundings>, u64)> {
    let (view, sequence) = moment(engine, cf);
    let around = Arc::new(Surroundings {
        engine: engine.clone(),
        cf: cf.clone(),
        view: view.clone(),
        last: walk.around.is_none().then(|| walk.last.clone()),
        most_entries: walk.most_entries - walk.passed,
    });
    let options = ReadOptions { fill_cache: false, total_order_seek: true, ..ReadOptions::default() };
    let mut iter = new_db_iter(cf, &view, &options, sequence, None)?;
    let every = LOOK_UP_EVERY.min(view.options.dead_range_walk_threshold().max(LOOK_UP_LEAST));
    let (looks, mut passed) = (around.clone(), 0);
    let goes_on = move |user_key: &[u8]| {
        passed += every;
        looks.stop(user_key, passed).is_none()
    };
    iter.walk(every, Box::new(goes_on));
    Ok((iter, around, every))
}

/// Why the cursor of a walk stands nowhere; the walk goes on from where it is then.
fn stop_of(iter: &DbIter<Runs>, around: &Surroundings, walk: &mut DeadWalk) -> Stop {
    let Some(user_key) = iter.stopped_at() else { return Stop::Over };
    walk.from.clear();
    walk.from.extend_from_slice(user_key);
    // What was the reason may have passed.
    around.stop(user_key, iter.counters().skipped).unwrap_or(Stop::NewView)
}

/// The family's view, and a sequence number of which it has all that was written.
fn moment(engine: &Engine, cf: &ColumnFamily) -> (Arc<SuperVersion>, SequenceNumber) {
    loop {
        let view = cf.pinned_view();
        let sequence = engine.visible_sequence();
        if cf.super_version.holds(&view) {
            return (view, sequence);
        }
    }
}

#[cfg(test)]
mod tests;
