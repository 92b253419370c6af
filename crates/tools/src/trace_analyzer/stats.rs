//! Counts of queries, by kind, column family and key.

use super::AnalyzerOptions;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes that count for a query without a value, as in RocksDB.
const SHADOW_VALUE_BYTES: u64 = 10;

const MICROS_PER_SECOND: u64 = 1_000_000;

/// The kinds of queries. The numbers are those of RocksDB's reports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum QueryKind {
    Get = 0,
    Put = 1,
    Delete = 2,
    SingleDelete = 3,
    RangeDelete = 4,
    Merge = 5,
    IteratorSeek = 6,
    IteratorSeekForPrev = 7,
    MultiGet = 8,
    PutEntity = 9,
}

impl QueryKind {
    pub(super) const ALL: [QueryKind; 10] = [
        QueryKind::Get,
        QueryKind::Put,
        QueryKind::Delete,
        QueryKind::SingleDelete,
        QueryKind::RangeDelete,
        QueryKind::Merge,
        QueryKind::IteratorSeek,
        QueryKind::IteratorSeekForPrev,
        QueryKind::MultiGet,
        QueryKind::PutEntity,
    ];

    /// The name in reports and in names of files.
    pub(super) fn name(self) -> &'static str {
        match self {
            QueryKind::Get => "get",
            QueryKind::Put => "put",
            QueryKind::Delete => "delete",
            QueryKind::SingleDelete => "single_delete",
            QueryKind::RangeDelete => "range_delete",
            QueryKind::Merge => "merge",
            QueryKind::IteratorSeek => "iterator_Seek",
            QueryKind::IteratorSeekForPrev => "iterator_SeekForPrev",
            QueryKind::MultiGet => "multiget",
            QueryKind::PutEntity => "put_entity",
        }
    }

    fn parse(name: &str) -> Option<QueryKind> {
        QueryKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    fn is_enabled(self, options: &AnalyzerOptions) -> bool {
        match self {
            QueryKind::Get => options.analyze_get,
            QueryKind::Put => options.analyze_put,
            QueryKind::Delete => options.analyze_delete,
            QueryKind::SingleDelete => options.analyze_single_delete,
            QueryKind::RangeDelete => options.analyze_range_delete,
            QueryKind::Merge => options.analyze_merge,
            QueryKind::IteratorSeek | QueryKind::IteratorSeekForPrev => options.analyze_iterator,
            QueryKind::MultiGet => options.analyze_multiget,
            // RocksDB's tool has no flag for it.
            QueryKind::PutEntity => false,
        }
    }
}

/// Pairs of kinds: how often the second follows the first on one key.
#[derive(Clone, Default)]
pub(super) struct QueryPairs(pub(super) Vec<(QueryKind, QueryKind)>);

impl QueryPairs {
    /// Parses pairs like `[get,get][put,get]`.
    pub(super) fn parse(text: &str) -> Result<QueryPairs, String> {
        let mut pairs = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let wrong = || format!("'{rest}' does not begin with a pair [kind,kind]");
            let (pair, behind) =
                rest.strip_prefix('[').and_then(|rest| rest.split_once(']')).ok_or_else(wrong)?;
            let (first, second) = pair.split_once(',').ok_or_else(wrong)?;
            let kind = |name| QueryKind::parse(name).ok_or_else(|| format!("'{name}' is no kind of query"));
            pairs.push((kind(first)?, kind(second)?));
            rest = behind;
        }
        Ok(QueryPairs(pairs))
    }
}

/// Accesses to one key.
#[derive(Default)]
pub(super) struct KeyStats {
    /// The key's place in key order.
    pub(super) number: u64,
    /// Bytes of the value of the first access.
    pub(super) value_bytes: u64,
    pub(super) accesses: u64,
    /// Time of the last access, in microseconds.
    last_at: u64,
}

/// Queries of one kind to one column family.
#[derive(Default)]
pub(super) struct FamilyStats {
    pub(super) count: u64,
    pub(super) keys: BTreeMap<Vec<u8>, KeyStats>,
    pub(super) key_bytes: SizeSums,
    pub(super) value_bytes: SizeSums,
    /// Number of queries by second.
    pub(super) by_second: BTreeMap<u64, u64>,
    /// Number of values by class of size.
    pub(super) by_value_class: BTreeMap<u64, u64>,
    /// Number of known keys at the end of a second.
    pub(super) keys_at: BTreeMap<u64, u64>,
    /// Seconds and keys of all accesses, if they are to be written.
    pub(super) series: Vec<(u64, Vec<u8>)>,
    /// By pair: number of queries that follow the first kind on their key, and their distances in
    /// microseconds.
    pub(super) followed: Vec<(u64, u128)>,
    last_second: u64,
}

