//! Encrypted databases of RocksDB's `EncryptedEnv`, read and handed over.

use esker::{Db, Env, Options};
use esker_encryption::{CtrFs, Rot13};
use esker_peer::{Tools, require};
use esker_testkit::TempDir;
use std::path::Path;
use std::sync::Arc;

/// The flag of RocksDB's tool for its example cipher.
const FLAG: &str = "--fs_uri=provider={id=CTR;cipher=ROT13};id=EncryptedFileSystem";

fn options() -> Options {
    let cipher = Rot13 { block_bytes: 32 };
    let fs = CtrFs::new(Env::default().fs, Arc::new(cipher)).expect("a block has room");
    let mut options = Options::new().create_if_missing(true);
    options.db.env = Env::with_fs(Arc::new(fs));
    options
}

fn get(db: &Db, key: &str) -> Option<String> {
    db.get(key).expect("reads").map(|value| String::from_utf8_lossy(&value).into_owned())
}

fn scan(tools: Tools, path: &Path) -> String {
    tools.ldb(path, [FLAG, "scan"]).expect("RocksDB reads")
}

#[test]
fn encrypted_databases_go_from_rocksdb_to_esker_and_back() {
    let Some(tools) = require("ldb 7.8", Tools::find()) else { return };
    let dir = TempDir::new("encrypted-env");
    let path = dir.join("db");
    // A table, and a WAL behind it.
    tools.ldb(&path, [FLAG, "--create_if_missing", "batchput", "a", "1", "b", "2"]).expect("written");
    tools.ldb(&path, [FLAG, "compact"]).expect("compacted");
    tools.ldb(&path, [FLAG, "put", "c", &"3".repeat(10_000)]).expect("written");
    assert!(Db::open(&Options::default(), &path).is_err(), "without the cipher");
    let db = Db::open(&options(), &path).expect("opens");
    assert_eq!(get(&db, "a").as_deref(), Some("1"));
    assert_eq!(get(&db, "c"), Some("3".repeat(10_000)));
    for n in 0..2000 {
        db.put(format!("k{n:04}"), format!("value {n}")).expect("written");
    }
    db.flush().expect("flushed");
    db.delete("b").expect("deleted");
    db.close().expect("closes");
    let text = scan(tools, &path);
    assert_eq!(text.lines().count(), 2002);
    assert!(text.starts_with("a : 1\nc : 333") && text.ends_with("k1999 : value 1999\n"), "{text:.200}");
    // A database that Esker made.
    let path = dir.join("own");
    let db = Db::open(&options(), &path).expect("made");
    db.put("x", "in a table").expect("written");
    db.flush().expect("flushed");
    db.put("y", "in the WAL").expect("written");
    db.close().expect("closes");
    assert_eq!(scan(tools, &path), "x : in a table\ny : in the WAL\n");
}
