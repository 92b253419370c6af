//! Tables of RocksDB 7.8.3 and 11.12, written again by Esker: the same bytes, or the same contents
//! before compression.

use crate::util::*;
use esker_base::{FileNumber, comparator, prefix};
use esker_env::FileSystem;
use esker_format::compression::CompressionType;
use esker_format::filter::FilterPolicy;
use esker_format::key::InternalKeyComparator;
use esker_format::properties::{IndexType, TableProperties};
use esker_format::range_del::RangeTombstone;
use esker_format::trailer::ChecksumType;
use esker_table::{
    BlockBasedTableOptions, DataBlockIndexType, IndexShorteningMode, OptimizeKeyCommonPrefix,
    TableBuilderOptions, TableReader,
};
use std::path::Path;
use std::sync::Arc;

/// The options with which a fixture's table was made, by its name and properties.
fn options_of(fixture: &str, bytes: &[u8], reader: &TableReader, block_size: usize) -> TableBuilderOptions {
    let p = reader.properties();
    let mut table = BlockBasedTableOptions {
        block_size,
        format_version: reader.format_version(),
        checksum: ChecksumType::from_u8(bytes[bytes.len() - 53]).unwrap(),
        whole_key_filtering: p.whole_key_filtering,
        ..Default::default()
    };
    table.filter_policy = match p.filter_policy_name.as_str() {
        "bloomfilter" | "rocksdb.BuiltinBloomFilter" => Some(FilterPolicy::bloom(10.0)),
        "ribbonfilter" => Some(FilterPolicy::ribbon(10.0, -1)),
        _ => None,
    };
    match fixture {
        "v7_8_index_first_key" => table.index_type = IndexType::BinarySearchWithFirstKey,
        "v7_8_index_noshort" => table.index_shortening = IndexShorteningMode::NoShortening,
        "v7_8_index_shortsucc" => table.index_shortening = IndexShorteningMode::ShortenSeparatorsAndSuccessor,
        "v7_8_restart1" => table.block_restart_interval = 1,
        "v7_8_no_delta_keys" => table.use_delta_encoding = false,
        "v7_8_block_align" => table.block_align = true,
        "v7_8_data_hash_index" => table.data_block_index_type = DataBlockIndexType::BinaryAndHash,
        "v7_8_prefix_hash_index" => table.index_type = IndexType::HashSearch,
        _ => {}
    }
    let order = comparator::by_name(&p.comparator_name).unwrap();
    let mut o = TableBuilderOptions::new(InternalKeyComparator::new(order), Arc::new(table));
    o.compression =
        CompressionType::ALL.into_iter().find(|t| t.property_name() == p.compression_name).unwrap();
    o.prefix_extractor = prefix::by_name(&p.prefix_extractor_name);
    o.merge_operator_name = (p.merge_operator_name != "nullptr").then(|| p.merge_operator_name.clone());
    o.column_family_id = p.column_family_id as u32;
    o.column_family_name = p.column_family_name.clone();
    o.db_id = p.db_id.clone();
    o.db_session_id = p.db_session_id.clone();
    o.orig_file_number = FileNumber(p.orig_file_number);
    o.db_host_id = p.db_host_id.clone();
    if fixture.contains("_dict_") {
        let dictionary = reader.meta_index().find("rocksdb.compression_dict").unwrap();
        o.compression_opts.max_dict_bytes = dictionary.size as u32;
    }
    o.creation_time = p.creation_time;
    o.oldest_key_time = p.oldest_key_time;
    o.file_creation_time = p.file_creation_time;
    o
}

/// Entries that make `reader`'s table again.
fn entries_of(reader: &Arc<TableReader>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut entries: Vec<(Vec<u8>, Vec<u8>)> =
        scan(reader).unwrap().into_iter().map(|e| (ikey_of(&e), e.3)).collect();
    for (dels, i) in reader.range_dels().iter().flat_map(|d| (0..d.len()).map(move |i| (d, i))) {
        let fragment = dels.fragment(i);
        for seq in dels.sequences(i) {
            let tombstone = RangeTombstone::new(fragment.start, fragment.end, seq);
            entries.push((tombstone.internal_key(), fragment.end.to_vec()));
        }
    }
    entries
}

/// Everything in a table except the codec's output and the numbers that depend on its length.
#[derive(PartialEq, Debug)]
struct Contents {
    blocks: Vec<(Vec<u8>, Vec<u8>)>,
    others: Vec<(String, Vec<u8>)>,
    properties: TableProperties,
}

