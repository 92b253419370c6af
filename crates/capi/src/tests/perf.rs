//! Performance contexts: metrics by their numbers in `c.h`.

use super::*;

/// Numbers of `c.h`.
const BLOCK_READ_TIME: i32 = 4;
const GET_FROM_MEMTABLE_TIME: i32 = 15;
const WRITE_WAL_TIME: i32 = 29;

#[test]
fn metrics_have_the_times_of_the_calling_thread() {
    let dir = esker_testkit::TempDir::new("perf");
    let path = CString::new(dir.path().to_str().unwrap()).unwrap();
    let mut error: *mut c_char = std::ptr::null_mut();
    // SAFETY: the objects are created here and destroyed once.
    unsafe {
        let options = rocksdb_options_create();
        rocksdb_options_set_create_if_missing(options, 1);
        let db = rocksdb_open(options, path.as_ptr(), &raw mut error);
        let (write, read) = (rocksdb_writeoptions_create(), rocksdb_readoptions_create());
        let context = rocksdb_perfcontext_create();
        for (level, is_timed) in [(2, false), (4, true)] {
            rocksdb_set_perf_level(level);
            rocksdb_perfcontext_reset(context);
            rocksdb_put(db, write, c"key".as_ptr(), 3, c"value".as_ptr(), 5, &raw mut error);
            let mut length = 0;
            let value = rocksdb_get(db, read, c"key".as_ptr(), 3, &raw mut length, &raw mut error);
            assert_eq!(length, 5);
            rocksdb_free(value.cast());
            for metric in [GET_FROM_MEMTABLE_TIME, WRITE_WAL_TIME] {
                assert_eq!(rocksdb_perfcontext_metric(context, metric) > 0, is_timed, "{metric} {level}");
            }
            assert_eq!(rocksdb_perfcontext_metric(context, BLOCK_READ_TIME), 0);
            let report = rocksdb_perfcontext_report(context, 1);
            let text = CStr::from_ptr(report).to_str().unwrap();
            assert_eq!(text.contains("write_memtable_time = "), is_timed, "{text}");
            rocksdb_free(report.cast());
        }
        assert!(error.is_null());
        rocksdb_set_perf_level(2);
        rocksdb_perfcontext_destroy(context);
        rocksdb_readoptions_destroy(read);
        rocksdb_writeoptions_destroy(write);
        rocksdb_close(db);
        rocksdb_options_destroy(options);
    }
}
