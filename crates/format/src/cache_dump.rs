//! Dumps of a block cache: units, each a block with its key.
//!
//! In: blocks, or the bytes of units. Out: the bytes, or the blocks, with both checksums checked.
//! Source: RocksDB `utilities/cache_dump_load_impl.{h,cc}`.
//!
//! Page: `docs/format/cache-dump.md`.

use crate::trace::MAGIC;
use esker_base::coding::{Decoder, put_fixed32, put_fixed64, put_length_prefixed};
use esker_base::{Error, Result, crc32c};

/// The version of the format: major and minor.
pub const CACHE_DUMP_VERSION: (u32, u32) = (0, 1);

/// Bytes of an encoded [`DumpUnitMeta`].
pub const DUMP_UNIT_META_BYTES: usize = 16;

/// The kind of a unit. Other numbers occur: a reader takes them for blocks of an unknown kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum CacheDumpUnitType {
    /// The first unit. Its value is [`header_text`].
    Header = 1,
    /// The last unit.
    Footer = 2,
    /// A data block.
    Data = 3,
    /// A filter, or a partition of one.
    Filter = 4,
    /// A block of properties. Never written.
    Properties = 5,
    /// A compression dictionary. Never written.
    CompressionDictionary = 6,
    /// A block of range deletions. Never written.
    RangeDeletion = 7,
    /// A block of a hash index. Never written.
    HashIndexPrefixes = 8,
    /// A block of a hash index. Never written.
    HashIndexMetadata = 9,
    /// A meta index. Never written.
    MetaIndex = 10,
    /// An index, or a partition of one.
    Index = 11,
    /// A filter of a kind no longer written.
    DeprecatedFilterBlock = 12,
    /// The index of a partitioned filter.
    FilterMetaBlock = 13,
}

/// The words in front of a unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DumpUnitMeta {
    /// The place of the unit, from 0 on.
    pub sequence_num: u32,
    /// CRC32C of the unit's bytes, not masked.
    pub dump_unit_checksum: u32,
    /// Number of the unit's bytes.
    pub dump_unit_size: u64,
}

impl DumpUnitMeta {
    /// The words for a unit with these bytes.
    pub fn of(sequence_num: u32, unit: &[u8]) -> DumpUnitMeta {
        DumpUnitMeta {
            sequence_num,
            dump_unit_checksum: crc32c::value(unit),
            dump_unit_size: unit.len() as u64,
        }
    }

    /// The bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(DUMP_UNIT_META_BYTES);
        put_fixed32(&mut out, self.sequence_num);
        put_fixed32(&mut out, self.dump_unit_checksum);
        put_fixed64(&mut out, self.dump_unit_size);
        out
    }

    /// The words that `bytes` begin with.
    /// # Errors
    /// `Corruption` if they are cut off.
    pub fn decode(bytes: &[u8]) -> Result<DumpUnitMeta> {
        let mut decoder = Decoder::new(bytes);
        Ok(DumpUnitMeta {
            sequence_num: decoder.fixed32()?,
            dump_unit_checksum: decoder.fixed32()?,
            dump_unit_size: decoder.fixed64()?,
        })
    }

    /// Checks that these are the words of `unit`.
    /// # Errors
    /// `Corruption` if size or checksum differ.
    pub fn check(&self, unit: &[u8]) -> Result<()> {
        if unit.len() as u64 != self.dump_unit_size {
            return Err(Error::corruption(format!(
                "the unit has {} bytes, its metadata says {}",
                unit.len(),
                self.dump_unit_size
            )));
        }
        check_crc("the unit", unit, self.dump_unit_checksum)
    }
}

fn check_crc(what: &str, bytes: &[u8], stored: u32) -> Result<()> {
    match crc32c::value(bytes) {
        computed if computed == stored => Ok(()),
        computed => Err(Error::corruption(format!(
            "the checksum of {what} does not match: stored {stored:#010x}, computed {computed:#010x}"
        ))),
    }
}

