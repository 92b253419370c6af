use super::*;
use crate::{Db, Env, ErrorKind, FlushOptions, Options};
use esker_env::mem::MemFs;

#[test]
fn continuing_background_work_once_too_often_lets_nothing_begin_beside_files_that_are_moved() {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    let db = Db::open(&options, "/db").unwrap();
    let engine = db.engine();
    let quiet = Quiet::begin(engine).unwrap();
    assert_eq!(db.continue_background_work().unwrap_err().kind(), ErrorKind::InvalidArgument);
    db.put("key", "value").unwrap();
    db.flush_opt(&FlushOptions { wait: false, ..FlushOptions::default() }, &[&db.default_column_family()])
        .unwrap();
    assert_eq!(engine.state.lock().flushes_scheduled, 0);
    drop(quiet);
    db.wait_for_background_work().unwrap();
    assert_eq!(db.live_files().len(), 1);
}
