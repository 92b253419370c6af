//! `rocksdb_t`: an open database. This file opens, closes, repairs and destroys databases.
//!
//! In: options, paths, families. Out: a handle whose calls go to [`esker::Db`], or to
//! [`esker::DbWithTtl`] if the database was opened with TTL. A call costs as much as the Rust
//! function and the copies that `c.h` demands. No call changes a counter that threads share.

use crate::column_family::{descriptors, put_handles, rocksdb_column_family_handle_t};
use crate::iterator::Cursor;
use crate::listener::{HandleCell, no_handle};
use crate::memory::{answer, attempt, bytes, destroy, give, object, path, slice};
use crate::options::rocksdb_options_t;
use esker::{
    ColumnFamilyDescriptor, ColumnFamilyHandle, ColumnFamilyOptions, Db, DbWithTtl, Error, ErrorKind,
    OpenMode, PinnedBytes, ReadOptions, Result, WalFile, WalFileType, WriteBatch, WriteOptions,
};
use libc::{c_char, c_int, c_uchar};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::Ordering;

/// An open database.
#[derive(Debug)]
pub struct rocksdb_t {
    /// The family for calls that name no family. Dropped before the database: the last holder of a
    /// family keeps its tables open, and the end of the database closes them.
    pub(crate) default: ColumnFamilyHandle,
    /// The database.
    pub(crate) db: Db,
    /// The same database, if it was opened with TTL.
    pub(crate) ttl: Option<DbWithTtl>,
    /// The number of the database.
    pub(crate) database: DatabaseNumber,
    /// Whether the database gives snapshots. As in RocksDB, snapshots are NULL if a family was
    /// opened with `inplace_update_support`.
    pub(crate) has_snapshots: bool,
    /// The cell in which listeners find this handle.
    handle: HandleCell,
}

/// A number that distinguishes databases: a hash of the database's identity. A reopened database
/// has the same number, so it takes batches made before the reopen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DatabaseNumber(u64);

impl DatabaseNumber {
    /// A number that no database has.
    pub(crate) const NONE: DatabaseNumber = DatabaseNumber(0);

    pub(crate) fn of(db: &Db) -> DatabaseNumber {
        let mut hasher = DefaultHasher::new();
        db.db_identity().hash(&mut hasher);
        DatabaseNumber(hasher.finish() | 1)
    }

    /// Checks that `named`, the database of a batch's families, is this database.
    /// # Errors
    /// `InvalidArgument` for another database.
    pub(crate) fn check(self, named: DatabaseNumber) -> Result<()> {
        if self == named {
            return Ok(());
        }
        Err(Error::invalid_argument("the batch names column families of another database"))
    }
}

impl rocksdb_t {
    pub(crate) fn new(db: Db) -> rocksdb_t {
        let families = db.column_family_names().into_iter().filter_map(|name| db.column_family(&name));
        let mut families = families.map(|family| db.options_cf(&family));
        let has_snapshots = !families.any(|options| options.inplace_update_support);
        rocksdb_t {
            default: db.default_column_family(),
            database: DatabaseNumber::of(&db),
            ttl: None,
            has_snapshots,
            handle: no_handle(),
            db,
        }
    }

