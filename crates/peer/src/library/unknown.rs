//! Databases of other programs, of which only the directory is known.
//!
//! In: a directory. Out: the database, opened as its OPTIONS file says as far as the library can.

use super::{FamilySpec, RocksAccess, RocksDb};
use crate::api::api;
use crate::option_set::LoadedOptionSet;
use esker_testkit::timestamps::TimestampFormat;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

impl RocksDb {
    /// Opens the database in `path`, for writing or else for reading, with the comparators that its
    /// newest OPTIONS file names. Merge operands are appended to one another. Prepared transactions
    /// stay prepared. A comparator that is not RocksDB's is replaced by one that compares bytes.
    /// With `are_stamped` that comparator ignores the timestamps of RocksDB's own format at the
    /// ends of keys. If this open fails, the function opens the database as the OPTIONS file says.
    /// # Errors
    /// RocksDB's of the first attempt, as text.
    pub fn open_unknown(path: &Path, writes: bool, are_stamped: bool) -> Result<RocksDb, String> {
        let api = api()?;
        let access = if writes { RocksAccess::Write } else { RocksAccess::Read };
        let orders = orders(path);
        let spec = |name: String| {
            let order = orders.get(&name).map_or("leveldb.BytewiseComparator", String::as_str).to_owned();
            let is_known = ["leveldb.", "rocksdb."].iter().any(|known| order.starts_with(known));
            let known = if is_known { format!("comparator={order};") } else { String::new() };
            let family = FamilySpec::new(name, format!("{known}merge_operator=StringAppendOperator"));
            match (is_known, are_stamped) {
                (true, _) => family,
                (false, true) => family.stamped(&order, TimestampFormat::STOCK),
                (false, false) => family.ordered_by(&order),
            }
        };
        let families = RocksDb::list_column_families(path)?.into_iter().map(spec).collect::<Vec<_>>();
        RocksDb::open_with(path, "allow_2pc=true", &[], &families, access).or_else(|first| {
            let loaded = LoadedOptionSet::load(api, path).map_err(|_| first.clone())?;
            let (options, of_families) = (loaded.db_options(), loaded.family_options());
            RocksDb::open_raw(api, path, options, loaded.names(), of_families, access).map_err(|_| first)
        })
    }

    /// Names of the families that are open.
    pub fn family_names(&self) -> impl Iterator<Item = &str> {
        self.families.iter().map(|(name, _)| name.as_str())
    }
}

/// The names of the families' comparators, by the newest OPTIONS file in `path`.
fn orders(path: &Path) -> HashMap<String, String> {
    let files = fs::read_dir(path).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path());
    let is_options = |file: &PathBuf| {
        file.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"OPTIONS-"))
    };
    let text =
        files.filter(is_options).max().and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
    let (mut orders, mut family) = (HashMap::new(), String::new());
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("[CFOptions \"").and_then(|rest| rest.strip_suffix("\"]")) {
            family = name.to_owned();
        } else if let Some(order) = line.strip_prefix("comparator=") {
            orders.insert(family.clone(), order.to_owned());
        }
    }
    orders
}
