//! Whether the tables are what was written.

use super::{Db, reads};
use crate::read::tables::open_file;
use esker_base::Result;

impl Db {
    /// Reads every block of every live table of all families from its file, and checks checksums, the order of the keys,
    /// filters and counts. Blob files are not read. Reads and writes go on meanwhile.
    /// # Errors
    /// The first `Corruption` or `IoError`, which names the file.
    pub fn verify_checksum(&self) -> Result<()> {
        for family in self.engine().families.all() {
            let view = reads::pinned_view(&family);
            for (_, file) in view.version.all_files() {
                open_file(&family.tables, file)?.verify(&mut |_| true)?;
            }
        }
        Ok(())
    }
}
