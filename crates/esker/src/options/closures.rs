//! Closures as plug-ins of a column family.

use super::ColumnFamilyOptions;
use crate::compaction_filter::{self, FilterDecision};
use esker_base::closures;
use std::cmp::Ordering;

/// Plug-ins from closures. The database stores the name of each. The closure behind a name must do
/// the same for as long as the data lives.
impl ColumnFamilyOptions {
    /// Sets the merge operator to one that calls `merge` with a key, the value below (if there is
    /// one) and the operands, oldest first. If `merge` returns `None`, the operands cannot be
    /// combined: reads give `Corruption`.
    ///
    /// ```
    /// use esker::{ColumnFamilyOptions, Db, DbOptions};
    /// # let dir = esker_testkit::TempDir::new("doc");
    ///
    /// let longest = ColumnFamilyOptions::new().merge_operator_fn("Longest", |_key, existing, operands| {
    ///     operands.iter().copied().chain(existing).max_by_key(|value| value.len()).map(<[u8]>::to_vec)
    /// });
    /// let options = DbOptions::new().create_if_missing(true);
    /// let db = Db::open_cf(&options, dir.path(), [("default", longest)])?;
    /// db.put("word", "esker")?;
    /// db.merge("word", "fjord and moraine")?;
    /// assert_eq!(db.get("word")?.unwrap(), b"fjord and moraine");
    /// # Ok::<_, esker::Error>(())
    /// ```
    #[must_use]
    pub fn merge_operator_fn<F>(mut self, name: impl Into<String>, merge: F) -> Self
    where
        F: Fn(&[u8], Option<&[u8]>, &[&[u8]]) -> Option<Vec<u8>> + Send + Sync + 'static,
    {
        self.merge_operator = Some(closures::merge_operator(name, merge));
        self
    }

    /// Sets the merge operator to one whose operands have the form of values: `merge` combines a
    /// value, or an operand, with the next operand. Compactions then combine operands, too.
    ///
    /// ```
    /// use esker::{ColumnFamilyOptions, Db, DbOptions};
    /// # let dir = esker_testkit::TempDir::new("doc");
    ///
    /// let append = ColumnFamilyOptions::new().associative_merge_operator_fn("Append", |_key, existing, operand| {
    ///     Some([existing.unwrap_or_default(), operand].concat())
    /// });
    /// let options = DbOptions::new().create_if_missing(true);
    /// let db = Db::open_cf(&options, dir.path(), [("default", append)])?;
    /// db.merge("log", "first;")?;
    /// db.merge("log", "second;")?;
    /// assert_eq!(db.get("log")?.unwrap(), b"first;second;");
    /// # Ok::<_, esker::Error>(())
    /// ```
    #[must_use]
    pub fn associative_merge_operator_fn<F>(mut self, name: impl Into<String>, merge: F) -> Self
    where
        F: Fn(&[u8], Option<&[u8]>, &[u8]) -> Option<Vec<u8>> + Send + Sync + 'static,
    {
        self.merge_operator = Some(closures::associative_merge_operator(name, merge));
        self
    }

    /// Sets the compaction filter to one that calls `filter` with the level, key and value of each
    /// entry it judges.
    ///
    /// ```
    /// use esker::compaction_filter::FilterDecision;
    /// use esker::{ColumnFamilyOptions, Db, DbOptions};
    /// # let dir = esker_testkit::TempDir::new("doc");
    ///
    /// let no_drafts = ColumnFamilyOptions::new().compaction_filter_fn("NoDrafts", |_level, _key, value| {
    ///     if value.starts_with(b"draft:") { FilterDecision::Remove } else { FilterDecision::Keep }
    /// });
    /// let options = DbOptions::new().create_if_missing(true);
    /// let db = Db::open_cf(&options, dir.path(), [("default", no_drafts)])?;
    /// db.put("page 1", "draft: glaciers")?;
    /// db.compact_range(None, None)?;
    /// assert_eq!(db.get("page 1")?, None);
    /// # Ok::<_, esker::Error>(())
    /// ```
    #[must_use]
    pub fn compaction_filter_fn<F>(mut self, name: impl Into<String>, filter: F) -> Self
    where
        F: Fn(usize, &[u8], &[u8]) -> FilterDecision + Send + Sync + 'static,
    {
        self.compaction_filter = Some(compaction_filter::from_closure(name, filter));
        self
    }

    /// Sets the comparator to one that calls `compare`, which must be a total order.
    ///
    /// ```
    /// use esker::{ColumnFamilyOptions, Db, DbOptions};
    /// # let dir = esker_testkit::TempDir::new("doc");
    ///
    /// let by_length = ColumnFamilyOptions::new()
    ///     .comparator_fn("ByLength", |a, b| a.len().cmp(&b.len()).then(a.cmp(b)));
    /// let options = DbOptions::new().create_if_missing(true);
    /// let db = Db::open_cf(&options, dir.path(), [("default", by_length)])?;
    /// for number in ["10", "9", "100"] {
    ///     db.put(number, "")?;
    /// }
    /// assert_eq!(db.first()?.unwrap().0, b"9");
    /// # Ok::<_, esker::Error>(())
    /// ```
    #[must_use]
    pub fn comparator_fn<F>(mut self, name: impl Into<String>, compare: F) -> Self
    where
        F: Fn(&[u8], &[u8]) -> Ordering + Send + Sync + 'static,
    {
        self.comparator = closures::comparator(name, compare);
        self
    }
}
