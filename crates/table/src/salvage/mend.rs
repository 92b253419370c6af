//! Finds the one flipped bit that makes a block's checksum wrong.
//!
//! In: a stored block that fails its checksum. Out: the same block with one bit flipped back, if
//! that makes the checksum right.
//!
//! A checksum of 32 bits has one right value in 2^32, and a block of 4 KiB has 2^15 bits to try. So
//! a block of 4 KiB with other damage is taken for mended once in 2^17 times at most, and one of 32
//! KiB, the longest that is mended, once in 2^14. The caller also checks the entries of a mended
//! block.

use esker_format::trailer::{BlockGuard, ChecksumType};

/// The bytes that one table's mending may pass through a checksum function.
pub(super) const MOST_HASHED_BYTES: u64 = 16 << 30;

/// The longest block that is mended: 64 KiB take 32 GiB of hashing, so longer ones are left alone.
const LONGEST: usize = 32 << 10;

/// Flips back the bit of `stored` (contents and trailer, at `offset` in the file) whose flip makes
/// the checksum wrong. Returns whether there is one; otherwise `stored` is unchanged. `budget` is
/// the number of bytes that may still be hashed: the cost is eight times the square of the length.
pub(super) fn mend(guard: &BlockGuard, stored: &mut [u8], offset: u64, budget: &mut u64) -> bool {
    let Some((checked, sum)) = stored.split_last_chunk_mut::<4>() else { return false };
    if guard.checksum_type == ChecksumType::NoChecksum || checked.len() > LONGEST {
        return false;
    }
    let expected = u32::from_le_bytes(*sum);
    let computed = guard.stored_checksum(checked, offset);
    if (computed ^ expected).is_power_of_two() {
        *sum = computed.to_le_bytes();
        return true;
    }
    let cost = 8 * (checked.len() as u64).pow(2);
    if cost > *budget {
        return false;
    }
    *budget -= cost;
    for at in 0..checked.len() {
        for bit in 0..8 {
            checked[at] ^= 1 << bit;
            if guard.stored_checksum(checked, offset) == expected {
                return true;
            }
            checked[at] ^= 1 << bit;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_one_flipped_bit_is_found_and_two_are_not() {
        for checksum_type in
            [ChecksumType::Crc32c, ChecksumType::XxHash, ChecksumType::XxHash64, ChecksumType::Xxh3]
        {
            let guard = BlockGuard { checksum_type, base_context: 77 };
            let mut whole: Vec<u8> = (0..200).map(|n| (n * 37 % 251) as u8).collect();
            guard.append_trailer(&mut whole, 0, 0, 4096);
            let mut budget = u64::MAX;
            for bit in 0..whole.len() * 8 {
                let mut damaged = whole.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(mend(&guard, &mut damaged, 4096, &mut budget), "{checksum_type:?}, bit {bit}");
                assert_eq!(damaged, whole, "{checksum_type:?}, bit {bit}");
            }
            let mut damaged = whole.clone();
            damaged[3] ^= 1;
            damaged[90] ^= 64;
            let before = damaged.clone();
            assert!(!mend(&guard, &mut damaged, 4096, &mut budget));
            assert_eq!(damaged, before);
            damaged[3] ^= 1;
            assert!(!mend(&guard, &mut damaged, 4096, &mut 0), "nothing may be hashed");
        }
    }
}
