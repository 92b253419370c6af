//! The progress of long commands, on standard error.
//!
//! In: counts, or the reads of files. Out: a line with the share done, the rate and the time left;
//! without a total, with the count and the rate. The line comes after two seconds and goes at the
//! end. Nothing is printed unless standard error is a terminal, or with `--no-progress`, with
//! `ESKER_NO_PROGRESS` set, or with `TERM=dumb`.
//!
//! Totals are sizes of files. A byte of a file counts once, however often a command reads it; so
//! the line never passes its total.

use crate::host::{Host, Stream};
use crate::units;
use esker::internals::base::sync::Mutex;
use esker::internals::base::sync::atomic::{AtomicBool, Ordering};
use esker::internals::env::FileSystem;
use esker::internals::env::io_trace::{IoOperation, IoTracer, TracedFileSystem};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Time after which the line comes.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time between two drawings without news.
const TICK: Duration = Duration::from_millis(200);
/// Columns of the bar.
const BAR: &str = "{bar:20}";

/// The unit of counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Bytes,
    Items,
}

impl Unit {
    fn text(self, number: u64) -> String {
        match self {
            Unit::Bytes => units::bytes(number),
            Unit::Items => units::count(number),
        }
    }
}

/// A line of progress.
#[derive(Clone)]
pub(crate) struct ProgressLine {
    bar: ProgressBar,
    is_shown: Arc<AtomicBool>,
    /// Where the line comes after two seconds; `None`: nowhere.
    is_wanted: bool,
}

impl ProgressLine {
    fn new(what: &'static str, unit: Unit, total: Option<u64>, is_wanted: bool) -> ProgressLine {
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden());
        let template = match total {
            Some(_) => format!("{{prefix}}  {BAR}  {{share}}  {{done}} of {{all}}  {{rate}}  {{left}}"),
            None => "{spinner} {prefix}  {done}  {rate}  {elapsed}".to_owned(),
        };
        bar.set_style(style(&template, unit));
        bar.set_prefix(what);
        ProgressLine { bar, is_shown: Arc::default(), is_wanted }
    }

    /// The progress of a command of the shell that counts items.
    pub(crate) fn of_count(what: &'static str, is_asked_for: bool, host: &Host) -> ProgressLine {
        ProgressLine::new(what, Unit::Items, None, is_asked_for && is_wanted(host))
    }

    /// Sets the count.
    #[inline]
    pub(crate) fn reach(&self, count: u64) {
        if self.is_wanted {
            self.bar.set_position(count);
            self.show_if_late();
        }
    }

    fn add(&self, count: u64) {
        self.bar.inc(count);
        self.show_if_late();
    }

    /// Lets the line come if it is time.
    fn show_if_late(&self) {
        if !self.is_wanted || self.is_shown.load(Ordering::Relaxed) || self.bar.elapsed() < PATIENCE {
            return;
        }
        if !self.is_shown.swap(true, Ordering::Relaxed) {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.bar.enable_steady_tick(TICK);
        }
    }

    /// Takes the line away.
    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// A style whose numbers are those of `units`.
fn style(template: &str, unit: Unit) -> ProgressStyle {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner());
    style
        .with_key("share", |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            let percent = 100.0 * f64::from(state.fraction());
            write!(out, "{percent:>3.0}%").ok();
        })
        .with_key("done", move |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            out.write_str(&unit.text(state.pos())).ok();
        })
        .with_key("all", move |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            out.write_str(&unit.text(state.len().unwrap_or(0))).ok();
        })
        .with_key("rate", move |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            write!(out, "{}/s", unit.text(state.per_sec() as u64)).ok();
        })
        .with_key("elapsed", |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            out.write_str(&units::duration(state.elapsed().as_secs_f64())).ok();
        })
        .with_key("left", |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            let left = state.eta().as_secs_f64();
            match left >= 1.0 && state.per_sec() > 0.0 {
                true => write!(out, "{} left", units::duration(left.round())).ok(),
                false => None,
            };
        })
}

/// Whether a user watches standard error and wants progress there.
fn is_wanted(host: &Host) -> bool {
    host.is_machine() && std::io::stderr().is_terminal() && std::env::var_os("ESKER_NO_PROGRESS").is_none()
}

