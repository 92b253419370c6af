//! Makes every file operation of a scripted load fail in turn.
//!
//! In: the kinds of failure, and a seed. Out: a [`FaultReport`], or the first failure after which a
//! rule below was broken.
//!
//! A trial runs the script on a simulated disk. One operation fails, or the disk is full after some
//! byte. These rules must hold:
//!
//!  1. Nothing panics or hangs.
//!  2. The error reaches a caller or `background_error()`. There are four exceptions, which the
//!     report counts: no promise depends on the operation, a repeated read succeeds, the database
//!     recovers by itself, or a pre-scan of deleted keys fails, which LOG reports.
//!  3. Reads are served.
//!  4. Every acknowledged write survives if the process dies now, and every synced one if the
//!     machine does.
//!  5. `resume()` clears the error, because its cause is gone. An error more severe than
//!     `HardError` may need a new opening instead.
//!  6. The script continues. At its end, after another death, all acknowledged writes are there
//!     again.
//!
//! Some variations let the database recover by itself. The database must then recover from an error
//! that may pass. After a permanent error no recovery may begin. On a full disk the database looks
//! for space only every five seconds, so the trial calls `resume()`.
//!
//! `bit_flips`: a read with one wrong bit gives an error or the right answer. Tables and blob files
//! are read once more: they give the right answer, unless the second read has a wrong bit too.

mod script;

use esker::internals::env::{CrashChoices, CrashFs, Env, FaultFs, FaultRule, FileSystem, OpKind};
use esker::{Db, Error, ErrorKind, Severity};
use script::{FaultScript, Status};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A kind of failure.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, clap::ValueEnum)]
pub enum Fault {
    /// EIO, marked as permanent.
    Permanent,
    /// An error marked as one that may pass.
    Retryable,
    /// ENOSPC, once.
    NoSpace,
    /// Part of an append reaches the disk.
    ShortWrite,
    /// The disk is full from some byte on, until room is made.
    FullDisk,
}

impl Fault {
    /// All kinds.
    pub const ALL: [Fault; 5] =
        [Fault::Permanent, Fault::Retryable, Fault::NoSpace, Fault::ShortWrite, Fault::FullDisk];

    fn put(self, fs: &FaultFs, n: u64) {
        match self {
            Fault::Permanent => fs.add_rule(FaultRule::fail_any().nth(n).retryable(false)),
            Fault::Retryable => fs.add_rule(FaultRule::fail_any().nth(n).retryable(true)),
            Fault::NoSpace => fs.add_rule(FaultRule::fail_any().nth(n).no_space()),
            Fault::ShortWrite => fs.add_rule(FaultRule::short_write(None).nth(n)),
            Fault::FullDisk => fs.no_space_after(Some(n)),
        }
    }
}

/// Parameters of a campaign.
#[derive(Clone, Debug)]
pub struct FaultParameters {
    /// Seed of the first failing operation, of short writes, of bit flips and of the trials'
    /// variations.
    pub seed: u64,
    /// Distance between the failing operations of successive trials. Short writes and bit flips use
    /// a smaller step. For a full disk the step is the mean bytes of this many operations.
    pub step: u64,
    /// The kinds of failure.
    pub faults: Vec<Fault>,
    /// The variation of the script that all trials run; with `step` 1 each of its operations fails
    /// once. `None`: each trial runs another one.
    pub script: Option<u64>,
    /// The only operation (or byte) that fails, without bit flips. It repeats a failure.
    pub at: Option<u64>,
    /// Whether bits of reads are flipped after the trials.
    pub bit_flips: bool,
    /// Print lines of progress.
    pub verbose: bool,
}

/// Counts for one kind of fault.
#[derive(Clone, Copy, Debug, Default)]
pub struct FaultCounts {
    /// Runs of the script.
    pub trials: u64,
    /// Trials in which the fault occurred: threads do not always reach it.
    pub fired: u64,
    /// Trials in which a caller got the error, or `background_error()` returned it.
    pub surfaced: u64,
    /// Trials in which a second read succeeded or the database recovered by itself, so that no
    /// caller got the error.
    pub mended: u64,
    /// Errors that `resume()` lifted.
    pub resumed: u64,
    /// Errors that the database lifted by itself while the trial waited.
    pub lifted_itself: u64,
    /// Errors for which the database had to be opened again.
    pub reopened: u64,
    /// Disks opened after a death and compared.
    pub deaths: u64,
}

