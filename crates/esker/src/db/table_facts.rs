//! Facts about tables and versions of keys: properties of tables, the age of the oldest file, the
//! newest user-defined timestamp, every stored version of a key.
//!
//! In: a family, as of now. Out: copies. Source of the semantics: RocksDB
//! `include/rocksdb/db.h`, `include/rocksdb/utilities/debug.h`, `db/db_impl/db_impl.cc`.

use super::{ColumnFamilyHandle, Db, internal_iterator};
use crate::files::open_table::open_file;
use crate::merge::timestamps::newest_timestamp;
use crate::observe::{ColumnFamilyMetaData, KeyVersion};
use crate::version::FileMeta;
use esker_base::comparator::Comparator;
use esker_base::{Error, Result, SequenceNumber};
use esker_format::key::{ParsedInternalKey, seek_key};
use esker_format::properties::TableProperties;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Properties of tables, by path.
type OfTables = BTreeMap<PathBuf, TableProperties>;

impl Db {
    /// The properties of each table of `family`, by path. Opens tables that are not open; each call
    /// copies the properties. It is RocksDB's `GetPropertiesOfAllTables`.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// db.put("esker", "gravel")?;
    /// db.flush()?;
    /// let family = db.default_column_family();
    /// for (path, properties) in db.properties_of_all_tables(&family)? {
    ///     println!("{}: {} entries", path.display(), properties.num_entries);
    /// }
    /// assert_eq!(db.properties_of_tables_in_range(&family, &[(b"a", b"f")])?.len(), 1);
    /// assert_eq!(db.properties_of_tables_in_range(&family, &[(b"x", b"z")])?.len(), 0);
    /// assert_eq!(db.properties_of_tables_by_level(&family)?[0].len(), 1);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `Corruption` and `IoError` from opening a table · `InvalidArgument` for a family of another
    /// database · `NotSupported` in a forked child process.
    pub fn properties_of_all_tables(&self, family: &ColumnFamilyHandle) -> Result<OfTables> {
        self.inner.check_family(&family.cf)?;
        let super_version = family.cf.pinned_super_version();
        super_version.version.all_files().map(|(_, file)| properties_of(family, file)).collect()
    }

    /// The properties of the tables of `family` that may have a key within one of the ranges, by
    /// path. Both ends of a range are included, and have no timestamps. It is RocksDB's
    /// `GetPropertiesOfTablesInRange`.
    /// # Errors
    /// Those of [`Db::properties_of_all_tables`].
    pub fn properties_of_tables_in_range(
        &self,
        family: &ColumnFamilyHandle,
        ranges: &[(&[u8], &[u8])],
    ) -> Result<OfTables> {
        self.inner.check_family(&family.cf)?;
        let (super_version, icmp) = (family.cf.pinned_super_version(), &family.cf.icmp);
        let version = &super_version.version;
        let mut found = OfTables::new();
        for (begin, end) in ranges {
            let (begin, end) = (icmp.first_version(begin), icmp.last_version(end));
            for level in 0..version.num_levels() {
                for file in version.overlapping(level, Some(&begin), Some(&end)) {
                    if !found.contains_key(&file.path()) {
                        found.extend([properties_of(family, &file)?]);
                    }
                }
            }
        }
        Ok(found)
    }

    /// The properties of the tables of each level of `family`, by path. It is RocksDB's
    /// `GetPropertiesOfTablesByLevel`.
    /// # Errors
    /// Those of [`Db::properties_of_all_tables`].
    pub fn properties_of_tables_by_level(&self, family: &ColumnFamilyHandle) -> Result<Vec<OfTables>> {
        self.inner.check_family(&family.cf)?;
        let super_version = family.cf.pinned_super_version();
        let version = &super_version.version;
        let of_level = |level| {
            version.files(level).iter().map(|file| properties_of(family, file)).collect::<Result<_>>()
        };
        (0..version.num_levels()).map(of_level).collect()
    }

    /// [`Db::column_family_metadata`] of every family, by id.
    pub fn all_column_family_metadata(&self) -> Vec<ColumnFamilyMetaData> {
        let mut all = Vec::new();
        if self.engine().owner.is_here() {
            let mut families = self.engine().families.all();
            families.sort_by_key(|cf| cf.id);
            all.extend(
                families.into_iter().map(|cf| self.column_family_metadata(&ColumnFamilyHandle { cf })),
            );
        }
        all
    }

    /// Unix seconds at which the oldest table of all families was written; 0 if a table does not
    /// say when, `u64::MAX` if there is no table. It is RocksDB's `GetCreationTimeOfOldestFile`,
    /// which needs `max_open_files=-1`; this one does not.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// assert_eq!(db.creation_time_of_oldest_file()?, u64::MAX);
    /// db.put("esker", "gravel")?;
    /// db.flush()?;
    /// assert!(db.creation_time_of_oldest_file()? < u64::MAX);
    /// assert_eq!(db.all_column_family_metadata()[0].file_count, 1);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `Corruption` and `IoError` from opening a table whose time the MANIFEST lacks ·
    /// `NotSupported` in a forked child process.
    pub fn creation_time_of_oldest_file(&self) -> Result<u64> {
        self.engine().check_process()?;
        let mut oldest = u64::MAX;
        for family in self.engine().families.all() {
            let super_version = family.pinned_super_version();
            for (_, file) in super_version.version.all_files() {
                let time = match file.file_creation_time {
                    0 => open_file(&family.tables, file)?.properties().file_creation_time,
                    known => known,
                };
                oldest = oldest.min(time);
            }
        }
        Ok(oldest)
    }

