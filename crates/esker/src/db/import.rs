//! Creates a family from another database's export.

use super::column_family::show_families;
use super::compaction_timer::family_is_there;
use super::recorded_times::family_changed;
use super::{ColumnFamilyHandle, Db};
use crate::engine::{Engine, UnderWay};
use crate::ingest::Import;
use crate::observe::{ExportImportFilesMetaData, FlushReason};
use crate::options::{ColumnFamilyOptions, ImportColumnFamilyOptions};
use crate::version::{LogOptions, VersionSet, check_family_name};
use esker_base::sync::atomic::Ordering;
use esker_base::{ColumnFamilyId, Result, SequenceNumber};
use std::slice;

impl Db {
    /// Creates the family `name` with the tables of an export, which keep their sequence numbers.
    /// If those are newer than this database's newest, its numbers continue after them. The tables
    /// are copied, or linked and removed from their old place.
    /// # Errors
    /// `InvalidArgument`: the name is taken, empty or has a NUL, an option is out of range, the
    /// comparator differs, a table is empty, or tables of one level overlap · `Corruption`: a table
    /// contradicts the export's description · `NotSupported` when read-only, for values in blob
    /// files, or if timestamps are to be kept in memory only · `TryAgain`: a transaction under
    /// `WritePrepared` or `WriteUnprepared` has one of the tables' sequence numbers, and has not
    /// ended or is newer than a live snapshot · `IoError`. The family is not created then. One
    /// exception: if the MANIFEST can take no more writes, the family may exist without any key.
    pub fn create_column_family_with_import(
        &self,
        import_options: &ImportColumnFamilyOptions,
        name: &str,
        options: &ColumnFamilyOptions,
        export: &ExportImportFilesMetaData,
    ) -> Result<ColumnFamilyHandle> {
        let engine = self.engine();
        check_family_name(name)?;
        let descriptor = self.descriptor_of_new_family(name, options)?;
        let _under_way = UnderWay::begin(engine)?;
        self.take_directories(slice::from_ref(&descriptor))?;
        let mut import = Import::new(engine, &descriptor.options, export, import_options.move_files)?;
        esker_base::probe!("import:prepared");
        let lead = self.inner.write_path.lead_alone_unlocked()?;
        engine.check_open()?;
        import.check_seqnos()?;
        let newest = import.largest_seqno();
        if engine.options.recycle_log_file_num > 0 && newest > allocated(engine) {
            // As in an ingestion: the first number in a recycled WAL must follow the last number of
            // the WAL before.
            let families = engine.family_ids();
            self.inner.write_path.flush_as_leader(&lead, &families, FlushReason::ExternalFileIngestion)?;
        }
        self.inner.write_path.sync_closed_wals()?;
        let mut manifest = engine.manifest.lock();
        engine.state.lock().background_error.check_writes()?;
        let log_number = engine.wals.lock().current_number();
        let (id, _) = manifest.create_column_family(descriptor.for_manifest(&engine.path), log_number)?;
        if let Err(e) = name_tables(engine, &mut manifest, &mut import, id) {
            if manifest.drop_column_family(id).is_err() {
                // The MANIFEST may name the family, so the family becomes visible.
                show_families(engine, &manifest, &[id], slice::from_ref(&descriptor), log_number);
            }
            return Err(e);
        }
        let cf = show_families(engine, &manifest, &[id], slice::from_ref(&descriptor), log_number).remove(0);
        drop(manifest);
        drop(lead);
        engine.report_stall_changes();
        family_is_there(engine, &descriptor.options);
        family_changed(engine, &descriptor.options);
        self.inner.options_changed(1)?;
        if import_options.move_files {
            import.remove_sources();
        }
        Ok(ColumnFamilyHandle { cf })
    }
}

fn allocated(engine: &Engine) -> SequenceNumber {
    SequenceNumber(engine.allocated_sequence.load(Ordering::Relaxed))
}

/// Records the tables in the MANIFEST, and publishes their sequence numbers. The caller is the
/// write leader.
fn name_tables(
    engine: &Engine,
    manifest: &mut VersionSet,
    import: &mut Import<'_>,
    id: ColumnFamilyId,
) -> Result<()> {
    let logged = manifest.log_and_apply(vec![import.edit(id)], LogOptions::default());
    // After a failed write the contents of the MANIFEST on disk are unknown.
    if logged.is_ok() || import.edit(id).new_files.iter().any(|(_, file)| manifest.may_be_named(file.number))
    {
        import.set_named();
    }
    logged?;
    if let Some(family) = manifest.family(id) {
        let next = import.edit(id).new_files.len() as u64 + 1;
        family.epochs().fetch_max(next, Ordering::Relaxed);
    }
    let newest = import.largest_seqno().max(allocated(engine));
    let state = engine.state.lock();
    engine.allocated_sequence.store(newest.0, Ordering::Relaxed);
    engine.numbers.set_last_sequence(newest);
    drop(state);
    Ok(())
}
