//! Crashes at random points in time on a simulated disk.
//!
//! In: a seed and a number of crash points. Out: a [`CrashReport`], or the first point after which
//! the database was wrong, with the seed of its run.
//!
//! A run opens a database on a [`CrashFs`] below a [`FaultFs`]. Writers, flushes and compactions
//! run. At random file operations a hook of the [`FaultFs`] copies the disk that a crash would
//! leave. Later each of those disks is opened and must hold the state after some prefix of the
//! writes. The prefix is the same for all families, so batches are atomic. It includes the promises
//! at the time of the crash: synced and flushed writes after a power loss, every acknowledged write
//! after the death of the process. Some openings are crashed once more. The next run continues from
//! one of the disks.
//!
//! The seed fixes options, batches and choices. The time of a crash also depends on the scheduling
//! of threads.

mod history;
mod load;

use crate::audit::{self, AuditSubject};
use esker::internals::env::crash::{CrashKind, Tail};
use esker::internals::env::{
    Clock, CrashChoices, CrashFs, Env, FaultFs, FaultOp, FaultSchedule, FileSystem, OpKind,
};
use esker::{Db, Error, ErrorKind, Result};
use esker_testkit::timestamps::TimestampFormat;
use history::{CrashHistory, FamilyContents};
use load::{Floors, Load};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Path of the database on its simulated disk.
const DIR: &str = "/db";
/// Number of successive runs on one database.
const CHAIN: u32 = 6;
/// Most crash points of a run. Their disks are all in memory.
const POINTS_PER_RUN: usize = 60;
/// One crashed disk in this many is audited.
const AUDIT_ONE_IN: u8 = 16;

/// Parameters of a campaign.
#[derive(Clone, Debug)]
pub struct CrashParameters {
    /// Seed of the first run. Later runs have the seeds that follow.
    pub seed: u64,
    /// Least number of crash points to check.
    pub points: u64,
    /// Print lines of progress.
    pub verbose: bool,
    /// Use smaller loads with proportionally more crash points, for simulations, which are slow.
    pub brief: bool,
    /// Largest number of batches of each writer; a smaller number shrinks a failure.
    pub max_batches: u32,
    /// Let the disk be slow, and fail or damage some reads.
    pub trouble: bool,
    /// Encrypt the files.
    #[cfg(feature = "encryption")]
    pub encrypted: bool,
}

/// Counts of a campaign.
#[derive(Clone, Debug, Default)]
pub struct CrashReport {
    /// Databases that ran a load.
    pub runs: u64,
    /// Batches that these databases acknowledged.
    pub batches: u64,
    /// Crash points checked.
    pub points: u64,
    /// Crash points at which the process was killed.
    pub kills: u64,
    /// Crash points within a recovery from an earlier crash.
    pub second_crashes: u64,
    /// Power losses that left the last record of the MANIFEST with its full length and other bytes.
    /// As in RocksDB, the database then does not open: the contents of a MANIFEST are not guessed.
    pub refused: u64,
    /// Batches without a promise that power losses have lost.
    pub lost: u64,
    /// Times that a disk was read while it failed.
    pub in_trouble: u64,
    /// Those of them that gave an error.
    pub errors: u64,
    /// File operations that failed or returned wrong bytes in them.
    pub faults: u64,
    /// A hash of all file operations, in order. Two simulations from one seed have the same hash.
    pub fingerprint: u64,
    /// Number of crash points before each kind of operation.
    pub by_op: BTreeMap<String, u64>,
}

impl fmt::Display for CrashReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "crash: {} points in {} runs ({} kills, the rest power losses; {} during recovery), {} batches, \
             {} unsynced ones lost; {} garbled MANIFESTs refused; every other disk held a prefix with all that was promised; \
             read {} times in trouble, with {} faults and {} errors",
            self.points,
            self.runs,
            self.kills,
            self.second_crashes,
            self.batches,
            self.lost,
            self.refused,
            self.in_trouble,
            self.faults,
            self.errors
        )?;
        let by_op: Vec<String> = self.by_op.iter().map(|(op, n)| format!("{op} {n}")).collect();
        write!(f, "crash points before: {}", by_op.join(", "))
    }
}

