//! The options that differ from RocksDB's defaults.
//!
//! In: options of an OPTIONS file. Out: name, value and default of each that differs. Esker's
//! defaults are those of RocksDB 11. Options that say where the files are or how one opening went
//! are left out.

use super::model::ChangedOption;
use esker::options::{BlockBasedTableOptions, OptionStruct};
use esker::{ColumnFamilyOptions, DbOptions};

/// Options for one opening, and places.
const LEFT_OUT: [&str; 6] = [
    "create_if_missing",
    "create_missing_column_families",
    "db_log_dir",
    "wal_dir",
    "error_if_exists",
    "db_host_id",
];

pub(crate) fn of_database(options: &DbOptions) -> Vec<ChangedOption> {
    let (mut consistent, mut defaults) = (options.clone(), DbOptions::default());
    consistent.sanitize();
    defaults.sanitize();
    changed("", &consistent, &defaults)
}

pub(crate) fn of_family(options: &ColumnFamilyOptions) -> Vec<ChangedOption> {
    let db = DbOptions::default();
    let (mut consistent, mut defaults) = (options.clone(), ColumnFamilyOptions::default());
    consistent.sanitize(&db);
    if consistent.max_bytes_for_level_multiplier_additional.iter().all(|factor| *factor == 1) {
        // RocksDB writes a list of ones for the empty list.
        consistent.max_bytes_for_level_multiplier_additional.clear();
    }
    defaults.sanitize(&db);
    let mut found = changed("", &consistent, &defaults);
    found.extend(changed("table.", &options.table, &BlockBasedTableOptions::default()));
    found
}

/// The options whose text differs. Objects have no text.
fn changed<T: OptionStruct>(prefix: &str, options: &T, defaults: &T) -> Vec<ChangedOption> {
    let differs = |option: &esker::options::OptionInfo<T>| {
        let print = option.text.as_ref()?.print;
        let (value, default) = (print(options), print(defaults));
        let name = format!("{prefix}{}", option.name);
        (value != default && !LEFT_OUT.contains(&option.name)).then_some(ChangedOption {
            name,
            value,
            default,
        })
    };
    T::all_options().iter().filter_map(differs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_options_have_their_value_and_the_default() {
        let options = DbOptions::default().max_background_jobs(7);
        let expected = ChangedOption {
            name: "max_background_jobs".to_owned(),
            value: "7".to_owned(),
            default: "2".to_owned(),
        };
        assert_eq!(of_database(&options), [expected]);
        let mut family = ColumnFamilyOptions::default();
        assert_eq!(of_family(&family), []);
        family.table.block_size = 1 << 14;
        let found = of_family(&family);
        assert_eq!((found.len(), &found[0].name[..], &found[0].value[..]), (1, "table.block_size", "16384"));
    }
}
