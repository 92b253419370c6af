//! Creates, drops and lists families of a database.

use crate::db::{DatabaseNumber, rocksdb_t};
use crate::memory::{
    answer, attempt, destroy, give, object, path, put, put_at, slice, text, to_c_array, to_c_bytes,
    to_c_string,
};
use crate::options::rocksdb_options_t;
use esker::{ColumnFamilyDescriptor, ColumnFamilyHandle, Db, DbOptions, Error, Result};
use libc::{c_char, c_int};

/// A handle of a family. A dropped family stays readable until its handles are destroyed.
#[derive(Clone, Debug)]
pub struct rocksdb_column_family_handle_t {
    /// The handle in Rust.
    pub(crate) family: ColumnFamilyHandle,
    /// The number of the family's database. A write of a batch checks this number, because the
    /// batch itself has only the ids of families.
    pub(crate) database: DatabaseNumber,
}

pub(crate) fn give_family(
    database: DatabaseNumber,
    family: ColumnFamilyHandle,
) -> *mut rocksdb_column_family_handle_t {
    give(rocksdb_column_family_handle_t { family, database })
}

/// The families that a call names: `count` names, each with its options.
pub(crate) unsafe fn descriptors(
    count: c_int,
    names: *const *const c_char,
    options: *const *const rocksdb_options_t,
) -> Result<Vec<ColumnFamilyDescriptor>> {
    let count =
        usize::try_from(count).map_err(|_| Error::invalid_argument("num_column_families is negative"))?;
    let mut families = Vec::with_capacity(count);
    for (name, options) in slice(names, count)?.iter().zip(slice(options, count)?) {
        let options = object(*options)?;
        options.check()?;
        families.push(ColumnFamilyDescriptor::new(text(*name)?, options.cf.clone()));
    }
    Ok(families)
}

/// Writes a handle of each family of `families` to the array `handles`, in the same order.
pub(crate) unsafe fn put_handles(
    db: &Db,
    families: &[ColumnFamilyDescriptor],
    handles: *mut *mut rocksdb_column_family_handle_t,
) -> Result<()> {
    let database = DatabaseNumber::of(db);
    for (at, family) in families.iter().enumerate() {
        let handle = db.column_family(&family.name);
        let handle = handle.ok_or_else(|| Error::invalid_argument(format!("no family '{}'", family.name)))?;
        put_at(handles, at, give_family(database, handle));
    }
    Ok(())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_list_column_families(
    options: *const rocksdb_options_t,
    name: *const c_char,
    len: *mut usize,
    errptr: *mut *mut c_char,
) -> *mut *mut c_char {
    put(len, 0);
    let names = attempt(errptr, Vec::new(), || {
        let options = options.as_ref().map_or_else(DbOptions::default, |options| options.db.clone());
        Db::list_column_families(&options, path(name)?)
    });
    let names: Vec<*mut c_char> = names.iter().map(|name| to_c_string(name.as_bytes())).collect();
    put(len, names.len());
    to_c_array(&names)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_list_column_families_destroy(list: *mut *mut c_char, len: usize) {
    for name in slice(list, len).unwrap_or_default() {
        libc::free((*name).cast());
    }
    libc::free(list.cast());
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_create_column_family(
    db: *mut rocksdb_t,
    options: *const rocksdb_options_t,
    name: *const c_char,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_column_family_handle_t {
    attempt(errptr, std::ptr::null_mut(), || {
        let options = object(options)?;
        options.check()?;
        let db = object(db)?;
        Ok(give_family(db.database, db.create_column_family(&text(name)?, &options.cf)?))
    })
}

/// Creates families and returns an array of their handles; NULL after an error. The caller frees
/// the array with `rocksdb_create_column_families_destroy`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_create_column_families(
    db: *mut rocksdb_t,
    options: *const rocksdb_options_t,
    count: c_int,
    names: *const *const c_char,
    len: *mut usize,
    errptr: *mut *mut c_char,
) -> *mut *mut rocksdb_column_family_handle_t {
    put(len, 0);
    attempt(errptr, std::ptr::null_mut(), || {
        let options = object(options)?;
        options.check()?;
        let count = usize::try_from(count).unwrap_or(0);
        let family = |name: &*const c_char| Ok(ColumnFamilyDescriptor::new(text(*name)?, options.cf.clone()));
        let families = slice(names, count)?.iter().map(family).collect::<Result<_>>()?;
        let db = object(db)?;
        let handles = db.create_column_families(families)?.into_iter();
        let handles: Vec<_> = handles.map(|family| give_family(db.database, family)).collect();
        put(len, handles.len());
        Ok(to_c_array(&handles))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_create_column_families_destroy(
    list: *mut *mut rocksdb_column_family_handle_t,
) {
    libc::free(list.cast());
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_create_column_family_with_ttl(
    db: *mut rocksdb_t,
    options: *const rocksdb_options_t,
    name: *const c_char,
    ttl: c_int,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_column_family_handle_t {
    attempt(errptr, std::ptr::null_mut(), || {
        let options = object(options)?;
        options.check()?;
        let db = object(db)?;
        let with_ttl =
            db.ttl.as_ref().ok_or_else(|| Error::invalid_argument("the database was opened without TTL"))?;
        Ok(give_family(db.database, with_ttl.create_column_family_with_ttl(&text(name)?, &options.cf, ttl)?))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_drop_column_family(
    db: *mut rocksdb_t,
    family: *mut rocksdb_column_family_handle_t,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || object(db)?.db.drop_column_family(&object(family)?.family));
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_get_default_column_family_handle(
    db: *mut rocksdb_t,
) -> *mut rocksdb_column_family_handle_t {
    answer(std::ptr::null_mut(), || {
        let db = object(db)?;
        Ok(give_family(db.database, db.default.clone()))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_column_family_handle_destroy(family: *mut rocksdb_column_family_handle_t) {
    destroy(family);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_column_family_handle_get_id(
    family: *mut rocksdb_column_family_handle_t,
) -> u32 {
    answer(0, || Ok(object(family)?.family.id().0))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_column_family_handle_get_name(
    family: *mut rocksdb_column_family_handle_t,
    len: *mut usize,
) -> *mut c_char {
    answer(std::ptr::null_mut(), || Ok(to_c_bytes(object(family)?.family.name().as_bytes(), len)))
}
