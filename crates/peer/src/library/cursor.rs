//! An iterator of RocksDB that tests move in any direction.

use super::{ContentsPair, Cursor, ReadOptionSet, RocksDb, RocksSnapshot};
use crate::c_data::slice;
use std::marker::PhantomData;

/// The bounds of an iterator.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct CursorOptions {
    /// `iterate_lower_bound`.
    pub lower: Option<Vec<u8>>,
    /// `iterate_upper_bound`.
    pub upper: Option<Vec<u8>>,
    /// `prefix_same_as_start`; else `total_order_seek`.
    pub prefix_same_as_start: bool,
}

/// An iterator of RocksDB. Destroyed when dropped.
pub struct RocksCursor<'a> {
    iter: Cursor,
    /// The bounds, which the iterator reads as long as it lives. A move of a vector leaves its
    /// bytes in place.
    _options: (ReadOptionSet, CursorOptions),
    _db: PhantomData<&'a RocksDb>,
}

impl RocksDb {
    /// An iterator over `family`, at `snapshot` or at the newest state. It is not positioned.
    pub fn cursor<'a>(
        &'a self,
        family: &str,
        options: CursorOptions,
        snapshot: Option<&RocksSnapshot<'_>>,
    ) -> RocksCursor<'a> {
        let (api, set) = (self.api, ReadOptionSet::new(self.api, snapshot));
        if options.prefix_same_as_start {
            // SAFETY: the options are live.
            unsafe { (api.readoptions_set_total_order_seek)(set.ptr, 0) };
            // SAFETY: the options are live.
            unsafe { (api.readoptions_set_prefix_same_as_start)(set.ptr, 1) };
        }
        if let Some(lower) = &options.lower {
            let (key, len) = slice(lower);
            // SAFETY: the options are live; the bytes live as long as the iterator.
            unsafe { (api.readoptions_set_iterate_lower_bound)(set.ptr, key, len) };
        }
        if let Some(upper) = &options.upper {
            let (key, len) = slice(upper);
            // SAFETY: the options are live; the bytes live as long as the iterator.
            unsafe { (api.readoptions_set_iterate_upper_bound)(set.ptr, key, len) };
        }
        // SAFETY: database, options and family are live; the database outlives the iterator.
        let iter = unsafe { (api.create_iterator_cf)(self.db, set.ptr, self.family(family)) };
        RocksCursor { iter: Cursor { api, iter }, _options: (set, options), _db: PhantomData }
    }
}

impl RocksCursor<'_> {
    /// `SeekToFirst` if `forward`, else `SeekToLast`.
    pub fn seek_to_end(&mut self, forward: bool) {
        self.iter.start(forward);
    }

    /// `Seek` if `forward`, else `SeekForPrev`.
    pub fn seek(&mut self, target: &[u8], forward: bool) {
        let api = self.iter.api;
        let (key, len) = slice(target);
        let seek = if forward { api.iter_seek } else { api.iter_seek_for_prev };
        // SAFETY: the iterator is live; the bytes are not kept.
        unsafe { seek(self.iter.iter, key, len) };
    }

    /// `Next` if `forward`, else `Prev`.
    ///
    /// # Panics
    /// If the iterator is not valid.
    pub fn step(&mut self, forward: bool) {
        // SAFETY: the iterator is live.
        assert_ne!(unsafe { (self.iter.api.iter_valid)(self.iter.iter) }, 0, "REQUIRES: valid");
        self.iter.step(forward);
    }

    /// The current key and value; `None` if the iterator is not valid.
    /// # Errors
    /// RocksDB's, as text.
    pub fn pair(&self) -> Result<Option<ContentsPair>, String> {
        self.iter.status()?;
        Ok(self.iter.pair())
    }
}

impl std::fmt::Debug for RocksCursor<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RocksCursor").finish_non_exhaustive()
    }
}
