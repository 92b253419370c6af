//! Tests that need no JVM: the table of natives, and conversions.

use crate::border::status_texts;
use crate::field::JavaField;
use crate::filters::{FlinkConfig, FlinkRules};
use crate::handle::{NativeHandle, dispose, give, none};
use crate::jni::{JNI_OnLoad, JavaEnv, Reference, attached};
use crate::options::{Call, CfSettings};
use crate::release::JavaRelease;
use esker::compaction_filter::FilterDecision;
use esker::observe::WriteStallCondition;
use esker::options::{CompactionPri, CompressionType, InfoLogLevel};
use esker::{Error, ErrorKind, SubCode};
use jni_sys::{JNI_EDETACHED, JNI_OK, JavaVM};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Each native with its descriptor, its symbol, and whether it is built.
const NATIVES: &[(&str, &str, bool)] = &include!(concat!(env!("OUT_DIR"), "/table.rs"));

/// Natives that Kafka Streams 4.3.1, Flink 2.0.0 and 2.3.0, and RheaKV 1.3.15 called in runs of
/// jobs, and the stores of Samza 1.8.0, without the suffix `Jni`; with the descriptor where other
/// natives of the name are not built.
const CALLED_BY_ENGINES: [&str; 168] = [
    "AbstractCompactionFilterFactory.createNewCompactionFilterFactory0",
    "AbstractCompactionFilterFactory.disposeInternal",
    "BlockBasedTableConfig.newTableFactoryHandle",
    "BloomFilter.createNewBloomFilter",
    "Checkpoint.createCheckpoint",
    "Checkpoint.disposeInternal",
    "Checkpoint.newCheckpoint",
    "ColumnFamilyHandle.disposeInternal",
    "ColumnFamilyHandle.getDescriptor",
    "ColumnFamilyHandle.getName",
    "ColumnFamilyOptions.arenaBlockSize",
    "ColumnFamilyOptions.copyColumnFamilyOptions",
    "ColumnFamilyOptions.disposeInternal",
    "ColumnFamilyOptions.newColumnFamilyOptions",
    "ColumnFamilyOptions.optimizeLevelStyleCompaction",
    "ColumnFamilyOptions.setCompactionFilterFactoryHandle",
    "ColumnFamilyOptions.setCompactionStyle",
    "ColumnFamilyOptions.setCompressionPerLevel",
    "ColumnFamilyOptions.setCompressionType",
    "ColumnFamilyOptions.setForceConsistencyChecks",
    "ColumnFamilyOptions.setLevel0FileNumCompactionTrigger",
    "ColumnFamilyOptions.setLevel0SlowdownWritesTrigger",
    "ColumnFamilyOptions.setLevel0StopWritesTrigger",
    "ColumnFamilyOptions.setLevelCompactionDynamicLevelBytes",
    "ColumnFamilyOptions.setMaxBytesForLevelBase",
    "ColumnFamilyOptions.setMaxWriteBufferNumber",
    "ColumnFamilyOptions.setMemtablePrefixBloomSizeRatio",
    "ColumnFamilyOptions.setMergeOperator",
    "ColumnFamilyOptions.setMergeOperatorName",
    "ColumnFamilyOptions.setMinWriteBufferNumberToMerge",
    "ColumnFamilyOptions.setOptimizeFiltersForHits",
    "ColumnFamilyOptions.setPeriodicCompactionSeconds",
    "ColumnFamilyOptions.setTableFactory",
    "ColumnFamilyOptions.setTargetFileSizeBase",
    "ColumnFamilyOptions.setWriteBufferSize",
    "ColumnFamilyOptions.useFixedLengthPrefixExtractor",
    "ColumnFamilyOptions.writeBufferSize",
    "CompactionOptionsUniversal.newCompactionOptionsUniversal",
    "DBOptions.copyDBOptions",
    "DBOptions.disposeInternal",
    "DBOptions.newDBOptions",
    "DBOptions.setAtomicFlush",
    "DBOptions.setAvoidFlushDuringShutdown",
    "DBOptions.setCreateIfMissing",
    "DBOptions.setCreateMissingColumnFamilies",
    "DBOptions.setEnv",
    "DBOptions.setErrorIfExists",
    "DBOptions.setIncreaseParallelism",
    "DBOptions.setInfoLogLevel",
    "DBOptions.setKeepLogFileNum",
    "DBOptions.setMaxBackgroundJobs",
    "DBOptions.setMaxLogFileSize",
    "DBOptions.setMaxOpenFiles",
    "DBOptions.setMaxTotalWalSize",
    "DBOptions.setStatistics",
    "DBOptions.setStatsDumpPeriodSec",
    "DBOptions.setUseFsync",
    "DBOptions.setWriteBufferManager",
    "DBOptions.statistics",
    "Env.getDefaultEnvInternal",
    "EnvOptions.disposeInternal",
    "EnvOptions.newEnvOptions",
    "Filter.disposeInternal",
    "FlinkCompactionFilter.configureFlinkCompactionFilter",
    "FlinkCompactionFilter.createNewFlinkCompactionFilter0",
    "FlinkCompactionFilter.createNewFlinkCompactionFilterConfigHolder",
    "FlinkCompactionFilter.disposeFlinkCompactionFilterConfigHolder",
    "FlushOptions.disposeInternal",
    "FlushOptions.newFlushOptions",
    "FlushOptions.setWaitForFlush",
    "IngestExternalFileOptions.disposeInternal",
    "IngestExternalFileOptions.newIngestExternalFileOptions",
    "LRUCache.disposeInternal",
    "LRUCache.newLRUCache",
    "Options.disableAutoCompactions",
    "Options.disposeInternal",
    "Options.newOptions",
    "Options.prepareForBulkLoad",
    "Options.setCompactionOptionsUniversal",
    "Options.setCompactionStyle",
    "Options.setCompressionType",
    "Options.setCreateIfMissing",
    "Options.setDeleteObsoleteFilesPeriodMicros",
    "Options.setErrorIfExists",
    "Options.setKeepLogFileNum",
    "Options.setLevel0FileNumCompactionTrigger",
    "Options.setManualWalFlush",
    "Options.setMaxBackgroundCompactions",
    "Options.setMaxFileOpeningThreads",
    "Options.setMaxLogFileSize",
    "Options.setMaxManifestFileSize",
    "Options.setMaxOpenFiles",
    "Options.setMaxWriteBufferNumber",
    "Options.setMergeOperator",
    "Options.setNumLevels",
    "Options.setTableFactory",
    "Options.setTargetFileSizeBase",
    "Options.setWalRecoveryMode",
    "Options.setWriteBufferSize",
    "ReadOptions.disposeInternal",
    "ReadOptions.newReadOptions",
    "ReadOptions.setSnapshot",
    "ReadOptions.setTotalOrderSeek",
    "ReadOptions.snapshot",
    "RocksDB.closeDatabase",
    "RocksDB.compactRange",
    "RocksDB.createColumnFamilies",
    "RocksDB.createColumnFamily",
    "RocksDB.delete",
    "RocksDB.deleteFilesInRanges",
    "RocksDB.deleteRange",
    "RocksDB.destroyDB",
    "RocksDB.disposeInternal",
    "RocksDB.flush",
    "RocksDB.flushWal",
    "RocksDB.get",
    "RocksDB.getDefaultColumnFamily",
    "RocksDB.getLongProperty",
    "RocksDB.getProperty",
    "RocksDB.getSnapshot",
    "RocksDB.ingestExternalFile",
    "RocksDB.iterator",
    "RocksDB.iteratorCF",
    "RocksDB.listColumnFamilies",
    "RocksDB.merge",
    "RocksDB.multiGet",
    "RocksDB.open",
    "RocksDB.openROnly",
    "RocksDB.put",
    "RocksDB.releaseSnapshot",
    "RocksDB.version",
    "RocksDB.write0",
    "RocksIterator.disposeInternal",
    "RocksIterator.isValid0",
    "RocksIterator.key0",
    "RocksIterator.next0",
    "RocksIterator.prev0",
    "RocksIterator.seek0",
    "RocksIterator.seekForPrev0",
    "RocksIterator.seekToFirst0",
    "RocksIterator.seekToLast0",
    "RocksIterator.status0",
    "RocksIterator.value0",
    "SstFileWriter.disposeInternal",
    "SstFileWriter.finish",
    "SstFileWriter.newSstFileWriter",
    "SstFileWriter.open",
    "SstFileWriter.put(J[B[B)V",
    "Statistics.disposeInternal",
    "Statistics.newStatistics",
    "StringAppendOperator.newSharedStringAppendOperator",
    "TtlDB.closeDatabase",
    "TtlDB.disposeInternal",
    "TtlDB.open",
    "WriteBatch.clear0",
    "WriteBatch.count0",
    "WriteBatch.delete",
    "WriteBatch.disposeInternal",
    "WriteBatch.getDataSize",
    "WriteBatch.merge",
    "WriteBatch.newWriteBatch",
    "WriteBatch.put",
    "WriteBufferManager.disposeInternal",
    "WriteBufferManager.newWriteBufferManager",
    "WriteOptions.disposeInternal",
    "WriteOptions.newWriteOptions",
    "WriteOptions.setDisableWAL",
    "WriteOptions.setSync",
];

