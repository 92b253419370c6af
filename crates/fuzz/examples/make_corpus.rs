//! Cuts real databases into seeds for the fuzz targets: `cargo run -p esker-fuzz --example
//! make_corpus OUT [FIXTURES]`.
//!
//! In: directories `NAME/db` (the golden files by default). Out: `OUT/TARGET/*`. The name of a seed
//! is its hash, so no seed is stored twice. `cargo fuzz cmin` copies the seeds that reach new code
//! into `fuzz/corpus`. A file that does not parse gives only the seeds before its error: seeds are
//! a start, not a test.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a program that reads and writes real files, and says how many"
)]

use esker_base::Result;
use esker_base::xxph3::hash64;
use esker_format::block::{Block, BlockCursor};
use esker_format::compression::{CompressionType, Decompressor};
use esker_format::file_name::{FileType, parse_file_name};
use esker_format::footer::Footer;
use esker_format::handle::BlockHandle;
use esker_format::index_entry::{IndexCursor, IndexShape};
use esker_format::log::{LogEvent, LogReader, SliceSource};
use esker_format::meta_index::MetaIndex;
use esker_format::options_file::{OptionsFile, SectionKind};
use esker_format::properties::{IndexType, TableProperties};
use esker_format::write_batch::{BatchOp, WriteBatchView};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Larger seeds slow the fuzzer down and reach little more code.
const MAX_SEED_BYTES: usize = 16 << 10;
const MAX_SEEDS: usize = 400;

struct Corpus {
    root: PathBuf,
    counts: HashMap<&'static str, usize>,
}

impl Corpus {
    fn add(&mut self, target: &'static str, bytes: &[u8]) {
        let count = self.counts.entry(target).or_default();
        if bytes.len() > MAX_SEED_BYTES || *count >= MAX_SEEDS {
            return;
        }
        let dir = self.root.join(target);
        fs::create_dir_all(&dir).expect("the corpus can be written");
        let path = dir.join(format!("{:016x}", hash64(bytes)));
        if !path.exists() {
            fs::write(path, bytes).expect("the corpus can be written");
            *count += 1;
        }
    }

    /// Adds a seed for a target whose input begins with switches.
    fn add_with(&mut self, target: &'static str, switches: &[u8], bytes: &[u8]) {
        self.add(target, &[switches, bytes].concat());
    }
}

fn main() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = std::env::args_os().nth(1).expect("where to put the seeds");
    let fixtures = std::env::args_os().nth(2).map_or_else(|| here.join("../../fixtures"), PathBuf::from);
    let mut corpus = Corpus { root: PathBuf::from(out), counts: HashMap::new() };
    by_hand(&mut corpus);
    let mut databases: Vec<PathBuf> = fs::read_dir(&fixtures)
        .expect("fixtures")
        .map(|entry| entry.expect("fixtures").path().join("db"))
        .collect();
    databases.sort();
    for db in databases.iter().filter(|db| db.is_dir()) {
        for entry in fs::read_dir(db).expect("a database") {
            let path = entry.expect("a database").path();
            let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
            let bytes = fs::read(&path).expect("a file of a database");
            corpus.add("file_name", name.as_bytes());
            match parse_file_name(name) {
                Some((FileType::Wal, number)) => wal(&mut corpus, number.0, &bytes),
                Some((FileType::Descriptor, _)) => manifest(&mut corpus, &bytes),
                Some((FileType::Options, _)) => options(&mut corpus, &bytes),
                Some((FileType::Blob, _)) => corpus.add_with("blob_file", &[1], &bytes),
                Some((FileType::Current, _)) => corpus.add("file_name", &bytes),
                Some((FileType::Table, _)) => {
                    if let Err(error) = table(&mut corpus, &bytes) {
                        println!("{}: {error}", path.display());
                    }
                }
                _ => {}
            }
        }
    }
    let mut counts: Vec<_> = corpus.counts.into_iter().collect();
    counts.sort_unstable();
    println!("{counts:?}");
}

