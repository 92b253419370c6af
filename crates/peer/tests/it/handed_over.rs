//! RocksDB 7.8.3 and 11.8.1 read databases that Esker wrote: each compression, families, merges,
//! deletions of all kinds, held snapshots, several levels, an unflushed WAL.

use crate::peer_process::{check_7, check_11, check_all, check_open_esker, open_esker, small_files};
use esker::options::CompressionType;
use esker::{Db, Options, ReadOptions, SstFileWriter, WriteOptions};
use esker_peer::model_ops::{FamilyMerge, FamilyOrder, Kinds, write_to_esker};
use esker_peer::{Contents, InternalEntry, ModelOps, Tools, require};
use esker_testkit::{TempDir, seed};
use std::collections::BTreeMap;

/// Writes random batches to Esker and to the model.
fn fill(db: &Db, model: &mut ModelOps, rng: &mut fastrand::Rng, batches: usize, kinds: Kinds) {
    for _ in 0..batches {
        let count = rng.usize(1..20);
        let ops = model.random_ops(rng, count, kinds);
        write_to_esker(db, &ops, &WriteOptions::default()).expect("written");
    }
}

fn files_at_levels(db: &Db, family: &str) -> Vec<u64> {
    let handle = db.column_family(family).expect("open");
    let count = |level: u32| {
        let name = format!("rocksdb.num-files-at-level{level}");
        db.property_cf(&handle, &name).expect("a property").parse().expect("a number")
    };
    (0..7).map(count).collect()
}

fn each_stage_is_read_by_all(compression: CompressionType, format_version: u32) {
    let what = format!("{compression:?}, format_version {format_version}");
    let mut rng = seed::rng(&what);
    let dir = TempDir::new("handed-over");
    let mut options = small_files(compression);
    options.table.format_version = format_version;
    let mut model = ModelOps::varied();
    let read_by_all = |model: &ModelOps, when: &str| {
        // 7.8 reads up to format_version 5.
        if format_version <= 5 {
            check_all(dir.path(), model, &options, when);
        } else {
            check_11(dir.path(), model, when);
        }
    };

    let db = open_esker(dir.path(), &model, &options).expect("opens");
    fill(&db, &mut model, &mut rng, 40, Kinds::ALL);
    db.close().expect("closes");
    read_by_all(&model, &format!("{what}, only a WAL"));

    let db = open_esker(dir.path(), &model, &options).expect("opens");
    fill(&db, &mut model, &mut rng, 150, Kinds::ALL);
    let snapshot = db.snapshot();
    let at_snapshot = model.sequence();
    fill(&db, &mut model, &mut rng, 150, Kinds::ALL);
    for name in db.column_family_names() {
        let family = db.column_family(&name).expect("open");
        db.flush_opt(&esker::FlushOptions::default(), &[&family]).expect("flushes");
    }
    db.wait_for_background_work().expect("no background error");
    check_open_esker(&db, &model, &what);
    for family in &model.families {
        let handle = db.column_family(&family.name).expect("open");
        let then = ReadOptions::new().snapshot(&snapshot);
        let contents = Contents::of(&db, &handle, &then).expect("read");
        contents.assert_same(&model.contents_at(family, at_snapshot), "Esker at a snapshot");
    }
    fill(&db, &mut model, &mut rng, 20, Kinds::ALL);
    db.close().expect("closes");
    drop((snapshot, db));
    read_by_all(&model, &format!("{what}, flushed, with versions of a snapshot and a WAL"));

    let db = open_esker(dir.path(), &model, &options).expect("opens");
    db.compact_range(None, None).expect("compacts");
    fill(&db, &mut model, &mut rng, 100, Kinds::ALL);
    db.wait_for_background_work().expect("no background error");
    let levels = files_at_levels(&db, "default");
    assert!(levels[1..].iter().sum::<u64>() > 0, "{what}: all files are on level 0: {levels:?}");
    db.close().expect("closes");
    read_by_all(&model, &format!("{what}, compacted, files {levels:?}"));
}