fn contents_of(reader: &TableReader) -> Contents {
    let mut blocks = Vec::new();
    reader
        .for_each_data_block(&mut |b| {
            blocks.push((b.separator.to_vec(), b.block.bytes().to_vec()));
            Ok(())
        })
        .unwrap();
    let others = reader
        .meta_index()
        .iter()
        .map(|(name, handle)| (String::from_utf8_lossy(name).into_owned(), handle))
        .filter(|(name, _)| name != "rocksdb.properties")
        .map(|(name, handle)| (name, reader.block_contents(handle).unwrap()))
        .collect();
    // The codec determines the sizes of data blocks. The index holds these sizes as varints, so its
    // own size differs, too.
    let properties = TableProperties {
        data_size: 0,
        index_size: 0,
        // The text names the limits for dictionaries. `options_of` does not parse the text, and
        // takes the dictionary's size as the limit.
        compression_options: String::new(),
        global_seqno_offset: None,
        ..reader.properties().clone()
    };
    Contents { blocks, others, properties }
}

/// Whether the comparison skips a table, because Esker is not expected to write it again alike.
fn is_other(name: &str) -> bool {
    let never = [
        // The later RocksDB: other properties and other separators.
        "v11_",
        // The codec's output determines the ends of partitions. `esker-peer` compares uncompressed
        // tables with those of the real library.
        "partitioned",
        // Made by another version of zstd's trainer.
        "dict_zstd_trained",
        "dict_zstd_finalize",
        "ingest",
        "bzip2",
        "range_del_only",
        "fv0",
        "fv1",
        "udt",
        // The reverse order: RocksDB shortens its separators, we do not.
        "column_families/000020",
    ];
    never.iter().any(|n| name.contains(n))
}

#[test]
fn tables_come_out_as_rocksdb_wrote_them() {
    let (mut same_bytes, mut same_blocks) = (0, 0);
    let mut different = Vec::new();
    for path in fixture_tables() {
        let name = short_name(&path);
        if is_other(&name) {
            continue;
        }
        let fixture = name.split('/').next().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let reader = open_bytes(&bytes, with_filters()).unwrap();
        let entries = entries_of(&reader);
        let theirs = contents_of(&reader);
        // No property records the block size, so the test tries several.
        let ours: Vec<Vec<u8>> = [1024usize, 4096, 512, 256, 2048, 200]
            .iter()
            .filter(|size| fixture != "v7_8_block_align" || size.is_power_of_two())
            .map(|size| write_table(options_of(fixture, &bytes, &reader, *size), entries.clone()).unwrap().0)
            .collect();
        if ours.contains(&bytes) {
            same_bytes += 1;
        } else if ours.iter().any(|o| contents_of(&open_bytes(o, with_filters()).unwrap()) == theirs) {
            same_blocks += 1;
        } else {
            let d = first_difference(&bytes, &ours[0]).unwrap();
            let best = contents_of(&open_bytes(&ours[0], with_filters()).unwrap());
            let which = if best.blocks != theirs.blocks {
                format!("blocks: {} and {}", theirs.blocks.len(), best.blocks.len())
            } else if best.others != theirs.others {
                "meta blocks".to_owned()
            } else {
                format!("{:#?}\n{:#?}", theirs.properties, best.properties)
            };
            different.push(format!("{name}: {which}: {d}"));
        }
    }
    println!("{same_bytes} equal, {same_blocks} equal but for the codec, {} different", different.len());
    different.iter().for_each(|d| println!("{d}"));
    assert!(different.is_empty() && same_bytes >= 6 && same_blocks >= 40);
}

