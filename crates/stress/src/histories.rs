//! Long histories with crashes: one database, a thousand operations of all kinds, crash after crash
//! on the same disk.
//!
//! In: a seed and a number of histories. Out: a [`HistoryReport`], or the first history with a
//! mistake, with the few operations that suffice for it and the command that shows it again.
//!
//! A history is a round of the [`crate::model`] campaign whose lives end in a crash instead of a
//! close: at a random file operation of any kind, within openings, too. The contents found then
//! must be the state after some prefix of the writes, the same in all families. The prefix includes
//! all promised writes: flushed and synced ones after a power loss, acknowledged ones after the
//! death of the process, families that were dropped and made. The history continues from there,
//! with other options.
//!
//! Between crashes every answer is compared with the model: gets, scans, iterators that live on,
//! snapshots, transactions, beside flushes, compactions, ingested files and threads that write. Now
//! and then the disk makes trouble for a while. Then the database resumes, by itself or by a call
//! of `resume`, or it is opened again. A prepared transaction is still prepared after a crash, or
//! over and whole.
//!
//! With `--cfg shuttle`, each history is a simulated machine (see `sim.rs`): the seed gives the
//! same history again. Without it, the seed draws operations, options and crashed disks, and
//! threads take their own time.

use crate::crash::{Trace, choices_of, disk_clock, env_over, is_refusal};
use crate::model;
use crate::model::round::{Floor, PATH, Promises, Round, TroubleEnd};
use crate::second_reader::{self, Agreed};
use esker::internals::env::crash::CrashKind;
use esker::internals::env::{CrashChoices, CrashFs, Env, FaultFs, FaultOp, FaultSchedule, OpKind};
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Parameters of a campaign.
#[derive(Clone, Debug)]
pub struct HistoryParameters {
    /// Seed of the first history; the next ones have the next numbers.
    pub seed: u64,
    /// Number of histories.
    pub histories: u64,
    /// Operations of each history.
    pub operations: u64,
    /// Crashes of each history, at least.
    pub crashes: u64,
    /// Whether the disk makes trouble: it is slow, fails, is full, reads other bytes than were
    /// written. Default: true.
    pub trouble: bool,
    /// RocksDB's reader; it reads one in this many crashed disks.
    pub second_reader: Option<(PathBuf, u64)>,
    /// Operations to leave out: for shrinking.
    pub skip: Vec<Range<u64>>,
    /// Do each history twice, and compare what happened. For simulations.
    pub twice: bool,
    /// Time after which no history is begun.
    pub limit: Option<Duration>,
    /// Time for shrinking a failure.
    pub shrink: Duration,
    /// Print lines of progress.
    pub verbose: bool,
}

impl Default for HistoryParameters {
    fn default() -> HistoryParameters {
        HistoryParameters {
            seed: 1,
            histories: 1,
            operations: 1000,
            crashes: 10,
            trouble: true,
            second_reader: None,
            skip: Vec::new(),
            twice: false,
            limit: None,
            shrink: Duration::from_secs(120),
            verbose: false,
        }
    }
}

/// Counts of a campaign.
#[derive(Clone, Debug, Default)]
pub struct HistoryReport {
    /// Histories.
    pub histories: u64,
    /// Crashes.
    pub crashes: u64,
    /// Crashes that killed the process.
    pub kills: u64,
    /// Crashes within an opening.
    pub in_openings: u64,
    /// Unpromised writes that crashes have lost.
    pub lost: u64,
    /// Power losses that garbled the MANIFEST's end, so that the database rightly did not open. The
    /// history went on as if the process had died there.
    pub refused: u64,
    /// Spells of trouble with the disk that ended before a crash.
    pub troubles: u64,
    /// Operations that gave an error in these spells.
    pub errors: u64,
    /// Spells after which the database had to be opened again.
    pub reopened: u64,
    /// Openings that were refused on a disk that made trouble.
    pub not_opened: u64,
    /// File operations that failed or gave wrong bytes.
    pub faults: u64,
    /// Disks from which RocksDB and Esker read the same.
    pub second_readings: u64,
    /// Disks that both refused.
    pub second_refusals: u64,
    /// Disks on which RocksDB read on behind a hole.
    pub holes: u64,
    /// Time that passed by the clock of the simulated machines.
    pub simulated: Duration,
    /// A hash of all file operations that change something.
    pub fingerprint: u64,
    /// These operations, for one history that is done twice.
    pub file_operations: Vec<String>,
    /// Operations and answers.
    pub answers: model::ModelReport,
    /// Duration.
    pub time: Duration,
}