    /// The family of a C handle. Checks that this database has the family.
    /// # Errors
    /// `InvalidArgument`: NULL, or a family of another database.
    pub(crate) unsafe fn own_family<'a>(
        &self,
        family: *const rocksdb_column_family_handle_t,
    ) -> Result<&'a ColumnFamilyHandle> {
        let handle = object(family)?;
        if handle.database != self.database {
            let name = handle.family.name();
            return Err(Error::invalid_argument(format!(
                "column family '{name}' is one of another database"
            )));
        }
        Ok(&handle.family)
    }

    /// Returns the database's handle, and stores the handle in `cell` for the listeners.
    fn give(self, cell: HandleCell) -> *mut rocksdb_t {
        let handle = give(rocksdb_t { handle: cell.clone(), ..self });
        cell.store(handle, Ordering::Release);
        handle
    }

    fn with_ttl(ttl: DbWithTtl) -> rocksdb_t {
        rocksdb_t { ttl: Some(ttl.clone()), ..rocksdb_t::new(ttl.base_db().clone()) }
    }

    pub(crate) fn create_column_family(
        &self,
        name: &str,
        options: &ColumnFamilyOptions,
    ) -> Result<ColumnFamilyHandle> {
        match &self.ttl {
            Some(ttl) => ttl.create_column_family_with_ttl(name, options, 0),
            None => self.db.create_column_family(name, options),
        }
    }

    pub(crate) fn create_column_families(
        &self,
        families: Vec<ColumnFamilyDescriptor>,
    ) -> Result<Vec<ColumnFamilyHandle>> {
        match &self.ttl {
            Some(_) => families
                .iter()
                .map(|family| self.create_column_family(&family.name, &family.options))
                .collect(),
            None => self.db.create_column_families(families),
        }
    }

    pub(crate) fn write(&self, options: &WriteOptions, batch: &mut WriteBatch) -> Result<()> {
        match &self.ttl {
            Some(ttl) => ttl.write_opt(options, &*batch),
            None => self.db.write_opt(options, batch),
        }
    }

    pub(crate) fn get(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: &[u8],
    ) -> Result<Option<PinnedBytes>> {
        match &self.ttl {
            Some(ttl) => Ok(ttl.get_opt(options, family, key)?.map(PinnedBytes::from)),
            None => self.db.get_pinned_opt(options, family, key),
        }
    }

    pub(crate) fn multi_get(
        &self,
        options: &ReadOptions,
        families: &[&ColumnFamilyHandle],
        keys: &[&[u8]],
    ) -> Vec<Result<Option<PinnedBytes>>> {
        if let Some(ttl) = &self.ttl {
            let pairs = families.iter().zip(keys);
            return pairs
                .map(|(family, key)| Ok(ttl.get_opt(options, family, key)?.map(PinnedBytes::from)))
                .collect();
        }
        let pairs: Vec<(&ColumnFamilyHandle, &[u8])> =
            families.iter().copied().zip(keys.iter().copied()).collect();
        self.db.multi_get_cf(options, &pairs)
    }

    pub(crate) fn iter(&self, options: ReadOptions, family: &ColumnFamilyHandle) -> Cursor {
        let cursor = match &self.ttl {
            Some(ttl) => ttl.iter_opt(options, family).map(Cursor::Ttl),
            None => self.db.iter_opt(options, family).map(Cursor::Db),
        };
        cursor.unwrap_or_else(Cursor::Failed)
    }
}

