//! Opens every table when the database opens, if `max_open_files` lets all of them stay open.
//!
//! In: the current version of each family. Out: each `FileMeta` keeps its open table and the facts
//! of its properties; or the error of a table that cannot be opened, with its name.
//!
//! Source: RocksDB `db/version_builder.cc` (`LoadTableHandlers`), `db/version_edit_handler.cc`.

use crate::files::open_table::open_file;
use crate::options::DbOptions;
use crate::version::{FileMeta, Version};
use esker_base::logger::InfoLog;
use esker_base::sync::atomic::{AtomicUsize, Ordering};
use esker_base::sync::{Arc, Mutex, thread};
use esker_base::{Error, IoActivity, Result};
use esker_env::{descriptors, spawn_scoped};
use esker_table::TableCache;

/// Number of tables and blob files that may stay open. As in RocksDB, some files are left for WAL,
/// MANIFEST and LOG. `None`: as many as the process may have open.
pub(crate) fn table_capacity(options: &DbOptions) -> Option<usize> {
    usize::try_from(options.max_open_files).ok().map(|files| files.saturating_sub(10).max(1))
}

/// The tables to open.
pub(super) struct OpenAllTables<'a> {
    options: &'a DbOptions,
    info_log: &'a Arc<dyn InfoLog>,
    tables: Vec<ToOpen>,
}

struct ToOpen {
    family: String,
    tables: Arc<TableCache>,
    level: usize,
    file: Arc<FileMeta>,
}

impl<'a> OpenAllTables<'a> {
    pub(super) fn new(options: &'a DbOptions, info_log: &'a Arc<dyn InfoLog>) -> OpenAllTables<'a> {
        OpenAllTables { options, info_log, tables: Vec::new() }
    }

    /// Adds a family's files; adds none if the number of open tables is limited.
    pub(super) fn add(&mut self, family: &str, tables: &Arc<TableCache>, version: &Version) {
        if tables.keeps_all_open() {
            self.tables.extend(version.all_files().map(|(level, file)| ToOpen {
                family: family.to_owned(),
                tables: tables.clone(),
                level,
                file: file.clone(),
            }));
        }
    }

    /// Opens the tables in up to `max_file_opening_threads` threads, upper levels first, while the
    /// process may open more files.
    /// # Errors
    /// With `paranoid_checks`: the error of the first table (by level) that cannot be opened.
    /// Without it, reads of that table give the error.
    pub(super) fn run(self) -> Result<()> {
        /// Tables for each further thread.
        const TABLES_PER_THREAD: usize = 16;
        let (next, failed) = (AtomicUsize::new(0), Mutex::new(None::<(usize, Error)>));
        let work = || {
            let _activity = IoActivity::DbOpen.begin();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(table) = self.tables.get(index).filter(|_| descriptors::has_room()) else { return };
                let opened = open_file(&table.tables, &table.file);
                let Err(error) = opened else { continue };
                self.log(table, &error);
                let mut failed = failed.lock();
                if failed.as_ref().is_none_or(|(first, _)| index < *first) {
                    *failed = Some((index, error));
                }
            }
        };
        let allowed = usize::try_from(self.options.max_file_opening_threads).unwrap_or(1);
        let helpers = (self.tables.len() / TABLES_PER_THREAD).min(allowed.saturating_sub(1));
        thread::scope(|scope| {
            // If the system refuses a thread, the other threads open its tables.
            let spawned = (0..helpers).map_while(|_| spawn_scoped(scope, "esker:open", work).ok());
            let _joined_by_the_scope: Vec<_> = spawned.collect();
            work();
        });
        let opened = next.into_inner().min(self.tables.len());
        if !descriptors::has_room() {
            esker_base::info_log!(
                self.info_log,
                Warn,
                "{opened} of {} tables are open: the process may open no more (RLIMIT_NOFILE). Others are opened and closed as they are read",
                self.tables.len()
            );
        }
        match failed.into_inner() {
            Some((_, error)) if self.options.paranoid_checks => Err(error),
            _ => Ok(()),
        }
    }

    fn log(&self, table: &ToOpen, error: &Error) {
        let (number, level) = (table.file.number, table.level);
        esker_base::info_log!(
            self.info_log,
            Error,
            "[{}] Table #{number} in L{level} cannot be opened: {error}",
            table.family
        );
    }
}