/// Counts of a campaign.
#[derive(Clone, Debug, Default)]
pub struct FaultReport {
    /// File operations of the script without faults.
    pub operations: u64,
    /// Counts by kind.
    pub counts: BTreeMap<Fault, FaultCounts>,
    /// Operations whose failure nobody noticed and on which no promise depends, by kind.
    pub silent: BTreeMap<String, u64>,
    /// Runs of the bit flips. In each run one read, or two reads in a row, have a flipped bit.
    pub flips: u64,
    /// Runs in which an error reported a flip.
    pub flips_noticed: u64,
}

impl FaultReport {
    /// The sum of a count over all kinds.
    pub fn total(&self, count: impl Fn(&FaultCounts) -> u64) -> u64 {
        self.counts.values().map(count).sum()
    }

    fn of(&mut self, fault: Fault) -> &mut FaultCounts {
        self.counts.entry(fault).or_default()
    }
}

impl fmt::Display for FaultReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "faults: a script of {} file operations; nothing acknowledged was lost",
            self.operations
        )?;
        for (fault, counts) in &self.counts {
            writeln!(f, "{fault:?}: {counts}")?;
        }
        let silent: Vec<String> = self.silent.iter().map(|(op, n)| format!("{op} {n}")).collect();
        writeln!(f, "told nobody: {}", silent.join(", "))?;
        write!(f, "bit flips: {} reads, {} errors, no wrong answer", self.flips, self.flips_noticed)
    }
}

impl fmt::Display for FaultCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} trials, {} met the fault, {} surfaced, {} mended unseen, {} lifted by resume(), {} by itself, {} by opening \
             again, {} disks opened after a death",
            self.trials,
            self.fired,
            self.surfaced,
            self.mended,
            self.resumed,
            self.lifted_itself,
            self.reopened,
            self.deaths
        )
    }
}

/// Runs all trials, and the bit flips.
/// # Errors
/// The first broken rule, with the fault.
pub fn run(parameters: &FaultParameters) -> Result<FaultReport, String> {
    let mut report = FaultReport::default();
    let (operations, appends, bytes) = measure(parameters.script.unwrap_or(0))?;
    report.operations = operations;
    for &fault in &parameters.faults {
        let (limit, step) = match fault {
            Fault::ShortWrite => (appends, parameters.step.div_ceil(4)),
            Fault::FullDisk => (bytes, parameters.step * bytes / operations),
            _ => (operations, parameters.step),
        };
        let mut n = parameters.at.unwrap_or_else(|| fastrand::Rng::with_seed(parameters.seed).u64(..step));
        let mut fired = 0;
        // The number of operations depends on the threads, so `limit` is not exact. If all trials
        // share a script, they continue behind `limit` until a trial does not reach its fault.
        while n < limit || (parameters.script.is_some() && report.of(fault).fired > fired) {
            let before = *report.of(fault);
            fired = before.fired;
            if parameters.verbose && before.trials % 500 == 0 {
                eprintln_progress(fault, n, &report);
            }
            trial(fault, n, parameters, &mut report)
                .map_err(|why| format!("faults: {fault:?} at {n}, SEED={}: {why}", parameters.seed))?;
            if parameters.at.is_some() {
                break;
            }
            n += step;
        }
    }
    if parameters.bit_flips && parameters.at.is_none() {
        bit_flips(parameters, &mut report)?;
    }
    Ok(report)
}

#[expect(clippy::print_stderr, reason = "progress of a long campaign")]
fn eprintln_progress(fault: Fault, n: u64, report: &FaultReport) {
    eprintln!("{fault:?} at {n}; {} trials so far", report.total(|counts| counts.trials));
}

