//! `rocksdb_iterator_t`: one C type for the iterators of databases, transactions and batches.
//!
//! In: moves. Out: keys and values that live until the next move. If an iterator cannot be made, or
//! a move panics, the iterator is not valid and has the error as its status.
//!
//! Invariant: if `rocksdb_iterator_t::key` is not NULL, the cursor is valid, and `key` points to
//! the cursor's present key. Moves and refreshes set `key`.

use crate::column_family::rocksdb_column_family_handle_t;
use crate::db::{family, rocksdb_t};
use crate::memory::{
    answer, attempt, bytes, destroy, give, guarded, lend, object, object_mut, put_at, slice,
};
use crate::read_options::rocksdb_readoptions_t;
use esker::txn::TransactionIterator;
use esker::{DbIterator, Error, Result, TtlIterator};
use libc::{c_char, c_uchar};

/// A cursor over the entries of a family.
#[derive(Debug)]
pub struct rocksdb_iterator_t {
    /// The iterator behind the C type.
    pub(crate) cursor: Cursor,
    /// The first byte of the key, if the cursor is [`Cursor::Db`] and valid; else NULL. Clients ask
    /// for validity and key at every step, and find them here.
    key: *const u8,
    /// The length of the key at `key`.
    key_len: usize,
}

impl rocksdb_iterator_t {
    /// Moves an iterator over `cursor` to the heap. The caller owns the returned pointer.
    pub(crate) fn give(cursor: Cursor) -> *mut rocksdb_iterator_t {
        give(rocksdb_iterator_t { cursor, key: std::ptr::null(), key_len: 0 })
    }

    /// Calls `change`, and then notes the key of the cursor.
    #[inline]
    fn change(&mut self, change: impl FnOnce(&mut Cursor)) {
        self.key = std::ptr::null();
        let changed = guarded(|| {
            change(&mut self.cursor);
            if let Cursor::Db(it) = &self.cursor
                && it.valid()
            {
                let key = it.key();
                (self.key, self.key_len) = (key.as_ptr(), key.len());
            }
        });
        if let Err(panic) = changed {
            self.fail(panic);
        }
    }

    /// Gives up the cursor, which a panic has left in an unknown state.
    #[cold]
    fn fail(&mut self, panic: Error) {
        let cursor = std::mem::replace(&mut self.cursor, Cursor::Failed(panic));
        answer((), || {
            drop(cursor);
            Ok(())
        });
    }

    #[inline]
    fn valid(&self) -> bool {
        !self.key.is_null() || self.cursor.valid()
    }

    /// The key; empty if the iterator is not valid.
    #[inline]
    fn key(&self) -> &[u8] {
        if self.key.is_null() {
            return self.cursor.key();
        }
        // SAFETY: by the file's invariant the cursor lends these bytes until its next move, which
        // needs a mutable reference to `self`.
        unsafe { std::slice::from_raw_parts(self.key, self.key_len) }
    }

    /// The value; empty if the iterator is not valid.
    #[inline]
    fn value(&self) -> &[u8] {
        match &self.cursor {
            Cursor::Db(it) if !self.key.is_null() => it.value(),
            other => other.value_elsewhere(),
        }
    }
}

/// The kinds of cursors behind the C type.
#[derive(Debug)]
pub(crate) enum Cursor {
    /// Over a database.
    Db(DbIterator),
    /// Over a database with TTL.
    Ttl(TtlIterator),
    /// Over a database with the changes of a transaction or batch added.
    Txn(Box<TransactionIterator>),
    /// An iterator that could not be made.
    Failed(Error),
}

/// Calls a method on a cursor of any kind.
macro_rules! of_cursor {
    ($cursor:expr, $it:ident => $call:expr, $failed:ident => $else:expr) => {
        match $cursor {
            Cursor::Db($it) => $call,
            Cursor::Ttl($it) => $call,
            Cursor::Txn($it) => $call,
            Cursor::Failed($failed) => $else,
        }
    };
}

impl Cursor {
    pub(crate) fn of_transaction(made: Result<TransactionIterator>) -> Cursor {
        made.map_or_else(Cursor::Failed, |iterator| Cursor::Txn(Box::new(iterator)))
    }

