//! Reads any bytes as a blob file. Also reads blob files in which one byte was changed.
//!
//! Law: a checked read returns the written value, or an error.

use esker_base::{ColumnFamilyId, FileNumber};
use esker_env::{FileSystem, MemFs};
use esker_format::blob::BlobLocation;
use esker_format::blob::file::{BlobFileFooter, BlobFileHeader, BlobRecordHeader};
use esker_table::blob::BlobFileReader;
use std::path::Path;

/// A record before any change: the offset of its stored value, its key, and the stored value.
type Record = (u64, Vec<u8>, Vec<u8>);

fn open(bytes: &[u8]) -> Option<BlobFileReader> {
    let fs = MemFs::new();
    let path = Path::new("/000007.blob");
    let mut file = fs.new_writable_file(path).unwrap();
    file.append(bytes).unwrap();
    file.close().unwrap();
    BlobFileReader::open(fs.new_random_access_file(path).unwrap()).ok()
}

fn number(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    let from = bytes.get(at..).unwrap_or_default();
    let count = from.len().min(8);
    number[..count].copy_from_slice(&from[..count]);
    u64::from_le_bytes(number)
}

/// Reads at any offsets and sizes, as a damaged blob index may name them. Also verifies the file.
fn read_anywhere(reader: &BlobFileReader, data: &[u8]) {
    for (offset, size) in [(number(data, 0), number(data, 8)), (number(data, 3) & 0xFFF, number(data, 5) & 0xFFF)] {
        let compression = reader.header().compression;
        let location = BlobLocation { file_number: FileNumber(7), offset, size, compression };
        for verify in [true, false] {
            drop(reader.value(data.get(..4).unwrap_or_default(), &location, verify));
        }
    }
    drop(reader.verify());
}

/// Makes a blob file. Each pair of bytes in `data` gives the lengths of a record's key and value.
fn written(compression: u8, data: &[u8]) -> (Vec<u8>, Vec<Record>) {
    let mut bytes = BlobFileHeader { column_family: ColumnFamilyId(0), compression }.encode();
    let mut records = Vec::new();
    for (i, sizes) in data.chunks_exact(2).take(40).enumerate() {
        let key = vec![i as u8; usize::from(sizes[0] & 0x1F)];
        let stored = vec![sizes[1] ^ 0x55; usize::from(sizes[1])];
        bytes.extend_from_slice(&BlobRecordHeader::of(&key, &stored).encode());
        bytes.extend_from_slice(&key);
        records.push((bytes.len() as u64, key, stored.clone()));
        bytes.extend_from_slice(&stored);
    }
    bytes.extend_from_slice(&BlobFileFooter { blob_count: records.len() as u64 }.encode());
    (bytes, records)
}

fn damaged(data: &[u8]) {
    let Some((&[compression, at_low, at_high, change], data)) = data.split_first_chunk::<4>() else { return };
    let (mut bytes, records) = written(compression, data);
    let at = usize::from(u16::from_le_bytes([at_low, at_high])) % bytes.len();
    bytes[at] ^= change;
    let Some(reader) = open(&bytes) else { return };
    read_anywhere(&reader, data);
    let verified = reader.verify();
    for (offset, key, stored) in records {
        let size = stored.len() as u64;
        let location = BlobLocation { file_number: FileNumber(7), offset, size, compression };
        let found = reader.value(&key, &location, true);
        if compression == 0 {
            match found {
                Ok(value) => assert_eq!(value, stored),
                Err(e) => assert!(change != 0, "{e}"),
            }
        }
    }
    if compression == 0 && change == 0 {
        verified.unwrap();
    }
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let Some((&kind, data)) = data.split_first() else { return };
    if kind & 1 == 0 {
        return damaged(data);
    }
    if let Some(reader) = open(data) {
        read_anywhere(&reader, data);
    }
}
