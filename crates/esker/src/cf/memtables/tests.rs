use super::*;
use crate::options::Options;
use crate::write::new_memtable;
use esker_base::ValueType;
use esker_format::key::InternalKeyComparator;

/// Entries that a memtable of RocksDB 11.8.1 takes, measured through its C API: bytes of the write
/// buffer, bytes of a value, entries with ascending keys and with random keys of 23 bytes.
const ROCKSDB: &[(usize, usize, u64, u64)] = &[
    (64 << 10, 3, 1231, 1244),
    (64 << 10, 100, 436, 434),
    (64 << 10, 1000, 56, 56),
    (100_000, 3, 1827, 1824),
    (100_000, 100, 643, 642),
    (100_000, 1000, 88, 88),
    (256 << 10, 3, 4900, 4892),
    (256 << 10, 100, 1720, 1717),
    (256 << 10, 1000, 240, 242),
    (1 << 20, 3, 19_424, 19_470),
    (1 << 20, 100, 6859, 6848),
    (1 << 20, 1000, 962, 961),
    (4 << 20, 3, 77_696, 77_744),
    (4 << 20, 100, 27_392, 27_408),
    (4 << 20, 1000, 3840, 3840),
];

/// Fills a memtable; returns the number of its entries, and its bytes.
fn fill(write_buffer_size: usize, value: &[u8], is_ascending: bool) -> (u64, usize) {
    let mut options = Options::default();
    options.cf.write_buffer_size = write_buffer_size;
    options.cf.sanitize(&options.db);
    let limits = MemTableLimits::of(&options.cf);
    let icmp = InternalKeyComparator::default();
    let mem = new_memtable(&options.db, &icmp, &options.cf, 1, SequenceNumber::ZERO);
    let mut rng = fastrand::Rng::with_seed(1);
    let mut sequence = SequenceNumber::ZERO;
    while !limits.has_too_many_bytes(&mem) {
        sequence.0 += 1;
        let key = if is_ascending { sequence.0 } else { rng.u64(..1 << 40) };
        mem.add(sequence, ValueType::Value, format!("yes{key:020}").as_bytes(), value).unwrap();
    }
    (mem.num_entries(), mem.approximate_memory_usage())
}

#[test]
fn a_write_buffer_takes_about_as_many_entries_as_rocksdbs() {
    for &(bytes, value_len, ascending, random) in ROCKSDB {
        for (theirs, is_ascending) in [(ascending, true), (random, false)] {
            let (ours, held) = fill(bytes, &vec![7; value_len], is_ascending);
            // Leaves of random keys are two thirds full.
            let percent = if value_len < 8 && !is_ascending { 83 } else { 93 };
            let what = format!(
                "{bytes} bytes, values of {value_len}, ascending: {is_ascending}: {ours} entries, RocksDB {theirs}, {held} bytes"
            );
            assert!(ours * 100 >= theirs * percent, "{what}");
            assert!(held <= bytes + bytes / 4 + (4 << 10), "{what}");
        }
    }
}