/// A long command, and the files that it reads.
pub(crate) struct LongCommand {
    /// The words before the bar.
    pub(crate) what: &'static str,
    /// Files, and directories of databases or backups.
    pub(crate) sources: Vec<PathBuf>,
    /// Times that it reads each file.
    pub(crate) passes: u64,
    /// Whether it reads standard input in place of files.
    pub(crate) reads_input: bool,
    /// Whether it prints rows. On a terminal they are progress enough.
    pub(crate) prints_rows: bool,
}

impl LongCommand {
    /// A command that reads each file once.
    pub(crate) fn over<'p>(
        what: &'static str,
        sources: impl IntoIterator<Item = &'p PathBuf>,
    ) -> LongCommand {
        let sources = sources.into_iter().cloned().collect();
        LongCommand { what, sources, passes: 1, reads_input: false, prints_rows: false }
    }

    /// The surroundings of the command with its reads counted; `None` if nobody watches.
    pub(crate) fn watch(&self, host: &Host) -> Option<(Host, ProgressLine)> {
        let prints_rows = self.prints_rows && std::io::stdout().is_terminal();
        (is_wanted(host) && !prints_rows).then(|| self.watched(host, true))
    }

    fn watched(&self, host: &Host, is_wanted: bool) -> (Host, ProgressLine) {
        let mut files = BTreeMap::new();
        for path in &self.sources {
            add_files(host.fs(), path, DIRECTORY_DEPTH, true, &mut files);
        }
        files.values_mut().for_each(|left| *left *= self.passes);
        if self.reads_input {
            files.clear();
        }
        let total: u64 = match self.reads_input {
            true => std::fs::metadata("/dev/stdin")
                .map_or(0, |input| if input.is_file() { input.len() } else { 0 }),
            false => files.values().sum(),
        };
        let progress =
            ProgressLine::new(self.what, Unit::Bytes, Some(total).filter(|total| *total > 0), is_wanted);
        let counted = progress.clone();
        let left = Mutex::new(files);
        let observer = move |done: &IoOperation<'_>| {
            let (true, Some(bytes)) = (matches!(done.operation, "Read" | "MultiRead"), done.len) else {
                return;
            };
            let mut files = left.lock();
            let Some(left) = files.get_mut(done.path) else { return };
            let bytes = bytes.min(*left);
            *left -= bytes;
            drop(files);
            counted.add(bytes);
        };
        let tracer = IoTracer::new(host.env().clock, Some(Box::new(observer)));
        let fs = Arc::new(TracedFileSystem::new(host.env().fs, tracer));
        (host.watched(fs, &progress, self.reads_input), progress)
    }
}

/// Directories below a source that count: `private` of a directory of backups has one for each.
const DIRECTORY_DEPTH: usize = 3;

/// Adds the file in `path`, or the tables, blob files and WALs of the directory in `path`.
fn add_files(
    fs: &dyn FileSystem,
    path: &Path,
    depth: usize,
    is_named: bool,
    files: &mut BTreeMap<PathBuf, u64>,
) {
    if let (true, Ok(children)) = (depth > 0, fs.children(path)) {
        for name in children {
            add_files(fs, &path.join(name), depth - 1, false, files);
        }
        return;
    }
    let is_data = path.extension().is_some_and(|extension| {
        extension.eq_ignore_ascii_case("sst")
            || extension == "ldb"
            || extension == "blob"
            || extension == "log"
    });
    if is_named || is_data {
        files.insert(path.to_owned(), fs.file_size(path).unwrap_or(0));
    }
}

/// A stream whose lines do not mix with the progress.
pub(crate) struct ClearStream {
    inner: Stream,
    progress: ProgressLine,
}

impl ClearStream {
    pub(crate) fn new(inner: Stream, progress: &ProgressLine) -> ClearStream {
        ClearStream { inner, progress: progress.clone() }
    }
}

impl Write for ClearStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let ClearStream { inner, progress } = self;
        progress.bar.suspend(|| inner.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Input whose bytes are counted.
pub(crate) struct CountedInput {
    inner: Box<dyn io::BufRead>,
    progress: ProgressLine,
}

impl CountedInput {
    pub(crate) fn new(inner: Box<dyn io::BufRead>, progress: &ProgressLine) -> CountedInput {
        CountedInput { inner, progress: progress.clone() }
    }
}

impl io::Read for CountedInput {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let bytes = self.inner.read(buf)?;
        self.progress.add(bytes as u64);
        Ok(bytes)
    }
}