/// The native's class and method, without the suffix that release 10 added.
fn name_of(native: &str) -> &str {
    let name = native.split('(').next().unwrap();
    name.strip_suffix("Jni").unwrap_or(name)
}

#[test]
fn every_native_that_the_engines_call_is_built() {
    for wanted in CALLED_BY_ENGINES {
        let is_wanted = |native: &&(&str, &str, bool)| name_of(native.0) == wanted || native.0 == wanted;
        let overloads: Vec<_> = NATIVES.iter().filter(is_wanted).collect();
        assert!(!overloads.is_empty(), "no release has {wanted}");
        for (native, _, is_built) in overloads {
            assert!(is_built, "{native} is not built");
        }
    }
}

#[test]
fn symbols_are_those_of_the_jni_specification() {
    let symbol = |wanted: &str| NATIVES.iter().find(|native| native.0 == wanted).unwrap().1;
    assert_eq!(symbol("RocksDB.get(J[BII)[B"), "Java_org_rocksdb_RocksDB_get__J_3BII");
    assert_eq!(symbol("RocksDB.version()I"), "Java_org_rocksdb_RocksDB_version__");
    assert_eq!(
        symbol("OptimisticTransactionDB.beginTransaction_withOld(JJJ)J"),
        "Java_org_rocksdb_OptimisticTransactionDB_beginTransaction_1withOld__JJJ"
    );
    assert_eq!(
        symbol("WriteBatch$Handler.createNewHandler0()J"),
        "Java_org_rocksdb_WriteBatch_00024Handler_createNewHandler0__"
    );
    assert_eq!(
        symbol("RocksDB.open(JLjava/lang/String;[[B[J)[J"),
        "Java_org_rocksdb_RocksDB_open__JLjava_lang_String_2_3_3B_3J"
    );
    let symbols: BTreeSet<&str> = NATIVES.iter().map(|native| native.1).collect();
    assert_eq!(symbols.len(), NATIVES.len(), "two natives share a symbol");
}