fn wal(corpus: &mut Corpus, number: u64, bytes: &[u8]) {
    let number_of = u8::try_from(number & 0x0F).unwrap_or_default();
    corpus.add_with("log", &[number_of], bytes);
    corpus.add_with("wal_recovery", &[if number == 3 { 255 } else { 0 }], bytes);
    let mut reader = LogReader::new(SliceSource(bytes), number);
    let mut record = Vec::new();
    while let Ok(event) = reader.next_record(&mut record) {
        if event == LogEvent::End {
            break;
        }
        if !matches!(event, LogEvent::Record { .. }) {
            continue;
        }
        corpus.add("write_batch", &record);
        for op in WriteBatchView::parse(&record).iter().flat_map(WriteBatchView::iter) {
            match op {
                BatchOp::PutEntity { entity, .. } => corpus.add("wide_column", entity),
                BatchOp::BlobIndex { index, .. } => corpus.add("blob_index", index),
                _ => {}
            }
        }
    }
}

/// Adds handwritten seeds, mostly for targets whose inputs are no part of a file.
fn by_hand(corpus: &mut Corpus) {
    const COMMANDS: &[&str] = &[
        "ldb --db=/db get key0007",
        "ldb --db=/db --hex get 0x6b657930303037",
        "ldb --db=/db put key0007 value",
        "ldb --db=/db batchput a b c d",
        "ldb --db=/db delete key0007",
        "ldb --db=/db deleterange key0007 key0040",
        "ldb --db=/db --column_family=second scan --from=key0007 --to=key0040 --max_keys=3",
        "ldb --db=/db dump --count_only",
        "ldb --db=/db idump --hex",
        "ldb dump_wal --walfile=/db/000018.log --header --print_value",
        "ldb --db=/db manifest_dump --verbose",
        "ldb --db=/db file_checksum_dump",
        "ldb --db=/db load --compact",
        "ldb --db=/out --create_if_missing load --disable_wal",
        "ldb --db=/db write_extern_sst /out",
        "ldb --db=/db ingest_extern_sst /copy/000012.sst",
        "ldb --db=/db list_column_families",
        "ldb --db=/db create_column_family third",
        "ldb --db=/db drop_column_family second",
        "ldb --db=/db checkconsistency",
        "ldb --db=/db compact --from=a",
        "ldb --db=/db approxsize --from=a --to=z",
        "ldb --db=/db get_property rocksdb.stats",
        "ldb --db=/db list_live_files_metadata",
        "ldb --db=/db backup --backup_dir=/out",
        "ldb --db=/db restore --backup_dir=/out",
        "ldb --db=/db downgrade --to 7.8",
        "ldb --db=/db repair --verbose",
        "ldb --db=/db checkpoint --checkpoint_dir=/out",
        "ldb --db=/db --ttl scan --timestamp",
        "ldb --db=/db --enable_blob_files --min_blob_size=1 --blob_compression_type=zstd compact",
        "ldb --db=/db --bloom_bits=10 --compression_type=lz4 --block_size=100 --write_buffer_size=1000 compact",
        "sst_dump --file=/db --command=scan --show_properties --show_summary",
        "sst_dump --file=/db/000012.sst --command=raw",
        "sst_dump --file=/db --command=verify",
        "sst_dump --file=/db --command=check --from=0x6b --input_key_hex --read_num=3 --output_hex",
        "verify /db",
        "compat /db --json",
        "compare /db /copy",
        "explain /db get key0007",
        "explain /db --json --warm multiget key0007 key0040",
        "explain /db --column-family=second scan --from a --rows 3 --reverse",
        "explain /db seek key0007",
        "db_bench --benchmarks=fillseq,readrandom --num=10 --nocache_index_and_filter_blocks --threads 2",
    ];
    const INPUT: &str = "key0100 ==> one\nkey0101 ==> two\nno entry\n";
    for (at, command) in COMMANDS.iter().enumerate() {
        let words: Vec<&str> = command.split(' ').collect();
        let count = u8::try_from(words.len()).expect("a handful");
        let text = format!("{}\n{INPUT}", words.join("\n"));
        corpus.add_with("commands", &[u8::try_from(at % 3).expect("small"), count], text.as_bytes());
    }
    for file in 0..12 {
        for kind in 0..6 {
            corpus.add(
                "database",
                &[[kind % 3, file, kind].as_slice(), &[20 * file, file % 2, 5, 1, 2, 3]].concat(),
            );
        }
    }
    for kind in 0..8 {
        for place in [1, 9, 40] {
            corpus.add("rocksdb_wal", &[(kind % 3) | (kind << 4), kind, place, place, 0, 9, 1]);
            corpus.add("rocksdb_sst", &[kind % 3, place, place, 0, kind, 3, 1]);
        }
    }
    for kind in 0..16 {
        corpus.add("backups", &[kind, 3 * kind, kind % 6, 9 * kind, 0, 5, 1, 2, 3]);
        corpus.add("ingested_file", &[kind % 6, kind, 2 * kind, 7 * kind, 0, kind % 4, 3, 1]);
        corpus.add(
            "file_tier",
            &[
                [8 + 2 * (kind % 4), 0, kind % 6, 40 * (kind % 6), 0, 5, 1, 2, 3].as_slice(),
                b"abcdefabcuvwxyz",
            ]
            .concat(),
        );
    }
    corpus.add_with("file_tier", &[1], &[b"esker tier 0001\n".as_slice(), &[0; 60]].concat());
    corpus.add("embedded_blobs", b"\0\x03\0\x04\x02ab\0\x03abc\x02\x04\x01\x02\x03\x04");
    corpus.add("embedded_blobs", b"\x03\x04\x05hello\x03\x01");
    for kind in 0..6 {
        corpus.add(
            "blob_file",
            &[[0, kind, 20, 0, 1].as_slice(), b"\x03\x05keyvalue\x02\x10keyabcdefghijklmnop"].concat(),
        );
    }
    for index in [&b"\x01\x07\x20\x40\x04"[..], b"\x02\x09\x07\x20\x40\x00", b"\x00\x09value"] {
        corpus.add("blob_index", index);
    }
    corpus.add("compaction_progress", b"\x8A\x40\x0F\x02\x09k\x01\x07\0\0\0\0\0\0\x03\x01\x05\x01");
    corpus.add(
        "compaction_service",
        b"\x01\0\0\0cf_name=64;snapshots=3:9;input_files=3030303030312E737374;output_level=6;db_id=;\
        has_begin=false;begin=;has_end=true;end=6B;options_file_number=7;",
    );
    corpus.add("deleted_runs", b"\0\x01\0\0\x40\x01\x80\0");
    corpus.add("range_del", b"\0\x01\x05\x07\x03\x08\x09\x01\x08\x02");
    corpus.add("stored_columns", b"\x01\x01\x01a\x01b");
}

