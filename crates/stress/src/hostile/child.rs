//! The child processes of the campaign: a writer, a verifier, and openers beside the writer.
//!
//! In: a directory. Out: the results of verifier and openers, and the writer's lines on standard
//! output:
//!
//!   acknowledged THREAD NUMBER      this batch of the thread was written
//!   error THREAD MESSAGE            a call failed; outside of writers, THREAD is the call's name
//!   wrong MESSAGE                   an answer was wrong
//!
//! The batches are those of the campaign `kill9`.

#![allow(clippy::disallowed_methods, reason = "real threads and files are what is used")]

use crate::kill9::{self, FAMILIES, KEPT};
use esker::internals::base::sync::atomic::{AtomicBool, Ordering};
use esker::internals::env::forked::fork;
use esker::internals::env::{Clock, SystemClock};
use esker::{ColumnFamilyDescriptor, ColumnFamilyHandle, Db, DbOptions, OpenMode, Options, SubCode};
use std::io::{Read, Write};
use std::path::Path;
use std::thread::{Builder, Scope};
use std::time::Duration;

/// Time between two attempts at a call that fails.
const PAUSE: Duration = Duration::from_millis(50);
/// Failed writes in a row before `resume` is called.
const BY_ITSELF: u32 = 40;

/// Parameters of a child.
#[derive(Clone, Debug)]
pub struct ChildParameters<'a> {
    /// The database's directory.
    pub directory: &'a Path,
    /// Writing threads.
    pub threads: u64,
    /// Fork repeatedly. The forked children exit normally.
    pub forks: bool,
}

fn report(line: std::fmt::Arguments<'_>) {
    // One call writes the whole line, so that threads do not mix theirs. Without a driver the line
    // is lost.
    let text = format!("{line}\n");
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).ok();
}

/// Writes until standard input is closed, then closes the database. Reports each failed call. Tries
/// failed openings again, and failed writes that are not in the database.
/// # Errors
/// The error of `close`.
pub fn child(parameters: &ChildParameters<'_>) -> Result<(), String> {
    let stop = AtomicBool::new(false);
    let db = loop {
        match kill9::open(parameters.directory) {
            Ok(db) => break db,
            Err(e) => report(format_args!("error open {e}")),
        }
        SystemClock.sleep(PAUSE);
    };
    std::thread::scope(|scope| {
        for thread in 0..parameters.threads {
            start_writer(scope, &db, thread, &stop);
        }
        if parameters.forks {
            let (db, stop) = (&db, &stop);
            while let Err(e) = Builder::new().spawn_scoped(scope, move || fork_again_and_again(db, stop)) {
                report(format_args!("error forks {e}"));
                SystemClock.sleep(PAUSE);
            }
        }
        let mut nothing = Vec::new();
        std::io::stdin().read_to_end(&mut nothing).ok();
        stop.store(true, Ordering::SeqCst);
    });
    db.close().map_err(|e| format!("error close {e}"))
}

/// Starts writer `thread`. As long as the system refuses a thread, the calling thread writes in its
/// place.
fn start_writer<'scope>(
    scope: &'scope Scope<'scope, '_>,
    db: &'scope Db,
    thread: u64,
    stop: &'scope AtomicBool,
) {
    loop {
        let run = move || Writer::new(db, thread).run(stop);
        match Builder::new().spawn_scoped(scope, run) {
            Ok(_) => return,
            Err(e) => report(format_args!("error {thread} no thread: {e}")),
        }
        let mut writer = Writer::new(db, thread);
        if let Some(number) = writer.read_number(stop) {
            writer.number = number;
            writer.write_next(&mut 0, stop);
        }
        SystemClock.sleep(PAUSE);
    }
}

/// Forks repeatedly. The forked children hold the database, too; neither their calls nor their ends
/// may change anything.
fn fork_again_and_again(db: &Db, stop: &AtomicBool) {
    while !stop.load(Ordering::SeqCst) {
        let handle = db.clone();
        let ended = fork(move || {
            SystemClock.sleep(PAUSE);
            let refused = handle.put("of a child", "").is_err() && handle.get("of a child").is_err();
            drop(handle);
            u8::from(!refused)
        });
        match ended.map(|mut forked| forked.wait(Duration::from_secs(60))) {
            Ok(Some(0)) => {}
            Ok(code) => report(format_args!("wrong a forked child ended with {code:?}")),
            Err(e) => report(format_args!("error fork {e}")),
        }
    }
}

struct Writer<'a> {
    db: &'a Db,
    thread: u64,
    families: Vec<ColumnFamilyHandle>,
    number: u64,
}

