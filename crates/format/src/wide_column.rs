//! Wide-column entities: a value that is a set of named columns.
//!
//! In: names and values. Out: one value, and back. Source: RocksDB
//! `db/wide/wide_column_serialization.h`.
//!
//!   version varint32 = 1 | n varint32 | n × (name length-prefixed | value size varint32) | n
//!   values back to back
//!
//! Invariants
//!  1. Names ascend strictly, bytewise. The default column has the empty name. A plain get returns
//!     its value.
//!  2. The bytes of an [`EncodedColumns`] were checked completely, so that iteration cannot fail.
//!
//! Page: `docs/format/values.md`.

use esker_base::coding::{Decoder, put_length_prefixed, put_varint32};
use esker_base::{Error, Result};

pub mod stored;
#[cfg(test)]
mod tests;

/// The name of the column whose value a plain get returns.
pub const DEFAULT_COLUMN_NAME: &[u8] = b"";

const VERSION: u32 = 1;

/// Appends the entity of these columns, which may come in any order.
/// # Errors
/// `InvalidArgument` if a name occurs twice, or anything reaches 2^32 bytes. `out` is then
/// unchanged.
pub fn serialize(columns: &[(&[u8], &[u8])], out: &mut Vec<u8>) -> Result<()> {
    let mut sorted: Vec<(&[u8], &[u8])> = columns.to_vec();
    sorted.sort_unstable_by_key(|(name, _)| *name);
    let count = u32::try_from(sorted.len()).map_err(|_| Error::invalid_argument("too many wide columns"))?;
    for pair in sorted.windows(2) {
        if let [(a, _), (b, _)] = pair
            && a == b
        {
            return Err(Error::invalid_argument(format!("wide column '{}' occurs twice", a.escape_ascii())));
        }
    }
    let mut sizes = Vec::with_capacity(sorted.len());
    for (name, value) in &sorted {
        match (u32::try_from(name.len()), u32::try_from(value.len())) {
            (Ok(_), Ok(size)) => sizes.push(size),
            _ => return Err(Error::invalid_argument("name or value of a wide column is too large")),
        }
    }
    put_varint32(out, VERSION);
    put_varint32(out, count);
    for ((name, _), size) in sorted.iter().zip(sizes) {
        put_length_prefixed(out, name);
        put_varint32(out, size);
    }
    for (_, value) in &sorted {
        out.extend_from_slice(value);
    }
    Ok(())
}

/// The checked bytes of an entity, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct EncodedColumns<'a> {
    count: u32,
    index: &'a [u8],
    values: &'a [u8],
}

impl<'a> EncodedColumns<'a> {
    /// Checks all of `bytes`.
    /// # Errors
    /// `Corruption` if they are cut off, names do not ascend, or values do not fill the rest.
    /// `NotSupported` for a version other than 1. Version 2 has columns in blob files: [`stored`].
    pub fn parse(bytes: &'a [u8]) -> Result<EncodedColumns<'a>> {
        let mut d = Decoder::new(bytes);
        let version = d.varint32()?;
        if version != VERSION {
            return Err(unknown_version(version));
        }
        let count = d.varint32()?;
        let index = d.rest();
        let mut value_bytes = 0u64;
        let mut previous: Option<&[u8]> = None;
        for _ in 0..count {
            let name = d.length_prefixed()?;
            if previous.is_some_and(|p| p >= name) {
                return Err(Error::corruption("wide columns are out of order"));
            }
            previous = Some(name);
            value_bytes += u64::from(d.varint32()?);
        }
        let values = d.rest();
        if value_bytes != values.len() as u64 {
            return Err(Error::corruption(format!(
                "wide columns should have {value_bytes} bytes of values, but have {}",
                values.len()
            )));
        }
        Ok(EncodedColumns { count, index, values })
    }

    /// Number of columns.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are no columns.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Names and values, in the order of names.
    pub fn iter(&self) -> Columns<'a> {
        Columns { left: self.count, index: Decoder::new(self.index), values: Decoder::new(self.values) }
    }

    /// The value of the column `name`.
    pub fn column(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.iter().find(|(n, _)| *n == name).map(|(_, value)| value)
    }

    /// The value that a plain get returns; empty if there is no default column.
    pub fn default_value(&self) -> &'a [u8] {
        match self.iter().next() {
            Some((name, value)) if name == DEFAULT_COLUMN_NAME => value,
            _ => &[],
        }
    }

    /// The entity with its default column set to `value`. Adds the column if it is missing.
    /// # Errors
    /// `InvalidArgument` if a column reaches 2^32 bytes.
    pub fn with_default_value(&self, value: &[u8]) -> Result<Vec<u8>> {
        let mut columns = vec![(DEFAULT_COLUMN_NAME, value)];
        columns.extend(self.iter().filter(|(name, _)| *name != DEFAULT_COLUMN_NAME));
        let mut bytes = Vec::new();
        serialize(&columns, &mut bytes)?;
        Ok(bytes)
    }
}

/// Iterates over the columns of an entity.
#[derive(Clone, Debug)]
pub struct Columns<'a> {
    left: u32,
    index: Decoder<'a>,
    values: Decoder<'a>,
}

impl<'a> Iterator for Columns<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        self.left = self.left.checked_sub(1)?;
        let name = self.index.length_prefixed().expect("`parse` has checked the entity");
        let size = self.index.varint32().expect("`parse` has checked the entity");
        Some((name, self.values.bytes(size as usize).expect("`parse` has checked the entity")))
    }
}

#[cold]
fn unknown_version(version: u32) -> Error {
    match version {
        2 => Error::not_supported("wide-column entity of version 2 (columns in blob files)"),
        _ => Error::not_supported(format!("wide-column entity of version {version}")),
    }
}
