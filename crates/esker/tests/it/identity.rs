//! The database's id: in the MANIFEST, in the file IDENTITY, in both, and in checkpoints.

use esker::internals::env::mem::MemFs;
use esker::{Db, Env, OpenMode, Options};
use std::path::Path;
use std::sync::Arc;

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options
}

fn identity_file(options: &Options, dir: &str) -> Option<String> {
    let path = Path::new(dir).join("IDENTITY");
    let fs = &options.db.env.fs;
    if !fs.file_exists(&path).unwrap() {
        return None;
    }
    let mut bytes = vec![0; 100];
    let n = fs.new_sequential_file(&path).unwrap().read(&mut bytes).unwrap();
    Some(String::from_utf8(bytes[..n].to_vec()).unwrap())
}

fn set_identity_file(options: &Options, text: Option<&str>) {
    let (fs, path) = (&options.db.env.fs, Path::new("/db/IDENTITY"));
    match text {
        None => fs.delete_file(path).unwrap(),
        Some(text) => {
            let mut file = fs.new_writable_file(path).unwrap();
            file.append(text.as_bytes()).unwrap();
            file.close().unwrap();
        }
    }
}

fn id_of(options: &Options, dir: &str) -> String {
    Db::open(options, dir).unwrap().db_identity().to_owned()
}

fn id_of_checkpoint(options: &Options, name: &str) -> String {
    let db = Db::open(options, "/db").unwrap();
    db.create_checkpoint(name, 0).unwrap();
    drop(db);
    id_of(options, name)
}

#[test]
fn the_file_agrees_with_the_manifest() {
    let options = options();
    let id = id_of(&options, "/db");
    assert_eq!(identity_file(&options, "/db").as_deref(), Some(id.as_str()));
    for wrong in [None, Some(""), Some("6ba7b810-9dad-11d1-80b4-00c04fd430c8")] {
        set_identity_file(&options, wrong);
        assert_eq!(id_of(&options, "/db"), id);
        assert_eq!(identity_file(&options, "/db").as_deref(), Some(id.as_str()), "{wrong:?}");
    }
    assert_eq!(id_of_checkpoint(&options, "/copy"), id);
    assert_eq!(identity_file(&options, "/copy"), Some(id));
}

#[test]
fn a_database_without_the_file_keeps_its_id_in_the_manifest() {
    let mut options = options();
    let id = id_of(&options, "/db");
    options.db.write_identity_file = false;
    for _ in 0..2 {
        assert_eq!(id_of(&options, "/db"), id);
        assert_eq!(identity_file(&options, "/db"), None);
    }
    assert_eq!(id_of_checkpoint(&options, "/copy"), id);
    let new = id_of(&options, "/new");
    assert_eq!((id_of(&options, "/new"), identity_file(&options, "/new")), (new, None));
}

#[test]
fn a_database_without_its_id_in_the_manifest_keeps_it_in_the_file() {
    let mut options = options();
    let id = id_of(&options, "/db");
    options.db.write_dbid_to_manifest = false;
    // This opening writes a MANIFEST without the id.
    assert_eq!(id_of(&options, "/db"), id);
    assert_eq!(id_of(&options, "/db"), id);
    assert_ne!(id_of_checkpoint(&options, "/copy"), id, "a checkpoint has the id without a copy of IDENTITY");
    let other = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";
    set_identity_file(&options, Some(other));
    assert_eq!(id_of(&options, "/db"), other);
    options.db.write_dbid_to_manifest = true;
    assert_eq!(id_of(&options, "/db"), other);
    set_identity_file(&options, None);
    assert_eq!(id_of(&options, "/db"), other);
}

#[test]
fn readers_write_no_identity() {
    let options = options();
    let id = id_of(&options, "/db");
    set_identity_file(&options, None);
    let reader = Db::open_with(&options.db, "/db", ["default"], OpenMode::ReadOnly).unwrap();
    assert_eq!((reader.db_identity(), identity_file(&options, "/db")), (id.as_str(), None));
}

#[test]
fn each_opening_has_a_session_of_its_own() {
    let options = options();
    let session = || Db::open(&options, "/db").unwrap().db_session_id().to_owned();
    let (first, second) = (session(), session());
    assert_ne!(first, second);
    let is_digit = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_uppercase();
    assert!(first.len() == 20 && first.bytes().all(is_digit), "{first}");
}
