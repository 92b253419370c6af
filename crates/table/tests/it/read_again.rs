//! A read of damaged bytes is done once more. In each read of a table or a blob file in turn, a bit
//! is flipped once or twice.

use crate::util::*;
use esker_base::stats::{Statistics, Ticker};
use esker_base::{ColumnFamilyId, ErrorKind, FileNumber, Result, SequenceNumber, ValueType};
use esker_env::{FaultFs, FaultRule, FileSystem, MemFs, RandomAccessFile};
use esker_format::compression::{CodecOptions, CompressionType};
use esker_format::cursor::InternalIterator;
use esker_format::key::{InternalKeyComparator, LookupKey, internal_key};
use esker_table::blob::{BlobFileBuilder, BlobFileReader};
use esker_table::{BlockBasedTableOptions, TableReadOptions, TableReader, TableReaderOptions};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const PATH: &str = "/file";

/// A disk with one file, and its statistics.
struct Scene {
    fs: FaultFs,
    statistics: Arc<Statistics>,
}

impl Scene {
    fn new(bytes: &[u8], seed: u64) -> Scene {
        let fs = MemFs::new();
        let mut file = fs.new_writable_file(Path::new(PATH)).unwrap();
        file.append(bytes).unwrap();
        file.close().unwrap();
        Scene { fs: FaultFs::with_seed(Arc::new(fs), seed), statistics: Arc::default() }
    }

    /// Number of repeated reads, and of those that helped.
    fn counts(&self) -> (u64, u64) {
        let count = |ticker| self.statistics.ticker_count(ticker);
        (count(Ticker::FileReadCorruptionRetryCount), count(Ticker::FileReadCorruptionRetrySuccessCount))
    }
}

/// Flips a bit in each of the reads of `learn`, in turn.
fn flip_each<T: PartialEq + std::fmt::Debug>(bytes: &[u8], learn: &dyn Fn(&Scene) -> Result<T>) {
    let whole = Scene::new(bytes, 0);
    let want = learn(&whole).unwrap();
    assert_eq!(whole.counts(), (0, 0));
    let (mut helped, mut damaged) = (0, 0);
    for n in 0..u64::MAX {
        let scene = Scene::new(bytes, n);
        scene.fs.add_rule(FaultRule::bit_flip().nth(n));
        assert_eq!(learn(&scene).unwrap(), want, "read {n}");
        assert_eq!(scene.counts().0, scene.counts().1, "read {n}");
        helped += scene.counts().1;
        if scene.fs.fault_count() == 0 {
            break;
        }
        // The second flip hits the repeated read: it is the next read of the file.
        let scene = Scene::new(bytes, n);
        scene.fs.add_rule(FaultRule::bit_flip().nth(n).times(2));
        match learn(&scene) {
            Ok(answer) => assert_eq!(answer, want, "read {n}, twice"),
            Err(e) => {
                assert!(matches!(e.kind(), ErrorKind::Corruption | ErrorKind::NotSupported), "{e}");
                assert!(e.message().contains(PATH), "{e}");
                assert_eq!(scene.counts().0, scene.counts().1 + 1, "read {n}, twice");
                damaged += 1;
            }
        }
    }
    assert!(helped > 5 && damaged > 5, "{helped} and {damaged}");
}

/// Everything that a reader can read from a table.
fn learn_table(scene: &Scene, table: &BlockBasedTableOptions) -> Result<(Vec<Entry>, Vec<Entry>, u64)> {
    let file = scene.fs.new_random_access_file(Path::new(PATH))?;
    let size = file.size()?;
    let mut options =
        TableReaderOptions::new(InternalKeyComparator::default(), Arc::new(table.clone()), size);
    options.statistics = Some(Arc::clone(&scene.statistics));
    // A short tail, so that data blocks are read on their own.
    options.tail_size = 2000;
    let reader = TableReader::open(file, options)?;
    let entries = scan(&reader)?;
    let backwards = scan_backwards(&reader)?;
    let mut found = 0;
    for (i, (key, ..)) in entries.iter().enumerate().step_by(9) {
        let options = TableReadOptions { fill_cache: i % 2 == 0, ..Default::default() };
        let lookup = LookupKey::new(key, SequenceNumber::MAX);
        reader.get(&options, &lookup, &mut |_, _| {
            found += 1;
            false
        })?;
        let mut iter = reader.iter(TableReadOptions { readahead_size: 1000, ..options });
        iter.seek(&ikey_of(&entries[i]));
        iter.status()?;
    }
    reader.verify(&mut |_| true)?;
    Ok((entries, backwards, found + reader.properties().num_entries))
}

