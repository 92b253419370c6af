//! Progress on standard error: a bar on a terminal, a line for each part of the story elsewhere.

use esker::internals::env::{Clock, SystemClock};
use indicatif::{ProgressBar, ProgressStyle};
use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Progress {
    has_terminal: bool,
}

/// One part under way. Shared by its threads.
#[derive(Debug)]
pub(super) struct Part {
    bar: ProgressBar,
    what: &'static str,
    started_nanos: u64,
    has_terminal: bool,
}

impl Progress {
    pub(super) fn new() -> Progress {
        Progress { has_terminal: std::io::stderr().is_terminal() }
    }

    /// A line of text.
    pub(super) fn say(&self, line: impl Display) {
        say(line);
    }

    /// Begins a part that takes `steps`.
    pub(super) fn begin(&self, what: &'static str, steps: u64) -> Part {
        let bar = if self.has_terminal { ProgressBar::new(steps) } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("{prefix:<30} [{bar:30}] {human_pos}/{human_len} {elapsed}");
        bar.set_style(style.expect("the template is well formed").progress_chars("=> "));
        bar.set_prefix(what);
        Part { bar, what, started_nanos: SystemClock.monotonic_nanos(), has_terminal: self.has_terminal }
    }
}

impl Part {
    /// `steps` more are done.
    pub(super) fn advance(&self, steps: u64) {
        self.bar.inc(steps);
    }

    /// Since it began.
    pub(super) fn elapsed(&self) -> Duration {
        Duration::from_nanos(SystemClock.monotonic_nanos() - self.started_nanos)
    }

    /// Ends it; gives the time it took.
    pub(super) fn end(self) -> Duration {
        let elapsed = self.elapsed();
        self.bar.finish_and_clear();
        let mark = if self.has_terminal { "\u{2713} " } else { "" };
        say(format_args!("{mark}{} ({:.1} s)", self.what, elapsed.as_secs_f64()));
        elapsed
    }
}

fn say(line: impl Display) {
    // Nobody reads it when standard error is closed, and the demonstration does not depend on it.
    writeln!(std::io::stderr(), "{line}").ok();
}
