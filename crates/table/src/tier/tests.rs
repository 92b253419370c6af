use super::*;
use esker_base::logger::{InfoLog, InfoLogLevel};
use esker_base::probe::Probes;
use esker_base::rng::Rng;
use esker_base::sync::Mutex;
use esker_cache::tier::{Admission, FoundIn, Lookup, Saved, wait_all};
use esker_cache::{CacheKey, CachePriority, CacheType, Role};
use esker_env::{CrashChoices, CrashFs, FaultFs, FaultRule, FileSystem, MemFs, OpKind};
use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::thread::current;

const CODEC_NONE: u8 = 0;

fn key(i: u64) -> CacheKey {
    CacheKey::new((77, i / 16), (i % 16) * 4096)
}

/// The content of the block with this number: half of it compressible.
fn contents(i: u64) -> Vec<u8> {
    let mut rng = Rng::new(i + 1);
    let mut bytes: Vec<u8> = (0..512).map(|_| rng.below(256) as u8).collect();
    bytes.extend(std::iter::repeat_n(i as u8, 512));
    bytes
}

fn saved(bytes: &[u8]) -> Saved<'_> {
    Saved { role: Role::DataBlock, codec: CODEC_NONE, bytes }
}

fn offer(tier: &dyn SecondaryCache, i: u64) -> Admission {
    tier.insert(&key(i), saved(&contents(i)), false)
}

fn compressed(capacity: usize) -> CompressedSecondaryCache {
    CompressedSecondaryCache::new(&CompressedSecondaryCacheOptions::with_capacity(capacity)).unwrap()
}

#[test]
fn a_block_is_stored_when_it_is_offered_for_the_second_time() {
    let tier = compressed(1 << 20);
    assert!(matches!(tier.lookup(&key(1), false), Lookup::Missing { was_seen: false }));
    assert_eq!(offer(&tier, 1), Admission::Remembered);
    assert!(matches!(tier.lookup(&key(1), false), Lookup::Missing { was_seen: true }));
    assert_eq!((offer(&tier, 1), offer(&tier, 1)), (Admission::Stored, Admission::Present));
    let found = tier.lookup(&key(1), false).wait().unwrap();
    assert_eq!((found.is_kept, found.found_in), (true, FoundIn::Memory));
    assert_eq!(*found.bytes, contents(1));
    let taken = tier.lookup(&key(1), true).wait().unwrap();
    assert_eq!((taken.is_kept, taken.role), (false, Role::DataBlock));
    assert_eq!(*taken.bytes, contents(1));
    assert_eq!(offer(&tier, 1), Admission::Present, "the lookup has left the value");
    tier.erase(&key(1));
    assert_eq!(offer(&tier, 1), Admission::Stored, "a lost value is stored again at its first offer");
}

/// Blocks that the cache above has taken make room before others; those that it gave back do not.
#[test]
fn copies_of_blocks_that_moved_up_go_first() {
    for cache_type in [CacheType::AutoHyperClock, CacheType::Lru] {
        let mut options = CompressedSecondaryCacheOptions::with_capacity(256 << 10);
        options.cache = CacheOptions { cache_type, num_shard_bits: 0, ..options.cache };
        let tier = CompressedSecondaryCache::new(&options).unwrap();
        for i in 0..500 {
            assert_eq!(tier.insert(&key(i), saved(&contents(i)), true), Admission::Stored);
        }
        // `count` looks up every block. With both cache types this is a use, so no block stays new.
        assert!(count(&tier, 0..500) < 500, "the tier is full");
        let is_there = |i: &u64| tier.contains(&key(*i));
        let (above, others): (Vec<u64>, Vec<u64>) =
            (0..500).filter(is_there).partition(|i| i.is_multiple_of(4));
        above.iter().for_each(|&i| drop(tier.lookup(&key(i), true)));
        let (back, above) = above.split_at(above.len() / 2);
        back.iter().for_each(|&i| assert_eq!(offer(&tier, i), Admission::Present));
        for i in 1000..1000 + above.len() as u64 / 2 {
            tier.insert(&key(i), saved(&contents(i)), true);
            drop(tier.lookup(&key(i), false));
        }
        let lost = |of: &[u64]| of.iter().filter(|i| !is_there(i)).count();
        assert!(lost(above) > above.len() / 3, "{cache_type:?}: {} of {}", lost(above), above.len());
        assert!(lost(back) + lost(&others) < above.len() / 8, "{cache_type:?}: {others:?}");
    }
}

