//! Tables with values between their data blocks, written by `SstFileWriter`.

use esker::internals::env::mem::MemFs;
use esker::options::{CompressionType, FilterPolicy, IndexType, TargetVersion};
use esker::{
    CompactRangeOptions, Db, DbIterator, Env, ErrorKind, Options, ReadOptions, SstFileReader, SstFileWriter,
    SstFileWriterEmbeddedBlobOptions, builtin,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const STATS: &[u8] = b"rocksdb.embedded.blob.stats";

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.db.compatible_with = TargetVersion::V11;
    options.cf.table.format_version = 7;
    options.cf.merge_operator = Some(builtin::string_append(","));
    options
}

fn random_options(rng: &mut fastrand::Rng) -> Options {
    let mut options = options();
    if rng.bool() {
        options.db.compatible_with = TargetVersion::V11_10;
        options.cf.table.format_version = 8;
    }
    options.cf.compression = if rng.bool() { CompressionType::Zstd } else { CompressionType::None };
    options.cf.compression_opts.max_dict_bytes = if rng.bool() { 2048 } else { 0 };
    options.cf.table.block_size = 1 << rng.u32(6..13);
    options.cf.table.index_type = match rng.u8(..3) {
        0 => IndexType::BinarySearch,
        1 => IndexType::TwoLevel,
        _ => IndexType::BinarySearchWithFirstKey,
    };
    options.cf.table.metadata_block_size = 256;
    options.cf.table.partition_filters = rng.bool();
    options.cf.table.filter_policy = rng.bool().then(|| FilterPolicy::bloom(10.0));
    options.cf.table.separate_key_value_in_data_block = rng.bool();
    options
}

/// Columns by name; a plain value is the column with the empty name.
type Row = BTreeMap<Vec<u8>, Vec<u8>>;

/// Rows by key, as readers see them.
type Model = BTreeMap<Vec<u8>, Row>;

/// A value whose size is about `least`, on both sides of it.
fn value(rng: &mut fastrand::Rng, least: usize) -> Vec<u8> {
    let size = if rng.bool() { rng.usize(..least + 1) } else { least + rng.usize(..300) };
    std::iter::repeat_with(|| rng.u8(b'a'..b'e')).take(size).collect()
}

/// Writes a table. Returns the rows, and the number and bytes of the values that go apart.
fn write(options: &Options, least: usize, rng: &mut fastrand::Rng) -> (Model, u64, u64) {
    let mut writer = SstFileWriter::new(options);
    let apart = SstFileWriterEmbeddedBlobOptions::default().min_blob_size(least as u64);
    writer.open_with_embedded_blobs("/table", &apart).unwrap();
    let (mut model, mut blobs, mut bytes) = (Model::new(), 0, 0);
    let mut count = |value: &Vec<u8>| {
        if value.len() >= least {
            (blobs, bytes) = (blobs + 1, bytes + value.len() as u64);
        }
    };
    for i in 0..rng.usize(1..200) {
        let key = format!("key{i:04}").into_bytes();
        match rng.u8(..6) {
            0 => writer.delete(&key).unwrap(),
            1 => {
                let operand = value(rng, least);
                writer.merge(&key, &operand).unwrap();
                model.insert(key, Row::from([(Vec::new(), operand)]));
            }
            2 => {
                let row: Row = (0..rng.u8(1..5)).map(|c| (vec![b'c', c], value(rng, least))).collect();
                row.values().for_each(&mut count);
                let columns: Vec<(&[u8], &[u8])> = row.iter().map(|(n, v)| (&n[..], &v[..])).collect();
                writer.put_entity(&key, &columns).unwrap();
                model.insert(key, row);
            }
            _ => {
                let value = value(rng, least);
                count(&value);
                writer.put(&key, &value).unwrap();
                model.insert(key, Row::from([(Vec::new(), value)]));
            }
        }
    }
    writer.delete_range("key0000", "key0003").unwrap();
    writer.finish().unwrap();
    (model, blobs, bytes)
}

