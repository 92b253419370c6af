//! A file system that fails on command, counts its operations, and can list them.
//!
//! In: any file system, and rules. Out: the same file system, with faults where a rule applies. The
//! n-th operation of certain kinds on certain files fails, writes part of its data, reads a flipped
//! bit, or does nothing and claims success. The disk can be full after a number of bytes.
//! Alternatively a [`FaultSchedule`] decides: faults of all kinds that come and go by a seed, with
//! slow operations and misdirected reads. Without rules and schedule it passes all calls on.
//!
//! Every operation is counted, shown to the hook, and listed if the list is on. A rule and the file
//! system below see it later. The hook of a crash test clones a [`crate::crash::CrashFs`] below at
//! each operation.
//!
//! Invariants
//!  1. Operations are numbered from 0 without gaps; with one thread above, the same calls give the
//!     same numbers.
//!  2. Of several rules that apply, the first added acts; all of them count the operation.
//!  3. A short append has written and flushed its part to the file below.

mod file;
mod op;
mod rule;
mod schedule;

pub use op::{FaultOp, OpKind};
pub use rule::FaultRule;
pub use schedule::FaultSchedule;

use crate::fs::{Directory, FileLock, FileSystem, RandomAccessFile, SequentialFile, WritableFile};
use esker_base::sync::{Arc, Mutex};
use esker_base::{Error, Result};
use file::{FaultDirectory, FaultRandomAccessFile, FaultSequentialFile, FaultWritableFile};
use rule::Action;
use schedule::Forecast;
use std::fmt;
use std::path::{Path, PathBuf};

type Hook = Arc<dyn Fn(&FaultOp) + Send + Sync>;

/// Wraps a file system. Cloning shares rules, counters and list.
#[derive(Clone, Debug)]
pub struct FaultFs {
    shared: Arc<Shared>,
}

struct Shared {
    inner: Arc<dyn FileSystem>,
    state: Mutex<State>,
}

struct State {
    rules: Vec<FaultRule>,
    ops: u64,
    bytes: u64,
    by_kind: [u64; OpKind::ALL.len()],
    faults: u64,
    list: Option<Vec<FaultOp>>,
    space_left: Option<u64>,
    schedule: Option<FaultSchedule>,
    hook: Option<Hook>,
    rng: fastrand::Rng,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("FaultFs").field("inner", &self.inner).field("ops", &state.ops).finish_non_exhaustive()
    }
}

/// A rule's decision about an operation.
enum Verdict {
    Go,
    Fail(Error),
    /// Append this many bytes, then fail with the error.
    Short(usize, Error),
    /// Flip a bit of the bytes read. The number selects the bit.
    Flip(u64),
    /// The schedule decides about the bytes that were read.
    Spoil,
    /// Do nothing and succeed.
    Skip,
}

impl FaultFs {
    /// `inner`, with no rules.
    pub fn new(inner: Arc<dyn FileSystem>) -> FaultFs {
        FaultFs::with_seed(inner, 0)
    }

    /// Wraps `inner`. `seed` determines details that rules leave open: the flipped bit, the length
    /// of a short append.
    pub fn with_seed(inner: Arc<dyn FileSystem>, seed: u64) -> FaultFs {
        let state = State {
            rules: Vec::new(),
            ops: 0,
            bytes: 0,
            by_kind: [0; OpKind::ALL.len()],
            faults: 0,
            list: None,
            space_left: None,
            schedule: None,
            hook: None,
            rng: fastrand::Rng::with_seed(seed),
        };
        FaultFs { shared: Arc::new(Shared { inner, state: Mutex::new(state) }) }
    }

    /// The wrapped file system.
    pub fn inner(&self) -> &Arc<dyn FileSystem> {
        &self.shared.inner
    }

    /// Adds a rule. Its count starts now.
    pub fn add_rule(&self, rule: FaultRule) {
        self.shared.state.lock().rules.push(rule);
    }

    /// Removes all rules and the schedule; the disk has space again.
    pub fn clear_rules(&self) {
        let mut state = self.shared.state.lock();
        state.rules.clear();
        state.space_left = None;
        state.schedule = None;
    }

