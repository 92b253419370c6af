use super::*;
use crate::thread_pool::ThreadPool;
use esker_base::iostats_add;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;

fn operation(operation_type: OperationType, began_at: u64) -> ThreadOperation {
    ThreadOperation {
        operation_type,
        db_name: "/db".to_owned(),
        cf_name: "users".to_owned(),
        began_at,
        ..ThreadOperation::default()
    }
}

#[test]
fn an_operation_is_shown_while_it_lasts() {
    let registry = Arc::new(ThreadRegistry::default());
    assert!(registry.list(0).is_empty());
    let outer = registry.begin(operation(OperationType::DbOpen, 10));
    let mut flush = operation(OperationType::Flush, 30);
    flush.properties[FlushProperty::JobId as usize] = 7;
    let inner = registry.begin(flush);
    {
        let _run = begin_stage(OperationStage::FlushRun);
        let write = begin_stage(OperationStage::FlushWriteL0);
        let mut progress = IoProgress::of_flush();
        iostats_add!(bytes_written, 5);
        (0..REPORT_EVERY - 1).for_each(|_| progress.entry());
        assert_eq!(registry.list(35)[0].properties()[2], ("BytesWritten", 0));
        progress.entry();
        iostats_add!(bytes_written, 6);
        assert_eq!(registry.list(35)[0].properties()[2], ("BytesWritten", 5));
        drop(progress);
        let [status] = &registry.list(35)[..] else { panic!("one thread") };
        assert_eq!((status.thread_type, status.op_elapsed_micros), (ThreadType::User, 5));
        assert_eq!((&status.db_name[..], &status.cf_name[..]), ("/db", "users"));
        assert_eq!(
            (status.operation_type.name(), status.operation_stage.name()),
            ("Flush", "FlushJob::WriteLevel0Table")
        );
        assert_eq!(status.properties(), [("JobID", 7), ("BytesMemtables", 0), ("BytesWritten", 11)]);
        drop(write);
        assert_eq!(registry.list(35)[0].operation_stage, OperationStage::FlushRun);
    }
    drop(inner);
    let status = registry.list(35).remove(0);
    assert_eq!((status.operation_type, status.op_elapsed_micros), (OperationType::DbOpen, 25));
    assert_eq!((status.operation_stage, status.op_properties), (OperationStage::Unknown, [0; 6]));
    drop(outer);
    assert!(registry.list(35).is_empty());
    // Without an operation nothing is shown, and nothing fails.
    let _stage = begin_stage(OperationStage::FlushRun);
    drop(IoProgress::of_flush());
    assert!(registry.list(35).is_empty());
}

#[test]
fn registries_do_not_see_each_others_operations() {
    let (one, two) = (Arc::new(ThreadRegistry::default()), Arc::new(ThreadRegistry::default()));
    let _of_one = one.begin(operation(OperationType::Get, 0));
    let of_two = two.begin(operation(OperationType::DbOpen, 0));
    let of_open = begin_stage(OperationStage::FlushRun);
    assert_eq!(two.list(0)[0].operation_stage, OperationStage::FlushRun);
    drop(of_open);
    drop(of_two);
    let _of_get = begin_stage(OperationStage::CompactionRun);
    assert_eq!(one.list(0)[0].operation_stage, OperationStage::CompactionRun);
    assert!(two.list(0).is_empty());
}

#[test]
fn a_helping_thread_adds_to_the_operation_that_it_helps() {
    let registry = Arc::new(ThreadRegistry::default());
    let mut compaction = operation(OperationType::Compaction, 0);
    compaction.properties[CompactionProperty::InputOutputLevel as usize] = 1 << 32 | 2;
    compaction.properties[CompactionProperty::PropFlags as usize] = 0b101;
    let _scope = registry.begin(compaction);
    let shared = SharedOperation::current();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let alone = IoProgress::of_compaction();
            iostats_add!(bytes_read, 100);
            drop(alone);
            let _joined = shared.join();
            let _of_another_kind = IoProgress::of_flush();
            let _progress = IoProgress::of_compaction();
            iostats_add!(bytes_read, 3);
        });
    });
    let status = registry.list(0).remove(0);
    let properties: std::collections::BTreeMap<_, _> = status.properties().into_iter().collect();
    assert_eq!((properties["BytesRead"], properties["BaseInputLevel"], properties["OutputLevel"]), (3, 1, 2));
    assert_eq!((properties["IsManual"], properties["IsDeletion"], properties["IsTrivialMove"]), (1, 0, 1));
}

#[test]
fn threads_of_a_pool_are_shown_from_start_to_end() {
    let pool = ThreadPool::new();
    pool.set_background_threads(1, Priority::Bottom);
    let registry = pool.thread_registry().clone();
    assert!(registry.list(0).is_empty());
    for priority in Priority::ALL {
        let (started, starts) = channel();
        let (end, ends) = channel::<()>();
        pool.schedule(
            priority,
            1,
            Box::new(move || {
                started.send(()).unwrap();
                ends.recv().unwrap();
            }),
        );
        starts.recv().unwrap();
        end.send(()).unwrap();
        pool.wait_until_idle(priority);
    }
    let mut types: Vec<&str> = registry.list(0).iter().map(|status| status.thread_type.name()).collect();
    types.sort_unstable();
    assert_eq!(types, ["Bottom Pri", "High Pri", "Low Pri"]);
    assert!(
        registry.list(0).iter().all(|s| s.operation_type == OperationType::Unknown && s.db_name.is_empty())
    );
    drop(pool);
    assert!(registry.list(0).is_empty(), "threads that have ended are gone");
}

#[test]
fn slots_of_ended_threads_take_no_room() {
    let registry = Arc::new(ThreadRegistry::default());
    for _ in 0..100 {
        std::thread::scope(|scope| {
            // A join waits for the thread's values, too.
            scope.spawn(|| drop(registry.begin(operation(OperationType::Get, 0)))).join().unwrap();
        });
    }
    assert!(registry.slots.lock().len() <= 8);
}

/// A value of a thread that begins an operation when it is destroyed, and counts those shown.
struct LateOperation(Arc<ThreadRegistry>, std::sync::Arc<AtomicUsize>);

impl Drop for LateOperation {
    fn drop(&mut self) {
        let _get = self.0.begin(operation(OperationType::Get, 0));
        let _stage = begin_stage(OperationStage::FlushRun);
        let _joined = SharedOperation::current().join();
        self.1.store(self.0.list(0).len(), Ordering::Relaxed);
    }
}

thread_local! {
    static LATE: RefCell<Option<LateOperation>> = const { RefCell::new(None) };
}

#[test]
fn an_operation_may_begin_while_its_thread_ends() {
    let (registry, shown) = (Arc::new(ThreadRegistry::default()), std::sync::Arc::default());
    std::thread::scope(|scope| {
        let end = || {
            // The first value of a thread is destroyed last.
            LATE.set(Some(LateOperation(registry.clone(), std::sync::Arc::clone(&shown))));
            drop(registry.begin(operation(OperationType::Get, 0)));
        };
        scope.spawn(end).join().unwrap();
    });
    assert_eq!(shown.load(Ordering::Relaxed), 1);
    assert!(registry.list(0).is_empty());
}
