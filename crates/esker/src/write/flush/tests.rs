use super::*;
use crate::Db;
use crate::engine::ErrorReason;
use crate::options::Options;
use esker_base::Error;
use esker_env::Env;
use esker_env::mem::MemFs;
use std::sync::Arc;

#[test]
fn a_leader_that_waits_for_a_flush_gives_way_to_a_recovery() {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.max_bgerror_resume_count = 0;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    let db = Db::open(&options, "/db").unwrap();
    db.put("key", "value").unwrap();
    db.pause_background_work();
    let (engine, path) = (db.engine(), &db.inner.write_path);
    std::thread::scope(|scope| {
        let leading = scope.spawn(|| {
            let leader = path.lead_alone();
            path.flush_as_leader(&leader, &engine.family_ids(), FlushReason::ExternalFileIngestion)
        });
        // Fails the flush and recovers on this thread, so that no other thread runs in between.
        let mut state = loop {
            let state = engine.state.lock();
            if !state.flush_queue.is_empty() {
                break state;
            }
            drop(state);
            std::thread::yield_now();
        };
        state.background_error.set(&Error::io("busy").with_retryable(true), ErrorReason::Flush);
        state.background_error.begin_recovery();
        drop(state);
        engine.state_changed.notify_all();
        drop(path.lead_alone());
        assert!(leading.join().unwrap().unwrap_err().to_string().contains("busy"));
    });
    db.continue_background_work().unwrap();
    db.resume().unwrap();
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    db.flush().unwrap();
}