/// The lists of docs/compat/java.md: natives that are built, and those that are not.
fn lists() -> String {
    let mut text = String::new();
    for (title, built) in [("Built", true), ("Not built", false)] {
        let natives: BTreeSet<&str> =
            NATIVES.iter().filter(|native| native.2 == built).map(|native| name_of(native.0)).collect();
        text.push_str(&format!("## {title}\n\n```text\n"));
        let mut line = String::new();
        let mut class = "";
        for (this_class, method) in natives.iter().filter_map(|native| native.split_once('.')) {
            let word =
                if this_class == class { method.to_owned() } else { format!("{this_class}: {method}") };
            if this_class != class || line.len() + word.len() >= 100 {
                text.push_str(&line);
                text.push_str(if line.is_empty() { "" } else { "\n" });
                line = if this_class == class { format!("  {word}") } else { word };
                class = this_class;
            } else {
                line.push_str(&format!(" {word}"));
            }
        }
        text.push_str(&format!("{line}\n```\n\n"));
    }
    text.trim_end().to_owned() + "\n"
}

#[test]
fn the_page_lists_the_natives_that_are_built_and_those_that_are_not() {
    let page = include_str!("../../../docs/compat/java.md");
    let at = page.find("## Built").expect("the page has the lists");
    let wanted = lists();
    if page[at..] != wanted {
        println!("{wanted}");
    }
    assert!(page[at..] == wanted, "docs/compat/java.md must end with the lists that this test prints");
}