impl io::BufRead for CountedInput {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, bytes: usize) {
        self.inner.consume(bytes);
        self.progress.add(bytes as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CommandLine;
    use esker::internals::env::MemFs;
    use esker::{Db, Env, Options};

    /// A database in memory with tables of incompressible values, and a WAL.
    fn database() -> Env {
        let env = Env { fs: Arc::new(MemFs::new()), ..Env::default() };
        let mut options = Options::default();
        (options.db.env, options.db.create_if_missing) = (env.clone(), true);
        let db = Db::open(&options, "/db").unwrap();
        let mut random = fastrand::Rng::with_seed(5);
        for key in 0..3000u64 {
            let value: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(100).collect();
            db.put(key.to_be_bytes(), value).unwrap();
            if key % 1000 == 700 {
                db.flush().unwrap();
            }
        }
        db.close().unwrap();
        env
    }

    /// Runs a command, and returns the bytes that its progress has reached, and their total.
    fn reached(env: &Env, arguments: &[&str], input: &[u8]) -> (u64, Option<u64>) {
        let line = CommandLine::parse([&["esker"], arguments].concat()).unwrap();
        let host = Host::unheard(env.clone(), input.to_vec());
        let (host, progress) = line.long_command().unwrap().watched(&host, false);
        assert_eq!(line.run_on(&host), 0, "{arguments:?}");
        assert!(progress.bar.is_hidden());
        (progress.bar.position(), progress.bar.length())
    }

    #[test]
    fn counts_reach_the_total_of_the_files() {
        let env = database();
        let backups = "--backup_dir=/backups";
        for command in [
            &["verify", "/db"][..],
            &["compat", "/db"],
            &["compare", "/db", "/db"],
            &["ldb", "--db=/db", "dump"],
            &["ldb", "--db=/db", "backup", backups],
            &["ldb", "--db=/restored", "restore", backups],
            &["ldb", "--db=/db", "compact"],
            &["ldb", "--db=/db", "repair"],
            &["rocksdb_dump", "--db_path=/db", "--dump_location=/dump"],
            &["rocksdb_undump", "--db_path=/other", "--dump_location=/dump"],
            &[
                "sst_dump",
                "--command=recompress",
                "--compression_types=kNoCompression,kZlibCompression",
                "/db",
            ],
        ] {
            let (position, total) = reached(&env, command, b"");
            let total = total.unwrap();
            // Filters and footers may be left out.
            assert!(
                total > 200_000 && position <= total && position >= total / 10 * 9,
                "{command:?}: {position} of {total}"
            );
        }
    }

    #[test]
    fn input_counts_without_a_total_and_quiet_commands_have_no_progress() {
        let env = database();
        let lines = b"a ==> 1\nb ==> 2\n";
        assert_eq!(reached(&env, &["ldb", "--db=/db", "load"], lines).0, lines.len() as u64);
        for silent in [
            &["verify", "--quiet", "/db"][..],
            &["--no-progress", "compat", "/db"],
            &["ldb", "--db=/db", "query"],
        ] {
            assert!(CommandLine::parse([&["esker"], silent].concat()).unwrap().long_command().is_none());
        }
        let host = Host::unheard(env, Vec::new());
        let verify = CommandLine::parse(["esker", "verify", "/db"]).unwrap();
        assert!(verify.long_command().unwrap().watch(&host).is_none(), "nobody watches");
    }

    /// A terminal that keeps the text.
    #[derive(Clone, Debug, Default)]
    struct KeptTerminal(Arc<Mutex<String>>);

    impl indicatif::TermLike for KeptTerminal {
        fn width(&self) -> u16 {
            80
        }
        fn move_cursor_up(&self, _n: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _n: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _n: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _n: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().push_str(text);
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_have_the_share_the_count_and_the_rate() {
        for (total, expected) in [(Some(4 << 20), " 25%  1.0 MiB of 4.0 MiB"), (None, "verifying  1.0 MiB")] {
            let progress = ProgressLine::new("verifying", Unit::Bytes, total, false);
            let terminal = KeptTerminal::default();
            progress.bar.set_draw_target(ProgressDrawTarget::term_like(Box::new(terminal.clone())));
            progress.bar.set_position(1 << 20);
            progress.bar.force_draw();
            let text = terminal.0.lock().clone();
            assert!(text.contains(expected) && text.contains("/s"), "{text}");
            progress.end();
        }
    }
}