/// Adds an OPTIONS file, and its sections as option strings.
fn options(corpus: &mut Corpus, bytes: &[u8]) {
    corpus.add("options_file", bytes);
    let Ok(file) = OptionsFile::parse(bytes) else { return };
    for section in &file.sections {
        let kind = match &section.kind {
            SectionKind::DbOptions => 0,
            SectionKind::CfOptions(_) => 1,
            SectionKind::TableOptions { .. } => 2,
            _ => continue,
        };
        let text: Vec<String> =
            section.entries.iter().map(|(name, value)| format!("{name}={value}")).collect();
        corpus.add_with("options_text", &[kind], text.join(";").as_bytes());
        for entry in &text {
            corpus.add_with("options_text", &[kind], entry.as_bytes());
        }
    }
}

fn manifest(corpus: &mut Corpus, bytes: &[u8]) {
    corpus.add_with("log", &[0], bytes);
    let mut reader = LogReader::new(SliceSource(bytes), 0);
    let mut record = Vec::new();
    while let Ok(LogEvent::Record { .. }) = reader.next_record(&mut record) {
        corpus.add("version_edit", &record);
    }
}

/// The bytes of a table, with the footer and the decompressor that its blocks need.
struct Table<'a> {
    bytes: &'a [u8],
    footer: Footer,
    decompressor: Decompressor,
}

