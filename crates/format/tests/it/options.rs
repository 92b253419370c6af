//! Every OPTIONS file that RocksDB wrote is understood and comes out with the same sections, keys
//! and values.

use crate::fixtures::{database, databases, files, read};
use esker_format::file_name::FileType;
use esker_format::options_file::{OptionsFile, split_list, split_map};

#[test]
fn files_of_rocksdb_round_trip() {
    let mut count = 0;
    for db in databases("v") {
        for (_, path) in files(&db, FileType::Options) {
            let bytes = read(&path);
            let file = OptionsFile::parse(&bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            assert_eq!(OptionsFile::parse(file.to_string().as_bytes()).unwrap(), file, "{}", path.display());
            assert_eq!(lines(&file.to_string()), lines(std::str::from_utf8(&bytes).unwrap()));
            for (key, value) in file.sections.iter().flat_map(|s| &s.entries) {
                if value.starts_with('{') {
                    assert!(!split_map(value).unwrap().is_empty(), "{key}={value}");
                }
            }
            count += 1;
        }
    }
    assert!(count >= 8, "only {count} files were there");
}

/// Everything but comments and empty lines.
fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim_end).filter(|l| !l.trim().is_empty() && !l.starts_with('#')).collect()
}

#[test]
fn values_are_found() {
    let db = database("v11_9_column_families");
    let (_, path) = files(&db, FileType::Options).pop().unwrap();
    let file = OptionsFile::parse(&read(&path)).unwrap();
    assert!(file.families().any(|name| name == "with:special#chars\\"));
    assert_eq!(file.version().unwrap().raw("options_file_version"), Some("1.1"));
    let default = file.cf_options("default").unwrap();
    assert_eq!(default.text("comparator").unwrap(), "leveldb.BytewiseComparator");
    let fifo = split_map(default.raw("compaction_options_fifo").unwrap()).unwrap();
    assert!(fifo.contains(&("max_table_files_size", "1073741824")), "{fifo:?}");
    assert!(fifo.contains(&("file_temperature_age_thresholds", "")), "{fifo:?}");
    let multipliers = default.raw("max_bytes_for_level_multiplier_additional").unwrap();
    assert_eq!(split_list(multipliers, ':').unwrap(), ["1"; 7]);
    assert_eq!(file.table_options("default").unwrap().raw("block_size"), Some("1024"));
}
