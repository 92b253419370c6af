//! Any bytes as a block with its trailer, under every checksum.

use esker_format::trailer::{BlockGuard, ChecksumType, compression_code};

/// One input.
pub fn run(data: &[u8]) {
    let Some((&[kind, b0, b1, offset], bytes)) = data.split_first_chunk() else { return };
    drop(compression_code(bytes));
    let Ok(checksum_type) = ChecksumType::from_u8(kind % 8) else { return };
    let guard = BlockGuard { checksum_type, base_context: u32::from_le_bytes([b0, b1, 0, 0]) };
    let offset = u64::from(offset) << 29;
    drop(guard.check(bytes, offset));
    let mut block = b"before".to_vec();
    block.extend_from_slice(bytes);
    guard.append_trailer(&mut block, 6, 7, offset);
    assert_eq!(guard.check(&block[6..], offset).unwrap(), 7);
    if checksum_type != ChecksumType::NoChecksum {
        let mut bad = block[6..].to_vec();
        let at = usize::from(b0) % bad.len();
        bad[at] ^= 1 << (b1 % 8);
        assert!(guard.check(&bad, offset).is_err());
    }
}