#[test]
fn a_bit_that_is_wrong_once_changes_nothing_in_a_table() {
    for (no_block_cache, compression) in [(false, CompressionType::Zstd), (true, CompressionType::None)] {
        let cached = BlockBasedTableOptions { block_size: 300, no_block_cache, ..with_filters() };
        let mut options = builder_options(cached.clone());
        options.compression = compression;
        let mut entries = sample_entries(&mut Rng::new(11), 120, 20);
        entries.push((internal_key(b"a", SequenceNumber(9), ValueType::RangeDeletion), b"b".to_vec()));
        let bytes = write_table(options, entries).unwrap().0;
        flip_each(&bytes, &|scene| {
            let block_cache = Some(esker_table::default_block_cache());
            learn_table(scene, &BlockBasedTableOptions { block_cache, ..cached.clone() })
        });
    }
}

#[test]
fn a_bit_that_is_wrong_once_changes_nothing_in_a_blob_file() {
    let fs = MemFs::new();
    let file = fs.new_writable_file(Path::new(PATH)).unwrap();
    let mut builder = BlobFileBuilder::new(
        file,
        FileNumber(7),
        ColumnFamilyId(3),
        CompressionType::Lz4,
        &CodecOptions::default(),
    )
    .unwrap();
    let pairs: Vec<_> = (0..20_u8).map(|i| (vec![i], vec![i; 100 * usize::from(i)])).collect();
    let locations: Vec<_> = pairs.iter().map(|(key, value)| builder.add(key, value).unwrap()).collect();
    builder.finish().unwrap().0.close().unwrap();
    let mut bytes = vec![0; fs.file_size(Path::new(PATH)).unwrap() as usize];
    fs.new_random_access_file(Path::new(PATH)).unwrap().read_at(0, &mut bytes).unwrap();
    flip_each(&bytes, &|scene| {
        let file = scene.fs.new_random_access_file(Path::new(PATH))?;
        let reader = BlobFileReader::open_counting(file, Some(Arc::clone(&scene.statistics)))?;
        let values =
            pairs.iter().zip(&locations).map(|((key, _), location)| reader.value(key, location, true));
        let values: Vec<_> = values.collect::<Result<_>>()?;
        reader.verify()?;
        Ok((values, reader.blob_count()))
    });
}

/// A file whose bytes 0 to 30 have one bit flipped the first time they are read.
#[derive(Debug)]
struct FlippedHead {
    file: Arc<dyn RandomAccessFile>,
    bit: usize,
    is_flipped: AtomicBool,
}

impl RandomAccessFile for FlippedHead {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let read = self.file.read_at(offset, buffer)?;
        if offset == 0 && !self.is_flipped.swap(true, Ordering::Relaxed) {
            buffer[self.bit / 8] ^= 1 << (self.bit % 8);
        }
        Ok(read)
    }
    fn size(&self) -> Result<u64> {
        self.file.size()
    }
    fn path(&self) -> &Path {
        self.file.path()
    }
}

/// The head of a blob file has no checksum, and a flipped bit may be as valid: another codec or
/// family.
#[test]
fn a_bit_of_a_blob_files_head_that_is_wrong_once_changes_no_value() {
    for compression in
        [CompressionType::None, CompressionType::Snappy, CompressionType::Lz4, CompressionType::Zstd]
    {
        let fs = MemFs::new();
        let file = fs.new_writable_file(Path::new(PATH)).unwrap();
        let mut builder = BlobFileBuilder::new(
            file,
            FileNumber(7),
            ColumnFamilyId(3),
            compression,
            &CodecOptions::default(),
        )
        .unwrap();
        let value = b"said twice, said twice".repeat(10);
        let location = builder.add(b"key", &value).unwrap();
        builder.finish().unwrap().0.close().unwrap();
        for bit in 0..30 * 8 {
            let file = fs.new_random_access_file(Path::new(PATH)).unwrap();
            let reader = |file| {
                BlobFileReader::open(Arc::new(FlippedHead { file, bit, is_flipped: AtomicBool::new(false) }))
            };
            let whole = reader(Arc::clone(&file)).unwrap();
            assert_eq!(whole.value(b"key", &location, true).unwrap(), value, "{compression:?}, bit {bit}");
            reader(file).unwrap().verify().unwrap_or_else(|e| panic!("{compression:?}, bit {bit}: {e}"));
        }
    }
}