    /// Sets the schedule.
    pub fn set_schedule(&self, schedule: FaultSchedule) {
        self.shared.state.lock().schedule = Some(schedule);
    }

    /// Fills the disk after `bytes` more appended bytes. The append that reaches the limit writes
    /// the part that fits, then appends fail with sub-code `NoSpace`. `None` gives the disk space
    /// again. Deleting files frees nothing.
    pub fn no_space_after(&self, bytes: Option<u64>) {
        self.shared.state.lock().space_left = bytes;
    }

    /// Operations so far.
    pub fn op_count(&self) -> u64 {
        self.shared.state.lock().ops
    }

    /// Operations of this kind so far.
    pub fn op_count_of(&self, kind: OpKind) -> u64 {
        self.shared.state.lock().by_kind[kind as usize]
    }

    /// Bytes that reads and appends have requested so far.
    pub fn byte_count(&self) -> u64 {
        self.shared.state.lock().bytes
    }

    /// Number of times that a rule, the full disk or the schedule has acted; slow operations are
    /// not counted.
    pub fn fault_count(&self) -> u64 {
        self.shared.state.lock().faults
    }

    /// Starts a new list of operations, or turns the list off.
    pub fn list_ops(&self, on: bool) {
        self.shared.state.lock().list = on.then(Vec::new);
    }

    /// Takes the listed operations out of the list.
    pub fn take_ops(&self) -> Vec<FaultOp> {
        self.shared.state.lock().list.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Sets a hook that is called with each operation before it takes effect, on the calling
    /// thread. This file system holds no lock during the call; its caller may hold some.
    pub fn on_op(&self, hook: impl Fn(&FaultOp) + Send + Sync + 'static) {
        self.shared.state.lock().hook = Some(Arc::new(hook));
    }

    /// Removes the hook.
    pub fn clear_hook(&self) {
        self.shared.state.lock().hook = None;
    }
}

impl Shared {
    /// Counts, shows and lists an operation. Returns the decision of the rules.
    fn begin(&self, kind: OpKind, path: &Path, offset: Option<u64>, bytes: usize) -> Verdict {
        let mut state = self.state.lock();
        let index = state.ops;
        state.ops += 1;
        state.by_kind[kind as usize] += 1;
        state.bytes += if matches!(kind, OpKind::Read | OpKind::Append) { bytes as u64 } else { 0 };
        if let Some(hook) = state.hook.clone() {
            drop(state);
            hook(&FaultOp { index, kind, path: path.to_owned(), offset, bytes: bytes as u64, fault: false });
            state = self.state.lock();
        }
        if let Some((delay, clock)) = state.schedule.as_mut().and_then(FaultSchedule::delay) {
            drop(state);
            clock.sleep(delay);
            state = self.state.lock();
        }
        let verdict = state.verdict(index, kind, path, offset, bytes);
        let fault = !matches!(verdict, Verdict::Go | Verdict::Spoil);
        state.faults += u64::from(fault);
        if let Some(list) = &mut state.list {
            list.push(FaultOp { index, kind, path: path.to_owned(), offset, bytes: bytes as u64, fault });
        }
        verdict
    }

    /// For operations that cannot be done in part: fails, or returns whether to carry out the
    /// operation.
    fn check(&self, kind: OpKind, path: &Path) -> Result<bool> {
        match self.begin(kind, path, None, 0) {
            Verdict::Fail(e) | Verdict::Short(_, e) => Err(e),
            Verdict::Skip => Ok(false),
            Verdict::Go | Verdict::Flip(_) | Verdict::Spoil => Ok(true),
        }
    }

    /// Lets the schedule change the bytes read at `offset`.
    fn spoil(&self, path: &Path, offset: u64, read: &mut [u8], again: &mut schedule::ReadAgain<'_>) {
        let mut state = self.state.lock();
        let spoilt = state.schedule.as_mut().is_some_and(|w| w.spoil(path, offset, read, again));
        state.faults += u64::from(spoilt);
    }