/// Operations, appends, and bytes appended, of a variation of the script without faults.
fn measure(script: u64) -> Result<(u64, u64, u64), String> {
    let fs = FaultFs::new(Arc::new(CrashFs::new()));
    fs.list_ops(true);
    let mut script = FaultScript::new(script);
    let db = script.open(env(&fs)).map_err(|e| format!("without a fault: {e}"))?;
    while script.step(&db).map_err(|e| format!("without a fault: {e}"))? {}
    db.close().map_err(|e| format!("without a fault: {e}"))?;
    let ops = fs.take_ops();
    let appended = ops.iter().filter(|op| op.kind == OpKind::Append).map(|op| op.bytes).sum();
    Ok((fs.op_count(), fs.op_count_of(OpKind::Append), appended))
}

fn env(fs: &FaultFs) -> Env {
    Env::with_fs(Arc::new(fs.clone()))
}

/// One run of the script with one fault.
struct Trial<'a> {
    fault: Fault,
    disk: CrashFs,
    fs: FaultFs,
    script: FaultScript,
    surfaced: bool,
    report: &'a mut FaultReport,
}

fn trial(fault: Fault, n: u64, parameters: &FaultParameters, report: &mut FaultReport) -> Result<(), String> {
    let seed = parameters.seed ^ n;
    let script = FaultScript::new(parameters.script.unwrap_or(seed));
    let disk = CrashFs::new();
    let fs = FaultFs::with_seed(Arc::new(disk.clone()), seed);
    fs.list_ops(true);
    fault.put(&fs, n);
    report.of(fault).trials += 1;
    let mut trial = Trial { fault, disk, fs, script, surfaced: false, report };
    trial.run().map_err(|why| format!("{why}\nthe fault: {}", acted(&trial.fs)))?;
    trial.account()
}

