//! Damaged tables are read as far as their checksums hold, and the rest is named.

use crate::util::*;
use esker_base::{SequenceNumber, ValueType};
use esker_format::compression::CompressionType;
use esker_format::key::{InternalKeyComparator, internal_key, user_key};
use esker_format::properties::IndexType;
use esker_format::trailer::ChecksumType;
use esker_table::salvage::{LostKeys, SalvageOptions, SalvageReport, TableSalvage};
use esker_table::{BlockBasedTableOptions, TableBuilderOptions, TableFileInfo};

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

const COMPRESSIONS: [CompressionType; 5] = [
    CompressionType::None,
    CompressionType::Snappy,
    CompressionType::Lz4,
    CompressionType::Zstd,
    CompressionType::Zlib,
];
const CHECKSUMS: [ChecksumType; 4] =
    [ChecksumType::Crc32c, ChecksumType::XxHash, ChecksumType::XxHash64, ChecksumType::Xxh3];
const INDEXES: [IndexType; 3] =
    [IndexType::BinarySearch, IndexType::TwoLevel, IndexType::BinarySearchWithFirstKey];

/// A table of any kind: its points, its range deletions, its bytes.
struct Subject {
    points: Entries,
    deletions: Entries,
    bytes: Vec<u8>,
    info: TableFileInfo,
    what: String,
}

fn any_options(rng: &mut Rng) -> TableBuilderOptions {
    let version = 2 + rng.below(6) as u32;
    let index_type = INDEXES[rng.below(3)];
    let mut table = BlockBasedTableOptions {
        block_size: 200 + rng.below(400),
        format_version: version,
        checksum: CHECKSUMS[rng.below(4)],
        index_type,
        metadata_block_size: 100 + rng.below(200) as u64,
        ..if rng.below(3) > 0 { with_filters() } else { BlockBasedTableOptions::default() }
    };
    table.partition_filters = index_type == IndexType::TwoLevel && table.filter_policy.is_some();
    table.separate_key_value_in_data_block = version >= 6 && rng.below(4) == 0;
    let mut options = builder_options(table);
    options.compression = COMPRESSIONS[rng.below(5)];
    if options.compression == CompressionType::Zstd && rng.below(2) == 0 {
        options.compression_opts.max_dict_bytes = 500;
    }
    options
}

fn any_table(rng: &mut Rng) -> Subject {
    let options = any_options(rng);
    let what = format!("{:?} {:?}", options.table_options, options.compression);
    let count = 1 + rng.below(150);
    let points = sample_entries(rng, count, 30);
    let deletion = |n: usize| {
        let (from, to) = (format!("key{:08}", 10 * n), format!("key{:08}", 10 * n + 7));
        (internal_key(from.as_bytes(), SequenceNumber(900), ValueType::RangeDeletion), to.into_bytes())
    };
    let deletions: Entries = (0..rng.below(3)).map(deletion).collect();
    let (bytes, info) = write_table(options, points.iter().chain(&deletions).cloned()).unwrap();
    Subject { points, deletions, bytes, info, what }
}

fn with(info: Option<&TableFileInfo>) -> SalvageOptions {
    SalvageOptions {
        icmp: InternalKeyComparator::default(),
        largest_seqno: info.map(|info| info.largest_seqno),
        only_seqno: None,
        bounds: info.map(|info| (info.smallest.clone(), info.largest.clone())),
        lacks_timestamps: false,
    }
}

/// Reads the table; `None` if nothing of it can be.
fn salvage(bytes: &[u8], options: &SalvageOptions) -> Option<(Entries, SalvageReport)> {
    let mut found = Entries::new();
    let table = TableSalvage::open(memory_file(bytes), bytes.len() as u64).ok()?;
    let report = table.read(options, &mut |key, value| {
        found.push((key.to_vec(), value.to_vec()));
        Ok(())
    });
    Some((found, report.unwrap()))
}

fn holds(keys: &LostKeys, user: &[u8]) -> bool {
    keys.from.as_deref().is_none_or(|from| from <= user) && keys.to.as_deref().is_none_or(|to| user <= to)
}

