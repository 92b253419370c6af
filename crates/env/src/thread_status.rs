//! The operations of threads: which thread does what, for which database.
//!
//! In: operations, stages and properties, by the threads themselves. Out: [`ThreadStatus`], one for
//! each thread that [`ThreadRegistry::list`] finds. Names and numbers are RocksDB's
//! (`include/rocksdb/thread_status.h`, `util/thread_operation.h`).
//!
//! A thread has a slot in each registry for which it has worked. A thread of a pool has it from its
//! start, any other thread from its first operation. The slot ends with the thread. An operation
//! within another one hides it until it ends.
//!
//! Costs: an operation, a stage or a property takes the lock of the thread's own slot, for which
//! only a list competes. A stage or a property outside of an operation costs one thread-local read.
//! A list grows with the number of threads.

use crate::thread_pool::Priority;
use esker_base::iostats_context::with_live_iostats;
use esker_base::sync::{Arc, Mutex, Weak, thread_number};
use std::cell::RefCell;
use std::fmt;

/// The kind of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum ThreadType {
    /// A thread for flushes.
    HighPriority = 0,
    /// A thread for compactions.
    LowPriority = 1,
    /// A thread of the user.
    User = 2,
    /// A thread for compactions into the last level.
    BottomPriority = 3,
}

impl ThreadType {
    /// RocksDB's name: `High Pri`, `Low Pri`, `User` or `Bottom Pri`.
    pub fn name(self) -> &'static str {
        match self {
            ThreadType::HighPriority => "High Pri",
            ThreadType::LowPriority => "Low Pri",
            ThreadType::User => "User",
            ThreadType::BottomPriority => "Bottom Pri",
        }
    }
}

/// The type of a pool's threads.
impl From<Priority> for ThreadType {
    fn from(priority: Priority) -> ThreadType {
        match priority {
            Priority::High => ThreadType::HighPriority,
            Priority::Low => ThreadType::LowPriority,
            Priority::Bottom => ThreadType::BottomPriority,
        }
    }
}

macro_rules! named {
    ($(#[$doc:meta])* $type:ident { $($(#[$variant_doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum $type {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $type {
            /// RocksDB's name; empty for `Unknown`.
            pub fn name(self) -> &'static str {
                match self {
                    $($type::$variant => $name,)*
                }
            }
        }
    };
}

named! {
    /// The operation of a thread.
    OperationType {
        /// None.
        #[default]
        Unknown = "",
        /// A compaction.
        Compaction = "Compaction",
        /// A flush.
        Flush = "Flush",
        /// The opening of a database.
        DbOpen = "DBOpen",
        /// A get.
        Get = "Get",
        /// A multi-get.
        MultiGet = "MultiGet",
        /// A seek of an iterator.
        DbIterator = "DBIterator",
        /// A verification of the checksums of blocks.
        VerifyDbChecksum = "VerifyDBChecksum",
        /// A verification of the checksums of files.
        VerifyFileChecksums = "VerifyFileChecksums",
        /// A get of an entity.
        GetEntity = "GetEntity",
        /// A multi-get of entities.
        MultiGetEntity = "MultiGetEntity",
        /// A read of the files' checksums in the MANIFEST.
        GetFileChecksumsFromCurrentManifest = "GetFileChecksumsFromCurrentManifest",
    }
}

named! {
    /// The part of its operation that a thread carries out.
    OperationStage {
        /// None.
        #[default]
        Unknown = "",
        /// A flush.
        FlushRun = "FlushJob::Run",
        /// A flush writes a table.
        FlushWriteL0 = "FlushJob::WriteLevel0Table",
        /// A compaction chooses its key ranges.
        CompactionPrepare = "CompactionJob::Prepare",
        /// A compaction.
        CompactionRun = "CompactionJob::Run",
        /// A compaction merges entries.
        CompactionProcessKv = "CompactionJob::ProcessKeyValueCompaction",
        /// A compaction logs its result.
        CompactionInstall = "CompactionJob::Install",
        /// A compaction finishes a table.
        CompactionSyncFile = "CompactionJob::FinishCompactionOutputFile",
        /// A flush chooses memtables.
        PickMemtablesToFlush = "MemTableList::PickMemtablesToFlush",
        /// A flush has failed.
        MemtableRollback = "MemTableList::RollbackMemtableFlush",
        /// A flush logs its result.
        MemtableInstallFlushResults = "MemTableList::TryInstallMemtableFlushResults",
    }
}