/// If the tier can keep the table's codec, it stores a block in the form that the table has.
#[test]
fn the_form_in_a_table_is_stored_if_the_key_is_remembered_and_the_codec_alike() {
    use esker_format::compression::CompressionType::{Lz4, None as Plain, Snappy, Zstd};
    use esker_format::compression::{CodecOptions, CompressionType, Compressor};
    let form = |codec: CompressionType| {
        let mut out = Vec::new();
        let is_worth_it =
            Compressor::new(codec, &CodecOptions::default()).unwrap().compress(&contents(1), &mut out);
        assert!(is_worth_it.unwrap());
        out
    };
    for (own, of_table, is_stored) in [
        (Lz4, Snappy, true),
        (Lz4, Lz4, true),
        (Zstd, Zstd, true),
        (Lz4, Zstd, false),
        (Zstd, Lz4, false),
        (Plain, Snappy, false),
    ] {
        let options = CompressedSecondaryCacheOptions {
            compression_type: own,
            ..CompressedSecondaryCacheOptions::with_capacity(1 << 20)
        };
        let tier = CompressedSecondaryCache::new(&options).unwrap();
        let form = form(of_table);
        let stored = |role| Saved { role, codec: of_table as u8, bytes: &form };
        assert_eq!(tier.insert_stored(&key(1), stored(Role::DataBlock), false), Admission::Refused);
        assert_eq!(offer(&tier, 1), Admission::Remembered);
        assert_eq!(tier.insert_stored(&key(1), stored(Role::FilterBlock), false), Admission::Refused);
        let before = tier.usage();
        let admission = tier.insert_stored(&key(1), stored(Role::DataBlock), false);
        assert_eq!(admission == Admission::Stored, is_stored, "{own:?} {of_table:?}: {admission:?}");
        assert_eq!(tier.usage() - before >= form.len(), is_stored);
        let second = if is_stored { Admission::Present } else { Admission::Stored };
        assert_eq!(offer(&tier, 1), second, "{own:?} {of_table:?}");
        assert_eq!(*tier.lookup(&key(1), false).wait().unwrap().bytes, contents(1));
    }
}

#[test]
fn a_scan_stores_nothing() {
    let tier = compressed(1 << 20);
    for i in 0..100 {
        assert_eq!((offer(&tier, i), offer(&tier, i)), (Admission::Remembered, Admission::Stored));
    }
    let (usage, there) = (tier.usage(), count(&tier, 0..100));
    assert!(there >= 95, "a small table may have lost one of three full buckets: {there}");
    for i in 1000..2000 {
        offer(&tier, i);
    }
    assert_eq!((tier.usage(), count(&tier, 0..100)), (usage, there));
}

#[test]
fn blocks_are_compressed_but_for_the_roles_that_are_not() {
    let tier = compressed(1 << 20);
    let before = tier.usage();
    let bytes = vec![7; 4096];
    tier.insert(&key(1), Saved { role: Role::DataBlock, codec: CODEC_NONE, bytes: &bytes }, true);
    let data = tier.usage() - before;
    assert!(data < 1024, "4096 equal bytes take {data}");
    tier.insert(&key(2), Saved { role: Role::FilterBlock, codec: CODEC_NONE, bytes: &bytes }, true);
    let filter = tier.usage() - before - data;
    assert!(filter >= 4096, "a filter is not compressed: {filter}");
    for i in [1, 2] {
        assert_eq!(*tier.lookup(&key(i), false).wait().unwrap().bytes, bytes);
    }
}

