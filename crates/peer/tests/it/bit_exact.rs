//! Compares tables of RocksDB 11.8.1's `SstFileWriter` with Esker's, made of the same entries with
//! the same options. Some parts must be equal byte for byte.
//!
//! Without compression these are all bytes up to the properties. With it, they are the decompressed
//! blocks and the dictionaries: the codecs are other implementations or versions, and their
//! output differs. Properties: see [`DIFFERENT_PROPERTIES`].

use esker::internals::env::{FileSystem, PosixFileSystem};
use esker::internals::format::block::{Block, BlockCursor};
use esker::internals::format::handle::BlockHandle;
use esker::internals::format::index_entry::IndexCursor;
use esker::internals::format::key::InternalKeyComparator;
use esker::internals::format::meta_index::{
    COMPRESSION_DICT, FULL_FILTER, HASH_INDEX_METADATA, HASH_INDEX_PREFIXES, INDEX, PARTITIONED_FILTER,
    PROPERTIES, RANGE_DEL,
};
use esker::internals::table::{TableReader, TableReaderOptions};
use esker::options::{TargetVersion, cf_options_from_string};
use esker::{ColumnFamilyOptions, DbOptions, Options, SstFileWriter};
use esker_peer::mixture::Mixture;
use esker_peer::{PeerOp, RocksDb, require, write_sst_file};
use esker_testkit::{TempDir, seed};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// Properties that differ, or that only one of the two writes; docs/compat/ gives the reasons.
const DIFFERENT_PROPERTIES: &[&str] = &[
    // The maker of the file, the time and the place.
    "rocksdb.creating.db.identity",
    "rocksdb.creating.session.identity",
    "rocksdb.creating.host.identity",
    "rocksdb.creation.time",
    "rocksdb.file.creation.time",
    "rocksdb.original.file.number",
    // The options' text names options of 11 that 7.8 does not have. The manager's name and codes
    // come with format version 7.
    "rocksdb.compression_options",
    // Only 11 has these.
    "rocksdb.key.smallest.seqno",
    "rocksdb.key.largest.seqno",
    "rocksdb.tail.start.offset",
    "rocksdb.data.block.restart.interval",
    "rocksdb.index.block.restart.interval",
    "rocksdb.newest.key.time",
    "rocksdb.oldest.key.time",
    "rocksdb.num.data.blocks.compression.bypassed",
    "rocksdb.num.data.blocks.compression.rejected",
    "rocksdb.num.uniform.blocks",
    // Esker writes 7.8's value; the footer has the version.
    "rocksdb.format.version",
    // Esker writes it only if filters are partitioned: 7.8 has no such property.
    "rocksdb.block.based.table.decoupled.partitioned.filters",
    // 11 writes 0 if blocks waited for a dictionary; 7.8 counts.
    "rocksdb.num.data.blocks",
];

/// Sizes that depend on the codec's compression.
const SIZES: &[&str] = &[
    "rocksdb.data.size",
    "rocksdb.index.size",
    "rocksdb.filter.size",
    "rocksdb.top-level.index.size",
    "rocksdb.index.partitions",
];

/// Ascending keys: puts, merges and deletions, and some range deletions behind them.
fn random_ops(rng: &mut fastrand::Rng) -> Vec<PeerOp> {
    let family = || "default".to_owned();
    let mut ops = Vec::new();
    let count = rng.u32(1..2500);
    for i in 0..count {
        let key = format!("key{i:05}{}", ["", "x", "yy"][i as usize % 3]).into_bytes();
        let value: Vec<u8> = match rng.u8(..3) {
            0 => (0..rng.usize(..200)).map(|_| rng.u8(..)).collect(),
            _ => format!("value {i} ").repeat(rng.usize(1..12)).into_bytes(),
        };
        ops.push(match rng.u8(..10) {
            0 => PeerOp::Delete { family: family(), key },
            1 => PeerOp::Merge { family: family(), key, operand: value },
            _ => PeerOp::Put { family: family(), key, value },
        });
    }
    for i in 0..rng.u32(..3) {
        let (begin, end) = (format!("key{:05}", i * 300), format!("key{:05}", i * 300 + 100));
        ops.push(PeerOp::DeleteRange { family: family(), begin: begin.into_bytes(), end: end.into_bytes() });
    }
    ops
}

fn written_by_esker(path: &Path, family: &str, ops: &[PeerOp]) {
    let mut options = Options { db: DbOptions::default(), cf: ColumnFamilyOptions::default() };
    options.db.compatible_with = TargetVersion::V11;
    options.cf = cf_options_from_string(&options.cf, family).expect("options");
    let mut writer = SstFileWriter::new(&options);
    writer.open(path).expect("opened");
    for op in ops {
        match op {
            PeerOp::Put { key, value, .. } => writer.put(key, value),
            PeerOp::Merge { key, operand, .. } => writer.merge(key, operand),
            PeerOp::Delete { key, .. } | PeerOp::SingleDelete { key, .. } => writer.delete(key),
            PeerOp::DeleteRange { begin, end, .. } => writer.delete_range(begin, end),
        }
        .expect("added");
    }
    writer.finish().expect("finished");
}

fn open_table(path: &Path, family: &str) -> Arc<TableReader> {
    let options = cf_options_from_string(&ColumnFamilyOptions::default(), family).expect("options");
    let file = PosixFileSystem.new_random_access_file(path).expect("opened");
    let size = PosixFileSystem.file_size(path).expect("sized");
    let table = Arc::new(options.table);
    TableReader::open(file, TableReaderOptions::new(InternalKeyComparator::default(), table, size))
        .expect("a table")
}

