//! Records of accesses to the block cache.

use super::{TraceFrame, TraceKind};
use esker_base::coding::{Decoder, put_fixed32, put_fixed64, put_length_prefixed};
use esker_base::{Error, Result};

/// The operation that reads a block. The numbers are RocksDB's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum TableReaderCaller {
    /// A get.
    UserGet = 1,
    /// A multi-get.
    UserMultiGet = 2,
    /// An iterator.
    UserIterator = 3,
    /// The approximate size of a range.
    UserApproximateSize = 4,
    /// A verification of checksums.
    UserVerifyChecksum = 5,
    /// The opening of a table.
    Prefetch = 9,
    /// A compaction.
    Compaction = 10,
    /// A flush.
    Flush = 12,
    /// Another operation.
    Uncategorized = 14,
}

/// One access to the block cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockAccess<'a> {
    /// Microseconds since 1970.
    pub timestamp: u64,
    /// The kind of block, one of those of [`TraceKind`].
    pub block_type: u8,
    /// The block's key in the cache.
    pub block_key: &'a [u8],
    /// Bytes that the block takes in the cache.
    pub block_size: u64,
    /// The table's column family.
    pub cf_id: u64,
    /// The name of the column family.
    pub cf_name: &'a [u8],
    /// The table's level.
    pub level: u32,
    /// The table's number.
    pub sst_fd_number: u64,
    /// The operation that reads the block, one of [`TableReaderCaller`].
    pub caller: u8,
    /// The cache has the block.
    pub is_cache_hit: bool,
    /// The block does not go into the cache if it is read from its file.
    pub no_insert: bool,
    /// Facts of a get or multi-get.
    pub get: Option<GetAccess<'a>>,
}

/// The facts about a get or multi-get that reads a block. Those about the block's content are 0 for
/// blocks other than data blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GetAccess<'a> {
    /// The number of the get, from 1 on.
    pub get_id: u64,
    /// The get reads at a snapshot of the user.
    pub from_user_specified_snapshot: bool,
    /// The internal key that is looked for.
    pub referenced_key: &'a [u8],
    /// Bytes of key and value that the block has for it.
    pub referenced_data_size: u64,
    /// Number of keys in the block.
    pub num_keys_in_block: u64,
    /// The block has the key.
    pub referenced_key_exists: bool,
}

fn is_get(caller: u8) -> bool {
    caller == TableReaderCaller::UserGet as u8 || caller == TableReaderCaller::UserMultiGet as u8
}

impl<'a> BlockAccess<'a> {
    /// Appends the whole record. REQUIRES: `get` is there for gets and multi-gets, and only then.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut payload = Vec::new();
        put_length_prefixed(&mut payload, self.block_key);
        put_fixed64(&mut payload, self.block_size);
        put_fixed64(&mut payload, self.cf_id);
        put_length_prefixed(&mut payload, self.cf_name);
        put_fixed32(&mut payload, self.level);
        put_fixed64(&mut payload, self.sst_fd_number);
        payload.extend([self.caller, self.is_cache_hit.into(), self.no_insert.into()]);
        if let Some(get) = &self.get {
            put_fixed64(&mut payload, get.get_id);
            payload.push(get.from_user_specified_snapshot.into());
            put_length_prefixed(&mut payload, get.referenced_key);
            if self.block_type == TraceKind::DataBlock as u8 {
                put_fixed64(&mut payload, get.referenced_data_size);
                put_fixed64(&mut payload, get.num_keys_in_block);
                payload.push(get.referenced_key_exists.into());
            }
        }
        TraceFrame { timestamp: self.timestamp, kind: self.block_type, payload: &payload }.encode(out);
    }

    /// Decodes a record.
    /// # Errors
    /// `Corruption` if its payload is cut off, or longer than it is.
    pub fn decode(frame: &TraceFrame<'a>) -> Result<BlockAccess<'a>> {
        let mut decoder = Decoder::new(frame.payload);
        let mut access = BlockAccess {
            timestamp: frame.timestamp,
            block_type: frame.kind,
            block_key: decoder.length_prefixed()?,
            block_size: decoder.fixed64()?,
            cf_id: decoder.fixed64()?,
            cf_name: decoder.length_prefixed()?,
            level: decoder.fixed32()?,
            sst_fd_number: decoder.fixed64()?,
            caller: decoder.u8()?,
            is_cache_hit: decoder.u8()? != 0,
            no_insert: decoder.u8()? != 0,
            get: None,
        };
        if is_get(access.caller) {
            let mut get = GetAccess {
                get_id: decoder.fixed64()?,
                from_user_specified_snapshot: decoder.u8()? != 0,
                referenced_key: decoder.length_prefixed()?,
                ..GetAccess::default()
            };
            if access.block_type == TraceKind::DataBlock as u8 {
                get.referenced_data_size = decoder.fixed64()?;
                get.num_keys_in_block = decoder.fixed64()?;
                get.referenced_key_exists = decoder.u8()? != 0;
            }
            access.get = Some(get);
        }
        if !decoder.is_empty() {
            return Err(Error::corruption("a trace record of a block access is too long"));
        }
        Ok(access)
    }
}