#[test]
fn usage_stays_within_capacity_and_capacity_zero_is_off() {
    let tier = compressed(256 << 10);
    for i in 0..2000 {
        tier.insert(&key(i), saved(&contents(i)), true);
        assert!(tier.usage() <= tier.capacity(), "{} of {}", tier.usage(), tier.capacity());
    }
    tier.set_capacity(64 << 10);
    assert!(tier.usage() <= 64 << 10);
    tier.set_capacity(0);
    assert_eq!(tier.insert(&key(1), saved(&contents(1)), true), Admission::Refused);
    assert!(matches!(tier.lookup(&key(1), false), Lookup::Missing { was_seen: false }));
    tier.set_capacity(256 << 10);
    assert_eq!(tier.insert(&key(1), saved(&contents(1)), true), Admission::Stored);
}

#[derive(Default)]
struct Lines(Mutex<Vec<String>>);

impl InfoLog for Lines {
    fn log(&self, _: InfoLogLevel, args: fmt::Arguments<'_>) {
        self.0.lock().push(args.to_string());
    }
    fn level(&self) -> InfoLogLevel {
        InfoLogLevel::Info
    }
}

fn file_options(fs: Arc<dyn FileSystem>, capacity: usize) -> FileSecondaryCacheOptions {
    FileSecondaryCacheOptions { path: "/tier".into(), capacity, fs, info_log: None }
}

fn fill(tier: &FileSecondaryCache, range: std::ops::Range<u64>) {
    for i in range {
        tier.insert(&key(i), saved(&contents(i)), true);
    }
    tier.settle();
}

/// The number of blocks in `range` that the tier has. Checks that their contents are right.
fn count(tier: &dyn SecondaryCache, range: std::ops::Range<u64>) -> usize {
    let lookups: Vec<Lookup> = range.clone().map(|i| tier.lookup(&key(i), false)).collect();
    let found = wait_all(lookups).into_iter().zip(range);
    found.filter_map(|(found, i)| found.map(|f| assert_eq!(*f.bytes, contents(i)))).count()
}

#[test]
fn entries_in_a_file_are_found_after_a_restart() {
    let fs: Arc<dyn FileSystem> = Arc::new(MemFs::new());
    let tier = FileSecondaryCache::open(file_options(Arc::clone(&fs), 1 << 20)).unwrap();
    fill(&tier, 0..100);
    assert_eq!(count(&tier, 0..200), 100);
    drop(tier);
    let tier = FileSecondaryCache::open(file_options(Arc::clone(&fs), 1 << 20)).unwrap();
    assert_eq!((tier.len(), count(&tier, 0..200)), (100, 100));
    assert!(
        FileSecondaryCache::open(file_options(Arc::clone(&fs), 1 << 20)).is_err(),
        "the directory is locked"
    );
    fill(&tier, 100..150);
    tier.erase(&key(0));
    assert_eq!(count(&tier, 0..200), 149);
}

#[test]
fn the_oldest_segments_go_when_the_capacity_is_used_up() {
    let fs: Arc<dyn FileSystem> = Arc::new(MemFs::new());
    let tier = FileSecondaryCache::open(file_options(Arc::clone(&fs), 128 << 10)).unwrap();
    let on_disk = || -> u64 {
        let names = fs.children(Path::new("/tier")).unwrap();
        names.iter().map(|name| fs.file_size(&Path::new("/tier").join(name)).unwrap()).sum()
    };
    fill(&tier, 0..1000);
    assert!(on_disk() <= 128 << 10, "{} bytes on disk", on_disk());
    assert_eq!(on_disk(), tier.usage() as u64);
    assert_eq!(count(&tier, 0..800), 0);
    assert!(count(&tier, 900..1000) >= 80);
    tier.set_capacity(32 << 10);
    assert!(on_disk() <= 32 << 10);
    assert!(
        tier.insert(&key(5000), saved(&vec![1; 64 << 10]), true) == Admission::Refused,
        "a value larger than the capacity is refused"
    );
}

