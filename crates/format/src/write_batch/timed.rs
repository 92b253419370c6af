//! Values with the time at which they were written, as batches, WALs and memtables have them.

use super::WriteBatch;
use super::op::tag;
use esker_base::{ColumnFamilyId, Error, Result};

/// A value that counts as written at a time, in its stored form: the value, then Unix seconds as a
/// fixed64.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimedValue<'a> {
    value: &'a [u8],
    write_unix_time: u64,
    packed: &'a [u8],
}

impl<'a> TimedValue<'a> {
    /// The value in these bytes.
    /// # Errors
    /// `Corruption` if they have no room for a time.
    pub fn parse(packed: &'a [u8]) -> Result<TimedValue<'a>> {
        let Some((value, time)) = packed.split_last_chunk::<8>() else {
            return Err(Error::corruption("timed put without its write time"));
        };
        Ok(TimedValue { value, write_unix_time: u64::from_le_bytes(*time), packed })
    }

    /// The user's value.
    pub fn value(self) -> &'a [u8] {
        self.value
    }

    /// Seconds since 1970.
    pub fn write_unix_time(self) -> u64 {
        self.write_unix_time
    }

    /// The stored bytes.
    pub fn packed(self) -> &'a [u8] {
        self.packed
    }
}

impl WriteBatch {
    /// Sets `key` to `value` in the default family, as if it had been written at `write_unix_time`:
    /// RocksDB's `TimedPut`. In a family with `preserve_internal_time_seconds` or
    /// `preclude_last_level_data_seconds` the entry counts as that old. [`u64::MAX`] makes a plain
    /// put.
    ///
    /// ```
    /// # use esker_format::write_batch::WriteBatch;
    /// let mut batch = WriteBatch::new();
    /// batch.timed_put("esker", "gravel", 1_700_000_000)?;
    /// # Ok::<_, esker_base::Error>(())
    /// ```
    /// # Errors
    /// Those of [`WriteBatch::put`]. The write of the batch fails with `NotSupported` in a family
    /// with user-defined timestamps, and with `InvalidArgument` unless `compatible_with` is "9.x"
    /// or later.
    pub fn timed_put(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        write_unix_time: u64,
    ) -> Result<()> {
        self.timed_put_cf(ColumnFamilyId::DEFAULT, key, value, write_unix_time)
    }

    /// Does the same in `family`: a handle, or its id.
    /// # Errors
    /// Those of [`WriteBatch::timed_put`].
    pub fn timed_put_cf(
        &mut self,
        family: impl Into<ColumnFamilyId>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        write_unix_time: u64,
    ) -> Result<()> {
        if write_unix_time == u64::MAX {
            return self.put_cf(family, key, value);
        }
        let packed = [value.as_ref(), &write_unix_time.to_le_bytes()].concat();
        self.put_timed_value(family.into(), key.as_ref(), TimedValue::parse(&packed)?)
    }

    pub(super) fn put_timed_value(
        &mut self,
        family: ColumnFamilyId,
        key: &[u8],
        value: TimedValue<'_>,
    ) -> Result<()> {
        self.op2(tag::TIMED_PUT, family, key, value.packed())?;
        self.content.timed = true;
        Ok(())
    }
}
