//! Writes one blob file.
//!
//! In: user keys and values, in the order of the flush or compaction. Out: each value's location; a
//! finished file.
//!
//! Source: RocksDB `db/blob/blob_file_builder.cc`, `blob_log_writer.cc`.

use esker_base::stats::{Histogram, Statistics};
use esker_base::{ColumnFamilyId, Error, FileNumber, Result};
use esker_env::{Clock, StopWatch, WritableFile};
use esker_format::blob::BlobLocation;
use esker_format::blob::file::{
    BlobFileFooter, BlobFileHeader, BlobRecordHeader, HEADER_BYTES, record_bytes,
};
use esker_format::compression::{CodecOptions, CompressionType, Compressor};
use std::sync::Arc;

/// A finished blob file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlobFileInfo {
    /// Records.
    pub blob_count: u64,
    /// Bytes of the records, without header and footer, as the MANIFEST counts them.
    pub blob_bytes: u64,
}

/// Writes one blob file.
pub struct BlobFileBuilder {
    file: Box<dyn WritableFile>,
    number: FileNumber,
    compressor: Compressor,
    stored: Vec<u8>,
    info: BlobFileInfo,
    /// Takes the times of compressions.
    times: Option<(Arc<Statistics>, Arc<dyn Clock>)>,
}

impl std::fmt::Debug for BlobFileBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlobFileBuilder")
            .field("number", &self.number)
            .field("info", &self.info)
            .finish_non_exhaustive()
    }
}

impl BlobFileBuilder {
    /// Begins file `number` with one codec for all its values.
    /// # Errors
    /// `NotSupported` for codecs that Esker only reads · `IoError`.
    pub fn new(
        mut file: Box<dyn WritableFile>,
        number: FileNumber,
        column_family: ColumnFamilyId,
        compression: CompressionType,
        effort: &CodecOptions,
    ) -> Result<BlobFileBuilder> {
        let compressor = Compressor::new(compression, effort)?;
        file.append(&BlobFileHeader { column_family, compression: compression as u8 }.encode())?;
        let info = BlobFileInfo { blob_count: 0, blob_bytes: 0 };
        Ok(BlobFileBuilder { file, number, compressor, stored: Vec::new(), info, times: None })
    }

    /// Adds the time of each compression to `statistics`, if there are any.
    pub fn timed(self, statistics: Option<Arc<Statistics>>, clock: Arc<dyn Clock>) -> BlobFileBuilder {
        BlobFileBuilder { times: statistics.map(|statistics| (statistics, clock)), ..self }
    }

    /// Appends the value of `user_key`; returns its location.
    /// # Errors
    /// `IoError`; `InvalidArgument` for a value of 4 GiB or more that should be compressed. The
    /// file is lost then.
    pub fn add(&mut self, user_key: &[u8], value: &[u8]) -> Result<BlobLocation> {
        let stored = if self.compressor.kind() == CompressionType::None {
            value
        } else {
            self.stored.clear();
            let _watch = self.times.as_ref().map(|(statistics, clock)| {
                StopWatch::start(Some(statistics), &**clock, Histogram::BlobDbCompressionMicros)
            });
            if !self.compressor.compress_whatever_it_saves(value, &mut self.stored)? {
                return Err(Error::invalid_argument("a value is too large to be compressed"));
            }
            &self.stored
        };
        self.file.append(&BlobRecordHeader::of(user_key, stored).encode())?;
        self.file.append(user_key)?;
        self.file.append(stored)?;
        let bytes = record_bytes(user_key.len(), stored.len() as u64);
        self.info.blob_count += 1;
        self.info.blob_bytes += bytes;
        Ok(BlobLocation {
            file_number: self.number,
            offset: HEADER_BYTES as u64 + self.info.blob_bytes - stored.len() as u64,
            size: stored.len() as u64,
            compression: self.compressor.kind() as u8,
        })
    }

    /// The file's number.
    pub fn number(&self) -> FileNumber {
        self.number
    }

    /// Bytes written so far.
    pub fn file_size(&self) -> u64 {
        self.file.file_size()
    }

    /// Writes the footer. The file is not synced.
    /// # Errors
    /// `IoError`.
    pub fn finish(mut self) -> Result<(Box<dyn WritableFile>, BlobFileInfo)> {
        self.file.append(&BlobFileFooter { blob_count: self.info.blob_count }.encode())?;
        Ok((self.file, self.info))
    }
}
