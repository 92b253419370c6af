//! The driver: starts `db_stress` again and again on one directory, each time with other flags, and
//! kills it.
//!
//! In: a duration, and the kind of death: the driver kills the process (black box), or the process
//! ends itself at a random file operation (white box). Out: a [`KillTestReport`], or the run that
//! found a mistake, with its flags.
//!
//! Source of the idea: RocksDB `tools/db_crashtest.py`.

use super::setup::KILLED;
use clap::{Args, ValueEnum};
use esker::internals::env::{Clock, SystemClock};
use std::fmt;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// The way in which a process ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Mode {
    /// The driver kills it after some time.
    Blackbox,
    /// The process ends itself at a file operation.
    Whitebox,
    /// A kind that is drawn anew for each process.
    Both,
}

/// The flags of the driver.
#[derive(Args, Clone, Debug)]
#[command(rename_all = "snake_case")]
pub struct CrashFlags {
    /// The way in which processes end
    #[arg(value_enum)]
    pub mode: Mode,
    /// Parent of the directories of the database and of the expected values
    #[arg(long)]
    pub dir: PathBuf,
    /// Seconds in all
    #[arg(long, default_value_t = 6000)]
    pub duration: u64,
    /// Seconds that a process may live
    #[arg(long, default_value_t = 20)]
    pub interval: u64,
    /// Seed of every random choice
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Processes after which a new database is begun
    #[arg(long, default_value_t = 30)]
    pub processes_per_database: u32,
    /// Further flags of each process
    #[arg(last = true)]
    pub more: Vec<String>,
}

/// Counts of a test.
#[derive(Clone, Debug, Default)]
pub struct KillTestReport {
    /// Processes started.
    pub processes: u32,
    /// Processes killed from outside.
    pub killed: u32,
    /// Processes that ended themselves at a file operation.
    pub ended_themselves: u32,
    /// Processes that finished their work.
    pub finished: u32,
    /// Databases. Each was compared at its end.
    pub databases: u32,
}

impl fmt::Display for KillTestReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "db_crashtest: {} processes on {} databases: {} killed, {} ended by themselves at a file operation, {} came to \
             their end; every database held what was expected",
            self.processes, self.databases, self.killed, self.ended_themselves, self.finished
        )
    }
}

/// Runs the test. The command of `db_stress` is `program` with `arguments`; flags follow.
/// # Errors
/// The mistake that a process found, and its flags.
#[expect(clippy::print_stderr, reason = "progress of a command that takes hours")]
pub fn run(flags: &CrashFlags, program: &Path, arguments: &[&str]) -> Result<KillTestReport, String> {
    let mut report = KillTestReport::default();
    let mut rng = fastrand::Rng::with_seed(flags.seed);
    let begin = SystemClock.now_micros();
    let is_over = || SystemClock.now_micros() - begin >= flags.duration * 1_000_000;
    let mut lasting = Vec::new();
    while !is_over() {
        let is_first = report.processes.is_multiple_of(flags.processes_per_database.max(1));
        if is_first {
            if report.processes > 0 {
                verify(flags, program, arguments, &lasting)?;
            }
            lasting = lasting_flags(&mut rng);
            report.databases += 1;
        }
        let mode = match flags.mode {
            Mode::Both if rng.bool() => Mode::Blackbox,
            Mode::Both => Mode::Whitebox,
            mode => mode,
        };
        let mut drawn = random_flags(&mut rng, mode);
        if is_first {
            drawn.push("--destroy_db_initially".to_owned());
        }
        let millis = match mode {
            Mode::Blackbox => rng.u64(50..flags.interval.max(1) * 1000 + 51),
            _ => flags.interval * 10_000,
        };
        let all = [&lasting[..], &drawn].concat();
        report.processes += 1;
        match one(flags, program, arguments, &all, millis)? {
            End::Killed => report.killed += 1,
            End::Itself => report.ended_themselves += 1,
            End::Finished => report.finished += 1,
        }
        if report.processes.is_multiple_of(10) {
            eprintln!("{report}");
        }
    }
    verify(flags, program, arguments, &lasting)?;
    Ok(report)
}