named! {
    /// The wait of a thread.
    StateType {
        /// None, or unknown.
        #[default]
        Unknown = "",
        /// For a mutex.
        MutexWait = "Mutex Wait",
    }
}

/// Number of properties of an operation.
const PROPERTIES: usize = 6;

/// The place of a compaction's property in [`ThreadStatus::op_properties`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum CompactionProperty {
    /// The number of the job.
    JobId = 0,
    /// The input level in the upper half, the output level in the lower half.
    InputOutputLevel = 1,
    /// Bit 0: by a call, bit 1: files of deleted entries only, bit 2: files are moved.
    PropFlags = 2,
    /// Bytes of all inputs.
    TotalInputBytes = 3,
    /// Bytes read so far.
    BytesRead = 4,
    /// Bytes written so far.
    BytesWritten = 5,
}

/// The place of a flush's property in [`ThreadStatus::op_properties`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum FlushProperty {
    /// The number of the job.
    JobId = 0,
    /// Bytes of the memtables.
    BytesMemtables = 1,
    /// Bytes written so far.
    BytesWritten = 2,
}

/// The operation of one thread.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ThreadStatus {
    /// The thread's number, which no other thread of the process has.
    pub thread_id: u64,
    /// The thread's kind.
    pub thread_type: ThreadType,
    /// The directory of the database; empty without an operation.
    pub db_name: String,
    /// The name of the column family; empty for an operation on a database.
    pub cf_name: String,
    /// The operation.
    pub operation_type: OperationType,
    /// Microseconds since the operation began.
    pub op_elapsed_micros: u64,
    /// The part of the operation.
    pub operation_stage: OperationStage,
    /// Numbers about the operation: see [`ThreadStatus::properties`].
    pub op_properties: [u64; PROPERTIES],
    /// The wait of the thread: always [`StateType::Unknown`], as in RocksDB, which notes a wait in
    /// its own tests alone.
    pub state_type: StateType,
}

impl ThreadStatus {
    /// Name and value of each property of the operation. The levels and flags of a compaction are
    /// properties of their own.
    pub fn properties(&self) -> Vec<(&'static str, u64)> {
        let p = &self.op_properties;
        let flag = |bit: u32| p[CompactionProperty::PropFlags as usize] >> bit & 1;
        let levels = p[CompactionProperty::InputOutputLevel as usize];
        match self.operation_type {
            OperationType::Compaction => vec![
                ("JobID", p[CompactionProperty::JobId as usize]),
                ("BaseInputLevel", levels >> 32),
                ("OutputLevel", levels & u64::from(u32::MAX)),
                ("IsManual", flag(0)),
                ("IsDeletion", flag(1)),
                ("IsTrivialMove", flag(2)),
                ("TotalInputBytes", p[CompactionProperty::TotalInputBytes as usize]),
                ("BytesRead", p[CompactionProperty::BytesRead as usize]),
                ("BytesWritten", p[CompactionProperty::BytesWritten as usize]),
            ],
            OperationType::Flush => vec![
                ("JobID", p[FlushProperty::JobId as usize]),
                ("BytesMemtables", p[FlushProperty::BytesMemtables as usize]),
                ("BytesWritten", p[FlushProperty::BytesWritten as usize]),
            ],
            _ => Vec::new(),
        }
    }
}

/// An operation that begins.
#[derive(Clone, Debug, Default)]
pub struct ThreadOperation {
    /// The operation.
    pub operation_type: OperationType,
    /// The directory of the database.
    pub db_name: String,
    /// The name of the column family; empty for an operation on a database.
    pub cf_name: String,
    /// The time of the clock, in monotonic microseconds.
    pub began_at: u64,
    /// Numbers about the operation, by place.
    pub properties: [u64; PROPERTIES],
}

/// One thread in one registry.
struct Slot {
    thread_id: u64,
    thread_type: ThreadType,
    state: Mutex<Option<Running>>,
}

#[derive(Clone)]
struct Running {
    operation: ThreadOperation,
    stage: OperationStage,
}