impl Trial<'_> {
    fn counts(&mut self) -> &mut FaultCounts {
        self.report.of(self.fault)
    }

    fn run(&mut self) -> Result<(), String> {
        let mut db = self.open_again_until_it_works()?;
        loop {
            let step = self.script.step(&db);
            if let Err(e) = &step {
                if self.fs.fault_count() == 0 {
                    return Err(format!("an error without a fault: {e}"));
                }
                self.surfaced = true;
            }
            if step.is_err() || db.background_error().is_some() {
                db = self.recover(db)?;
            }
            if matches!(step, Ok(false)) {
                break;
            }
        }
        self.fault_is_gone();
        self.check_reads(&db)?;
        // A background job may meet the fault last.
        let settled = db.wait_for_background_work();
        if settled.is_err() {
            self.surfaced = true;
            db = self.recover(db)?;
            self.check_reads(&db)?;
        }
        let closed = db.close();
        drop(db);
        self.surfaced |= closed.is_err();
        self.die(&CrashChoices::process_kill())?;
        self.die(&CrashChoices::lose_unsynced())
    }

    /// The first attempt may meet the fault; the second must not fail.
    fn open_again_until_it_works(&mut self) -> Result<Db, String> {
        match self.script.open(env(&self.fs)) {
            Ok(db) => Ok(db),
            Err(_) if self.fs.fault_count() > 0 => {
                self.surfaced = true;
                self.fault_is_gone();
                self.script.open(env(&self.fs)).map_err(|e| format!("does not open without the fault: {e}"))
            }
            Err(e) => Err(format!("does not open, and there was no fault: {e}")),
        }
    }

    /// Compares reads. If the fault occurs meanwhile and the comparison fails, a second comparison
    /// must succeed.
    fn check_reads(&mut self, db: &Db) -> Result<(), String> {
        let before = self.fs.fault_count();
        match self.script.check_reads(db) {
            Err(_) if self.fs.fault_count() > before => {
                self.surfaced = true;
                self.script.check_reads(db)
            }
            result => result,
        }
    }

    fn fault_is_gone(&self) {
        self.fs.no_space_after(None);
    }

    /// After an error: reads, deaths, and `resume()`.
    fn recover(&mut self, db: Db) -> Result<Db, String> {
        self.surfaced = true;
        self.check_reads(&db).map_err(|e| format!("before resume: {e}"))?;
        self.die(&CrashChoices::process_kill()).map_err(|e| format!("before resume: {e}"))?;
        self.die(&CrashChoices::lose_unsynced()).map_err(|e| format!("before resume: {e}"))?;
        if self.fault == Fault::FullDisk && db.background_error().is_some() && db.resume().is_ok() {
            // A resume that needs no space succeeds while the disk is still full.
            self.counts().resumed += 1;
        }
        self.fault_is_gone();
        let Some(error) = db.background_error() else { return Ok(db) };
        if self.lifts_itself(&error) {
            self.wait_until_lifted(&db)?;
            self.counts().lifted_itself += 1;
            self.check_after_resume(&db)?;
            return Ok(db);
        }
        match db.resume() {
            Ok(()) => {
                self.counts().resumed += 1;
                self.check_after_resume(&db)?;
                Ok(db)
            }
            Err(_) if error.severity() > Severity::HardError => {
                drop(db);
                self.counts().reopened += 1;
                self.script.open(env(&self.fs)).map_err(|e| format!("does not open again after {error}: {e}"))
            }
            Err(e) => Err(format!("resume() failed although the fault is gone: {e}; it was: {error}")),
        }
    }

    fn check_after_resume(&mut self, db: &Db) -> Result<(), String> {
        self.check_reads(db).map_err(|e| format!("after resume: {e}"))?;
        self.die(&CrashChoices::process_kill()).map_err(|e| format!("after resume: {e}"))?;
        self.die(&CrashChoices::lose_unsynced()).map_err(|e| format!("after resume: {e}"))
    }

    /// Whether the database must soon clear this error by itself.
    fn lifts_itself(&self, error: &Error) -> bool {
        let is_full = matches!(self.fault, Fault::NoSpace | Fault::FullDisk);
        self.script.recovers_itself() && may_pass(error) && !is_full
    }

    /// Waits until the database has lifted its error.
    /// # Errors
    /// The error in force is permanent, although one operation has failed once only.
    fn wait_until_lifted(&self, db: &Db) -> Result<(), String> {
        let clock = env(&self.fs).clock;
        while let Some(error) = db.background_error() {
            if !may_pass(&error) {
                return Err(format!("an automatic recovery has ended with {error}"));
            }
            clock.sleep(Duration::from_micros(200));
        }
        Ok(())
    }

    /// Opens the disk that a death now would leave, and compares.
    fn die(&mut self, choices: &CrashChoices) -> Result<(), String> {
        self.counts().deaths += 1;
        let disk: Arc<dyn FileSystem> = Arc::new(self.disk.crash_clone(choices));
        let db = self
            .script
            .open(Env::with_fs(disk))
            .map_err(|e| format!("after {:?} it does not open: {e}", choices.kind))?;
        self.script.check_after(&db, choices.kind).map_err(|e| format!("after {:?}: {e}", choices.kind))?;
        db.close().map_err(|e| format!("close: {e}"))
    }

    /// Whether a LOG of the database reports a failed pre-scan. Scans do its work later.
    fn has_failed_pre_scan(&self) -> bool {
        let dir = Path::new(script::DIR);
        let names = self.disk.children(dir).unwrap_or_default();
        let mut logs = names.iter().filter(|name| name.starts_with("LOG"));
        logs.any(|name| {
            let path = dir.join(name);
            let mut text = vec![0; usize::try_from(self.disk.file_size(&path).unwrap_or(0)).unwrap_or(0)];
            let file = self.disk.new_random_access_file(&path);
            let read = file.and_then(|file| file.read_at(0, &mut text));
            read.is_ok() && String::from_utf8_lossy(&text).contains("Pre-scan of deleted keys: IO error")
        })
    }

    fn account(self) -> Result<(), String> {
        if self.fs.fault_count() == 0 {
            return Ok(());
        }
        if self.fault == Fault::Permanent && self.script.recoveries_begun() > 0 {
            return Err(format!("tried to recover from what will not pass: {}", acted(&self.fs)));
        }
        let surfaced = u64::from(self.surfaced);
        let counts = self.report.of(self.fault);
        counts.fired += 1;
        counts.surfaced += surfaced;
        if !self.surfaced {
            let op = acted(&self.fs);
            let what = kind_of(&op);
            let is_read_again = what == "read .sst" && self.script.mended_reads() > 0;
            if is_read_again || self.script.recoveries() > 0 {
                counts.mended += 1;
                return Ok(());
            }
            if !may_be_silent(&what) && !self.has_failed_pre_scan() {
                return Err(format!("nobody was told that this failed: {op}"));
            }
            *self.report.silent.entry(what).or_default() += 1;
        }
        Ok(())
    }
}

