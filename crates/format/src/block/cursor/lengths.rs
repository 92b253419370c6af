//! The lengths before an entry, where they are not three bytes.

use esker_base::coding::Decoder;

/// The place behind the varint at `at`, if it ends within the bytes.
#[inline]
pub(super) fn skip_varint(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = bytes.get(at..)?;
    if let Some(word) = rest.first_chunk::<8>() {
        // The highest bit is clear in the last byte only.
        let ends = !u64::from_le_bytes(*word) & 0x8080_8080_8080_8080;
        if ends != 0 {
            return Some(at + (ends.trailing_zeros() / 8) as usize + 1);
        }
    }
    let length = rest.iter().take(10).position(|b| *b < 0x80)?;
    Some(at + length + 1)
}

/// The three lengths before an entry, when one of them takes more than a byte.
pub(super) fn long_lengths(rest: &[u8]) -> Option<(u32, u32, u32, u32)> {
    let mut input = Decoder::new(rest);
    let (shared, non_shared, value_len) =
        (input.varint32().ok()?, input.varint32().ok()?, input.varint32().ok()?);
    Some((shared, non_shared, value_len, u32::try_from(rest.len() - input.rest().len()).ok()?))
}