#[test]
fn uncompressed_is_read_by_all() {
    each_stage_is_read_by_all(CompressionType::None, 5);
}

#[test]
fn snappy_is_read_by_all() {
    each_stage_is_read_by_all(CompressionType::Snappy, 5);
}

#[test]
fn zlib_is_read_by_all() {
    each_stage_is_read_by_all(CompressionType::Zlib, 5);
}

#[test]
fn lz4_is_read_by_all() {
    each_stage_is_read_by_all(CompressionType::Lz4, 5);
}

#[test]
fn lz4hc_is_read_by_all() {
    each_stage_is_read_by_all(CompressionType::Lz4hc, 5);
}

#[test]
fn zstd_is_read_by_all() {
    each_stage_is_read_by_all(CompressionType::Zstd, 5);
}

#[test]
fn older_format_versions_are_read_by_all() {
    for format_version in 2..=4 {
        each_stage_is_read_by_all(CompressionType::Lz4, format_version);
    }
}

#[test]
fn newer_format_versions_are_read_by_rocksdb_11() {
    each_stage_is_read_by_all(CompressionType::Zstd, 6);
    each_stage_is_read_by_all(CompressionType::Lz4, 7);
    each_stage_is_read_by_all(CompressionType::Bzip2, 7);
}

#[test]
fn other_layouts_are_read_by_all() {
    use esker::internals::format::properties::IndexType;
    use esker::internals::format::trailer::ChecksumType;
    use esker::internals::table::IndexShorteningMode;
    let mut rng = seed::rng("other layouts");
    for round in 0..12 {
        let dir = TempDir::new("layouts");
        let mut options =
            small_files(rng.choice([CompressionType::None, CompressionType::Lz4]).expect("one"));
        let table = &mut options.table;
        table.checksum = rng
            .choice([
                ChecksumType::NoChecksum,
                ChecksumType::Crc32c,
                ChecksumType::XxHash,
                ChecksumType::XxHash64,
                ChecksumType::Xxh3,
            ])
            .expect("one");
        table.block_restart_interval = rng.usize(1..20);
        table.index_block_restart_interval = rng.usize(1..5);
        table.use_delta_encoding = rng.bool();
        table.whole_key_filtering = rng.bool();
        table.enable_index_compression = rng.bool();
        table.index_type =
            rng.choice([IndexType::BinarySearch, IndexType::BinarySearchWithFirstKey]).expect("one");
        table.index_shortening = rng
            .choice([
                IndexShorteningMode::NoShortening,
                IndexShorteningMode::ShortenSeparators,
                IndexShorteningMode::ShortenSeparatorsAndSuccessor,
            ])
            .expect("one");
        if options.compression == CompressionType::None {
            options.table.block_align = rng.bool();
        }
        if rng.bool() {
            options.prefix_extractor = esker_base::prefix::by_name("rocksdb.FixedPrefix.5");
        }
        let what = format!("round {round}: {:?}", options.table);
        let mut model = ModelOps::new(&[("reverse", FamilyOrder::Reverse, FamilyMerge::StringAppend)]);
        let db = open_esker(dir.path(), &model, &options).expect("opens");
        fill(&db, &mut model, &mut rng, 120, Kinds::ALL);
        db.compact_range(None, None).expect("compacts");
        fill(&db, &mut model, &mut rng, 60, Kinds::ALL);
        db.flush().expect("flushes");
        check_open_esker(&db, &model, &what);
        db.close().expect("closes");
        check_all(dir.path(), &model, &options, &what);
    }
}

