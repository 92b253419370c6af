use super::*;

#[test]
fn checksums_equal_rocksdbs() {
    // `formats.md` 7.3: values made by RocksDB itself.
    let cases: [(&[u8], [u32; 4]); 3] = [
        (b"a", [0x28e4_6e78, 0x550d_7456, 0xa98c_6e5b, 0xf912_61fb]),
        (b"abc\0", [0xbf1b_5400, 0x2c20_20e2, 0x9fa8_5bff, 0x892f_3950]),
        (b"hello world\x01", [0x55d5_bdc5, 0xdc8b_119e, 0x93e4_bf87, 0x2b76_1b52]),
    ];
    for (bytes, want) in cases {
        let types = [ChecksumType::Crc32c, ChecksumType::XxHash, ChecksumType::XxHash64, ChecksumType::Xxh3];
        assert_eq!(types.map(|t| t.checksum(bytes)), want);
        assert_eq!(ChecksumType::NoChecksum.checksum(bytes), 0);
    }
    assert_eq!(ChecksumType::Xxh3.checksum(b""), 0);
}

#[test]
fn context_is_added() {
    assert_eq!(context_modifier(0x17a6_86ff, 7399), 0x17a6_9a18);
    assert_eq!(0x6ba5_213d_u32.wrapping_add(0x17a6_9a18).to_le_bytes(), [0x55, 0xbb, 0x4b, 0x83]);
    assert_eq!(context_modifier(0, 7399), 0);
    assert_eq!(context_modifier(1, 5 << 32 | 3), 1 ^ 8);
}

#[test]
fn a_changed_byte_or_place_is_noticed() {
    let guard = BlockGuard { checksum_type: ChecksumType::Xxh3, base_context: 77 };
    let mut block = b"contents".to_vec();
    guard.append_trailer(&mut block, 0, 4, 1000);
    assert_eq!(guard.check(&block, 1000).unwrap(), 4);
    assert!(guard.check(&block, 1001).unwrap_err().is_corruption());
    for i in 0..block.len() {
        block[i] ^= 0x10;
        assert!(guard.check(&block, 1000).unwrap_err().is_corruption(), "byte {i}");
        block[i] ^= 0x10;
    }
    assert!(guard.check(&block[..4], 1000).is_err());
}
