use super::*;

fn pattern(n: usize) -> Vec<u8> {
    (0..n).map(|i| (7 * i + 3) as u8).collect()
}

#[test]
fn vectors_of_rocksdb() {
    for (n, expected) in [
        (0, 0x5342_c301_0fe1_dd04u64),
        (1, 0x81b7_8b21_c2ce_4f18),
        (2, 0x6d7e_ec54_f875_4ce6),
        (3, 0x6731_a716_813e_e5f1),
        (4, 0x3a5a_fd96_7aca_f5c3),
        (5, 0x4e6e_f0d0_cfda_a400),
        (7, 0xf418_2f38_1b74_40c2),
        (8, 0xbcb5_6b6f_8d4b_12da),
        (9, 0x0378_7b4e_ec57_bf4b),
        (12, 0x6c7f_a325_f398_b62b),
        (16, 0x8172_0cc0_702e_dd73),
        (17, 0x0b51_5520_f462_e96f),
        (24, 0xe25e_5ab7_12f0_c95d),
        (32, 0x48f0_3961_87b5_6dd5),
        (33, 0xd020_587a_3c72_b988),
        (64, 0xc71b_2c5a_712e_7f61),
        (65, 0xd401_43de_1bea_dd46),
        (96, 0x0d71_e54f_4197_45c3),
        (97, 0x19e9_c187_1ecd_39dc),
        (128, 0x8ea7_6d83_8ce7_563f),
        (129, 0x3992_d120_c8c4_677a),
        (160, 0x7609_8c67_d5e9_30f7),
        (240, 0xdf41_bc5f_ea3a_61e8),
        (241, 0x91d1_0f06_82af_4ac3),
        (256, 0x4d37_daab_db54_3458),
        (512, 0xf3bb_5147_9ec5_30a2),
        (1024, 0x7d54_b94e_0436_75ba),
        (1025, 0x90ac_daaa_aca6_75b0),
        (1088, 0x419a_510e_ca48_a830),
        (2049, 0x25ec_a92a_1585_cb40),
    ] {
        assert_eq!(hash64(&pattern(n)), expected, "length {n}");
    }
    for (bytes, expected) in [
        (&b"a"[..], 0x88d8_68bf_6076_81c7u64),
        (b"abc", 0xd39e_eb71_bb53_42e8),
        (b"key0001", 0x146c_8958_38c2_aa31),
        (b"hello world", 0xe5f7_b821_56a0_7a14),
        (b"\xff\xfe\xfd\xfc\xfb", 0xfbde_e474_1170_081a),
    ] {
        assert_eq!(hash64(bytes), expected, "{bytes:?}");
    }
}

#[test]
fn every_length_hashes_and_every_byte_counts() {
    for n in (1..=300).chain([1023, 1024, 1087, 1089, 2048, 5000]) {
        let mut bytes = pattern(n);
        let whole = hash64(&bytes);
        assert_ne!(whole, hash64_with_seed(&bytes, 1), "seed, length {n}");
        for at in [0, n / 3, n / 2, n - 1] {
            bytes[at] ^= 0x10;
            assert_ne!(hash64(&bytes), whole, "length {n}, byte {at}");
            bytes[at] ^= 0x10;
        }
    }
}
