//! `AbstractEventListener`: tells Java of events of a database.
//!
//! In: events, on whichever thread the engine has them. Out: calls of the listener's methods that
//! it enables. No caller can take an exception of a listener, so it is printed and forgotten.
//!
//! A database in an event is the one that the open returned. Its handle is 0 during the open, and
//! in events that come after the close. `db.rs` clears the cell when no job runs any more.

use crate::border::NativeResult;
use crate::callbacks::ask_with;
use crate::events::{CompactionInfo, EVENT_REFERENCES, EventClasses};
use crate::handle::{NativeHandle, dispose, give, give_typed, handles};
use crate::jni::{Global, JavaEnv, Method, Reference, byte, long, reference};
use crate::options::HasDb;
use esker::observe::{
    BackgroundErrorReason, BackgroundErrorRecoveryInfo, CompactionJobInfo, EventListener,
    ExternalFileIngestionInfo, FileOperationInfo, FlushJobInfo, MemTableInfo, TableFileCreationBriefInfo,
    TableFileCreationInfo, TableFileDeletionInfo, WriteStallInfo,
};
use esker::{DbOptions, Error};
use jni_sys::jvalue;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Events, by RocksJava's numbers, and the question whether operations on files are wanted.
#[derive(Clone, Copy, Debug)]
enum JavaEvent {
    FlushCompleted = 0,
    FlushBegin = 1,
    TableFileDeleted = 2,
    CompactionBegin = 3,
    CompactionCompleted = 4,
    TableFileCreated = 5,
    TableFileCreationStarted = 6,
    MemTableSealed = 7,
    FamilyHandleDeletionStarted = 8,
    ExternalFileIngested = 9,
    BackgroundError = 10,
    StallConditionsChanged = 11,
    FileReadFinish = 12,
    FileWriteFinish = 13,
    FileFlushFinish = 14,
    FileSyncFinish = 15,
    FileRangeSyncFinish = 16,
    FileTruncateFinish = 17,
    FileCloseFinish = 18,
    ShouldBeNotifiedOnFileIo = 19,
    ErrorRecoveryBegin = 20,
    ErrorRecoveryCompleted = 21,
}

/// The names of methods and their arguments.
const METHODS: [(JavaEvent, &str, &str); 22] = [
    (JavaEvent::FlushCompleted, "onFlushCompletedProxy", "(JLorg/rocksdb/FlushJobInfo;)V"),
    (JavaEvent::FlushBegin, "onFlushBeginProxy", "(JLorg/rocksdb/FlushJobInfo;)V"),
    (JavaEvent::TableFileDeleted, "onTableFileDeleted", "(Lorg/rocksdb/TableFileDeletionInfo;)V"),
    (JavaEvent::CompactionBegin, "onCompactionBeginProxy", "(JLorg/rocksdb/CompactionJobInfo;)V"),
    (JavaEvent::CompactionCompleted, "onCompactionCompletedProxy", "(JLorg/rocksdb/CompactionJobInfo;)V"),
    (JavaEvent::TableFileCreated, "onTableFileCreated", "(Lorg/rocksdb/TableFileCreationInfo;)V"),
    (
        JavaEvent::TableFileCreationStarted,
        "onTableFileCreationStarted",
        "(Lorg/rocksdb/TableFileCreationBriefInfo;)V",
    ),
    (JavaEvent::MemTableSealed, "onMemTableSealed", "(Lorg/rocksdb/MemTableInfo;)V"),
    (
        JavaEvent::FamilyHandleDeletionStarted,
        "onColumnFamilyHandleDeletionStarted",
        "(Lorg/rocksdb/ColumnFamilyHandle;)V",
    ),
    (
        JavaEvent::ExternalFileIngested,
        "onExternalFileIngestedProxy",
        "(JLorg/rocksdb/ExternalFileIngestionInfo;)V",
    ),
    (JavaEvent::BackgroundError, "onBackgroundErrorProxy", "(BLorg/rocksdb/Status;)V"),
    (JavaEvent::StallConditionsChanged, "onStallConditionsChanged", "(Lorg/rocksdb/WriteStallInfo;)V"),
    (JavaEvent::FileReadFinish, "onFileReadFinish", FILE_OPERATION),
    (JavaEvent::FileWriteFinish, "onFileWriteFinish", FILE_OPERATION),
    (JavaEvent::FileFlushFinish, "onFileFlushFinish", FILE_OPERATION),
    (JavaEvent::FileSyncFinish, "onFileSyncFinish", FILE_OPERATION),
    (JavaEvent::FileRangeSyncFinish, "onFileRangeSyncFinish", FILE_OPERATION),
    (JavaEvent::FileTruncateFinish, "onFileTruncateFinish", FILE_OPERATION),
    (JavaEvent::FileCloseFinish, "onFileCloseFinish", FILE_OPERATION),
    (JavaEvent::ShouldBeNotifiedOnFileIo, "shouldBeNotifiedOnFileIO", "()Z"),
    (JavaEvent::ErrorRecoveryBegin, "onErrorRecoveryBeginProxy", "(BLorg/rocksdb/Status;)Z"),
    (JavaEvent::ErrorRecoveryCompleted, "onErrorRecoveryCompleted", "(Lorg/rocksdb/Status;)V"),
];