#[test]
fn errors_have_the_numbers_of_rocksjavas_status() {
    let parts = status_texts(&Error::busy("locked").with_subcode(SubCode::LockTimeout));
    assert_eq!((parts.code, parts.subcode, parts.state.as_str()), (11, 2, "locked"));
    let parts = status_texts(&Error::io("full").with_subcode(SubCode::NoSpace));
    assert_eq!((parts.code, parts.subcode), (5, 4));
    // RocksJava has no number for this kind.
    let parts = status_texts(&Error::new(ErrorKind::ColumnFamilyDropped, ""));
    assert_eq!((parts.code, parts.subcode), (0x7F, 0));
}

#[test]
fn the_conditions_of_writers_have_the_numbers_of_the_release() {
    let of = |release| {
        let conditions =
            [WriteStallCondition::Normal, WriteStallCondition::Delayed, WriteStallCondition::Stopped];
        conditions.map(|condition| crate::events::condition_number(release, condition))
    };
    assert_eq!(of(JavaRelease::V7_0), [0, 1, 2]);
    assert_eq!(of(JavaRelease::V8_8), [2, 0, 1]);
}

#[test]
fn numbers_wrap_around_as_in_rocksjava() {
    let mut bytes = 0_u64;
    JavaField::<i64>::store(&mut bytes, -1).unwrap();
    assert_eq!(bytes, u64::MAX);
    assert_eq!(JavaField::<i64>::load(&bytes), -1);
}

#[test]
fn a_compression_that_is_turned_off_has_rocksjavas_number() {
    let mut bottommost = Some(CompressionType::Lz4);
    bottommost.store(0x7F).unwrap();
    assert_eq!(bottommost, None);
    assert_eq!(bottommost.load(), 0x7F);
    bottommost.store(7).unwrap();
    assert_eq!(bottommost, Some(CompressionType::Zstd));
    assert!(bottommost.store(0x33).is_err());
}

/// A handle as a native gets it.
fn handle<T>(object: T) -> NativeHandle<T> {
    // SAFETY: the number is new, and this test alone uses it.
    unsafe { NativeHandle::new(give(object)) }
}

#[test]
fn a_setter_and_its_getter_agree() {
    let options = handle(CfSettings::default());
    crate::field::set(options, "setTtl", 77_i64, |object: &mut CfSettings| &mut object.cf.ttl).unwrap();
    let ttl: i64 = crate::field::get(options, |object: &CfSettings| &object.cf.ttl).unwrap();
    assert_eq!(ttl, 77);
    let wrong = crate::field::set(options, "setCompactionPriority", 99_i8, |object: &mut CfSettings| {
        &mut object.cf.compaction_pri
    });
    assert!(wrong.is_err());
    let priority: i8 = crate::field::get(options, |object: &CfSettings| &object.cf.compaction_pri).unwrap();
    assert_eq!(priority, CompactionPri::MinOverlappingRatio as i8);
    dispose(options).unwrap();
}

