//! Every MANIFEST of RocksDB is understood, and is written again with the same contents.

use crate::fixtures::{databases, files, manifest, manifest_edits, manifest_records, read};
use esker_format::file_name::FileType;
use esker_format::log::LogWriter;
use esker_format::version_edit::VersionEdit;

#[test]
fn records_come_out_in_the_same_bytes() {
    for db in databases("") {
        let bytes = manifest(&db);
        let mut writer = LogWriter::new(0, false);
        let mut again = Vec::new();
        for record in manifest_records(&bytes, "MANIFEST") {
            writer.add_record(&record, &mut again);
        }
        assert_eq!(again, bytes, "{}", db.display());
    }
}

#[test]
fn every_edit_survives_encoding_and_decoding() {
    let mut count = 0;
    for db in databases("") {
        for (_, path) in files(&db, FileType::Descriptor) {
            for record in manifest_records(&read(&path), &path.display().to_string()) {
                let edit = VersionEdit::decode(&record).unwrap();
                let again = edit.encode();
                let mut back = VersionEdit::decode(&again).unwrap();
                // Esker reads these fields and never writes them.
                back.wal_additions.clone_from(&edit.wal_additions);
                back.wal_deletion = edit.wal_deletion;
                back.ignored_tags.clone_from(&edit.ignored_tags);
                assert_eq!(back, edit, "{}", path.display());
                assert_eq!(back.encode(), again, "{}", path.display());
                count += 1;
            }
        }
    }
    assert!(count > 800, "only {count} edits were there");
}

/// RocksDB 11.9 writes the same tags in the same order. So Esker writes its edits again byte for
/// byte.
#[test]
fn edits_of_rocksdb_11_come_out_in_the_same_bytes() {
    let mut count = 0;
    for db in databases("v11_9_") {
        for record in manifest_records(&manifest(&db), "MANIFEST") {
            let edit = VersionEdit::decode(&record).unwrap();
            let has_unwritten = !edit.wal_additions.is_empty()
                || edit.wal_deletion.is_some()
                || !edit.ignored_tags.is_empty();
            // There are two ways to state the oldest needed WAL. With a new file, RocksDB uses
            // both.
            let says_it_twice = edit.min_log_number_to_keep.is_some() && !edit.new_files.is_empty();
            if has_unwritten || says_it_twice {
                continue;
            }
            assert_eq!(edit.encode(), record, "{}: {edit:?}", db.display());
            count += 1;
        }
    }
    assert!(count > 200, "only {count} edits were compared");
}

#[test]
fn families_and_files_are_found() {
    let edits = manifest_edits(&crate::fixtures::database("v11_9_column_families"));
    let names: Vec<_> = edits.iter().filter_map(|e| e.column_family_add.as_deref()).collect();
    assert!(names.contains(&"with:special#chars\\"), "{names:?}");
    let comparators: Vec<_> = edits.iter().filter_map(|e| e.comparator.as_deref()).collect();
    assert!(comparators.contains(&"rocksdb.ReverseBytewiseComparator"), "{comparators:?}");
    let files: Vec<_> = edits.iter().flat_map(|e| &e.new_files).collect();
    assert!(!files.is_empty());
    for (level, file) in files {
        assert!(*level < 7);
        assert!(file.file_size > 0 && file.epoch_number > 0 && file.unique_id.is_some(), "{file:?}");
        assert!(file.smallest_seqno <= file.largest_seqno);
        assert!(file.tail_size < file.file_size);
    }
}