/// The descriptor of the methods for operations on files.
const FILE_OPERATION: &str = "(Lorg/rocksdb/FileOperationInfo;)V";

/// An `AbstractEventListener`.
#[derive(Debug)]
pub(crate) struct JavaListener {
    object: Global,
    /// By the event's number; `None` if the listener does not want the event.
    methods: [Option<Method>; 22],
    classes: EventClasses,
}

/// The native object of a listener.
#[derive(Debug)]
pub(crate) struct ListenerObject(Arc<JavaListener>);

/// The listeners of options.
pub(crate) type JavaListeners = Vec<Arc<JavaListener>>;

/// The listeners of an opened database, and the cell of the database's handle.
#[derive(Clone, Debug, Default)]
pub(crate) struct DatabaseEvents {
    handle: Arc<AtomicI64>,
    listeners: JavaListeners,
}

/// A listener of one opened database.
struct OpenListener {
    listener: Arc<JavaListener>,
    handle: Arc<AtomicI64>,
}

impl JavaListener {
    /// Calls the method of `event` with the arguments that `make` makes.
    fn call(
        &self,
        event: JavaEvent,
        make: impl FnOnce(&JavaEnv<'_>, &EventClasses) -> NativeResult<Vec<jvalue>>,
    ) {
        let Some(method) = self.methods[event as usize] else { return };
        ask_with(EVENT_REFERENCES, |env| {
            env.call_void(self.object.get(), method, &make(env, &self.classes)?)
        });
    }
}

impl DatabaseEvents {
    /// The options with these listeners of a database to open.
    pub(crate) fn of<T: HasDb>(settings: &T) -> (DbOptions, DatabaseEvents) {
        let (mut options, listeners) = (settings.db_ref().clone(), settings.listeners_ref().clone());
        let events = DatabaseEvents { handle: Arc::default(), listeners };
        for listener in &events.listeners {
            let (listener, handle) = (listener.clone(), events.handle.clone());
            options.listeners.push(Arc::new(OpenListener { listener, handle }));
        }
        (options, events)
    }

    /// Sets the handle that listeners get; 0 if it is not to be used any more.
    pub(crate) fn set_handle(&self, number: i64) {
        self.handle.store(number, Ordering::Release);
    }

    /// Java frees a family's handle.
    pub(crate) fn family_handle_deleted(&self, family: i64) {
        for listener in &self.listeners {
            listener.call(JavaEvent::FamilyHandleDeletionStarted, |env, classes| {
                Ok(vec![reference(classes.family(env, family)?)])
            });
        }
    }
}

impl OpenListener {
    fn db(&self) -> jvalue {
        long(self.handle.load(Ordering::Acquire))
    }

    fn flush(&self, event: JavaEvent, info: &FlushJobInfo) {
        self.listener.call(event, |env, classes| Ok(vec![self.db(), reference(classes.flush(env, info)?)]));
    }

    fn compaction(&self, event: JavaEvent, info: &CompactionJobInfo) {
        let lent = give_typed(CompactionInfo(Some(info.clone())));
        self.listener
            .call(event, |env, classes| Ok(vec![self.db(), reference(classes.compaction(env, lent)?)]));
        dispose(lent).ok();
    }

    fn file_operation(&self, event: JavaEvent, info: &FileOperationInfo) {
        self.listener.call(event, |env, classes| Ok(vec![reference(classes.file_operation(env, info)?)]));
    }
}

impl EventListener for OpenListener {
    fn on_flush_begin(&self, info: &FlushJobInfo) {
        self.flush(JavaEvent::FlushBegin, info);
    }

    fn on_flush_completed(&self, info: &FlushJobInfo) {
        self.flush(JavaEvent::FlushCompleted, info);
    }

    fn on_compaction_begin(&self, info: &CompactionJobInfo) {
        self.compaction(JavaEvent::CompactionBegin, info);
    }

    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        self.compaction(JavaEvent::CompactionCompleted, info);
    }

    fn on_table_file_creation_started(&self, info: &TableFileCreationBriefInfo) {
        self.listener.call(JavaEvent::TableFileCreationStarted, |env, classes| {
            Ok(vec![reference(classes.creation_start(env, info)?)])
        });
    }

    fn on_table_file_created(&self, info: &TableFileCreationInfo) {
        self.listener.call(JavaEvent::TableFileCreated, |env, classes| {
            Ok(vec![reference(classes.creation(env, info)?)])
        });
    }

    fn on_table_file_deleted(&self, info: &TableFileDeletionInfo) {
        self.listener.call(JavaEvent::TableFileDeleted, |env, classes| {
            Ok(vec![reference(classes.deletion(env, info)?)])
        });
    }

    fn on_memtable_sealed(&self, info: &MemTableInfo) {
        self.listener.call(JavaEvent::MemTableSealed, |env, classes| {
            Ok(vec![reference(classes.memtable(env, info)?)])
        });
    }

