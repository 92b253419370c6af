//! `rocksdb_eventlistener_t`: calls functions of the client for events of a database.
//!
//! In: the client's functions. Out: Esker's [`EventListener`]. The library owns an event's info,
//! which is valid during the call. A function with a database parameter gets the handle that the
//! open returned. It gets NULL during the open, after the close, and in a remote compaction.

use crate::callbacks::ClientState;
use crate::db::rocksdb_t;
use crate::job_info::{
    rocksdb_compactionjobinfo_t, rocksdb_externalfileingestioninfo_t, rocksdb_flushjobinfo_t,
    rocksdb_memtableinfo_t, rocksdb_subcompactionjobinfo_t, rocksdb_writestallinfo_t,
};
use crate::memory::{attempt, destroy, give, object_mut};
use crate::options::rocksdb_options_t;
use esker::Error;
use esker::observe::{
    BackgroundErrorReason, CompactionJobInfo, EventListener, ExternalFileIngestionInfo, FlushJobInfo,
    MemTableInfo, SubcompactionJobInfo, WriteStallInfo,
};
use libc::{c_char, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

type OnFlush = Option<unsafe extern "C" fn(*mut c_void, *mut rocksdb_t, *const rocksdb_flushjobinfo_t)>;
type OnCompaction =
    Option<unsafe extern "C" fn(*mut c_void, *mut rocksdb_t, *const rocksdb_compactionjobinfo_t)>;
type OnSubcompaction = Option<unsafe extern "C" fn(*mut c_void, *const rocksdb_subcompactionjobinfo_t)>;
type OnIngestion =
    Option<unsafe extern "C" fn(*mut c_void, *mut rocksdb_t, *const rocksdb_externalfileingestioninfo_t)>;
type OnBackgroundError = Option<unsafe extern "C" fn(*mut c_void, u32, *mut rocksdb_status_ptr_t)>;
type OnStall = Option<unsafe extern "C" fn(*mut c_void, *const rocksdb_writestallinfo_t)>;
type OnMemtableSealed = Option<unsafe extern "C" fn(*mut c_void, *const rocksdb_memtableinfo_t)>;

/// The functions of a client.
pub struct rocksdb_eventlistener_t {
    pub(crate) callbacks: Arc<EventCallbacks>,
}

/// The client's functions and their state, shared by the databases opened with them.
pub(crate) struct EventCallbacks {
    state: ClientState,
    flush_begin: OnFlush,
    flush_completed: OnFlush,
    compaction_begin: OnCompaction,
    compaction_completed: OnCompaction,
    subcompaction_begin: OnSubcompaction,
    subcompaction_completed: OnSubcompaction,
    external_file_ingested: OnIngestion,
    background_error: OnBackgroundError,
    stall_conditions_changed: OnStall,
    memtable_sealed: OnMemtableSealed,
}

impl std::fmt::Debug for EventCallbacks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EventCallbacks")
    }
}

/// The handle of a listener's database; NULL if there is none.
pub(crate) type HandleCell = Arc<AtomicPtr<rocksdb_t>>;

/// The listener of one database, which calls the client's functions.
pub(crate) struct ClientListener {
    pub(crate) callbacks: Arc<EventCallbacks>,
    pub(crate) handle: HandleCell,
}

impl ClientListener {
    fn db(&self) -> *mut rocksdb_t {
        self.handle.load(Ordering::Acquire)
    }

    fn state(&self) -> *mut c_void {
        self.callbacks.state.state
    }
}

impl EventListener for ClientListener {
    fn on_flush_begin(&self, info: &FlushJobInfo) {
        if let Some(function) = self.callbacks.flush_begin {
            unsafe { function(self.state(), self.db(), &rocksdb_flushjobinfo_t::new(info)) };
        }
    }

    fn on_flush_completed(&self, info: &FlushJobInfo) {
        if let Some(function) = self.callbacks.flush_completed {
            unsafe { function(self.state(), self.db(), &rocksdb_flushjobinfo_t::new(info)) };
        }
    }

