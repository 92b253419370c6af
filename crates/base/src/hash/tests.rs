use super::*;
use crate::crc32c;

#[test]
fn hash32_vectors_of_rocksdb() {
    for (bytes, bloom, index) in [
        (&b""[..], 0xbc9f_1d34, 0x0000_018d),
        (b"a", 0x286e_9db0, 0x5c84_73b1),
        (b"abc", 0x855d_012f, 0x1d9a_a392),
        (b"key0001", 0xb904_1be6, 0xf818_bebf),
        (b"hello world", 0x008d_fddb, 0x6374_0019),
        (b"\xff\xfe\xfd\xfc\xfb", 0x2929_a640, 0x1082_33d1),
    ] {
        assert_eq!(hash32(bytes, BLOOM_SEED), bloom, "{bytes:?}");
        assert_eq!(hash32(bytes, BLOCK_HASH_INDEX_SEED), index, "{bytes:?}");
    }
}

#[test]
fn block_checksum_vectors() {
    for (contents, last, crc, x32, x64, x3) in [
        (&b""[..], b'a', 0x28e4_6e78, 0x550d_7456, 0xa98c_6e5b, 0xf912_61fb),
        (b"abc", 0, 0xbf1b_5400, 0x2c20_20e2, 0x9fa8_5bff, 0x892f_3950),
        (b"hello world", 1, 0x55d5_bdc5, 0xdc8b_119e, 0x93e4_bf87u32, 0x2b76_1b52),
    ] {
        let whole = [contents, &[last]].concat();
        assert_eq!(crc32c::mask(crc32c::value(&whole)), crc);
        assert_eq!(xxh32(&whole, 0), x32);
        assert_eq!(xxh64(&whole, 0) as u32, x64);
        assert_eq!(block_checksum_xxh3(contents, last), x3);
    }
}

#[test]
fn unique_id_hash_vector() {
    // Worked example of a table's unique id: db identity, session 1IX334BC65LO07IUIZCW, file number
    // 9.
    let (a, b) = ("1IX334BC", "65LO07IUIZCW");
    let base36 = |s: &str| u64::from_str_radix(s, 36).unwrap();
    let (a, b) = (base36(a), base36(b));
    let (upper, lower) = (a >> 2, (b & ((1 << 62) - 1)) | (a << 62));
    let h = xxh3_128(b"50e94cd6-a3cd-4257-9649-20617c98006b", upper);
    let id = [lower, (h >> 64) as u64 ^ 9];
    let bytes = [id[0].to_le_bytes(), id[1].to_le_bytes()].concat();
    assert_eq!(bytes, 0x8059_036d_1073_3e0b_9753_e370_c1e1_b3ac_u128.to_be_bytes());
}
