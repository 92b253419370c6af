//! RocksDB's options, made from text or from a database's OPTIONS file.

use crate::api::{Api, DbPath, NEEDS_11, Options};
use crate::c_data::{c_path, c_string, call};
use crate::stamped_order::StampedOrder;
use std::ffi::{CStr, c_char};
use std::path::{Path, PathBuf};
use std::{ptr, slice};

/// A preset of options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preset {
    /// `IncreaseParallelism` with this number of threads.
    Parallelism(i32),
    /// `OptimizeForPointLookup` with a cache of this size in MiB.
    PointLookup(u64),
    /// `OptimizeLevelStyleCompaction` with this number of bytes for memtables.
    LevelStyle(u64),
    /// `OptimizeUniversalStyleCompaction` with this number of bytes for memtables.
    UniversalStyle(u64),
    /// `PrepareForBulkLoad`.
    BulkLoad,
}

/// RocksDB's `Options`, made from text.
pub(crate) struct OptionSet {
    api: &'static Api,
    ptr: *mut Options,
    /// The comparator, if Esker's tests define it. It must outlive each database that is opened
    /// with these options.
    order: Option<StampedOrder>,
}

impl OptionSet {
    /// Parses options of the form `name=value;…`.
    /// # Errors
    /// RocksDB's error, with the text of the options.
    pub(crate) fn parse(api: &'static Api, text: &str) -> Result<OptionSet, String> {
        // SAFETY: the function has no requirements.
        let base = OptionSet { api, ptr: unsafe { (api.options_create)() }, order: None };
        // SAFETY: the function has no requirements.
        let new = OptionSet { api, ptr: unsafe { (api.options_create)() }, order: None };
        let c_text = c_string(text);
        call(api, |error| {
            // SAFETY: both options are live, and the string ends in NUL.
            unsafe { (api.get_options_from_string)(base.ptr, c_text.as_ptr(), new.ptr, error) }
        })
        .map_err(|error| format!("options '{text}': {error}"))?;
        Ok(new)
    }

    /// Applies a preset to the options.
    pub(crate) fn apply(&mut self, preset: Preset) {
        let (api, options) = (self.api, self.ptr);
        match preset {
            // SAFETY: the options are live.
            Preset::Parallelism(threads) => unsafe { (api.options_increase_parallelism)(options, threads) },
            // SAFETY: the options are live.
            Preset::PointLookup(mib) => unsafe { (api.options_optimize_for_point_lookup)(options, mib) },
            // SAFETY: the options are live.
            Preset::LevelStyle(budget) => unsafe {
                (api.options_optimize_level_style_compaction)(options, budget)
            },
            // SAFETY: the options are live.
            Preset::UniversalStyle(budget) => unsafe {
                (api.options_optimize_universal_style_compaction)(options, budget)
            },
            // SAFETY: the options are live.
            Preset::BulkLoad => unsafe { (api.options_prepare_for_bulk_load)(options) },
        }
    }

    pub(crate) fn as_ptr(&self) -> *const Options {
        self.ptr
    }

    /// Sets the directories for tables, each with its target size. `of_family`: for one family, not
    /// for the database.
    pub(crate) fn put_tables_into(&mut self, paths: &[(PathBuf, u64)], of_family: bool) {
        let (make, destroy) =
            (self.api.dbpath_create.expect(NEEDS_11), self.api.dbpath_destroy.expect(NEEDS_11));
        let set = if of_family { self.api.options_set_cf_paths } else { self.api.options_set_db_paths };
        let made: Vec<*const DbPath> = paths
            .iter()
            // SAFETY: the string ends in NUL, and RocksDB copies it.
            .map(|(path, size)| unsafe { make(c_path(path).as_ptr(), *size) }.cast_const())
            .collect();
        // SAFETY: all paths are live, and RocksDB copies them.
        unsafe { (set.expect(NEEDS_11))(self.ptr, made.as_ptr(), made.len()) };
        for path in made {
            // SAFETY: the path was made above, and is not used again.
            unsafe { destroy(path.cast_mut()) };
        }
    }