    /// Whether the cursor is valid. Not inlined: a valid iterator over a database answers from
    /// its stored key.
    #[inline(never)]
    fn valid(&self) -> bool {
        of_cursor!(self, it => it.valid(), _error => false)
    }

    /// The key; empty if the cursor is not valid. Not inlined, like [`Cursor::valid`].
    #[inline(never)]
    fn key(&self) -> &[u8] {
        of_cursor!(self, it => if it.valid() { it.key() } else { &[] }, _error => &[])
    }

    /// The value, for all cursors except [`Cursor::Db`]; empty if the cursor is not valid. Not
    /// inlined, like [`Cursor::valid`].
    #[inline(never)]
    fn value_elsewhere(&self) -> &[u8] {
        match self {
            Cursor::Ttl(it) if it.valid() => it.value().unwrap_or_default(),
            Cursor::Txn(it) if it.valid() => it.value(),
            _ => &[],
        }
    }

    /// [`DbIterator::next`] for all cursors except [`Cursor::Db`]. Not inlined.
    #[inline(never)]
    fn next_elsewhere(&mut self) {
        match self {
            Cursor::Ttl(it) => it.next(),
            Cursor::Txn(it) => it.next(),
            // `rocksdb_iter_next` calls `DbIterator::next` itself. With a second call here, the
            // compiler would not inline the call there.
            Cursor::Db(_) | Cursor::Failed(_) => {}
        }
    }

    fn timestamp(&self) -> &[u8] {
        match self {
            Cursor::Db(it) if it.valid() => it.timestamp(),
            _ => &[],
        }
    }

