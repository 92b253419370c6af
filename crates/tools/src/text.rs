//! Converts keys and values to the text form of RocksDB's tools, and back.

use crate::failure::{CommandOutcome, Failure};
use esker::internals::env::system::local_time;
use esker::internals::format::blob::{BlobIndex, BlobLocation};
use esker::internals::format::compression::CompressionType;
use esker::internals::format::key::{
    InternalKeyComparator, ParsedInternalKey, TRAILER_BYTES, seek_key, trailer, user_key,
};
use esker::internals::format::unique_id::public_unique_id;
use esker::{SequenceNumber, ValueType};
use std::borrow::Cow;
use std::fmt::{Display, Write};

/// Upper-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        write!(text, "{byte:02X}").expect("a write to a string cannot fail");
    }
    text
}

/// The bytes of the hexadecimal text `0x…`. `what` is the name of the text in error messages.
pub(crate) fn parse_hex(text: &str, what: impl Display) -> CommandOutcome<Vec<u8>> {
    let wrong = |why: &str| Failure::new(format_args!("Invalid hex input {what} '{text}': {why}"));
    let digits = text.strip_prefix("0x").ok_or_else(|| wrong("must start with 0x"))?;
    let nibbles: Option<Vec<u32>> = digits.chars().map(|c| c.to_digit(16)).collect();
    let nibbles = nibbles.ok_or_else(|| wrong("not hexadecimal digits"))?;
    if !nibbles.len().is_multiple_of(2) {
        return Err(wrong("an odd number of digits"));
    }
    Ok(nibbles.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect())
}

/// The bytes of a key or a value: `text` itself, or the bytes that its hexadecimal digits encode.
pub(crate) fn parse_bytes<'a>(text: &'a [u8], is_hex: bool, what: &str) -> CommandOutcome<Cow<'a, [u8]>> {
    match is_hex {
        true => parse_hex(&String::from_utf8_lossy(text), what).map(Cow::Owned),
        false => Ok(Cow::Borrowed(text)),
    }
}

/// The internal key that sorts before all versions of `user_key`, a key without a timestamp.
pub(crate) fn before_all_versions(user_key: &[u8], icmp: &InternalKeyComparator) -> Vec<u8> {
    seek_key(&icmp.first_version(user_key), SequenceNumber::MAX)
}

/// Whether `user_key`, without its timestamp, is at or after `end`.
pub(crate) fn is_at_or_behind(user_key: &[u8], end: &[u8], icmp: &InternalKeyComparator) -> bool {
    icmp.without_timestamp().compare_user_keys(icmp.split_timestamp(user_key).0, end).is_ge()
}

/// Appends `'user key' seq:N, type:T`, with the key as raw bytes or hexadecimal digits.
pub(crate) fn append_internal_key(key: &[u8], is_hex: bool, out: &mut Vec<u8>) {
    if key.len() < TRAILER_BYTES {
        out.extend_from_slice(format!("(bad){}", key.escape_ascii()).as_bytes());
        return;
    }
    out.push(b'\'');
    append_bytes(user_key(key), is_hex, out);
    let trailer = trailer(key);
    out.extend_from_slice(format!("' seq:{}, type:{}", trailer >> 8, trailer & 0xFF).as_bytes());
}

/// The form in which entries are printed.
#[derive(Clone, Copy)]
pub(crate) struct EntryForm {
    pub(crate) key_hex: bool,
    pub(crate) value_hex: bool,
    /// Whether blob indexes are decoded to text.
    pub(crate) decode_blob_index: bool,
}

/// Appends an entry in the form of `ldb idump` and `sst_dump --command=scan`.
pub(crate) fn append_entry(key: &[u8], value: &[u8], form: EntryForm, out: &mut Vec<u8>) {
    append_internal_key(key, form.key_hex, out);
    out.extend_from_slice(b" => ");
    match form.decode_blob_index.then(|| blob_index_text(key, value, form.value_hex)).flatten() {
        Some(text) => out.extend_from_slice(&text),
        None => append_bytes(value, form.value_hex, out),
    }
    out.push(b'\n');
}

