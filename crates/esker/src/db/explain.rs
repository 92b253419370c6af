//! Reads that describe their own steps: the public methods of `explain/`.

use super::{ColumnFamilyHandle, Db};
use crate::explain::{ExplainScan, Explainer};
use crate::observe::Explanation;
use crate::options::{MultiScanArgs, ReadOptions};
use esker_base::Result;

impl Db {
    /// Explains [`Db::get_opt`] of `key`: the sources that the read searches, and why.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// use esker::{ExplainScan, MultiScanArgs, ReadOptions};
    ///
    /// let (read, family) = (ReadOptions::default(), db.default_column_family());
    /// println!("{}", db.explain_get(&read, &family, "esker")?);
    /// db.explain_multi_get(&read, &family, &["esker", "fjord"])?;
    /// db.explain_seek(&read, &family, "e")?;
    /// let ten_rows = ExplainScan { rows: 10, ..ExplainScan::default() };
    /// println!("{}", db.explain_scan(&read, &family, &ten_rows)?.to_json());
    ///
    /// let mut ranges = MultiScanArgs::new();
    /// ranges.insert("a", "b");
    /// db.explain_multi_scan(&read, &family, &ranges)?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the family or the snapshot is one of another database · `NotSupported`:
    /// the family or the options have user-defined timestamps, or the write policy is not
    /// `WriteCommitted` · `ShutdownInProgress`: the database was closed. The explanation holds
    /// errors of the read itself.
    pub fn explain_get(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
    ) -> Result<Explanation> {
        Ok(Explainer::begin(&self.inner, &family.cf, options)?.lookups("get", &[key]))
    }

    /// Explains [`Db::multi_get_opt`] of `keys`: for each distinct key, in the keys' order, the
    /// sources that the read searches, and why. A later key finds the blocks of earlier ones in the
    /// cache.
    /// # Errors
    /// `InvalidArgument`: the family or the snapshot is one of another database · `NotSupported`:
    /// the family or the options have user-defined timestamps, or the write policy is not
    /// `WriteCommitted` · `ShutdownInProgress`: the database was closed. The explanation holds
    /// errors of the read itself.
    pub fn explain_multi_get<K: AsRef<[u8]>>(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        keys: &[K],
    ) -> Result<Explanation> {
        Ok(Explainer::begin(&self.inner, &family.cf, options)?.lookups("multiget", keys))
    }

    /// Explains a seek to `target`, and the read of the row there.
    /// # Errors
    /// `InvalidArgument`: the family or the snapshot is one of another database · `NotSupported`:
    /// the family or the options have user-defined timestamps, the write policy is not
    /// `WriteCommitted`, or `read_tier` is `Persisted` · `ShutdownInProgress`: the database was
    /// closed. The explanation holds errors of the read itself.
    pub fn explain_seek(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        target: impl AsRef<[u8]>,
    ) -> Result<Explanation> {
        let scan = ExplainScan { from: Some(target.as_ref().to_vec()), rows: 1, reverse: false };
        Explainer::begin(&self.inner, &family.cf, options)?.scan("seek", &scan)
    }

    /// Explains a scan, run by run.
    /// # Errors
    /// `InvalidArgument`: the family or the snapshot is one of another database · `NotSupported`:
    /// the family or the options have user-defined timestamps, the write policy is not
    /// `WriteCommitted`, or `read_tier` is `Persisted` · `ShutdownInProgress`: the database was
    /// closed. The explanation holds errors of the read itself.
    pub fn explain_scan(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        scan: &ExplainScan,
    ) -> Result<Explanation> {
        Explainer::begin(&self.inner, &family.cf, options)?.scan("scan", scan)
    }

    /// Explains the scans of [`Db::new_multi_scan`], run by run, with their readahead. An error
    /// ends the scans.
    /// # Errors
    /// `InvalidArgument`: there are no ranges, they overlap or do not ascend, or the family or the
    /// snapshot is one of another database · `NotSupported`: the family or the options have
    /// user-defined timestamps, the write policy is not `WriteCommitted`, or `read_tier` is
    /// `Persisted` · `ShutdownInProgress`: the database was closed. The explanation holds errors
    /// of the read itself.
    pub fn explain_multi_scan(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        args: &MultiScanArgs,
    ) -> Result<Explanation> {
        Explainer::begin(&self.inner, &family.cf, options)?.multi_scan(args)
    }
}