/// Tests newer layouts that RocksDB 7.8 knows: partitioned indexes and filters, hash indexes,
/// dictionaries.
#[test]
fn parts_hash_indexes_and_dictionaries_are_read_by_all() {
    use esker::internals::format::properties::IndexType;
    use esker::internals::table::{DataBlockIndexType, FilterPolicy};
    let mut rng = seed::rng("parts and dictionaries");
    for round in 0..16 {
        let dir = TempDir::new("parts");
        let mut options = small_files(CompressionType::Lz4);
        // RocksDB 11 does not know the option's old name for zstd.
        let known = |c: &CompressionType| c.is_built_in() && *c != CompressionType::ZstdNotFinal;
        options.compression = rng.choice(CompressionType::ALL).filter(known).unwrap_or_default();
        options.prefix_extractor = rng.bool().then(|| esker_base::prefix::fixed(4));
        let table = &mut options.table;
        table.format_version = rng.u32(2..=5);
        table.index_type = match rng.u8(..3) {
            0 if options.prefix_extractor.is_some() => IndexType::HashSearch,
            _ => IndexType::TwoLevel,
        };
        table.metadata_block_size = rng.choice([1, 100, 1000]).expect("one");
        table.partition_filters = rng.bool();
        table.decouple_partitioned_filters = rng.bool();
        table.optimize_filters_for_memory = rng.bool();
        if table.format_version == 5 && rng.bool() {
            table.filter_policy = Some(FilterPolicy::ribbon(10.0, rng.i32(-1..3)));
        }
        if rng.bool() {
            table.data_block_index_type = DataBlockIndexType::BinaryAndHash;
        }
        if rng.bool() {
            table.super_block_alignment_size = 4096;
            table.super_block_alignment_space_overhead_ratio = 4;
        }
        options.optimize_filters_for_hits = rng.bool();
        if rng.bool() {
            options.compression_opts.max_dict_bytes = 1000;
            options.compression_opts.zstd_max_train_bytes = rng.choice([0, 10_000]).expect("one");
        }
        let what = format!("round {round}: {:?} {:?}", options.compression, options.table);
        let mut model = ModelOps::new(&[("reverse", FamilyOrder::Reverse, FamilyMerge::StringAppend)]);
        let db = open_esker(dir.path(), &model, &options).expect("opens");
        fill(&db, &mut model, &mut rng, 120, Kinds::ALL);
        db.compact_range(None, None).expect("compacts");
        fill(&db, &mut model, &mut rng, 60, Kinds::ALL);
        db.flush().expect("flushes");
        check_open_esker(&db, &model, &what);
        db.close().expect("closes");
        check_all(dir.path(), &model, &options, &what);
    }
}

/// The newest version of each key at `sequence`. The entries must be puts and deletions only.
fn newest(entries: &[InternalEntry], sequence: u64) -> BTreeMap<&[u8], &[u8]> {
    let mut seen = BTreeMap::new();
    for entry in entries.iter().filter(|e| e.sequence <= sequence) {
        // Entries of one key come newest first.
        seen.entry(entry.key.as_slice()).or_insert((entry.kind == 1).then_some(entry.value.as_slice()));
    }
    seen.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}

#[test]
fn versions_of_held_snapshots_are_stored_for_all_to_see() {
    let Some(tools) = require("ldb 7.8", Tools::find()) else { return };
    let mut rng = seed::rng("versions of held snapshots");
    let dir = TempDir::new("snapshots");
    let options = small_files(CompressionType::Lz4);
    let mut model = ModelOps::new(&[]);
    model.key_space = 60;
    let db = open_esker(dir.path(), &model, &options).expect("opens");
    let mut held = Vec::new();
    for _ in 0..6 {
        fill(&db, &mut model, &mut rng, 40, Kinds::PLAIN);
        held.push((db.snapshot(), model.sequence()));
        assert_eq!(db.latest_sequence_number().0, model.sequence());
        db.flush().expect("flushes");
    }
    db.compact_range(None, None).expect("compacts");
    fill(&db, &mut model, &mut rng, 10, Kinds::PLAIN);
    let tables = TempDir::new("snapshots-copy");
    esker_peer::fixture::copy_files(dir.path(), tables.path());
    // ldb reads a copy, because this process still has the database open.
    let entries = tools.internal_entries(tables.path(), "default").expect("idump");
    let default = &model.families[0];
    for (_, sequence) in &held {
        let expected = model.contents_at(default, *sequence);
        let by_ldb = newest(&entries, *sequence).into_iter().map(|(k, v)| (k.to_vec(), v.to_vec()));
        Contents(by_ldb.collect()).assert_same(&expected, &format!("idump at sequence {sequence}"));
    }
    assert!(entries.len() > model.contents(default).0.len(), "old versions are there");
    // Once the snapshots are gone, the next compaction drops versions that only they saw.
    held.clear();
    db.compact_range_opt(
        &esker::CompactRangeOptions {
            bottommost_level_compaction: esker::options::BottommostLevelCompaction::Force,
            ..esker::CompactRangeOptions::default()
        },
        &db.default_column_family(),
        None,
        None,
    )
    .expect("compacts");
    db.close().expect("closes");
    let entries = tools.internal_entries(dir.path(), "default").expect("idump");
    let expected = model.contents(default);
    assert_eq!(entries.len(), expected.0.len(), "one version of each key is left");
    check_7(dir.path(), &model, "snapshots released");
}

