//! All column families of a database, by id and by name, readable without the db mutex.

use crate::cf::ColumnFamily;
use esker_base::ColumnFamilyId;
use esker_base::sync::atomic::{AtomicBool, Ordering};
use esker_base::sync::{Arc, RwLock};
use hashbrown::HashMap;

/// The live families. The default family has its own field, so that most operations need no lock.
#[derive(Debug)]
pub(crate) struct ColumnFamilySet {
    default: Arc<ColumnFamily>,
    by_id: RwLock<HashMap<ColumnFamilyId, Arc<ColumnFamily>>>,
    /// Changed under the lock of `by_id`.
    by_name: RwLock<HashMap<String, Arc<ColumnFamily>>>,
    /// Whether a family had an `inplace_callback` at some time.
    pub(crate) has_callbacks: AtomicBool,
}

impl ColumnFamilySet {
    /// The families of a database that has just been recovered; one of them is the default.
    pub(crate) fn new(families: impl IntoIterator<Item = Arc<ColumnFamily>>) -> ColumnFamilySet {
        let by_id: HashMap<_, _> = families.into_iter().map(|cf| (cf.id, cf)).collect();
        let default = by_id[&ColumnFamilyId::DEFAULT].clone();
        let by_name = by_id.values().map(|cf| (cf.name.clone(), cf.clone())).collect();
        let has_callbacks = AtomicBool::new(by_id.values().any(|cf| updates_in_place(cf)));
        let (by_id, by_name) = (RwLock::new(by_id), RwLock::new(by_name));
        ColumnFamilySet { default, by_id, by_name, has_callbacks }
    }

    /// The default family.
    #[inline]
    pub(crate) fn default_family(&self) -> &Arc<ColumnFamily> {
        &self.default
    }

    /// The family with this id, unless it was dropped.
    #[inline]
    pub(crate) fn by_id(&self, id: ColumnFamilyId) -> Option<Arc<ColumnFamily>> {
        if id == ColumnFamilyId::DEFAULT {
            return Some(self.default.clone());
        }
        self.by_id.read().get(&id).cloned()
    }

    /// Calls `look` with the family with this id, unless it was dropped. Changes no reference
    /// count.
    #[inline]
    pub(crate) fn with<T>(&self, id: ColumnFamilyId, look: impl FnOnce(&ColumnFamily) -> T) -> Option<T> {
        if id == ColumnFamilyId::DEFAULT {
            return Some(look(&self.default));
        }
        self.by_id.read().get(&id).map(|cf| look(cf))
    }

    /// The family with this name, unless it was dropped.
    pub(crate) fn by_name(&self, name: &str) -> Option<Arc<ColumnFamily>> {
        self.by_name.read().get(name).cloned()
    }

    /// All of them, by id.
    pub(crate) fn all(&self) -> Vec<Arc<ColumnFamily>> {
        let mut all: Vec<_> = self.by_id.read().values().cloned().collect();
        all.sort_by_key(|cf| cf.id);
        all
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.read().len()
    }

    pub(crate) fn insert(&self, cf: Arc<ColumnFamily>) {
        if updates_in_place(&cf) {
            self.has_callbacks.store(true, Ordering::Relaxed);
        }
        let mut by_id = self.by_id.write();
        self.by_name.write().insert(cf.name.clone(), cf.clone());
        by_id.insert(cf.id, cf);
    }

    pub(crate) fn remove(&self, cf: &ColumnFamily) {
        let mut by_id = self.by_id.write();
        self.by_name.write().remove(&cf.name);
        by_id.remove(&cf.id);
    }
}

fn updates_in_place(cf: &ColumnFamily) -> bool {
    cf.super_version.load_full().options.updates_in_place()
}
