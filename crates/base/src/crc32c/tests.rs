use super::*;

#[test]
fn vectors_of_rocksdb() {
    for (bytes, crc, masked) in [
        (&b""[..], 0, 0xa282_ead8),
        (b"a", 0xc1d0_4330, 0x28e4_6e78),
        (b"abc", 0x364b_3fb7, 0x21f1_576e),
        (b"key0001", 0xaf03_56a7, 0x4fd2_48de),
        (b"hello world", 0xc994_65aa, 0x6dd8_7e00),
        (b"\xff\xfe\xfd\xfc\xfb", 0x33d5_6b9d, 0x79bd_5282),
    ] {
        assert_eq!(value(bytes), crc, "{bytes:?}");
        assert_eq!(mask(crc), masked, "{bytes:?}");
        assert_eq!(unmask(masked), crc, "{bytes:?}");
    }
}

#[test]
fn vectors_of_rfc_3720() {
    assert_eq!(value(&[0; 32]), 0x8a91_36aa);
    assert_eq!(value(&[0xff; 32]), 0x62a8_ab43);
    let ascending: Vec<u8> = (0..32).collect();
    assert_eq!(value(&ascending), 0x46dd_794e);
}

#[test]
fn extending_equals_hashing_the_whole() {
    let bytes: Vec<u8> = (0..5000u32).map(|i| ((i * 31) >> 3) as u8).collect();
    for cut in [0, 1, 7, 8, 63, 1024, 4999, 5000] {
        assert_eq!(extend(value(&bytes[..cut]), &bytes[cut..]), value(&bytes), "cut at {cut}");
    }
}
