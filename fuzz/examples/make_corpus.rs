//! Cuts real databases into seeds for the fuzz targets: `cargo run --release --example make_corpus [FIXTURES]`.
//!
//! In: directories `NAME/db` (the golden files by default). Out: `fuzz/corpus/TARGET/*`, named by their hash, so that a
//! second run adds nothing. What cannot be read is left out: the seeds are a head start, not a test.

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
use esker_format::properties::{IndexType, TableProperties};
use esker_format::write_batch::{BatchOp, WriteBatchView};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Large seeds slow the fuzzer down and say little more.
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

    /// Targets that take a switch before the bytes.
    fn add_with(&mut self, target: &'static str, switches: &[u8], bytes: &[u8]) {
        self.add(target, &[switches, bytes].concat());
    }
}

fn main() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let fixtures = std::env::args_os().nth(1).map_or_else(|| here.join("../fixtures"), PathBuf::from);
    let mut corpus = Corpus { root: here.join("corpus"), counts: HashMap::new() };
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
                Some((FileType::Options, _)) => corpus.add("options_file", &bytes),
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

fn manifest(corpus: &mut Corpus, bytes: &[u8]) {
    corpus.add_with("log", &[0], bytes);
    let mut reader = LogReader::new(SliceSource(bytes), 0);
    let mut record = Vec::new();
    while let Ok(LogEvent::Record { .. }) = reader.next_record(&mut record) {
        corpus.add("version_edit", &record);
    }
}

/// A table, as far as its blocks can be found.
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
    };
    let switch = u8::from(shape.key_is_user_key)
        | u8::from(shape.value_is_delta_encoded) << 1
        | u8::from(shape.with_first_key) << 2;
    corpus.add_with("index_block", &[switch], &index);
    corpus.add_with("block", &[u8::from(shape.with_first_key)], &index);
    let index = Block::parse(index)?;
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
        let block = Block::parse(contents)?;
        let mut entry = BlockCursor::new();
        entry.seek_to_first(&block)?;
        if entry.valid() {
            corpus.add_with("internal_key", &[128], &[entry.key(), entry.key()].concat());
        }
        cursor.next(&index)?;
    }
    Ok(())
}
