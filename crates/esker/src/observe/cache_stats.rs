//! Contents of the block cache by role: `rocksdb.block-cache-entry-stats`, and the line in LOG.
//!
//! In: counts that the cache maintains. Out: RocksDB's text and map. Source: RocksDB
//! `db/internal_stats.cc`, `cache/cache_entry_stats.h`. RocksDB visits every entry from time to
//! time. Esker's counts are always current, so the time and age of a collection are 0.

use super::human::bytes;
use esker_cache::{Role, RoleStats};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The current state of a block cache.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CacheEntryStats {
    /// Identity of the cache: families that print the same one share it.
    pub id: String,
    /// Capacity of the cache, in bytes.
    pub capacity: usize,
    /// Bytes that the cache holds.
    pub usage: usize,
    /// Number of slots of the cache's table.
    pub table_size: usize,
    /// Number of entries in the table.
    pub occupancy: usize,
    /// Entries and bytes of each role.
    pub roles: RoleStats,
    /// The tier below the cache.
    pub secondary: Option<SecondaryStats>,
}

/// The current state of the tier below a block cache.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SecondaryStats {
    /// Kind of the tier.
    pub name: &'static str,
    /// Capacity of the tier, in bytes.
    pub capacity: usize,
    /// Bytes that the tier holds.
    pub usage: usize,
}

impl CacheEntryStats {
    fn portion(&self, role: Role) -> f64 {
        100.0 * self.roles.bytes(role) as f64 / self.capacity.max(1) as f64
    }

    /// Two lines as in RocksDB, and one for the tier below.
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "Block cache {} capacity: {} seed: 0 usage: {} table_size: {} occupancy: {} collections: 1 last_copies: 0 \
             last_secs: 0 secs_since: 0\nBlock cache entry stats(count,size,portion):",
            self.id,
            bytes(self.capacity as u64),
            bytes(self.usage as u64),
            self.table_size,
            self.occupancy,
        );
        for role in Role::ALL {
            let (entries, size) = (self.roles.entries(role), self.roles.bytes(role));
            if entries > 0 {
                let portion = six_digits(self.portion(role));
                write!(text, " {}({entries},{},{portion}%)", role.camel_name(), bytes(size))
                    .expect("a write to a String cannot fail");
            }
        }
        text.push('\n');
        if let Some(SecondaryStats { name, capacity, usage }) = &self.secondary {
            let (capacity, usage) = (bytes(*capacity as u64), bytes(*usage as u64));
            writeln!(text, "Secondary cache {name} capacity: {capacity} usage: {usage}")
                .expect("a write to a String cannot fail");
        }
        text
    }

    /// RocksDB's keys: `id`, `capacity`, and `count.`, `bytes.`, `percent.` of each role.
    pub fn to_map(&self) -> BTreeMap<String, String> {
        let mut map = BTreeMap::from([
            ("id".to_owned(), self.id.clone()),
            ("capacity".to_owned(), self.capacity.to_string()),
            ("secs_for_last_collection".to_owned(), "0.000000".to_owned()),
            ("secs_since_last_collection".to_owned(), "0".to_owned()),
        ]);
        for role in Role::ALL {
            let name = role.hyphen_name();
            map.insert(format!("count.{name}"), self.roles.entries(role).to_string());
            map.insert(format!("bytes.{name}"), self.roles.bytes(role).to_string());
            map.insert(format!("percent.{name}"), format!("{:.6}", self.portion(role)));
        }
        map
    }
}

/// Formats as a C++ stream does: six significant digits, no trailing zeros, tiny numbers with an
/// exponent.
fn six_digits(x: f64) -> String {
    let [mantissa, exponent] = &format!("{x:.5e}").split('e').map(str::to_owned).collect::<Vec<_>>()[..]
    else {
        return x.to_string();
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..6).contains(&exponent) {
        let decimals = usize::try_from(5 - exponent).unwrap_or(0);
        return trimmed(&format!("{x:.decimals$}"));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_by_a_stream() {
        for (x, text) in [
            (0.0, "0"),
            (12.5, "12.5"),
            (100.0, "100"),
            (1.0 / 3.0, "0.333333"),
            (99.999_999_9, "100"),
            (0.000_123_456_78, "0.000123457"),
            (0.000_012_5, "1.25e-05"),
            (12_345_678.0, "1.23457e+07"),
            (123_456.4, "123456"),
        ] {
            assert_eq!(six_digits(x), text);
        }
    }

    #[test]
    fn text_and_map_have_rocksdbs_form() {
        let mut roles = RoleStats::default();
        roles.add(Role::DataBlock, 3, 1536);
        roles.add(Role::FilterBlock, 1, 512);
        let stats = CacheEntryStats {
            id: "lru_cache@0x1#2".to_owned(),
            capacity: 4096,
            usage: 2048,
            table_size: 64,
            occupancy: 4,
            roles,
            secondary: None,
        };
        assert_eq!(
            stats.to_text(),
            "Block cache lru_cache@0x1#2 capacity: 4.00 KB seed: 0 usage: 2.00 KB table_size: 64 occupancy: 4 collections: 1 \
             last_copies: 0 last_secs: 0 secs_since: 0\nBlock cache entry stats(count,size,portion): \
             DataBlock(3,1.50 KB,37.5%) FilterBlock(1,0.50 KB,12.5%)\n"
        );
        let map = stats.to_map();
        assert_eq!((&*map["capacity"], &*map["count.data-block"], &*map["bytes.misc"]), ("4096", "3", "0"));
        assert_eq!((map.len(), &*map["percent.filter-block"]), (4 + 3 * Role::COUNT, "12.500000"));
    }
}