impl fmt::Display for HistoryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = self.time.as_secs_f64() / self.histories.max(1) as f64;
        writeln!(
            f,
            "histories: {} with {} operations, {} answers compared, {} crashes ({} kills, the rest power losses; {} during \
             recovery), {} writes that were not promised lost; {} garbled MANIFESTs refused; {} times trouble with the disk: {} \
             faults, {} operations and {} openings refused, {} times opened again; RocksDB read {} disks alike, \
             refused {} as Esker did, read on behind a hole in {}; {}; {}; {:.1} simulated hours; {:.3} s each; history {:016x}",
            self.histories,
            self.answers.operations,
            self.answers.comparisons,
            self.crashes,
            self.kills,
            self.in_openings,
            self.lost,
            self.refused,
            self.troubles,
            self.faults,
            self.errors,
            self.not_opened,
            self.reopened,
            self.second_readings,
            self.second_refusals,
            self.holes,
            self.answers.steps,
            self.answers.audited,
            self.simulated.as_secs_f64() / 3600.0,
            each,
            self.fingerprint
        )?;
        for (kind, count) in &self.answers.by_kind {
            write!(f, "{kind:?} {count}  ")?;
        }
        Ok(())
    }
}

impl HistoryReport {
    fn add(&mut self, one: &HistoryReport) {
        self.histories += one.histories;
        self.crashes += one.crashes;
        self.kills += one.kills;
        self.in_openings += one.in_openings;
        self.lost += one.lost;
        self.refused += one.refused;
        self.troubles += one.troubles;
        self.errors += one.errors;
        self.reopened += one.reopened;
        self.not_opened += one.not_opened;
        self.faults += one.faults;
        self.second_readings += one.second_readings;
        self.second_refusals += one.second_refusals;
        self.holes += one.holes;
        self.simulated += one.simulated;
        self.fingerprint ^= one.fingerprint;
        self.answers.operations += one.answers.operations;
        self.answers.comparisons += one.answers.comparisons;
        self.answers.steps.add(&one.answers.steps);
        self.answers.audited.add(&one.answers.audited);
        for (kind, count) in &one.answers.by_kind {
            match self.answers.by_kind.iter_mut().find(|(k, _)| k == kind) {
                Some((_, sum)) => *sum += count,
                None => self.answers.by_kind.push((*kind, *count)),
            }
        }
    }
}

/// Carries the histories out.
/// # Errors
/// The first mistake, and the command that shows it again.
pub fn run(parameters: &HistoryParameters) -> Result<HistoryReport, String> {
    let report = run_all(parameters);
    second_reader::end();
    report
}

#[expect(clippy::disallowed_methods, reason = "the clock of the campaign, not of the engine")]
#[expect(clippy::print_stderr, reason = "progress of a command that takes minutes")]
fn run_all(parameters: &HistoryParameters) -> Result<HistoryReport, String> {
    let start = Instant::now();
    let mut report = HistoryReport::default();
    while report.histories < parameters.histories
        && parameters.limit.is_none_or(|limit| start.elapsed() < limit)
    {
        let seed = parameters.seed + report.histories;
        let one = one(seed, parameters).map_err(|why| shrink(seed, parameters, why))?;
        if parameters.twice {
            let again = self::one(seed, parameters).map_err(|why| shrink(seed, parameters, why))?;
            same(&one.file_operations, &again.file_operations).map_err(|why| {
                format!("histories: SEED={seed}: the same seed gave another history: {why}")
            })?;
        }
        report.add(&one);
        if parameters.verbose && report.histories.is_multiple_of(100) {
            let seconds = start.elapsed().as_secs_f64();
            let HistoryReport { histories, crashes, .. } = report;
            eprintln!("histories: {histories}, {crashes} crashes, seed {seed} ({seconds:.0} s so far)");
        }
    }
    report.time = start.elapsed();
    Ok(report)
}

