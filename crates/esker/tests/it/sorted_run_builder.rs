//! Entries in any order become sorted tables.

use esker::comparator::{ComparatorRef, ReverseBytewiseComparator};
use esker::internals::env::mem::MemFs;
use esker::options::CompressionType;
use esker::{
    Db, DbIterator, Env, Error, ErrorKind, IngestExternalFileOptions, Options, ReadOptions, SortedRunBuilder,
    SortedRunBuilderOptions, SstFileReader, WriteBatch,
};
use esker_testkit::seed::for_each_seed;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

fn options(fs: &Arc<MemFs>) -> SortedRunBuilderOptions {
    SortedRunBuilderOptions::new("/sort").env(Env::with_fs(fs.clone()))
}

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn all(mut iter: DbIterator) -> Entries {
    let mut entries = Entries::new();
    iter.seek_to_first();
    while let Some((key, value)) = iter.item() {
        entries.push((key.to_vec(), value.to_vec()));
        iter.next();
    }
    iter.status().unwrap();
    entries
}

#[test]
fn entries_in_any_order_become_the_sorted_tables_of_a_model() {
    for_each_seed("sorted runs", 6, |_, mut rng| {
        let fs = Arc::new(MemFs::new());
        let small = options(&fs)
            .write_buffer_size(64 << 10)
            .target_file_size_bytes(32 << 10)
            .compression(CompressionType::None);
        let mut builder = SortedRunBuilder::create(small).unwrap();
        let mut model = BTreeMap::new();
        let mut added = 0;
        for number in 0..rng.u32(1..6000) {
            let key = format!("{:06}", rng.u32(..4000)).into_bytes();
            let value = format!("{number}-{}", "v".repeat(rng.usize(..60))).into_bytes();
            model.insert(key.clone(), value.clone());
            added += 1;
            if rng.bool() {
                builder.add(&key, &value).unwrap();
                continue;
            }
            let mut batch = WriteBatch::new();
            batch.put("overwritten by the same batch", "1").unwrap();
            batch.put("overwritten by the same batch", "2").unwrap();
            batch.put(&key, &value).unwrap();
            builder.add_batch(&batch).unwrap();
            model.insert(b"overwritten by the same batch".to_vec(), b"2".to_vec());
            added += 2;
        }
        assert_eq!(builder.num_entries(), added);
        assert!(builder.output_files().is_empty());
        builder.finish().unwrap();
        let sorted: Entries = model.into_iter().collect();
        assert_eq!(builder.num_entries(), sorted.len() as u64);
        assert!(all(builder.iter(ReadOptions::default()).unwrap()) == sorted);

        // Each table alone, one after the other, gives the same.
        let mut read = Options::default();
        read.db.env = Env::with_fs(fs.clone());
        let (mut found, mut bytes) = (Entries::new(), 0);
        for path in builder.output_files() {
            let reader = SstFileReader::open(&read, path).unwrap();
            reader.verify_checksum().unwrap();
            let mut entries = reader.table_iter();
            entries.seek_to_first();
            while entries.valid() {
                assert_eq!(reader.parse_table_iterator_key(entries.key()).unwrap().sequence.0, 0);
                entries.next();
            }
            let mut iter = reader.iter(&ReadOptions::default()).unwrap();
            iter.seek_to_first();
            while let Some((key, value)) = iter.item() {
                found.push((key.to_vec(), value.to_vec()));
                iter.next();
            }
            bytes += read.db.env.fs.file_size(path).unwrap();
        }
        assert!(found == sorted, "the tables hold the same");
        assert_eq!(builder.data_size(), bytes);
        assert!(sorted.len() < 2500 || builder.output_files().len() > 1, "the target size cuts the output");

        // Another database takes the tables.
        let db = Db::open(&read.create_if_missing(true), "/target").unwrap();
        let ingest = IngestExternalFileOptions {
            allow_db_generated_files: true,
            snapshot_consistency: false,
            ..IngestExternalFileOptions::default()
        };
        db.ingest_external_file_opt(&ingest, &db.default_column_family(), builder.output_files()).unwrap();
        assert!(all(db.iter().unwrap()) == sorted);
        drop(builder);
        assert!(all(db.iter().unwrap()) == sorted, "the copies outlive the builder");
        assert!(!db.env().fs.file_exists(Path::new("/sort")).unwrap());
    });
}

