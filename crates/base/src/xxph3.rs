//! XXPH3: the 64-bit hash of keys in filters.
//!
//! In: a user key or prefix. Out: a u64, which filters on disk are made of. Source: RocksDB
//! `util/xxph3.h`.
//!
//! XXPH3 is a preview of XXH3 that RocksDB froze before XXH3 was released. The two differ for most
//! lengths, so no library offers it. Each class of lengths has its own formula; input words are
//! little-endian, and sums wrap.
//!
//! Invariants
//!  1. The hash never changes: filters in existing files depend on each bit.

const P32_1: u64 = 0x9E37_79B1;
const P32_2: u64 = 0x85EB_CA77;
const P32_3: u64 = 0xC2B2_AE3D;
const P64_1: u64 = 0x9E37_79B1_85EB_CA87;
const P64_2: u64 = 0xC2B2_AE3D_27D4_EB4F;
const P64_3: u64 = 0x1656_67B1_9E37_79F9;
const P64_4: u64 = 0x85EB_CA77_C2B2_AE63;
const P64_5: u64 = 0x27D4_EB2F_1656_67C5;

const SECRET_BYTES: usize = 192;
const STRIPE_BYTES: usize = 64;
const STRIPES_PER_BLOCK: usize = 16;
const BLOCK_BYTES: usize = STRIPE_BYTES * STRIPES_PER_BLOCK;

/// The default secret, the same as that of XXH3.
const SECRET: [u8; SECRET_BYTES] = secret();

const fn secret() -> [u8; SECRET_BYTES] {
    const WORDS: [u128; 12] = [
        0xb8fe_6c39_23a4_4bbe_7c01_812c_f721_ad1c,
        0xded4_6de9_8390_97db_7240_a4a4_b7b3_671f,
        0xcb79_e64e_ccc0_e578_825a_d07d_ccff_7221,
        0xb808_4674_f743_248e_e035_90e6_813a_264c,
        0x3c28_52bb_91c3_00cb_88d0_658b_1b53_2ea3,
        0x7164_4897_a20d_f94e_3819_ef46_a9de_acd8,
        0xa8fa_763f_e39c_343f_f9dc_bbc7_c70b_4f1d,
        0x8a51_e04b_cdb4_5931_c89f_7ec9_d978_7364,
        0xeac5_ac83_34d3_ebc3_c581_a0ff_fa13_63eb,
        0x170d_dd51_b7f0_da49_d316_5526_29d4_689e,
        0x2b16_be58_7d47_a1fc_8ff8_b8d1_7ad0_31ce,
        0x45cb_3a8f_9516_0428_afd7_fbca_bb4b_407e,
    ];
    let mut out = [0; SECRET_BYTES];
    let mut i = 0;
    while i < SECRET_BYTES {
        out[i] = (WORDS[i / 16] >> (120 - 8 * (i % 16))) as u8;
        i += 1;
    }
    out
}

/// The hash that filters use: seed 0.
#[inline]
pub fn hash64(bytes: &[u8]) -> u64 {
    hash64_with_seed(bytes, 0)
}

/// The hash with a seed. Only seed 0 is on disk.
#[inline]
pub fn hash64_with_seed(bytes: &[u8], seed: u64) -> u64 {
    match bytes.len() {
        0..=16 => hash_to_16(bytes, seed),
        17..=128 => hash_17_to_128(bytes, seed),
        129..=240 => hash_129_to_240(bytes, seed),
        _ => hash_long(bytes, seed),
    }
}

#[inline(always)]
fn word32(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32::from_le_bytes(*bytes[at..].first_chunk().expect("callers stay within the length class")))
}

#[inline(always)]
fn word64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("callers stay within the length class"))
}

#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[inline(always)]
fn avalanche(mut h: u64) -> u64 {
    h ^= h >> 37;
    h = h.wrapping_mul(P64_3);
    h ^ (h >> 32)
}

/// Mixes 16 bytes of input at `at` with 16 bytes of the secret at `secret_at`.
#[inline(always)]
fn mix(bytes: &[u8], at: usize, secret_at: usize, seed: u64) -> u64 {
    fold(
        word64(bytes, at) ^ word64(&SECRET, secret_at).wrapping_add(seed),
        word64(bytes, at + 8) ^ word64(&SECRET, secret_at + 8).wrapping_sub(seed),
    )
}

