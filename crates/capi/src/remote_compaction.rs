//! `rocksdb_compactionservice_t` and `rocksdb_open_and_compact`: remote compaction.
//!
//! In: functions of the client that schedule jobs and wait for them; or a job, for a worker. Out:
//! Esker's [`CompactionService`]; or a result, in memory made by `malloc`.
//!
//! As in RocksDB, NULL from `schedule` means failure. Without the functions, the database runs the
//! compaction itself.

use crate::callbacks::{
    ClientState, rocksdb_compactionfilter_t, rocksdb_compactionfilterfactory_t, rocksdb_comparator_t,
    rocksdb_mergeoperator_t, rocksdb_slicetransform_t,
};
use crate::env::{rocksdb_env_t, rocksdb_logger_t};
use crate::listener::{ClientListener, EventCallbacks, no_handle, rocksdb_eventlistener_t};
use crate::memory::{
    answer, attempt, bytes, c_bool, destroy, give, lend, object, object_mut, path, put, text, text_or_none,
    to_c_string,
};
use crate::option_sets::{
    rocksdb_file_checksum_gen_factory_t, rocksdb_sst_partitioner_factory_t,
    rocksdb_table_properties_collector_factory_t,
};
use crate::options::rocksdb_options_t;
use crate::table_kinds::rocksdb_cuckoo_table_options_t;
use crate::table_options::rocksdb_block_based_table_options_t;
use esker::options::{
    CompactionService, CompactionServiceJobInfo, CompactionServiceJobStatus,
    CompactionServiceOptionsOverride, CompactionServiceScheduleResponse, OpenAndCompactOptions,
};
use esker::{Db, Error, Result};
use libc::{c_char, c_int, c_uchar, c_void};
use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The compaction that a service is to schedule. Valid during the call.
#[derive(Debug)]
pub struct rocksdb_compactionservice_jobinfo_t {
    info: CompactionServiceJobInfo,
}

/// The answer of a service's `schedule`.
#[derive(Debug)]
pub struct rocksdb_compactionservice_scheduleresponse_t {
    response: CompactionServiceScheduleResponse,
}

/// Defines getters of texts in the job's info. The info owns the texts.
macro_rules! texts {
    ($(fn $name:ident = $field:ident;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            info: *const rocksdb_compactionservice_jobinfo_t,
            len: *mut usize,
        ) -> *const c_char {
            answer(std::ptr::null(), || Ok(lend(object(info)?.info.$field.as_bytes(), len)))
        }
    )*};
}

texts! {
    fn rocksdb_compactionservice_jobinfo_t_get_db_name = db_name;
    fn rocksdb_compactionservice_jobinfo_t_get_db_id = db_id;
    fn rocksdb_compactionservice_jobinfo_t_get_db_session_id = db_session_id;
    fn rocksdb_compactionservice_jobinfo_t_get_cf_name = cf_name;
}

/// Defines getters of values in the job's info.
macro_rules! values {
    ($(fn $name:ident -> $ty:ty = |$info:ident| $value:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(info: *const rocksdb_compactionservice_jobinfo_t) -> $ty {
            answer(<$ty>::default(), || {
                let $info = &object(info)?.info;
                Ok($value)
            })
        }
    )*};
}

values! {
    fn rocksdb_compactionservice_jobinfo_t_get_cf_id -> u32 = |info| info.cf_id.0;
    fn rocksdb_compactionservice_jobinfo_t_get_job_id -> u64 = |info| info.job_id;
    fn rocksdb_compactionservice_jobinfo_t_get_priority -> c_int = |_info| LOW;
    fn rocksdb_compactionservice_jobinfo_t_get_compaction_reason -> c_int = |info| info.compaction_reason as c_int;
    fn rocksdb_compactionservice_jobinfo_t_get_base_input_level -> c_int = |info| level(info.base_input_level);
    fn rocksdb_compactionservice_jobinfo_t_get_output_level -> c_int = |info| level(info.output_level);
    fn rocksdb_compactionservice_jobinfo_t_is_full_compaction -> c_uchar = |info| c_bool(info.is_full_compaction);
    fn rocksdb_compactionservice_jobinfo_t_is_manual_compaction -> c_uchar = |info| c_bool(info.is_manual_compaction);
    fn rocksdb_compactionservice_jobinfo_t_is_bottommost_level -> c_uchar = |info| c_bool(info.bottommost_level);
}

