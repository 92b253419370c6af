//! Esker writes tables of RocksDB 11.8.1 again, from the same entries with the same options. The
//! bytes before the properties must be equal. The properties may differ: RocksDB 11 writes some
//! that 7.8 does not know.

use esker::internals::base::prefix;
use esker::internals::env::{FileSystem, MemFs, PosixFileSystem};
use esker::internals::format::cursor::InternalIterator;
use esker::internals::format::filter::FilterPolicy;
use esker::internals::format::key::InternalKeyComparator;
use esker::internals::format::meta_index::PROPERTIES;
use esker::internals::format::properties::IndexType;
use esker::internals::format::range_del::RangeTombstone;
use esker::internals::format::trailer::ChecksumType;
use esker::internals::table::{
    BlockBasedTableOptions, DataBlockIndexType, IndexShorteningMode, TableBuilder, TableBuilderOptions,
    TableReadOptions, TableReader, TableReaderOptions,
};
use esker::options::CompressionType;
use esker_base::FileNumber;
use esker_peer::model_ops::Kinds;
use esker_peer::{FamilySpec, ModelOps, RocksDb, WriteFlags, require};
use esker_testkit::{TempDir, seed};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One mixture of options: RocksDB's text for the table, its prefix extractor, and Esker's options.
struct Mixture {
    text: String,
    prefix: Option<usize>,
    table: BlockBasedTableOptions,
}

fn shortening(rng: &mut fastrand::Rng) -> (&'static str, IndexShorteningMode) {
    match rng.u8(..3) {
        0 => ("kNoShortening", IndexShorteningMode::NoShortening),
        1 => ("kShortenSeparators", IndexShorteningMode::ShortenSeparators),
        _ => ("kShortenSeparatorsAndSuccessor", IndexShorteningMode::ShortenSeparatorsAndSuccessor),
    }
}

fn index(rng: &mut fastrand::Rng, has_prefix: bool) -> (&'static str, IndexType) {
    match rng.u8(..6) {
        0 => ("kBinarySearch", IndexType::BinarySearch),
        1 => ("kBinarySearchWithFirstKey", IndexType::BinarySearchWithFirstKey),
        2 if has_prefix => ("kHashSearch", IndexType::HashSearch),
        _ => ("kTwoLevelIndexSearch", IndexType::TwoLevel),
    }
}

fn filter(rng: &mut fastrand::Rng, format_version: u32) -> (&'static str, Option<FilterPolicy>) {
    match rng.u8(..4) {
        0 => ("nullptr", None),
        1 if format_version >= 5 => ("ribbonfilter:10:-1", Some(FilterPolicy::ribbon(10.0, -1))),
        2 => ("bloomfilter:7.3:false", Some(FilterPolicy::bloom(7.3))),
        _ => ("bloomfilter:10:false", Some(FilterPolicy::bloom(10.0))),
    }
}

fn random_mixture(rng: &mut fastrand::Rng) -> Mixture {
    let prefix = rng.bool().then_some(5);
    let format_version = rng.u32(2..=5);
    let (shortening_text, index_shortening) = shortening(rng);
    let (index_text, index_type) = index(rng, prefix.is_some());
    let (filter_text, filter_policy) = filter(rng, format_version);
    let is_hash = index_type == IndexType::HashSearch;
    let mut table = BlockBasedTableOptions {
        format_version,
        checksum: ChecksumType::NoChecksum,
        index_shortening,
        index_type,
        filter_policy,
        block_size: rng.choice([128, 256, 1000, 4096]).expect("one"),
        block_restart_interval: rng.choice([1, 3, 16]).expect("one"),
        index_block_restart_interval: if is_hash { 1 } else { rng.choice([1, 2, 16]).expect("one") },
        metadata_block_size: rng.choice([1, 100, 300, 1000, 4096]).expect("one"),
        partition_filters: index_type == IndexType::TwoLevel && rng.bool(),
        decouple_partitioned_filters: rng.bool(),
        // If nothing is to be filtered, RocksDB writes an empty filter and Esker none.
        whole_key_filtering: prefix.is_none() || rng.u8(..3) > 0,
        ..Default::default()
    };
    let has_hash = rng.u8(..3) == 0;
    if has_hash {
        table.data_block_index_type = DataBlockIndexType::BinaryAndHash;
        table.data_block_hash_table_util_ratio = rng.choice([0.5, 0.75, 1.0]).expect("one");
    }
    table.separate_key_value_in_data_block = rng.u8(..4) == 0;
    if rng.u8(..4) == 0 {
        table.super_block_alignment_size = 4096;
        table.super_block_alignment_space_overhead_ratio = 4;
    }
    let t = &table;
    let text = format!(
        "format_version={};index_shortening={shortening_text};index_type={index_text};filter_policy={filter_text};\
         block_size={};block_restart_interval={};index_block_restart_interval={};metadata_block_size={};\
         partition_filters={};decouple_partitioned_filters={};whole_key_filtering={};data_block_index_type={};\
         data_block_hash_table_util_ratio={};separate_key_value_in_data_block={};super_block_alignment_size={};\
         super_block_alignment_space_overhead_ratio={};optimize_filters_for_memory=false;\
         checksum=kNoChecksum",
        t.format_version,
        t.block_size,
        t.block_restart_interval,
        t.index_block_restart_interval,
        t.metadata_block_size,
        t.partition_filters,
        t.decouple_partitioned_filters,
        t.whole_key_filtering,
        if has_hash { "kDataBlockBinaryAndHash" } else { "kDataBlockBinarySearch" },
        t.data_block_hash_table_util_ratio,
        t.separate_key_value_in_data_block,
        t.super_block_alignment_size,
        t.super_block_alignment_space_overhead_ratio,
    );
    Mixture { text, prefix, table }
}

