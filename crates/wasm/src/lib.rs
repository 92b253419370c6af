//! Reads a database whose files lie in memory. Compiles for WebAssembly.
//!
//! In: the names and bytes of the files of a database's directory. Out: its families, single
//! values, and runs of keys. Below it are the format crates alone: no engine, no file, no thread,
//! no clock. `js/esker.mjs` wraps the module that this command builds:
//!
//! ```text
//! cargo rustc --release --target wasm32-unknown-unknown -p esker-wasm --lib --crate-type cdylib
//! ```
//!
//! Reading order: [`Reader`]; `manifest.rs` (the tables of each family), `wal.rs` (writes that are
//! in no table yet), `table.rs` (one table), `merge.rs` (the visible versions of all sources),
//! `values.rs` (what they stand for), `operators.rs` (RocksDB's merge operators), `exports.rs` (the
//! functions that JavaScript calls).
//!
//! Invariants
//!  1. Every answer equals that of the engine, opened with `wal_recovery_mode` point in time, or
//!     is an error.
//!  2. A feature that this crate cannot read is `NotSupported`, named in the message: operators of
//!     users, or none in an OPTIONS file; transactions of other policies than write-committed;
//!     embedded blobs; comparators of users.
//!  3. Bad bytes are `Corruption` and name the file. No input makes a function panic.
#![warn(missing_docs)]
#![deny(clippy::indexing_slicing, clippy::cast_possible_truncation, clippy::panic)]

#[cfg(target_family = "wasm")]
mod exports;
mod files;
mod manifest;
mod merge;
mod operators;
mod table;
mod values;
mod wal;

pub use files::DirectoryFiles;

use esker_base::{ColumnFamilyId, Error, Result, SequenceNumber};
use esker_format::key::{self, InternalKeyComparator};
use manifest::{Manifest, StoredFamily};
use merge::{FoundKey, ReadTime, Versions};
use operators::MergeOperators;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use table::TableBytes;
use wal::SortedWalEntries;

/// A database in memory.
#[derive(Debug)]
pub struct Reader {
    files: DirectoryFiles,
    families: BTreeMap<ColumnFamilyId, Family>,
    operators: MergeOperators,
}

/// One column family.
#[derive(Debug)]
struct Family {
    state: StoredFamily,
    icmp: InternalKeyComparator,
    memtable: SortedWalEntries,
    /// The opened tables. The first read of the family opens them.
    tables: OnceCell<Vec<TableBytes>>,
}

impl Reader {
    /// Opens the database in these files. Reads CURRENT, the MANIFEST and the WALs; a table is
    /// read when a read needs it.
    /// # Errors
    /// `Corruption` if a file is missing or damaged · `NotSupported` names the feature.
    pub fn open(files: DirectoryFiles) -> Result<Reader> {
        let manifest = Manifest::read(&files)?;
        let mut families = BTreeMap::new();
        for (id, state) in &manifest.families {
            let icmp = state.comparator()?;
            let family = Family {
                state: state.clone(),
                icmp,
                memtable: SortedWalEntries::default(),
                tables: OnceCell::new(),
            };
            families.insert(*id, family);
        }
        let sizes = families.iter().map(|(id, family)| (*id, family.icmp.timestamp_size())).collect();
        for (id, memtable) in wal::replay(&files, &manifest, &sizes)? {
            if let Some(family) = families.get_mut(&id) {
                family.memtable = memtable.sorted(&family.icmp);
            }
        }
        let operators = MergeOperators::of(&files);
        Ok(Reader { files, families, operators })
    }

    /// The names of the families, by id. The first is `default`.
    pub fn families(&self) -> Vec<&str> {
        self.families.values().map(|family| family.state.name.as_str()).collect()
    }

    /// The value of a key, as the engine's `get` returns it. Keys of a family with user-defined
    /// timestamps are given without; the newest value counts.
    /// # Errors
    /// `InvalidArgument` if there is no such family · `Corruption` · `NotSupported`.
    pub fn get(&self, family: &str, user_key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get_at(family, user_key, None)
    }

    /// As [`get`](Self::get), at a timestamp: later values do not count.
    /// # Errors
    /// Those of [`get`](Self::get) · `InvalidArgument` if the family's timestamps have another
    /// size, or there are none.
    pub fn get_at(&self, family: &str, user_key: &[u8], timestamp: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
        let family = self.family(family)?;
        let time = ReadTime::new(&family.icmp, timestamp)?;
        let tables = family.tables(&self.files)?;
        let within = |table: &&TableBytes| table.may_contain(user_key, &time);
        let mut versions = Versions::new(&family.memtable, tables.iter().filter(within), &time, &self.files)?;
        versions.seek(user_key)?;
        match versions.next_key()? {
            Some(found) if found.user_key == user_key => self.value_of(family, &found),
            _ => Ok(None),
        }
    }

    /// At most `limit` keys with their values, in the order of the family, from the first key at or
    /// after `from`; from the first of all if `from` is `None`. Keys have no timestamps.
    /// # Errors
    /// `InvalidArgument` if there is no such family · `Corruption` · `NotSupported`.
    pub fn scan(&self, family: &str, from: Option<&[u8]>, limit: usize) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        self.scan_at(family, from, limit, None)
    }

    /// As [`scan`](Self::scan), at a timestamp: later values do not count.
    /// # Errors
    /// Those of [`get_at`](Self::get_at).
    pub fn scan_at(
        &self,
        family: &str,
        from: Option<&[u8]>,
        limit: usize,
        timestamp: Option<&[u8]>,
    ) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let family = self.family(family)?;
        let time = ReadTime::new(&family.icmp, timestamp)?;
        let tables = family.tables(&self.files)?;
        let mut versions = Versions::new(&family.memtable, tables.iter(), &time, &self.files)?;
        match from {
            Some(from) => versions.seek(from)?,
            None => versions.seek_to_first()?,
        }
        let mut pairs = Vec::new();
        while pairs.len() < limit
            && let Some(found) = versions.next_key()?
        {
            if let Some(value) = self.value_of(family, &found)? {
                pairs.push((found.user_key, value));
            }
        }
        Ok(pairs)
    }

    fn value_of(&self, family: &Family, found: &FoundKey) -> Result<Option<Vec<u8>>> {
        values::resolve(found, &self.files, |existing| {
            self.operators.merge(&family.state.name, &found.user_key, existing, &found.operands)
        })
    }

    fn family(&self, name: &str) -> Result<&Family> {
        let found = self.families.values().find(|family| family.state.name == name);
        found.ok_or_else(|| Error::invalid_argument(format!("no column family '{name}'")))
    }
}

impl Family {
    /// Opens the tables at the first call.
    fn tables(&self, files: &DirectoryFiles) -> Result<&[TableBytes]> {
        if let Some(tables) = self.tables.get() {
            return Ok(tables);
        }
        let open = |meta| TableBytes::open(files, meta, &self.icmp);
        let tables = self.state.tables.values().map(open).collect::<Result<Vec<TableBytes>>>()?;
        Ok(self.tables.get_or_init(|| tables))
    }
}

/// A seek key before all versions of a user key, which has no timestamp.
fn before_all_versions(user_key: &[u8], icmp: &InternalKeyComparator) -> Vec<u8> {
    key::seek_key(&icmp.first_version(user_key), SequenceNumber::MAX)
}
