//! The speed of writing and reading tables. Small when run as a test; `ESKER_SPEED=500000 cargo
//! test --release -- speed --nocapture` gives useful numbers.

use crate::util::*;
use esker_base::{SequenceNumber, ValueType};
use esker_cache::{Cache, CacheOptions};
use esker_env::mem::MemFs;
use esker_env::{Clock, FileSystem};
use esker_format::compression::CompressionType;
use esker_format::cursor::InternalIterator;
use esker_format::key::{LookupKey, internal_key};
use esker_table::{BlockBasedTableOptions, TableBuilder, TableReadOptions};
use std::path::Path;
use std::sync::Arc;

/// Seconds of processor time, so that a busy machine disturbs less; of wall time where that cannot
/// be had.
fn seconds(clock: &dyn Clock, work: impl FnOnce()) -> f64 {
    let now = || {
        let spent = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
        let nanos = spent.and_then(|s| s.split(' ').next().and_then(|n| n.parse().ok()));
        nanos.unwrap_or_else(|| clock.monotonic_nanos())
    };
    let start = now();
    work();
    (now() - start) as f64 / 1e9
}

#[test]
fn write_get_seek_and_scan() {
    let count = std::env::var("ESKER_SPEED").map_or(2_000, |n| n.parse().unwrap());
    let clock = esker_env::SystemClock;
    let value = Rng::new(1).value(100);
    let keys: Vec<Vec<u8>> = (0..count)
        .map(|i| internal_key(format!("{:016}", i * 7).as_bytes(), SequenceNumber(i), ValueType::Value))
        .collect();
    for (name, compression, filter) in [
        ("none", CompressionType::None, false),
        ("none+bloom", CompressionType::None, true),
        ("lz4+bloom", CompressionType::Lz4, true),
        ("snappy+bloom", CompressionType::Snappy, true),
        ("zstd+bloom", CompressionType::Zstd, true),
    ] {
        let table = if filter { with_filters() } else { BlockBasedTableOptions::default() };
        let mut options = builder_options(table.clone());
        options.compression = compression;
        let fs = MemFs::new();
        let path = Path::new("/t.sst");
        let mut builder = TableBuilder::new(options, fs.new_writable_file(path).unwrap()).unwrap();
        let mut size = 0;
        let written = seconds(&clock, || {
            for key in &keys {
                builder.add(key, &value).unwrap();
            }
            size = builder.finish().unwrap().file_size;
        });
        builder.sync_and_close().unwrap();
        let mut bytes = vec![0; size as usize];
        fs.new_random_access_file(path).unwrap().read_at(0, &mut bytes).unwrap();
        let cache = Arc::new(Cache::lru(&CacheOptions::with_capacity(1 << 30)).unwrap());
        let reader =
            open_bytes(&bytes, BlockBasedTableOptions { block_cache: Some(cache), ..table }).unwrap();
        let read = TableReadOptions::default();
        let mut rng = Rng::new(2);
        let cold = seconds(&clock, || assert_eq!(scan_count(&reader), keys.len()));
        let warm = seconds(&clock, || assert_eq!(scan_count(&reader), keys.len()));
        let lookups: Vec<LookupKey> = (0..count)
            .map(|_| LookupKey::new(&keys[rng.below(keys.len())][..16], SequenceNumber::MAX))
            .collect();
        let mut found = 0;
        let misses = seconds(&clock, || {
            for key in &lookups {
                let absent = LookupKey::new(&[key.user_key(), b"x"].concat(), SequenceNumber::MAX);
                reader.get(&read, &absent, &mut |_, _| panic!("it is not there")).unwrap();
            }
        });
        let gets = seconds(&clock, || {
            for key in &lookups {
                reader
                    .get(&read, key, &mut |_, v| {
                        found += v.bytes().len();
                        false
                    })
                    .unwrap();
            }
        });
        assert_eq!(found, 100 * count as usize);
        let mut iter = reader.iter(read);
        let seeks = seconds(&clock, || {
            for key in &lookups {
                iter.seek(key.internal_key());
                found += iter.value().len();
            }
        });
        let per = |s: f64| s * 1e9 / count as f64;
        println!(
            "{name:13} write {:4.0} MB/s  scan {:4.0} ns cold {:4.0} ns warm  get {:4.0} ns absent {:4.0} ns  seek {:4.0} ns  {:.1} MB",
            count as f64 * 124.0 / written / 1e6,
            per(cold),
            per(warm),
            per(gets),
            per(misses),
            per(seeks),
            size as f64 / 1e6,
        );
    }
}

fn scan_count(reader: &Arc<esker_table::TableReader>) -> usize {
    let mut iter = reader.iter(TableReadOptions::default());
    let mut n = 0;
    let mut bytes = 0;
    iter.seek_to_first();
    while iter.valid() {
        n += 1;
        bytes += iter.key().len() + iter.value().len();
        iter.next();
    }
    assert!(bytes > n);
    n
}