#[test]
fn a_held_value_comes_back_and_has_a_default() {
    let options = handle(Call::<esker::WriteOptions>::default());
    let held = || crate::field::held::<_, i64>(options, "x", 5.0, |object| &object.held).unwrap();
    assert_eq!(held(), 5);
    crate::field::hold(options, "x", -9_i64, |object| &mut object.held).unwrap();
    assert_eq!(held(), -9);
    dispose(options).unwrap();
}

#[test]
fn the_handle_0_is_an_error_and_not_an_object() {
    let options: NativeHandle<CfSettings> = none();
    assert!(options.get().is_err());
    assert!(options.get_mut().is_err());
    assert!(options.find().is_none());
    dispose(options).unwrap();
}

#[test]
#[cfg(debug_assertions)]
fn a_handle_of_another_type_is_found_in_debug_builds() {
    let options = handle(Call::<esker::WriteOptions>::default());
    // SAFETY: the check fails before anything uses the object.
    let wrong: NativeHandle<CfSettings> = unsafe { NativeHandle::new(options.number()) };
    let panic = std::panic::catch_unwind(|| wrong.get().is_ok()).unwrap_err();
    let text = panic.downcast_ref::<String>().unwrap();
    assert!(text.contains("CfSettings") && text.contains("WriteOptions"), "{text}");
    dispose(options).unwrap();
}

#[test]
fn the_head_of_a_log_counts_as_information() {
    let level = crate::callbacks::level_of_line;
    assert_eq!(level(InfoLogLevel::Header, InfoLogLevel::Info), Some(InfoLogLevel::Info));
    assert_eq!(level(InfoLogLevel::Header, InfoLogLevel::Error), None);
    assert_eq!(level(InfoLogLevel::Warn, InfoLogLevel::Error), None);
    assert_eq!(level(InfoLogLevel::Fatal, InfoLogLevel::Error), Some(InfoLogLevel::Fatal));
}

/// Rules of a state whose entries live for 100 milliseconds.
fn rules_of_flink(state_type: i32, timestamp_offset: i32, fixed_element_length: i32) -> FlinkRules {
    let config = FlinkConfig {
        state_type,
        timestamp_offset,
        ttl: 100,
        query_time_after_num_entries: 1,
        fixed_element_length,
    };
    FlinkRules::new(&config, None)
}

/// The decision of `rules` at millisecond 1000.
fn decided(rules: &FlinkRules, bytes: &[u8], is_operand: bool) -> FilterDecision {
    rules.decide(bytes, is_operand, 1000, |_| panic!("no factory is in Java"))
}

/// Elements of a list, with Flink's delimiter between them: a timestamp and one byte.
fn elements(timestamps: &[i64]) -> Vec<u8> {
    let element = |time: &i64| [time.to_be_bytes().as_slice(), b"x"].concat();
    timestamps.iter().map(element).collect::<Vec<_>>().join(&b',')
}

#[test]
fn flinks_filter_removes_values_that_have_expired() {
    let (value, map) = (rules_of_flink(1, 0, 0), rules_of_flink(1, 1, 0));
    let of_map = |time: i64| [b"\0".as_slice(), &elements(&[time])].concat();
    assert_eq!(decided(&value, &elements(&[900]), false), FilterDecision::Remove);
    assert_eq!(decided(&value, &elements(&[901]), false), FilterDecision::Keep);
    assert_eq!(decided(&map, &of_map(900), false), FilterDecision::Remove);
    assert_eq!(decided(&map, &of_map(901), false), FilterDecision::Keep);
    // A time near the end never expires, and neither does a value without a whole timestamp.
    assert_eq!(decided(&value, &elements(&[i64::MAX]), false), FilterDecision::Keep);
    assert_eq!(decided(&value, &[0; 7], false), FilterDecision::Keep);
    assert_eq!(decided(&map, &[0; 8], false), FilterDecision::Keep);
    // Only lists have merge operands that expire.
    assert_eq!(decided(&value, &elements(&[900]), true), FilterDecision::Keep);
    assert_eq!(decided(&rules_of_flink(0, 0, 0), &elements(&[900]), false), FilterDecision::Keep);
}

