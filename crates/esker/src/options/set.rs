//! Options changed while the database runs: `set_options` and `set_db_options`.
//!
//! In: the options in force and pairs of names and texts. Out: all of them changed, or an error and
//! nothing changed. The caller writes the new OPTIONS file and installs the result.

use super::table::{OptionKind, OptionStruct};
use super::value::{object_name, split_map};
use super::{ColumnFamilyOptions, DbOptions, Options, former};
use esker_base::{Error, ErrorKind, Result};

/// The text of the table's options, if `name` is one of RocksDB's names for them. For
/// `table_factory` the text may also be the factory's name alone.
/// # Errors
/// `InvalidArgument`: a kind of table that Esker does not have.
fn table_options<'a>(name: &str, text: &'a str) -> Result<Option<&'a str>> {
    let text = text.trim();
    match name {
        "block_based_table_factory" => Ok(Some(text)),
        "table_factory" | "plain_table_factory" => match object_name(text) {
            "BlockBasedTable" if name == "table_factory" => {
                let inner = text.strip_prefix('{').and_then(|t| t.strip_suffix('}'));
                Ok(Some(inner.and_then(|t| t.split_once(';')).map_or("", |(_, rest)| rest)))
            }
            other => Err(Error::invalid_argument(format!(
                "option {name}: '{other}': the only kind of table is BlockBasedTable"
            ))),
        },
        _ => Ok(None),
    }
}

/// `current` with `changes` applied, made consistent and checked.
/// # Errors
/// `InvalidArgument` naming the option: unknown, not changeable while the database runs, or not one
/// of its values; also for combinations that have no meaning.
pub fn set_options(
    current: &ColumnFamilyOptions,
    db: &DbOptions,
    changes: &[(&str, &str)],
) -> Result<ColumnFamilyOptions> {
    let mut changed = current.clone();
    for (name, text) in changes {
        if let Some(text) = table_options(name, text)? {
            for (name, text) in split_map(text)? {
                set_mutable(&mut changed.table, name, text)?;
            }
        } else {
            set_mutable(&mut changed, name, text)?;
        }
    }
    changed.sanitize(db);
    changed.validate()?;
    changed.validate_target(db)?;
    Ok(changed)
}

/// `current` with `changes` applied, made consistent and checked.
/// # Errors
/// `InvalidArgument`: names the option, which is unknown, fixed, or has no such value.
pub fn set_db_options(current: &DbOptions, changes: &[(&str, &str)]) -> Result<DbOptions> {
    let mut changed = current.clone();
    for (name, text) in changes {
        set_mutable(&mut changed, name, text)?;
    }
    changed.sanitize();
    changed.validate()?;
    Ok(changed)
}

fn set_mutable<T: OptionStruct>(options: &mut T, name: &str, text: &str) -> Result<()> {
    if let Some(option) = T::find(name)
        && option.kind != OptionKind::Mutable
    {
        return Err(Error::invalid_argument(format!(
            "option {name}: cannot be changed while the database is open"
        )));
    }
    options.set_text(name, text).map_err(invalid)
}

/// Turns the error of an unknown field into `InvalidArgument`, as callers expect.
fn invalid(error: Error) -> Error {
    if error.kind() == ErrorKind::NotFound { Error::invalid_argument(error.message()) } else { error }
}

/// `base` with the options of `name=value;…` applied: the form of command lines and of RocksDB's
/// `GetColumnFamilyOptionsFromString`. `block_based_table_factory={…}` sets options of the table.
/// # Errors
/// `InvalidArgument` naming the option.
pub fn cf_options_from_string(base: &ColumnFamilyOptions, text: &str) -> Result<ColumnFamilyOptions> {
    let mut changed = base.clone();
    for (name, value) in split_map(text)? {
        set_family_text(&mut changed, name, value)?;
    }
    Ok(changed)
}