impl Writer<'_> {
    fn new(db: &Db, thread: u64) -> Writer<'_> {
        let families = FAMILIES
            .iter()
            .map(|name| db.column_family(name).expect("the database was opened with this family"))
            .collect();
        Writer { db, thread, families, number: 0 }
    }

    fn error(&self, what: &str, e: &esker::Error) {
        report(format_args!("error {} {what}: {e}", self.thread));
    }

    /// Reads the number of the thread's last batch, and repeats the read until it succeeds. `None`
    /// if `stop` was set.
    fn read_number(&self, stop: &AtomicBool) -> Option<u64> {
        while !stop.load(Ordering::SeqCst) {
            match kill9::last_number(self.db, FAMILIES[0], self.thread) {
                Ok(number) => return Some(number),
                Err(e) => self.error("get", &e),
            }
            SystemClock.sleep(PAUSE);
        }
        None
    }

    fn run(&mut self, stop: &AtomicBool) {
        let Some(number) = self.read_number(stop) else { return };
        self.number = number;
        let mut failures = 0;
        while !stop.load(Ordering::SeqCst) {
            self.write_next(&mut failures, stop);
            if self.number.is_multiple_of(20) {
                self.look_around();
            }
        }
    }

    fn write_next(&mut self, failures: &mut u32, stop: &AtomicBool) {
        match kill9::write(self.db, &self.families, self.thread, self.number + 1) {
            Ok(()) => {
                (self.number, *failures) = (self.number + 1, 0);
                report(format_args!("acknowledged {} {}", self.thread, self.number));
            }
            Err(e) => {
                self.error("write", &e);
                *failures += 1;
                self.recover(*failures, stop);
            }
        }
    }

    /// After a failed write: waits, and reads whether the write is there. After each `BY_ITSELF`
    /// failures in a row, calls `resume` before the read.
    fn recover(&mut self, failures: u32, stop: &AtomicBool) {
        SystemClock.sleep(PAUSE);
        if failures.is_multiple_of(BY_ITSELF)
            && let Err(e) = self.db.resume()
        {
            self.error("resume", &e);
        }
        match self.read_number(stop) {
            Some(found) if found == self.number + 1 => self.number = found,
            Some(found) if found != self.number => {
                let (thread, number) = (self.thread, self.number);
                report(format_args!("wrong thread {thread} wrote {number} and finds {found}"));
            }
            _ => {}
        }
    }

    /// Reads some of the thread's batches. Also reads the file LOCK, as a program that copies the
    /// directory does.
    fn look_around(&self) {
        std::fs::read(self.db.path().join("LOCK")).ok();
        for number in (self.number.saturating_sub(KEPT) + 1..=self.number).step_by(37) {
            for family in &self.families {
                match self.db.get_cf(family, kill9::key(self.thread, number)) {
                    Ok(value) if value == Some(kill9::value(self.thread, number)) => {}
                    Ok(value) => {
                        let (thread, bytes) = (self.thread, value.map(|value| value.len()));
                        let family = family.name();
                        report(format_args!(
                            "wrong thread {thread}, batch {number}, '{family}': {bytes:?} bytes"
                        ));
                    }
                    Err(e) => self.error("get", &e),
                }
            }
        }
    }
}

/// Opens the database for writing, and compares it with the acknowledged batches. Gives each
/// thread's last batch.
/// # Errors
/// The first batch that is missing or wrong.
pub fn verify(directory: &Path, acknowledged: &[u64]) -> Result<Vec<u64>, String> {
    kill9::verify(directory, acknowledged)
}

/// Opens the database beside its writer. An opening for writing must be refused; one for reading
/// must show each thread's batches without a gap.
/// # Errors
/// The unexpected outcome.
pub fn open_beside(directory: &Path, for_writing: bool) -> Result<(), String> {
    if for_writing {
        return match kill9::open(directory) {
            Ok(_) => Err("not expected: a second process may write".to_owned()),
            Err(e) if e.to_string().contains("LOCK") => Ok(()),
            Err(e) => Err(format!("not expected: {e}")),
        };
    }
    let options = Options::default();
    let families = FAMILIES.iter().map(|name| ColumnFamilyDescriptor::new(*name, options.cf.clone()));
    let db = Db::open_with(&DbOptions::default(), directory, families, OpenMode::ReadOnly)
        .map_err(|e| format!("not expected: {e}"))?;
    for thread in 0..super::THREADS {
        let last = match kill9::last_number(&db, FAMILIES[0], thread) {
            Err(e) if e.subcode() == SubCode::StaleFile => return Ok(()),
            last => last.map_err(|e| format!("not expected: {e}"))?,
        };
        for number in last.saturating_sub(KEPT) + 1..=last {
            let family = db.column_family(FAMILIES[1]).expect("the database was opened with this family");
            let value = db.get_cf(&family, kill9::key(thread, number));
            match value {
                Ok(value) if value == Some(kill9::value(thread, number)) => {}
                // The writer may delete files that the reader has not opened.
                Err(e) if e.subcode() == SubCode::StaleFile => return Ok(()),
                other => {
                    let bytes = other.map(|value| value.map(|value| value.len()));
                    return Err(format!(
                        "not expected: thread {thread}, batch {number} of {last}: {bytes:?}"
                    ));
                }
            }
        }
    }
    Ok(())
}
