//! Unique ids of tables, made from the session that wrote them.
//!
//! In: the properties `creating.db.identity`, `creating.session.identity` and
//! `original.file.number`. Out: two u64 that the MANIFEST stores beside the file. Source: RocksDB
//! `table/unique_id.cc`, `db/db_impl/db_impl.cc`.
//!
//! A session id has 13 to 24 base-36 digits (0-9A-Z; 20 are written). Each open makes one from a
//! fresh pair of random words.
//!
//! Page: `docs/format/properties.md`.

use crate::properties::TableProperties;
use esker_base::hash::xxh3_128;

const LOWER_DIGITS: usize = 12;
const LOW_62: u64 = (1 << 62) - 1;

/// A session id from two random words, 20 digits. `lower` must not be 0.
pub fn session_id(upper: u64, lower: u64) -> String {
    let mut digits = base36((upper << 2) | (lower >> 62), 8);
    digits.push_str(&base36(lower & LOW_62, LOWER_DIGITS));
    digits
}

/// The last `count` base-36 digits of `v`.
fn base36(mut v: u64, count: usize) -> String {
    let mut digits = vec!['0'; count];
    for digit in digits.iter_mut().rev() {
        *digit = char::from_digit(u32::try_from(v % 36).unwrap_or(0), 36).unwrap_or('0').to_ascii_uppercase();
        v /= 36;
    }
    digits.into_iter().collect()
}

/// The number that base-36 digits (upper case) stand for.
fn from_base36(digits: &str) -> Option<u64> {
    let mut v = 0u64;
    for c in digits.chars() {
        let digit = c.to_digit(36).filter(|_| !c.is_ascii_lowercase())?;
        v = v.wrapping_mul(36).wrapping_add(u64::from(digit));
    }
    Some(v)
}

/// The two words of a session id, if it is one.
fn parse_session_id(id: &str) -> Option<(u64, u64)> {
    if !id.is_ascii() || !(LOWER_DIGITS + 1..=24).contains(&id.len()) {
        return None;
    }
    let (a, b) = id.split_at_checked(id.len() - LOWER_DIGITS)?;
    let (a, b) = (from_base36(a)?, from_base36(b)?);
    Some((a >> 2, (b & LOW_62) | (a << 62)))
}

/// The unique id of the table `file_number` that this session of this database wrote. `None` if one
/// of the three is missing or malformed.
pub fn unique_id(db_id: &str, db_session_id: &str, file_number: u64) -> Option<[u64; 2]> {
    if db_id.is_empty() || file_number == 0 {
        return None;
    }
    let (id, _) = extended(db_id, db_session_id, file_number)?;
    Some(id)
}

/// The internal unique id, and the word that RocksDB's extended form has besides.
fn extended(db_id: &str, db_session_id: &str, file_number: u64) -> Option<([u64; 2], u64)> {
    let (upper, lower) = parse_session_id(db_session_id)?;
    let hash = xxh3_128(db_id.as_bytes(), upper);
    let high = u64::try_from(hash >> 64).unwrap_or(0);
    let low = u64::try_from(hash & u128::from(u64::MAX)).unwrap_or(0);
    Some(([lower, high ^ file_number], low))
}

impl TableProperties {
    /// A stable id of 128 bits that no other table has: RocksDB's
    /// `GetUniqueIdFromTableProperties`. `None` if the table does not name the database and the
    /// session that wrote it, as before RocksDB 6.24.
    ///
    /// ```
    /// use esker_format::properties::TableProperties;
    /// let properties = TableProperties {
    ///     db_id: "50e94cd6-a3cd-4257-9649-20617c98006b".to_owned(),
    ///     db_session_id: "1IX334BC65LO07IUIZCW".to_owned(),
    ///     orig_file_number: 9,
    ///     ..TableProperties::absent()
    /// };
    /// let extended = properties.extended_unique_id().expect("it names its session");
    /// assert_eq!(properties.unique_id().expect("it names its session"), extended[..16]);
    /// assert_eq!(TableProperties::absent().unique_id(), None);
    /// ```
    pub fn unique_id(&self) -> Option<[u8; 16]> {
        self.extended_unique_id()?.first_chunk().copied()
    }

    /// [`unique_id`](Self::unique_id) with 64 bits more, for tables of a vast fleet in one store:
    /// RocksDB's `GetExtendedUniqueIdFromTableProperties`.
    pub fn extended_unique_id(&self) -> Option<[u8; 24]> {
        if self.db_id.is_empty() || self.orig_file_number == 0 {
            return None;
        }
        let (internal, more) = extended(&self.db_id, &self.db_session_id, self.orig_file_number)?;
        let [low, high] = public_unique_id(internal);
        let words = [low, high, more.wrapping_add(low).wrapping_add(high)];
        let mut bytes = [0; 24];
        bytes.chunks_exact_mut(8).zip(words).for_each(|(to, word)| to.copy_from_slice(&word.to_le_bytes()));
        Some(bytes)
    }
}

/// A unique id, or its beginning, as hexadecimal digits with a `-` between words of 64 bits:
/// RocksDB's `UniqueIdToHumanString`.
///
/// ```
/// use esker_format::unique_id::unique_id_to_human_string;
/// assert_eq!(unique_id_to_human_string(&[0x64; 10]), "6464646464646464-6464");
/// ```
pub fn unique_id_to_human_string(id: &[u8]) -> String {
    let words = id.chunks(8).map(|word| word.iter().map(|byte| format!("{byte:02X}")).collect::<String>());
    words.collect::<Vec<_>>().join("-")
}

