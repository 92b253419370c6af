//! Changes the files of a cache tier that keeps blocks in files.
//!
//! Laws: a lookup finds only blocks that were stored. A tier over damaged files is on, stays within
//! its capacity, and stores blocks again.

use crate::scene::{Files, damage, files_below, lay};
use esker::internals::cache::tier::{Lookup, Saved, SecondaryCache};
use esker::internals::cache::{CacheKey, Role};
use esker::internals::env::{FileSystem, MemFs};
use esker::internals::format::compression::{CompressionType, Decompressor};
use esker::internals::table::tier::{FileSecondaryCache, FileSecondaryCacheOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DIR: &str = "/tier";
const MAX_BLOCKS: usize = 24;

/// A block that was offered to the tier.
struct Offered {
    key: CacheKey,
    codec: u8,
    bytes: Vec<u8>,
}

fn tier(fs: &MemFs, capacity: usize) -> FileSecondaryCache {
    let options = FileSecondaryCacheOptions {
        path: PathBuf::from(DIR),
        capacity,
        fs: Arc::new(fs.clone()),
        info_log: None,
    };
    FileSecondaryCache::open(options).unwrap()
}

/// Makes the blocks of an input. Three bytes give the codec, the length and the content of a block.
fn offered(data: &[u8]) -> Vec<Offered> {
    let block = |(i, &[codec, length, byte]): (usize, &[u8; 3])| {
        // Some blocks have a codec that did not make their bytes.
        let codec = if codec % 8 == 0 { codec / 8 } else { 0 };
        let key = CacheKey::new((u64::from(byte % 4), 7), i as u64 * 4096);
        let bytes = (0..usize::from(length) * 9).map(|at| byte.wrapping_add((at % 7) as u8)).collect();
        Offered { key, codec, bytes }
    };
    data.as_chunks::<3>().0.iter().take(MAX_BLOCKS).enumerate().map(block).collect()
}

fn stored(fs: &MemFs, capacity: usize, blocks: &[Offered]) {
    let tier = tier(fs, capacity);
    for block in blocks {
        let saved = Saved { role: Role::DataBlock, codec: block.codec, bytes: &block.bytes };
        tier.insert(&block.key, saved, true);
        tier.settle();
    }
}

fn expected(block: &Offered) -> Option<Vec<u8>> {
    match CompressionType::from_u8(block.codec).ok()? {
        CompressionType::None => Some(block.bytes.clone()),
        codec => Decompressor::new(2).decompress(codec, &block.bytes).ok(),
    }
}

/// Returns the number of blocks that the tier finds. Each must equal the offered block.
fn found(tier: &FileSecondaryCache, blocks: &[Offered]) -> usize {
    let find = |block: &&Offered| {
        let found = match tier.lookup(&block.key, false) {
            Lookup::Missing { .. } => None,
            lookup => lookup.wait(),
        };
        let Some(found) = found else { return false };
        assert_eq!(Some(found.bytes.to_vec()), expected(block), "the block of codec {} differs", block.codec);
        true
    };
    blocks.iter().filter(find).count()
}

/// Runs one input. The first byte gives the capacity and the number of changes. The changes follow,
/// eight bytes each, and then the blocks. If the first byte is odd, the rest is the content of a
/// segment file instead.
pub fn run(data: &[u8]) {
    let Some((&switches, data)) = data.split_first() else { return };
    let fs = MemFs::new();
    let capacity = [1 << 20, 20 << 10, 4 << 10, 100][usize::from(switches >> 1 & 3)];
    if switches & 1 != 0 {
        fs.create_dir_if_missing(Path::new(DIR)).unwrap();
        lay(&fs, &vec![(Path::new(DIR).join("000001.tier"), data.to_vec())]);
        assert!(!tier(&fs, capacity).is_off());
        return;
    }
    let changes = data.as_chunks::<8>().0;
    let changes = &changes[..changes.len().min(usize::from(switches >> 3 & 3))];
    let blocks = offered(&data[changes.len() * 8..]);
    stored(&fs, capacity, &blocks);
    let before = { found(&tier(&fs, capacity), &blocks) };
    let mut files: Files = files_below(&fs, Path::new(DIR));
    files.retain(|(path, _)| path.extension().is_some_and(|extension| extension == "tier"));
    for change in changes {
        damage(&mut files, change);
    }
    let damaged = MemFs::new();
    damaged.create_dir_if_missing(Path::new(DIR)).unwrap();
    lay(&damaged, &files);
    let again = tier(&damaged, capacity);
    let left = found(&again, &blocks);
    assert!(left <= before && (!changes.is_empty() || left == before), "{left} of {before} are left");
    assert!(again.usage() <= capacity && !again.is_off(), "{again:?}");
    drop(again);
    // A tier over the damaged files must still work.
    stored(&damaged, capacity, &blocks);
    let whole = tier(&damaged, capacity);
    assert!(found(&whole, &blocks) >= left.min(before) || capacity < 1 << 20, "{whole:?}");
}