/// The disk that a crash left, and the promises at that time.
struct CrashPoint {
    disk: CrashFs,
    choices: CrashChoices,
    /// The newest sequence number that must have survived.
    floor: u64,
    /// The newest sequence number that must survive a power loss before the disk has been opened.
    safe: u64,
    op: String,
    /// In brief loads, the file operations before the crash.
    before: Vec<String>,
}

/// The crash points that a run's hook has collected.
#[derive(Default)]
struct Caught {
    points: Mutex<Vec<CrashPoint>>,
    trace: Mutex<Trace>,
}

/// The file operations of a brief load.
#[derive(Default)]
pub(crate) struct Trace {
    /// A hash of all operations that changed something.
    pub(crate) hash: u64,
    /// The last operations.
    pub(crate) last: VecDeque<String>,
}

/// Number of operations that a failure shows.
const SHOWN: usize = 40;

impl Trace {
    pub(crate) fn add(&mut self, op: &FaultOp) {
        let text = op.to_string();
        self.hash = text.bytes().fold(self.hash, |h, b| (h ^ u64::from(b)).wrapping_mul(PRIME));
        if self.last.len() == SHOWN {
            self.last.pop_front();
        }
        self.last.push_back(text);
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.last.iter().try_for_each(|op| write!(f, "\n  {op}"))
    }
}

/// The disk and the contents from which a run starts.
struct Base {
    disk: CrashFs,
    contents: FamilyContents,
    /// Format of the timestamps in the keys of the last family.
    stamps: Option<TimestampFormat>,
}

/// Checks at least `parameters.points` crash points.
/// # Errors
/// The first mistake, its place, and the seed that repeats it.
pub fn run(parameters: &CrashParameters) -> Result<CrashReport, String> {
    let mut report = CrashReport::default();
    let mut seed = parameters.seed;
    let mut base = None;
    while report.points < parameters.points {
        if report.runs.is_multiple_of(u64::from(CHAIN)) {
            base = None; // so that a chain can be run again from the seed of its first run
        }
        let before = report.points;
        base = run_one(seed, base, parameters, &mut report).map_err(|why| {
            format!("crash: SEED={seed} (chain from {}): {why}", chain_start(parameters, seed))
        })?;
        if parameters.verbose && before / 1000 != report.points / 1000 {
            eprintln_progress(&report, seed);
        }
        seed += 1;
    }
    Ok(report)
}

fn chain_start(parameters: &CrashParameters, seed: u64) -> u64 {
    seed - (seed - parameters.seed) % u64::from(CHAIN)
}

#[expect(clippy::print_stderr, reason = "progress of a long campaign")]
fn eprintln_progress(report: &CrashReport, seed: u64) {
    eprintln!("{} points, {} runs, seed {seed}", report.points, report.runs);
}

fn run_one(
    seed: u64,
    base: Option<Base>,
    parameters: &CrashParameters,
    report: &mut CrashReport,
) -> Result<Option<Base>, String> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let given = base.as_ref().map(|b| (b.contents.len(), b.stamps));
    let place = seed - chain_start(parameters, seed);
    let mut load = Load::random(seed, &mut rng, given, place, parameters.brief);
    load.limit_batches(parameters.max_batches);
    load.trouble = parameters.trouble;
    #[cfg(feature = "encryption")]
    {
        load.encrypted = parameters.encrypted;
    }
    let stamps = load.stamps;
    let base = base.unwrap_or_else(|| Base { disk: CrashFs::new(), contents: load.empty_contents(), stamps });
    let (points, history, trace) = crash_points(&load, base, parameters.brief, &mut rng)?;
    report.runs += 1;
    report.fingerprint = (report.fingerprint ^ trace).wrapping_mul(PRIME);
    report.batches += history.len() as u64;
    let next = rng.usize(..points.len().max(1));
    let mut next_base = None;
    for (i, point) in points.into_iter().enumerate() {
        let before: String = point.before.iter().map(|op| format!("\n  {op}")).collect();
        let scene = format!("{load}{before}\ncrash before {}, {:?}", point.op, point.choices);
        *report.by_op.entry(point.op.split(' ').next().unwrap_or_default().to_owned()).or_default() += 1;
        let contents =
            check(&load, &point, &history, &mut rng, report).map_err(|why| format!("{why}\n{scene}"))?;
        if let Some(contents) = contents.filter(|_| i == next) {
            // The opening has made the recovered state durable: the next crash must leave it.
            let disk = point.disk.crash_clone(&CrashChoices::random(rng.u64(..)));
            next_base = Some(Base { disk, contents, stamps });
        }
        if report.points >= parameters.points {
            break;
        }
    }
    Ok(next_base)
}

