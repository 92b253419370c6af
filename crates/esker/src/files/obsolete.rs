//! Decides which files of a directory are obsolete.
//!
//! In: a file's name and the [`KeepSet`], which names all needed files. Out: whether the file may
//! be deleted. The rule does no I/O, so it can be tested name by name.
//!
//! Invariant: a name that is not one of RocksDB's is never obsolete: users keep things in database
//! directories.
//!
//! Source: RocksDB `db/db_impl/db_impl_files.cc` (`PurgeObsoleteFiles`).

use esker_base::FileNumber;
use esker_env::sst_file_manager::TRASH_SUFFIX;
use esker_format::file_name::{FileType, parse_file_name};
use std::collections::HashSet;
use std::path::Path;

/// OPTIONS files that stay, as in RocksDB.
const OPTIONS_FILES_KEPT: usize = 2;

/// Everything that must stay.
#[derive(Debug, Default)]
pub(crate) struct KeepSet {
    /// Tables and blob files that some version names, or that a failed MANIFEST write may have
    /// named.
    pub(crate) live: HashSet<FileNumber>,
    /// The lowest number of a needed WAL.
    pub(crate) min_wal: FileNumber,
    /// Old WALs that are kept to be overwritten.
    pub(crate) recyclable_wals: HashSet<FileNumber>,
    /// The MANIFEST that CURRENT names.
    pub(crate) manifest: FileNumber,
    /// The newest OPTIONS files.
    pub(crate) options_files: Vec<FileNumber>,
}

impl KeepSet {
    /// Keeps the newest OPTIONS files among these names.
    pub(crate) fn keep_newest_options(&mut self, names: &[String]) {
        let options = |name: &String| match parse_file_name(name) {
            Some((FileType::Options, number)) => Some(number),
            _ => None,
        };
        let mut numbers: Vec<_> = names.iter().filter_map(options).collect();
        numbers.sort_unstable();
        self.options_files = numbers.split_off(numbers.len().saturating_sub(OPTIONS_FILES_KEPT));
    }
}

/// Whether the file at `path` is trash: a database's file that waits for its deletion.
pub(crate) fn is_trash(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(is_trash_name)
}

/// Whether `name` is the name of a database's file with the trash suffix. RocksDB puts a number
/// before the suffix if trash of that name exists already.
pub(crate) fn is_trash_name(name: &str) -> bool {
    let Some(deleted) = name.strip_suffix(TRASH_SUFFIX) else { return false };
    parse_file_name(deleted.trim_end_matches(|c: char| c.is_ascii_digit())).is_some()
        || parse_file_name(deleted).is_some()
}

/// Whether the file called `name` may be deleted. The number alone does not matter: a file that the
/// MANIFEST does not name may have any number.
pub(crate) fn is_obsolete(name: &str, keep: &KeepSet) -> bool {
    if is_trash_name(name) {
        return true;
    }
    let Some((file_type, number)) = parse_file_name(name) else { return false };
    match file_type {
        FileType::Table | FileType::Blob => !keep.live.contains(&number),
        FileType::Wal => number < keep.min_wal && !keep.recyclable_wals.contains(&number),
        FileType::Descriptor => number != keep.manifest,
        FileType::Options => !keep.options_files.contains(&number),
        FileType::Temp => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep() -> KeepSet {
        KeepSet {
            live: [FileNumber(10)].into(),
            min_wal: FileNumber(15),
            recyclable_wals: [FileNumber(12)].into(),
            manifest: FileNumber(5),
            options_files: vec![FileNumber(7)],
        }
    }

    #[test]
    fn needed_files_stay_and_the_rest_goes() {
        for (name, goes) in [
            ("000010.sst", false),
            ("000011.sst", true),
            ("000020.sst", true),
            ("000020.ldb", true),
            ("000010.ldb", false),
            ("000020.blob", true),
            ("000010.sst.trash", true),
            ("000010.sst0.trash", true),
            ("000014.log12.trash", true),
            ("notes.trash", false),
            ("trash", false),
            ("000012.log", false),
            ("000014.log", true),
            ("000015.log", false),
            ("MANIFEST-000004", true),
            ("MANIFEST-000005", false),
            ("MANIFEST-000006", true),
            ("OPTIONS-000007", false),
            ("OPTIONS-000003", true),
            ("000009.dbtmp", true),
            ("000099.dbtmp", true),
            ("CURRENT", false),
            ("LOCK", false),
            ("LOG", false),
            ("IDENTITY", false),
            ("notes.txt", false),
            ("10.sst.bak", false),
        ] {
            assert_eq!(is_obsolete(name, &keep()), goes, "{name}");
        }
    }

    #[test]
    fn the_two_newest_options_files_stay() {
        let names = ["OPTIONS-000003", "OPTIONS-000009", "OPTIONS-000005"].map(str::to_owned);
        let mut keep = keep();
        keep.keep_newest_options(&names);
        assert_eq!(keep.options_files, [FileNumber(5), FileNumber(9)]);
    }
}
