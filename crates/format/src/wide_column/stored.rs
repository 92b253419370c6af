//! Entities as they may be stored: columns in blob files, too.
//!
//! In: the bytes of an entity of version 1 or 2. Out: its columns, some of them only as the place
//! where they lie; and back. Source: RocksDB `db/wide/wide_column_serialization.h`.
//!
//!   version varint32 = 2 | n varint32 | bytes of name sizes, of value sizes and of names varint32
//!   × 3 | n × type u8
//!   | n × name size varint32 | n × value size varint32 | names | values        type 01: the value, 11: a blob index
//!
//! Invariant: names ascend strictly; sections have the sizes they promise and fill the entity.
//!
//! Page: `docs/format/values.md`.

use super::{DEFAULT_COLUMN_NAME, EncodedColumns, VERSION, serialize, unknown_version};
use crate::blob::{BlobIndex, BlobLocation};
use esker_base::coding::{Decoder, put_varint32};
use esker_base::{Error, Result, ValueType};

/// The version that entities with columns in blob files have.
pub const VERSION_WITH_BLOBS: u32 = 2;

/// A column's value, or where it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoredValue<'a> {
    /// Here.
    Inline(&'a [u8]),
    /// In a blob file, under the entity's user key.
    Blob(BlobLocation),
}

/// The columns of an entity by name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StoredColumns<'a> {
    /// Names and values; names ascend.
    pub columns: Vec<(&'a [u8], StoredValue<'a>)>,
}

/// Whether an entity may have columns in blob files, as its version says, in however many bytes
/// that is written.
pub fn may_have_blobs(entity: &[u8]) -> bool {
    entity.first().is_some_and(|&version| u32::from(version & 0x7F) == VERSION_WITH_BLOBS)
}

impl<'a> StoredColumns<'a> {
    /// Checks all of `entity`.
    /// # Errors
    /// `Corruption` if it is cut off, names do not ascend, sections do not fit or a blob index is
    /// none · `NotSupported` for an unknown version, or for blobs that expire.
    pub fn parse(entity: &'a [u8]) -> Result<StoredColumns<'a>> {
        let mut d = Decoder::new(entity);
        match d.varint32()? {
            VERSION => {
                let columns = EncodedColumns::parse(entity)?;
                Ok(StoredColumns {
                    columns: columns.iter().map(|(n, v)| (n, StoredValue::Inline(v))).collect(),
                })
            }
            VERSION_WITH_BLOBS => parse_sections(d),
            version => Err(unknown_version(version)),
        }
    }

    /// The value of a plain get; `None` if there is no default column.
    pub fn default_value(&self) -> Option<StoredValue<'a>> {
        self.columns.first().filter(|(name, _)| *name == DEFAULT_COLUMN_NAME).map(|(_, value)| *value)
    }

    /// The places of the values that are in blob files.
    pub fn blobs(&self) -> impl Iterator<Item = BlobLocation> {
        self.columns.iter().filter_map(|(_, value)| match value {
            StoredValue::Blob(location) => Some(*location),
            StoredValue::Inline(_) => None,
        })
    }

    /// Appends its bytes: of version 1 if no column is in a blob file, else of version 2.
    /// # Errors
    /// `InvalidArgument` if anything reaches 2^32 bytes; `out` may have grown then.
    pub fn append_to(&self, out: &mut Vec<u8>) -> Result<()> {
        if self.blobs().next().is_none() {
            let inline = |(name, value): &(&'a [u8], StoredValue<'a>)| match value {
                StoredValue::Inline(value) => (*name, *value),
                StoredValue::Blob(_) => (*name, &[][..]),
            };
            return serialize(&self.columns.iter().map(inline).collect::<Vec<_>>(), out);
        }
        let too_large = || Error::invalid_argument("name or value of a wide column is too large");
        let size = |n: usize| u32::try_from(n).map_err(|_| too_large());
        let (mut types, mut name_sizes, mut value_sizes) = (Vec::new(), Vec::new(), Vec::new());
        let (mut names, mut values) = (Vec::new(), Vec::new());
        for (name, value) in &self.columns {
            put_varint32(&mut name_sizes, size(name.len())?);
            names.extend_from_slice(name);
            let before = values.len();
            match value {
                StoredValue::Inline(value) => {
                    types.push(ValueType::Value as u8);
                    values.extend_from_slice(value);
                }
                StoredValue::Blob(location) => {
                    types.push(ValueType::BlobIndex as u8);
                    BlobIndex::Blob(*location).append_to(&mut values);
                }
            }
            put_varint32(&mut value_sizes, size(values.len() - before)?);
        }
        put_varint32(out, VERSION_WITH_BLOBS);
        put_varint32(out, size(self.columns.len())?);
        for section in [&name_sizes, &value_sizes, &names] {
            put_varint32(out, size(section.len())?);
        }
        for section in [types, name_sizes, value_sizes, names, values] {
            out.extend_from_slice(&section);
        }
        Ok(())
    }
}

/// The part behind the version.
fn parse_sections(mut d: Decoder<'_>) -> Result<StoredColumns<'_>> {
    let count = d.varint32()? as usize;
    let section_bytes = [d.varint32()?, d.varint32()?, d.varint32()?];
    let types = d.bytes(count)?;
    let mut sections = section_bytes.iter().map(|&bytes| d.bytes(bytes as usize));
    let mut next = || sections.next().unwrap_or(Ok(&[])).map(Decoder::new);
    let (mut name_sizes, mut value_sizes, mut names) = (next()?, next()?, next()?);
    drop(sections);
    let mut columns = Vec::with_capacity(count);
    for &kind in types {
        let name = names.bytes(name_sizes.varint32()? as usize)?;
        if columns.last().is_some_and(|(before, _): &(&[u8], _)| *before >= name) {
            return Err(Error::corruption("wide columns are out of order"));
        }
        let value = d.bytes(value_sizes.varint32()? as usize)?;
        columns.push((name, stored_value(kind, value)?));
    }
    if [&name_sizes, &value_sizes, &names, &d].iter().any(|rest| !rest.is_empty()) {
        return Err(Error::corruption("bytes are left over behind wide columns"));
    }
    Ok(StoredColumns { columns })
}

fn stored_value(kind: u8, value: &[u8]) -> Result<StoredValue<'_>> {
    match ValueType::from_u8(kind) {
        Some(ValueType::Value) => Ok(StoredValue::Inline(value)),
        Some(ValueType::BlobIndex) => match BlobIndex::parse(value)? {
            BlobIndex::Blob(location) => Ok(StoredValue::Blob(location)),
            _ => Err(Error::not_supported("a wide column whose value expires")),
        },
        _ => Err(Error::corruption(format!("a wide column of type {kind}"))),
    }
}

/// Shows the place of every value of an entry that is in a blob file: of a blob index, or of an
/// entity's columns.
/// # Errors
/// `Corruption` in the blob index or entity.
pub fn for_each_blob(value_type: ValueType, value: &[u8], visit: &mut dyn FnMut(BlobLocation)) -> Result<()> {
    match value_type {
        ValueType::BlobIndex => {
            if let BlobIndex::Blob(location) | BlobIndex::BlobTtl { location, .. } = BlobIndex::parse(value)?
            {
                visit(location);
            }
        }
        ValueType::WideColumnEntity if may_have_blobs(value) => {
            StoredColumns::parse(value)?.blobs().for_each(visit);
        }
        _ => {}
    }
    Ok(())
}
