//! Commands on encrypted databases, and conversions of directories.

use crate::run::{esker, ldb};
use esker::encryption::MasterKey;
use esker_testkit::TempDir;
use std::path::Path;

/// A key file with these keys.
fn keys(temp: &TempDir, keys: &[u8]) -> String {
    let path = temp.path().join(format!("keys{keys:?}"));
    let lines: Vec<String> = keys.iter().map(|&n| MasterKey::from_bytes([n; 32]).to_hex()).collect();
    std::fs::write(&path, lines.join("\n")).unwrap();
    format!("--encryption_key_file={}", path.display())
}

fn put(db: &Path, key: &str) {
    ldb(db, &["put", "a", "1", "--create_if_missing", key]).ok();
    ldb(db, &["compact", key]).ok();
    ldb(db, &["put", "b", "2", key]).ok();
}

const BOTH: &str = "a : 1\nb : 2\n";

#[test]
fn commands_read_an_encrypted_database_with_its_key_only() {
    let temp = TempDir::new("encrypted");
    let (db, key) = (temp.path().join("db"), keys(&temp, &[1]));
    put(&db, &key);
    assert_eq!(ldb(&db, &["scan", &key]).ok(), BOTH);
    let db_text = db.to_str().unwrap();
    assert!(esker(&["verify", db_text, &key]).ok().contains("OK"));
    let table = std::fs::read_dir(&db).unwrap().map(|entry| entry.unwrap().path());
    let table = table.into_iter().find(|path| path.extension().is_some_and(|e| e == "sst")).unwrap();
    let file = format!("--file={}", table.display());
    assert!(esker(&["sst_dump", &file, "--command=scan", &key]).ok().contains("'a' seq:0, type:1 => 1"));
    let refused = ldb(&db, &["scan", &keys(&temp, &[2])]).failed();
    assert!(refused.contains("MANIFEST-") && refused.contains("encrypted under master key"), "{refused}");
    assert!(refused.contains("key file"), "{refused}");
    ldb(&db, &["scan"]).failed();
}

#[test]
fn no_key_of_an_encrypted_database_is_printed_without_a_flag() {
    let temp = TempDir::new("encrypted-info");
    let (db, key) = (temp.path().join("db"), keys(&temp, &[1]));
    ldb(&db, &["put", "secret-key", "1", "--create_if_missing", &key]).ok();
    ldb(&db, &["compact", &key]).ok();
    let dir = db.to_str().unwrap();
    for command in ["info", "report"] {
        let text = esker(&[command, dir, &key]).ok();
        assert!(text.contains("opened with encryption keys") && !text.contains("secret-key"), "{text}");
        assert!(esker(&[command, dir, &key, "--keys=text"]).ok().contains("secret-key"), "{command}");
    }
    let refused = esker(&["info", dir]).failed();
    assert!(refused.contains("MANIFEST-"), "{refused}");
}

#[test]
fn directories_are_encrypted_rekeyed_and_decrypted() {
    let temp = TempDir::new("conversions");
    let (db, old, new) = (temp.path().join("db"), keys(&temp, &[1]), keys(&temp, &[2]));
    ldb(&db, &["put", "a", "1", "--create_if_missing"]).ok();
    ldb(&db, &["compact"]).ok();
    ldb(&db, &["put", "b", "2"]).ok();
    let encrypted = ldb(&db, &["encrypt", &old]).ok();
    assert!(encrypted.contains(" files encrypted, "), "{encrypted}");
    ldb(&db, &["scan"]).failed();
    assert_eq!(ldb(&db, &["scan", &old]).ok(), BOTH);
    let rekeyed = ldb(&db, &["rekey", &keys(&temp, &[2, 1])]).ok();
    assert!(rekeyed.contains(" files under the first key now, "), "{rekeyed}");
    ldb(&db, &["scan", &old]).failed();
    assert_eq!(ldb(&db, &["scan", &new]).ok(), BOTH);
    ldb(&db, &["decrypt", &new]).ok();
    assert_eq!(ldb(&db, &["scan"]).ok(), BOTH);
}

#[test]
fn a_conversion_needs_keys_and_a_closed_database() {
    let temp = TempDir::new("conversion-refused");
    let (db, key) = (temp.path().join("db"), keys(&temp, &[1]));
    put(&db, &key);
    let refused = ldb(&db, &["rekey"]).failed();
    assert!(refused.contains("--encryption_key_file or --encryption_key_env"), "{refused}");
    let refused = ldb(&db, &["rekey", "--encryption_key_env=ESKER_NO_SUCH_KEY"]).failed();
    assert!(refused.contains("ESKER_NO_SUCH_KEY is not set"), "{refused}");
    let open =
        esker::Db::open(&esker::Options::new().create_if_missing(true), temp.path().join("open")).unwrap();
    let refused = ldb(&temp.path().join("open"), &["encrypt", &key]).failed();
    assert!(refused.contains("LOCK"), "{refused}");
    drop(open);
}