/// Names and values of the properties block.
fn properties(table: &TableReader) -> BTreeMap<String, Vec<u8>> {
    let handle = table.meta_index().find(PROPERTIES).expect("every table has them");
    let block = Block::parse(table.block_contents(handle).expect("readable")).expect("a block");
    let mut cursor = BlockCursor::new();
    cursor.seek_to_first(&block).expect("entries");
    let mut found = BTreeMap::new();
    while cursor.valid() {
        let name = String::from_utf8_lossy(cursor.key()).into_owned();
        found.insert(name, cursor.value(&block).to_vec());
        cursor.next(&block).expect("entries");
    }
    found
}

/// Replaces the seek type at the end of shortened separators, which RocksDB 11 changed from 0x16 to
/// 0x18.
fn with_old_separators(mut bytes: Vec<u8>) -> Vec<u8> {
    for at in 0..bytes.len().saturating_sub(7) {
        if bytes[at..at + 8] == [0x18, 255, 255, 255, 255, 255, 255, 255] {
            bytes[at] = 0x16;
        }
    }
    bytes
}

/// The separators and the contents of a filter's partitions.
fn partitions(table: &TableReader, top: BlockHandle) -> Vec<Vec<u8>> {
    let block = Block::parse(table.block_contents(top).expect("readable")).expect("a block");
    let mut cursor = IndexCursor::new(table.index_shape());
    let mut all = Vec::new();
    cursor.seek_to_first(&block).expect("entries");
    while cursor.valid() {
        all.push(with_old_separators(cursor.separator().to_vec()));
        all.push(table.block_contents(cursor.handle()).expect("readable"));
        cursor.next(&block).expect("entries");
    }
    all
}

/// The parts of a table that must be equal once decompressed: data blocks, and those of the meta
/// index that name no offsets.
fn contents(table: &TableReader, dictionary: bool, with_index: bool) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut handles = Vec::new();
    table
        .for_each_data_block(&mut |block| {
            all.push(block.block.bytes().to_vec());
            // Index blocks name offsets, which differ with compression. Their separators must be
            // equal.
            all.push(with_old_separators(block.separator.to_vec()));
            Ok(())
        })
        .expect("readable");
    if let Some(handle) = table.meta_index().find(PARTITIONED_FILTER) {
        all.extend(partitions(table, handle));
    }
    if dictionary {
        handles.extend(table.meta_index().find(COMPRESSION_DICT));
    }
    for name in [FULL_FILTER, HASH_INDEX_PREFIXES, HASH_INDEX_METADATA, RANGE_DEL] {
        handles.extend(table.meta_index().find(name));
    }
    // Index blocks name offsets: equal without compression only.
    if with_index {
        handles.extend(table.footer().index.or_else(|| table.meta_index().find(INDEX)));
    }
    for handle in handles {
        all.push(with_old_separators(table.block_contents(handle).expect("readable")));
    }
    all
}

#[test]
fn sst_file_writers_of_both_make_the_same_tables() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    let mut other_properties = BTreeSet::new();
    seed::for_each_seed("bit-exact", 80, |seed, mut rng| {
        let level = if rng.bool() { TargetVersion::V11 } else { TargetVersion::V7_8 };
        let mixture = Mixture::random(&mut rng, level).family;
        // The writer makes no blob files; partitioned indexes without a filter differ
        // (docs/compat/).
        let mixture = mixture.replace("enable_blob_files=true;", "").replace(
            "block_based_table_factory={",
            // By default RocksDB 11 sizes filters by its allocator's rounding, and decouples
            // partitions.
            &format!(
                "block_based_table_factory={{optimize_filters_for_memory=false;decouple_partitioned_filters={};\
                 use_delta_encoding={};",
                rng.bool(),
                rng.u8(..4) > 0
            ),
        );
        let family = format!("{mixture}merge_operator={{id=StringAppendOperator;delimiter=,}};");
        let compressed = !mixture.contains("compression=kNoCompression")
            || mixture.contains("bottommost_compression=")
            || mixture.contains("compression_per_level");
        let ops = random_ops(&mut rng);
        let dir = TempDir::new("bit-exact");
        let (theirs, ours) = (dir.join("theirs.sst"), dir.join("ours.sst"));
        write_sst_file(&theirs, &family, &ops).unwrap_or_else(|e| panic!("{family}: {e}"));
        written_by_esker(&ours, &family, &ops);
        let (their_table, our_table) = (open_table(&theirs, &family), open_table(&ours, &family));
        let what = format!("seed {seed}: {family}");
        // RocksDB 11 also stores a dictionary for Snappy, which cannot use it.
        let dictionary = our_table.meta_index().find(COMPRESSION_DICT).is_some();
        let (a, b) =
            (contents(&their_table, dictionary, !compressed), contents(&our_table, dictionary, !compressed));
        for (i, (a, b)) in a.iter().zip(&b).enumerate() {
            assert!(a == b, "{what}: block {i} of {} differs: {} and {} bytes", a.len(), a.len(), b.len());
        }
        assert_eq!(a.len(), b.len(), "{what}: number of blocks");
        let (a, b) = (properties(&their_table), properties(&our_table));
        for name in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
            let may_differ = DIFFERENT_PROPERTIES.contains(&name.as_str())
                || (compressed && SIZES.contains(&name.as_str()));
            if a.get(name) != b.get(name) && !may_differ {
                other_properties.insert(format!("{name}: {:?} {:?}", a.get(name), b.get(name)));
            }
        }
    });
    assert!(other_properties.is_empty(), "{other_properties:#?}");
}