/// The text form of a blob index; `None` for other entries.
fn blob_index_text(key: &[u8], value: &[u8], is_hex: bool) -> Option<Vec<u8>> {
    let parsed = ParsedInternalKey::parse(key).ok()?;
    let index = (parsed.value_type == ValueType::BlobIndex).then(|| BlobIndex::parse(value).ok())??;
    let reference = |at: &BlobLocation| {
        let compression = CompressionType::from_u8(at.compression).map_or("Unknown", |c| c.property_name());
        let (file, offset, size) = (at.file_number, at.offset, at.size);
        format!("[blob ref] file:{file} offset:{offset} size:{size} compression: {compression}").into_bytes()
    };
    let (mut text, expiration) = match index {
        BlobIndex::Blob(at) => (reference(&at), None),
        BlobIndex::BlobTtl { expiration, location } => (reference(&location), Some(expiration)),
        BlobIndex::InlinedTtl { expiration, value } => {
            let mut text = b"[inlined blob] value:".to_vec();
            append_bytes(value, is_hex, &mut text);
            (text, Some(expiration))
        }
    };
    if let Some(expiration) = expiration {
        text.extend_from_slice(format!(" exp:{expiration}").as_bytes());
    }
    Some(text)
}

/// Appends raw bytes, or hexadecimal digits without prefix.
pub(crate) fn append_bytes(bytes: &[u8], is_hex: bool, out: &mut Vec<u8>) {
    if is_hex { out.extend_from_slice(hex(bytes).as_bytes()) } else { out.extend_from_slice(bytes) }
}

/// Appends raw bytes, or `0x…`.
pub(crate) fn append_prefixed(bytes: &[u8], is_hex: bool, out: &mut Vec<u8>) {
    if is_hex {
        out.extend_from_slice(b"0x");
    }
    append_bytes(bytes, is_hex, out);
}

/// A time in Unix seconds as text, in the local zone and in the form of C's `ctime`:
/// `Thu Nov 26 17:04:12 2026`.
pub(crate) fn local_time_text(seconds: u64) -> String {
    const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    /// The term of each month in Sakamoto's formula for the day of the week. January and February
    /// belong to the year before.
    const MONTH_SHIFTS: [i32; 12] = [0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4];
    let t = local_time(seconds);
    let month = (t.month - 1).rem_euclid(12) as usize;
    let year = if t.month < 3 { t.year - 1 } else { t.year };
    let weekday = (year + year / 4 - year / 100 + year / 400 + MONTH_SHIFTS[month] + t.day).rem_euclid(7);
    let (day, month) = (DAYS[weekday as usize], MONTHS[month]);
    format!("{day} {month} {:2} {:02}:{:02}:{:02} {}", t.day, t.hour, t.minute, t.second, t.year)
}

/// A table's unique id in RocksDB's form.
pub(crate) fn public_unique_id_text(internal: [u64; 2]) -> String {
    let halves = public_unique_id(internal).map(|word| hex(&word.to_le_bytes()));
    halves.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_goes_both_ways() {
        assert_eq!(hex(&[0, 0xFF, 0x0A]), "00FF0A");
        assert_eq!(parse_hex("0x00ff0A", "key").unwrap(), [0, 0xFF, 0x0A]);
        for bad in ["00ff", "0x0", "0xzz"] {
            parse_hex(bad, "key").unwrap_err();
        }
    }

    #[test]
    fn times_have_their_day_of_the_week() {
        // Noon, so that the day is the same in most zones.
        for (seconds, day) in
            [(43_200, "Thu Jan  1"), (951_825_600, "Tue Feb 29"), (1_795_694_400, "Thu Nov 26")]
        {
            assert!(local_time_text(seconds).starts_with(day), "{}", local_time_text(seconds));
        }
    }

    #[test]
    fn short_internal_keys_are_marked() {
        let mut out = Vec::new();
        append_internal_key(b"abc", false, &mut out);
        assert_eq!(out, b"(bad)abc");
    }
}
