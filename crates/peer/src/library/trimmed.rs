//! Openings without the newest history.

use super::{FamilySpec, RocksAccess, RocksDb};
use std::path::Path;

impl RocksDb {
    /// Opens the database in `path` with these families, all it has, and removes entries that are
    /// newer than `trim_ts`.
    /// # Errors
    /// RocksDB's, as text.
    pub fn open_and_trim_history(
        path: &Path,
        db_options: &str,
        families: &[FamilySpec],
        trim_ts: &[u8],
    ) -> Result<RocksDb, String> {
        RocksDb::open_with(path, db_options, &[], families, RocksAccess::Trim(trim_ts))
    }
}
