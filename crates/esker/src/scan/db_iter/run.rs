//! Steps of the user's cursor over decoded runs: entries that the inner cursor has decoded ahead,
//! and that need no further work.
//!
//! In: an inner cursor that can decode ahead. Out: steps that touch only the run. A run ends at an
//! entry that needs more work: it is no plain value, has several versions, or lies behind another
//! child's entry or the block's end. The inner cursor then moves there in one move, and steps as
//! without a run.
//!
//! Invariants
//!  1. `value` is `Run` if and only if `run` is not empty. Then the cursor is valid, and the
//!     inner cursor is at the run's first entry.
//!  2. Forward, the key before the run's first entry differs from it. Backward, no entry before the
//!     run's first one has a key that was shown already.

use super::{DbIter, Value, set};
use esker_format::cursor::{DecodeAhead, DecodedRun, ScanIterator};

/// Steps in one direction before the cursor decodes ahead, without information about earlier scans.
/// The first run takes memory and may read a block early: with fewer steps, scans of 10 to 100 rows
/// become slower by a tenth to a quarter (docs/performance.md).
const FIRST_STEPS: u32 = esker_base::probe!(soon: 2, usually: 100);

/// If scans usually take this many steps, a scan looks ahead at its first step, as far as scans
/// usually go.
const FAR: u32 = esker_base::probe!(soon: 4, usually: 20);

/// Steps of a scan that are counted at most.
const MOST_COUNTED: u32 = 1 << 10;

/// A run of fewer entries was not worth decoding, unless its block has no more.
const WORTHWHILE: usize = 4;

/// Most steps between two looks ahead. The interval grows to it while runs are too short: entries
/// of several sorted runs alternate.
const MAX_STEPS: u32 = 64;

/// Decides when to decode ahead, and how far. The cursor keeps it from one scan to the next.
#[derive(Debug)]
pub(super) struct Eagerness {
    /// Steps until the next look ahead.
    left: u32,
    /// Steps from one look ahead to the next; 1 if the last run was worth decoding.
    steps: u32,
    /// Steps since the cursor was positioned or turned, including steps of the run that are still
    /// ahead.
    so_far: u32,
    /// Steps that scans usually take, in sixteenths.
    usual: u32,
}

impl Default for Eagerness {
    fn default() -> Eagerness {
        Eagerness { left: FIRST_STEPS, steps: 1, so_far: 0, usual: 0 }
    }
}

impl Eagerness {
    /// Begins a new scan: the cursor was positioned or turned.
    #[inline]
    pub(super) fn begin(&mut self) {
        if self.so_far > 0 {
            self.learn();
        }
        self.left = self.steps.max(if self.goes_far() { 1 } else { FIRST_STEPS });
    }

    /// Adapts to the length of an ended scan. The guess rises slowly and falls fast, so that most
    /// scans of different lengths reach it.
    fn learn(&mut self) {
        let (usual, now) = (self.usual, 16 * std::mem::take(&mut self.so_far).min(MOST_COUNTED));
        let is_longer = now > usual;
        self.usual =
            if is_longer { usual + (now - usual).div_ceil(8) } else { usual - (usual - now).div_ceil(2) };
    }

    #[inline]
    fn goes_far(&self) -> bool {
        self.usual >= 16 * FAR
    }

    /// Steps that the scan will probably still take, if that is known.
    #[inline]
    fn expected(&self) -> Option<usize> {
        let left = (self.usual / 16).saturating_sub(self.so_far);
        // Adds two steps: a further run for the last step or two would cost nearly as much as a
        // long run.
        (left > 0 && self.goes_far()).then(|| left as usize + 2)
    }

    /// Reports that this many steps of the run will not be taken.
    #[inline]
    fn skip(&mut self, unused: usize) {
        self.so_far = self.so_far.saturating_sub(u32::try_from(unused).unwrap_or(u32::MAX));
    }

    /// Whether to look ahead in this step.
    #[inline]
    fn is_due(&mut self) -> bool {
        self.so_far = self.so_far.saturating_add(1);
        self.left = self.left.saturating_sub(1);
        self.left == 0
    }