    fn on_compaction_begin(&self, info: &CompactionJobInfo) {
        if let Some(function) = self.callbacks.compaction_begin {
            unsafe { function(self.state(), self.db(), &rocksdb_compactionjobinfo_t::new(info.clone())) };
        }
    }

    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        if let Some(function) = self.callbacks.compaction_completed {
            unsafe { function(self.state(), self.db(), &rocksdb_compactionjobinfo_t::new(info.clone())) };
        }
    }

    fn on_subcompaction_begin(&self, info: &SubcompactionJobInfo) {
        if let Some(function) = self.callbacks.subcompaction_begin {
            unsafe { function(self.state(), &rocksdb_subcompactionjobinfo_t::new(info)) };
        }
    }

    fn on_subcompaction_completed(&self, info: &SubcompactionJobInfo) {
        if let Some(function) = self.callbacks.subcompaction_completed {
            unsafe { function(self.state(), &rocksdb_subcompactionjobinfo_t::new(info)) };
        }
    }

    fn on_external_file_ingested(&self, info: &ExternalFileIngestionInfo) {
        if let Some(function) = self.callbacks.external_file_ingested {
            unsafe { function(self.state(), self.db(), &rocksdb_externalfileingestioninfo_t::new(info)) };
        }
    }

    fn on_background_error(&self, reason: BackgroundErrorReason, error: &mut Option<Error>) {
        if let Some(function) = self.callbacks.background_error {
            let mut status = rocksdb_status_ptr_t { error: error.take() };
            unsafe { function(self.state(), reason as u32, &mut status) };
            *error = status.error;
        }
    }

    fn on_stall_conditions_changed(&self, info: &WriteStallInfo) {
        if let Some(function) = self.callbacks.stall_conditions_changed {
            unsafe { function(self.state(), &rocksdb_writestallinfo_t::new(info)) };
        }
    }

    fn on_memtable_sealed(&self, info: &MemTableInfo) {
        if let Some(function) = self.callbacks.memtable_sealed {
            unsafe { function(self.state(), &rocksdb_memtableinfo_t::new(info)) };
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_eventlistener_create(
    state: *mut c_void,
    destructor: Option<unsafe extern "C" fn(*mut c_void)>,
    flush_begin: OnFlush,
    flush_completed: OnFlush,
    compaction_begin: OnCompaction,
    compaction_completed: OnCompaction,
    subcompaction_begin: OnSubcompaction,
    subcompaction_completed: OnSubcompaction,
    external_file_ingested: OnIngestion,
    background_error: OnBackgroundError,
    stall_conditions_changed: OnStall,
    memtable_sealed: OnMemtableSealed,
) -> *mut rocksdb_eventlistener_t {
    let callbacks = EventCallbacks {
        state: ClientState::new(state, destructor),
        flush_begin,
        flush_completed,
        compaction_begin,
        compaction_completed,
        subcompaction_begin,
        subcompaction_completed,
        external_file_ingested,
        background_error,
        stall_conditions_changed,
        memtable_sealed,
    };
    give(rocksdb_eventlistener_t { callbacks: Arc::new(callbacks) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_eventlistener_destroy(listener: *mut rocksdb_eventlistener_t) {
    destroy(listener);
}

/// Adds the listener and takes ownership of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_add_eventlistener(
    options: *mut rocksdb_options_t,
    listener: *mut rocksdb_eventlistener_t,
) {
    crate::memory::answer((), || {
        let options = object_mut(options)?;
        if !listener.is_null() {
            options.listeners.push(Box::from_raw(listener).callbacks);
        }
        Ok(())
    });
}

/// An error that a listener may cancel.
#[derive(Debug)]
pub struct rocksdb_status_ptr_t {
    error: Option<Error>,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_reset_status(status: *mut rocksdb_status_ptr_t) {
    if let Some(status) = status.as_mut() {
        status.error = None;
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_status_ptr_get_error(
    status: *mut rocksdb_status_ptr_t,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || object_mut(status)?.error.clone().map_or(Ok(()), Err));
}

/// A cell without a handle.
pub(crate) fn no_handle() -> HandleCell {
    Arc::new(AtomicPtr::new(ptr::null_mut()))
}