/// Compares the file operations of two runs of a history.
/// # Errors
/// The first operation that differs.
fn same(first: &[String], again: &[String]) -> Result<(), String> {
    let parts = first.iter().zip(again).position(|(a, b)| a != b);
    let at = parts.unwrap_or(first.len().min(again.len()));
    let (a, b) = (first.get(at), again.get(at));
    if a == b { Ok(()) } else { Err(format!("file operation {at} was {a:?} and then {b:?}")) }
}

/// A mistake, and the operation after which it was found.
#[derive(Clone, Debug)]
struct Failure {
    operation: u64,
    why: String,
}

/// One history, in a machine of its own.
fn one(seed: u64, parameters: &HistoryParameters) -> Result<HistoryReport, Failure> {
    #[cfg(shuttle)]
    {
        let parameters = parameters.clone();
        let watch = Watch::of(&parameters);
        let watched = watch.clone();
        crate::sim::in_machine(seed, move || History::new(seed, &parameters, watched.clone()).run())
            .unwrap_or_else(|why| {
                // A machine that stops says neither where nor after which operation.
                let watch = watch.lock().unwrap_or_else(PoisonError::into_inner);
                let why = format!("{why}\nthe last file operations:{}", watch.trace);
                Err(Failure { operation: watch.operation, why })
            })
    }
    #[cfg(not(shuttle))]
    History::new(seed, parameters, Watch::of(parameters)).run()
}

/// The file operations among which the next crash is counted out.
#[derive(Clone, Copy, Debug)]
enum Among {
    All,
    /// All but the frequent appends to a WAL.
    Rarer,
    /// Those on the MANIFEST, CURRENT and directories.
    State,
}

impl Among {
    fn has(self, op: &FaultOp, name: &str) -> bool {
        match self {
            Among::All => true,
            Among::Rarer => !(name.ends_with(".log") && op.kind == OpKind::Append),
            Among::State => {
                name.starts_with("MANIFEST")
                    || name.starts_with("CURRENT")
                    || name.ends_with(".dbtmp")
                    || op.kind == OpKind::DirSync
            }
        }
    }
}

/// A crash: the disk that it left, and the promises at that time.
struct Crash {
    disk: CrashFs,
    choices: CrashChoices,
    floor: Floor,
    /// The writes that a power loss must leave if it comes before the next opening has finished.
    safe: Floor,
    /// The disk and promises if the process had died there: used if the disk is rightly refused.
    killed: (CrashFs, Floor),
    op: String,
}

impl Crash {
    fn new(disk: &CrashFs, seed: u64, promises: &Promises, op: String) -> Crash {
        let choices = choices_of(seed);
        // Read before the disks are copied: later promises need not be on them.
        let (safe, of_killed) = (promises.at(CrashKind::PowerLoss), promises.at(CrashKind::ProcessKill));
        let killed = disk.crash_clone(&CrashChoices::process_kill());
        let disk = disk.crash_clone(&choices);
        let after = promises.at(choices.kind);
        let (safe, of_killed) = (safe.until(after), of_killed.until(after));
        let floor = if choices.kind == CrashKind::PowerLoss { safe } else { of_killed };
        Crash { disk, choices, floor, safe, killed: (killed, of_killed), op }
    }
}

/// The state of the file system's hook.
#[derive(Default)]
struct Watch {
    trace: Trace,
    /// All operations, if the history is done twice.
    whole: Option<Vec<String>>,
    /// The next crash: its kind of operations, the number of them to let by, its seed.
    armed: Option<(Among, u64, u64)>,
    crash: Option<Crash>,
    /// Number of the operation under way.
    operation: u64,
}

impl Watch {
    fn of(parameters: &HistoryParameters) -> Arc<Mutex<Watch>> {
        Arc::new(Mutex::new(Watch { whole: parameters.twice.then(Vec::new), ..Watch::default() }))
    }

    fn sees(&mut self, op: &FaultOp, name: &str) -> Option<u64> {
        self.trace.add(op);
        self.whole.iter_mut().for_each(|whole| whole.push(op.to_string()));
        let (among, left, seed) = self.armed.as_mut()?;
        if !among.has(op, name) {
            return None;
        }
        if *left > 0 {
            *left -= 1;
            return None;
        }
        let seed = *seed;
        self.armed = None;
        Some(seed)
    }
}