/// A block of a dump, or its header or footer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DumpUnit<'a> {
    /// Microseconds since 1970 at which the block was copied.
    pub timestamp: u64,
    /// Its kind: a [`CacheDumpUnitType`], or an unknown number.
    pub unit_type: u8,
    /// The block's key in the cache.
    pub key: &'a [u8],
    /// The block: its uncompressed contents.
    pub value: &'a [u8],
}

impl<'a> DumpUnit<'a> {
    /// The first unit of a dump. `text`: [`header_text`].
    pub fn header(timestamp: u64, text: &'a [u8]) -> DumpUnit<'a> {
        DumpUnit { timestamp, unit_type: CacheDumpUnitType::Header as u8, key: b"header", value: text }
    }

    /// The last unit of a dump.
    pub fn footer(timestamp: u64) -> DumpUnit<'static> {
        let value = b"cache dump completed";
        DumpUnit { timestamp, unit_type: CacheDumpUnitType::Footer as u8, key: b"footer", value }
    }

    /// Whether this is the last unit.
    pub fn is_footer(&self) -> bool {
        self.unit_type == CacheDumpUnitType::Footer as u8
    }

    /// The bytes.
    /// # Errors
    /// `InvalidArgument` if the value has 4 GiB or more.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let value_len = u32::try_from(self.value.len())
            .map_err(|_| Error::invalid_argument("a block of a cache dump must have less than 4 GiB"))?;
        let mut out = Vec::with_capacity(self.key.len() + self.value.len() + 32);
        put_fixed64(&mut out, self.timestamp);
        out.push(self.unit_type);
        put_length_prefixed(&mut out, self.key);
        put_fixed32(&mut out, value_len);
        put_fixed32(&mut out, crc32c::value(self.value));
        put_length_prefixed(&mut out, self.value);
        Ok(out)
    }

    /// The unit that `bytes` begin with.
    /// # Errors
    /// `Corruption` if they are cut off, if the two sizes of the value differ, or if its checksum
    /// does not match.
    pub fn decode(bytes: &'a [u8]) -> Result<DumpUnit<'a>> {
        let mut decoder = Decoder::new(bytes);
        let (timestamp, unit_type) = (decoder.fixed64()?, decoder.u8()?);
        let key = decoder.length_prefixed()?;
        let (value_len, checksum) = (decoder.fixed32()?, decoder.fixed32()?);
        let value = decoder.length_prefixed()?;
        if value.len() as u64 != u64::from(value_len) {
            return Err(Error::corruption(format!(
                "the value of the unit has {} bytes, its size says {value_len}",
                value.len()
            )));
        }
        check_crc("the block", value, checksum)?;
        Ok(DumpUnit { timestamp, unit_type, key, value })
    }

    /// Checks that this is the header of a dump whose format is known.
    /// # Errors
    /// `Corruption` if it is no header · `NotSupported` if the major version is another.
    pub fn check_header(&self) -> Result<()> {
        let fields = self.value.strip_prefix(MAGIC).filter(|_| self.unit_type == 1);
        let fields =
            fields.ok_or_else(|| Error::corruption("the first unit is no header of a cache dump"))?;
        let fields = String::from_utf8_lossy(fields);
        let version = fields.split('\t').find_map(|field| field.strip_prefix("Cache dump format version: "));
        let major = version.and_then(|version| version.split_once('.')?.0.parse::<u32>().ok());
        match major {
            Some(major) if major == CACHE_DUMP_VERSION.0 => Ok(()),
            Some(major) => Err(Error::not_supported(format!("cache dumps of format version {major}"))),
            None => Err(Error::corruption("the header of the cache dump has no version")),
        }
    }
}