    /// Records the run that a look ahead gave, and drops it if it is too short.
    #[inline]
    fn found(&mut self, run: &mut DecodedRun) {
        if run.len() >= WORTHWHILE || run.is_at_edge() {
            self.steps = 1;
        } else {
            self.steps = (self.steps * 2).min(MAX_STEPS);
            run.begin();
        }
        self.so_far = self.so_far.saturating_add(u32::try_from(run.len()).unwrap_or(u32::MAX));
        self.left = self.steps;
    }
}

impl<I: ScanIterator> DbIter<I> {
    /// Moves to the next key, which is not in the run.
    #[inline(never)]
    pub(super) fn next_of_inner(&mut self) {
        self.begin_call();
        if !self.forward {
            self.end_run();
            self.eagerness.begin();
            self.turn_forward();
            return self.find_next(true, false);
        }
        if !self.run.is_empty() {
            if self.eagerness.steps > 1 {
                self.leave_run();
                return self.find_next(true, true);
            }
            if self.pass_run() && !self.icmp.same_user_key(self.run.user_key(), &self.key) {
                return;
            }
            self.end_run();
            return self.find_next(true, false);
        }
        let on_value = !self.merged;
        if on_value && self.looks_ahead() {
            self.value = Value::Run;
            // The run's first entry is the current one.
            if self.run.step_on() {
                return;
            }
            self.end_run();
        }
        self.find_next(true, on_value);
    }

    /// Moves to the previous key, which is not in the run.
    #[inline(never)]
    pub(super) fn prev_of_inner(&mut self) {
        self.begin_call();
        if self.forward {
            self.leave_run();
            self.eagerness.begin();
            self.turn_backward();
        } else if !self.run.is_empty() {
            if self.eagerness.steps > 1 {
                self.leave_run();
            } else if self.pass_run() {
                return;
            }
            self.end_run();
        } else if self.iter.valid() && self.looks_ahead() {
            self.ahead = None;
            self.value = Value::Run;
            return;
        }
        self.find_prev();
    }

    /// Looks ahead from the inner cursor's position, if it is time. Returns whether there is a run
    /// then.
    #[inline]
    fn looks_ahead(&mut self) -> bool {
        if self.prefix.is_some() || !self.eagerness.is_due() {
            return false;
        }
        let options = &self.options;
        let limit = if self.forward { &options.upper_bound } else { &options.lower_bound };
        let ahead =
            DecodeAhead { forward: self.forward, sequence: options.sequence, limit: limit.as_deref() };
        self.run.expect(self.eagerness.expected());
        self.iter.look_ahead(&mut self.run, &ahead);
        self.eagerness.found(&mut self.run);
        !self.run.is_empty()
    }

    /// Moves the inner cursor behind the run, and keeps the last entry's key. Returns whether
    /// another run follows.
    #[inline]
    fn pass_run(&mut self) -> bool {
        set(&mut self.key, self.run.user_key());
        let options = &self.options;
        let limit = if self.forward { &options.upper_bound } else { &options.lower_bound };
        let ahead =
            DecodeAhead { forward: self.forward, sequence: options.sequence, limit: limit.as_deref() };
        self.run.expect(self.eagerness.expected());
        self.iter.pass(&mut self.run, &ahead);
        if self.run.is_empty() {
            self.value = Value::Buffer;
            return false;
        }
        self.eagerness.found(&mut self.run);
        true
    }

    /// Moves the inner cursor to its position without a run.
    pub(super) fn leave_run(&mut self) {
        if self.run.is_empty() {
            return;
        }
        self.iter.advance(&self.run);
        self.end_run();
        self.value = Value::Inner;
        if !self.forward {
            // If this fails, so does the step that needs it.
            let _before = self.iter.prev_key_leaving(&mut self.left);
            self.value = Value::Left;
        }
    }

    /// Ends the run, and copies its current key if that is shown.
    #[inline]
    pub(super) fn end_run(&mut self) {
        if matches!(self.value, Value::Run) {
            set(&mut self.key, self.run.user_key());
            self.value = Value::Buffer;
        }
        if !self.run.is_empty() {
            self.eagerness.skip(self.run.unused(self.forward));
        }
        self.run.release_block();
    }
}

#[cfg(test)]
mod tests;