#[test]
fn several_threads_add_at_once() {
    let fs = Arc::new(MemFs::new());
    let mut builder = SortedRunBuilder::create(options(&fs).write_buffer_size(64 << 10)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let builder = &builder;
            scope.spawn(move || {
                (0..500).for_each(|i| builder.add(format!("{i:04}-{thread}"), "value").unwrap());
            });
        }
    });
    builder.finish().unwrap();
    let entries = all(builder.iter(ReadOptions::default()).unwrap());
    assert_eq!((entries.len(), builder.num_entries()), (2000, 2000));
    assert!(entries.is_sorted());
}

#[test]
fn the_comparator_of_the_options_orders_the_output() {
    let fs = Arc::new(MemFs::new());
    let backward = options(&fs).comparator(Arc::new(ReverseBytewiseComparator) as ComparatorRef);
    let mut builder = SortedRunBuilder::create(backward).unwrap();
    ["b", "c", "a"].iter().for_each(|key| builder.add(key, "").unwrap());
    builder.finish().unwrap();
    let keys: Vec<Vec<u8>> =
        all(builder.iter(ReadOptions::default()).unwrap()).into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, [b"c", b"b", b"a"]);
}

#[test]
fn calls_at_the_wrong_time_and_options_without_meaning_are_refused_in_rocksdbs_words() {
    let fs = Arc::new(MemFs::new());
    let text = |error: Error| {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        error.to_string().replace("Invalid argument: ", "")
    };
    let wrong = [
        (options(&fs).max_compaction_threads(0), "max_compaction_threads must be positive"),
        (options(&fs).write_buffer_size(0), "write_buffer_size must be non-zero"),
        (options(&fs).max_write_buffer_number(1), "max_write_buffer_number must be >= 2"),
        (options(&fs).target_file_size_bytes(0), "target_file_size_bytes must be non-zero"),
        (SortedRunBuilderOptions::new(""), "temp_dir must not be empty"),
    ];
    for (options, expected) in wrong {
        assert_eq!(text(SortedRunBuilder::create(options).unwrap_err()), expected);
    }
    let mut builder = SortedRunBuilder::create(options(&fs)).unwrap();
    assert!(SortedRunBuilder::create(options(&fs)).is_err(), "the directory has a database");
    let early = builder.iter(ReadOptions::default()).map(|_| ()).unwrap_err();
    assert_eq!(text(early), "Must call Finish() before NewIterator()");
    builder.finish().unwrap();
    assert_eq!((builder.num_entries(), builder.output_files().len()), (0, 0));
    assert_eq!(text(builder.add("a", "1").unwrap_err()), "Cannot Add() after Finish()");
    let batch = WriteBatch::new();
    assert_eq!(text(builder.add_batch(&batch).unwrap_err()), "Cannot AddBatch() after Finish()");
    assert_eq!(text(builder.finish().unwrap_err()), "Finish() already called");
    builder.cleanup().unwrap();
    builder.cleanup().unwrap();
    assert!(builder.iter(ReadOptions::default()).is_err());
}

#[test]
fn a_kept_database_stays_until_it_is_cleaned_up() {
    let fs = Arc::new(MemFs::new());
    let exists = |path: &Path| Env::with_fs(fs.clone()).fs.file_exists(path).unwrap();
    let mut builder = SortedRunBuilder::create(options(&fs).keep_temp_db(true)).unwrap();
    builder.add("a", "1").unwrap();
    builder.finish().unwrap();
    let files = builder.output_files().to_vec();
    drop(builder);
    assert!(files.len() == 1 && files.iter().all(|file| exists(file)));

    let mut read = Options::default();
    read.db.env = Env::with_fs(fs.clone());
    esker::destroy_db(&read.db, "/sort").unwrap();
    let mut builder = SortedRunBuilder::create(options(&fs).keep_temp_db(true)).unwrap();
    builder.cleanup().unwrap();
    assert!(!exists(Path::new("/sort")));
    // Nothing stays of a builder that is dropped unfinished.
    let builder = SortedRunBuilder::create(options(&fs)).unwrap();
    builder.add("a", "1").unwrap();
    drop(builder);
    assert!(!exists(Path::new("/sort")));
}
