//! From a stored value to the one the user sees.
//!
//! In: the bytes of an entry that holds a value, and its type. Out: the part of them that is the user's value.

use esker_base::{Error, Result, ValueType};
use esker_format::blob::BlobIndex;
use esker_format::wide_column::{DEFAULT_COLUMN_NAME, WideColumns};

/// Which part of a stored value the user sees; of an entity, its default column.
/// # Errors
/// `NotSupported` for values in blob files · `Corruption` for values that are not what their type says.
pub(crate) fn value_part(value_type: ValueType, value: &[u8], user_key: &[u8]) -> Result<(usize, usize)> {
    match value_type {
        ValueType::Value => Ok((0, value.len())),
        ValueType::ValuePreferredSeqno => match value.len().checked_sub(8) {
            Some(end) => Ok((0, end)),
            None => Err(misfit(value_type, user_key)),
        },
        ValueType::WideColumnEntity => default_column(value),
        ValueType::BlobIndex => Err(in_blob_file(value, user_key)),
        _ => Err(misfit(value_type, user_key)),
    }
}

/// Which part of a stored value merge operands apply to; `None` for an entity without a default column.
/// # Errors
/// As [`value_part`].
pub(crate) fn merge_base<'a>(
    value_type: ValueType,
    value: &'a [u8],
    user_key: &[u8],
) -> Result<Option<&'a [u8]>> {
    if value_type == ValueType::WideColumnEntity {
        return Ok(WideColumns::parse(value)?.column(DEFAULT_COLUMN_NAME));
    }
    value_part(value_type, value, user_key).map(|(start, end)| Some(&value[start..end]))
}

/// The values lie back to back at the end, and the default column's name sorts first.
fn default_column(entity: &[u8]) -> Result<(usize, usize)> {
    let columns = WideColumns::parse(entity)?;
    let start = entity.len() - columns.iter().map(|(_, value)| value.len()).sum::<usize>();
    Ok((start, start + columns.default_value().len()))
}

#[cold]
fn in_blob_file(value: &[u8], user_key: &[u8]) -> Error {
    let place = match BlobIndex::parse(value) {
        Ok(BlobIndex::Blob(location) | BlobIndex::BlobTtl { location, .. }) => {
            format!("blob file {}", location.file_number)
        }
        Ok(BlobIndex::InlinedTtl { .. }) => "an inlined blob with an expiration time".to_owned(),
        Err(error) => return error.at(format!("blob index of key '{}'", user_key.escape_ascii())),
    };
    Error::not_supported(format!(
        "the value of key '{}' is in {place}; blob files are not supported",
        user_key.escape_ascii()
    ))
}

#[cold]
fn misfit(value_type: ValueType, user_key: &[u8]) -> Error {
    Error::corruption(format!(
        "an entry of type {value_type:?} does not fit where key '{}' has one",
        user_key.escape_ascii()
    ))
}
