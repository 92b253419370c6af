//! Embedded blobs: values as records between the data blocks of their own table.
//!
//! In: a value. Out: its place in the table's file, for the blob index of its entry. A record is
//! the value, not compressed, and a block trailer. The reader is `embedded.rs` of this crate.
//! Source: RocksDB `db/blob/blob_gen2_format.h`, `table/embedded_blob_sst.h`.

use super::TableBuilder;
use esker_base::coding::put_varint64;
use esker_base::{Error, FileNumber, Result};
use esker_format::blob::BlobLocation;
use esker_format::compression::CompressionType;
use esker_format::properties::EMBEDDED_BLOB_STATS;

/// Counts of a table's records, for the property [`EMBEDDED_BLOB_STATS`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EmbeddedBlobs {
    count: u64,
    payload_bytes: u64,
    /// Bytes of the values that entries of the current data block name.
    pub(super) of_block: u64,
}

/// Bytes of embedded values behind which a data block ends: a reader puts them all back into the
/// block.
const MOST_BYTES_OF_BLOCK: u64 = 1 << 20;

impl TableBuilder {
    /// Writes a value as an embedded blob, and returns its place: file number 0 stands for the
    /// table itself. The caller then adds the entry that names the place.
    /// # Errors
    /// `InvalidArgument` if the options lack
    /// [`embeds_blobs`](crate::TableBuilderOptions::embeds_blobs), or the value has 4 GiB or more.
    /// `IoError`, or the first error of any call. After an error the table cannot be finished.
    pub fn add_embedded_blob(&mut self, value: &[u8]) -> Result<BlobLocation> {
        if let Some(e) = &self.failed {
            return Err(e.clone());
        }
        self.try_add_embedded_blob(value).inspect_err(|e| self.failed = Some(e.clone()))
    }

    fn try_add_embedded_blob(&mut self, value: &[u8]) -> Result<BlobLocation> {
        if !self.options.embeds_blobs {
            return Err(Error::invalid_argument("the table was not opened for embedded blobs"));
        }
        if u32::try_from(value.len()).is_err() {
            return Err(Error::invalid_argument("Embedded blob value is too large"));
        }
        let of_block = self.embedded_blobs.of_block;
        if of_block > 0 && of_block + value.len() as u64 > MOST_BYTES_OF_BLOCK {
            self.flush_data_block()?;
        }
        let handle = self.sink.write_plain(value.to_vec())?;
        let counts = &mut self.embedded_blobs;
        counts.of_block += handle.size;
        counts.count += 1;
        counts.payload_bytes += handle.size;
        let mut stats = Vec::new();
        put_varint64(&mut stats, counts.count);
        put_varint64(&mut stats, counts.payload_bytes);
        self.properties.user_collected_properties.insert(EMBEDDED_BLOB_STATS.to_vec(), stats);
        Ok(BlobLocation {
            file_number: FileNumber(0),
            offset: handle.offset,
            size: handle.size,
            compression: CompressionType::None as u8,
        })
    }
}