    fn status(&self) -> Result<()> {
        of_cursor!(self, it => it.status(), error => Err(error.clone()))
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_create_iterator(
    db: *mut rocksdb_t,
    options: *const rocksdb_readoptions_t,
) -> *mut rocksdb_iterator_t {
    answer(std::ptr::null_mut(), || {
        let db = object(db)?;
        let cursor = db.iter(object(options)?.for_iterator(), &db.default);
        Ok(rocksdb_iterator_t::give(cursor))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_create_iterator_cf(
    db: *mut rocksdb_t,
    options: *const rocksdb_readoptions_t,
    column_family: *mut rocksdb_column_family_handle_t,
) -> *mut rocksdb_iterator_t {
    answer(std::ptr::null_mut(), || {
        let cursor = object(db)?.iter(object(options)?.for_iterator(), family(column_family)?);
        Ok(rocksdb_iterator_t::give(cursor))
    })
}

/// Makes an iterator over each of `count` families. All iterators read at the same sequence number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_create_iterators(
    db: *mut rocksdb_t,
    options: *mut rocksdb_readoptions_t,
    column_families: *mut *mut rocksdb_column_family_handle_t,
    iterators: *mut *mut rocksdb_iterator_t,
    count: usize,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        let db = object(db)?;
        let mut options = object(options)?.for_iterator();
        options.snapshot.get_or_insert_with(|| db.db.snapshot());
        let mut made = Vec::with_capacity(count);
        for column_family in slice(column_families, count)? {
            match db.iter(options.clone(), family(*column_family)?) {
                Cursor::Failed(error) => return Err(error),
                cursor => made.push(cursor),
            }
        }
        for (at, cursor) in made.into_iter().enumerate() {
            put_at(iterators, at, rocksdb_iterator_t::give(cursor));
        }
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_iter_destroy(iterator: *mut rocksdb_iterator_t) {
    destroy(iterator);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_iter_valid(iterator: *const rocksdb_iterator_t) -> c_uchar {
    iterator.as_ref().is_some_and(rocksdb_iterator_t::valid).into()
}

/// Moves the cursor to `key`. If `key` is an error, the iterator keeps that error and never becomes
/// valid again.
unsafe fn seek(iterator: *mut rocksdb_iterator_t, key: Result<&[u8]>, seek: impl FnOnce(&mut Cursor, &[u8])) {
    step(iterator, |cursor| match key {
        Ok(key) => seek(cursor, key),
        Err(error) => *cursor = Cursor::Failed(error),
    });
}

/// Moves the cursor. A panic becomes the iterator's error; a NULL iterator is ignored.
#[inline]
pub(crate) unsafe fn step(iterator: *mut rocksdb_iterator_t, step: impl FnOnce(&mut Cursor)) {
    if let Some(iterator) = iterator.as_mut() {
        iterator.change(step);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_iter_seek_to_first(iterator: *mut rocksdb_iterator_t) {
    step(iterator, |cursor| of_cursor!(cursor, it => it.seek_to_first(), _error => ()));
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_iter_seek_to_last(iterator: *mut rocksdb_iterator_t) {
    step(iterator, |cursor| of_cursor!(cursor, it => it.seek_to_last(), _error => ()));
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_iter_seek(
    iterator: *mut rocksdb_iterator_t,
    key: *const c_char,
    len: usize,
) {
    seek(iterator, bytes(key, len), |cursor, key| of_cursor!(cursor, it => it.seek(key), _error => ()));
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_iter_seek_for_prev(
    iterator: *mut rocksdb_iterator_t,
    key: *const c_char,
    len: usize,
) {
    seek(iterator, bytes(key, len), |cursor, key| {
        of_cursor!(cursor, it => it.seek_for_prev(key), _error => ());
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_iter_next(iterator: *mut rocksdb_iterator_t) {
    step(iterator, |cursor| match cursor {
        Cursor::Db(it) => it.next(),
        other => other.next_elsewhere(),
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_iter_prev(iterator: *mut rocksdb_iterator_t) {
    step(iterator, |cursor| of_cursor!(cursor, it => it.prev(), _error => ()));
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_iter_key(
    iterator: *const rocksdb_iterator_t,
    len: *mut usize,
) -> *const c_char {
    iterator.as_ref().map_or(std::ptr::null(), |iterator| lend(iterator.key(), len))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_iter_value(
    iterator: *const rocksdb_iterator_t,
    len: *mut usize,
) -> *const c_char {
    iterator.as_ref().map_or(std::ptr::null(), |iterator| lend(iterator.value(), len))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_iter_timestamp(
    iterator: *const rocksdb_iterator_t,
    len: *mut usize,
) -> *const c_char {
    iterator.as_ref().map_or(std::ptr::null(), |iterator| lend(iterator.cursor.timestamp(), len))
}

/// Bytes that the library owns and the client reads.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rocksdb_slice_t {
    /// The first byte.
    pub data: *const c_char,
    /// The number of bytes.
    pub size: usize,
}

impl rocksdb_slice_t {
    fn of(bytes: &[u8]) -> rocksdb_slice_t {
        rocksdb_slice_t { data: bytes.as_ptr().cast(), size: bytes.len() }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_iter_key_slice(iterator: *const rocksdb_iterator_t) -> rocksdb_slice_t {
    rocksdb_slice_t::of(iterator.as_ref().map_or(&[], rocksdb_iterator_t::key))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_iter_value_slice(iterator: *const rocksdb_iterator_t) -> rocksdb_slice_t {
    rocksdb_slice_t::of(iterator.as_ref().map_or(&[], rocksdb_iterator_t::value))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_iter_timestamp_slice(
    iterator: *const rocksdb_iterator_t,
) -> rocksdb_slice_t {
    rocksdb_slice_t::of(iterator.as_ref().map_or(&[], |iterator| iterator.cursor.timestamp()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_iter_get_error(
    iterator: *const rocksdb_iterator_t,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        let cursor = &object(iterator)?.cursor;
        if let (Cursor::Ttl(it), true) = (cursor, cursor.valid()) {
            it.value()?;
        }
        cursor.status()
    });
}

/// Lets an iterator over a database read the present state. The iterator is then not valid until
/// the next seek.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_iter_refresh(iterator: *const rocksdb_iterator_t, errptr: *mut *mut c_char) {
    attempt(errptr, (), || {
        let iterator = object_mut(iterator.cast_mut())?;
        let mut refreshed = Ok(());
        iterator.change(|cursor| {
            refreshed = match cursor {
                Cursor::Db(it) => it.refresh(),
                Cursor::Failed(error) => Err(error.clone()),
                _ => Err(Error::not_supported("Refresh() is not supported")),
            };
        });
        refreshed.and_then(|()| iterator.cursor.status())
    });
}
