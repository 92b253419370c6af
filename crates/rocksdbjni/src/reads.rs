//! Gets, multi-gets and checks for keys.
//!
//! In: keys in byte arrays or direct buffers. Out: new byte arrays, or values copied to where Java
//! wants them. A get copies the key once (up to 128 bytes to the stack), and the value once.

use crate::border::{JavaInput, JavaOutput, NativeResult, new_status, status_texts};
use crate::db::{Database, Family, families};
use crate::handle::NativeHandle;
use crate::jni::{JavaBytes, JavaEnv, Reference};
use crate::options::ReadSettings;
use esker::{ColumnFamilyHandle, Error, ErrorKind, PinnedBytes, ReadOptions, ReadTier};

/// The length that means "not found" in RocksJava.
pub(crate) const NOT_FOUND: i32 = -1;

fn find(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    options: NativeHandle<ReadSettings>,
    family: NativeHandle<Family>,
    key: JavaInput,
) -> NativeResult<Option<PinnedBytes>> {
    let (db, key) = (db.get()?, key.read(env)?);
    let found = match options.find() {
        Some(reads) => db.get(&reads.options, db.family(family)?, &key),
        None => db.get(&ReadOptions::default(), db.family(family)?, &key),
    };
    Ok(found?)
}

/// The value as a new array; null if there is none.
pub(crate) fn get(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    options: NativeHandle<ReadSettings>,
    family: NativeHandle<Family>,
    key: JavaInput,
) -> NativeResult<Reference> {
    match find(env, db, options, family, key)? {
        Some(value) => env.new_bytes(&value),
        None => Ok(Reference::NULL),
    }
}

/// Copies the value, and returns its length.
pub(crate) fn get_into(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    options: NativeHandle<ReadSettings>,
    family: NativeHandle<Family>,
    key: JavaInput,
    output: JavaOutput,
) -> NativeResult<i32> {
    match find(env, db, options, family, key)? {
        Some(value) => output.write(env, &value),
        None => Ok(NOT_FOUND),
    }
}

/// Whether the key exists, for certain.
pub(crate) fn exists(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    options: NativeHandle<ReadSettings>,
    family: NativeHandle<Family>,
    key: JavaInput,
) -> NativeResult<bool> {
    Ok(find(env, db, options, family, key)?.is_some())
}

/// The answer about a key that memory alone can give.
enum Known {
    No,
    Maybe,
    Value(PinnedBytes),
}

fn known(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    options: NativeHandle<ReadSettings>,
    family: NativeHandle<Family>,
    key: JavaInput,
) -> NativeResult<Known> {
    let (db, key) = (db.get()?, key.read(env)?);
    let mut options = options.find().map(|reads| reads.options.clone()).unwrap_or_default();
    options.read_tier = ReadTier::BlockCache;
    match db.get(&options, db.family(family)?, &key) {
        Ok(None) => Ok(Known::No),
        Ok(Some(value)) => Ok(Known::Value(value)),
        Err(error) if error.kind() == ErrorKind::Incomplete => Ok(Known::Maybe),
        Err(error) => Err(error.into()),
    }
}

/// Whether the key may exist. Reads no file.
pub(crate) fn may_exist(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    options: NativeHandle<ReadSettings>,
    family: NativeHandle<Family>,
    key: JavaInput,
) -> NativeResult<bool> {
    Ok(!matches!(known(env, db, options, family, key)?, Known::No))
}

/// An array of two byte arrays: the answer (0: no, 1: maybe, 2: with value), and the value.
pub(crate) fn may_exist_value(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    options: NativeHandle<ReadSettings>,
    family: NativeHandle<Family>,
    key: JavaInput,
) -> NativeResult<Reference> {
    let (answer, value) = match known(env, db, options, family, key)? {
        Known::No => (0, Reference::NULL),
        Known::Maybe => (1, Reference::NULL),
        Known::Value(value) => (2, env.new_bytes(&value)?),
    };
    let array = env.new_array("[B", 2)?;
    env.put_element(array, 0, env.new_bytes(&[answer])?)?;
    env.put_element(array, 1, value)?;
    Ok(array)
}