/// A crash omits some writes, tears some and keeps some. Returned blocks are right, and the tier
/// continues.
#[test]
fn torn_blocks_are_forgotten() {
    let (mut found, mut lost) = (0, 0);
    for seed in 0..100 {
        let disk = CrashFs::new();
        let tier = FileSecondaryCache::open(file_options(Arc::new(disk.clone()), 1 << 20)).unwrap();
        fill(&tier, 0..50);
        let crashed = disk.crash_clone(&CrashChoices::random(seed));
        drop(tier);
        let tier = FileSecondaryCache::open(file_options(Arc::new(crashed), 1 << 20)).unwrap();
        let n = count(&tier, 0..50);
        found += n;
        lost += 50 - n;
        fill(&tier, 0..50);
        assert_eq!(count(&tier, 0..50), 50, "seed {seed}: removed values can be stored again");
    }
    assert!(found > 0 && lost > 0, "{found} found, {lost} lost");
}

#[test]
fn a_flipped_byte_is_a_miss() {
    let fs = MemFs::new();
    let tier = FileSecondaryCache::open(file_options(Arc::new(fs.clone()), 1 << 20)).unwrap();
    fill(&tier, 0..20);
    drop(tier);
    let path = Path::new("/tier/000001.tier");
    let size = fs.file_size(path).unwrap() as usize;
    let mut bytes = vec![0; size];
    fs.new_random_access_file(path).unwrap().read_at(0, &mut bytes).unwrap();
    for at in (16..size).step_by(97) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        let fs = MemFs::new();
        fs.create_dir_if_missing(Path::new("/tier")).unwrap();
        fs.new_writable_file(path).unwrap().append(&damaged).unwrap();
        let tier = FileSecondaryCache::open(file_options(Arc::new(fs), 1 << 20)).unwrap();
        let n = count(&tier, 0..20);
        assert!(n < 20, "byte {at} was changed");
    }
}

#[test]
fn a_failing_disk_turns_it_off_and_says_so_once() {
    for is_full in [false, true] {
        let fs = FaultFs::new(Arc::new(MemFs::new()));
        let log = Arc::new(Lines::default());
        let mut options = file_options(Arc::new(fs.clone()), 1 << 20);
        options.info_log = Some(log.clone());
        let tier = FileSecondaryCache::open(options).unwrap();
        fill(&tier, 0..10);
        assert_eq!(count(&tier, 0..10), 10);
        if is_full {
            fs.no_space_after(Some(100));
        } else {
            fs.add_rule(FaultRule::fail(&[OpKind::Append]).forever());
        }
        fill(&tier, 10..20);
        assert!(tier.is_off());
        assert_eq!(count(&tier, 0..20), 0, "a tier that is off has no values");
        assert_eq!(tier.insert(&key(30), saved(b"x"), true), Admission::Refused);
        let lines = log.0.lock().clone();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("/tier is turned off: "), "{lines:?}");
    }
}

#[test]
fn a_read_error_turns_it_off() {
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    let tier = FileSecondaryCache::open(file_options(Arc::new(fs.clone()), 1 << 20)).unwrap();
    fill(&tier, 0..10);
    fs.add_rule(FaultRule::fail(&[OpKind::Read]).forever());
    assert_eq!(count(&tier, 0..10), 0);
    assert!(tier.is_off());
}

