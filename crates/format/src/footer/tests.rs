use super::*;
use esker_base::ErrorKind;

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
    for version in 1..=8 {
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
    for version in [5, 6, 8] {
        let (footer, offset) = sample(version);
        let size = offset + FOOTER_BYTES as u64;
        let good = footer.encode(offset);
        for i in 0..good.len() {
            let mut bytes = good.clone();
            bytes[i] ^= 0x41;
            match Footer::parse(&bytes, size) {
                // Before version 6 no checksum covers the footer: its handles must at least lie
                // within the file.
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
fn a_meta_index_of_4_gib_is_refused_in_every_version() {
    let size = 1 << 40;
    for format_version in 1..=7 {
        let offset = size - FOOTER_BYTES as u64;
        let bytes = u64::from(u32::MAX);
        let mut footer = sample(format_version).0;
        footer.meta_index = BlockHandle::new(offset - TRAILER_BYTES as u64 - bytes, bytes);
        assert!(Footer::parse(&footer.encode(offset), size).unwrap_err().is_corruption());
    }
}

#[test]
fn a_flipped_bit_does_not_pass_for_a_newer_rocksdb() {
    for version in 1..=8 {
        let (footer, offset) = sample(version);
        let good = footer.encode(offset);
        for bit in 0..good.len() * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            match Footer::parse(&bytes, offset + FOOTER_BYTES as u64) {
                Err(e) => assert!(e.is_corruption(), "version {version}, bit {bit}: {e}"),
                // No checksum covers earlier footers. A later footer that is taken for an earlier
                // one begins with empty blocks, which no checksum fits.
                Ok(f) => {
                    assert!(version < 6 || f.format_version < 6 && f.meta_index.size == 0, "bit {bit}: {f:?}")
                }
            }
        }
    }
}

#[test]
fn foreign_footers_are_refused_by_name() {
    let (footer, offset) = sample(8);
    let size = offset + FOOTER_BYTES as u64;
    let newer = Footer { format_version: 9, ..footer }.encode(offset);
    let e = Footer::parse(&newer, size).unwrap_err();
    assert!(e.kind() == ErrorKind::NotSupported && e.message().contains("format_version 9"), "{e}");

    let mut feature: [u8; FOOTER_BYTES] = footer.encode(offset).try_into().unwrap();
    feature[40] = 1;
    feature[5..9].fill(0);
    let sum = footer_checksum(footer.guard, &feature, offset);
    feature[5..9].copy_from_slice(&sum.to_le_bytes());
    let e = Footer::parse(&feature, size).unwrap_err();
    assert!(e.kind() == ErrorKind::NotSupported && e.message().contains("unknown feature"), "{e}");

    let mut older = sample(5).0.encode(offset);
    older[41] = 9;
    let e = Footer::parse(&older, size).unwrap_err();
    assert!(e.is_corruption() && e.message().contains("format_version 9"), "{e}");
    older[45..].copy_from_slice(&0x8242_2296_63BF_9564_u64.to_le_bytes());
    assert!(Footer::parse(&older, size).unwrap_err().message().contains("plain table"));
    assert!(Footer::parse(b"", 0).unwrap_err().is_corruption());
    assert!(Footer::parse(&[0; 53], 53).unwrap_err().is_corruption());
}

/// A footer of version 8 with this field in place of the size of its meta index.
fn with_place_of_meta_index(field: u32, offset: u64) -> [u8; FOOTER_BYTES] {
    let guard = sample(8).0.guard;
    let mut bytes = [0; FOOTER_BYTES];
    bytes[0] = 4;
    bytes[1..5].copy_from_slice(&[0x3e, 0, 0x7a, 0]);
    bytes[9..13].copy_from_slice(&guard.base_context.to_le_bytes());
    bytes[13..17].copy_from_slice(&field.to_le_bytes());
    bytes[41..45].copy_from_slice(&8u32.to_le_bytes());
    bytes[45..].copy_from_slice(&MAGIC.to_le_bytes());
    let sum = guard.stored_checksum(&bytes, offset);
    bytes[5..9].copy_from_slice(&sum.to_le_bytes());
    bytes
}

#[test]
fn the_meta_index_of_version_8_lies_behind_a_gap() {
    let offset = 70_000;
    let size = offset + FOOTER_BYTES as u64;
    for (gap, meta_index_size) in [(0, 100), (7, 100), (0xFFFF, 100), (0, 0xFFFF), (300, 0)] {
        let bytes = with_place_of_meta_index(gap << 16 | meta_index_size, offset);
        let footer = Footer::parse(&bytes, size).unwrap();
        let end = offset - u64::from(gap);
        let want = BlockHandle::new(end - 5 - u64::from(meta_index_size), u64::from(meta_index_size));
        assert_eq!((footer.meta_index, footer.index), (want, None));
        assert_eq!(footer.encode(offset), bytes);
    }
    for (offset, gap, meta_index_size) in [(70_000, 0xFFFF, 0xFFFF), (200, 196, 0), (200, 96, 100)] {
        let bytes = with_place_of_meta_index(gap << 16 | meta_index_size, offset);
        let error = Footer::parse(&bytes, offset + FOOTER_BYTES as u64).unwrap_err();
        assert!(error.is_corruption() && error.message().contains("does not fit"), "{error}");
    }
}