/// Copies the value into a direct buffer. Returns the answer, as [`may_exist_value`] does, and the
/// value's length.
pub(crate) fn may_exist_direct(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    options: NativeHandle<ReadSettings>,
    family: NativeHandle<Family>,
    key: JavaInput,
    output: JavaOutput,
) -> NativeResult<Reference> {
    let (answer, len) = match known(env, db, options, family, key)? {
        Known::No => (0, 0),
        Known::Maybe => (1, 0),
        Known::Value(value) => (2, output.write(env, &value)?),
    };
    env.new_ints(&[answer, len])
}

/// The families of a multi-get: those of the array, or the default family for each key.
fn families_for<'a>(
    env: &JavaEnv<'_>,
    db: &'a Database,
    array: Reference,
    keys: usize,
) -> NativeResult<Vec<&'a ColumnFamilyHandle>> {
    if array.is_null() {
        return Ok(vec![&db.default; keys]);
    }
    let families = families(env, array)?;
    if families.len() != keys {
        return Err(Error::invalid_argument("keys and families differ in number").into());
    }
    Ok(families)
}

fn find_many(
    db: &Database,
    options: NativeHandle<ReadSettings>,
    families: &[&ColumnFamilyHandle],
    keys: &[JavaBytes],
) -> Vec<esker::Result<Option<PinnedBytes>>> {
    let default = ReadOptions::default();
    let options = options.find().map_or(&default, |reads| &reads.options);
    let pairs: Vec<(&ColumnFamilyHandle, &[u8])> =
        families.iter().zip(keys).map(|(family, key)| (*family, &key[..])).collect();
    db.multi_get(options, &pairs)
}

/// An array of values; null for an absent key.
pub(crate) fn multi_get(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    options: NativeHandle<ReadSettings>,
    keys: Reference,
    (offsets, lens): (Reference, Reference),
    listed: Reference,
) -> NativeResult<Reference> {
    let (offsets, lens) = (env.ints(offsets)?, env.ints(lens)?);
    let mut copied = Vec::new();
    for at in 0..env.len(keys)?.min(offsets.len()).min(lens.len()) {
        let key = env.element(keys, at)?;
        copied.push(env.bytes(key, offsets[at], lens[at])?);
        env.forget(key);
    }
    let db = db.get()?;
    let found = find_many(db, options, &families_for(env, db, listed, copied.len())?, &copied);
    // As in RocksJava, the value of a key whose read failed is null.
    env.new_array_of("[B", &found, |value| match value {
        Ok(Some(value)) => env.new_bytes(value),
        _ => Ok(Reference::NULL),
    })
}

/// Copies values into direct buffers, and fills the arrays of lengths and statuses.
#[allow(clippy::too_many_arguments, reason = "the native's signature")]
pub(crate) fn multi_get_direct(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    options: NativeHandle<ReadSettings>,
    listed: Reference,
    keys: (Reference, Reference, Reference),
    (values, sizes, statuses): (Reference, Reference, Reference),
) -> NativeResult<()> {
    let (offsets, lens) = (env.ints(keys.1)?, env.ints(keys.2)?);
    let mut copied = Vec::new();
    for at in 0..env.len(keys.0)?.min(offsets.len()).min(lens.len()) {
        let key = env.element(keys.0, at)?;
        copied.push(env.direct_bytes(key, offsets[at], lens[at])?);
        env.forget(key);
    }
    let db = db.get()?;
    // If the array has only one family, all keys are of this family.
    let families = match env.len(listed)? {
        0 => vec![&db.default; copied.len()],
        1 => vec![families(env, listed)?[0]; copied.len()],
        _ => families_for(env, db, listed, copied.len())?,
    };
    let found = find_many(db, options, &families, &copied);
    let mut lens = Vec::new();
    for (at, value) in found.iter().enumerate() {
        let (parts, len) = match value {
            Ok(Some(value)) => {
                let buffer = env.element(values, at)?;
                let room = env.direct_capacity(buffer)?;
                let len = JavaOutput::Direct(buffer, 0, room).write(env, value)?;
                env.forget(buffer);
                (crate::border::StatusParts { code: 0, subcode: 0, state: String::new() }, len)
            }
            Ok(None) => (status_texts(&Error::not_found("")), 0),
            Err(error) => (status_texts(error), 0),
        };
        lens.push(len);
        let status = new_status(env, &parts)?;
        env.put_element(statuses, at, status)?;
        env.forget(status);
    }
    env.put_ints(sizes, &lens)
}
