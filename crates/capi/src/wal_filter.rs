//! Filters of WAL records (`rocksdb_walfilter_t`).
//!
//! In: functions of the client and their state. Out: Esker's trait. The wrapper and each options
//! object with the filter share it. The last owner frees the client's state.

use crate::batch::rocksdb_writebatch_t;
use crate::callbacks::ClientState;
use crate::memory::{destroy, give, object};
use crate::options::{change, rocksdb_options_t};
use esker::options::{WalFilter, WalFilterDecision, WalFilterRecord, WalFilterRef};
use esker::{ColumnFamilyId, FileNumber, WriteBatch};
use libc::{c_char, c_int, c_uchar, c_ulonglong, c_void};
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// A filter of WAL records.
#[derive(Debug)]
pub struct rocksdb_walfilter_t {
    filter: WalFilterRef,
}

type LogNumberMap = unsafe extern "C" fn(
    *mut c_void,
    *const u32,
    *const u64,
    usize,
    *const *const c_char,
    *const usize,
    *const u32,
    usize,
);
type LogRecordFound = unsafe extern "C" fn(
    *mut c_void,
    c_ulonglong,
    *const c_char,
    usize,
    *const rocksdb_writebatch_t,
    *mut rocksdb_writebatch_t,
    *mut c_uchar,
) -> c_int;

/// Results of the client's filter function, by RocksDB's numbers.
const CONTINUE_PROCESSING: c_int = 0;
const IGNORE_CURRENT_RECORD: c_int = 1;
const STOP_REPLAY: c_int = 2;

struct ClientWalFilter {
    name: String,
    log_number_map: Option<LogNumberMap>,
    log_record_found: Option<LogRecordFound>,
    state: ClientState,
}

impl WalFilter for ClientWalFilter {
    fn name(&self) -> &str {
        &self.name
    }

    fn column_family_log_number_map(
        &self,
        log_numbers: &BTreeMap<ColumnFamilyId, FileNumber>,
        ids: &BTreeMap<&str, ColumnFamilyId>,
    ) {
        let Some(log_number_map) = self.log_number_map else { return };
        let (families, numbers): (Vec<u32>, Vec<u64>) =
            log_numbers.iter().map(|(id, wal)| (id.0, wal.0)).unzip();
        let names: Vec<*const c_char> = ids.keys().map(|name| name.as_ptr().cast()).collect();
        let lens: Vec<usize> = ids.keys().map(|name| name.len()).collect();
        let name_ids: Vec<u32> = ids.values().map(|id| id.0).collect();
        unsafe {
            log_number_map(
                self.state.get(),
                families.as_ptr(),
                numbers.as_ptr(),
                families.len(),
                names.as_ptr(),
                lens.as_ptr(),
                name_ids.as_ptr(),
                names.len(),
            );
        }
    }

    fn log_record_found(&self, record: &WalFilterRecord<'_>) -> WalFilterDecision {
        let Some(log_record_found) = self.log_record_found else {
            return WalFilterDecision::ContinueProcessing;
        };
        let batch = rocksdb_writebatch_t::new(record.batch.clone());
        let mut new_batch = rocksdb_writebatch_t::new(WriteBatch::new());
        let mut is_changed = 0;
        let name = record.log_file_name.as_os_str().as_bytes();
        let decision = unsafe {
            log_record_found(
                self.state.get(),
                record.log_number.0,
                name.as_ptr().cast(),
                name.len(),
                &raw const batch,
                &raw mut new_batch,
                &raw mut is_changed,
            )
        };
        match (decision, is_changed) {
            (CONTINUE_PROCESSING, 0) => WalFilterDecision::ContinueProcessing,
            (CONTINUE_PROCESSING, _) => WalFilterDecision::ChangeBatch(new_batch.batch),
            (IGNORE_CURRENT_RECORD, _) => WalFilterDecision::IgnoreCurrentRecord,
            (STOP_REPLAY, _) => WalFilterDecision::StopReplay,
            _ => WalFilterDecision::CorruptedRecord,
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_walfilter_create(
    state: *mut c_void,
    destructor: Option<unsafe extern "C" fn(*mut c_void)>,
    log_number_map: Option<LogNumberMap>,
    log_record_found: Option<LogRecordFound>,
    name: Option<unsafe extern "C" fn(*mut c_void) -> *const c_char>,
) -> *mut rocksdb_walfilter_t {
    let state = ClientState::new(state, destructor);
    let name = state.name(name);
    give(rocksdb_walfilter_t {
        filter: Arc::new(ClientWalFilter { name, log_number_map, log_record_found, state }),
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_walfilter_destroy(filter: *mut rocksdb_walfilter_t) {
    destroy(filter);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_wal_filter(
    options: *mut rocksdb_options_t,
    filter: *mut rocksdb_walfilter_t,
) {
    change(options, |options| {
        options.db.wal_filter = if filter.is_null() { None } else { Some(object(filter)?.filter.clone()) };
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_clear_wal_filter(options: *mut rocksdb_options_t) {
    change(options, |options| {
        options.db.wal_filter = None;
        Ok(())
    });
}
