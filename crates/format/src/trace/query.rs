//! Payloads of query traces: writes, gets, seeks.
//!
//! A payload begins with a bit for each field that it has; fields follow in the order of their
//! bits. Version 0.1 has no bits, and no multi-gets.

use super::TraceKind;
use esker_base::coding::{Decoder, put_fixed32, put_fixed64, put_length_prefixed};
use esker_base::{ColumnFamilyId, Error, Result};

/// The bits of fields. The numbers are RocksDB's `TracePayloadType`.
mod field {
    pub(super) const WRITE_BATCH: u32 = 1;
    pub(super) const GET_FAMILY: u32 = 2;
    pub(super) const GET_KEY: u32 = 3;
    pub(super) const ITER_FAMILY: u32 = 4;
    pub(super) const ITER_KEY: u32 = 5;
    pub(super) const ITER_LOWER_BOUND: u32 = 6;
    pub(super) const ITER_UPPER_BOUND: u32 = 7;
    pub(super) const MULTI_GET_SIZE: u32 = 8;
    pub(super) const MULTI_GET_FAMILIES: u32 = 9;
    pub(super) const MULTI_GET_KEYS: u32 = 10;
}

/// A query that a trace records.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Query<'a> {
    /// A batch that was written, as `WriteBatch::data` has it.
    Write(&'a [u8]),
    /// A get.
    Get {
        /// The column family.
        family: ColumnFamilyId,
        /// The user key.
        key: &'a [u8],
    },
    /// A seek of an iterator.
    IteratorSeek {
        /// The column family.
        family: ColumnFamilyId,
        /// Whether it goes to the last key at or before `key`, not to the first at or after it.
        for_prev: bool,
        /// The user key.
        key: &'a [u8],
        /// The iterator's lower bound; empty: none.
        lower_bound: &'a [u8],
        /// The iterator's upper bound; empty: none.
        upper_bound: &'a [u8],
    },
    /// A get of several keys, each with its column family.
    MultiGet(Vec<(ColumnFamilyId, &'a [u8])>),
}

impl<'a> Query<'a> {
    /// The kind of the query's record.
    pub fn kind(&self) -> TraceKind {
        match self {
            Query::Write(_) => TraceKind::Write,
            Query::Get { .. } => TraceKind::Get,
            Query::IteratorSeek { for_prev: false, .. } => TraceKind::IteratorSeek,
            Query::IteratorSeek { for_prev: true, .. } => TraceKind::IteratorSeekForPrev,
            Query::MultiGet(_) => TraceKind::MultiGet,
        }
    }

    /// Appends the payload in version 0.2. REQUIRES: each field has fewer than 2^32 bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let bits = |fields: &[u32]| fields.iter().fold(0, |bits, field| bits | 1 << field);
        match self {
            Query::Write(batch) => {
                put_fixed64(out, bits(&[field::WRITE_BATCH]));
                put_length_prefixed(out, batch);
            }
            Query::Get { family, key } => {
                put_fixed64(out, bits(&[field::GET_FAMILY, field::GET_KEY]));
                put_fixed32(out, family.0);
                put_length_prefixed(out, key);
            }
            Query::IteratorSeek { family, key, lower_bound, upper_bound, .. } => {
                let mut fields = vec![field::ITER_FAMILY, field::ITER_KEY];
                fields.extend((!lower_bound.is_empty()).then_some(field::ITER_LOWER_BOUND));
                fields.extend((!upper_bound.is_empty()).then_some(field::ITER_UPPER_BOUND));
                put_fixed64(out, bits(&fields));
                put_fixed32(out, family.0);
                put_length_prefixed(out, key);
                for bound in [lower_bound, upper_bound].into_iter().filter(|bound| !bound.is_empty()) {
                    put_length_prefixed(out, bound);
                }
            }
            Query::MultiGet(keys) => {
                let fields = [field::MULTI_GET_SIZE, field::MULTI_GET_FAMILIES, field::MULTI_GET_KEYS];
                put_fixed64(out, bits(&fields));
                put_fixed32(out, u32::try_from(keys.len()).unwrap_or(u32::MAX));
                let (mut families, mut all_keys) = (Vec::new(), Vec::new());
                for (family, key) in keys {
                    put_fixed32(&mut families, family.0);
                    put_length_prefixed(&mut all_keys, key);
                }
                put_length_prefixed(out, &families);
                put_length_prefixed(out, &all_keys);
            }
        }
    }

    /// Decodes the payload of a record of `kind` in a trace of `version`
    /// ([`parse_query_header`](super::parse_query_header)). `None`: records of this kind are no
    /// queries.
    /// # Errors
    /// `Corruption` if the payload is cut off, or has a field that is no field of its kind.
    pub fn decode(kind: u8, payload: &'a [u8], version: u32) -> Result<Option<Query<'a>>> {
        let Some(kind) = TraceKind::from_u8(kind) else { return Ok(None) };
        let query = match kind {
            TraceKind::Write if version < 2 => Query::Write(payload),
            TraceKind::Write => Query::Write(Fields::decode(payload)?.batch),
            TraceKind::Get => {
                let fields = Fields::of_version(payload, version)?;
                Query::Get { family: fields.family, key: fields.key }
            }
            TraceKind::IteratorSeek | TraceKind::IteratorSeekForPrev => {
                let fields = Fields::of_version(payload, version)?;
                Query::IteratorSeek {
                    family: fields.family,
                    for_prev: kind == TraceKind::IteratorSeekForPrev,
                    key: fields.key,
                    lower_bound: fields.lower_bound,
                    upper_bound: fields.upper_bound,
                }
            }
            TraceKind::MultiGet if version < 2 => {
                return Err(Error::corruption("MultiGet is not supported."));
            }
            TraceKind::MultiGet => Query::MultiGet(Fields::decode(payload)?.several()?),
            _ => return Ok(None),
        };
        Ok(Some(query))
    }
}

/// The fields of any payload.
#[derive(Default)]
struct Fields<'a> {
    batch: &'a [u8],
    family: ColumnFamilyId,
    key: &'a [u8],
    lower_bound: &'a [u8],
    upper_bound: &'a [u8],
    size: u32,
    families: &'a [u8],
    keys: &'a [u8],
}

impl<'a> Fields<'a> {
    fn of_version(payload: &'a [u8], version: u32) -> Result<Fields<'a>> {
        if version >= 2 {
            return Fields::decode(payload);
        }
        let mut decoder = Decoder::new(payload);
        let family = ColumnFamilyId(decoder.fixed32()?);
        Ok(Fields { family, key: decoder.length_prefixed()?, ..Fields::default() })
    }

    fn decode(payload: &'a [u8]) -> Result<Fields<'a>> {
        let mut decoder = Decoder::new(payload);
        let bits = decoder.fixed64()?;
        let mut fields = Fields::default();
        for bit in (0..u64::BITS).filter(|bit| bits & (1 << bit) != 0) {
            match bit {
                field::WRITE_BATCH => fields.batch = decoder.length_prefixed()?,
                field::GET_FAMILY | field::ITER_FAMILY => fields.family = ColumnFamilyId(decoder.fixed32()?),
                field::GET_KEY | field::ITER_KEY => fields.key = decoder.length_prefixed()?,
                field::ITER_LOWER_BOUND => fields.lower_bound = decoder.length_prefixed()?,
                field::ITER_UPPER_BOUND => fields.upper_bound = decoder.length_prefixed()?,
                field::MULTI_GET_SIZE => fields.size = decoder.fixed32()?,
                field::MULTI_GET_FAMILIES => fields.families = decoder.length_prefixed()?,
                field::MULTI_GET_KEYS => fields.keys = decoder.length_prefixed()?,
                _ => return Err(Error::corruption(format!("a trace record has the unknown field {bit}"))),
            }
        }
        Ok(fields)
    }

    fn several(&self) -> Result<Vec<(ColumnFamilyId, &'a [u8])>> {
        if self.size == 0 {
            return Err(Error::corruption("a trace record is a multi-get without keys"));
        }
        let (mut families, mut keys) = (Decoder::new(self.families), Decoder::new(self.keys));
        (0..self.size).map(|_| Ok((ColumnFamilyId(families.fixed32()?), keys.length_prefixed()?))).collect()
    }
}
