//! A map of families by id that counts iterations over them.
//!
//! In: a value per family. Out: the values and, in builds with assertions, the number of families
//! that iterations have passed. Databases may have thousands of families: a write, a flush or a
//! replayed record of one family must not iterate over the others. Tests compare
//! [`FamilyMap::walked`] before and after an operation.

use esker_base::ColumnFamilyId;
use esker_base::sync::process::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::ops::Index;

/// One value per family, in the order of ids.
#[derive(Debug)]
pub(crate) struct FamilyMap<T> {
    map: BTreeMap<ColumnFamilyId, T>,
    walked: AtomicU64,
}

impl<T> Default for FamilyMap<T> {
    fn default() -> Self {
        FamilyMap { map: BTreeMap::new(), walked: AtomicU64::new(0) }
    }
}

impl<T> FamilyMap<T> {
    /// Families that all iterations so far have passed. Always 0 in builds without assertions.
    pub(crate) fn walked(&self) -> u64 {
        self.walked.load(Ordering::Relaxed)
    }

    fn count(&self) {
        if cfg!(debug_assertions) {
            self.walked.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn get(&self, id: &ColumnFamilyId) -> Option<&T> {
        self.map.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: &ColumnFamilyId) -> Option<&mut T> {
        self.map.get_mut(id)
    }

    pub(crate) fn insert(&mut self, id: ColumnFamilyId, value: T) -> Option<T> {
        self.map.insert(id, value)
    }

    pub(crate) fn remove(&mut self, id: &ColumnFamilyId) -> Option<T> {
        self.map.remove(id)
    }

    /// Iterates over all families.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ColumnFamilyId, &T)> {
        self.map.iter().inspect(|_| self.count())
    }

    /// Iterates over all families.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.iter().map(|(_, value)| value)
    }

    /// Iterates over all families.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &ColumnFamilyId> {
        self.iter().map(|(id, _)| id)
    }

    /// Iterates over all families.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        if cfg!(debug_assertions) {
            self.walked.fetch_add(self.map.len() as u64, Ordering::Relaxed);
        }
        self.map.values_mut()
    }

    pub(crate) fn into_values(self) -> impl Iterator<Item = T> {
        self.map.into_values()
    }
}

impl<T> Index<&ColumnFamilyId> for FamilyMap<T> {
    type Output = T;

    fn index(&self, id: &ColumnFamilyId) -> &T {
        &self.map[id]
    }
}

impl<T> FromIterator<(ColumnFamilyId, T)> for FamilyMap<T> {
    fn from_iter<I: IntoIterator<Item = (ColumnFamilyId, T)>>(families: I) -> Self {
        FamilyMap { map: families.into_iter().collect(), walked: AtomicU64::new(0) }
    }
}
