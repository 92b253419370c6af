//! The order of the writes, and the contents that a database must have after any prefix of them.

use std::collections::{BTreeMap, HashMap};

/// Keys and values by family.
pub(super) type FamilyContents = Vec<BTreeMap<Vec<u8>, Vec<u8>>>;

/// The key under which every batch puts its number, in each family that it touches.
pub(super) const LAST: &[u8] = b"~last";

/// One change of one family.
#[derive(Clone, Debug)]
pub(super) enum CrashChange {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    DeleteRange(Vec<u8>, Vec<u8>),
    /// A merge by `uint64add`: if it is applied twice, the value shows it.
    Add(Vec<u8>, u64),
}

/// One acknowledged batch.
#[derive(Clone, Debug)]
pub(super) struct CrashBatch {
    pub(super) sequence: u64,
    pub(super) id: u64,
    /// The timestamp of its changes in a family with timestamps.
    pub(super) time: u64,
    pub(super) changes: Vec<(usize, CrashChange)>,
}

/// All batches of a run, on top of the contents before it.
pub(super) struct CrashHistory {
    base: FamilyContents,
    batches: Vec<CrashBatch>,
    /// By number of a batch, the length of the prefix that ends with it.
    prefix_with: HashMap<u64, usize>,
}

impl CrashHistory {
    pub(super) fn new(base: FamilyContents, mut batches: Vec<CrashBatch>) -> CrashHistory {
        batches.sort_by_key(|b| b.sequence);
        let prefix_with = batches.iter().enumerate().map(|(i, b)| (b.id, i + 1)).collect();
        CrashHistory { base, batches, prefix_with }
    }

    pub(super) fn len(&self) -> usize {
        self.batches.len()
    }

    /// The sequence number of the last batch of the prefix; 0 if it is empty.
    pub(super) fn sequence_of(&self, prefix: usize) -> u64 {
        prefix.checked_sub(1).map_or(0, |last| self.batches[last].sequence)
    }

    /// The prefix that ends with the newest batch that has left a trace.
    /// # Errors
    /// A value that no batch wrote.
    pub(super) fn prefix_of(&self, found: &FamilyContents) -> Result<usize, String> {
        let mut longest = 0;
        for (family, contents) in found.iter().enumerate() {
            let last = contents.get(LAST);
            if last == self.base[family].get(LAST) {
                continue;
            }
            let id = last.and_then(|v| v.as_slice().try_into().ok()).map(u64::from_le_bytes);
            match id.and_then(|id| self.prefix_with.get(&id)) {
                Some(prefix) => longest = longest.max(*prefix),
                None => {
                    return Err(format!(
                        "family {family}: last batch is {last:?}, which was not written now"
                    ));
                }
            }
        }
        Ok(longest)
    }

    /// Compares contents with those after a prefix.
    /// # Errors
    /// The first difference.
    pub(super) fn compare(&self, prefix: usize, found: &FamilyContents) -> Result<(), String> {
        let expected = self.contents_after(prefix);
        for (family, (found, expected)) in found.iter().zip(&expected).enumerate() {
            if found == expected {
                continue;
            }
            let differs = |key: &&Vec<u8>| found.get(*key) != expected.get(*key);
            let keys: Vec<_> = found.keys().chain(expected.keys()).filter(differs).collect();
            let key = keys.first().expect("the contents differ in some key");
            return Err(format!(
                "not what batches up to {} (sequence {} of {}) lead to: family {family}, key {}: found {}, expected {}; {} differ",
                prefix,
                self.sequence_of(prefix),
                self.sequence_of(self.len()),
                key.escape_ascii(),
                show(found.get(*key)),
                show(expected.get(*key)),
                keys.len()
            ));
        }
        Ok(())
    }

    /// The timestamp of the last batch of the prefix; 0 if it is empty.
    pub(super) fn time_of(&self, prefix: usize) -> u64 {
        prefix.checked_sub(1).map_or(0, |last| self.batches[last].time)
    }

    pub(super) fn contents_after(&self, prefix: usize) -> FamilyContents {
        let mut contents = self.base.clone();
        for batch in &self.batches[..prefix] {
            for (family, change) in &batch.changes {
                change.apply(&mut contents[*family]);
            }
        }
        contents
    }
}

impl CrashChange {
    fn apply(&self, contents: &mut BTreeMap<Vec<u8>, Vec<u8>>) {
        match self {
            CrashChange::Put(key, value) => {
                contents.insert(key.clone(), value.clone());
            }
            CrashChange::Delete(key) => {
                contents.remove(key);
            }
            CrashChange::DeleteRange(begin, end) => contents.retain(|key, _| key < begin || key >= end),
            CrashChange::Add(key, n) => {
                let old = contents
                    .get(key)
                    .and_then(|v| v.as_slice().try_into().ok())
                    .map_or(0, u64::from_le_bytes);
                contents.insert(key.clone(), old.wrapping_add(*n).to_le_bytes().to_vec());
            }
        }
    }
}

fn show(value: Option<&Vec<u8>>) -> String {
    value.map_or("nothing".to_owned(), |v| {
        format!("{} bytes {}", v.len(), v[..v.len().min(24)].escape_ascii())
    })
}