/// The threads of an environment.
#[derive(Default)]
pub struct ThreadRegistry {
    slots: Mutex<Vec<Weak<Slot>>>,
}

thread_local! {
    /// This thread's slots, with their registries.
    static SLOTS: RefCell<Vec<(Weak<ThreadRegistry>, Arc<Slot>)>> = const { RefCell::new(Vec::new()) };
    /// The slot of the operation in progress.
    static CURRENT: RefCell<Option<Arc<Slot>>> = const { RefCell::new(None) };
}

impl ThreadRegistry {
    /// Adds the calling thread as one of this type, until it ends.
    pub fn register(self: &Arc<Self>, thread_type: ThreadType) {
        self.slot(thread_type);
    }

    /// The calling thread's slot.
    fn slot(self: &Arc<Self>, thread_type: ThreadType) -> Arc<Slot> {
        let mine = SLOTS.try_with(|slots| {
            let slots = slots.borrow();
            let mine = slots.iter().find(|(registry, _)| registry.as_ptr() == Arc::as_ptr(self));
            mine.map(|(_, slot)| slot.clone())
        });
        if let Ok(Some(slot)) = mine {
            return slot;
        }
        let thread_id = thread_number() as u64;
        let slot = Arc::new(Slot { thread_id, thread_type, state: Mutex::new(None) });
        let mut all = self.slots.lock();
        // Slots of threads that have ended go when the list would grow.
        if all.len() == all.capacity() {
            all.retain(|slot| slot.strong_count() > 0);
        }
        all.push(Arc::downgrade(&slot));
        drop(all);
        // While the thread's values are destroyed, each operation has a slot of its own.
        _ = SLOTS.try_with(|slots| {
            let mut slots = slots.borrow_mut();
            slots.retain(|(registry, _)| registry.strong_count() > 0);
            slots.push((Arc::downgrade(self), slot.clone()));
        });
        slot
    }

    /// Shows `operation` as the one of the calling thread, until the result is dropped. A thread
    /// that is not registered is one of the user.
    #[must_use]
    pub fn begin(self: &Arc<Self>, operation: ThreadOperation) -> OperationScope {
        let slot = self.slot(ThreadType::User);
        let running = Running { operation, stage: OperationStage::Unknown };
        let before = slot.state.lock().replace(running);
        let outer = replace_current(Some(slot.clone()));
        OperationScope { slot, before, outer }
    }

    /// All threads of pools, and the threads of users that carry out an operation. `now` is the
    /// time of the clock in monotonic microseconds.
    pub fn list(&self, now: u64) -> Vec<ThreadStatus> {
        let slots: Vec<Arc<Slot>> = self.slots.lock().iter().filter_map(Weak::upgrade).collect();
        let statuses = slots.iter().filter_map(|slot| {
            let running = slot.state.lock().clone();
            (running.is_some() || slot.thread_type != ThreadType::User).then(|| slot.status(running, now))
        });
        statuses.collect()
    }
}

impl Slot {
    fn status(&self, running: Option<Running>, now: u64) -> ThreadStatus {
        let is_running = running.is_some();
        let Running { operation, stage } = running.unwrap_or_else(|| Running {
            operation: ThreadOperation::default(),
            stage: OperationStage::Unknown,
        });
        ThreadStatus {
            thread_id: self.thread_id,
            thread_type: self.thread_type,
            db_name: operation.db_name,
            cf_name: operation.cf_name,
            operation_type: operation.operation_type,
            op_elapsed_micros: if is_running { now.saturating_sub(operation.began_at) } else { 0 },
            operation_stage: stage,
            op_properties: operation.properties,
            state_type: StateType::Unknown,
        }
    }
}

impl fmt::Debug for ThreadRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadRegistry").finish_non_exhaustive()
    }
}

/// An operation in progress. Its drop shows the one before again.
pub struct OperationScope {
    slot: Arc<Slot>,
    before: Option<Running>,
    outer: Option<Arc<Slot>>,
}

impl Drop for OperationScope {
    fn drop(&mut self) {
        *self.slot.state.lock() = self.before.take();
        replace_current(self.outer.take());
    }
}

impl fmt::Debug for OperationScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OperationScope(thread {})", self.slot.thread_id)
    }
}