fn rows(mut iter: DbIterator) -> Model {
    let mut rows = Model::new();
    iter.seek_to_first();
    while iter.valid() {
        let row = iter.columns().into_iter().map(|(n, v)| (n.to_vec(), v.to_vec())).collect();
        rows.insert(iter.key().to_vec(), row);
        iter.next();
    }
    iter.status().unwrap();
    rows
}

#[test]
fn a_table_with_embedded_blobs_reads_as_the_values_that_were_put() {
    let mut all_blobs = 0;
    for seed in 0..60 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let options = random_options(&mut rng);
        let least = [0, 1, 50, 2048][rng.usize(..4)];
        let (model, blobs, bytes) = write(&options, least, &mut rng);
        all_blobs += blobs;
        let reader = SstFileReader::open(&options, "/table").unwrap();
        reader.verify_checksum().unwrap();
        let stats = reader.table_properties().user_collected_properties.get(STATS);
        let varints = |mut n: u64, out: &mut Vec<u8>| {
            while n >= 128 {
                out.push((n & 127) as u8 | 128);
                n >>= 7;
            }
            out.push(n as u8);
        };
        let mut expected = Vec::new();
        varints(blobs, &mut expected);
        varints(bytes, &mut expected);
        assert_eq!(stats, (blobs > 0).then_some(&expected), "seed {seed}");
        assert!(!reader.table_properties().index_value_is_delta_encoded);

        let db = Db::open(&options, "/db").unwrap();
        db.put("key0001", "older").unwrap();
        db.flush().unwrap();
        db.ingest_external_file(&["/table"]).unwrap();
        let check = |what: &str| {
            assert_eq!(rows(db.iter().unwrap()), model, "seed {seed}: {what}");
            for (key, row) in &model {
                let plain = row.get(&b""[..]).cloned().unwrap_or_default();
                assert_eq!(db.get(key).unwrap().as_deref(), Some(&plain[..]), "seed {seed}: {what}");
            }
        };
        check("ingested");
        let family = db.default_column_family();
        db.compact_range_opt(&CompactRangeOptions::default(), &family, None, None).unwrap();
        check("compacted");
        let tables = db.properties_of_all_tables(&family).unwrap();
        assert!(tables.values().all(|p| !p.user_collected_properties.contains_key(STATS)));
    }
    assert!(all_blobs > 1000, "{all_blobs}");
}

/// The bounds in the facts with which an ingestion need not open the file.
#[test]
fn prepared_bounds_of_such_a_file_are_those_of_a_file_without_embedded_blobs() {
    for seed in 0..20 {
        let options = options();
        let prepared = |least: Option<u64>| {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut writer = SstFileWriter::new(&options);
            match least {
                None => writer.open("/table").unwrap(),
                Some(least) => {
                    let apart = SstFileWriterEmbeddedBlobOptions::default().min_blob_size(least);
                    writer.open_with_embedded_blobs("/table", &apart).unwrap();
                }
            }
            for key in rng.char('a'..='c')..='d' {
                writer.put(key.to_string(), vec![b'v'; rng.usize(..20)]).unwrap();
            }
            if rng.bool() {
                writer.delete_range("a", "b").unwrap();
            }
            let info = writer.finish().unwrap().prepared_file_info.unwrap();
            let text = format!("{info:?}");
            let bounds = text.find("smallest: ").zip(text.find("properties: "));
            bounds.map(|(from, to)| text[from..to].to_owned()).unwrap()
        };
        assert_eq!(prepared(Some(10)), prepared(None), "seed {seed}");
    }
}