pub(crate) const PRIME: u64 = 0x0100_0000_01b3;

/// Runs the load. Returns the disks that crashes would have left, the writes, and a hash of the
/// file operations.
fn crash_points(
    load: &Load,
    base: Base,
    brief: bool,
    rng: &mut fastrand::Rng,
) -> Result<(Vec<CrashPoint>, CrashHistory, u64), String> {
    let floors = Arc::new(Floors::default());
    let caught = Arc::new(Caught::default());
    let fs = FaultFs::new(Arc::new(base.disk.clone()));
    if load.trouble && rng.bool() {
        fs.set_schedule(FaultSchedule::slow(rng.u64(..), disk_clock()));
    }
    fs.on_op(catcher(base.disk.clone(), floors.clone(), caught.clone(), brief, rng.fork()));
    let history = load.run(load.env_over(fs.clone()), base.contents, &floors, rng)?;
    fs.clear_hook();
    let points =
        std::mem::take(&mut *caught.points.lock().expect("no writer panicked while it held this lock"));
    let trace = caught.trace.lock().expect("no writer panicked while it held this lock").hash;
    Ok((points, history, trace))
}

/// A hook that copies the crashed disk at random operations, and less often at frequent kinds.
fn catcher(
    disk: CrashFs,
    floors: Arc<Floors>,
    caught: Arc<Caught>,
    brief: bool,
    rng: fastrand::Rng,
) -> impl Fn(&FaultOp) + Send + Sync + 'static {
    let rng = Mutex::new(rng);
    move |op| {
        let name = op.path.file_name().unwrap_or_default().to_string_lossy();
        let one_in = match op.kind {
            _ if name.starts_with("LOG") => return,
            OpKind::Read | OpKind::Stat | OpKind::List | OpKind::Open => return,
            OpKind::Append | OpKind::Flush | OpKind::RangeSync if name.ends_with(".log") => 120,
            OpKind::Append | OpKind::Flush if name.ends_with(".sst") => 60,
            // MANIFEST records are few, and each changes a lot.
            OpKind::Append | OpKind::Sync if name.starts_with("MANIFEST") => 4,
            _ => 12,
        };
        if brief {
            caught.trace.lock().expect("no hook panics while it holds this lock").add(op);
        }
        let seed = {
            let mut rng = rng.lock().expect("no hook panics while it holds this lock");
            if rng.u32(..if brief { (one_in / 5_u32).max(2) } else { one_in }) > 0 {
                return;
            }
            rng.u64(..)
        };
        let choices = choices_of(seed);
        // The promises are read before the disk is copied, because later ones need not be on it.
        let (floor, safe) = (floors.of(choices.kind), floors.of(CrashKind::PowerLoss));
        let disk = disk.crash_clone(&choices);
        let before = caught
            .trace
            .lock()
            .expect("no hook panics while it holds this lock")
            .last
            .iter()
            .cloned()
            .collect();
        let mut points = caught.points.lock().expect("no hook panics while it holds this lock");
        if points.len() < POINTS_PER_RUN {
            points.push(CrashPoint { disk, choices, floor, safe, op: op.to_string(), before });
        }
    }
}