    /// Records the deletion of a file of this many bytes.
    fn freed(&self, bytes: u64) {
        if let Some(schedule) = &mut self.state.lock().schedule {
            schedule.freed(bytes);
        }
    }
}

impl State {
    fn verdict(
        &mut self,
        index: u64,
        kind: OpKind,
        path: &Path,
        offset: Option<u64>,
        bytes: usize,
    ) -> Verdict {
        let mut acting = None;
        for rule in &mut self.rules {
            if rule.counts(kind, path) && acting.is_none() {
                acting = Some((rule.action.clone(), rule.error(index, kind, path, offset)));
            }
        }
        match acting {
            Some((Action::Fail, error)) => return Verdict::Fail(error),
            Some((Action::ShortWrite(keep), error)) => {
                let keep = keep.unwrap_or_else(|| self.rng.usize(0..bytes.max(1)));
                return Verdict::Short(keep.min(bytes), error);
            }
            Some((Action::BitFlip, _)) => return Verdict::Flip(self.rng.u64(..)),
            Some((Action::Skip, _)) => return Verdict::Skip,
            None => {}
        }
        match &mut self.space_left {
            Some(left) if kind == OpKind::Append => {
                let fits = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes);
                *left -= fits as u64;
                if fits == bytes {
                    return Verdict::Go;
                }
                return Verdict::Short(fits, rule::injected(index, kind, path, offset, libc::ENOSPC));
            }
            _ => {}
        }
        let Some(schedule) = &mut self.schedule else { return Verdict::Go };
        match schedule.forecast(index, kind, path, offset, bytes) {
            Forecast::Fail(error) => Verdict::Fail(error),
            Forecast::Short(keep, error) => Verdict::Short(keep, error),
            Forecast::Fair if kind == OpKind::Read && schedule.spoils() => Verdict::Spoil,
            Forecast::Fair => Verdict::Go,
        }
    }
}

/// The error for a skipped operation that would have to return a result.
#[cold]
fn cannot_skip(kind: OpKind) -> Error {
    Error::invalid_argument(format!("a fault rule cannot skip {kind}: it has a result"))
}

impl FileSystem for FaultFs {
    fn new_sequential_file(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        self.open(OpKind::Open, path)?;
        let inner = self.shared.inner.new_sequential_file(path)?;
        Ok(Box::new(FaultSequentialFile::new(inner, Arc::clone(&self.shared), path)))
    }

    fn new_random_access_file(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        self.open(OpKind::Open, path)?;
        let inner = self.shared.inner.new_random_access_file(path)?;
        Ok(Arc::new(FaultRandomAccessFile::new(inner, Arc::clone(&self.shared))))
    }

    fn new_writable_file(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.open(OpKind::Create, path)?;
        Ok(self.writable(self.shared.inner.new_writable_file(path)?, path))
    }

    fn create_writable_file(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.open(OpKind::Create, path)?;
        Ok(self.writable(self.shared.inner.create_writable_file(path)?, path))
    }

    fn reopen_writable_file(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.open(OpKind::Create, path)?;
        Ok(self.writable(self.shared.inner.reopen_writable_file(path)?, path))
    }

    fn new_direct_sequential_file(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        self.open(OpKind::Open, path)?;
        let inner = self.shared.inner.new_direct_sequential_file(path)?;
        Ok(Box::new(FaultSequentialFile::new(inner, Arc::clone(&self.shared), path)))
    }

    fn new_direct_random_access_file(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        self.open(OpKind::Open, path)?;
        let inner = self.shared.inner.new_direct_random_access_file(path)?;
        Ok(Arc::new(FaultRandomAccessFile::new(inner, Arc::clone(&self.shared))))
    }

    fn new_direct_writable_file(&self, path: &Path, buffer_bytes: usize) -> Result<Box<dyn WritableFile>> {
        self.open(OpKind::Create, path)?;
        Ok(self.writable(self.shared.inner.new_direct_writable_file(path, buffer_bytes)?, path))
    }

    fn create_direct_writable_file(&self, path: &Path, buffer_bytes: usize) -> Result<Box<dyn WritableFile>> {
        self.open(OpKind::Create, path)?;
        Ok(self.writable(self.shared.inner.create_direct_writable_file(path, buffer_bytes)?, path))
    }

