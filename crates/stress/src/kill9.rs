//! Kills a process while it writes, on the real disk.
//!
//! In: a number of kills. Out: a [`Kill9Report`], or the batch that was missing after a kill.
//!
//! The child ([`child`]) writes batches from several threads to two families. After each write has
//! returned, the child reports the batch on a pipe. The parent ([`run`]) kills the child (SIGKILL),
//! reads the rest of the pipe, opens the same database and checks its contents. The database must
//! show the batches 1 to N of each thread completely, and no other batch. N is the number of the
//! last reported batch, or one more. The next child continues with the same database.

use esker::internals::base::sync::thread;
use esker::internals::env::{Clock, SystemClock, on_threads, spawn_scoped};
use esker::{ColumnFamilyDescriptor, ColumnFamilyHandle, Db, Options, Result, WriteBatch, WriteOptions};
use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

pub(crate) const FAMILIES: [&str; 2] = ["default", "second"];
/// Number of newest keys that each thread keeps. The threads delete older keys.
pub(crate) const KEPT: u64 = 400;

/// Parameters of a campaign.
#[derive(Clone, Debug)]
pub struct Kill9Parameters<'a> {
    /// The esker-stress binary.
    pub program: &'a Path,
    /// Directory of the database; empty at first.
    pub directory: &'a Path,
    /// Number of kills.
    pub rounds: u32,
    /// Writing threads of the child.
    pub threads: u64,
    /// Longest life of a child, in milliseconds.
    pub max_millis: u64,
    /// Seed of the times at which children are killed.
    pub seed: u64,
    /// Print lines of progress.
    pub verbose: bool,
}

/// Counts of a campaign.
#[derive(Clone, Debug, Default)]
pub struct Kill9Report {
    /// Children killed.
    pub kills: u32,
    /// Kills before the child had acknowledged a batch.
    pub silent: u32,
    /// Batches that were acknowledged.
    pub acknowledged: u64,
    /// Batches that were in the database without an acknowledgement.
    pub unacknowledged: u64,
}

impl fmt::Display for Kill9Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "kill9: {} kills ({} before the first acknowledgement), {} acknowledged batches, all there; {} more were there \
             that had not been acknowledged yet",
            self.kills, self.silent, self.acknowledged, self.unacknowledged
        )
    }
}

/// Runs the campaign: kills a child and checks the database, `rounds` times.
/// # Errors
/// The first batch that is missing or wrong.
pub fn run(parameters: &Kill9Parameters<'_>) -> Result<Kill9Report, String> {
    let mut report = Kill9Report::default();
    let mut rng = fastrand::Rng::with_seed(parameters.seed);
    let mut acknowledged =
        vec![0; usize::try_from(parameters.threads).expect("the number of threads fits into usize")];
    for round in 0..parameters.rounds {
        let millis = rng.u64(1..=parameters.max_millis);
        let before: u64 = acknowledged.iter().sum();
        // On a slow machine, all earlier children may die before they acknowledge a batch. Then the
        // last child must acknowledge one.
        let must_speak = round + 1 == parameters.rounds && report.acknowledged == 0;
        kill_one(parameters, millis, must_speak, &mut acknowledged)
            .map_err(|e| format!("round {round}: {e}"))?;
        let acknowledged_now = acknowledged.iter().sum::<u64>() - before;
        report.kills += 1;
        report.silent += u32::from(acknowledged_now == 0);
        report.acknowledged += acknowledged_now;
        let found = verify(parameters.directory, &acknowledged).map_err(|e| {
            format!("kill9: seed {}, round {round}, killed after {millis} ms: {e}", parameters.seed)
        })?;
        report.unacknowledged += found.iter().sum::<u64>() - acknowledged.iter().sum::<u64>();
        acknowledged = found;
        if parameters.verbose && (round + 1).is_multiple_of(20) {
            eprintln_progress(&report);
        }
    }
    Ok(report)
}

#[expect(clippy::print_stderr, reason = "progress of a long campaign")]
fn eprintln_progress(report: &Kill9Report) {
    eprintln!("{report}");
}

