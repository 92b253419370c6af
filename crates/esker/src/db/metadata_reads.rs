//! Reads with facts about the key beside its value.

use super::{ColumnFamilyHandle, Db};
use crate::get::batch::behind_limit;
use crate::get::latest::{Since, latest_sequence, range_written_since};
use crate::get::search::ReadContext;
use crate::merge::operands::take_merged;
use crate::options::{ReadOptions, table_read_options};
use esker_base::{PinnedBytes, Result};

/// The answer of [`Db::get_with_metadata`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GetOutput {
    /// The value, if the key was found.
    pub value: Option<PinnedBytes>,
    /// The timestamp of the value; empty without timestamps, and if the key was not found.
    pub timestamp: Vec<u8>,
    /// Whether the key was written, or deleted by itself or with a range, after the snapshot of
    /// the options. False without a snapshot.
    pub newer_version_present: bool,
    /// Whether the value was merged from more operands than
    /// `ReadOptions::merge_operand_count_threshold`. False without a threshold.
    pub merge_operand_threshold_exceeded: bool,
}

impl Db {
    /// The value of `key` in `family`, with its timestamp, and whether there is a newer version
    /// than the snapshot of `options` sees. Costs a second search if there is a snapshot.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// use esker::ReadOptions;
    ///
    /// db.put("esker", "gravel")?;
    /// let options = ReadOptions { snapshot: Some(db.snapshot()), ..ReadOptions::default() };
    /// db.put("esker", "sand")?;
    /// let output = db.get_with_metadata(&options, &db.default_column_family(), "esker")?;
    /// assert_eq!(&output.value.unwrap()[..], b"gravel");
    /// assert!(output.newer_version_present);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// Those of [`get_pinned_opt`](Self::get_pinned_opt), of a family with timestamps those of
    /// [`get_with_timestamp`](Self::get_with_timestamp).
    pub fn get_with_metadata(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
    ) -> Result<GetOutput> {
        self.read_with_metadata((options, options), family, key.as_ref())
    }

    /// [`get_with_metadata`](Self::get_with_metadata) at the snapshot of `read`. Newer versions are
    /// those that the snapshot of `options` does not see.
    fn read_with_metadata(
        &self,
        (options, read): (&ReadOptions, &ReadOptions),
        family: &ColumnFamilyHandle,
        key: &[u8],
    ) -> Result<GetOutput> {
        take_merged();
        let (value, timestamp) = if family.cf.icmp.timestamp_size() > 0 {
            self.get_with_timestamp(read, family, key)?.map_or((None, Vec::new()), |(v, t)| (Some(v), t))
        } else {
            (self.get_pinned_opt(read, family, key)?, Vec::new())
        };
        let merged = take_merged();
        let exceeds = |threshold| value.is_some() && merged > threshold;
        let merge_operand_threshold_exceeded = options.merge_operand_count_threshold.is_some_and(exceeds);
        let newer_version_present = self.is_written_since_snapshot(options, family, key)?;
        Ok(GetOutput { value, timestamp, newer_version_present, merge_operand_threshold_exceeded })
    }

    /// [`get_with_metadata`](Self::get_with_metadata) of each key, at one snapshot. With a
    /// `merge_operand_count_threshold` the keys are read in turn.
    pub fn multi_get_with_metadata(
        &self,
        options: &ReadOptions,
        keys: &[(&ColumnFamilyHandle, &[u8])],
    ) -> Vec<Result<GetOutput>> {
        let has_timestamps = |family: &ColumnFamilyHandle| family.cf.icmp.timestamp_size() > 0;
        let is_in_turn = options.merge_operand_count_threshold.is_some();
        if is_in_turn || keys.iter().any(|(family, _)| has_timestamps(family)) {
            let snapshot = options.snapshot.clone().unwrap_or_else(|| self.snapshot());
            let read = ReadOptions { snapshot: Some(snapshot), ..options.clone() };
            let mut bytes = 0;
            let output = |(family, key): &(&ColumnFamilyHandle, &[u8])| {
                if bytes > options.value_size_soft_limit {
                    return Err(behind_limit());
                }
                let output = self.read_with_metadata((options, &read), family, key)?;
                bytes += output.value.as_ref().map_or(0, |value| value.len() as u64);
                Ok(output)
            };
            return keys.iter().map(output).collect();
        }
        let values = self.multi_get_cf(options, keys).into_iter().zip(keys);
        let output = |value: Result<Option<PinnedBytes>>, (family, key): &(&ColumnFamilyHandle, &[u8])| {
            let value = value?;
            let newer_version_present = self.is_written_since_snapshot(options, family, key)?;
            Ok(GetOutput {
                value,
                timestamp: Vec::new(),
                newer_version_present,
                merge_operand_threshold_exceeded: false,
            })
        };
        values.map(|(value, key)| output(value, key)).collect()
    }

    /// Whether `key` was written after the snapshot of `options`.
    fn is_written_since_snapshot(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: &[u8],
    ) -> Result<bool> {
        let Some(snapshot) = &options.snapshot else { return Ok(false) };
        let since = Since::new(snapshot.sequence(), self.inner.unseen_sections(snapshot.sequence()));
        let cf = &family.cf;
        let super_version = cf.pinned_super_version();
        let table_options = table_read_options(options);
        let context = ReadContext::new(cf, options, &table_options, None);
        let timestamp_size = cf.icmp.timestamp_size();
        if timestamp_size == 0 {
            return Ok(latest_sequence(&super_version, &context, key, &since, true)?.is_some());
        }
        // Newer timestamps of a key come first.
        let newest = [key, &vec![0xFF; timestamp_size]].concat();
        let oldest = [key, &vec![0; timestamp_size]].concat();
        range_written_since(&super_version, &context, (Some(&newest), Some(&oldest)), &since, true)
    }
}
