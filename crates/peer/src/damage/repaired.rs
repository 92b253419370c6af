//! Checks repairs of damaged databases.

use super::cases::Damage;
use super::{DIR, Subject, file_system};
use esker::{ColumnFamilyDescriptor, Db, OpenMode, Options, repair_db};

impl Subject {
    /// Repairs the damaged database, and checks that it opens and can be read completely. The
    /// summary must report each undamaged table as kept or obsolete, and each damaged one as kept,
    /// obsolete or lost.
    pub(super) fn check_repair(&self, damage: &Damage) -> Result<(), String> {
        let undamaged = file_system(&self.files);
        let families = self
            .families(&undamaged, &self.db_options(&undamaged))
            .map_err(|e| format!("families of the undamaged database: {e}"))?;
        let damaged = damage.applied(&self.files);
        let fs = file_system(&damaged);
        let mut options = Options { db: self.db_options(&fs), ..Options::default() };
        options.cf = families[0].options.clone();
        let summary = match repair_db(&options, DIR, &families) {
            Ok(summary) => summary,
            // Without checksums, a damaged name of a comparator looks like the name of another
            // comparator.
            Err(e) if !self.has_checksums && e.to_string().contains("was written with comparator") => {
                return Ok(());
            }
            Err(e) => return Err(e.to_string()),
        };
        let listed = summary.tables_kept.iter().chain(&summary.tables_obsolete);
        let known: Vec<String> = listed.map(|number| format!("{number:06}.sst")).collect();
        let lost: Vec<String> = summary.tables_lost.iter().map(|(n, _)| format!("{n:06}.sst")).collect();
        for name in damaged.keys().filter(|name| name.ends_with(".sst")) {
            if damage.spares(name) && !known.contains(name) {
                return Err(format!("{name} is intact, and not kept: {summary:?}"));
            }
            if !known.contains(name) && !lost.contains(name) {
                return Err(format!("{name} is neither kept nor told as lost"));
            }
        }
        // A dropped family may come back if the MANIFEST has lost its drop.
        let known = |name: &String| families.iter().find(|family| family.name == *name).cloned();
        let new = |name: &String| ColumnFamilyDescriptor::new(name.clone(), options.cf.clone());
        let families: Vec<_> =
            summary.families.iter().map(|name| known(name).unwrap_or_else(|| new(name))).collect();
        let db = Db::open_with(&options.db, DIR, families, OpenMode::ReadWrite).map_err(|e| e.to_string())?;
        match self.state(&db) {
            Ok(_) => db.close().map_err(|e| e.to_string()),
            // A value in a lost blob file stays lost, and its read reports an error.
            Err(e) if !summary.blobs_lost.is_empty() || e.to_string().contains(".blob") => Ok(()),
            Err(e) => Err(e.to_string()),
        }
    }
}