pub(crate) fn choices_of(seed: u64) -> CrashChoices {
    match seed % 10 {
        0..3 => CrashChoices::process_kill(),
        3 => CrashChoices::lose_unsynced(),
        4 => CrashChoices::keep_flushed(),
        _ => CrashChoices::random(seed),
    }
}

/// Opens the disk of a crash point and compares the contents. Crashes some openings first. Returns
/// the contents found; `None` if the opening is rightly refused.
fn check(
    load: &Load,
    point: &CrashPoint,
    history: &CrashHistory,
    rng: &mut fastrand::Rng,
    report: &mut CrashReport,
) -> Result<Option<FamilyContents>, String> {
    if rng.u32(..8) == 0
        && let Some(second) = crash_while_opening(load, point, rng)
    {
        report.second_crashes += 1;
        check_once(load, &second, history, rng, report).map_err(|why| {
            format!("{why}\nsecond crash before {}, {:?}, during recovery", second.op, second.choices)
        })?;
    }
    check_once(load, point, history, rng, report)
}

/// Opens a copy of the point's disk and crashes it at one operation of the opening. `None` if the
/// opening took fewer operations, or is rightly refused.
fn crash_while_opening(load: &Load, point: &CrashPoint, rng: &mut fastrand::Rng) -> Option<CrashPoint> {
    let copy = point.disk.crash_clone(&CrashChoices::process_kill());
    let (at, choices) = (rng.u64(..120), choices_of(rng.u64(..)));
    let found = Arc::new(Mutex::new(None));
    let fs = FaultFs::new(Arc::new(copy.clone()));
    let caught = found.clone();
    fs.on_op(move |op| {
        if op.index == at {
            *caught.lock().expect("no hook panics while it holds this lock") =
                Some((copy.crash_clone(&choices), op.to_string()));
        }
    });
    // If the opening fails, the check of the point itself reports the reason. A refusal that is
    // right stays right after another crash.
    let opened = load.open(load.env_over(fs), rng);
    if opened.is_err_and(|e| is_refusal(&format!("open: {e}"), &point.choices)) {
        return None;
    }
    let (disk, op) = found.lock().expect("no hook panics while it holds this lock").take()?;
    // A killed process leaves bytes that it had not synced. The second crash may lose them until an
    // opening has finished.
    let floor = if choices.kind == CrashKind::PowerLoss { point.safe } else { point.floor };
    Some(CrashPoint { disk, choices, floor, safe: point.safe, op, before: point.before.clone() })
}

fn check_once(
    load: &Load,
    point: &CrashPoint,
    history: &CrashHistory,
    rng: &mut fastrand::Rng,
    report: &mut CrashReport,
) -> Result<Option<FamilyContents>, String> {
    report.points += 1;
    report.kills += u64::from(point.choices.kind == CrashKind::ProcessKill);
    let untouched = point.disk.crash_clone(&CrashChoices::process_kill());
    let in_trouble = match load.trouble && rng.u8(..4) == 0 {
        true => read_in_trouble(load, point, history, rng, report),
        false => Ok(()),
    };
    let checked = in_trouble.and_then(|()| open_and_compare(load, point, history, rng));
    match checked {
        Ok((contents, lost)) => {
            report.lost += lost;
            Ok(Some(contents))
        }
        Err(why) if is_refusal(&why, &point.choices) => {
            report.refused += 1;
            Ok(None)
        }
        Err(why) => Err(format!("{why}{}", dump(&untouched))),
    }
}

/// Whether the opening is refused because the last record of the MANIFEST has its full length and
/// other bytes. RocksDB refuses it too.
pub(crate) fn is_refusal(why: &str, choices: &CrashChoices) -> bool {
    let is_garbled = match choices.tail {
        Tail::Cut => false,
        // If zeros follow whole records, the log ends there.
        Tail::Zeros => choices.tear,
        Tail::Garbage | Tail::Pages | Tail::Sectors => true,
    };
    is_garbled && why.contains("open: Corruption") && why.contains("MANIFEST-")
}

