//! Runs `db_bench` in this process.

use esker::internals::env::{Clock, SystemClock};
use esker_bench::engine::{NoStore, Store};
use esker_bench::flags::{BenchCommandLine, parse};
use esker_bench::{BenchOutput, BenchStop, db_bench, run_on};
use esker_testkit::TempDir;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A stream that keeps the written bytes.
#[derive(Clone, Default)]
struct SharedOutput(Arc<Mutex<Vec<u8>>>);

impl Write for SharedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SharedOutput {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

/// The output of a run, and its error if it failed.
pub(crate) struct Ran {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) failure: Option<String>,
}

/// Runs with these flags on `DIR/db`.
pub(crate) fn run(dir: &TempDir, flags: &[&str]) -> Ran {
    let db = format!("--db={}", dir.join("db").display());
    let arguments: Vec<String> = [db.as_str()].iter().chain(flags).map(|flag| flag.to_string()).collect();
    kept(|output| db_bench(&arguments, output))
}

/// Runs with these flags on the engine that does nothing. The clock advances only when it is read.
pub(crate) fn run_on_nothing(flags: &[&str]) -> Ran {
    let arguments: Vec<String> = flags.iter().map(|flag| flag.to_string()).collect();
    let Ok(BenchCommandLine::Run(flags)) = parse(&arguments) else { panic!("{arguments:?}") };
    kept(|output| run_on(&NoStore, &flags, &LookedAt::default(), output))
}

/// Runs with these flags on `store`. Calls `watch` with all results so far at each flush.
pub(crate) fn run_on_store<S: Store>(
    store: &S,
    flags: &[&str],
    watch: impl FnMut(&str) + Send + 'static,
) -> Ran {
    let arguments: Vec<String> = flags.iter().map(|flag| flag.to_string()).collect();
    let Ok(BenchCommandLine::Run(flags)) = parse(&arguments) else { panic!("{arguments:?}") };
    let (out, err) = (SharedOutput::default(), SharedOutput::default());
    let watched = Watched { kept: out.clone(), watch };
    let outcome = run_on(store, &flags, &SystemClock, &BenchOutput::new(watched, err.clone()));
    ended(outcome, &out, &err)
}

/// A stream that shows its text to the test.
struct Watched<W> {
    kept: SharedOutput,
    watch: W,
}

impl<W: FnMut(&str)> Write for Watched<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.kept.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        (self.watch)(&self.kept.text());
        Ok(())
    }
}

fn kept(run: impl FnOnce(&BenchOutput) -> Result<(), BenchStop>) -> Ran {
    let (out, err) = (SharedOutput::default(), SharedOutput::default());
    let outcome = run(&BenchOutput::new(out.clone(), err.clone()));
    ended(outcome, &out, &err)
}

fn ended(outcome: Result<(), BenchStop>, out: &SharedOutput, err: &SharedOutput) -> Ran {
    let failure = match outcome {
        Ok(()) => None,
        Err(BenchStop::Failed(why)) => Some(why),
        Err(BenchStop::OutputClosed) => panic!("nobody has closed the output"),
    };
    Ran { out: out.text(), err: err.text(), failure }
}

/// A clock that advances by a millisecond at each read.
#[derive(Debug, Default)]
struct LookedAt(AtomicU64);

impl Clock for LookedAt {
    fn now_micros(&self) -> u64 {
        self.monotonic_nanos() / 1000
    }
    fn monotonic_nanos(&self) -> u64 {
        self.0.fetch_add(1_000_000, Ordering::Relaxed)
    }
    fn sleep(&self, _: Duration) {}
}

impl Ran {
    /// The standard output of the run.
    ///
    /// # Panics
    /// If the run failed.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.failure, None, "{}\n{}", self.out, self.err);
        self.out
    }

    /// The reason why the run failed.
    #[track_caller]
    pub(crate) fn failed(self) -> String {
        self.failure.unwrap_or_else(|| panic!("it went well:\n{}", self.out))
    }
}

/// The result line of a benchmark, without its times: `N operations; message`.
#[track_caller]
pub(crate) fn result(out: &str, name: &str) -> String {
    let line = out
        .lines()
        .find(|line| line.split(" : ").next().is_some_and(|n| n.trim_end() == name))
        .unwrap_or_else(|| panic!("no result of {name} in\n{out}"));
    let (_, rest) = line.split_once(" seconds ").unwrap_or_else(|| panic!("{line}"));
    let (operations, extra) = rest.split_once(';').unwrap_or_else(|| panic!("{line}"));
    let extra = extra.split_once(" MB/s").map_or(extra, |(_, message)| message);
    format!("{operations};{extra}")
}

/// A stream without a reader.
struct Closed;

impl Write for Closed {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_closed_output_ends_the_run() {
    let flags = ["--benchmarks=fillseq".to_owned(), "--num=10".to_owned()];
    let Ok(BenchCommandLine::Run(flags)) = parse(&flags) else { panic!("{flags:?}") };
    let outcome = run_on(&NoStore, &flags, &SystemClock, &BenchOutput::new(Closed, io::sink()));
    assert!(matches!(outcome, Err(BenchStop::OutputClosed)), "{outcome:?}");
}