/// RocksDB 11.9 wrote the fixture from the same values, of which those of 50 bytes or more are
/// embedded.
#[test]
fn a_table_with_embedded_blobs_differs_from_that_of_rocksdb_in_checksums_only() {
    let theirs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/v11_9_embedded_blob_sst/emb.sst");
    let mut options = Options::default();
    options.db.compatible_with = TargetVersion::V11;
    options.cf.table.format_version = 7;
    let reader = SstFileReader::open(&options, &theirs).unwrap();
    let p = reader.table_properties();
    options.cf.compression = CompressionType::None;
    options.cf.table.block_size = 4096;
    let dir = esker_testkit::TempDir::new("embedded");
    let mut writer = SstFileWriter::new(&options);
    let apart = SstFileWriterEmbeddedBlobOptions::default().min_blob_size(50);
    let ours = dir.join("ours.sst");
    writer.open_with_embedded_blobs(&ours, &apart).unwrap();
    let mut iter = reader.iter(&ReadOptions::default()).unwrap();
    iter.seek_to_first();
    while let Some((key, value)) = iter.item() {
        writer.put(key, value).unwrap();
        iter.next();
    }
    writer.finish().unwrap();
    let made = SstFileReader::open(&options, &ours).unwrap();
    let q = made.table_properties();
    let stats = |p: &esker::TableProperties| p.user_collected_properties.get(STATS).cloned();
    assert!(stats(p).is_some());
    assert_eq!(stats(q), stats(p));
    assert_eq!(q.num_data_blocks, p.num_data_blocks);
    assert_eq!((q.raw_key_size, q.raw_value_size), (p.raw_key_size, p.raw_value_size));
    assert_eq!(q.index_value_is_delta_encoded, p.index_value_is_delta_encoded);
    // All records lie before the only data block, which has a codec in the fixture. Their number
    // and their bytes are varints.
    let (count, bytes) = match stats(p).unwrap()[..] {
        [count, bytes] => (usize::from(count), usize::from(bytes)),
        [count, low, high] => (usize::from(count), usize::from(low & 127) | usize::from(high) << 7),
        _ => panic!("{:?}", stats(p)),
    };
    let records = bytes + 5 * count;
    #[expect(clippy::disallowed_methods, reason = "the bytes of tables on the machine's disk")]
    let read = |path: &Path| std::fs::read(path).unwrap()[..records].to_vec();
    let (ours, theirs) = (read(&ours), read(&theirs));
    let differing = ours.iter().zip(&theirs).filter(|(a, b)| a != b).count();
    // Checksums depend on the file's session.
    assert!(count >= 10 && differing <= 4 * count, "{differing} bytes of {count} records");
}

#[test]
fn embedded_blobs_need_a_table_format_that_rocksdb_reads_them_in() {
    let apart = SstFileWriterEmbeddedBlobOptions::default();
    assert_eq!(apart.min_blob_size, 2048);
    let refused = |change: fn(&mut Options)| {
        let mut options = options();
        change(&mut options);
        let error = SstFileWriter::new(&options).open_with_embedded_blobs("/table", &apart).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(!options.db.env.fs.file_exists(Path::new("/table")).unwrap());
        error.message().to_owned()
    };
    assert!(refused(|o| o.cf.table.format_version = 6).contains("format_version >= 7"));
    assert!(refused(|o| o.db.compatible_with = TargetVersion::V10).contains("embedded blobs"));
    // A plain open embeds nothing.
    let options = options();
    let mut writer = SstFileWriter::new(&options);
    writer.open("/table").unwrap();
    writer.put("k", vec![1; 5000]).unwrap();
    writer.finish().unwrap();
    let reader = SstFileReader::open(&options, "/table").unwrap();
    assert!(!reader.table_properties().user_collected_properties.contains_key(STATS));
}

#[test]
fn a_data_block_names_a_mebibyte_of_values_and_no_more_than_one_value_beyond_it() {
    let options = options();
    let mut writer = SstFileWriter::new(&options);
    writer.open_with_embedded_blobs("/table", &SstFileWriterEmbeddedBlobOptions::default()).unwrap();
    for i in 0..10 {
        writer.put(format!("{i:02}"), vec![i; 400 << 10]).unwrap();
    }
    writer.finish().unwrap();
    let reader = SstFileReader::open(&options, "/table").unwrap();
    assert_eq!(reader.table_properties().num_data_blocks, 5, "two values in each");
    reader.verify_num_entries().unwrap();
}
