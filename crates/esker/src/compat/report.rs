//! The report of an inspection.

use crate::options::{Feature, Release, TargetVersion};

/// A feature that only some RocksDB versions read, and its location.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Need {
    /// The feature.
    pub feature: Feature,
    /// The first file with it.
    pub file: String,
    /// Number of files with it.
    pub files: u64,
}

/// The RocksDB versions that can open a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CompatReport {
    /// Features that need a newer release than [`Release::OLDEST`], each once, newest first.
    pub needs: Vec<Need>,
    /// The oldest release whose `ldb` accepts the newest OPTIONS file; libraries do not read it.
    pub tools: Release,
    /// Other conditions on a RocksDB that opens the directory.
    pub notes: Vec<String>,
    /// Number of tables inspected.
    pub tables: u64,
    /// Number of WALs inspected.
    pub wals: u64,
}

impl Default for CompatReport {
    fn default() -> CompatReport {
        CompatReport { needs: Vec::new(), tools: Release::OLDEST, notes: Vec::new(), tables: 0, wals: 0 }
    }
}

impl CompatReport {
    /// The oldest RocksDB, of those that Esker writes for, whose library reads the whole directory.
    pub fn oldest(&self) -> Release {
        self.needs.first().map_or(Release::OLDEST, |need| need.feature.since())
    }

    /// Whether RocksDB of `target` reads the whole directory.
    pub fn is_read_by(&self, target: TargetVersion) -> bool {
        self.needs.iter().all(|need| target.reads(need.feature))
    }

    /// Records that `file` has `feature`.
    pub(super) fn need(&mut self, feature: Feature, file: &str) {
        match self.needs.iter_mut().find(|need| need.feature == feature) {
            // A file is inspected from start to end, so its needs arrive together.
            Some(need) if need.file == file => {}
            Some(need) => need.files += 1,
            None => self.needs.push(Need { feature, file: file.to_owned(), files: 1 }),
        }
        self.needs.sort_by_key(|need| std::cmp::Reverse((need.feature.since(), need.feature)));
    }
}
