use super::*;
use crate::{Env, ErrorKind, Options};
use esker_env::mem::MemFs;
use std::sync::Arc;

#[test]
fn enabling_file_deletions_once_too_often_ends_no_checkpoint() {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    let db = Db::open(&options, "/db").unwrap();
    let keeps_files = || db.engine().state.lock().keeps_files();
    db.disable_file_deletions();
    let kept = KeepFiles::new(&db);
    db.enable_file_deletions().unwrap();
    assert!(keeps_files());
    assert_eq!(db.enable_file_deletions().unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert!(keeps_files());
    drop(kept);
    assert!(!keeps_files());
}