/// Checks that nothing is wrong, and that all that is missing is named. Returns the number of
/// missing entries.
fn check(subject: &Subject, found: &Entries, report: &SalvageReport) -> Result<usize, String> {
    let mut rest = found.iter().peekable();
    let mut missing = 0;
    for point in &subject.points {
        if rest.peek() == Some(&point) {
            rest.next();
            continue;
        }
        missing += 1;
        let user = user_key(&point.0);
        if !report.lost.iter().any(|lost| holds(&lost.keys, user)) {
            return Err(format!("{} is missing and not named", point.0.escape_ascii()));
        }
    }
    if let Some((key, _)) = rest.next() {
        return Err(format!("{} is not an entry of the table, or out of order", key.escape_ascii()));
    }
    if report.entries_lost.is_some_and(|lost| lost != missing as u64) {
        return Err(format!("{missing} entries are missing, the report says {:?}", report.entries_lost));
    }
    let stored = |t: &esker_format::range_del::RangeTombstone| {
        (internal_key(&t.start, t.seq, ValueType::RangeDeletion), t.end.clone())
    };
    let tombstones: Entries = report.tombstones.iter().map(stored).collect();
    match &report.tombstones_lost {
        None if tombstones != subject.deletions => Err("range deletions are missing".to_owned()),
        Some(keys) => {
            let bounds = |(key, end): &(Vec<u8>, Vec<u8>)| holds(keys, user_key(key)) && holds(keys, end);
            let is_named = subject.deletions.iter().all(bounds);
            if is_named { Ok(missing) } else { Err("a lost range deletion is not named".to_owned()) }
        }
        None => Ok(missing),
    }
}

/// Damages bytes at a random place, and says how.
fn damage(bytes: &mut Vec<u8>, rng: &mut Rng) -> String {
    let at = rng.below(bytes.len());
    let most = [4, 40, 600][rng.below(3)];
    let to = bytes.len().min(at + 1 + rng.below(most));
    match rng.below(5) {
        0 => {
            bytes.truncate(at);
            format!("cut at {at}")
        }
        1 => {
            bytes[at..to].fill(0);
            format!("zeros from {at} to {to}")
        }
        2 => {
            let tail = bytes.len().saturating_sub(1 + rng.below(400));
            let noise = rng.bytes(bytes.len() - tail);
            bytes[tail..].copy_from_slice(&noise);
            format!("noise from {tail} on")
        }
        _ => {
            let noise = rng.bytes(to - at);
            bytes[at..to].copy_from_slice(&noise);
            format!("noise from {at} to {to}")
        }
    }
}

#[test]
fn a_flipped_bit_anywhere_loses_nothing() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let subject = any_table(&mut rng);
        for _ in 0..25 {
            let bit = rng.below(8 * subject.bytes.len());
            let mut bytes = subject.bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let place = format!("bit {bit} of {}, {}", 8 * bytes.len(), subject.what);
            for info in [None, Some(&subject.info)] {
                let (found, report) = salvage(&bytes, &with(info)).unwrap_or_else(|| panic!("{place}"));
                let missing = check(&subject, &found, &report).unwrap_or_else(|e| panic!("{place}: {e}"));
                assert!(missing == 0 && !report.has_losses(), "{place}: {report:?}");
            }
        }
    }
}

#[test]
fn whatever_is_damaged_the_rest_is_read_and_all_that_is_missing_is_named() {
    let (mut cases, mut lost_whole, mut kept, mut all) = (0, 0, 0, 0);
    for seed in 100..130 {
        let mut rng = Rng::new(seed);
        let subject = any_table(&mut rng);
        for _ in 0..25 {
            let mut bytes = subject.bytes.clone();
            let mut place = damage(&mut bytes, &mut rng);
            if rng.below(3) == 0 && !bytes.is_empty() {
                place = format!("{place}, {}", damage(&mut bytes, &mut rng));
            }
            let place = format!("{place}; {} bytes, {}", subject.bytes.len(), subject.what);
            let info = (rng.below(2) == 0).then_some(&subject.info);
            cases += 1;
            all += subject.points.len();
            let Some((found, report)) = salvage(&bytes, &with(info)) else {
                lost_whole += 1;
                continue;
            };
            check(&subject, &found, &report).unwrap_or_else(|e| panic!("{place}: {e}\n{report:?}"));
            kept += found.len();
        }
    }
    println!("{cases} cases, {lost_whole} tables lost whole, {kept} of {all} entries kept");
    assert!(lost_whole * 5 < cases, "{lost_whole} of {cases} tables were lost whole");
    assert!(kept * 2 > all, "{kept} of {all} entries were kept");
}