/// Starts a child, kills it after `millis`, and records its acknowledged batches. With
/// `must_speak`, the time begins at the child's first acknowledgement.
fn kill_one(
    parameters: &Kill9Parameters<'_>,
    millis: u64,
    must_speak: bool,
    acknowledged: &mut [u64],
) -> Result<(), String> {
    let mut child = Command::new(parameters.program)
        .arg("kill9-child")
        .arg(parameters.directory)
        .args(["--threads", &parameters.threads.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("{}: {e}", parameters.program.display()))?;
    let pipe = child.stdout.take().expect("standard output is a pipe");
    let (first, has_spoken) = mpsc::channel();
    thread::scope(|scope| {
        let read = || read_acknowledgements(pipe, acknowledged, first);
        let reader = spawn_scoped(scope, "reader", read).map_err(|e| e.to_string());
        // If the reader cannot be started, the child is killed, so that no child stays behind.
        let reader = reader.or_else(|e| kill(&mut child).and(Err(e)))?;
        if must_speak {
            // An error means that the child ended without an acknowledgement. `kill` reports the
            // child's end.
            has_spoken.recv().ok();
        }
        SystemClock.sleep(Duration::from_millis(millis));
        let killed = kill(&mut child);
        reader.join().expect("the reader does not panic")?;
        killed
    })
}

fn kill(child: &mut Child) -> Result<(), String> {
    use std::os::unix::process::ExitStatusExt;
    child.kill().map_err(|e| format!("kill: {e}"))?;
    let status = child.wait().map_err(|e| format!("wait: {e}"))?;
    match status.signal() {
        Some(9) => Ok(()),
        _ => Err(format!("the child ended by itself: {status}")),
    }
}

/// Reads lines "thread number" until the end of the pipe. Sends a message to `first` at the first
/// line.
fn read_acknowledgements(
    pipe: impl std::io::Read,
    acknowledged: &mut [u64],
    first: mpsc::Sender<()>,
) -> Result<(), String> {
    let mut first = Some(first);
    for line in BufReader::new(pipe).lines() {
        let line = line.map_err(|e| format!("the pipe: {e}"))?;
        let mut numbers = line.split(' ').map(|n| n.parse::<u64>().map_err(|e| format!("'{line}': {e}")));
        let mut next = || numbers.next().unwrap_or_else(|| Err(format!("'{line}' is half a line")));
        let (thread, number) = (next()?, next()?);
        acknowledged[usize::try_from(thread).expect("the number of threads fits into usize")] = number;
        if let Some(first) = first.take() {
            first.send(()).ok();
        }
    }
    Ok(())
}

/// Opens the database and compares it with the acknowledged batches. Returns the number of each
/// thread's last batch.
pub(crate) fn verify(directory: &Path, acknowledged: &[u64]) -> Result<Vec<u64>, String> {
    let db = open(directory).map_err(|e| format!("the database does not open: {e}"))?;
    let mut last = Vec::new();
    for (thread, acknowledged) in acknowledged.iter().enumerate() {
        let number = last_number(&db, FAMILIES[0], thread as u64).map_err(|e| e.to_string())?;
        if number < *acknowledged || number > acknowledged + 1 {
            return Err(format!(
                "thread {thread} acknowledged {acknowledged}, {number} is the last one there"
            ));
        }
        last.push(number);
    }
    for family in FAMILIES {
        compare(&db, family, &last)?;
    }
    db.close().map_err(|e| format!("close: {e}"))?;
    Ok(last)
}

pub(crate) fn compare(db: &Db, family: &str, last: &[u64]) -> Result<(), String> {
    let mut expected = std::collections::BTreeMap::new();
    for (thread, &last) in last.iter().enumerate() {
        let thread = thread as u64;
        if last > 0 {
            expected.insert(last_key(thread), last.to_be_bytes().to_vec());
        }
        for number in (last.saturating_sub(KEPT) + 1)..=last {
            expected.insert(key(thread, number), value(thread, number));
        }
    }
    let handle = db.column_family(family).ok_or("a family is gone")?;
    let mut iter = db.iter_cf(&handle).map_err(|e| e.to_string())?;
    let mut found = std::collections::BTreeMap::new();
    iter.seek_to_first();
    while let Some((key, value)) = iter.item() {
        found.insert(key.to_vec(), value.to_vec());
        iter.next();
    }
    iter.status().map_err(|e| format!("family {family}: {e}"))?;
    let differs = |key: &&Vec<u8>| found.get(*key) != expected.get(*key);
    match found.keys().chain(expected.keys()).find(differs) {
        None => Ok(()),
        Some(key) => Err(format!(
            "family {family}, key {}: found {:?} bytes, expected {:?}; threads are at {last:?}",
            key.escape_ascii(),
            found.get(key).map(Vec::len),
            expected.get(key).map(Vec::len)
        )),
    }
}

/// The child: writes until it is killed.
/// # Errors
/// Errors of the database. None is expected, because the disk works.
pub fn child(directory: &Path, threads: u64) -> Result<()> {
    let db = open(directory)?;
    let threads = usize::try_from(threads).unwrap_or(usize::MAX);
    on_threads("writer", threads, |thread| write_forever(&db, thread as u64))?.into_iter().collect()
}

fn write_forever(db: &Db, thread: u64) -> Result<()> {
    let families: Vec<_> = FAMILIES
        .iter()
        .map(|f| db.column_family(f).expect("the database was opened with this family"))
        .collect();
    let mut number = last_number(db, FAMILIES[0], thread)?;
    loop {
        number += 1;
        write(db, &families, thread, number)?;
        let line = format!("{thread} {number}\n");
        let mut out = std::io::stdout().lock();
        if out.write_all(line.as_bytes()).and_then(|()| out.flush()).is_err() {
            return Ok(()); // the parent is gone
        }
    }
}

/// Writes batch `number` of the thread to all `families`.
pub(crate) fn write(db: &Db, families: &[ColumnFamilyHandle], thread: u64, number: u64) -> Result<()> {
    let mut batch = WriteBatch::new();
    for family in families {
        batch.put_cf(family.id(), key(thread, number), value(thread, number))?;
        batch.put_cf(family.id(), last_key(thread), number.to_be_bytes())?;
        if let Some(old) = number.checked_sub(KEPT).filter(|n| *n > 0) {
            batch.delete_cf(family.id(), key(thread, old))?;
        }
    }
    db.write_opt(&WriteOptions::default().sync(number.is_multiple_of(500)), &mut batch)
}

pub(crate) fn open(directory: &Path) -> Result<Db> {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.create_missing_column_families = true;
    options.db.max_total_wal_size = 1 << 20;
    options.db.max_manifest_file_size = 20_000;
    options.db.keep_log_file_num = 5;
    options.cf.write_buffer_size = 200 << 10;
    options.cf.target_file_size_base = 100 << 10;
    options.cf.max_bytes_for_level_base = 300 << 10;
    options.cf.level0_file_num_compaction_trigger = 2;
    let families = FAMILIES.iter().map(|f| ColumnFamilyDescriptor::new(*f, options.cf.clone()));
    Db::open_cf(&options.db, directory, families)
}

pub(crate) fn last_number(db: &Db, family: &str, thread: u64) -> Result<u64> {
    let family = db.column_family(family).expect("the database was opened with this family");
    let bytes = db.get_cf(&family, last_key(thread))?;
    Ok(bytes.and_then(|b| b.as_slice().try_into().ok()).map_or(0, u64::from_be_bytes))
}

pub(crate) fn last_key(thread: u64) -> Vec<u8> {
    format!("last{thread}").into_bytes()
}

pub(crate) fn key(thread: u64, number: u64) -> Vec<u8> {
    format!("key{thread}-{number:012}").into_bytes()
}

pub(crate) fn value(thread: u64, number: u64) -> Vec<u8> {
    let mut value = vec![0; 20 + (number % 200) as usize];
    fastrand::Rng::with_seed(thread << 40 | number).fill(&mut value);
    value
}
