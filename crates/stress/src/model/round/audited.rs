//! The audits of a round's database: see `audit.rs`.

use super::{Checked, PATH, Round};
use crate::audit::{self, AuditSubject};
use std::path::Path;

impl Round {
    /// Audits the open database.
    pub(super) fn audit(&mut self) -> Checked {
        let pairs = self.handles.iter().zip(&self.specs);
        let subject = AuditSubject {
            db: self.db(),
            fs: self.env.fs.as_ref(),
            path: Path::new(PATH),
            families: pairs.map(|(handle, spec)| (handle, &spec.comparator)).collect(),
            may_be_left: self.had_trouble || !self.cursors.is_empty(),
            all_garbage_is_counted: self.steps.files_deleted == 0,
        };
        let audited = audit::audit(&subject, self.env.clock.as_ref())?;
        self.audited.add(&audited);
        Ok(())
    }

    /// Checks that the closed database has left nothing in its caches, and that its statistics add
    /// up.
    pub(super) fn check_leftovers(&mut self) -> Checked {
        let tables = self.settings.families.iter().filter_map(|family| family.table.block_cache.as_ref());
        let blobs = self.settings.families.iter().filter_map(|family| family.blob_cache.as_ref());
        // All families share one cache.
        let cache = tables.chain(blobs).next();
        let caches: Vec<_> = cache.into_iter().collect();
        let audited = audit::are_empty(&caches, None, self.env.clock.as_ref())?;
        self.audited.add(&audited);
        self.settings.db.statistics.as_deref().map_or(Ok(()), audit::add_up)
    }
}