/// Sum and sum of squares.
#[derive(Default)]
pub(super) struct SizeSums {
    sum: u64,
    squares: u128,
}

impl SizeSums {
    fn add(&mut self, value: u64) {
        self.sum += value;
        self.squares += u128::from(value) * u128::from(value);
    }

    /// Average and standard deviation over `count` values.
    pub(super) fn average_and_deviation(&self, count: u64) -> (f64, f64) {
        if count == 0 {
            return (0.0, 0.0);
        }
        let average = self.sum as f64 / count as f64;
        (average, (self.squares as f64 / count as f64 - average * average).max(0.0).sqrt())
    }
}

/// All queries of a trace.
pub(super) struct Queries {
    enabled: [bool; 10],
    /// One of this many queries of a kind is analyzed.
    sample: u64,
    seen: [u64; 10],
    value_interval: u64,
    keeps_series: bool,
    pairs: QueryPairs,
    began_at: Option<u64>,
    stats: BTreeMap<(QueryKind, u32), FamilyStats>,
}

impl Queries {
    pub(super) fn new(options: &AnalyzerOptions, sample: u64) -> Queries {
        Queries {
            enabled: QueryKind::ALL.map(|kind| kind.is_enabled(options)),
            sample: sample.max(1),
            seen: [0; 10],
            value_interval: options.value_interval,
            keeps_series: options.output_time_series,
            pairs: options.print_correlation.clone().unwrap_or_default(),
            began_at: None,
            stats: BTreeMap::new(),
        }
    }

    /// Whether the kind is analyzed at all.
    pub(super) fn is_enabled(&self, kind: QueryKind) -> bool {
        self.enabled[kind as usize]
    }

    /// Whether the next query of this kind is to be added. Counts it for the sample.
    pub(super) fn is_wanted(&mut self, kind: QueryKind) -> bool {
        let seen = &mut self.seen[kind as usize];
        let is_sampled = seen.is_multiple_of(self.sample);
        *seen += 1;
        is_sampled && self.enabled[kind as usize]
    }

    pub(super) fn add(&mut self, time: u64, kind: QueryKind, family: u32, key: &[u8], value_bytes: usize) {
        let began_at = *self.began_at.get_or_insert(time);
        let second = time.saturating_sub(began_at) / MICROS_PER_SECOND;
        let value_bytes = if value_bytes == 0 { SHADOW_VALUE_BYTES } else { value_bytes as u64 };
        let followed = self.followed(time, kind, family, key);
        let stats = self.stats.entry((kind, family)).or_default();
        stats.followed.resize(followed.len(), (0, 0));
        for (sums, distance) in stats.followed.iter_mut().zip(followed) {
            *sums = (sums.0 + u64::from(distance.is_some()), sums.1 + u128::from(distance.unwrap_or(0)));
        }
        if second != stats.last_second {
            stats.keys_at.insert(stats.last_second, stats.keys.len() as u64);
            stats.last_second = second;
        }
        stats.count += 1;
        stats.key_bytes.add(key.len() as u64);
        stats.value_bytes.add(value_bytes);
        *stats.by_second.entry(second).or_default() += 1;
        *stats.by_value_class.entry(value_bytes / self.value_interval).or_default() += 1;
        match stats.keys.get_mut(key) {
            Some(known) => (known.accesses, known.last_at) = (known.accesses + 1, time),
            None => {
                let first = KeyStats { number: 0, value_bytes, accesses: 1, last_at: time };
                stats.keys.insert(key.to_vec(), first);
            }
        }
        if self.keeps_series {
            stats.series.push((second, key.to_vec()));
        }
    }

    /// For each pair the microseconds since the last query of its first kind for the key. `None`
    /// for pairs of another second kind, and for queries at the same time.
    fn followed(&self, time: u64, kind: QueryKind, family: u32, key: &[u8]) -> Vec<Option<u64>> {
        let distance = |(first, second): &(QueryKind, QueryKind)| {
            let stats = self.stats.get(&(*first, family)).filter(|_| *second == kind)?;
            let last_at = stats.keys.get(key)?.last_at;
            (last_at != time).then(|| time.saturating_sub(last_at))
        };
        self.pairs.0.iter().map(distance).collect()
    }