    /// Adds statistics, and a row cache of this many bytes unless that is 0.
    pub(crate) fn count(&mut self, row_cache_bytes: usize) {
        // SAFETY: the options are live.
        unsafe { (self.api.options_enable_statistics.expect(NEEDS_11))(self.ptr) };
        if row_cache_bytes > 0 {
            // SAFETY: no requirements.
            let cache = unsafe { (self.api.cache_create_lru)(row_cache_bytes) };
            // SAFETY: options and cache are live. The options share the cache.
            unsafe { (self.api.options_set_row_cache.expect(NEEDS_11))(self.ptr, cache) };
            // SAFETY: the cache was made above, and is not used again.
            unsafe { (self.api.cache_destroy)(cache) };
        }
    }

    /// Sets the comparator of the options.
    pub(crate) fn order_by(&mut self, order: StampedOrder) {
        let set = self.api.options_set_comparator.expect(NEEDS_11);
        // SAFETY: options and comparator are live. The caller that opens a database takes the
        // comparator from `self` and keeps it.
        unsafe { set(self.ptr, order.as_ptr()) };
        self.order = Some(order);
    }

    /// Removes and returns the comparator, which the opened database must keep.
    pub(crate) fn take_order(&mut self) -> Option<StampedOrder> {
        self.order.take()
    }
}

impl Drop for OptionSet {
    fn drop(&mut self) {
        // SAFETY: `options_create` made the options. An open database has its own copy of them.
        unsafe { (self.api.options_destroy)(self.ptr) };
    }
}

/// The options of a database, from its newest OPTIONS file.
pub(crate) struct LoadedOptionSet {
    api: &'static Api,
    options: *mut Options,
    count: usize,
    names: *mut *mut c_char,
    families: *mut *mut Options,
}

impl LoadedOptionSet {
    /// Reads the newest OPTIONS file of the database in `path`.
    /// # Errors
    /// RocksDB's error as text, for example about an unknown option name.
    pub(crate) fn load(api: &'static Api, path: &Path) -> Result<LoadedOptionSet, String> {
        let path = c_path(path);
        let (options, names, families) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        let mut loaded = LoadedOptionSet { api, options, count: 0, names, families };
        // SAFETY: the function has no requirements.
        let env = unsafe { (api.create_default_env)() };
        // SAFETY: the function has no requirements.
        let cache = unsafe { (api.cache_create_lru)(8 << 20) };
        let result = call(api, |error| {
            let (options, count) = (&raw mut loaded.options, &raw mut loaded.count);
            let (names, families) = (&raw mut loaded.names, &raw mut loaded.families);
            // SAFETY: environment and cache are live, the string ends in NUL, the results outlive
            // the call.
            unsafe {
                (api.load_latest_options)(
                    path.as_ptr(),
                    env,
                    false,
                    cache,
                    options,
                    count,
                    names,
                    families,
                    error,
                )
            }
        });
        // SAFETY: the loaded options have references of their own to the cache.
        unsafe { (api.cache_destroy)(cache) };
        // SAFETY: this call destroys the handle only. RocksDB never destroys its default
        // environment.
        unsafe { (api.env_destroy)(env) };
        match result {
            Ok(()) => Ok(loaded),
            Err(error) => {
                // After an error RocksDB has made nothing that a drop must destroy.
                std::mem::forget(loaded);
                Err(error)
            }
        }
    }

    pub(crate) fn db_options(&self) -> *const Options {
        self.options
    }

    pub(crate) fn names(&self) -> Vec<String> {
        // SAFETY: RocksDB gave `count` strings, which live as long as `self`.
        let names = unsafe { slice::from_raw_parts(self.names, self.count) };
        let name = |text: &*mut c_char| {
            // SAFETY: each string ends in NUL.
            unsafe { CStr::from_ptr(*text) }.to_string_lossy().into_owned()
        };
        names.iter().map(name).collect()
    }

    pub(crate) fn family_options(&self) -> &[*const Options] {
        // SAFETY: RocksDB gave `count` sets, which live as long as `self`.
        unsafe { slice::from_raw_parts(self.families.cast::<*const Options>(), self.count) }
    }
}

impl Drop for LoadedOptionSet {
    fn drop(&mut self) {
        // SAFETY: RocksDB gave these pointers with this count; they are not used again.
        unsafe {
            (self.api.load_latest_options_destroy)(self.options, self.names, self.families, self.count)
        };
    }
}
