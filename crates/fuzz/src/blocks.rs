//! Blocks of tables, changed under right checksums.

use esker_format::footer::Footer;
use std::ops::Range;

/// Bytes of a change; the first one chooses the block.
pub(crate) const CHANGE: usize = 6;
const TRAILER: usize = 5;

/// Where a block lies, without its trailer.
pub(crate) type FuzzBlock = Range<usize>;

fn footer(bytes: &[u8]) -> Footer {
    Footer::parse(&bytes[bytes.len() - 53..], bytes.len() as u64).unwrap()
}

/// Those of a whole table: they follow each other, and each ends where its checksum fits.
pub(crate) fn of(bytes: &[u8]) -> Vec<FuzzBlock> {
    let guard = footer(bytes).guard;
    let mut found = Vec::new();
    let mut start = 0;
    while let Some(end) = (start..bytes.len() - TRAILER)
        .find(|end| guard.check(&bytes[start..end + TRAILER], start as u64).is_ok())
    {
        found.push(start..end);
        start = end + TRAILER;
    }
    found
}

/// Changes a block of a table and puts the checksum right.
pub(crate) fn change(table: &mut [u8], block: &FuzzBlock, change: &[u8; CHANGE]) {
    let &[_, low, high, kind, count, byte] = change;
    let place = block.start + usize::from(u16::from_le_bytes([low, high])) % block.len().max(1);
    let end = (place + usize::from(count % 16)).min(block.end);
    match kind % 4 {
        0 if place < block.end => table[place] ^= byte.max(1),
        1 => table[place..end].fill(byte),
        2 if place < block.end => table[place] = table[place].wrapping_add_signed(byte.cast_signed() % 4),
        // The bytes before `place`, repeated.
        3 => {
            let from = place.saturating_sub(usize::from(byte)).max(block.start);
            let count = (end - place).min(block.end - from);
            table.copy_within(from..from + count, place);
        }
        _ => {}
    }
    let code = table[block.end];
    let mut sealed = table[block.clone()].to_vec();
    footer(table).guard.append_trailer(&mut sealed, 0, code, block.start as u64);
    table[block.start..block.end + TRAILER].copy_from_slice(&sealed);
}