/// The public form of an internal unique id, which tools print. It has the same information, with
/// every bit spread over all others.
/// Source: RocksDB `table/unique_id.cc` (`InternalUniqueIdToExternal`), `util/hash.cc`
/// (`BijectiveHash2x64`).
pub fn public_unique_id([low, high]: [u64; 2]) -> [u64; 2] {
    const LOW_OFFSET: u64 = 6_417_269_962_128_484_497;
    const HIGH_OFFSET: u64 = 17_391_078_804_906_429_400;
    mix(low.wrapping_add(LOW_OFFSET), high.wrapping_add(HIGH_OFFSET))
}

/// XXH3's 128-bit hash of 16 bytes, in its form before the format was fixed.
fn mix(low: u64, high: u64) -> [u64; 2] {
    const PRIME_1: u64 = 0x9E37_79B1_85EB_CA87;
    const PRIME_2: u64 = 0xC2B2_AE3D_27D4_EB4F;
    const PRIME_32: u64 = 0x85EB_CA76;
    const FLIP_LOW: u64 = 0x5997_3F00_3336_2349;
    const FLIP_HIGH: u64 = 0xC202_7976_92D6_3D58;
    const LENGTH: u64 = 15 << 54;
    let (first_low, first_high) = multiply(low ^ high ^ FLIP_LOW, PRIME_1);
    let high = high ^ FLIP_HIGH;
    let high = first_high.wrapping_add(high).wrapping_add((high & 0xFFFF_FFFF).wrapping_mul(PRIME_32));
    let low = first_low.wrapping_add(LENGTH) ^ high.swap_bytes();
    let (second_low, second_high) = multiply(low, PRIME_2);
    let second_high = second_high.wrapping_add(high.wrapping_mul(PRIME_2));
    [avalanche(second_low), avalanche(second_high)]
}

/// Low and high half of a product.
fn multiply(a: u64, b: u64) -> (u64, u64) {
    (a.wrapping_mul(b), u64::try_from((u128::from(a) * u128::from(b)) >> 64).unwrap_or(0))
}

fn avalanche(mut hash: u64) -> u64 {
    hash ^= hash >> 37;
    hash = hash.wrapping_mul(0x1656_6791_9E37_79F9);
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The id that a tool of RocksDB 7.8.3 prints has the bytes of `unique_id`.
    #[test]
    fn ids_of_properties_are_the_public_ones() {
        let properties = TableProperties {
            db_id: "50e94cd6-a3cd-4257-9649-20617c98006b".to_owned(),
            db_session_id: "1IX334BC65LO07IUIZCW".to_owned(),
            orig_file_number: 9,
            ..TableProperties::absent()
        };
        let id = unique_id(&properties.db_id, &properties.db_session_id, 9).unwrap();
        let public = public_unique_id(id).map(u64::to_le_bytes).concat();
        assert_eq!(properties.unique_id().unwrap()[..], public);
        let extended = properties.extended_unique_id().unwrap();
        assert_eq!(extended[..16], public);
        assert_ne!(extended[16..], [0; 8]);
        let text = unique_id_to_human_string(&extended);
        assert_eq!((text.len(), text.split('-').count()), (50, 3));
        let nameless = TableProperties { db_session_id: String::new(), ..properties };
        assert_eq!((nameless.unique_id(), nameless.extended_unique_id()), (None, None));
    }

    #[test]
    fn unique_ids_equal_rocksdbs() {
        let (db, session) = ("50e94cd6-a3cd-4257-9649-20617c98006b", "1IX334BC65LO07IUIZCW");
        let id = unique_id(db, session, 9).unwrap();
        let bytes: Vec<u8> = id.iter().flat_map(|w| w.to_le_bytes()).collect();
        let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, "8059036d10733e0b9753e370c1e1b3ac");
        assert_eq!(unique_id("", session, 9), None);
        assert_eq!(unique_id(db, "short", 9), None);
        assert_eq!(unique_id(db, "lowercasedigits00", 9), None);
    }

    /// Pairs that RocksDB 7.8.3 printed.
    #[test]
    fn public_ids_equal_rocksdbs() {
        let pairs = [
            ([11428430833451897469, 12814345390324531597], "4AECF4FD0332822DFA9D5B1B751063CD"),
            ([11428430833451897469, 12814345390324531594], "A64AFDF911A45D204A09C007CB200D51"),
            ([2277454733583319266, 17596192510122198391], "6BA9922F5BD008E4D6575243BCCF8246"),
        ];
        for (internal, public) in pairs {
            let bytes = public_unique_id(internal).map(u64::to_le_bytes).concat();
            let hex: String = bytes.iter().map(|b| format!("{b:02X}")).collect();
            assert_eq!(hex, public);
        }
    }

    #[test]
    fn session_ids_come_back() {
        for (upper, lower) in [(0, 1), (0x12_3456_789A, u64::MAX), (1 << 36, 1 << 63), (99, 1 << 62)] {
            let id = session_id(upper, lower);
            assert_eq!(id.len(), 20);
            assert_eq!(parse_session_id(&id).unwrap(), (upper, lower));
        }
    }
}