/// The value of a dump's header. `release`: the version of RocksDB whose format the dump has.
pub fn header_text(release: (u32, u32)) -> Vec<u8> {
    let ((major, minor), release) = (CACHE_DUMP_VERSION, format!("{}.{}", release.0, release.1));
    let fields = format!(
        "\tCache dump format version: {major}.{minor}\tRocksDB Version: {release}\tFormat: dump_unit_metadata \
         <sequence_number, dump_unit_checksum, dump_unit_size>, dump_unit <timestamp, key, block_type, block_size, \
         block_data, block_checksum> cache_value\n"
    );
    [MAGIC, fields.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A unit whose bytes were put together by hand from RocksDB's sources.
    #[test]
    fn units_have_rocksdbs_bytes() {
        let unit =
            DumpUnit { timestamp: 0x0102, unit_type: 3, key: b"0123456789abcdef", value: b"123456789" };
        let mut expected = vec![2, 1, 0, 0, 0, 0, 0, 0, 3, 16];
        expected.extend_from_slice(b"0123456789abcdef");
        expected.extend_from_slice(&[9, 0, 0, 0]);
        // The check value of CRC32C.
        expected.extend_from_slice(&0xE306_9283_u32.to_le_bytes());
        expected.extend_from_slice(b"\x09123456789");
        let bytes = unit.encode().unwrap();
        assert_eq!(bytes, expected);
        assert_eq!(DumpUnit::decode(&bytes).unwrap(), unit);
        let meta = DumpUnitMeta::of(7, b"123456789");
        assert_eq!(meta.encode(), b"\x07\0\0\0\x83\x92\x06\xe3\x09\0\0\0\0\0\0\0");
        assert_eq!(DumpUnitMeta::decode(&meta.encode()).unwrap(), meta);
        meta.check(b"123456789").unwrap();
    }

    #[test]
    fn the_header_has_rocksdbs_text_and_others_are_refused() {
        let text = header_text((11, 8));
        let expected = "feedcafedeadbeef\tCache dump format version: 0.1\tRocksDB Version: 11.8\tFormat: \
            dump_unit_metadata <sequence_number, dump_unit_checksum, dump_unit_size>, dump_unit <timestamp, key, \
            block_type, block_size, block_data, block_checksum> cache_value\n";
        assert_eq!(String::from_utf8(text.clone()).unwrap(), expected);
        let header = DumpUnit::header(5, &text);
        header.check_header().unwrap();
        let newer = expected.replace("version: 0.1", "version: 1.0");
        let error = DumpUnit { value: newer.as_bytes(), ..header }.check_header().unwrap_err();
        assert!(error.to_string().contains("format version 1"), "{error}");
        for value in [&b""[..], b"feedcafedeadbee", b"feedcafedeadbeef\tCache dump format version: x.1\t"] {
            assert!(DumpUnit { value, ..header }.check_header().is_err());
        }
        assert!(DumpUnit { unit_type: 3, ..header }.check_header().is_err());
        let footer = DumpUnit::footer(5);
        assert!(footer.is_footer() && !header.is_footer());
        assert_eq!((footer.key, footer.value), (&b"footer"[..], &b"cache dump completed"[..]));
    }

    #[test]
    fn every_changed_byte_and_every_cut_of_a_unit_is_found() {
        let unit = DumpUnit { timestamp: 9, unit_type: 11, key: b"key", value: b"a block" };
        let bytes = unit.encode().unwrap();
        let meta = DumpUnitMeta::of(0, &bytes);
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            assert!(meta.check(&changed).is_err(), "byte {at}");
            assert!(
                meta.check(&bytes[..at]).is_err() && DumpUnit::decode(&bytes[..at]).is_err(),
                "cut at {at}"
            );
            // The unit alone finds changes of the value, its size and its checksum.
            let decoded = DumpUnit::decode(&changed);
            assert!(decoded.is_err() || at < 13, "byte {at}: {decoded:?}");
        }
        assert!(DumpUnitMeta::decode(&meta.encode()[..15]).is_err());
    }
}