/// The capacity also changes while the writer is in the middle of a segment.
#[test]
fn the_usage_stays_right_when_the_capacity_changes_back_and_forth() {
    let fs: Arc<dyn FileSystem> = Arc::new(MemFs::new());
    let tier = FileSecondaryCache::open(file_options(Arc::clone(&fs), 256 << 10)).unwrap();
    let on_disk = || -> usize {
        let names = fs.children(Path::new("/tier")).unwrap();
        names.iter().map(|name| fs.file_size(&Path::new("/tier").join(name)).unwrap() as usize).sum()
    };
    for round in 0..20 {
        fill(&tier, round * 10..round * 10 + 5);
        tier.set_capacity(0);
        assert_eq!((tier.usage(), on_disk(), tier.len()), (0, 0, 0), "round {round}");
        tier.set_capacity(256 << 10);
        fill(&tier, round * 10..round * 10 + 5);
        assert_eq!((count(&tier, round * 10..round * 10 + 5), tier.usage()), (5, on_disk()), "round {round}");
    }
    // Changes the capacity beside writers.
    std::thread::scope(|scope| {
        for part in 0..3 {
            let tier = &tier;
            scope.spawn(move || {
                for i in 0..500 {
                    tier.insert(&key(part * 1000 + i), saved(&contents(part * 1000 + i)), true);
                    count(tier, part * 1000 + i / 2..part * 1000 + i / 2 + 1);
                }
            });
        }
        for kib in [0, 256, 16, 1, 100, 0, 64].repeat(5) {
            tier.set_capacity(kib << 10);
            std::thread::yield_now();
        }
    });
    tier.settle();
    assert_eq!(tier.usage(), on_disk());
    assert!(tier.usage() <= 64 << 10 && !tier.is_off(), "{tier:?}");
}

/// Each segment keeps a file open, and a process may open a limited number.
#[test]
fn segments_stay_few_over_many_restarts() {
    let fs: Arc<dyn FileSystem> = Arc::new(MemFs::new());
    let segments = || {
        let names = fs.children(Path::new("/tier")).unwrap();
        names.iter().filter(|name| name.ends_with(".tier")).count()
    };
    let restarts = 400;
    for i in 0..restarts {
        let tier = FileSecondaryCache::open(file_options(Arc::clone(&fs), 64 << 20)).unwrap();
        fill(&tier, i..i + 1);
        assert!(tier.contains(&key(i)));
        drop(tier);
        assert!(segments() <= 256, "{} segments after {i} restarts", segments());
    }
    let tier = FileSecondaryCache::open(file_options(Arc::clone(&fs), 64 << 20)).unwrap();
    assert_eq!(count(&tier, restarts - 200..restarts), 200, "the newest values are found");
}

#[test]
fn a_large_capacity_is_cut_into_few_segments() {
    use file::{FULL_SEGMENTS, segment_bytes};
    assert_eq!((segment_bytes(64 << 20), segment_bytes(1 << 30)), (4 << 20, 64 << 20));
    for capacity in [1_usize << 36, 1 << 40, 1 << 45] {
        assert!(capacity.div_ceil(segment_bytes(capacity)) <= FULL_SEGMENTS, "{capacity}");
    }
}

#[test]
fn files_with_other_names_are_left_alone() {
    let fs: Arc<dyn FileSystem> = Arc::new(MemFs::new());
    fs.create_dir_if_missing(Path::new("/tier")).unwrap();
    let names = ["7.tier", "+00007.tier", "18446744073709551615.tier", "notes.tier", "000009.tier"];
    for name in names {
        fs.new_writable_file(&Path::new("/tier").join(name)).unwrap().append(b"text").unwrap();
    }
    let tier = FileSecondaryCache::open(file_options(Arc::clone(&fs), 1 << 20)).unwrap();
    fill(&tier, 0..10);
    assert_eq!((count(&tier, 0..10), tier.is_off()), (10, false));
    let mut there = fs.children(Path::new("/tier")).unwrap();
    there.sort();
    assert!(names.iter().all(|name| there.contains(&(*name).to_owned())), "{there:?}");
    assert!(there.contains(&"000010.tier".to_owned()), "{there:?}");
}