/// The family of a C handle, which may belong to any database.
pub(crate) unsafe fn family<'a>(
    family: *const rocksdb_column_family_handle_t,
) -> Result<&'a ColumnFamilyHandle> {
    Ok(&object(family)?.family)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_open(
    options: *const rocksdb_options_t,
    name: *const c_char,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_t {
    attempt(errptr, std::ptr::null_mut(), || {
        let (options, cell) = object(options)?.for_open()?;
        Ok(rocksdb_t::new(Db::open(&options, path(name)?)?).give(cell))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_open_with_ttl(
    options: *const rocksdb_options_t,
    name: *const c_char,
    ttl: c_int,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_t {
    attempt(errptr, std::ptr::null_mut(), || {
        let (options, cell) = object(options)?.for_open()?;
        let families = [("default", options.cf)];
        let db = DbWithTtl::open(&options.db, path(name)?, families, &[ttl], OpenMode::ReadWrite)?;
        Ok(rocksdb_t::with_ttl(db).give(cell))
    })
}

/// Opens a database read-only and replays its WALs into memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_open_for_read_only(
    options: *const rocksdb_options_t,
    name: *const c_char,
    error_if_wal_file_exists: c_uchar,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_t {
    attempt(errptr, std::ptr::null_mut(), || {
        let db = Db::open_for_read_only(&object(options)?.checked()?, path(name)?)?;
        refuse_wals(&db, error_if_wal_file_exists)?;
        Ok(give(rocksdb_t::new(db)))
    })
}

/// Fails if `refuses` is not 0 and a WAL outside of the archive has records.
fn refuse_wals(db: &Db, refuses: c_uchar) -> Result<()> {
    let is_alive = |file: &WalFile| file.file_type == WalFileType::Alive;
    if refuses != 0 && db.sorted_wal_files()?.iter().any(is_alive) {
        return Err(Error::new(
            ErrorKind::Corruption,
            "The db was opened in readonly mode with error_if_wal_file_exists flag but a non-empty WAL file \
             already exists",
        ));
    }
    Ok(())
}

unsafe fn open_families(
    options: *const rocksdb_options_t,
    name: *const c_char,
    families: Vec<ColumnFamilyDescriptor>,
    handles: *mut *mut rocksdb_column_family_handle_t,
    mode: OpenMode,
) -> Result<*mut rocksdb_t> {
    let (options, cell) = object(options)?.for_open()?;
    let db = Db::open_with(&options.db, path(name)?, families.clone(), mode)?;
    put_handles(&db, &families, handles)?;
    Ok(rocksdb_t::new(db).give(cell))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_open_column_families(
    options: *const rocksdb_options_t,
    name: *const c_char,
    count: c_int,
    names: *const *const c_char,
    family_options: *const *const rocksdb_options_t,
    handles: *mut *mut rocksdb_column_family_handle_t,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_t {
    attempt(errptr, std::ptr::null_mut(), || {
        let families = descriptors(count, names, family_options)?;
        open_families(options, name, families, handles, OpenMode::ReadWrite)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_open_for_read_only_column_families(
    options: *const rocksdb_options_t,
    name: *const c_char,
    count: c_int,
    names: *const *const c_char,
    family_options: *const *const rocksdb_options_t,
    handles: *mut *mut rocksdb_column_family_handle_t,
    error_if_wal_file_exists: c_uchar,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_t {
    attempt(errptr, std::ptr::null_mut(), || {
        let families = descriptors(count, names, family_options)?;
        let (options, cell) = object(options)?.for_open()?;
        let db = Db::open_with(&options.db, path(name)?, families.clone(), OpenMode::ReadOnly)?;
        refuse_wals(&db, error_if_wal_file_exists)?;
        put_handles(&db, &families, handles)?;
        Ok(rocksdb_t::new(db).give(cell))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_open_column_families_with_ttl(
    options: *const rocksdb_options_t,
    name: *const c_char,
    count: c_int,
    names: *const *const c_char,
    family_options: *const *const rocksdb_options_t,
    handles: *mut *mut rocksdb_column_family_handle_t,
    ttls: *const c_int,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_t {
    attempt(errptr, std::ptr::null_mut(), || {
        let (options, cell) = object(options)?.for_open()?;
        let families = descriptors(count, names, family_options)?;
        let ttls = slice(ttls, families.len())?;
        let db = DbWithTtl::open(&options.db, path(name)?, families.clone(), ttls, OpenMode::ReadWrite)?;
        put_handles(db.base_db(), &families, handles)?;
        Ok(rocksdb_t::with_ttl(db).give(cell))
    })
}

/// Opens a database and removes entries newer than `trim_ts` from families with user-defined
/// timestamps.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_open_and_trim_history(
    options: *const rocksdb_options_t,
    name: *const c_char,
    count: c_int,
    names: *const *const c_char,
    family_options: *const *const rocksdb_options_t,
    handles: *mut *mut rocksdb_column_family_handle_t,
    trim_ts: *mut c_char,
    trim_ts_len: usize,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_t {
    attempt(errptr, std::ptr::null_mut(), || {
        let (options, cell) = object(options)?.for_open()?;
        let families = descriptors(count, names, family_options)?;
        let trim_ts = bytes(trim_ts, trim_ts_len)?;
        let db = Db::open_and_trim_history(&options.db, path(name)?, families.clone(), trim_ts)?;
        put_handles(&db, &families, handles)?;
        Ok(rocksdb_t::new(db).give(cell))
    })
}

/// Closes the database. Its iterators and snapshots may outlive the call and keep their data.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_close(db: *mut rocksdb_t) {
    answer((), || {
        let db = object(db)?;
        db.handle.store(std::ptr::null_mut(), Ordering::Release);
        db.db.close()
    });
    destroy(db);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_destroy_db(
    options: *const rocksdb_options_t,
    name: *const c_char,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || esker::destroy_db(&object(options)?.db, path(name)?));
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_repair_db(
    options: *const rocksdb_options_t,
    name: *const c_char,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        let options = object(options)?.checked()?;
        esker::repair_db(&options, path(name)?, &[]).map(drop)
    });
}

/// Opens a database as a secondary, which follows the database of another process or handle. The
/// secondary writes its LOG to `secondary_path`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_open_as_secondary(
    options: *const rocksdb_options_t,
    name: *const c_char,
    secondary_path: *const c_char,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_t {
    attempt(errptr, std::ptr::null_mut(), || {
        let (options, cell) = object(options)?.for_open()?;
        Ok(rocksdb_t::new(Db::open_as_secondary(&options, path(name)?, path(secondary_path)?)?).give(cell))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_open_as_secondary_column_families(
    options: *const rocksdb_options_t,
    name: *const c_char,
    secondary_path: *const c_char,
    count: c_int,
    names: *const *const c_char,
    family_options: *const *const rocksdb_options_t,
    handles: *mut *mut rocksdb_column_family_handle_t,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_t {
    attempt(errptr, std::ptr::null_mut(), || {
        let (options, cell) = object(options)?.for_open()?;
        let families = descriptors(count, names, family_options)?;
        let db = Db::open_cf_as_secondary(&options.db, path(name)?, path(secondary_path)?, families.clone())?;
        put_handles(&db, &families, handles)?;
        Ok(rocksdb_t::new(db).give(cell))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_try_catch_up_with_primary(db: *mut rocksdb_t, errptr: *mut *mut c_char) {
    attempt(errptr, (), || object(db)?.db.try_catch_up_with_primary());
}