/// Whether a failing disk may be the cause of an error: the error names a file with wrong bytes.
pub(crate) fn is_of_the_disk(error: &Error) -> bool {
    let text = error.to_string();
    match error.kind() {
        ErrorKind::IoError => text.contains("injected"),
        ErrorKind::Corruption => text.contains(".sst") || text.contains(".blob"),
        // The head of a blob file has no checksum.
        ErrorKind::NotSupported => text.contains(".blob"),
        _ => false,
    }
}

/// Opens and reads on a failing disk. Every answer must be right or an error of the disk.
fn read_in_trouble(
    load: &Load,
    point: &CrashPoint,
    history: &CrashHistory,
    rng: &mut fastrand::Rng,
    report: &mut CrashReport,
) -> Result<(), String> {
    let fs = FaultFs::new(Arc::new(point.disk.clone()));
    fs.set_schedule(FaultSchedule::bad(rng.u64(..), disk_clock()));
    let read = load.open(load.env_over(fs.clone()), rng).and_then(|db| read_all(&db, load));
    report.in_trouble += 1;
    report.faults += fs.fault_count();
    match read {
        Ok(found) => history.prefix_of(&found).and_then(|prefix| history.compare(prefix, &found)),
        Err(error) if is_of_the_disk(&error) => {
            report.errors += 1;
            Ok(())
        }
        // The crash is the cause, so an opening without faults fails as well.
        Err(error) if is_refusal(&format!("open: {error}"), &point.choices) => Ok(()),
        Err(error) => Err(format!("on a disk in trouble: {error}")),
    }
}

fn open_and_compare(
    load: &Load,
    point: &CrashPoint,
    history: &CrashHistory,
    rng: &mut fastrand::Rng,
) -> Result<(FamilyContents, u64), String> {
    let db = load
        .open(load.env_over(point.disk.clone()), rng)
        .map_err(|e| format!("the database does not open: {e}"))?;
    let found = read_all(&db, load).map_err(|e| format!("the database cannot be read: {e}"))?;
    let prefix = history.prefix_of(&found)?;
    let (survived, promised) = (history.sequence_of(prefix), point.floor);
    if survived < promised {
        return Err(format!("promised up to sequence {promised}, found up to {survived}"));
    }
    history.compare(prefix, &found)?;
    compare_older(&db, load, history, prefix, rng)?;
    if rng.u8(..AUDIT_ONE_IN) == 0 {
        audit_opened(&db, load, &point.disk)?;
    }
    db.close().map_err(|e| format!("close: {e}"))?;
    Ok((found, (history.len() - prefix) as u64))
}

fn audit_opened(db: &Db, load: &Load, disk: &CrashFs) -> Result<(), String> {
    let handles: Vec<_> = load.family_names().iter().filter_map(|name| db.column_family(name)).collect();
    let orders: Vec<_> = (0..handles.len()).map(|family| load.comparator(family)).collect();
    let families = handles.iter().zip(&orders).collect();
    let env = load.env_over(disk.clone());
    let subject = AuditSubject {
        db,
        fs: &*env.fs,
        path: Path::new(DIR),
        families,
        may_be_left: false,
        all_garbage_is_counted: true,
    };
    audit::audit(&subject, clock().as_ref()).map(drop)
}

/// These files, encrypted under a fixed key.
#[cfg(feature = "encryption")]
fn encrypted(fs: impl FileSystem + 'static) -> esker::encryption::EncryptedFs {
    use esker::encryption::{EncryptedFs, EncryptionPolicy, KeyCallback, MasterKey};
    let provider = KeyCallback(|| Ok(vec![MasterKey::from_bytes([7; 32])]));
    EncryptedFs::new(Arc::new(fs), Arc::new(provider), EncryptionPolicy::default()).expect("there is a key")
}

impl Load {
    /// An environment with these files, which are encrypted if the load says so.
    fn env_over(&self, fs: impl FileSystem + 'static) -> Env {
        #[cfg(feature = "encryption")]
        if self.encrypted {
            return env_over(encrypted(fs));
        }
        env_over(fs)
    }
}