/// Flags that all processes on a database share.
fn lasting_flags(rng: &mut fastrand::Rng) -> Vec<String> {
    vec![
        format!("--max_key={}", [1_000, 5_000, 25_000][rng.usize(..3)]),
        format!("--column_families={}", rng.u32(1..=5)),
        format!("--value_size_mult={}", [1, 8, 64, 256][rng.usize(..4)]),
        format!("--lasting_options_seed={}", rng.u32(1..)),
    ]
}

fn random_flags(rng: &mut fastrand::Rng, mode: Mode) -> Vec<String> {
    let mut flags = vec![
        format!("--seed={}", rng.u32(..)),
        format!("--threads={}", rng.u32(1..=12)),
        format!("--options_seed={}", rng.u32(1..)),
        format!("--reopen={}", rng.u32(..4)),
        format!("--ops_per_thread={}", [2_000, 20_000, 200_000][rng.usize(..3)]),
        format!("--use_put_entity_one_in={}", [0, 0, 5][rng.usize(..3)]),
        format!("--batch_protection_bytes_per_key={}", [0, 8][rng.usize(..2)]),
        format!("--flush_one_in={}", [500, 5_000][rng.usize(..2)]),
        format!("--compact_range_one_in={}", [1_000, 20_000][rng.usize(..2)]),
        format!("--clear_column_family_one_in={}", [0, 20_000][rng.usize(..2)]),
    ];
    for name in ["--use_merge", "--use_multiget"] {
        if rng.bool() {
            flags.push(name.to_owned());
        }
    }
    if rng.u8(..8) == 0 {
        flags.push("--sync".to_owned());
    }
    if rng.u8(..3) == 0 {
        flags.push(format!("--write_fault_one_in={}", [100, 2_000][rng.usize(..2)]));
    }
    if rng.u8(..3) == 0 {
        flags.push(format!("--read_fault_one_in={}", [100, 2_000][rng.usize(..2)]));
    }
    if mode == Mode::Whitebox {
        flags.push(format!("--kill_random_test={}", [1_000, 20_000, 200_000][rng.usize(..3)]));
    }
    flags
}

enum End {
    Killed,
    Itself,
    Finished,
}

fn command(flags: &CrashFlags, program: &Path, arguments: &[&str], drawn: &[String]) -> Command {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .arg("--db")
        .arg(flags.dir.join("db"))
        .arg("--expected_values_dir")
        .arg(flags.dir.join("expected"))
        .args(drawn)
        .args(&flags.more)
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

fn verify(flags: &CrashFlags, program: &Path, arguments: &[&str], lasting: &[String]) -> Result<(), String> {
    let only = [lasting, &["--verification_only".to_owned()]].concat();
    one(flags, program, arguments, &only, u64::MAX).map(|_| ())
}

/// Runs one process and kills it after `millis` milliseconds if it still runs.
fn one(
    flags: &CrashFlags,
    program: &Path,
    arguments: &[&str],
    drawn: &[String],
    millis: u64,
) -> Result<End, String> {
    let named = |e: std::io::Error| format!("{}: {e}", program.display());
    let mut child = command(flags, program, arguments, drawn).spawn().map_err(named)?;
    let mut errors = child.stderr.take().expect("standard error is a pipe");
    let (status, output) = std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut output = String::new();
            // An error means output that is not UTF-8, which `db_stress` does not write.
            errors.read_to_string(&mut output).ok();
            output
        });
        let status = wait(&mut child, millis);
        (status, reader.join().expect("the reader does not panic"))
    });
    let status = status.map_err(named)?;
    if status.success() {
        return Ok(End::Finished);
    }
    if status.signal() == Some(9) {
        return Ok(End::Killed);
    }
    if status.signal() == Some(6) && output.contains(KILLED) && !output.contains("panicked") {
        return Ok(End::Itself);
    }
    let line = drawn.join(" ");
    Err(format!("db_crashtest: seed {}: {status}: {output}\nits flags: {line}", flags.seed))
}

fn wait(child: &mut Child, millis: u64) -> std::io::Result<ExitStatus> {
    const STEP: u64 = 20;
    for _ in 0..millis.div_ceil(STEP) {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        SystemClock.sleep(Duration::from_millis(STEP));
    }
    child.kill()?;
    child.wait()
}
