use super::*;
use crate::fault::{FaultFs, FaultRule, OpKind};
use crate::mem::MemFs;

#[test]
fn a_file_is_replaced_whole_and_a_failure_leaves_nothing_behind() {
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    let (temporary, path) = (Path::new("/db/OPTIONS-7.dbtmp"), Path::new("/db/OPTIONS-7"));
    fs.create_dir_if_missing(Path::new("/db")).unwrap();
    let replace = |contents: &[u8]| replace_file(&fs, temporary, path, contents, false);
    for kind in [OpKind::Append, OpKind::Sync, OpKind::Close, OpKind::Rename] {
        fs.add_rule(FaultRule::fail(&[kind]));
        replace(b"new").unwrap_err();
        assert_eq!(fs.children(Path::new("/db")).unwrap(), [""; 0], "{kind:?}");
    }
    replace(b"old").unwrap();
    fs.add_rule(FaultRule::fail(&[OpKind::Rename]));
    replace(b"newer").unwrap_err();
    assert_eq!((fs.children(Path::new("/db")).unwrap().len(), fs.file_size(path).unwrap()), (1, 3));
}