/// Fixtures of RocksDB 11.12 in format version 8, each with its table options.
fn layouts_of_format_8() -> Vec<(&'static str, BlockBasedTableOptions)> {
    let plain = BlockBasedTableOptions { block_size: 1024, format_version: 8, ..Default::default() };
    let of = |change: &dyn Fn(&mut BlockBasedTableOptions)| {
        let mut table = plain.clone();
        change(&mut table);
        table
    };
    let padded = |table: &mut BlockBasedTableOptions| {
        table.super_block_alignment_size = 4096;
        table.super_block_alignment_space_overhead_ratio = 4;
    };
    vec![
        ("fv8", plain.clone()),
        ("long_prefix", plain.clone()),
        ("checksum_crc32c", plain.clone()),
        ("levels", plain.clone()),
        ("restart1", of(&|t| (t.block_restart_interval, t.index_block_restart_interval) = (1, 16))),
        ("restart1_short_values", of(&|t| (t.block_restart_interval, t.block_size) = (1, 4096))),
        ("data_hash_index", of(&|t| t.data_block_index_type = DataBlockIndexType::BinaryAndHash)),
        (
            "partitioned",
            of(&|t| {
                (t.index_type, t.index_block_restart_interval) = (IndexType::TwoLevel, 3);
                (t.metadata_block_size, t.block_size) = (128, 256);
            }),
        ),
        (
            "index_first_key",
            of(&|t| {
                (t.index_type, t.index_block_restart_interval) = (IndexType::BinarySearchWithFirstKey, 4);
            }),
        ),
        ("separate_kv", of(&|t| (t.separate_key_value_in_data_block, t.block_restart_interval) = (true, 4))),
        (
            "super_block",
            of(&|t| {
                padded(t);
                (t.index_type, t.index_block_restart_interval) = (IndexType::BinarySearchWithFirstKey, 16);
            }),
        ),
        (
            "super_block_plain",
            of(&|t| {
                padded(t);
                t.index_block_restart_interval = 8;
            }),
        ),
        (
            "prefix_disabled",
            of(&|t| {
                t.optimize_key_common_prefix = OptimizeKeyCommonPrefix::Disabled;
                t.index_block_restart_interval = 4;
            }),
        ),
        ("no_delta_keys", of(&|t| t.use_delta_encoding = false)),
        ("block_align", of(&|t| (t.block_align, t.index_block_restart_interval) = (true, 4))),
        ("odd_keys", of(&|t| (t.block_restart_interval, t.block_size) = (2, 200))),
    ]
}

/// Compares the decompressed contents of the data blocks and of the index.
#[test]
fn blocks_of_format_version_8_are_those_of_rocksdb_11_12() {
    let mut different = Vec::new();
    let mut compared = 0;
    for (fixture, table) in layouts_of_format_8() {
        let prefix = format!("v11_12_{fixture}/");
        for path in fixture_tables().into_iter().filter(|path| short_name(path).starts_with(&prefix)) {
            let reader = open_bytes(&std::fs::read(&path).unwrap(), with_filters()).unwrap();
            let mut options = builder_options(table.clone());
            options.compression = CompressionType::None;
            let bytes = write_table(options, entries_of(&reader)).unwrap().0;
            let (theirs, ours) =
                (contents_of(&reader), contents_of(&open_bytes(&bytes, with_filters()).unwrap()));
            let index = |contents: &Contents| {
                contents.others.iter().find(|(name, _)| name == "rocksdb.index").unwrap().1.clone()
            };
            compared += 1;
            if theirs.blocks != ours.blocks {
                different.push(format!("{}: data blocks", short_name(&path)));
            // Filters lie before the partitions of an index, and the filters' sizes depend on
            // RocksDB's allocator. So the offsets in the top-level index differ. The comparison of
            // data blocks includes the separators.
            } else if fixture != "partitioned" && index(&theirs) != index(&ours) {
                different.push(format!("{}: index", short_name(&path)));
            }
        }
    }
    assert!(different.is_empty(), "{different:#?}");
    assert!(compared > 30, "{compared} tables");
}

fn first_difference(theirs: &[u8], ours: &[u8]) -> Option<String> {
    if theirs == ours {
        return None;
    }
    let at = theirs.iter().zip(ours).position(|(a, b)| a != b).unwrap_or(theirs.len().min(ours.len()));
    let around = |b: &[u8]| b[at.saturating_sub(24)..b.len().min(at + 40)].escape_ascii().to_string();
    Some(format!(
        "sizes {} and {}, first difference at {at}:\n  {}\n  {}",
        theirs.len(),
        ours.len(),
        around(theirs),
        around(ours)
    ))
}

#[test]
fn a_file_that_shrank_is_corruption() {
    let path = fixtures().join("v7_8_default/db/000009.sst");
    let bytes = std::fs::read(path).unwrap();
    let fs = esker_env::mem::MemFs::new();
    let mut file = fs.new_writable_file(Path::new("/t.sst")).unwrap();
    file.append(&bytes[..bytes.len() - 100]).unwrap();
    file.close().unwrap();
    let file = fs.new_random_access_file(Path::new("/t.sst")).unwrap();
    let options = esker_table::TableReaderOptions::new(
        InternalKeyComparator::default(),
        Arc::default(),
        bytes.len() as u64,
    );
    let e = TableReader::open(file, options).unwrap_err();
    assert!(e.is_corruption() && e.message().contains("/t.sst"), "{e}");
}