/// An insert beside the failure leaves no block that a lookup finds.
#[test]
fn nothing_is_found_after_the_tier_is_off() {
    for seed in 0..20 {
        let fs = FaultFs::new(Arc::new(MemFs::new()));
        let tier = FileSecondaryCache::open(file_options(Arc::new(fs.clone()), 1 << 20)).unwrap();
        std::thread::scope(|scope| {
            for part in 0..2 {
                let tier = &tier;
                scope.spawn(move || {
                    (0..100).for_each(|i| _ = tier.insert(&key(part * 100 + i), saved(&contents(i)), true));
                });
            }
            for _ in 0..seed {
                std::thread::yield_now();
            }
            fs.add_rule(FaultRule::fail(&[OpKind::Append]).forever());
        });
        fill(&tier, 500..501);
        assert!(tier.is_off());
        assert_eq!((tier.len(), count(&tier, 0..600)), (0, 0), "seed {seed}");
    }
}

/// The system refuses threads to this thread, as long as the value lives.
fn without_threads() -> Probes {
    let (probes, this) = (Probes::new(), current().id());
    probes.on("spawn", move |value| {
        let is_refused = value.downcast_mut::<bool>().expect("the point shows whether it refuses");
        *is_refused |= current().id() == this;
    });
    probes
}

#[test]
fn a_tier_without_its_thread_works_in_memory_until_it_has_one() {
    if !cfg!(debug_assertions) {
        return;
    }
    let refusal = without_threads();
    let tier = FileSecondaryCache::open(file_options(Arc::new(MemFs::new()), 32 << 20)).unwrap();
    fill(&tier, 0..100);
    assert_eq!((count(&tier, 0..200), tier.usage(), tier.is_off()), (100, 0, false));
    // The queue takes two of these.
    let large = vec![7; 3 << 20];
    let insert_large = |i| tier.insert(&key(i), saved(&large), true);
    assert_eq!([1000, 1016].map(insert_large), [Admission::Stored; 2]);
    assert_eq!([1032, 1032].map(insert_large), [Admission::Refused; 2]);
    assert_eq!((offer(&tier, 5), tier.usage()), (Admission::Present, 0));
    assert_eq!(*tier.lookup(&key(1016), false).wait().unwrap().bytes, large);
    drop(refusal);
    // The block that the full queue refuses starts the thread.
    let is_stored = (0..1 << 24).any(|_| {
        std::thread::yield_now();
        insert_large(1032) == Admission::Stored
    });
    assert!(is_stored, "no thread empties the queue");
    tier.settle();
    assert!(tier.usage() > 3 * large.len(), "{tier:?}");
    assert_eq!((tier.len(), count(&tier, 0..100)), (103, 100));
}

#[test]
fn a_tier_that_never_had_its_thread_writes_its_queue_when_it_is_closed() {
    if !cfg!(debug_assertions) {
        return;
    }
    let fs: Arc<dyn FileSystem> = Arc::new(MemFs::new());
    let refusal = without_threads();
    let tier = FileSecondaryCache::open(file_options(Arc::clone(&fs), 1 << 20)).unwrap();
    fill(&tier, 0..100);
    drop(tier);
    let tier = FileSecondaryCache::open(file_options(fs, 1 << 20)).unwrap();
    assert_eq!((tier.len(), count(&tier, 0..100)), (100, 100));
    assert!(tier.usage() > 0, "the blocks are in files");
    drop(refusal);
}

/// Blocks evicted from the compressed tier go to the file as they are, compressed, and come back
/// from there.
#[test]
fn compressed_blocks_go_on_to_the_file() {
    let file = FileSecondaryCache::open(file_options(Arc::new(MemFs::new()), 4 << 20)).unwrap();
    let file = Arc::new(file);
    let options = CompressedSecondaryCacheOptions::with_capacity(64 << 10);
    let tier = CompressedSecondaryCache::above(&options, Some(file.clone())).unwrap();
    for i in 0..500 {
        tier.insert(&key(i), saved(&contents(i)), true);
    }
    tier.settle();
    assert_eq!(count(&tier, 0..500), 500, "the file has all values: {}", file.len());
    assert!(file.len() > 300 && file.usage() < 450 * 1024, "compressed: {file:?}");
}

