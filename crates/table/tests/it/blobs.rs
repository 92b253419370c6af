//! Blob files: there and back under each codec, and what is damaged is an error, never another
//! value.

use esker_base::{ColumnFamilyId, FileNumber, stats::Statistics, stats::Ticker};
use esker_cache::{Cache, CacheOptions};
use esker_env::{FileSystem, MemFs};
use esker_format::blob::{BlobIndex, BlobLocation};
use esker_format::compression::{CodecOptions, CompressionType};
use esker_format::file_name::blob_file_name;
use esker_table::blob::{BlobFileBuilder, BlobFileReader, BlobSource, BlobSourceOptions};
use esker_table::{TableReadOptions, TableReadTier};
use std::path::Path;
use std::sync::Arc;

const NUMBER: FileNumber = FileNumber(7);

fn dir() -> &'static Path {
    Path::new("/db")
}

/// Keys and values of many lengths, some that no codec makes smaller.
fn pairs() -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rng = fastrand::Rng::with_seed(17);
    let random = |rng: &mut fastrand::Rng, n: usize| (0..n).map(|_| rng.u8(..)).collect::<Vec<u8>>();
    (0..40)
        .map(|i| {
            let value = if i % 3 == 0 { random(&mut rng, i * 50) } else { vec![i as u8; i * 100] };
            (format!("key{i:03}").into_bytes(), value)
        })
        .collect()
}

fn write(fs: &dyn FileSystem, compression: CompressionType) -> Vec<BlobLocation> {
    fs.create_dir_if_missing(dir()).unwrap();
    let file = fs.new_writable_file(&blob_file_name(dir(), NUMBER)).unwrap();
    let mut builder =
        BlobFileBuilder::new(file, NUMBER, ColumnFamilyId(3), compression, &CodecOptions::default()).unwrap();
    let locations = pairs().iter().map(|(k, v)| builder.add(k, v).unwrap()).collect();
    let bytes = builder.file_size();
    let (mut file, info) = builder.finish().unwrap();
    assert_eq!((info.blob_count, info.blob_bytes + 30), (40, bytes));
    file.close().unwrap();
    locations
}

fn open(fs: &dyn FileSystem) -> esker_base::Result<BlobFileReader> {
    BlobFileReader::open(fs.new_random_access_file(&blob_file_name(dir(), NUMBER))?)
}

#[test]
fn values_of_every_codec_come_back() {
    for compression in [
        CompressionType::None,
        CompressionType::Snappy,
        CompressionType::Zlib,
        CompressionType::Lz4,
        CompressionType::Lz4hc,
        CompressionType::Zstd,
    ] {
        let fs = MemFs::new();
        let locations = write(&fs, compression);
        let reader = open(&fs).unwrap();
        reader.verify().unwrap();
        assert_eq!((reader.blob_count(), reader.header().column_family), (40, ColumnFamilyId(3)));
        for ((key, value), location) in pairs().iter().zip(&locations) {
            for verify in [true, false] {
                assert_eq!(&reader.value(key, location, verify).unwrap(), value, "{compression:?}");
            }
        }
        let mut seen = Vec::new();
        reader
            .for_each_record(&mut |record| {
                seen.push((record.user_key.to_vec(), reader.decompress(record)?));
                Ok(())
            })
            .unwrap();
        assert_eq!(seen, pairs());
    }
}

/// One flipped bit anywhere, or a file cut anywhere, makes errors that name the file, never another
/// value.
#[test]
fn damage_is_an_error_and_never_another_value() {
    for compression in [CompressionType::None, CompressionType::Lz4] {
        let fs = MemFs::new();
        let locations = write(&fs, compression);
        let path = blob_file_name(dir(), NUMBER);
        let whole = {
            let file = fs.new_random_access_file(&path).unwrap();
            let mut bytes = vec![0; file.size().unwrap() as usize];
            file.read_at(0, &mut bytes).unwrap();
            bytes
        };
        let rewrite = |bytes: &[u8]| {
            let mut file = fs.new_writable_file(&path).unwrap();
            file.append(bytes).unwrap();
            file.close().unwrap();
        };
        let step = whole.len() / 400;
        let flips = (0..30).chain((30..whole.len()).step_by(step)).chain(whole.len() - 32..whole.len());
        for at in flips {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            rewrite(&bytes);
            let reader = match open(&fs) {
                Ok(reader) => reader,
                Err(e) => {
                    assert!(e.to_string().contains("000007.blob"), "{e}");
                    continue;
                }
            };
            // The family is in the header without a checksum.
            assert!(reader.verify().is_err() || (8..12).contains(&at), "{at}");
            for ((key, value), location) in pairs().iter().zip(&locations) {
                match reader.value(key, location, true) {
                    Ok(read) => assert_eq!(&read, value, "{at}"),
                    Err(e) => assert!(e.to_string().contains("000007.blob"), "{e}"),
                }
            }
        }
        for cut in (0..whole.len()).step_by(step) {
            rewrite(&whole[..cut]);
            assert!(open(&fs).unwrap_err().is_corruption(), "cut at {cut}");
        }
    }
}

#[test]
fn an_index_that_points_astray_is_an_error() {
    let fs = MemFs::new();
    let locations = write(&fs, CompressionType::None);
    let reader = open(&fs).unwrap();
    let (key, at) = (&pairs()[5].0, locations[5]);
    for wrong in [
        BlobLocation { offset: at.offset + 1, ..at },
        BlobLocation { offset: 3, ..at },
        BlobLocation { offset: u64::MAX, ..at },
        BlobLocation { size: at.size - 1, ..at },
        BlobLocation { size: u64::MAX - at.offset, ..at },
        BlobLocation { compression: 4, ..at },
        locations[6],
    ] {
        assert!(reader.value(key, &wrong, true).unwrap_err().is_corruption(), "{wrong:?}");
    }
}

#[test]
fn values_are_kept_in_the_blob_cache() {
    let fs: Arc<dyn FileSystem> = Arc::new(MemFs::new());
    let location = write(fs.as_ref(), CompressionType::Lz4)[20];
    let statistics = Arc::new(Statistics::new());
    let cache = Arc::new(Cache::new(&CacheOptions::with_capacity(1 << 20)).unwrap());
    let options = BlobSourceOptions {
        dir: dir().to_owned(),
        open_files: esker_table::OpenFiles::new(None),
        cache: Some(cache),
        charged_to: None,
        use_direct_reads: false,
        statistics: Some(Arc::clone(&statistics)),
        clock: Arc::new(esker_env::SystemClock),
    };
    let source = BlobSource::new(fs, options);
    let (key, value) = &pairs()[20];
    let mut index = Vec::new();
    BlobIndex::Blob(location).append_to(&mut index);
    let read = TableReadOptions::default();
    let cached = TableReadOptions { read_tier: TableReadTier::BlockCache, ..read };
    let past = TableReadOptions { fill_cache: false, ..read };
    assert_eq!(source.value(key, &index, &past).unwrap(), *value);
    assert_eq!(source.value(key, &index, &cached).unwrap_err().kind(), esker_base::ErrorKind::Incomplete);
    assert_eq!(source.value(key, &index, &read).unwrap(), *value);
    assert_eq!(source.value(key, &index, &cached).unwrap(), *value);
    let ticks = |ticker| statistics.ticker_count(ticker);
    assert_eq!((ticks(Ticker::BlobDbCacheHit), ticks(Ticker::BlobDbCacheAdd)), (1, 1));
    assert_eq!(ticks(Ticker::BlobDbBlobFileBytesRead), 2 * location.size);
}