    /// The newest user-defined timestamp that `family` has seen, in a family whose tables have no
    /// timestamps (`persist_user_defined_timestamps=false`); empty if it has seen none. Memtables
    /// are read from end to end. It is RocksDB's `GetNewestUserDefinedTimestamp`.
    /// # Errors
    /// `InvalidArgument`: the family has no timestamps, or is one of another database ·
    /// `NotSupported`: tables have timestamps; the comparator's timestamps cannot be counted down,
    /// and memtables are empty; a forked child process.
    pub fn newest_user_defined_timestamp(&self, family: &ColumnFamilyHandle) -> Result<Vec<u8>> {
        self.inner.check_family(&family.cf)?;
        let icmp = &family.cf.icmp;
        if icmp.timestamp_size() == 0 {
            return Err(Error::invalid_argument("Timestamp is not enabled in this column family"));
        }
        let super_version = family.cf.pinned_super_version();
        if super_version.options.persist_user_defined_timestamps {
            let what = "newest_user_defined_timestamp: the tables of this family have timestamps";
            return Err(Error::not_supported(what));
        }
        for mem in super_version.memtables() {
            let newest = newest_timestamp(std::slice::from_ref(mem), icmp);
            if !newest.is_empty() {
                return Ok(newest);
            }
        }
        match super_version.version.full_history_ts_low() {
            [] => Ok(Vec::new()),
            bound => newest_below(super_version.options.comparator.as_ref(), bound),
        }
    }

    /// The stored versions of the keys of `family` from `begin` to `end` (both included, without
    /// timestamps; `None` is open), at most `most` of them: key by key, the newest version first.
    /// Entries that range tombstones hide are left out. It is RocksDB's `GetAllKeyVersions`.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// db.put("esker", "gravel")?;
    /// let _keeps_the_older_version = db.snapshot();
    /// db.delete("esker")?;
    /// let family = db.default_column_family();
    /// let versions = db.all_key_versions(&family, Some(b"a"), Some(b"f"), usize::MAX)?;
    /// let kinds: Vec<_> = versions.iter().map(|version| version.type_name()).collect();
    /// assert_eq!(kinds, ["TypeDeletion", "TypeValue"]);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `Corruption` and `IoError` name the file · `InvalidArgument` for a family of another
    /// database · `NotSupported` in a forked child process.
    pub fn all_key_versions(
        &self,
        family: &ColumnFamilyHandle,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
        most: usize,
    ) -> Result<Vec<KeyVersion>> {
        let icmp = &family.cf.icmp;
        let mut iter = internal_iterator(self, family)?;
        match begin {
            Some(begin) => iter.seek(&seek_key(&icmp.first_version(begin), SequenceNumber::MAX)),
            None => iter.seek_to_first(),
        }
        let end = end.map(|end| icmp.last_version(end));
        let mut versions = Vec::new();
        while iter.valid() && versions.len() < most {
            let key = ParsedInternalKey::parse(iter.key())?;
            if end.as_ref().is_some_and(|end| icmp.compare_plain_keys(key.user_key, end).is_gt()) {
                break;
            }
            versions.push(KeyVersion {
                user_key: key.user_key.to_vec(),
                value: iter.value().to_vec(),
                sequence: key.sequence,
                value_type: key.value_type,
            });
            iter.next();
        }
        iter.status()?;
        Ok(versions)
    }
}

fn properties_of(family: &ColumnFamilyHandle, file: &FileMeta) -> Result<(PathBuf, TableProperties)> {
    Ok((file.path(), open_file(&family.cf.tables, file)?.properties().clone()))
}

/// The newest timestamp below `bound`, the `full_history_ts_low` after a flush that has dropped the
/// timestamps. A flush leaves it at the newest timestamp if the comparator has no next one.
/// # Errors
/// `NotSupported`.
fn newest_below(comparator: &dyn Comparator, bound: &[u8]) -> Result<Vec<u8>> {
    let zeros = vec![0; bound.len()];
    if comparator.next_timestamp(&zeros).is_none() {
        return Ok(bound.to_vec());
    }
    let before = bound.first_chunk().map(|word| u64::from_le_bytes(*word).wrapping_sub(1).to_le_bytes());
    match before.filter(|before| comparator.next_timestamp(before).as_deref() == Some(bound)) {
        Some(before) => Ok(before.to_vec()),
        None => Err(Error::not_supported("the timestamps of this comparator cannot be counted down")),
    }
}