fn may_pass(error: &Error) -> bool {
    error.is_retryable() && error.severity() <= Severity::HardError
}

/// The operation that failed.
fn acted(fs: &FaultFs) -> String {
    fs.take_ops().iter().find(|op| op.fault).map_or("none".to_owned(), ToString::to_string)
}

/// The kind of an operation: "append 000004.log 0+31" is an "append .log".
fn kind_of(op: &str) -> String {
    let mut words = op.split(' ');
    let (verb, name) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let name = match name.rsplit_once('.') {
        Some((_, extension)) if !name.starts_with("LOG") => format!(".{extension}"),
        _ => name.split('-').next().unwrap_or_default().to_owned(),
    };
    format!("{verb} {name}")
}

/// Whether no promise depends on the operation. That holds for the LOG, for hints (preallocation,
/// range sync) and for deletions, which the next open tries again. It holds for the close of a file
/// that is no table: the bytes of that file are synced, or not promised. Every listing may be
/// silent, because some listings only look for old LOG files. If a failed listing of WALs were
/// silent, the trial would find acknowledged writes missing.
fn may_be_silent(what: &str) -> bool {
    let (verb, name) = what.split_once(' ').unwrap_or((what, ""));
    name.starts_with("LOG")
        || matches!(verb, "delete" | "list" | "preallocate" | "range-sync")
        || verb == "close" && name != ".sst"
}

/// Reads a whole database with a wrong bit in one read, and again with a wrong bit in the next
/// read, too. The step between the damaged reads is `step / 8`, rounded up.
fn bit_flips(parameters: &FaultParameters, report: &mut FaultReport) -> Result<(), String> {
    let disk = CrashFs::new();
    let mut script = FaultScript::new(1);
    let db = script.open(Env::with_fs(Arc::new(disk.clone()))).map_err(|e| e.to_string())?;
    while script.step(&db).map_err(|e| e.to_string())? {}
    db.close().map_err(|e| e.to_string())?;
    drop(db);
    script.tolerate_nothing();
    let mut n = 0;
    loop {
        // The next read after a damaged one may be its repetition.
        for times in [1, 2] {
            let copy = disk.crash_clone(&CrashChoices::process_kill());
            let fs = FaultFs::with_seed(Arc::new(copy), parameters.seed ^ n);
            fs.list_ops(true);
            fs.add_rule(FaultRule::bit_flip().on(|p| !p.ends_with("LOG")).nth(n).times(times));
            let noticed = flipped(&script, &fs)
                .map_err(|why| format!("bit flip in read {n}, SEED={}: {why}", parameters.seed))?;
            if fs.fault_count() == 0 {
                return Ok(());
            }
            let op = acted(&fs);
            if times == 1 && noticed && matches!(kind_of(&op).as_str(), "read .sst" | "read .blob") {
                return Err(format!("bit flip in read {n}, SEED={}: not read again: {op}", parameters.seed));
            }
            report.flips += 1;
            report.flips_noticed += u64::from(noticed);
        }
        n += parameters.step.div_ceil(8);
    }
}

/// Whether an error reported the flip.
fn flipped(script: &FaultScript, fs: &FaultFs) -> Result<bool, String> {
    let db = match script.open(env(fs)) {
        Ok(db) => db,
        Err(e) if e.kind() == ErrorKind::Corruption || fs.fault_count() > 0 => return Ok(true),
        Err(e) => return Err(format!("{e}")),
    };
    let noticed = script.read_everything(&db)?;
    Ok(noticed || db.background_error().is_some())
}

impl Status {
    fn must_survive(self, power_loss: bool) -> bool {
        match self {
            Status::Synced => true,
            Status::Acknowledged => !power_loss,
            Status::Failed => false,
        }
    }
}