/// The tables in a directory.
fn tables_in(dir: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(dir).expect("listed").map(|f| f.expect("an entry").path());
    files.filter(|p| p.extension().is_some_and(|e| e == "sst")).collect()
}

fn open_table(path: &Path, table: BlockBasedTableOptions) -> Arc<TableReader> {
    let fs = PosixFileSystem;
    let file = fs.new_random_access_file(path).expect("opened");
    let size = fs.file_size(path).expect("sized");
    let options = TableReaderOptions::new(InternalKeyComparator::default(), Arc::new(table), size);
    TableReader::open(file, options).expect("a table")
}

/// Writes a table with the same entries and the same identity by Esker's writer.
fn written_again(reader: &Arc<TableReader>, mixture: &Mixture) -> Vec<u8> {
    let p = reader.properties();
    let mut options =
        TableBuilderOptions::new(InternalKeyComparator::default(), Arc::new(mixture.table.clone()));
    options.compression = CompressionType::None;
    options.prefix_extractor = mixture.prefix.map(prefix::fixed);
    options.column_family_name = p.column_family_name.clone();
    options.orig_file_number = FileNumber(p.orig_file_number);
    let fs = MemFs::new();
    let path = Path::new("/again.sst");
    let mut builder =
        TableBuilder::new(options, fs.new_writable_file(path).expect("made")).expect("options that can be");
    let mut entries = reader.iter(TableReadOptions::default());
    entries.seek_to_first();
    while entries.valid() {
        builder.add(entries.key(), entries.value()).expect("in order");
        entries.next();
    }
    entries.status().expect("read whole");
    for (dels, i) in reader.range_dels().iter().flat_map(|d| (0..d.len()).map(move |i| (d, i))) {
        let fragment = dels.fragment(i);
        for seq in dels.sequences(i) {
            let tombstone = RangeTombstone::new(fragment.start, fragment.end, seq);
            builder.add(&tombstone.internal_key(), fragment.end).expect("added");
        }
    }
    let info = builder.finish().expect("finished");
    let mut bytes = vec![0; usize::try_from(info.file_size).expect("small")];
    fs.new_random_access_file(path).expect("there").read_at(0, &mut bytes).expect("read");
    bytes
}

/// Replaces the seek type in shortened separators, which end in the largest sequence number and
/// that type. RocksDB 11 changed it from 0x16 to 0x18. Esker writes 0x16, because 7.8 does not know
/// 0x18.
fn with_old_separators(mut bytes: Vec<u8>) -> Vec<u8> {
    for at in 0..bytes.len().saturating_sub(7) {
        if bytes[at..at + 8] == [0x18, 255, 255, 255, 255, 255, 255, 255] {
            bytes[at] = 0x16;
        }
    }
    bytes
}

/// The offset of the properties. The bytes before them must be equal.
fn properties_at(reader: &TableReader) -> usize {
    let handle = reader.meta_index().find(PROPERTIES).expect("every table has properties");
    usize::try_from(handle.offset).expect("small")
}

#[test]
fn esker_writes_the_bytes_that_rocksdb_11_writes() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    seed::for_each_seed("tables of both", 60, |_, mut rng| {
        let mixture = random_mixture(&mut rng);
        let dir = TempDir::new("tables");
        let mut model = ModelOps::new(&[]);
        model.key_space = 3000;
        let extractor = mixture.prefix.map_or(String::new(), |n| format!("prefix_extractor=fixed:{n};"));
        let options = format!(
            "compression=kNoCompression;disable_auto_compactions=true;{extractor}merge_operator=stringappend;\
             block_based_table_factory={{{}}}",
            mixture.text
        );
        let db = RocksDb::open(dir.path(), "create_if_missing=true", &[FamilySpec::new("default", &options)])
            .unwrap_or_else(|e| panic!("{}: {e}", mixture.text));
        for _ in 0..rng.usize(1..60) {
            let count = rng.usize(1..60);
            let ops = model.random_ops(&mut rng, count, Kinds::ALL);
            db.write(&ops, WriteFlags::default()).expect("written");
        }
        db.flush("default").expect("flushed");
        drop(db);
        for path in tables_in(dir.path()) {
            let mut table = mixture.table.clone();
            table.filter_policy = table.filter_policy.or(Some(FilterPolicy::bloom(10.0)));
            let reader = open_table(&path, table);
            let theirs = with_old_separators(std::fs::read(&path).expect("read"));
            let ours = written_again(&reader, &mixture);
            let same = properties_at(&reader);
            let differs = (0..same).find(|at| theirs.get(*at) != ours.get(*at));
            if let Some(at) = differs {
                let around = |bytes: &[u8]| {
                    bytes[at - at.min(40)..(at + 80).min(bytes.len())].escape_ascii().to_string()
                };
                let (theirs, ours) = (around(&theirs), around(&ours));
                panic!("at {at} of {same}\n{theirs}\n{ours}\n{}\n{:?}", mixture.text, mixture.prefix);
            }
        }
    });
}
