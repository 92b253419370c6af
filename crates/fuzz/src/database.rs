//! Changes files of a database, then opens, reads, verifies, writes and repairs the database.
//!
//! Laws: nothing panics or hangs. Each value that a read returns was once written, because
//! checksums cover all keys and values of these files.

use crate::scene::{FAMILIES, KEYS, damage, databases, is_written, key, lay, open, options, value};
use esker::internals::env::{FileSystem, MemFs};
use esker::{ColumnFamilyDescriptor, Db, OpenMode, ReadOptions, repair_db};
use std::path::Path;

/// Damages a database, and returns its number and its file system. The first byte selects the
/// database. Each eight bytes after it are one change.
fn damaged(data: &[u8]) -> (usize, MemFs) {
    let (&variant, data) = data.split_first().unwrap_or((&0, &[]));
    let variant = usize::from(variant) % databases().len();
    let mut files = databases()[variant].clone();
    let (changes, _) = data.as_chunks::<8>();
    for change in changes.iter().take(4) {
        damage(&mut files, change);
    }
    let fs = MemFs::new();
    fs.create_dir_if_missing(Path::new("/db")).unwrap();
    lay(&fs, &files);
    (variant, fs)
}

fn read(db: &Db) {
    for name in FAMILIES {
        let Some(family) = db.column_family(name) else { continue };
        for forward in [true, false] {
            let Ok(mut iter) = db.iter_cf(&family) else { continue };
            if forward {
                iter.seek_to_first();
            } else {
                iter.seek_to_last();
            }
            while let Some((key, value)) = iter.item() {
                assert!(is_written(value, key), "{} is {}", key.escape_ascii(), value.escape_ascii());
                if forward {
                    iter.next();
                } else {
                    iter.prev();
                }
            }
        }
        let keys: Vec<_> = (0..KEYS).map(key).collect();
        for (key, found) in keys.iter().zip(db.multi_get_opt(&ReadOptions::default(), &family, &keys)) {
            let alone = db.get_cf(&family, key);
            for value in [found.ok().flatten().map(|v| v.to_vec()), alone.ok().flatten()].into_iter().flatten() {
                assert!(is_written(&value, key), "{} is {}", key.escape_ascii(), value.escape_ascii());
            }
        }
    }
    drop(db.verify_checksum());
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let (variant, fs) = damaged(data);
    let options = options(&fs, variant);
    if let Ok(db) = open(&options, OpenMode::ReadOnly) {
        read(&db);
    }
    if let Ok(db) = open(&options, OpenMode::ReadWrite) {
        read(&db);
        drop(db.put(key(7), value(7, 1)));
        drop(db.flush());
        drop(db.compact_range(None, None));
        read(&db);
        drop(db.close());
    }
    let families = FAMILIES.map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()));
    if repair_db(&options, "/db", &families).is_ok()
        && let Ok(db) = open(&options, OpenMode::ReadWrite)
    {
        read(&db);
    }
}
