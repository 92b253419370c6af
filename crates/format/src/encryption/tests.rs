use super::*;

fn slot() -> HeaderSlot {
    HeaderSlot { kind: EncryptedKind::Log, key_id: [1; 16], nonce: [2; 12], wrapped: [3; 48] }
}

#[test]
fn a_header_has_its_slot_twice() {
    let header = encode_header(&slot());
    assert_eq!(header.len(), PAGE_BYTES);
    assert!(is_encrypted(&header));
    assert_eq!(decode_header(&header).unwrap(), [Some(slot()), Some(slot())]);
    let second = header[PAGE_BYTES / 2..].to_vec();
    assert_eq!(second[..SLOT_BYTES], header[..SLOT_BYTES]);
}

/// Every bit of a slot counts: with one bit changed the slot is damaged, and the other one is left.
#[test]
fn a_changed_bit_damages_one_slot() {
    let header = encode_header(&slot());
    for place in 0..SLOT_BYTES {
        for bit in 0..8 {
            let mut damaged = header.clone();
            damaged[place] ^= 1 << bit;
            assert!(is_encrypted(&damaged));
            assert_eq!(decode_header(&damaged).unwrap(), [None, Some(slot())], "byte {place}, bit {bit}");
        }
    }
}

#[test]
fn later_releases_are_refused_by_name() {
    let mut bytes = slot().encode();
    bytes[8] = 2;
    let checksum = crc32c::mask(crc32c::value(&bytes[..CHECKSUM_AT])).to_le_bytes();
    bytes[CHECKSUM_AT..].copy_from_slice(&checksum);
    let e = HeaderSlot::decode(&bytes).unwrap_err();
    assert_eq!(e.to_string(), "Not implemented: encrypted file of version 2, cipher 1, kind 1");
}

#[test]
fn heads_come_back() {
    for (len, offset, is_end) in [(0, 0, true), (1, 7, false), (4064, MOST_OFFSET, true), (0, 4096, true)] {
        let head = FrameHead { is_end, len, offset, salt: [9, 8, 7, 6, 5, 4] };
        assert_eq!(FrameHead::decode(&head.encode()), Some(head));
        assert_ne!(head.encode()[0], 0);
    }
}

/// A frame without content and the next frame lie at one offset; their nonces differ.
#[test]
fn an_empty_frame_has_a_nonce_of_its_own() {
    let head = |len| FrameHead { is_end: true, len, offset: 5, salt: [0; 6] }.encode();
    assert_ne!(head(0)[4..], head(1)[4..]);
}

#[test]
fn impossible_heads_are_refused() {
    let head = FrameHead { is_end: false, len: 10, offset: 3, salt: [0; 6] }.encode();
    let changed = |place: usize, value: u8| {
        let mut bytes = head;
        bytes[place] = value;
        FrameHead::decode(&bytes)
    };
    assert_eq!(changed(0, 0), None);
    assert_eq!(changed(1, 2), None);
    assert_eq!(changed(3, 0xFF), None);
    assert_eq!(changed(2, 0), None);
    assert_eq!(changed(9, 0x80), None);
    assert_eq!(FrameHead::decode(&head[..15]), None);
}
