//! Tables with arbitrary blob indexes and entities. Some of these name blocks of their own table.
//!
//! Laws: every read ends. Scans in both directions agree. If each entry has a block of its own and
//! the scan succeeds, all other reads agree with the scan. A blob index of a payload then gives the
//! bytes of the payload.

use esker_format::cursor::InternalIterator;
use esker_base::{FileNumber, SequenceNumber, ValueType};
use esker_env::{FileSystem, MemFs};
use esker_format::blob::{BlobIndex, BlobLocation};
use esker_format::compression::CompressionType;
use esker_format::handle::BlockHandle;
use esker_format::key::{self, InternalKeyComparator, LookupKey};
use esker_format::wide_column::stored::{StoredColumns, StoredValue};
use esker_table::{
    BlockBasedTableOptions, TableBuilder, TableBuilderOptions, TableReadOptions, TableReader, TableReaderOptions,
};
use std::path::Path;
use std::sync::Arc;

/// Number of payloads: blocks at known places, for blob indexes to name. Any block with its trailer
/// has the form of an embedded blob.
const PAYLOADS: u8 = 3;

type Entry = (ValueType, Vec<u8>, Option<usize>);
type Shown = Vec<(Vec<u8>, Vec<u8>)>;

fn table(entries: &[Entry], block_size: usize) -> Option<Arc<TableReader>> {
    let (fs, path) = (MemFs::new(), Path::new("/000007.sst"));
    let icmp = InternalKeyComparator::default();
    let layout = BlockBasedTableOptions { block_size, no_block_cache: true, ..BlockBasedTableOptions::default() };
    let layout = Arc::new(layout);
    let mut options = TableBuilderOptions::new(icmp.clone(), Arc::clone(&layout));
    options.compression = CompressionType::None;
    options.user_collected_properties = vec![(b"rocksdb.embedded.blob.stats".to_vec(), Vec::new())];
    let mut builder = TableBuilder::new(options, fs.new_writable_file(path).unwrap()).unwrap();
    for (i, (value_type, value, _)) in entries.iter().enumerate() {
        builder.add(&key::internal_key(&[i as u8], SequenceNumber(0), *value_type), value).unwrap();
    }
    let file_size = builder.finish().unwrap().file_size;
    builder.sync_and_close().unwrap();
    TableReader::open(fs.new_random_access_file(path).unwrap(), TableReaderOptions::new(icmp, layout, file_size)).ok()
}

fn payload_entries() -> Vec<Entry> {
    (0..PAYLOADS).map(|i| (ValueType::Value, vec![i; 40 * (usize::from(i) + 1)], None)).collect()
}

/// Places and contents of the payloads.
fn payloads() -> Vec<(BlockHandle, Vec<u8>)> {
    let reader = table(&payload_entries(), 1).unwrap();
    let mut found = Vec::new();
    let collect = &mut |block: esker_table::DataBlock<'_>| {
        found.push((block.handle, block.block.bytes().to_vec()));
        Ok(())
    };
    reader.for_each_data_block(collect).unwrap();
    found
}

fn location(handle: BlockHandle) -> BlobLocation {
    BlobLocation { file_number: FileNumber(0), offset: handle.offset, size: handle.size, compression: 0 }
}