#[test]
fn a_checkpoint_is_read_by_all_with_its_wal_and_without() {
    let mut rng = seed::rng("checkpoint");
    let dir = TempDir::new("checkpoint");
    let options = small_files(CompressionType::Lz4);
    let mut model = ModelOps::varied();
    let db = open_esker(&dir.path().join("db"), &model, &options).expect("opens");
    fill(&db, &mut model, &mut rng, 150, Kinds::ALL);
    db.flush().expect("flushes");
    fill(&db, &mut model, &mut rng, 20, Kinds::ALL);
    db.create_checkpoint(dir.path().join("with WAL"), u64::MAX).expect("made");
    db.create_checkpoint(dir.path().join("flushed"), 0).expect("made");
    let then = model.clone();
    fill(&db, &mut model, &mut rng, 150, Kinds::ALL);
    db.compact_range(None, None).expect("compacts");
    db.close().expect("closes");
    for name in ["with WAL", "flushed"] {
        check_all(&dir.path().join(name), &then, &options, name);
    }
}

#[test]
fn files_made_here_are_ingested_by_both_and_read_by_all() {
    let Some(tools) = require("ldb 7.8", Tools::find()) else { return };
    let dir = TempDir::new("ingested");
    let options = small_files(CompressionType::Lz4);
    let model = ModelOps::new(&[]);
    let mut writer = SstFileWriter::new(&Options { cf: options.clone(), ..Options::default() });
    let files = ["one.sst", "two.sst"].map(|name| dir.path().join(name));
    for (file, from) in files.iter().zip([0, 500]) {
        writer.open(file).expect("opens");
        for n in from..from + 1000 {
            writer.put(format!("key{n:05}"), format!("from {from}")).expect("added");
        }
        writer.finish().expect("finishes");
    }
    let expected: BTreeMap<String, String> = (0..1500)
        .map(|n| (format!("key{n:05}"), format!("from {}", if n < 500 { 0 } else { 500 })))
        .collect();
    let ours = dir.path().join("ours");
    let db = open_esker(&ours, &model, &options).expect("opens");
    for n in 0..1500 {
        db.put(format!("key{n:05}"), "older").expect("written");
    }
    db.ingest_external_file(&files).expect("ingested");
    db.close().expect("closes");
    let theirs = dir.path().join("theirs");
    for file in &files {
        let file = file.display().to_string();
        tools.ldb(&theirs, ["--create_if_missing", "ingest_extern_sst", file.as_str()]).expect("ingested");
    }
    for db in [&ours, &theirs] {
        let printed = tools.ldb(db, ["scan"]).expect("scans");
        let found: BTreeMap<String, String> = printed
            .lines()
            .filter_map(|line| line.split_once(" : "))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        assert_eq!(found, expected, "{}", db.display());
    }
    let db = open_esker(&theirs, &model, &options).expect("opens what RocksDB ingested");
    assert_eq!(db.get("key00700").expect("reads").as_deref(), Some(&b"from 500"[..]));
    db.compact_range(None, None).expect("compacts");
    db.close().expect("closes");
    tools.ldb(&theirs, ["checkconsistency"]).expect("consistent");
}
