//! Databases that count: with statistics and perhaps a row cache, and with reads of many keys.

use super::{ReadOptionSet, RocksAccess, RocksDb};
use crate::api::{NEEDS_11, Slice, api};
use crate::c_data::{copy, take_string};
use crate::option_set::OptionSet;
use std::path::Path;
use std::ptr;

impl RocksDb {
    /// Opens the database in `path`, whose only family is the default one, with statistics, and
    /// with a row cache of this many bytes; 0: none.
    /// # Errors
    /// RocksDB's, as text.
    pub fn open_counted(path: &Path, options: &str, row_cache_bytes: usize) -> Result<RocksDb, String> {
        let api = api()?;
        let mut set = OptionSet::parse(api, options)?;
        set.count(row_cache_bytes);
        let name = vec!["default".to_owned()];
        RocksDb::open_raw(api, path, set.as_ptr(), name, &[set.as_ptr()], RocksAccess::Write)
    }

    /// The values of these keys of `family`, read together.
    /// # Errors
    /// RocksDB's, as text: the last one.
    pub fn multi_get(&self, family: &str, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, String> {
        let slices: Vec<Slice> =
            keys.iter().map(|key| Slice { data: key.as_ptr().cast(), size: key.len() }).collect();
        let (mut values, mut errors) = (vec![ptr::null_mut(); keys.len()], vec![ptr::null_mut(); keys.len()]);
        let read = ReadOptionSet::new(self.api, None);
        let (db, family) = (self.db, self.family(family));
        let (k, v, e) = (slices.as_ptr(), values.as_mut_ptr(), errors.as_mut_ptr());
        let multi_get = self.api.batched_multi_get_cf_slice.expect(NEEDS_11);
        // SAFETY: database, options and family are live; the three arrays have as many elements as
        // there are keys.
        unsafe { multi_get(db, read.ptr, family, keys.len(), k, v, e, false) };
        let mut found = Vec::with_capacity(keys.len());
        let mut failure = None;
        for (value, error) in values.into_iter().zip(errors) {
            if !error.is_null() {
                failure = Some(take_string(self.api, error));
            }
            if value.is_null() {
                found.push(None);
                continue;
            }
            let mut len = 0;
            // SAFETY: RocksDB gave the value to us; it is destroyed below.
            let bytes = unsafe { (self.api.pinnableslice_value)(value, &raw mut len) };
            found.push(Some(copy(bytes, len)));
            // SAFETY: RocksDB gave the value to us; it is not used again.
            unsafe { (self.api.pinnableslice_destroy)(value) };
        }
        failure.map_or(Ok(found), Err)
    }

    /// The count of the ticker with this name, for example `rocksdb.row.cache.hit`. 0 without
    /// statistics.
    pub fn ticker(&self, name: &str) -> u64 {
        let text = self.property("default", "rocksdb.options-statistics").unwrap_or_default();
        let count = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" COUNT : "));
        count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
    }
}