/// One history.
struct History {
    seed: u64,
    rng: fastrand::Rng,
    parameters: HistoryParameters,
    disk: CrashFs,
    fs: FaultFs,
    watch: Arc<Mutex<Watch>>,
    round: Round,
    report: HistoryReport,
}

impl History {
    fn new(seed: u64, parameters: &HistoryParameters, watch: Arc<Mutex<Watch>>) -> History {
        let disk = CrashFs::new();
        let fs = FaultFs::new(Arc::new(disk.clone()));
        let shared_orders = parameters.second_reader.is_some();
        let of_round = model::ModelParameters { shared_orders, ..model::ModelParameters::default() };
        let round = Round::with_crashes(seed, &of_round, env_over(fs.clone()));
        History {
            seed,
            rng: fastrand::Rng::with_seed(!seed),
            parameters: parameters.clone(),
            disk,
            fs,
            watch,
            round,
            report: HistoryReport { histories: 1, ..HistoryReport::default() },
        }
    }

    fn run(mut self) -> Result<HistoryReport, Failure> {
        let done = self.carry_out();
        if let Err(mut failure) = done {
            let lately = self.round.lately();
            failure.why += &format!("\nlately:{lately}\nthe last file operations:{}", self.watch().trace);
            return Err(failure);
        }
        let (fingerprint, whole) = {
            let mut watch = self.watch();
            (watch.trace.hash, watch.whole.take())
        };
        self.report.fingerprint = fingerprint;
        if cfg!(shuttle) {
            self.report.simulated = Duration::from_nanos(disk_clock().monotonic_nanos());
        }
        self.report.file_operations = whole.unwrap_or_default();
        Ok(self.report)
    }

    fn carry_out(&mut self) -> Result<(), Failure> {
        let mut number = 0;
        let failed = |operation| move |why| Failure { operation, why };
        self.look_at_files();
        self.round.open_first().map_err(failed(0))?;
        while number < self.parameters.operations || self.report.crashes < self.parameters.crashes {
            number = self.life(number)?;
            self.crash().map_err(failed(number))?;
        }
        self.round.finish(&mut self.report.answers).map_err(failed(number))
    }