impl Table<'_> {
    fn block(&self, corpus: &mut Corpus, handle: BlockHandle) -> Result<Vec<u8>> {
        let range = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let end = range(handle.end().unwrap_or(u64::MAX));
        let stored = self.bytes.get(range(handle.offset)..end).unwrap_or_default();
        corpus.add_with("trailer", &[self.footer.guard.checksum_type as u8, 0, 0, 0], stored);
        let code = self.footer.guard.check(stored, handle.offset)?;
        let stored = &stored[..stored.len() - 5];
        if code != 0 {
            corpus.add_with("compression", &[code, 5], stored);
        }
        self.decompressor.decompress(CompressionType::from_u8(code)?, stored)
    }
}

fn table(corpus: &mut Corpus, bytes: &[u8]) -> Result<()> {
    let file_size = bytes.len() as u64;
    let tail = &bytes[bytes.len().saturating_sub(53)..];
    corpus.add("footer", tail);
    let footer = Footer::parse(tail, file_size)?;
    let decompressor = Decompressor::new(footer.format_version);
    let table = Table { bytes, footer, decompressor };
    let contents = table.block(corpus, footer.meta_index)?;
    corpus.add("meta_index", &contents);
    let meta_index = MetaIndex::parse(&Block::parse(contents)?, file_size)?;
    let mut properties = TableProperties::absent();
    if let Some(handle) = meta_index.properties() {
        let contents = table.block(corpus, handle)?;
        corpus.add("properties", &contents);
        properties = TableProperties::parse(&Block::parse(contents)?)?;
    }
    for (name, handle) in meta_index.iter() {
        if name.starts_with(b"fullfilter.") {
            let contents = table.block(corpus, handle)?;
            corpus.add("filter", &contents);
        } else if name == b"rocksdb.range_del" {
            let contents = table.block(corpus, handle)?;
            corpus.add_with("range_del", &[1], &contents);
        }
    }
    if let Some(handle) = footer.index.or_else(|| meta_index.find("rocksdb.index")) {
        let contents = table.block(corpus, handle)?;
        data_blocks(corpus, &table, &properties, contents)?;
    }
    Ok(())
}

fn data_blocks(
    corpus: &mut Corpus,
    table: &Table<'_>,
    properties: &TableProperties,
    index: Vec<u8>,
) -> Result<()> {
    let shape = IndexShape {
        key_is_user_key: properties.index_key_is_user_key,
        value_is_delta_encoded: properties.index_value_is_delta_encoded,
        with_first_key: properties.index_type == Some(3),
        value_escapes: properties.index_value_is_delta_encoded && properties.format_version >= 8,
    };
    let switch = u8::from(shape.key_is_user_key)
        | u8::from(shape.value_is_delta_encoded) << 1
        | u8::from(shape.with_first_key) << 2
        | u8::from(shape.value_escapes) << 3;
    corpus.add_with("index_block", &[switch], &index);
    corpus.add_with("block", &[u8::from(shape.with_first_key) | switch & 8], &index);
    let index = Block::parse_prefixed(index)?;
    let mut cursor = IndexCursor::new(shape);
    cursor.seek_to_first(&index)?;
    let mut left = 3;
    while cursor.valid() && left > 0 {
        left -= 1;
        let contents = table.block(corpus, cursor.handle())?;
        if properties.index_type == Some(IndexType::TwoLevel as u32) {
            corpus.add_with("index_block", &[switch], &contents);
            cursor.next(&index)?;
            continue;
        }
        corpus.add_with("block", &[2], &contents);
        let block = Block::parse_prefixed(contents)?;
        let mut entry = BlockCursor::new();
        entry.seek_to_first(&block)?;
        if entry.valid() {
            corpus.add_with("internal_key", &[128], &[entry.key(), entry.key()].concat());
        }
        cursor.next(&index)?;
    }
    Ok(())
}
