//! Whole-family changes of what is stored and where: `clip_column_family` and `promote_l0`.

use super::{ColumnFamilyHandle, Db};
use crate::engine::UnderWay;
use crate::options::{BottommostLevelCompaction, CompactRangeOptions, FlushOptions, RangeOpt, WriteOptions};
use esker_base::{Error, Result};

impl Db {
    /// Deletes all keys of `family` outside of `[begin, end)`, and compacts the family, so that no
    /// deletion of them is left either, unless a snapshot needs it. RocksDB's `ClipColumnFamily`.
    ///
    /// Others must not write to the family meanwhile: what they write outside of the range may
    /// stay. The call has several steps, each durable on its own. After an error or a crash some
    /// keys outside of the range may be there; another call deletes them. Its cost is that of a
    /// compaction of the whole family. Tables outside of the range are deleted unread, and
    /// snapshots lose their entries.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// for key in ["a", "b", "c"] {
    ///     db.put(key, "value")?;
    /// }
    /// db.clip_column_family(&db.default_column_family(), "b", "c")?;
    /// assert!(db.get("b")?.is_some() && db.get("a")?.is_none() && db.get("c")?.is_none());
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the range ends before it begins · `NotSupported`: the family has
    /// timestamps, or the database is read-only · the errors of [`Db::flush_opt`], of a write, and
    /// of [`Db::compact_range_opt`].
    pub fn clip_column_family(
        &self,
        family: &ColumnFamilyHandle,
        begin: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) -> Result<()> {
        let (begin, end) = (begin.as_ref(), end.as_ref());
        self.engine().check_writable()?;
        family.check_live(self)?;
        let icmp = &family.cf.icmp;
        if icmp.timestamp_size() > 0 {
            return Err(Error::not_supported("clip_column_family of a family with timestamps"));
        }
        if icmp.compare_user_keys(begin, end).is_gt() {
            return Err(Error::invalid_argument("clip_column_family: the range ends before it begins"));
        }
        self.flush_opt(&FlushOptions::default().allow_write_stall(true), &[family])?;
        let before = RangeOpt { start: None, limit: Some(begin) };
        let behind = RangeOpt { start: Some(end), limit: None };
        self.delete_files_in_ranges(family, &[before, behind], false)?;
        let Some((first, last)) = self.ends_of_tables(family) else { return Ok(()) };
        let options = WriteOptions::default();
        if icmp.compare_user_keys(&first, begin).is_lt() {
            self.delete_range_opt(&options, family, &first, begin)?;
        }
        if icmp.compare_user_keys(end, &last).is_le() {
            self.delete_range_opt(&options, family, end, &last)?;
            self.delete_opt(&options, family, &last)?;
        }
        let compact = CompactRangeOptions::default()
            .exclusive_manual_compaction(true)
            .bottommost_level_compaction(BottommostLevelCompaction::ForceOptimized);
        self.compact_range_opt(&compact, family, None, None)
    }

    /// The first and the last user key of the family's tables; `None` without tables.
    fn ends_of_tables(&self, family: &ColumnFamilyHandle) -> Option<(Vec<u8>, Vec<u8>)> {
        let super_version = family.cf.super_version.load_full();
        let icmp = &family.cf.icmp;
        let files = || super_version.version.all_files().map(|(_, file)| file);
        let first =
            files().map(|file| file.smallest_user_key()).min_by(|a, b| icmp.compare_user_keys(a, b))?;
        let last = files().map(|file| file.largest_user_key()).max_by(|a, b| icmp.compare_user_keys(a, b))?;
        Some((first.to_vec(), last.to_vec()))
    }

    /// Moves all files of level 0 to `target_level`, unread. They must not overlap each other, and
    /// the levels from 1 to `target_level` must be empty. Waits for running flushes and
    /// compactions; a memtable stays where it is. RocksDB's `PromoteL0`.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// db.put("esker", "gravel")?;
    /// db.flush()?;
    /// db.promote_l0(&db.default_column_family(), 6)?;
    /// assert_eq!(db.live_files()[0].level, 6);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: there is no such level below 0, files of level 0 overlap, a level on the
    /// way has files, or the family has FIFO compaction · `ColumnFamilyDropped` · `NotSupported`
    /// when read-only · `ShutdownInProgress` · the background error in force, or the MANIFEST's
    /// error.
    pub fn promote_l0(&self, family: &ColumnFamilyHandle, target_level: i32) -> Result<()> {
        let engine = self.engine();
        engine.check_writable()?;
        let _under_way = UnderWay::begin(engine)?;
        family.check_live(self)?;
        crate::compact::promote_l0(engine, &family.cf, target_level)
    }
}