/// The slot of the operation in progress; `None` while the thread's values are destroyed. No borrow
/// lasts while a lock is taken.
fn current() -> Option<Arc<Slot>> {
    CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
}

/// Changes the slot of the operation in progress, and returns the one before. Does nothing while
/// the thread's values are destroyed.
fn replace_current(slot: Option<Arc<Slot>>) -> Option<Arc<Slot>> {
    CURRENT.try_with(|current| current.replace(slot)).ok().flatten()
}

fn change<R>(change: impl FnOnce(&mut Running) -> R) -> Option<R> {
    current()?.state.lock().as_mut().map(change)
}

/// Sets the stage of the operation in progress, until the result is dropped.
#[must_use]
pub fn begin_stage(stage: OperationStage) -> StageScope {
    StageScope { before: change(|running| std::mem::replace(&mut running.stage, stage)) }
}

/// A stage in progress. Its drop shows the one before again.
#[derive(Debug)]
pub struct StageScope {
    before: Option<OperationStage>,
}

impl Drop for StageScope {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            change(|running| running.stage = before);
        }
    }
}

/// Adds the bytes that the calling thread reads and writes to the operation in progress, if it is
/// of one type. Its drop adds the last of them.
#[derive(Debug)]
pub struct IoProgress {
    operation_type: OperationType,
    /// The places of bytes read, if the operation has one, and of bytes written.
    places: (Option<usize>, usize),
    /// The thread's bytes that are added.
    before: (u64, u64),
    entries: u32,
}

/// Number of entries after which progress is added. RocksDB adds it after a thousand.
const REPORT_EVERY: u32 = 1024;

impl IoProgress {
    /// The progress of a compaction, from here on.
    pub fn of_compaction() -> IoProgress {
        let read = Some(CompactionProperty::BytesRead as usize);
        let places = (read, CompactionProperty::BytesWritten as usize);
        IoProgress { operation_type: OperationType::Compaction, places, before: thread_bytes(), entries: 0 }
    }

    /// The progress of a flush, from here on.
    pub fn of_flush() -> IoProgress {
        let places = (None, FlushProperty::BytesWritten as usize);
        IoProgress { operation_type: OperationType::Flush, places, before: thread_bytes(), entries: 0 }
    }

    /// Counts an entry, and adds the progress now and then.
    #[inline]
    pub fn entry(&mut self) {
        self.entries += 1;
        if self.entries == REPORT_EVERY {
            self.report();
        }
    }

    #[cold]
    fn report(&mut self) {
        let now = thread_bytes();
        let (read, written) = (now.0.wrapping_sub(self.before.0), now.1.wrapping_sub(self.before.1));
        (self.before, self.entries) = (now, 0);
        change(|running| {
            let operation = &mut running.operation;
            if operation.operation_type == self.operation_type {
                self.places.0.into_iter().for_each(|place| operation.properties[place] += read);
                operation.properties[self.places.1] += written;
            }
        });
    }
}

impl Drop for IoProgress {
    fn drop(&mut self) {
        self.report();
    }
}

/// Bytes that the thread has read and written.
fn thread_bytes() -> (u64, u64) {
    with_live_iostats(|io| (io.bytes_read.get(), io.bytes_written.get()))
}

/// The operation in progress, for threads that help with it.
#[derive(Clone, Default)]
pub struct SharedOperation(Option<Arc<Slot>>);

impl SharedOperation {
    /// That of the calling thread.
    pub fn current() -> SharedOperation {
        SharedOperation(current())
    }

    /// Makes stages and properties of the calling thread those of the operation, until the result
    /// is dropped.
    #[must_use]
    pub fn join(&self) -> JoinScope {
        JoinScope { outer: replace_current(self.0.clone()) }
    }
}

impl fmt::Debug for SharedOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedOperation({})", self.0.is_some())
    }
}

/// See [`SharedOperation::join`].
pub struct JoinScope {
    outer: Option<Arc<Slot>>,
}

impl Drop for JoinScope {
    fn drop(&mut self) {
        replace_current(self.outer.take());
    }
}

impl fmt::Debug for JoinScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JoinScope")
    }
}

#[cfg(test)]
mod tests;