#[inline(always)]
fn hash_to_16(bytes: &[u8], seed: u64) -> u64 {
    let n = bytes.len();
    if n > 8 {
        let low = word64(bytes, 0) ^ word64(&SECRET, 0).wrapping_add(seed);
        let high = word64(bytes, n - 8) ^ word64(&SECRET, 8).wrapping_sub(seed);
        avalanche((n as u64).wrapping_add(low).wrapping_add(high).wrapping_add(fold(low, high)))
    } else if n >= 4 {
        let value = word32(bytes, 0) | word32(bytes, n - 4) << 32;
        let keyed = value ^ word64(&SECRET, 0).wrapping_add(seed);
        let mixed = (n as u64).wrapping_add((keyed ^ (keyed >> 51)).wrapping_mul(P32_1));
        avalanche((mixed ^ (mixed >> 47)).wrapping_mul(P64_2))
    } else if n > 0 {
        let combined = u32::from(bytes[0])
            | u32::from(bytes[n / 2]) << 8
            | u32::from(bytes[n - 1]) << 16
            | (n as u32) << 24;
        avalanche((u64::from(combined) ^ word32(&SECRET, 0).wrapping_add(seed)).wrapping_mul(P64_1))
    } else {
        // As in RocksDB, the hash of the empty key is not avalanched.
        fold(seed.wrapping_add(word64(&SECRET, 0)), P64_2)
    }
}

#[inline(always)]
fn hash_17_to_128(bytes: &[u8], seed: u64) -> u64 {
    let n = bytes.len();
    let mut acc = (n as u64).wrapping_mul(P64_1);
    // Takes 16 bytes from each end per step, until the steps meet in the middle.
    for pair in 0..=(n - 1) / 32 {
        let front = mix(bytes, 16 * pair, 32 * pair, seed);
        let back = mix(bytes, n - 16 * (pair + 1), 32 * pair + 16, seed);
        acc = acc.wrapping_add(front).wrapping_add(back);
    }
    avalanche(acc)
}

fn hash_129_to_240(bytes: &[u8], seed: u64) -> u64 {
    let n = bytes.len();
    let mut acc = (n as u64).wrapping_mul(P64_1);
    for i in 0..8 {
        acc = acc.wrapping_add(mix(bytes, 16 * i, 16 * i, seed));
    }
    acc = avalanche(acc);
    for i in 8..n / 16 {
        acc = acc.wrapping_add(mix(bytes, 16 * i, 16 * (i - 8) + 3, seed));
    }
    avalanche(acc.wrapping_add(mix(bytes, n - 16, 119, seed)))
}

#[inline(never)]
fn hash_long(bytes: &[u8], seed: u64) -> u64 {
    if seed == 0 {
        hash_long_with_secret(bytes, &SECRET)
    } else {
        hash_long_with_secret(bytes, &derived(seed))
    }
}

fn derived(seed: u64) -> [u8; SECRET_BYTES] {
    let mut out = SECRET;
    let (words, _) = out.as_chunks_mut::<8>();
    for (i, word) in words.iter_mut().enumerate() {
        let value = u64::from_le_bytes(*word);
        let value = if i % 2 == 0 { value.wrapping_add(seed) } else { value.wrapping_sub(seed) };
        *word = value.to_le_bytes();
    }
    out
}

fn hash_long_with_secret(bytes: &[u8], secret: &[u8; SECRET_BYTES]) -> u64 {
    let n = bytes.len();
    let mut acc = [P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1];
    let (blocks, rest) = bytes.as_chunks::<BLOCK_BYTES>();
    for block in blocks {
        let (stripes, _) = block.as_chunks::<STRIPE_BYTES>();
        for (i, stripe) in stripes.iter().enumerate() {
            accumulate(&mut acc, stripe, secret, 8 * i);
        }
        scramble(&mut acc, secret);
    }
    let (stripes, tail) = rest.as_chunks::<STRIPE_BYTES>();
    for (i, stripe) in stripes.iter().enumerate() {
        accumulate(&mut acc, stripe, secret, 8 * i);
    }
    if !tail.is_empty() {
        let last = bytes.last_chunk::<STRIPE_BYTES>().expect("the input is longer than 240 bytes");
        accumulate(&mut acc, last, secret, 121);
    }
    let mut h = (n as u64).wrapping_mul(P64_1);
    for i in 0..4 {
        h = h.wrapping_add(fold(
            acc[2 * i] ^ word64(secret, 11 + 16 * i),
            acc[2 * i + 1] ^ word64(secret, 19 + 16 * i),
        ));
    }
    avalanche(h)
}

#[inline(always)]
fn accumulate(
    acc: &mut [u64; 8],
    stripe: &[u8; STRIPE_BYTES],
    secret: &[u8; SECRET_BYTES],
    secret_at: usize,
) {
    let secret: &[u8; STRIPE_BYTES] =
        secret[secret_at..].first_chunk().expect("the last stripe starts at 128 at most");
    for (lane, acc) in acc.iter_mut().enumerate() {
        let data = word64(stripe, 8 * lane);
        let keyed = data ^ word64(secret, 8 * lane);
        *acc = acc.wrapping_add(data).wrapping_add((keyed & 0xFFFF_FFFF) * (keyed >> 32));
    }
}

#[inline(always)]
fn scramble(acc: &mut [u64; 8], secret: &[u8; SECRET_BYTES]) {
    for (lane, acc) in acc.iter_mut().enumerate() {
        *acc ^= *acc >> 47;
        *acc ^= word64(secret, SECRET_BYTES - STRIPE_BYTES + 8 * lane);
        *acc = acc.wrapping_mul(P32_1);
    }
}

#[cfg(test)]
mod tests;
