//! What was found.

use crate::options::{Feature, Release, TargetVersion};

/// A feature that not every RocksDB reads, and where it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Need {
    /// The feature.
    pub feature: Feature,
    /// The first file that has it.
    pub file: String,
    /// How many files have it.
    pub files: u64,
}

/// Which RocksDB can open a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompatReport {
    /// What needs a newer one than [`Release::OLDEST`], each feature once, newest first.
    pub needs: Vec<Need>,
    /// The oldest whose `ldb` takes the newest OPTIONS file; libraries do not read it.
    pub tools: Release,
    /// What else a RocksDB that opens it must have or be told.
    pub notes: Vec<String>,
    /// Tables that were looked into.
    pub tables: u64,
    /// WALs that were looked into.
    pub wals: u64,
}

impl Default for CompatReport {
    fn default() -> CompatReport {
        CompatReport { needs: Vec::new(), tools: Release::OLDEST, notes: Vec::new(), tables: 0, wals: 0 }
    }
}

impl CompatReport {
    /// The oldest RocksDB, of those that Esker writes for, whose library reads all of it.
    pub fn oldest(&self) -> Release {
        self.needs.first().map_or(Release::OLDEST, |need| need.feature.since())
    }

    /// Whether RocksDB of `target` reads all of it.
    pub fn is_read_by(&self, target: TargetVersion) -> bool {
        self.needs.iter().all(|need| target.reads(need.feature))
    }

    /// Notes that `file` has `feature`.
    pub(super) fn need(&mut self, feature: Feature, file: &str) {
        match self.needs.iter_mut().find(|need| need.feature == feature) {
            // A file is looked into from one end to the other, so that it comes in one piece.
            Some(need) if need.file == file => {}
            Some(need) => need.files += 1,
            None => self.needs.push(Need { feature, file: file.to_owned(), files: 1 }),
        }
        self.needs.sort_by_key(|need| std::cmp::Reverse((need.feature.since(), need.feature)));
    }
}
