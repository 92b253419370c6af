//! The functions that JavaScript calls. An instance of the module reads one database.
//!
//! In: bytes that JavaScript has copied to [`esker_input`]. Out: a number, and bytes at
//! [`esker_output`], of which there are [`esker_output_length`]. A negative number is an error,
//! and the output is its text. In a list each item is a length (u32, little-endian) and its bytes.
//! `js/esker.mjs` calls these functions in this order:
//!
//! ```text
//! for each file: esker_input(n), esker_add_file(name's length)      name, contents
//! esker_open()
//! esker_families() · esker_input(n), esker_get(family's length)     family, key
//!                  · esker_input(n), esker_scan(…)                  family, first key
//!                  · esker_input(n), esker_set_timestamp(1)         timestamp
//! ```

#![allow(unsafe_code, unreachable_pub, reason = "an attribute names each function for JavaScript")]

use crate::{DirectoryFiles, Reader};
use esker_base::{Error, Result};
use std::cell::RefCell;

#[derive(Default)]
struct State {
    input: Vec<u8>,
    output: Vec<u8>,
    files: DirectoryFiles,
    reader: Option<Reader>,
    /// The timestamp of reads; `None` is the newest.
    timestamp: Option<Vec<u8>>,
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

impl State {
    fn reader(&self) -> Result<&Reader> {
        self.reader.as_ref().ok_or_else(|| Error::invalid_argument("esker_open comes first"))
    }

    /// The input in two parts.
    fn parts(&self, first: usize) -> Result<(&str, &[u8])> {
        let parts = self.input.split_at_checked(first);
        let (name, rest) =
            parts.ok_or_else(|| Error::invalid_argument("the input is shorter than its name"))?;
        let name = std::str::from_utf8(name).map_err(|_| Error::invalid_argument("a name is not UTF-8"))?;
        Ok((name, rest))
    }
}

/// Runs a call. Its bytes, or the text of its error, become the output.
fn answer(call: impl FnOnce(&mut State) -> Result<(i32, Vec<u8>)>) -> i32 {
    STATE.with_borrow_mut(|state| {
        let (number, output) = call(state).unwrap_or_else(|e| (-1, e.to_string().into_bytes()));
        state.output = output;
        number
    })
}

fn list<'a>(items: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    for item in items {
        // Memory of 32 bits holds no longer item.
        out.extend_from_slice(&u32::try_from(item.len()).unwrap_or(u32::MAX).to_le_bytes());
        out.extend_from_slice(item);
    }
    out
}

fn count(n: usize) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

/// Makes room for `length` bytes of input, and returns its address.
#[unsafe(no_mangle)]
pub extern "C" fn esker_input(length: usize) -> *mut u8 {
    STATE.with_borrow_mut(|state| {
        state.input.clear();
        state.input.resize(length, 0);
        state.input.as_mut_ptr()
    })
}

/// The address of the last output.
#[unsafe(no_mangle)]
pub extern "C" fn esker_output() -> *const u8 {
    STATE.with_borrow(|state| state.output.as_ptr())
}

/// The length of the last output.
#[unsafe(no_mangle)]
pub extern "C" fn esker_output_length() -> usize {
    STATE.with_borrow(|state| state.output.len())
}

/// Adds a file. The input is its name and its contents.
#[unsafe(no_mangle)]
pub extern "C" fn esker_add_file(name_length: usize) -> i32 {
    answer(|state| {
        let name = state.parts(name_length)?.0.to_owned();
        let mut contents = std::mem::take(&mut state.input);
        contents.drain(..name_length);
        state.files.insert(name, contents);
        Ok((0, Vec::new()))
    })
}

/// Opens the database. Returns the number of its families.
#[unsafe(no_mangle)]
pub extern "C" fn esker_open() -> i32 {
    answer(|state| {
        let reader = Reader::open(std::mem::take(&mut state.files))?;
        let families = count(reader.families().len());
        state.reader = Some(reader);
        Ok((families, Vec::new()))
    })
}

/// Lists the names of the families. Returns their number.
#[unsafe(no_mangle)]
pub extern "C" fn esker_families() -> i32 {
    answer(|state| {
        let families = state.reader()?.families();
        Ok((count(families.len()), list(families.iter().map(|name| name.as_bytes()))))
    })
}

/// Sets the timestamp of later reads to the input; to the newest if `has_timestamp` is 0.
#[unsafe(no_mangle)]
pub extern "C" fn esker_set_timestamp(has_timestamp: i32) -> i32 {
    answer(|state| {
        state.timestamp = (has_timestamp != 0).then(|| state.input.clone());
        Ok((0, Vec::new()))
    })
}

/// Gets a value: returns 1 and the value, or 0. The input is the family's name and the key.
#[unsafe(no_mangle)]
pub extern "C" fn esker_get(family_length: usize) -> i32 {
    answer(|state| {
        let (family, key) = state.parts(family_length)?;
        Ok(match state.reader()?.get_at(family, key, state.timestamp.as_deref())? {
            Some(value) => (1, value),
            None => (0, Vec::new()),
        })
    })
}

/// Lists at most `limit` keys, each with its value behind it. Returns their number. The input is
/// the family's name, and the first key if `has_first_key` is not 0.
#[unsafe(no_mangle)]
pub extern "C" fn esker_scan(family_length: usize, has_first_key: i32, limit: usize) -> i32 {
    answer(|state| {
        let (family, from) = state.parts(family_length)?;
        let from = (has_first_key != 0).then_some(from);
        let pairs = state.reader()?.scan_at(family, from, limit, state.timestamp.as_deref())?;
        let items = pairs.iter().flat_map(|(key, value)| [key.as_slice(), value.as_slice()]);
        Ok((count(pairs.len()), list(items)))
    })
}
