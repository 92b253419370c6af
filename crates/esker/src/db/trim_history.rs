//! Opens a database without entries whose timestamp is newer than a given one.
//!
//! In: a database whose families have user-defined timestamps; a timestamp. Out: the open database,
//! in which no table has an entry with a newer timestamp.
//!
//! Source: RocksDB `DB::OpenAndTrimHistory`.

use super::{ColumnFamilyDescriptor, ColumnFamilyHandle, Db, OpenMode};
use crate::compact::{ManualRange, compact_range};
use crate::observe::FlushReason;
use crate::options::{BottommostLevelCompaction, CompactRangeOptions, CompactionStyle, DbOptions};
use esker_base::sync::Arc;
use esker_base::{Error, Result};
use std::path::Path;

impl Db {
    /// Opens the database in `path` and removes every entry whose timestamp is newer than
    /// `trim_ts`: values, operands, deletions and range deletions. Families without timestamps stay
    /// as they are.
    ///
    /// Use it after a crash, before the first write, to bring families back to one point in time.
    /// Versions up to `trim_ts` do not come back if a compaction has dropped them, as
    /// `full_history_ts_low` allows.
    ///
    /// Cost: flushes the recovered entries, then rewrites every table of the families with
    /// timestamps. The call returns when that is done.
    ///
    /// ```
    /// use esker::{Db, DbOptions, ColumnFamilyOptions, ReadOptions, WriteOptions};
    /// # let dir = esker_testkit::TempDir::new("doc");
    ///
    /// let at = |time: u64| time.to_le_bytes();
    /// let options = DbOptions::new().create_if_missing(true);
    /// let stamped = esker::comparator::by_name("leveldb.BytewiseComparator.u64ts").unwrap();
    /// let family = ColumnFamilyOptions { comparator: stamped, ..ColumnFamilyOptions::default() };
    /// let db = Db::open_cf(&options, dir.path(), [("default", family.clone())])?;
    /// for (time, depth) in [(1, "2 m"), (2, "3 m")] {
    ///     let (write, lakes) = (WriteOptions::default(), db.default_column_family());
    ///     db.put_with_ts(&write, &lakes, "fjord", &at(time), depth)?;
    /// }
    /// db.close()?;
    /// # drop(db);
    ///
    /// let db = Db::open_and_trim_history(&options, dir.path(), [("default", family)], &at(1))?;
    /// let newest = ReadOptions { timestamp: Some(at(9).to_vec()), ..ReadOptions::default() };
    /// let depth = db.get_opt(&newest, &db.default_column_family(), "fjord")?;
    /// assert_eq!(depth.as_deref(), Some(&b"2 m"[..]));
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: `avoid_flush_during_recovery` is on, or a family has timestamps of
    /// another size than `trim_ts` · `NotSupported`: a family with timestamps does not keep them in
    /// tables, or compacts in the FIFO style, which rewrites nothing. In these cases nothing has
    /// changed · those of [`Db::open_cf`] · the error of a flush or compaction: some newer entries
    /// are gone, others are still there. The database is closed again; repeat the call.
    pub fn open_and_trim_history(
        options: &DbOptions,
        path: impl AsRef<Path>,
        families: impl IntoIterator<Item = impl Into<ColumnFamilyDescriptor>>,
        trim_ts: &[u8],
    ) -> Result<Db> {
        if options.avoid_flush_during_recovery {
            let what = "avoid_flush_during_recovery incompatible with OpenAndTrimHistory";
            return Err(Error::invalid_argument(what));
        }
        let families = ColumnFamilyDescriptor::list(families);
        for family in &families {
            check_may_trim(family, trim_ts)
                .map_err(|e| e.at(format_args!("column family '{}'", family.name)))?;
        }
        let names: Vec<String> = families.iter().map(|family| family.name.clone()).collect();
        let db = Db::open_noting(options, path.as_ref(), families, OpenMode::ReadWrite, true)?;
        let handles = names.iter().filter_map(|name| db.column_family(name));
        let trimmed = handles
            .filter(|family| family.cf.icmp.timestamp_size() > 0)
            .try_for_each(|family| db.trim_family(&family, trim_ts));
        match trimmed {
            Ok(()) => Ok(db),
            Err(e) => {
                // The caller gets the error of the trimming, not that of the close.
                db.close().unwrap_or_default();
                Err(e)
            }
        }
    }

    fn trim_family(&self, family: &ColumnFamilyHandle, trim_ts: &[u8]) -> Result<()> {
        if !self.options_cf(family).persist_user_defined_timestamps {
            return Err(not_persisted().at(format_args!("column family '{}'", family.name())));
        }
        self.inner.write_path.flush(&[family.id()], FlushReason::ManualCompaction, true)?;
        // No other compaction may run meanwhile: its untrimmed output would look like a trimmed
        // table.
        let options = CompactRangeOptions {
            exclusive_manual_compaction: true,
            bottommost_level_compaction: BottommostLevelCompaction::ForceOptimized,
            target_path_id: CompactRangeOptions::PATH_OF_LEVEL,
            ..CompactRangeOptions::default()
        };
        let trim_ts = Some(Arc::from(trim_ts));
        let range = ManualRange { family: &family.cf, begin: None, end: None, options: &options, trim_ts };
        compact_range(self.engine(), &range)
    }
}

/// If the family has timestamps, checks that its newer entries can be removed.
fn check_may_trim(family: &ColumnFamilyDescriptor, trim_ts: &[u8]) -> Result<()> {
    let options = &family.options;
    let size = options.comparator.timestamp_size();
    if size == 0 {
        return Ok(());
    }
    if size != trim_ts.len() {
        let given = trim_ts.len();
        return Err(Error::invalid_argument(format!(
            "trim_ts has {given} bytes, timestamps of '{}' have {size}",
            options.comparator.name()
        )));
    }
    if options.compaction_style == CompactionStyle::Fifo {
        let what = "OpenAndTrimHistory rewrites tables, which the FIFO compaction style does not do";
        return Err(Error::not_supported(what));
    }
    if options.persist_user_defined_timestamps { Ok(()) } else { Err(not_persisted()) }
}

fn not_persisted() -> Error {
    Error::not_supported("OpenAndTrimHistory needs persist_user_defined_timestamps")
}