/// `base` with the options of `name=value;…` applied, of the database and of its families:
/// RocksDB's `GetOptionsFromString`.
///
/// ```
/// use esker::Options;
/// use esker::options::options_from_string;
///
/// let options = options_from_string(&Options::new(), "max_open_files=100;write_buffer_size=1m")?;
/// assert_eq!((options.db.max_open_files, options.cf.write_buffer_size), (100, 1 << 20));
/// # Ok::<_, esker::Error>(())
/// ```
/// # Errors
/// `InvalidArgument`: names the option, which is unknown or has no such value.
pub fn options_from_string(base: &Options, text: &str) -> Result<Options> {
    let mut changed = base.clone();
    for (name, value) in split_map(text)? {
        let is_of_db = DbOptions::find(name).is_some() || former::is_ignored(DbOptions::NAME, name);
        if is_of_db && ColumnFamilyOptions::find(name).is_none() {
            changed.db.set_text(name, value).map_err(invalid)?;
        } else {
            set_family_text(&mut changed.cf, name, value)?;
        }
    }
    Ok(changed)
}

fn set_family_text(options: &mut ColumnFamilyOptions, name: &str, value: &str) -> Result<()> {
    match table_options(name, value)? {
        Some(text) => options.table.set_from_string(text),
        None => options.set_text(name, value).map_err(invalid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_changes_or_none() {
        let (cf, db) = (ColumnFamilyOptions::default(), DbOptions::default());
        let changed = set_options(
            &cf,
            &db,
            &[("write_buffer_size", "1m"), ("block_based_table_factory", "{block_size=8k}")],
        )
        .unwrap();
        assert_eq!((changed.write_buffer_size, changed.table.block_size), (1 << 20, 8192));

        for (name, value, in_message) in [
            ("num_levels", "4", "num_levels: cannot be changed"),
            ("comparator", "leveldb.BytewiseComparator", "comparator: cannot be changed"),
            ("write_bufer_size", "1m", "write_bufer_size: no such option in ColumnFamilyOptions"),
            ("write_buffer_size", "lots", "write_buffer_size: 'lots' is not a whole number"),
            ("ttl", "-1", "ttl: -1 is not in 0..=18446744073709551615"),
            ("compression", "kLZ5", "compression: 'kLZ5' is no built-in compression"),
            (
                "compression",
                "kXpressCompression",
                "Compression type Xpress is not linked with the binary. Option compression: kXpressCompression can be",
            ),
            ("compression_opts", "{level=x}", "compression_opts: level: 'x' is not a whole number"),
            (
                "compression_opts",
                "{levle=3;level=4}",
                "compression_opts: levle: no such option of compression",
            ),
            ("bottommost_compression_opts", "{levle=3}", "levle: no such option of compression"),
            ("compaction_options_universal", "{size=3}", "size: no such option of universal compaction"),
            ("block_based_table_factory", "{block_size=0}", "option block_size: must be 1 to 4 GiB"),
            ("compaction_filter", "x", "compaction_filter: cannot be changed"),
        ] {
            let error = set_options(&cf, &db, &[("write_buffer_size", "1m"), (name, value)]).unwrap_err();
            assert!(error.message().contains(in_message), "{name}={value}: {error}");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{name}={value}: {error}");
        }
    }

    #[test]
    fn fields_that_are_not_named_stay() {
        let (mut cf, db) = (ColumnFamilyOptions::default(), DbOptions::default());
        cf.compression_opts.level = 3;
        let changed = set_options(&cf, &db, &[("compression_opts", "{parallel_threads=4;}")]).unwrap();
        assert_eq!((changed.compression_opts.level, changed.compression_opts.parallel_threads), (3, 4));
    }

    #[test]
    fn db_options_and_strings() {
        let db = set_db_options(&DbOptions::default(), &[("max_background_jobs", "8")]).unwrap();
        assert_eq!(db.background_job_limits(), (2, 6));
        assert!(set_db_options(&db, &[("wal_dir", "/x")]).unwrap_err().message().contains("wal_dir"));
        let cf = cf_options_from_string(
            &ColumnFamilyOptions::default(),
            "num_levels=4;merge_operator={id=StringAppendOperator;delimiter=|};\
             block_based_table_factory={filter_policy=bloomfilter:9.5:false;block_size=16K};compression=kZSTD",
        )
        .unwrap();
        assert_eq!(cf.num_levels, 4);
        assert_eq!(cf.merge_operator.unwrap().full_merge(b"", Some(b"a"), &[b"b"]).unwrap(), b"a|b");
        assert_eq!(cf.table.filter_policy, Some(esker_table::FilterPolicy::bloom(9.5)));
    }
}