    /// Numbers the keys in their order.
    pub(super) fn number_keys(&mut self) {
        for stats in self.stats.values_mut() {
            (0..).zip(stats.keys.values_mut()).for_each(|(number, key)| key.number = number);
        }
    }

    /// Whole seconds from the first analyzed query to `end`, the time of the last record.
    pub(super) fn seconds(&self, end: u64) -> u64 {
        self.began_at.map_or(0, |began_at| end.saturating_sub(began_at) / MICROS_PER_SECOND)
    }

    /// Queries of each kind and column family, in this order.
    pub(super) fn each(&self) -> impl Iterator<Item = (QueryKind, u32, &FamilyStats)> {
        self.stats.iter().map(|((kind, family), stats)| (*kind, *family, stats))
    }

    /// Queries of one kind.
    pub(super) fn of_kind(&self, wanted: QueryKind) -> impl Iterator<Item = (u32, &FamilyStats)> {
        self.each().filter(move |(kind, ..)| *kind == wanted).map(|(_, family, stats)| (family, stats))
    }

    /// The column families of analyzed queries.
    pub(super) fn families(&self) -> BTreeSet<u32> {
        self.stats.keys().map(|(_, family)| *family).collect()
    }

    /// Number of queries in a second that `is_meant` selects.
    pub(super) fn in_second(&self, second: u64, is_meant: impl Fn(QueryKind, u32) -> bool) -> u64 {
        let meant = self.each().filter(|(kind, family, _)| is_meant(*kind, *family));
        meant.map(|(_, _, stats)| stats.by_second.get(&second).copied().unwrap_or(0)).sum()
    }
}

impl FamilyStats {
    /// The most queries in one of the first `seconds` seconds, and their average.
    pub(super) fn peak_and_average(&self, seconds: u64) -> (u64, f64) {
        let counts = || self.by_second.range(..seconds).map(|(_, count)| *count);
        let average = if seconds == 0 { 0.0 } else { counts().sum::<u64>() as f64 / seconds as f64 };
        (counts().max().unwrap_or(0), average)
    }

    /// The `most` keys with the most accesses, the most accessed last.
    pub(super) fn top_keys(&self, most: usize) -> Vec<(u64, &[u8])> {
        let mut keys: Vec<(u64, &[u8])> = self.keys.iter().map(|(key, s)| (s.accesses, &key[..])).collect();
        // Among equals the first in key order stays.
        keys.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
        keys.truncate(most);
        keys.reverse();
        keys
    }

    /// The size below which half of the keys lie.
    pub(super) fn middle_key_bytes(&self) -> u64 {
        let mut sizes: Vec<usize> = self.keys.keys().map(Vec::len).collect();
        sizes.sort_unstable();
        sizes.get(sizes.len() / 2).map_or(0, |bytes| *bytes as u64)
    }

    /// The size below which half of the values lie, as the middle of its class.
    pub(super) fn middle_value_bytes(&self, interval: u64) -> u64 {
        let (mut begin, mut count) = (0, 0);
        for (class, values) in &self.by_value_class {
            let end = (class + 1) * interval;
            count += values;
            if count >= self.count / 2 {
                return (begin + end) / 2;
            }
            begin = end;
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_of_a_forged_trace_have_their_sum() {
        let pairs = QueryPairs::parse("[get,get]").unwrap();
        let mut queries = Queries {
            enabled: [true; 10],
            sample: 1,
            seen: [0; 10],
            value_interval: 8,
            keeps_series: false,
            pairs,
            began_at: None,
            stats: BTreeMap::new(),
        };
        // Times go back and forth as far as a trace allows. Their sum exceeds 64 bits.
        let far = 2 * crate::trace_analyzer::MAX_DISTANCE_MICROS;
        let there = 300_000;
        for _ in 0..there {
            queries.add(0, QueryKind::Get, 0, b"k", 0);
            queries.add(far, QueryKind::Get, 0, b"k", 0);
        }
        let (_, _, stats) = queries.each().next().unwrap();
        assert_eq!(stats.followed, [(2 * there - 1, u128::from(far) * u128::from(there))]);
    }
}
