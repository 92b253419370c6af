//! `live_files_storage_info`: the files that a caller copies.

use esker::internals::env::FileSystem;
use esker::internals::env::mem::MemFs;
use esker::observe::FileType;
use esker::options::{FileChecksumGenCrc32cFactory, LiveFilesStorageInfoOptions};
use esker::{Db, Env, Options};
use std::path::Path;
use std::sync::Arc;

fn read(fs: &dyn FileSystem, path: &Path) -> Vec<u8> {
    let mut file = fs.new_sequential_file(path).unwrap();
    let mut bytes = vec![0; fs.file_size(path).unwrap() as usize];
    let mut filled = 0;
    while filled < bytes.len() {
        filled += file.read(&mut bytes[filled..]).unwrap();
    }
    bytes
}

fn write(fs: &dyn FileSystem, path: &Path, bytes: &[u8]) {
    let mut file = fs.new_writable_file(path).unwrap();
    file.append(bytes).unwrap();
    file.close().unwrap();
}

#[test]
fn a_copy_of_the_listed_files_is_the_database_at_the_time_of_the_listing() {
    for (flush, checksums) in [(0, false), (u64::MAX, true)] {
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.db.env = Env::with_fs(Arc::new(MemFs::new()));
        options.db.file_checksum_gen_factory = Some(Arc::new(FileChecksumGenCrc32cFactory));
        options.cf.enable_blob_files = true;
        let db = Db::open(&options, "/db").unwrap();
        db.put("in a table", "1").unwrap();
        db.flush().unwrap();
        db.put("in the log", "2").unwrap();
        db.disable_file_deletions();
        let how = LiveFilesStorageInfoOptions::default().wal_size_for_flush(flush);
        let files = db.live_files_storage_info(&how.include_checksum_info(checksums)).unwrap();
        db.put("later", "3").unwrap();
        db.compact_range(None, None).unwrap();
        let fs = options.db.env.fs.as_ref();
        fs.create_dir_if_missing(Path::new("/copy")).unwrap();
        let count = |kind| files.iter().filter(|file| file.file_type == kind).count();
        for file in &files {
            let path = file.directory.join(&file.relative_filename);
            let is_of_data = matches!(file.file_type, FileType::Table | FileType::Blob);
            let known = file.file_checksum.as_ref().map(|(bytes, _)| !bytes.is_empty());
            assert_eq!(known, checksums.then_some(is_of_data), "{path:?}");
            assert_eq!(file.trim_to_size, matches!(file.file_type, FileType::Wal | FileType::Descriptor));
            let contents = match file.replacement_contents.as_slice() {
                [] => read(fs, &path)[..file.size as usize].to_vec(),
                contents => contents.to_vec(),
            };
            assert_eq!(contents.len() as u64, file.size);
            write(fs, &Path::new("/copy").join(&file.relative_filename), &contents);
        }
        db.enable_file_deletions().unwrap();
        let kinds =
            [FileType::Table, FileType::Blob, FileType::Descriptor, FileType::Current, FileType::Options];
        let tables = if flush == 0 { 2 } else { 1 };
        assert_eq!(kinds.map(count), [tables, tables, 1, 1, 1]);
        // The newest WAL is always listed. It is empty after a flush.
        assert_eq!(count(FileType::Wal), 1);
        let copy = Db::open(&options, "/copy").unwrap();
        let found = ["in a table", "in the log", "later"].map(|key| copy.get(key).unwrap().is_some());
        assert_eq!(found, [true, true, false]);
    }
}