/// Checks the values, usage and capacities of a cache and its tier during random operations. At the
/// end all charges must be released.
#[test]
fn nothing_is_lost_or_counted_twice() {
    for (seed, cache_type) in [
        CacheType::Lru,
        CacheType::AutoHyperClock,
        CacheType::FixedHyperClock { estimated_entry_charge: 1024 },
    ]
    .into_iter()
    .enumerate()
    {
        let division = TieredCacheOptions {
            total_capacity: 300 << 10,
            compressed_secondary_ratio: 0.5,
            adm_policy: AdmissionPolicy::AllowAll,
        };
        let options = CacheOptions { cache_type, num_shard_bits: 0, ..CacheOptions::default() };
        let tier: Arc<dyn SecondaryCache> = Arc::new(compressed(0));
        let cache: Arc<Cache<Vec<u8>>> = Arc::new(
            Cache::tiered(&options, Arc::clone(&tier), |v: &Vec<u8>| Some(v.as_slice()), &division).unwrap(),
        );
        let mut rng = Rng::new(seed as u64);
        let mut reservations = HashMap::new();
        let (mut hits, mut from_below) = (0, 0);
        for step in 0..6_000 {
            let i = rng.below(400);
            match rng.below(100) {
                0..=89 => {
                    if let Some(value) = cache.lookup(&key(i)) {
                        assert_eq!(*value, contents(i));
                        hits += 1;
                    } else {
                        let found = cache.look_below(&key(i), true).wait();
                        from_below += usize::from(found.is_some());
                        let value = found.map_or_else(|| contents(i), |found| found.bytes.to_vec());
                        assert_eq!(value, contents(i));
                        let inserted =
                            cache.insert(key(i), value, 1024, CachePriority::Low, Role::DataBlock).unwrap();
                        drop(inserted);
                    }
                }
                90..=92 => {
                    cache.erase(&key(i));
                    assert!(!cache.contains(&key(i)) && !tier.contains(&key(i)));
                }
                93..=95 => {
                    let bytes = rng.below(16 << 10) as usize;
                    reservations.insert(rng.below(4), cache.reserve(Role::Misc, bytes).unwrap());
                }
                96 => _ = reservations.remove(&rng.below(4)),
                97 => cache.update_tiered(None, Some(rng.below(101) as f64 / 100.0), None).unwrap(),
                98 => cache.set_capacity((200 << 10) + rng.below(200 << 10) as usize),
                _ => cache.erase_unreferenced(),
            }
            let reserved: usize =
                reservations.values().map(|r: &esker_cache::Reservation<_>| r.bytes()).sum();
            let (total, below) = (cache.capacity(), tier.capacity());
            let share = (total - reserved) as f64;
            assert!(below as f64 <= share, "step {step}: {below} of {share}");
            assert!(tier.usage() <= below.max(16 << 10) + 1024, "step {step}: {} of {below}", tier.usage());
            let all = cache.usage() + tier.usage();
            assert!(all <= total + (20 << 10), "step {step}: {all} of {total}");
        }
        drop(reservations);
        assert!(hits > 500 && from_below > 200, "{cache_type:?}: {hits} hits, {from_below} from below");
        cache.erase_unreferenced();
        cache.update_tiered(None, Some(0.0), None).unwrap();
        // Epoch guards of other tests may delay the release of values. Their threads may also be
        // freeing values.
        while cache.role_stats().bytes(Role::DataBlock) > 0 {
            esker_base::sync::epoch::collect();
            std::thread::yield_now();
        }
        assert_eq!(cache.role_stats().bytes(Role::DataBlock), 0, "all charges were released");
    }
}
