use super::*;

fn sample(format_version: u32) -> (Footer, u64) {
    let guard = BlockGuard {
        checksum_type: ChecksumType::Xxh3,
        base_context: if format_version >= 6 { 0x17a6_86ff } else { 0 },
    };
    let footer_offset = 10_000;
    let index = (format_version < 6).then_some(BlockHandle::new(9000, 500));
    (Footer { format_version, guard, meta_index: BlockHandle::new(9895, 100), index }, footer_offset)
}

#[test]
fn footers_come_back() {
    for version in 1..=7 {
        let (footer, offset) = sample(version);
        let bytes = footer.encode(offset);
        assert_eq!(bytes.len(), FOOTER_BYTES);
        let size = offset + FOOTER_BYTES as u64;
        assert_eq!(Footer::parse(&bytes, size).unwrap(), footer);
        let longer = [b"something before".as_slice(), &bytes].concat();
        assert_eq!(Footer::parse(&longer, size).unwrap(), footer);
    }
}

#[test]
fn damage_is_noticed() {
    for version in [5, 6] {
        let (footer, offset) = sample(version);
        let size = offset + FOOTER_BYTES as u64;
        let good = footer.encode(offset);
        for i in 0..good.len() {
            let mut bytes = good.clone();
            bytes[i] ^= 0x41;
            match Footer::parse(&bytes, size) {
                // Before version 6 nothing guards the footer: what it says must at least lie within the file.
                Ok(f) if version == 5 => assert!(f.meta_index.end().unwrap() <= size),
                Ok(_) => panic!("byte {i} changed in silence"),
                Err(_) => {}
            }
        }
        for n in 0..good.len() {
            assert!(Footer::parse(&good[good.len() - n..], n as u64).is_err());
        }
        assert!(version == 5 || Footer::parse(&good, size + 1).is_err(), "moved footers do not pass");
    }
}

#[test]
fn what_is_not_ours_is_named() {
    let (footer, offset) = sample(5);
    let mut bytes = footer.encode(offset);
    bytes[41] = 8;
    let e = Footer::parse(&bytes, 10_053).unwrap_err();
    assert!(e.message().contains("format_version 8"), "{e}");
    bytes[45..].copy_from_slice(&0x8242_2296_63BF_9564_u64.to_le_bytes());
    assert!(Footer::parse(&bytes, 10_053).unwrap_err().message().contains("plain table"));
    assert!(Footer::parse(b"", 0).unwrap_err().is_corruption());
    assert!(Footer::parse(&[0; 53], 53).unwrap_err().is_corruption());
}
