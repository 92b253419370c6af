//! Progress on standard error: a bar on a terminal, otherwise a line for each part of the story.

use crate::report::grouped;
use esker::internals::base::sync::atomic::{AtomicU64, Ordering};
use esker::internals::env::{Clock, SystemClock};
use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// Nanoseconds between two drawings of a bar.
const REDRAW_NANOS: u64 = 100_000_000;
/// Characters of a full bar, without the `>` at its end.
const BAR_WIDTH: u64 = 30;

#[derive(Debug)]
pub(crate) struct Progress {
    has_terminal: bool,
}

/// A running part of the story. The threads of the part share this value.
#[derive(Debug)]
pub(crate) struct Part {
    what: &'static str,
    steps: u64,
    done: AtomicU64,
    started_nanos: u64,
    /// The time at which the bar is drawn next.
    redraw_nanos: AtomicU64,
    has_bar: bool,
}

impl Progress {
    pub(crate) fn new() -> Progress {
        Progress { has_terminal: std::io::stderr().is_terminal() }
    }

    /// Prints a line of text.
    pub(crate) fn say(&self, line: impl Display) {
        say(line);
    }

    /// Begins a part of `steps` steps. A part without steps has no bar.
    pub(crate) fn begin(&self, what: &'static str, steps: u64) -> Part {
        let now = SystemClock.monotonic_nanos();
        Part {
            what,
            steps,
            done: AtomicU64::new(0),
            started_nanos: now,
            redraw_nanos: AtomicU64::new(now),
            has_bar: self.has_terminal && steps > 0,
        }
    }
}

impl Part {
    /// Counts `steps` more steps as done, and draws the bar if the next drawing is due.
    pub(crate) fn advance(&self, steps: u64) {
        if !self.has_bar {
            return;
        }
        let done = self.done.fetch_add(steps, Ordering::Relaxed) + steps;
        let now = SystemClock.monotonic_nanos();
        let due = self.redraw_nanos.load(Ordering::Relaxed);
        let next = now + REDRAW_NANOS;
        // Several threads may see that the bar is due. Only the thread whose exchange succeeds
        // draws it.
        if now >= due
            && self.redraw_nanos.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            self.draw(done);
        }
    }

    fn draw(&self, done: u64) {
        let filled = (done * BAR_WIDTH / self.steps).min(BAR_WIDTH) as usize;
        let seconds = self.elapsed().as_secs_f64();
        let bar = format!("{}>", "=".repeat(filled));
        let (done, steps) = (grouped(done), grouped(self.steps));
        // The line begins with a carriage return. Its last characters clear the rest of the old
        // line.
        let line = format!("\r{:<30} [{bar:<31.31}] {done}/{steps} {seconds:.1} s\x1b[K", self.what);
        std::io::stderr().write_all(line.as_bytes()).ok();
    }

    /// The time since the part began.
    pub(crate) fn elapsed(&self) -> Duration {
        Duration::from_nanos(SystemClock.monotonic_nanos() - self.started_nanos)
    }

    /// Ends the part and prints its name and its time. Returns the time.
    pub(crate) fn end(self) -> Duration {
        let elapsed = self.elapsed();
        let mark = if self.has_bar { "\r\x1b[K\u{2713} " } else { "" };
        say(format_args!("{mark}{} ({:.1} s)", self.what, elapsed.as_secs_f64()));
        elapsed
    }
}

fn say(line: impl Display) {
    // The demonstration continues when standard error is closed.
    writeln!(std::io::stderr(), "{line}").ok();
}