    fn reuse_writable_file(&self, new: &Path, old: &Path) -> Result<Box<dyn WritableFile>> {
        self.open(OpKind::Create, new)?;
        Ok(self.writable(self.shared.inner.reuse_writable_file(new, old)?, new))
    }

    fn overwrite_file(&self, path: &Path, offset: u64) -> Result<Box<dyn WritableFile>> {
        self.open(OpKind::Create, path)?;
        Ok(self.writable(self.shared.inner.overwrite_file(path, offset)?, path))
    }

    fn new_directory(&self, path: &Path) -> Result<Box<dyn Directory>> {
        self.open(OpKind::Open, path)?;
        let inner = self.shared.inner.new_directory(path)?;
        Ok(Box::new(FaultDirectory::new(inner, Arc::clone(&self.shared), path)))
    }

    fn file_exists(&self, path: &Path) -> Result<bool> {
        self.open(OpKind::Stat, path)?;
        self.shared.inner.file_exists(path)
    }

    fn children(&self, dir: &Path) -> Result<Vec<String>> {
        self.open(OpKind::List, dir)?;
        self.shared.inner.children(dir)
    }

    fn delete_file(&self, path: &Path) -> Result<()> {
        let bytes = self.shared.inner.file_size(path).unwrap_or(0);
        self.change(OpKind::Delete, path, |fs| fs.delete_file(path))?;
        self.shared.freed(bytes);
        Ok(())
    }

    fn create_dir_if_missing(&self, path: &Path) -> Result<()> {
        self.change(OpKind::CreateDir, path, |fs| fs.create_dir_if_missing(path))
    }

    fn delete_dir(&self, path: &Path) -> Result<()> {
        self.change(OpKind::DeleteDir, path, |fs| fs.delete_dir(path))
    }

    fn file_size(&self, path: &Path) -> Result<u64> {
        self.open(OpKind::Stat, path)?;
        self.shared.inner.file_size(path)
    }

    fn link_count(&self, path: &Path) -> Result<u64> {
        self.open(OpKind::Stat, path)?;
        self.shared.inner.link_count(path)
    }

    fn modification_time(&self, path: &Path) -> Result<u64> {
        self.open(OpKind::Stat, path)?;
        self.shared.inner.modification_time(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.change(OpKind::Rename, to, |fs| fs.rename(from, to))
    }

    fn link_file(&self, existing: &Path, new: &Path) -> Result<()> {
        self.change(OpKind::Link, new, |fs| fs.link_file(existing, new))
    }

    fn lock_file(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.open(OpKind::Lock, path)?;
        self.shared.inner.lock_file(path)
    }

    fn absolute_path(&self, path: &Path) -> Result<PathBuf> {
        self.shared.inner.absolute_path(path)
    }

    fn free_space(&self, path: &Path) -> Result<u64> {
        self.open(OpKind::Stat, path)?;
        let there = self.shared.inner.free_space(path)?;
        let left = self.shared.state.lock().space_left;
        Ok(left.map_or(there, |left| left.min(there)))
    }

    fn truncate(&self, path: &Path, size: u64) -> Result<()> {
        self.change(OpKind::Truncate, path, |fs| fs.truncate(path, size))
    }
}

impl FaultFs {
    fn open(&self, kind: OpKind, path: &Path) -> Result<()> {
        if self.shared.check(kind, path)? { Ok(()) } else { Err(cannot_skip(kind)) }
    }

    fn change(
        &self,
        kind: OpKind,
        path: &Path,
        change: impl FnOnce(&dyn FileSystem) -> Result<()>,
    ) -> Result<()> {
        if self.shared.check(kind, path)? { change(&*self.shared.inner) } else { Ok(()) }
    }

    fn writable(&self, inner: Box<dyn WritableFile>, path: &Path) -> Box<dyn WritableFile> {
        Box::new(FaultWritableFile::new(inner, Arc::clone(&self.shared), path))
    }
}

#[cfg(test)]
mod tests;