    fn watch(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out operations from `number` on until there is a crash. Gives the number of the
    /// next.
    fn life(&mut self, mut number: u64) -> Result<u64, Failure> {
        let most = (2 * self.parameters.operations / self.parameters.crashes.max(1)).max(2);
        let (quiet, length) = (number + self.rng.u64(..most), number + most * 3 / 2);
        let among = [Among::All, Among::Rarer, Among::Rarer, Among::State][self.rng.usize(..4)];
        let armed = (among, self.rng.u64(..8), self.rng.u64(..));
        let trouble = self.draw_trouble(number, most);
        while number < length && self.watch().crash.is_none() {
            self.watch().operation = number;
            if number == quiet {
                self.watch().armed = Some(armed);
            }
            if number == trouble.start {
                self.fs.set_schedule(FaultSchedule::bad(armed.2, disk_clock()));
                self.round.trouble_begins();
            }
            if self.round.is_in_trouble() && (number == trouble.end || self.round.has_many_refused_writes()) {
                self.trouble_ends().map_err(|why| Failure { operation: number, why })?;
            }
            if !self.parameters.skip.iter().any(|range| range.contains(&number)) {
                self.round.operate_alone(number).map_err(|why| Failure { operation: number, why })?;
            }
            number += 1;
        }
        Ok(number)
    }

    /// The operations between which the disk makes trouble. Until then it may be slow.
    fn draw_trouble(&mut self, number: u64, most: u64) -> Range<u64> {
        let start = number + self.rng.u64(..most);
        let (roll, length, seed) = (self.rng.u8(..4), self.rng.u64(1..40), self.rng.u64(..));
        if !self.parameters.trouble || roll == 3 {
            return u64::MAX..u64::MAX;
        }
        if roll == 2 {
            self.fs.set_schedule(FaultSchedule::slow(seed, disk_clock()));
        }
        start..start + length
    }

    /// Heals the disk, and with it the database, unless a crash has come before.
    fn trouble_ends(&mut self) -> Result<(), String> {
        self.report.faults += self.fs.fault_count();
        self.fs.clear_rules();
        if self.watch().crash.is_some() {
            return Ok(());
        }
        let (end, errors) = self.round.trouble_ends()?;
        self.report.troubles += 1;
        self.report.errors += errors;
        // A crash that has come meanwhile is judged by its disk.
        if end == TroubleEnd::Resumed || self.watch().crash.is_some() {
            return Ok(());
        }
        self.report.reopened += 1;
        self.watch().armed = None;
        let floor = self.round.promises().at(CrashKind::ProcessKill);
        self.round.abandon();
        self.watch().crash = None;
        let (env, scene) = (env_over(self.fs.clone()), "opened again after trouble with the disk");
        let lost = self.round.recover(env, floor, scene).map_err(|(_, why)| format!("{why}\n{scene}"))?;
        self.report.lost += lost as u64;
        Ok(())
    }

    /// Shows the hook all file operations of the present disk.
    fn look_at_files(&mut self) {
        let (disk, watch) = (self.disk.clone(), self.watch.clone());
        let promises = self.round.promises();
        self.fs.on_op(move |op| {
            let name = op.path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with("LOG")
                || matches!(op.kind, OpKind::Read | OpKind::Stat | OpKind::List | OpKind::Open)
            {
                return;
            }
            let seed = watch.lock().unwrap_or_else(PoisonError::into_inner).sees(op, &name);
            if let Some(seed) = seed {
                let crash = Crash::new(&disk, seed, &promises, op.to_string());
                watch.lock().unwrap_or_else(PoisonError::into_inner).crash = Some(crash);
            }
        });
    }

    /// Crashes, now if that has not happened yet, and perhaps again while the database is opened.
    /// Goes on from there.
    fn crash(&mut self) -> Result<(), String> {
        let seed = self.rng.u64(..);
        let caught = {
            let mut watch = self.watch();
            watch.armed = None;
            watch.crash.take()
        };
        let promises = self.round.promises();
        let mut crash =
            caught.unwrap_or_else(|| Crash::new(&self.disk, seed, &promises, "nothing".to_owned()));
        self.fs.clear_hook();
        self.report.faults += self.fs.fault_count();
        self.fs.clear_rules();
        self.round.abandon();
        // A thread in the hook may have made one more crash, of the life that is over.
        self.watch().crash = None;
        self.count(&crash);
        while self.rng.u8(..3) == 0 {
            let Some(again) = self.crash_while_opening(&crash) else { break };
            crash = again;
            self.report.in_openings += 1;
            self.count(&crash);
        }
        let scene = format!("crash before {}, {:?}", crash.op, crash.choices);
        self.read_a_second_time(&crash.disk).map_err(|why| format!("{why}\n{scene}"))?;
        match self.recover(crash.disk, crash.floor, &scene) {
            Ok(lost) => self.report.lost += lost as u64,
            Err((true, why)) if is_refusal(&why, &crash.choices) => {
                self.report.refused += 1;
                let (disk, floor) = crash.killed;
                let lost = self
                    .recover(disk, floor, &format!("{scene}; as if killed"))
                    .map_err(|(_, why)| format!("{why}\n{scene}"))?;
                self.report.lost += lost as u64;
            }
            Err((_, why)) => return Err(format!("{why}\n{scene}")),
        }
        Ok(())
    }

    /// Has RocksDB read the disk, too, at random.
    fn read_a_second_time(&mut self, disk: &CrashFs) -> Result<(), String> {
        let Some((program, one_in)) = &self.parameters.second_reader else { return Ok(()) };
        if !(self.seed + self.report.crashes).is_multiple_of(*one_in) {
            return Ok(());
        }
        let agreed = second_reader::compare(program, disk, Path::new(PATH), self.round.specs())?;
        *match agreed {
            Agreed::Same => &mut self.report.second_readings,
            Agreed::Refused => &mut self.report.second_refusals,
            Agreed::Hole => &mut self.report.holes,
        } += 1;
        Ok(())
    }

    fn count(&mut self, crash: &Crash) {
        self.report.crashes += 1;
        self.report.kills += u64::from(crash.choices.kind == CrashKind::ProcessKill);
    }

    /// Opens a copy of a crashed disk and crashes at one operation of the opening. `None` if the
    /// opening took fewer.
    fn crash_while_opening(&mut self, first: &Crash) -> Option<Crash> {
        let disk = first.disk.crash_clone(&CrashChoices::process_kill());
        let (at, seed) = (self.rng.u64(..90), self.rng.u64(..));
        let found = Arc::new(Mutex::new(None));
        let fs = FaultFs::new(Arc::new(disk.clone()));
        let caught = found.clone();
        let copied = disk.clone();
        fs.on_op(move |op| {
            if op.index == at {
                let choices = choices_of(seed);
                let killed = copied.crash_clone(&CrashChoices::process_kill());
                let crashed = copied.crash_clone(&choices);
                *caught.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some((crashed, choices, killed, op.to_string()));
            }
        });
        let opened = self.round.try_to_open(env_over(fs));
        if opened.is_err_and(|why| is_refusal(&why, &first.choices)) {
            // A right refusal: the disk of a crash on the way would be refused as well.
            return None;
        }
        let (disk, choices, killed, op) = found.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        // Earlier promises still hold; a recovery promises nothing before its end.
        let floor = if choices.kind == CrashKind::PowerLoss { first.safe } else { first.floor };
        let op = format!("{op} while what a crash before {} had left was opened", first.op);
        Some(Crash { disk, choices, floor, safe: first.safe, killed: (killed, first.floor), op })
    }

    fn recover(&mut self, disk: CrashFs, floor: Floor, scene: &str) -> Result<usize, (bool, String)> {
        self.fs = FaultFs::new(Arc::new(disk.clone()));
        self.disk = disk;
        self.look_at_files();
        let env: Env = env_over(self.fs.clone());
        if self.parameters.trouble && self.rng.u8(..4) == 0 {
            self.open_in_trouble(env.clone()).map_err(|why| (true, format!("{why}\n{scene}")))?;
        }
        self.round.recover(env, floor, scene)
    }

    /// Opens on a disk that makes trouble: the opening may be refused, and loses nothing.
    fn open_in_trouble(&mut self, env: Env) -> Result<(), String> {
        let seed = self.rng.u64(..);
        self.fs.set_schedule(FaultSchedule::bad(seed, disk_clock()));
        self.report.not_opened += u64::from(self.round.open_in_trouble(env)?);
        self.report.faults += self.fs.fault_count();
        self.fs.clear_rules();
        Ok(())
    }
}

/// Reduces the failure to the fewest operations that still fail, and says how to see it again.
#[expect(clippy::disallowed_methods, reason = "the clock of the campaign, not of the engine")]
fn shrink(seed: u64, parameters: &HistoryParameters, failure: Failure) -> String {
    let until = Instant::now() + parameters.shrink;
    let mut smallest = (parameters.clone(), failure);
    let fails = |parameters: &HistoryParameters| one(seed, parameters).err().map(|f| (parameters.clone(), f));
    // Operations behind the failure do not matter.
    let end = smallest.1.operation.saturating_add(1).min(parameters.operations);
    let mut size = end / 2;
    while size > 0 && Instant::now() < until {
        let mut from = 0;
        while from < end && Instant::now() < until {
            let mut fewer = smallest.0.clone();
            if !fewer.skip.iter().any(|r| r.start <= from && from + size <= r.end) {
                fewer.skip.push(from..from + size);
                fewer.skip = merged(fewer.skip);
                if let Some(found) = fails(&fewer) {
                    smallest = found;
                }
            }
            from += size;
        }
        size /= 2;
    }
    let (parameters, Failure { operation, why }) = smallest;
    let skip: Vec<String> = parameters.skip.iter().map(|r| format!("{}-{}", r.start, r.end)).collect();
    let skip = if skip.is_empty() { String::new() } else { format!(" --skip {}", skip.join(",")) };
    let (operations, crashes) = (parameters.operations, parameters.crashes);
    let calm = if parameters.trouble { "" } else { " --calm" };
    let reader = parameters.second_reader.as_ref().map_or(String::new(), |(program, one_in)| {
        format!(" --second-reader {} --read-one-in {one_in}", program.display())
    });
    let place = if operation == u64::MAX { String::new() } else { format!(" at operation {operation}") };
    format!(
        "histories: SEED={seed}{place}: {why}\n\
         again: histories --histories 1 --seed {seed} --operations {operations} --crashes {crashes}{calm}{reader}{skip}"
    )
}

/// Joins ranges that touch.
fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|r| r.start);
    let mut out: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match out.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => out.push(range),
        }
    }
    out
}
