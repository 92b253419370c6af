//! Reads of merge operands that are not merged.
//!
//! In: a family, a key, read options. Out: the entries from which a get would make its value.

use super::{ColumnFamilyHandle, Db};
use crate::get::search::{PointSearch, ReadContext};
use crate::options::{ReadOptions, table_read_options};
use esker_base::{Error, PinnedBytes, Result};
use esker_format::key::LookupKey;

impl Db {
    /// The base value of `key` in `family`, if it has one, and the merge operands over it, oldest
    /// first. Empty if the key has no value. Does not call the merge operator, so the family needs
    /// none. Neighbouring operands may have been merged into one by a compaction.
    ///
    /// Costs what a get costs that merges these operands, without the merge. RocksDB's
    /// `GetMergeOperands`.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// use esker::{Db, Options, ReadOptions, builtin};
    ///
    /// let mut options = Options::new().create_if_missing(true);
    /// options.cf.merge_operator = Some(builtin::string_append(","));
    /// let db = Db::open(&options, dir.path())?;
    /// let family = db.default_column_family();
    /// db.put("esker", "gravel")?;
    /// db.merge("esker", "sand")?;
    /// let operands = db.get_merge_operands(&ReadOptions::default(), &family, "esker", 10)?;
    /// assert_eq!(operands.iter().map(|o| &o[..]).collect::<Vec<_>>(), [b"gravel" as &[u8], b"sand"]);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `Incomplete`: there are more than `max_operands`, the number is in the message; or the read
    /// needs I/O that `read_tier` forbids · `Corruption` and `IoError` name the file and offset ·
    /// `TimedOut`: it needs I/O after `deadline` · `InvalidArgument`: a snapshot or family of
    /// another database · `NotSupported`: the family has timestamps, or `options` has one; or this
    /// is a forked child process · `ShutdownInProgress`: the database was closed.
    pub fn get_merge_operands(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
        max_operands: usize,
    ) -> Result<Vec<PinnedBytes>> {
        let cf = &family.cf;
        self.inner.check_family(cf)?;
        if cf.icmp.timestamp_size() > 0 || options.timestamp.is_some() {
            let what = "get_merge_operands of a family with timestamps, or at a timestamp";
            return Err(Error::not_supported(what));
        }
        if let Some(snapshot) = &options.snapshot {
            self.inner.check_own(snapshot)?;
        }
        let (super_version, sequence, unseen) = match &self.inner.engine.commits {
            Some(commits) => self.inner.prepared_read_point(cf, options, commits)?,
            None => {
                let (super_version, sequence) = self.inner.pinned_read_point(cf, options, None);
                (super_version, sequence, None)
            }
        };
        let table_options = table_read_options(options);
        let statistics = self.inner.engine.options.statistics.as_deref();
        let context = ReadContext::new(cf, options, &table_options, statistics);
        let context = ReadContext { files_only: self.inner.reads_files_only(options), ..context };
        let key = LookupKey::new(key.as_ref(), sequence);
        let search = PointSearch::new(&super_version, &context, &key);
        let operands = match &unseen {
            None => search.operands()?,
            Some(unseen) => search.seeing(unseen).operands()?,
        };
        if operands.len() > max_operands {
            let count = operands.len();
            return Err(Error::incomplete(format!(
                "{count} merge operands, but max_operands is {max_operands}"
            )));
        }
        Ok(operands)
    }
}
