//! The timer that records the times of sequence numbers (`engine/times.rs`).
//!
//! In: the families' options. Out: a sample a hundredth of the shortest kept period. A new database
//! begins with samples for the period before it.

use super::ColumnFamilyDescriptor;
use crate::engine::Engine;
use crate::options::ColumnFamilyOptions;
use crate::version::Numbers;
use esker_base::SequenceNumber;
use esker_base::sync::Arc;
use esker_format::seqno_to_time::{MAX_PAIRS_PER_TABLE, SeqnoToTimeMapping};

/// The first sequence number of a new database whose families keep times. The numbers before it
/// stand for times before the creation. RocksDB's number.
const FIRST_OF_NEW_DATABASE: SequenceNumber = SequenceNumber(MAX_PAIRS_PER_TABLE as u64);

/// Records a sample, and starts, changes or stops the timer, as the options in force say.
pub(super) fn schedule_recording(engine: &Arc<Engine>) {
    let period = || {
        let seconds = engine.record_time(&mut engine.state.lock());
        seconds.filter(|_| !engine.is_shutting_down())
    };
    engine.time_recording.reschedule(period, |period| {
        let weak = Arc::downgrade(engine);
        engine.env.timer.repeat(period, move || {
            if let Some(engine) = weak.upgrade() {
                engine.record_time(&mut engine.state.lock());
            }
        })
    });
}

/// Does so if the options of a new or former family keep times.
pub(super) fn family_changed(engine: &Arc<Engine>, options: &ColumnFamilyOptions) {
    if options.kept_seconds() > 0 {
        schedule_recording(engine);
    }
}

/// Reserves the first sequence numbers of a new database. Returns the seconds for which its
/// families keep times; 0: no number is reserved.
pub(super) fn begin_numbers(families: &[ColumnFamilyDescriptor], numbers: &Numbers) -> u64 {
    let seconds = families.iter().map(|family| family.options.kept_seconds()).max().unwrap_or(0);
    if seconds > 0 {
        numbers.set_last_sequence(FIRST_OF_NEW_DATABASE);
    }
    seconds
}

/// Gives the first sequence numbers of a new database to the `seconds` before it.
pub(super) fn record_times_before_creation(engine: &Engine, seconds: u64) {
    let now = engine.env.clock.now_seconds();
    if seconds > 0 && now > seconds {
        let first = SequenceNumber(1);
        let samples = SeqnoToTimeMapping::between(first, FIRST_OF_NEW_DATABASE, now - seconds, now);
        engine.state.lock().times.begin_with(samples);
    }
}
