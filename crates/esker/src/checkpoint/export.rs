//! Export of one family's tables, for another database to import.
//!
//! In: a family of an open database, and a directory that does not exist yet. Out: a directory with
//! the family's tables, and the metadata that `Db::create_column_family_with_import` takes.
//!
//! Invariants
//!  1. As with checkpoints, the directory gets its final name after everything in it is durable.
//!  2. The tables are those of one version of the family, which holds everything written before the
//!     call.
//!
//! Source: RocksDB `utilities/checkpoint/checkpoint_impl.cc` (`ExportColumnFamily`).

use super::{KeepFiles, publish, remove_staging, without_slash_behind};
use crate::db::{ColumnFamilyHandle, Db};
use crate::files::{link_or_copy, under_either_name};
use crate::observe::{ExportImportFilesMetaData, LiveFileMetaData};
use crate::options::FlushOptions;
use esker_base::{Error, Result};
use esker_env::FileSystem;
use std::path::{Path, PathBuf};

fn prepared_under_way() -> Error {
    Error::not_supported("export_column_family: transactions are prepared under write_policy WritePrepared")
}

impl Db {
    /// Flushes `family` and links its tables (copies them on another file system) into
    /// `export_dir`, which must not exist. The result names the tables by their new paths;
    /// [`Db::create_column_family_with_import`] takes it.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.join("db"))?;
    /// let family = db.default_column_family();
    /// db.put("esker", "gravel")?;
    /// let export = db.export_column_family(&family, dir.join("export"))?;
    ///
    /// let other = esker::Db::open_default(dir.join("other"))?;
    /// let (how, options) = (Default::default(), Default::default());
    /// let moved = other.create_column_family_with_import(&how, "moved", &options, &export)?;
    /// assert_eq!(other.get_cf(&moved, "esker")?.as_deref(), Some(&b"gravel"[..]));
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the directory exists, or has no parent · `NotSupported` when read-only,
    /// if some values are in blob files, if timestamps are kept in memory only, or if transactions
    /// are prepared under `WritePrepared` ·
    /// `ColumnFamilyDropped` · the flush's error · `IoError`. After an error the partial export is
    /// removed, or stays in `export_dir.tmp`, which the next export of that name replaces.
    pub fn export_column_family(
        &self,
        family: &ColumnFamilyHandle,
        export_dir: impl AsRef<Path>,
    ) -> Result<ExportImportFilesMetaData> {
        let env = self.db_options().env;
        let fs = env.fs.as_ref();
        let directory = without_slash_behind(&fs.absolute_path(export_dir.as_ref())?);
        if fs.file_exists(&directory)? {
            return Err(Error::invalid_argument("Specified export_dir exists").at(directory.display()));
        }
        let Some(parent) = directory.parent() else {
            return Err(Error::invalid_argument("Specified export_dir has no parent").at(directory.display()));
        };
        let mut staging = directory.clone().into_os_string();
        staging.push(".tmp");
        let staging = PathBuf::from(staging);
        remove_staging(fs, &staging)?;
        let sections = self.check_none_prepared()?;
        self.flush_opt(&FlushOptions::default(), &[family])?;
        let undeletable = KeepFiles::new(self)?;
        let mut files = self.files_to_export(family)?;
        // A transaction that was prepared and resolved meanwhile may be in the files in part.
        if self.check_none_prepared()? != sections {
            return Err(prepared_under_way());
        }
        let made = link_all(fs, &files, &staging).and_then(|()| publish(fs, &staging, &directory, parent));
        drop(undeletable);
        if let Err(e) = made {
            // A failed removal is ignored: the first error is returned.
            remove_staging(fs, &staging).unwrap_or_default();
            return Err(e);
        }
        for exported in &mut files {
            exported.file.directory.clone_from(&directory);
            exported.file.being_compacted = false;
        }
        Ok(ExportImportFilesMetaData { db_comparator_name: family.comparator().name().to_owned(), files })
    }

    /// Returns the number of sections that were prepared so far under `WritePrepared`.
    /// # Errors
    /// `NotSupported` if one of them is not resolved.
    fn check_none_prepared(&self) -> Result<u64> {
        let Some(commits) = &self.engine().commits else { return Ok(0) };
        commits.sections_if_all_resolved().ok_or_else(prepared_under_way)
    }

    fn files_to_export(&self, family: &ColumnFamilyHandle) -> Result<Vec<LiveFileMetaData>> {
        if !self.options_cf(family).persist_user_defined_timestamps {
            let what = "export of a column family with persist_user_defined_timestamps=false";
            return Err(Error::not_supported(what));
        }
        let levels = self.column_family_metadata(family).levels.into_iter();
        let files: Vec<LiveFileMetaData> = levels
            .flat_map(|level| {
                level.files.into_iter().map(move |file| LiveFileMetaData {
                    column_family_name: family.name().to_owned(),
                    level: level.level,
                    file,
                })
            })
            .collect();
        match files.iter().find(|file| file.oldest_blob_file_number.is_some()) {
            Some(file) => Err(Error::not_supported("export of a table with values in blob files")
                .at(&file.relative_filename)),
            None => Ok(files),
        }
    }
}

fn link_all(fs: &dyn FileSystem, files: &[LiveFileMetaData], staging: &Path) -> Result<()> {
    fs.create_dir_if_missing(staging)?;
    for file in files {
        let target = staging.join(&file.relative_filename);
        let source = file.directory.join(&file.relative_filename);
        under_either_name(&source, |source| link_or_copy(fs, source, &target))?;
    }
    fs.new_directory(staging)?.fsync()
}
