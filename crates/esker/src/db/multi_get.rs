//! Many keys as of one point in time: the public methods of `get/batch.rs`.

use super::{ColumnFamilyHandle, Db};
use crate::cf::ColumnFamily;
use crate::get::MultiGetOutput;
use crate::get::batch::{Keys, Output, PinnedOutput};
use crate::options::{PLAIN, ReadOptions};
use esker_base::{PinnedBytes, Result};

impl Db {
    /// The values of `keys` in the default family, in the order of the keys.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Result<Option<PinnedBytes>>> {
        self.multi_get_opt(&PLAIN, &self.default_column_family(), keys)
    }

    /// The values of `keys` in `family`, in the order of the keys, each with its own result: an
    /// error of one does not affect the others. With `value_size_soft_limit`, keys behind the limit
    /// give `Aborted`. In a batch of 15 keys or more, values of up to 1 KiB are copied together;
    /// for values from memtables, 5 keys suffice. A copied value that the caller keeps holds up to
    /// 16 KiB of memory, and no cached block.
    pub fn multi_get_opt<K: AsRef<[u8]>>(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        keys: &[K],
    ) -> Vec<Result<Option<PinnedBytes>>> {
        if let [key] = keys {
            return vec![self.inner.read_batch_of_one(options, &family.cf, key.as_ref())];
        }
        let mut values = Vec::with_capacity(keys.len());
        self.multi_get_into(options, family, keys, &mut values);
        values
    }

    /// As [`Db::multi_get_opt`], with the results in `values`, which drops its former contents. A
    /// caller that reads batch after batch reuses its memory.
    pub fn multi_get_into<K: AsRef<[u8]>>(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        keys: &[K],
        values: &mut Vec<Result<Option<PinnedBytes>>>,
    ) {
        if let [key] = keys {
            values.clear();
            values.push(self.inner.read_batch_of_one(options, &family.cf, key.as_ref()));
            return;
        }
        let mut output = PinnedOutput::with_memory_of(std::mem::take(values));
        self.inner.read_batch_as(false, options, &OneFamily { family, keys }, &mut output);
        *values = output.take_values();
    }

    /// The values of keys in several families, all as of one point in time.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// let family = db.default_column_family();
    /// let values = db.multi_get_cf(&Default::default(), &[(&family, b"a"), (&family, b"b")]);
    /// assert_eq!(values.len(), 2);
    /// let mut output = esker::MultiGetOutput::new();
    /// db.multi_get_lent(&Default::default(), &family, &["a"], &mut output);
    /// db.multi_get_lent_cf(&Default::default(), &[(&family, b"a")], &mut output);
    /// let mut reused = db.multi_get_opt(&Default::default(), &family, &["a"]);
    /// db.multi_get_into(&Default::default(), &family, &["a", "b"], &mut reused);
    /// # Ok::<_, esker::Error>(())
    /// ```
    pub fn multi_get_cf(
        &self,
        options: &ReadOptions,
        keys: &[(&ColumnFamilyHandle, &[u8])],
    ) -> Vec<Result<Option<PinnedBytes>>> {
        let mut output = PinnedOutput::default();
        self.inner.read_batch_as(false, options, &Pairs(keys), &mut output);
        output.take_values()
    }

    /// Gives the results of [`Db::multi_get_cf`] to `callback`, once. The reads end before the call
    /// returns, and `callback` runs on the caller's thread, as in RocksDB 11.8. RocksDB's
    /// `MultiGetAsync`.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// db.put("a", "1")?;
    /// let (family, mut found) = (db.default_column_family(), 0);
    /// let keys: [(_, &[u8]); 2] = [(&family, b"a"), (&family, b"b")];
    /// db.multi_get_async(&Default::default(), &keys, |values| {
    ///     found = values.iter().filter(|value| matches!(value, Ok(Some(_)))).count();
    /// });
    /// assert_eq!(found, 1);
    /// # Ok::<_, esker::Error>(())
    /// ```
    pub fn multi_get_async(
        &self,
        options: &ReadOptions,
        keys: &[(&ColumnFamilyHandle, &[u8])],
        callback: impl FnOnce(Vec<Result<Option<PinnedBytes>>>),
    ) {
        callback(self.multi_get_cf(options, keys));
    }

    /// The values of `keys` in `family`, lent by `output`, which drops its former contents. The
    /// results are those of [`Db::multi_get_opt`]; values that are not pinned cost no reference
    /// count.
    pub fn multi_get_lent<K: AsRef<[u8]>>(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        keys: &[K],
        output: &mut MultiGetOutput,
    ) {
        match keys {
            [key] if options.timestamp.is_none() && family.cf.icmp.timestamp_size() == 0 => {
                self.inner.lend_one(options, &family.cf, key.as_ref(), output);
            }
            _ => self.inner.read_batch_as(false, options, &OneFamily { family, keys }, output),
        }
    }

    /// The values of keys in several families, all as of one point in time, lent by `output`, which
    /// drops its former contents.
    pub fn multi_get_lent_cf(
        &self,
        options: &ReadOptions,
        keys: &[(&ColumnFamilyHandle, &[u8])],
        output: &mut MultiGetOutput,
    ) {
        self.inner.read_batch_as(false, options, &Pairs(keys), output);
    }

    /// The entities of `keys` in `family`, which has no timestamps.
    pub(super) fn read_entities<K: AsRef<[u8]>>(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        keys: &[K],
        output: &mut impl Output,
    ) {
        self.inner.read_batch_as(true, options, &OneFamily { family, keys }, output);
    }
}

struct OneFamily<'k, K> {
    family: &'k ColumnFamilyHandle,
    keys: &'k [K],
}

impl<K: AsRef<[u8]>> Keys for OneFamily<'_, K> {
    #[inline]
    fn len(&self) -> usize {
        self.keys.len()
    }
    #[inline]
    fn key(&self, i: usize) -> &[u8] {
        self.keys[i].as_ref()
    }
    #[inline]
    fn family(&self, _i: usize) -> &ColumnFamily {
        &self.family.cf
    }
    #[inline]
    fn is_of_one_family(&self) -> bool {
        true
    }
}

struct Pairs<'k>(&'k [(&'k ColumnFamilyHandle, &'k [u8])]);

impl Keys for Pairs<'_> {
    #[inline]
    fn len(&self) -> usize {
        self.0.len()
    }
    #[inline]
    fn key(&self, i: usize) -> &[u8] {
        self.0[i].1
    }
    #[inline]
    fn family(&self, i: usize) -> &ColumnFamily {
        &self.0[i].0.cf
    }
    #[inline]
    fn is_of_one_family(&self) -> bool {
        false
    }
}
