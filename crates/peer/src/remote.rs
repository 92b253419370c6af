//! Remote compaction by RocksDB: its worker, and a service of ours for its databases.
//!
//! Invariants
//!  1. The service lives until RocksDB destroys it, after the last database that has it.
//!  2. No callback panics: a worker's error becomes a status.

use crate::api::{Api, CompactionService, JobInfo, NEEDS_11, Options, ScheduleResponse, api};
use crate::c_data::{c_path, c_string, call, copy, take};
use crate::library::{FamilySpec, RocksAccess, RocksDb};
use crate::option_set::OptionSet;
use esker_base::sync::Mutex;
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr;

unsafe extern "C" {
    fn malloc(bytes: usize) -> *mut c_void;
}

/// RocksDB's number for a job that is done.
const SUCCESS: c_int = 0;
/// RocksDB's number for a job that the database is to run itself.
const USE_LOCAL: c_int = 3;

/// Runs a job of a database on this thread. Returns the result's bytes.
/// # Errors
/// RocksDB's, as text.
pub fn open_and_compact(database: &Path, output: &Path, job: &[u8]) -> Result<Vec<u8>, String> {
    let api = api()?;
    // SAFETY: the function has no requirements.
    let options = unsafe { (api.options_create)() };
    // SAFETY: the options are live.
    let overrides =
        unsafe { (api.compaction_service_options_override_create_from_options.expect(NEEDS_11))(options) };
    let (database, output, mut len) = (c_path(database), c_path(output), 0);
    let result = call(api, |error| {
        let run = api.open_and_compact.expect(NEEDS_11);
        let job = (job.as_ptr().cast(), job.len());
        // SAFETY: the strings end in NUL, the job's bytes are readable, the overrides are live.
        unsafe { run(database.as_ptr(), output.as_ptr(), job.0, job.1, &raw mut len, overrides, error) }
    });
    // SAFETY: the overrides were made above, and are not used again.
    unsafe { (api.compaction_service_options_override_destroy.expect(NEEDS_11))(overrides) };
    // SAFETY: the options were made above, and are not used again.
    unsafe { (api.options_destroy)(options) };
    result.map(|bytes| take(api, bytes, len))
}

/// The worker of a service: gets the database's directory and a job, gives a result.
pub type RemoteWorker = Box<dyn Fn(&Path, &[u8]) -> Result<Vec<u8>, String> + Send + Sync>;

struct Service {
    api: &'static Api,
    worker: RemoteWorker,
    results: Mutex<HashMap<String, Result<Vec<u8>, String>>>,
    installed: Box<dyn Fn(c_int) + Send + Sync>,
}

impl RocksDb {
    /// [`RocksDb::open`] with a compaction service whose jobs `worker` runs. `installed` gets
    /// RocksDB's number of each installation's status: 0 for success.
    /// # Errors
    /// RocksDB's, as text.
    pub fn open_with_service(
        path: &Path,
        db_options: &str,
        families: &[FamilySpec],
        worker: RemoteWorker,
        installed: impl Fn(i32) + Send + Sync + 'static,
    ) -> Result<RocksDb, String> {
        let api = api()?;
        let options = OptionSet::parse(api, db_options)?;
        set_service(api, options.as_ptr().cast_mut(), worker, Box::new(installed));
        let sets: Vec<OptionSet> = families.iter().map(|f| f.options(api)).collect::<Result<_, _>>()?;
        let pointers: Vec<*const Options> = sets.iter().map(OptionSet::as_ptr).collect();
        let names = families.iter().map(|f| f.name.clone()).collect();
        RocksDb::open_raw(api, path, options.as_ptr(), names, &pointers, RocksAccess::Write)
    }
}

/// Lets `worker` run the compactions of databases with these options; `installed` gets the number
/// of each installation's status.
fn set_service(
    api: &'static Api,
    options: *mut Options,
    worker: RemoteWorker,
    installed: Box<dyn Fn(c_int) + Send + Sync>,
) {
    let state =
        Box::into_raw(Box::new(Service { api, worker, results: Mutex::new(HashMap::new()), installed }));
    let name = c_string("worker");
    // SAFETY: the functions fit the state, which lives until `destroy` frees it.
    let service: *mut CompactionService = unsafe {
        let create = api.compactionservice_create.expect(NEEDS_11);
        create(state.cast(), destroy, schedule, name.as_ptr(), wait, None, on_installation)
    };
    // SAFETY: both are live; the options own the service from now on.
    unsafe { (api.options_set_compaction_service.expect(NEEDS_11))(options, service) };
}

/// The state behind the pointer that RocksDB passes to a callback.
/// # Safety
/// `state` is from [`set_service`] and not destroyed.
unsafe fn service<'a>(state: *mut c_void) -> &'a Service {
    // SAFETY: the caller promises that `state` is from `set_service` and not destroyed.
    unsafe { &*state.cast::<Service>() }
}

unsafe extern "C" fn destroy(state: *mut c_void) {
    // SAFETY: RocksDB calls it once, last, with the state of `set_service`.
    drop(unsafe { Box::from_raw(state.cast::<Service>()) });
}

unsafe extern "C" fn schedule(
    state: *mut c_void,
    info: *const JobInfo,
    job: *const c_char,
    job_len: usize,
) -> *mut ScheduleResponse {
    // SAFETY: RocksDB passes the state of `set_service`, which lives by invariant 1.
    let service = unsafe { service(state) };
    let mut len = 0;
    // SAFETY: the info is live during the call.
    let name =
        unsafe { (service.api.compactionservice_jobinfo_t_get_db_name.expect(NEEDS_11))(info, &raw mut len) };
    let database = PathBuf::from(String::from_utf8_lossy(&copy(name, len)).into_owned());
    let result = (service.worker)(&database, &copy(job, job_len));
    let mut results = service.results.lock();
    let id = results.len().to_string();
    results.insert(id.clone(), result);
    // SAFETY: the string ends in NUL; the error may be NULL.
    unsafe {
        (service.api.compactionservice_scheduleresponse_create.expect(NEEDS_11))(
            c_string(&id).as_ptr(),
            SUCCESS,
            ptr::null_mut(),
        )
    }
}

unsafe extern "C" fn wait(
    state: *mut c_void,
    id: *const c_char,
    result: *mut *mut c_char,
    len: *mut usize,
) -> c_int {
    // SAFETY: RocksDB passes the state of `set_service`, which lives by invariant 1.
    let service = unsafe { service(state) };
    // SAFETY: RocksDB's strings end in NUL.
    let id = unsafe { CStr::from_ptr(id) }.to_string_lossy();
    let results = service.results.lock();
    let Some(Ok(bytes)) = results.get(id.as_ref()) else { return USE_LOCAL };
    // SAFETY: the function has no requirements.
    let memory = unsafe { malloc(bytes.len().max(1)) }.cast::<u8>();
    if memory.is_null() {
        return USE_LOCAL;
    }
    // SAFETY: both places have `bytes.len()` bytes.
    unsafe { memory.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    // SAFETY: RocksDB gives a place for the pointer.
    unsafe { result.write(memory.cast()) };
    // SAFETY: RocksDB gives a place for the length.
    unsafe { len.write(bytes.len()) };
    SUCCESS
}

unsafe extern "C" fn on_installation(state: *mut c_void, _id: *const c_char, status: c_int) {
    // SAFETY: RocksDB passes the state of `set_service`, which lives by invariant 1.
    (unsafe { service(state) }.installed)(status);
}