/// RocksDB's number for the pool of compactions.
const LOW: c_int = 1;

fn level(level: usize) -> c_int {
    c_int::try_from(level).unwrap_or(c_int::MAX)
}

fn status_of(number: c_int) -> Option<CompactionServiceJobStatus> {
    use CompactionServiceJobStatus::{Aborted, Failure, Success, UseLocal};
    [Success, Failure, Aborted, UseLocal].into_iter().find(|status| *status as c_int == number)
}

fn checked_status(number: c_int) -> Result<CompactionServiceJobStatus> {
    status_of(number).ok_or_else(|| Error::invalid_argument("Invalid status value. Must be 0-3."))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compactionservice_scheduleresponse_create(
    scheduled_job_id: *const c_char,
    status: c_int,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_compactionservice_scheduleresponse_t {
    attempt(errptr, std::ptr::null_mut(), || {
        let scheduled_job_id = text(scheduled_job_id)?.into_owned();
        let response =
            CompactionServiceScheduleResponse { scheduled_job_id, status: checked_status(status)? };
        Ok(give(rocksdb_compactionservice_scheduleresponse_t { response }))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compactionservice_scheduleresponse_create_with_status(
    status: c_int,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_compactionservice_scheduleresponse_t {
    attempt(errptr, std::ptr::null_mut(), || {
        let response = CompactionServiceScheduleResponse::without_job(checked_status(status)?);
        Ok(give(rocksdb_compactionservice_scheduleresponse_t { response }))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compactionservice_scheduleresponse_t_destroy(
    response: *mut rocksdb_compactionservice_scheduleresponse_t,
) {
    destroy(response);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compactionservice_scheduleresponse_getstatus(
    response: *const rocksdb_compactionservice_scheduleresponse_t,
) -> c_int {
    answer(CompactionServiceJobStatus::Failure as c_int, || Ok(object(response)?.response.status as c_int))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compactionservice_scheduleresponse_get_scheduled_job_id(
    response: *const rocksdb_compactionservice_scheduleresponse_t,
    len: *mut usize,
) -> *const c_char {
    let id = response.as_ref().map_or("", |response| &response.response.scheduled_job_id);
    lend(id.as_bytes(), len)
}

type Schedule = Option<
    unsafe extern "C" fn(
        *mut c_void,
        *const rocksdb_compactionservice_jobinfo_t,
        *const c_char,
        usize,
    ) -> *mut rocksdb_compactionservice_scheduleresponse_t,
>;
type Wait = Option<unsafe extern "C" fn(*mut c_void, *const c_char, *mut *mut c_char, *mut usize) -> c_int>;
type CancelAwaitingJobs = Option<unsafe extern "C" fn(*mut c_void)>;
type OnInstallation = Option<unsafe extern "C" fn(*mut c_void, *const c_char, c_int)>;

/// The functions of a client.
#[derive(Debug)]
pub struct rocksdb_compactionservice_t {
    service: ClientService,
}

struct ClientService {
    name: String,
    state: ClientState,
    schedule: Schedule,
    wait: Wait,
    cancel_awaiting_jobs: CancelAwaitingJobs,
    on_installation: OnInstallation,
}

impl std::fmt::Debug for ClientService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ClientService({})", self.name)
    }
}

/// A job's name as a C string. The client made it in C, so it has no NUL inside.
fn c_name(scheduled_job_id: &str) -> CString {
    CString::new(scheduled_job_id).unwrap_or_default()
}

impl CompactionService for ClientService {
    fn name(&self) -> &str {
        &self.name
    }

    fn schedule(&self, info: &CompactionServiceJobInfo, input: &[u8]) -> CompactionServiceScheduleResponse {
        let Some(schedule) = self.schedule else {
            return CompactionServiceScheduleResponse::without_job(CompactionServiceJobStatus::UseLocal);
        };
        let info = rocksdb_compactionservice_jobinfo_t { info: info.clone() };
        let response = unsafe { schedule(self.state.get(), &info, input.as_ptr().cast(), input.len()) };
        if response.is_null() {
            return CompactionServiceScheduleResponse::without_job(CompactionServiceJobStatus::Failure);
        }
        unsafe { Box::from_raw(response) }.response
    }

    fn wait(&self, scheduled_job_id: &str) -> (CompactionServiceJobStatus, Vec<u8>) {
        let Some(wait) = self.wait else { return (CompactionServiceJobStatus::UseLocal, Vec::new()) };
        let (mut result, mut len) = (std::ptr::null_mut(), 0);
        let id = c_name(scheduled_job_id);
        let status = unsafe { wait(self.state.get(), id.as_ptr(), &mut result, &mut len) };
        let copy = unsafe { bytes(result, len) }.map(<[u8]>::to_vec);
        unsafe { libc::free(result.cast()) };
        // An unknown number, or NULL with a length, counts as a failed job.
        let status = status_of(status).filter(|_| copy.is_ok());
        (status.unwrap_or(CompactionServiceJobStatus::Failure), copy.unwrap_or_default())
    }

    fn cancel_awaiting_jobs(&self) {
        if let Some(cancel) = self.cancel_awaiting_jobs {
            unsafe { cancel(self.state.get()) };
        }
    }

    fn on_installation(&self, scheduled_job_id: &str, status: CompactionServiceJobStatus) {
        if let Some(on_installation) = self.on_installation {
            let id = c_name(scheduled_job_id);
            unsafe { on_installation(self.state.get(), id.as_ptr(), status as c_int) };
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compactionservice_create(
    state: *mut c_void,
    destructor: Option<unsafe extern "C" fn(*mut c_void)>,
    schedule: Schedule,
    name: *const c_char,
    wait: Wait,
    cancel_awaiting_jobs: CancelAwaitingJobs,
    on_installation: OnInstallation,
) -> *mut rocksdb_compactionservice_t {
    let name = text_or_none(name).unwrap_or("CompactionService".into()).into_owned();
    let state = ClientState::new(state, destructor);
    let service = ClientService { name, state, schedule, wait, cancel_awaiting_jobs, on_installation };
    give(rocksdb_compactionservice_t { service })
}

/// Sets the service and takes ownership of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_compaction_service(
    options: *mut rocksdb_options_t,
    service: *mut rocksdb_compactionservice_t,
) {
    answer((), || {
        let options = object_mut(options)?;
        if !service.is_null() {
            options.db.compaction_service = Some(Arc::new(Box::from_raw(service).service));
        }
        Ok(())
    });
}

/// Objects and options of a worker.
#[derive(Clone, Debug, Default)]
pub struct rocksdb_compaction_service_options_override_t {
    overrides: CompactionServiceOptionsOverride,
    listeners: Vec<Arc<EventCallbacks>>,
    /// Refused values of options. Running a job fails and names the first.
    refused: Vec<String>,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compaction_service_options_override_create()
-> *mut rocksdb_compaction_service_options_override_t {
    give(rocksdb_compaction_service_options_override_t::default())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compaction_service_options_override_create_from_options(
    options: *mut rocksdb_options_t,
) -> *mut rocksdb_compaction_service_options_override_t {
    answer(std::ptr::null_mut(), || {
        let options = object(options)?;
        let (db, cf) = (&options.db, &options.cf);
        let overrides = CompactionServiceOptionsOverride {
            env: db.env.clone(),
            file_checksum_gen_factory: db.file_checksum_gen_factory.clone(),
            comparator: Some(cf.comparator.clone()),
            merge_operator: cf.merge_operator.clone(),
            compaction_filter: cf.compaction_filter.clone(),
            compaction_filter_factory: cf.compaction_filter_factory.clone(),
            prefix_extractor: cf.prefix_extractor.clone(),
            compression_manager: cf.compression_manager.clone(),
            table: Some(cf.table.clone()),
            sst_partitioner_factory: cf.sst_partitioner_factory.clone(),
            listeners: db.listeners.clone(),
            statistics: db.statistics.clone(),
            info_log: db.info_log.clone(),
            table_properties_collector_factories: cf.table_properties_collector_factories.clone(),
            options_map: Vec::new(),
        };
        let (listeners, refused) = (options.listeners.clone(), options.refused.clone());
        Ok(give(rocksdb_compaction_service_options_override_t { overrides, listeners, refused }))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compaction_service_options_override_destroy(
    overrides: *mut rocksdb_compaction_service_options_override_t,
) {
    destroy(overrides);
}

/// Defines setters of objects; NULL changes nothing. The client keeps ownership of `borrowed`
/// objects; setters of `taken` objects take ownership.
macro_rules! objects {
    ($($kind:ident fn $name:ident($object:ident: $ty:ty) |$overrides:ident| $set:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            overrides: *mut rocksdb_compaction_service_options_override_t,
            object: *mut $ty,
        ) {
            answer((), || {
                let $overrides = object_mut(overrides)?;
                if !object.is_null() {
                    let $object = objects!(@$kind object);
                    $set;
                }
                Ok(())
            });
        }
    )*};
    (@borrowed $object:ident) => { &*$object };
    (@taken $object:ident) => { *Box::from_raw($object) };
}

objects! {
    borrowed fn rocksdb_compaction_service_options_override_set_env(env: rocksdb_env_t)
        |set| set.overrides.env = env.env.clone();
    borrowed fn rocksdb_compaction_service_options_override_set_comparator(comparator: rocksdb_comparator_t)
        |set| set.overrides.comparator = Some(comparator.comparator.clone());
    taken fn rocksdb_compaction_service_options_override_set_merge_operator(operator: rocksdb_mergeoperator_t)
        |set| set.overrides.merge_operator = Some(operator.operator);
    borrowed fn rocksdb_compaction_service_options_override_set_compaction_filter(filter: rocksdb_compactionfilter_t)
        |set| set.overrides.compaction_filter = Some(filter.filter());
    taken fn rocksdb_compaction_service_options_override_set_compaction_filter_factory(factory: rocksdb_compactionfilterfactory_t)
        |set| set.overrides.compaction_filter_factory = Some(factory.factory);
    taken fn rocksdb_compaction_service_options_override_set_prefix_extractor(transform: rocksdb_slicetransform_t)
        |set| set.overrides.prefix_extractor = transform.transform;
    borrowed fn rocksdb_compaction_service_options_override_set_block_based_table_factory(table: rocksdb_block_based_table_options_t)
        |set| {
            set.refused.extend(table.refused.iter().cloned());
            set.refused.extend(crate::user_defined_index::refusal(table));
            set.overrides.table = Some(table.table.clone());
        };
    borrowed fn rocksdb_compaction_service_options_override_set_statistics(options: rocksdb_options_t)
        |set| set.overrides.statistics = options.db.statistics.clone();
    borrowed fn rocksdb_compaction_service_options_override_set_info_log(logger: rocksdb_logger_t)
        |set| set.overrides.info_log = Some(logger.logger.clone());
    borrowed fn rocksdb_compaction_service_options_override_set_file_checksum_gen_factory(factory: rocksdb_file_checksum_gen_factory_t)
        |set| set.overrides.file_checksum_gen_factory = Some(factory.factory.clone());
    borrowed fn rocksdb_compaction_service_options_override_set_sst_partitioner_factory(factory: rocksdb_sst_partitioner_factory_t)
        |set| set.overrides.sst_partitioner_factory = Some(factory.factory.clone());
    taken fn rocksdb_compaction_service_options_override_add_event_listener(listener: rocksdb_eventlistener_t)
        |set| set.listeners.push(listener.callbacks);
}

/// Has no effect: tables stay block-based, as with `rocksdb_options_set_cuckoo_table_factory`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compaction_service_options_override_set_cuckoo_table_factory(
    _overrides: *mut rocksdb_compaction_service_options_override_t,
    _table: *mut rocksdb_cuckoo_table_options_t,
) {
}

/// Adds nothing, because no function makes a factory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compaction_service_options_override_add_table_properties_collector_factory(
    _overrides: *mut rocksdb_compaction_service_options_override_t,
    _factory: *mut rocksdb_table_properties_collector_factory_t,
) {
}

/// Unknown names are ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compaction_service_options_override_set_option(
    overrides: *mut rocksdb_compaction_service_options_override_t,
    key: *const c_char,
    value: *const c_char,
) {
    answer((), || {
        let overrides = object_mut(overrides)?;
        let option = (text(key)?.into_owned(), text(value)?.into_owned());
        overrides.overrides.options_map.push(option);
        Ok(())
    });
}

/// Makes a flag that cancels a worker. The caller destroys the flag with
/// `rocksdb_open_and_compact_canceled_destroy`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_open_and_compact_canceled_create() -> *mut c_uchar {
    Arc::into_raw(Arc::new(AtomicBool::new(false))).cast_mut().cast()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_open_and_compact_canceled_destroy(canceled: *mut c_uchar) {
    if !canceled.is_null() {
        drop(Arc::from_raw(canceled.cast::<AtomicBool>()));
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_open_and_compact_canceled_set(canceled: *mut c_uchar, value: c_uchar) {
    if let Some(flag) = canceled.cast::<AtomicBool>().as_ref() {
        flag.store(value != 0, Ordering::Release);
    }
}

/// Options of a worker's job.
#[derive(Clone, Debug, Default)]
pub struct rocksdb_open_and_compact_options_t {
    options: OpenAndCompactOptions,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_open_and_compact_options_create() -> *mut rocksdb_open_and_compact_options_t
{
    give(rocksdb_open_and_compact_options_t::default())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_open_and_compact_options_destroy(
    options: *mut rocksdb_open_and_compact_options_t,
) {
    destroy(options);
}

/// Sets the flag. The client and the options share it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_open_and_compact_options_set_canceled(
    options: *mut rocksdb_open_and_compact_options_t,
    canceled: *mut c_uchar,
) {
    answer((), || {
        let options = object_mut(options)?;
        if !canceled.is_null() {
            let flag = canceled.cast::<AtomicBool>().cast_const();
            Arc::increment_strong_count(flag);
            options.options.canceled = Some(Arc::from_raw(flag));
        }
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_open_and_compact_options_set_allow_resumption(
    options: *mut rocksdb_open_and_compact_options_t,
    allow_resumption: c_uchar,
) {
    answer((), || {
        object_mut(options)?.options.allow_resumption = allow_resumption != 0;
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_open_and_compact_options_get_allow_resumption(
    options: *mut rocksdb_open_and_compact_options_t,
) -> c_uchar {
    answer(0, || Ok(c_bool(object(options)?.options.allow_resumption)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_open_and_compact_options_set_max_secondary_open_retries(
    options: *mut rocksdb_open_and_compact_options_t,
    retries: u32,
) {
    answer((), || {
        object_mut(options)?.options.max_secondary_open_retries = retries;
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_open_and_compact_options_get_max_secondary_open_retries(
    options: *mut rocksdb_open_and_compact_options_t,
) -> u32 {
    answer(0, || Ok(object(options)?.options.max_secondary_open_retries))
}

/// Runs the job and returns its result, in memory made by `malloc` with a NUL at the end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_open_and_compact(
    db_path: *const c_char,
    output_directory: *const c_char,
    input: *const c_char,
    input_len: usize,
    output_len: *mut usize,
    overrides: *const rocksdb_compaction_service_options_override_t,
    errptr: *mut *mut c_char,
) -> *mut c_char {
    let options = rocksdb_open_and_compact_options_t::default();
    rocksdb_open_and_compact_with_options(
        &options,
        db_path,
        output_directory,
        input,
        input_len,
        output_len,
        overrides,
        errptr,
    )
}

/// Runs the job and returns its result, in memory made by `malloc` with a NUL at the end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_open_and_compact_with_options(
    options: *const rocksdb_open_and_compact_options_t,
    db_path: *const c_char,
    output_directory: *const c_char,
    input: *const c_char,
    input_len: usize,
    output_len: *mut usize,
    overrides: *const rocksdb_compaction_service_options_override_t,
    errptr: *mut *mut c_char,
) -> *mut c_char {
    attempt(errptr, std::ptr::null_mut(), || {
        let (options, overrides) = (object(options)?, object(overrides)?);
        if let Some(refused) = overrides.refused.first() {
            return Err(Error::invalid_argument(refused));
        }
        let mut with_listeners = overrides.overrides.clone();
        for callbacks in &overrides.listeners {
            let listener = ClientListener { callbacks: callbacks.clone(), handle: no_handle() };
            with_listeners.listeners.push(Arc::new(listener));
        }
        let (database, output, input) = (path(db_path)?, path(output_directory)?, bytes(input, input_len)?);
        let result = Db::open_and_compact(&options.options, database, output, input, &with_listeners)?;
        put(output_len, result.len());
        Ok(to_c_string(&result))
    })
}