/// An environment with these files and the clock of the machine, which may be simulated.
pub(crate) fn env_over(fs: impl FileSystem + 'static) -> Env {
    Env::new(Arc::new(fs), clock())
}

/// The clock of a slow disk. Unless time is simulated, its delays cost no time.
pub(crate) fn disk_clock() -> Arc<dyn Clock> {
    if cfg!(shuttle) { clock() } else { Arc::new(esker::internals::env::MockClock::new(0)) }
}

/// The clock of the machine.
fn clock() -> Arc<dyn Clock> {
    #[cfg(shuttle)]
    let clock = esker::internals::env::SimulatedClock { began_micros: 1_800_000_000_000_000 };
    #[cfg(not(shuttle))]
    let clock = esker::internals::env::SystemClock;
    Arc::new(clock)
}

fn read_all(db: &Db, load: &Load) -> Result<FamilyContents> {
    let mut contents = FamilyContents::new();
    for family in 0..load.family_names().len() {
        contents.push(read_family(db, load, family, u64::MAX)?);
    }
    Ok(contents)
}

/// Contents of a family. If its keys have timestamps, at this timestamp.
fn read_family(db: &Db, load: &Load, family: usize, time: u64) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let name = &load.family_names()[family];
    let handle = db.column_family(name).ok_or_else(|| Error::corruption(format!("no family {name}")))?;
    let mut iter = db.iter_opt(load.reading_at(family, time), &handle)?;
    let mut contents = BTreeMap::new();
    iter.seek_to_first();
    while let Some((key, value)) = iter.item() {
        contents.insert(key.to_vec(), value.to_vec());
        iter.next();
    }
    iter.status()?;
    Ok(contents)
}

/// Compares a family at older timestamps with the state after earlier batches.
fn compare_older(
    db: &Db,
    load: &Load,
    history: &CrashHistory,
    prefix: usize,
    rng: &mut fastrand::Rng,
) -> Result<(), String> {
    if load.stamps.is_none() || prefix == 0 {
        return Ok(());
    }
    for _ in 0..3 {
        let older = rng.usize(1..=prefix);
        let expected = history.contents_after(older);
        let (family, time) = (expected.len() - 1, history.time_of(older));
        let handle = db.column_family(&load.family_names()[family]).ok_or("no family with timestamps")?;
        let low = db.full_history_ts_low(&handle).map_err(|e| format!("full_history_ts_low: {e}"))?;
        if load.stamps.is_some_and(|stamps| !low.is_empty() && stamps.time(&low) > time) {
            continue;
        }
        let found = read_family(db, load, family, time).map_err(|e| format!("at timestamp {time}: {e}"))?;
        if found != expected[family] {
            let (found, expected) = (found.len(), expected[family].len());
            return Err(format!(
                "at timestamp {time} of {older} batches: {found} keys, other than the {expected}"
            ));
        }
    }
    Ok(())
}

/// Writes the files of a disk to a temporary directory if `KEEP_TEMP` is set. Returns its path.
fn dump(disk: &CrashFs) -> String {
    use esker::internals::env::{FileSystem, PosixFileSystem};
    if std::env::var_os("KEEP_TEMP").is_none() {
        return String::new();
    }
    let to = std::env::temp_dir().join(format!("esker-crash-{}", std::process::id()));
    let copy = || -> Result<()> {
        PosixFileSystem.create_dir_if_missing(&to)?;
        for name in disk.children(Path::new(DIR))? {
            let path = Path::new(DIR).join(&name);
            let mut bytes =
                vec![0; usize::try_from(disk.file_size(&path)?).expect("a file in memory fits into usize")];
            let n = disk.new_sequential_file(&path)?.read(&mut bytes)?;
            let mut file = PosixFileSystem.new_writable_file(&to.join(&name))?;
            file.append(&bytes[..n])?;
            file.close()?;
        }
        Ok(())
    };
    match copy() {
        Ok(()) => format!("\nthe disk is in {}", to.display()),
        Err(e) => format!("\nthe disk could not be written to {}: {e}", to.display()),
    }
}
