//! Measures the cost of a hit in the compressed tier, apart from its decompression. Also makes hits
//! in a cache with or without a tier, for a tool that counts their instructions.
//!
//!     cargo run --release -p esker-table --example tier_hits
//!     valgrind --tool=callgrind target/release/examples/tier_hits primary OPS [tier|estimates]
//!     [guarded]
//!
//! Blocks of 4 and 16 KiB, half noise, in LZ4 and Zstd. Three kinds of batches of 20 calls take
//! turns: decompression alone, lookups without `advise_erase` (`kept`), and lookups with it
//! (`taken`). A lookup with `advise_erase` lets the tier evict the block before others. `more` is
//! the time beyond decompression. The program prints medians of 600 batches, in nanoseconds for one
//! call. Most batches are too short to be interrupted.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "an example: it measures, prints, and stops where it fails"
)]

use esker_base::rng::Rng;
use esker_base::sync::epoch;
use esker_cache::tier::{AdmissionPolicy, Saved, SecondaryCache};
use esker_cache::{Cache, CacheKey, CacheOptions, CachePriority, Role};
use esker_format::compression::{CodecOptions, CompressionType, Compressor, Decompressor};
use esker_table::tier::{CompressedSecondaryCache, CompressedSecondaryCacheOptions};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

const BLOCKS: u64 = 2000;
const BATCH: u64 = 20;
const BATCHES: u64 = 600;

fn key(i: u64) -> CacheKey {
    CacheKey::new((77, i), i * 4096)
}

fn block(i: u64, bytes: usize) -> Vec<u8> {
    let mut rng = Rng::new(i + 1);
    let mut block: Vec<u8> = (0..bytes / 2).map(|_| rng.below(256) as u8).collect();
    block.resize(bytes, i as u8);
    block
}

/// Nanoseconds of one call, the mean of `BATCH` calls.
fn nanos(batch: u64, mut call: impl FnMut(u64)) -> f64 {
    let start = Instant::now();
    numbers(batch).for_each(&mut call);
    start.elapsed().as_nanos() as f64 / BATCH as f64
}

fn numbers(batch: u64) -> impl Iterator<Item = u64> {
    (0..BATCH).map(move |i| (batch * BATCH + i) * 769 % BLOCKS)
}

/// Hits in a cache, for a tool that counts instructions.
fn primary(ops: u64, words: &[String]) {
    let has = |word: &str| words.iter().any(|w| w == word);
    let options =
        CacheOptions { estimates_misses: has("estimates"), ..CacheOptions::with_capacity(64 << 20) };
    let cache: Cache<Vec<u8>> = if has("tier") {
        let tier = CompressedSecondaryCacheOptions::with_capacity(16 << 20);
        let tier = Arc::new(CompressedSecondaryCache::new(&tier).unwrap());
        Cache::with_secondary(&options, tier, |v: &Vec<u8>| Some(v.as_slice()), AdmissionPolicy::Auto)
            .unwrap()
    } else {
        Cache::new(&options).unwrap()
    };
    for i in 0..BLOCKS {
        cache.insert(key(i), block(i, 4096), 4096, CachePriority::Low, Role::DataBlock).unwrap();
    }
    let is_guarded = has("guarded");
    let mut sum = 0;
    for i in 0..ops {
        let key = key(i * 769 % BLOCKS);
        if is_guarded {
            sum += cache.lookup_under(&key, &epoch::pin()).map_or(0, |value| value.len());
        } else {
            sum += cache.lookup(&key).map_or(0, |value| value.len());
        }
    }
    println!("{sum}");
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [what, ops, rest @ ..] = &words[..]
        && what == "primary"
    {
        return primary(ops.parse().unwrap(), rest);
    }
    println!(
        "{:>6} {:>6} {:>12} {:>12} {:>12} {:>12}",
        "codec", "bytes", "decompress", "kept", "more", "taken, more"
    );
    for codec in [CompressionType::Lz4, CompressionType::Zstd] {
        for bytes in [4096, 16 << 10] {
            let mut options = CompressedSecondaryCacheOptions::with_capacity(256 << 20);
            options.compression_type = codec;
            let tier = CompressedSecondaryCache::new(&options).unwrap();
            let blocks: Vec<Vec<u8>> = (0..BLOCKS).map(|i| block(i, bytes)).collect();
            let offer = |i: u64| {
                let saved = Saved { role: Role::DataBlock, codec: 0, bytes: &blocks[i as usize] };
                tier.insert(&key(i), saved, true)
            };
            (0..BLOCKS).for_each(|i| _ = offer(i));
            let mut compressor = Compressor::new(codec, &CodecOptions::default()).unwrap();
            let stored: Vec<Vec<u8>> = blocks
                .iter()
                .map(|block| {
                    let mut out = Vec::new();
                    compressor.compress(block, &mut out).unwrap();
                    out
                })
                .collect();
            let decompressor = Decompressor::new(2);
            let (mut alone, mut kept, mut more, mut taken_more) = (vec![], vec![], vec![], vec![]);
            for batch in 0..BATCHES {
                let a = nanos(batch, |i| {
                    black_box(decompressor.decompress(codec, &stored[i as usize]).unwrap());
                });
                let b = nanos(batch, |i| {
                    black_box(tier.lookup(&key(i), false).wait().unwrap().bytes);
                });
                let c = nanos(batch, |i| {
                    black_box(tier.lookup(&key(i), true).wait().unwrap().bytes);
                });
                numbers(batch).for_each(|i| _ = offer(i));
                alone.push(a);
                kept.push(b);
                more.push(b - a);
                taken_more.push(c - a);
            }
            println!(
                "{:>6} {bytes:>6} {:>12.0} {:>12.0} {:>12.0} {:>12.0}",
                format!("{codec:?}"),
                median(alone),
                median(kept),
                median(more),
                median(taken_more)
            );
        }
    }
}