#[test]
fn flinks_filter_removes_the_expired_beginning_of_a_list() {
    let list = rules_of_flink(2, 0, 10);
    for is_operand in [false, true] {
        let decided = |timestamps: &[i64]| decided(&list, &elements(timestamps), is_operand);
        assert_eq!(decided(&[901]), FilterDecision::Keep);
        assert_eq!(decided(&[901, 1]), FilterDecision::Keep);
        assert_eq!(decided(&[900]), FilterDecision::Remove);
        assert_eq!(decided(&[1, 2, 900]), FilterDecision::Remove);
        assert_eq!(decided(&[1, 2, 950, 3]), FilterDecision::ChangeValue(elements(&[950, 3])));
    }
    // Without a way to its elements a list is as old as its first element.
    assert_eq!(decided(&rules_of_flink(2, 0, 0), &elements(&[900, 950]), true), FilterDecision::Remove);
    assert_eq!(decided(&rules_of_flink(2, 0, 0), &elements(&[950, 900]), true), FilterDecision::Keep);
}

static ATTACHED: AtomicUsize = AtomicUsize::new(0);
static DETACHED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static IS_ATTACHED: Cell<bool> = const { Cell::new(false) };
    static AT_END: RefCell<Option<CallAtEnd>> = const { RefCell::new(None) };
}

/// A value of a thread that calls Java when it is destroyed.
struct CallAtEnd;

impl Drop for CallAtEnd {
    fn drop(&mut self) {
        attached(|_| Ok(())).unwrap();
    }
}

unsafe extern "system" fn env_of_thread(_: *mut JavaVM, _: *mut *mut c_void, _: i32) -> i32 {
    if IS_ATTACHED.get() { JNI_OK } else { JNI_EDETACHED }
}

unsafe extern "system" fn attach(_: *mut JavaVM, _: *mut *mut c_void, _: *mut c_void) -> i32 {
    ATTACHED.fetch_add(1, Ordering::Relaxed);
    IS_ATTACHED.set(true);
    JNI_OK
}

unsafe extern "system" fn detach(_: *mut JavaVM) -> i32 {
    DETACHED.fetch_add(1, Ordering::Relaxed);
    IS_ATTACHED.set(false);
    JNI_OK
}

/// A JVM with the functions that `attached` calls, in the places of `JNIInvokeInterface`.
fn load_into_a_jvm() {
    let none = std::ptr::null::<c_void>();
    let functions: Box<[*const c_void; 8]> = Box::new([
        none,
        none,
        none,
        none,
        none,
        detach as *const c_void,
        env_of_thread as *const c_void,
        attach as *const c_void,
    ]);
    let vm: Box<JavaVM> = Box::new(Box::leak(functions).as_ptr().cast());
    JNI_OnLoad(Box::into_raw(vm), null_mut());
}

#[test]
fn a_thread_is_detached_as_often_as_it_is_attached() {
    load_into_a_jvm();
    std::thread::scope(|scope| {
        let call = || {
            // The first value of a thread is destroyed last.
            AT_END.set(Some(CallAtEnd));
            attached(|_| Ok(())).unwrap();
            attached(|_| Ok(())).unwrap();
            // Another library has detached the thread.
            IS_ATTACHED.set(false);
            attached(|_| {
                assert!(IS_ATTACHED.get(), "the call has an environment");
                Ok(())
            })
            .unwrap();
        };
        scope.spawn(call).join().unwrap();
    });
    // Once at the first call, once after the other library, once at the end.
    assert_eq!(ATTACHED.load(Ordering::Relaxed), 3);
    assert_eq!(DETACHED.load(Ordering::Relaxed), 2);
}

#[test]
fn the_class_of_no_object_is_an_error() {
    // SAFETY: no function of the environment is called.
    let env = unsafe { JavaEnv::new(null_mut()) };
    assert!(env.class_of(Reference::NULL).is_err());
}