    fn on_external_file_ingested(&self, info: &ExternalFileIngestionInfo) {
        self.listener.call(JavaEvent::ExternalFileIngested, |env, classes| {
            Ok(vec![self.db(), reference(classes.ingestion(env, info)?)])
        });
    }

    fn on_stall_conditions_changed(&self, info: &WriteStallInfo) {
        self.listener.call(JavaEvent::StallConditionsChanged, |env, classes| {
            Ok(vec![reference(classes.stall(env, info)?)])
        });
    }

    /// As in RocksJava, a listener cannot cancel the error.
    fn on_background_error(&self, reason: BackgroundErrorReason, error: &mut Option<Error>) {
        self.listener.call(JavaEvent::BackgroundError, |env, classes| {
            Ok(vec![byte(reason as i8), reference(classes.status(env, error.as_ref())?)])
        });
    }

    fn on_error_recovery_begin(
        &self,
        reason: BackgroundErrorReason,
        error: &Error,
        auto_recovery: &mut bool,
    ) {
        let JavaListener { object, methods, classes } = &*self.listener;
        let Some(method) = methods[JavaEvent::ErrorRecoveryBegin as usize] else { return };
        let wanted = ask_with(EVENT_REFERENCES, |env| {
            let arguments = [byte(reason as i8), reference(classes.status(env, Some(error))?)];
            env.call_bool(object.get(), method, &arguments)
        });
        *auto_recovery = wanted.unwrap_or(*auto_recovery);
    }

    fn on_error_recovery_end(&self, info: &BackgroundErrorRecoveryInfo) {
        self.listener.call(JavaEvent::ErrorRecoveryCompleted, |env, classes| {
            Ok(vec![reference(classes.status(env, Some(&info.old_bg_error))?)])
        });
    }

    fn should_be_notified_on_file_io(&self) -> bool {
        let JavaListener { object, methods, .. } = &*self.listener;
        let Some(method) = methods[JavaEvent::ShouldBeNotifiedOnFileIo as usize] else { return false };
        ask_with(EVENT_REFERENCES, |env| env.call_bool(object.get(), method, &[])).unwrap_or(false)
    }

    fn on_file_read_finish(&self, info: &FileOperationInfo) {
        self.file_operation(JavaEvent::FileReadFinish, info);
    }

    fn on_file_write_finish(&self, info: &FileOperationInfo) {
        self.file_operation(JavaEvent::FileWriteFinish, info);
    }

    fn on_file_flush_finish(&self, info: &FileOperationInfo) {
        self.file_operation(JavaEvent::FileFlushFinish, info);
    }

    fn on_file_sync_finish(&self, info: &FileOperationInfo) {
        self.file_operation(JavaEvent::FileSyncFinish, info);
    }

    fn on_file_range_sync_finish(&self, info: &FileOperationInfo) {
        self.file_operation(JavaEvent::FileRangeSyncFinish, info);
    }

    fn on_file_truncate_finish(&self, info: &FileOperationInfo) {
        self.file_operation(JavaEvent::FileTruncateFinish, info);
    }

    fn on_file_close_finish(&self, info: &FileOperationInfo) {
        self.file_operation(JavaEvent::FileCloseFinish, info);
    }
}

/// `AbstractEventListener.createNewEventListener`. Bit N of `enabled` says whether the listener
/// wants the event with number N.
pub(crate) fn new_listener(env: &JavaEnv<'_>, object: Reference, enabled: i64) -> NativeResult<i64> {
    // Some methods are private, so the class of the object does not have them.
    let class = env.class("org/rocksdb/AbstractEventListener")?;
    let mut methods = [None; 22];
    for (event, name, descriptor) in METHODS {
        if enabled >> event as i64 & 1 == 1 {
            methods[event as usize] = Some(env.method(class, name, descriptor)?);
        }
    }
    let (object, classes) = (env.global(object)?, EventClasses::find(env)?);
    Ok(give(ListenerObject(Arc::new(JavaListener { object, methods, classes }))))
}

pub(crate) fn set_listeners<T: HasDb>(
    env: &JavaEnv<'_>,
    options: NativeHandle<T>,
    listeners: Reference,
) -> NativeResult<()> {
    let listeners = handles::<ListenerObject>(env, listeners)?.into_iter();
    let listeners = listeners.map(|listener| Ok(listener.get()?.0.clone())).collect::<NativeResult<_>>()?;
    *options.get_mut()?.listeners() = listeners;
    Ok(())
}

/// An array of the objects that were set.
pub(crate) fn listeners<T: HasDb>(env: &JavaEnv<'_>, options: NativeHandle<T>) -> NativeResult<Reference> {
    let listeners = options.get()?.listeners_ref();
    let array = env.new_array("org/rocksdb/AbstractEventListener", listeners.len())?;
    for (at, listener) in listeners.iter().enumerate() {
        env.put_element(array, at, listener.object.get())?;
    }
    Ok(array)
}