/// The entries of an input. Each is a kind, a length and that number of bytes.
fn entries(mut data: &[u8], payloads: &[(BlockHandle, Vec<u8>)]) -> Vec<Entry> {
    let mut entries = payload_entries();
    while let Some((&[kind, len], rest)) = data.split_first_chunk::<2>()
        && entries.len() < 60
    {
        let (bytes, rest) = rest.split_at(usize::from(len).min(rest.len()));
        data = rest;
        let at = usize::from(len) % payloads.len();
        let mut value = Vec::new();
        entries.push(match kind % 5 {
            0 => (ValueType::Value, bytes.to_vec(), None),
            1 => (ValueType::BlobIndex, bytes.to_vec(), None),
            2 => (ValueType::WideColumnEntity, bytes.to_vec(), None),
            3 => {
                BlobIndex::Blob(location(payloads[at].0)).append_to(&mut value);
                (ValueType::BlobIndex, value, Some(at))
            }
            _ => {
                let mut columns = vec![(&b""[..], StoredValue::Blob(location(payloads[at].0)))];
                columns.push((&b"inline"[..], StoredValue::Inline(bytes)));
                StoredColumns { columns }.append_to(&mut value).unwrap();
                (ValueType::WideColumnEntity, value, Some(at))
            }
        });
    }
    entries
}

fn walk(reader: &Arc<TableReader>, options: &TableReadOptions, forwards: bool) -> Option<Shown> {
    let mut iter = reader.iter(*options);
    let mut shown = Shown::new();
    if forwards {
        iter.seek_to_first();
    } else {
        iter.seek_to_last();
    }
    while iter.valid() {
        shown.push((iter.key().to_vec(), iter.value().to_vec()));
        if forwards {
            iter.next();
        } else {
            iter.prev();
        }
    }
    iter.status().ok()?;
    if !forwards {
        shown.reverse();
    }
    Some(shown)
}

/// Checks an entry that a scan shows. A plain value is the written one. A blob index or an entity
/// that names a payload shows the payload. No shown entry refers to a blob of its own table.
fn check(shown: &(Vec<u8>, Vec<u8>), entry: &Entry, payloads: &[(BlockHandle, Vec<u8>)]) {
    let value_type = ValueType::from_u8((key::trailer(&shown.0) & 0xFF) as u8).unwrap();
    match (entry.0, entry.2) {
        (ValueType::Value, _) => assert_eq!(shown.1, entry.1),
        (ValueType::BlobIndex, Some(at)) => {
            assert_eq!((value_type, &shown.1), (ValueType::Value, &payloads[at].1));
        }
        (ValueType::WideColumnEntity, Some(at)) => {
            let columns = StoredColumns::parse(&shown.1).unwrap();
            assert_eq!(columns.default_value(), Some(StoredValue::Inline(&payloads[at].1)));
        }
        _ => {}
    }
    esker_format::wide_column::stored::for_each_blob(value_type, &shown.1, &mut |location| {
        assert_ne!(location.file_number, FileNumber(0), "a reference to a blob of this file was returned");
    })
    .ok();
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let Some((&switches, data)) = data.split_first() else { return };
    let payloads = payloads();
    let entries = entries(data, &payloads);
    let Some(reader) = table(&entries, if switches & 1 == 0 { 1 } else { 200 }) else { return };
    if switches & 1 != 0 && switches & 2 != 0 {
        drop(reader.verify(&mut |_| true));
    }
    let checked = TableReadOptions { verify_checksums: true, ..TableReadOptions::default() };
    let unchecked = TableReadOptions { verify_checksums: false, ..TableReadOptions::default() };
    let ahead = walk(&reader, &checked, true);
    assert_eq!(walk(&reader, &checked, false), ahead);
    let lax = walk(&reader, &unchecked, true);
    if switches & 1 != 0 {
        return;
    }
    if let Some(ahead) = ahead {
        assert_eq!(lax.as_ref(), Some(&ahead));
        reader.verify(&mut |_| true).unwrap();
        assert_eq!(ahead.len(), entries.len());
        for (i, (shown, entry)) in ahead.iter().zip(&entries).enumerate() {
            check(shown, entry, &payloads);
            let mut got = None;
            let lookup = LookupKey::new(&[i as u8], SequenceNumber(1));
            reader
                .get(&checked, &lookup, &mut |_, value| {
                    got = Some(value.bytes().to_vec());
                    true
                })
                .unwrap();
            assert_eq!(got.as_ref(), Some(&shown.1));
        }
    }
}
