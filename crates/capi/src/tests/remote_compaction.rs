//! A C program that opens a database, and runs its compactions as a worker.

use super::*;
use esker_testkit::TempDir;
use libc::{c_char, c_int, c_void};
use std::ffi::{CStr, CString};
use std::ptr;

/// The state of the C program's compaction service.
#[derive(Default)]
struct Service {
    database: String,
    output: String,
    input: Vec<u8>,
    waits: usize,
    installed: Vec<c_int>,
    cancelled: bool,
}

fn c(text: &str) -> CString {
    CString::new(text).unwrap()
}

/// Copies the message and frees it.
unsafe fn message(error: *mut c_char) -> Option<String> {
    if error.is_null() {
        return None;
    }
    let text = unsafe { CStr::from_ptr(error) }.to_str().unwrap().to_owned();
    unsafe { rocksdb_free(error.cast()) };
    Some(text)
}

unsafe extern "C" fn schedule(
    state: *mut c_void,
    info: *const rocksdb_compactionservice_jobinfo_t,
    input: *const c_char,
    len: usize,
) -> *mut rocksdb_compactionservice_scheduleresponse_t {
    // SAFETY: the state lives as long as the options; `info` and `input` live during the call.
    unsafe {
        let service = &mut *state.cast::<Service>();
        let mut name_len = 0;
        let name = rocksdb_compactionservice_jobinfo_t_get_db_name(info, &mut name_len);
        let name = std::slice::from_raw_parts(name.cast::<u8>(), name_len);
        service.database = std::str::from_utf8(name).unwrap().to_owned();
        assert_eq!(rocksdb_compactionservice_jobinfo_t_get_output_level(info), 6);
        assert_eq!(rocksdb_compactionservice_jobinfo_t_get_base_input_level(info), 0);
        assert_eq!(rocksdb_compactionservice_jobinfo_t_is_manual_compaction(info), 1);
        service.input = std::slice::from_raw_parts(input.cast::<u8>(), len).to_vec();
        rocksdb_compactionservice_scheduleresponse_create(c("the job").as_ptr(), 0, ptr::null_mut())
    }
}

unsafe extern "C" fn wait(
    state: *mut c_void,
    id: *const c_char,
    result: *mut *mut c_char,
    len: *mut usize,
) -> c_int {
    // SAFETY: the state lives as long as the options; `id`, `result` and `len` live in the call.
    unsafe {
        let service = &mut *state.cast::<Service>();
        service.waits += 1;
        assert_eq!(CStr::from_ptr(id).to_str().unwrap(), "the job");
        let (database, output) = (c(&service.database), c(&service.output));
        let overrides = rocksdb_compaction_service_options_override_create();
        rocksdb_compaction_service_options_override_set_option(
            overrides,
            c("no_such_option").as_ptr(),
            c("1").as_ptr(),
        );
        let mut error = ptr::null_mut();
        *result = rocksdb_open_and_compact(
            database.as_ptr(),
            output.as_ptr(),
            service.input.as_ptr().cast(),
            service.input.len(),
            len,
            overrides,
            &mut error,
        );
        rocksdb_compaction_service_options_override_destroy(overrides);
        assert_eq!(message(error), None);
        0
    }
}

unsafe extern "C" fn cancel(state: *mut c_void) {
    // SAFETY: the state lives as long as the options.
    unsafe { (*state.cast::<Service>()).cancelled = true };
}

unsafe extern "C" fn installed(state: *mut c_void, _id: *const c_char, status: c_int) {
    // SAFETY: the state lives as long as the options.
    unsafe { (*state.cast::<Service>()).installed.push(status) };
}

#[test]
fn a_worker_behind_the_c_api_compacts_for_a_database_of_it() {
    let dir = TempDir::new("c_remote");
    let path = c(dir.join("db").to_str().unwrap());
    let mut service = Service { output: dir.join("out").to_str().unwrap().to_owned(), ..Service::default() };
    // SAFETY: the objects are created here and destroyed once; the state outlives the options.
    unsafe {
        let state: *mut c_void = (&raw mut service).cast();
        let options = rocksdb_options_create();
        rocksdb_options_set_create_if_missing(options, 1);
        let created = rocksdb_compactionservice_create(
            state,
            None,
            Some(schedule),
            c("test").as_ptr(),
            Some(wait),
            Some(cancel),
            Some(installed),
        );
        rocksdb_options_set_compaction_service(options, created);
        let mut error = ptr::null_mut();
        let db = rocksdb_open(options, path.as_ptr(), &mut error);
        assert_eq!(message(error), None);
        let (write, flush) = (rocksdb_writeoptions_create(), rocksdb_flushoptions_create());
        for value in ["gravel", "sand"] {
            rocksdb_put(db, write, c("esker").as_ptr(), 5, c(value).as_ptr(), value.len(), &mut error);
            rocksdb_flush(db, flush, &mut error);
            assert_eq!(message(error), None);
        }
        rocksdb_compact_range(db, ptr::null(), 0, ptr::null(), 0);
        let (read, mut len) = (rocksdb_readoptions_create(), 0);
        let value = rocksdb_get(db, read, c("esker").as_ptr(), 5, &mut len, &mut error);
        assert_eq!(std::slice::from_raw_parts(value.cast::<u8>(), len), b"sand");
        rocksdb_free(value.cast());
        rocksdb_readoptions_destroy(read);
        rocksdb_writeoptions_destroy(write);
        rocksdb_flushoptions_destroy(flush);
        rocksdb_close(db);
        rocksdb_options_destroy(options);
    }
    assert_eq!((service.waits, service.installed.as_slice()), (1, &[0][..]));
    assert!(service.cancelled, "closing cancels waiting jobs");
}

#[test]
fn a_cancelled_worker_says_so_and_wrong_statuses_are_refused() {
    // SAFETY: the objects are created here and destroyed once.
    unsafe {
        let mut error = ptr::null_mut();
        for status in [-1, 4, 999] {
            let response = rocksdb_compactionservice_scheduleresponse_create_with_status(status, &mut error);
            assert!(response.is_null());
        }
        assert!(message(error).unwrap().contains("Invalid status value. Must be 0-3."));
        error = ptr::null_mut();
        let flag = rocksdb_open_and_compact_canceled_create();
        let options = rocksdb_open_and_compact_options_create();
        rocksdb_open_and_compact_options_set_canceled(options, flag);
        rocksdb_open_and_compact_canceled_set(flag, 1);
        rocksdb_open_and_compact_canceled_destroy(flag);
        let overrides = rocksdb_compaction_service_options_override_create();
        let (mut len, job) = (0, c("no job"));
        let none = rocksdb_open_and_compact_with_options(
            options,
            c("/nowhere").as_ptr(),
            c("/nowhere").as_ptr(),
            job.as_ptr(),
            6,
            &mut len,
            overrides,
            &mut error,
        );
        assert!(none.is_null());
        assert!(message(error).is_some());
        rocksdb_compaction_service_options_override_destroy(overrides);
        rocksdb_open_and_compact_options_destroy(options);
    }
}
