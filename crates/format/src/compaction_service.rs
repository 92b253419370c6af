//! The job and the result of a remote compaction, as a database and its worker exchange them.
//!
//! In: bytes of another process. Out: [`CompactionServiceInput`], [`CompactionServiceResult`]; and
//! back. The grammar is in `docs/format/compaction-service.md`.
//!
//! Source: RocksDB 11.8 `db/compaction/compaction_service_job.cc`.
//!
//! Invariant: if a field is missing whose default would change the meaning of a job or a result,
//! parsing fails. So truncated bytes are refused. RocksDB uses defaults.

mod text;

use esker_base::{Error, ErrorKind, FileNumber, Result, SequenceNumber, Severity, SubCode};
use std::collections::BTreeMap;
use text::{Fields, Writer, hex, list, number, un_hex};

/// The only version of the bytes: text in the form of options.
const VERSION: u32 = 1;
/// Longest accepted job or result.
const MAX_BYTES: usize = 1 << 30;
/// Temperatures of files: names and codes.
const TEMPERATURES: [(&str, u8); 6] =
    [("kUnknown", 0), ("kHot", 4), ("kWarm", 8), ("kCool", 10), ("kCold", 12), ("kIce", 16)];

/// A compaction, or one key range of it, for a worker that has the database's directory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CompactionServiceInput {
    /// The column family.
    pub cf_name: String,
    /// Live snapshots, ascending.
    pub snapshots: Vec<SequenceNumber>,
    /// Names of the tables to merge, without their directory: all that the compaction needs.
    pub input_files: Vec<String>,
    /// The level of the result.
    pub output_level: usize,
    /// The id of the database.
    pub db_id: String,
    /// The first user key of the range; `None`: from the start.
    pub begin: Option<Vec<u8>>,
    /// The exclusive end of the range; `None`: to the end.
    pub end: Option<Vec<u8>>,
    /// The OPTIONS file in force.
    pub options_file_number: FileNumber,
}

impl CompactionServiceInput {
    /// Reads a job.
    /// # Errors
    /// `InvalidArgument` naming the field · `NotSupported`: another version of the bytes.
    pub fn parse(bytes: &[u8]) -> Result<CompactionServiceInput> {
        let fields = fields_of(bytes, "CompactionServiceInput")?;
        let snapshots = list(fields.required("snapshots")?)?;
        let files = list(fields.required("input_files")?)?;
        let bound = |has: &str, key: &str| -> Result<Option<Vec<u8>>> {
            if fields.bool(has)? { fields.bytes(key).map(Some) } else { Ok(None) }
        };
        let snapshots = snapshots.into_iter().map(|text| number("snapshots", text).map(SequenceNumber));
        let snapshots: Vec<SequenceNumber> = snapshots.collect::<Result<_>>()?;
        if !snapshots.is_sorted() {
            return Err(wrong("snapshots"));
        }
        Ok(CompactionServiceInput {
            cf_name: fields.string("cf_name")?,
            snapshots,
            input_files: files
                .into_iter()
                .map(|name| utf8("input_files", un_hex("input_files", name)?))
                .collect::<Result<_>>()?,
            output_level: level(fields.u64("output_level")?)?,
            db_id: fields.string("db_id")?,
            begin: bound("has_begin", "begin")?,
            end: bound("has_end", "end")?,
            options_file_number: FileNumber(fields.u64("options_file_number")?),
        })
    }

    /// The job as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.bytes("cf_name", self.cf_name.as_bytes());
        out.raw("snapshots", &join(self.snapshots.iter().map(|s| s.0.to_string())));
        out.raw("input_files", &join(self.input_files.iter().map(|name| hex(name.as_bytes()))));
        out.number("output_level", self.output_level as u64);
        out.bytes("db_id", self.db_id.as_bytes());
        for (has, name, key) in [("has_begin", "begin", &self.begin), ("has_end", "end", &self.end)] {
            out.bool(has, key.is_some());
            out.bytes(name, key.as_deref().unwrap_or_default());
        }
        out.number("options_file_number", self.options_file_number.0);
        with_version(out)
    }
}

/// Declares a struct of counts, which RocksDB writes as decimal numbers under the fields' names.
macro_rules! counts {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $field:ident,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct $name { $($(#[$doc])* pub $field: u64,)* }

        impl $name {
            /// Counts that are missing are 0.
            fn read(fields: &Fields<'_>) -> Result<$name> {
                Ok($name { $($field: fields.u64_or_0(stringify!($field))?,)* })
            }

            fn write(&self, out: &mut Writer) {
                $(out.number(stringify!($field), self.$field);)*
            }
        }
    };
}

counts! {
    /// Counts of a worker's job.
    RemoteJobCounts {
        /// Microseconds of wall time.
        elapsed_micros,
        /// Microseconds of processor time.
        cpu_micros,
        /// Entries read, without range tombstones.
        num_input_records,
        /// Tables read.
        num_input_files,
        /// Tables read from the output level.
        num_input_files_at_output_level,
        /// Entries written, without range tombstones.
        num_output_records,
        /// Tables written.
        num_output_files,
        /// Bytes of the tables read.
        total_input_bytes,
        /// Bytes of the tables written.
        total_output_bytes,
        /// Entries dropped because newer ones hide them.
        num_records_replaced,
        /// Bytes of the keys read.
        total_input_raw_key_bytes,
        /// Bytes of the values read.
        total_input_raw_value_bytes,
        /// Deletions read.
        num_input_deletion_records,
        /// Deletions dropped because nothing is left to delete.
        num_expired_deletion_records,
        /// Single deletions that met anything but exactly one put.
        num_single_del_mismatch,
    }
}

counts! {
    /// Counts of a worker's job for the statistics of the output level.
    RemoteLevelCounts {
        /// Microseconds of wall time.
        micros,
        /// Microseconds of processor time.
        cpu_micros,
        /// Bytes read from levels above the output level.
        bytes_read_non_output_levels,
        /// Bytes read from the output level.
        bytes_read_output_level,
        /// Bytes of the tables written.
        bytes_written,
        /// Tables read from levels above the output level.
        num_input_files_in_non_output_levels,
        /// Tables read from the output level.
        num_input_files_in_output_level,
        /// Tables written.
        num_output_files,
        /// Entries read.
        num_input_records,
        /// Entries dropped.
        num_dropped_records,
        /// Entries written.
        num_output_records,
        /// Jobs: 1.
        count,
    }
}

/// A table that a worker has written.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CompactionServiceOutputFile {
    /// Its name, in the result's directory.
    pub file_name: String,
    /// Bytes.
    pub file_size: u64,
    /// Smallest sequence number in it.
    pub smallest_seqno: SequenceNumber,
    /// Largest sequence number in it.
    pub largest_seqno: SequenceNumber,
    /// First internal key, range tombstones included.
    pub smallest_internal_key: Vec<u8>,
    /// Last internal key, range tombstones included.
    pub largest_internal_key: Vec<u8>,
    /// Time at which the oldest data of the table was flushed, in Unix seconds; 0 if unknown.
    pub oldest_ancester_time: u64,
    /// Time at which the file was made, in Unix seconds; 0 if unknown.
    pub file_creation_time: u64,
    /// Order among level-0 files.
    pub epoch_number: u64,
    /// Whole-file checksum, and the name of its function; both empty if none was made.
    pub file_checksum: Vec<u8>,
    /// See `file_checksum`.
    pub file_checksum_func_name: String,
    /// RocksDB's hash of the entries; 0: not made.
    pub paranoid_hash: u64,
    /// Whether a collector requests another compaction of the table.
    pub marked_for_compaction: bool,
    /// The table's unique id.
    pub unique_id: [u64; 2],
    /// The table's properties, as names and texts.
    pub table_properties: BTreeMap<String, String>,
    /// Whether it belongs to the level above the output level.
    pub is_proximal_level_output: bool,
    /// Code of its temperature; 0 unknown.
    pub file_temperature: u8,
}

impl CompactionServiceOutputFile {
    fn parse(text: &str) -> Result<CompactionServiceOutputFile> {
        let fields = Fields::parse(text)?;
        let ids = list(fields.required("unique_id")?)?;
        let id = |at: usize| number("unique_id", ids.get(at).copied().unwrap_or_default());
        let temperature = fields.optional("file_temperature").unwrap_or("kUnknown");
        let temperature = TEMPERATURES.iter().find(|(name, _)| *name == temperature);
        let properties = Fields::parse(fields.required("table_properties")?)?;
        Ok(CompactionServiceOutputFile {
            file_name: fields.string("file_name")?,
            file_size: fields.u64("file_size")?,
            smallest_seqno: SequenceNumber(fields.u64("smallest_seqno")?),
            largest_seqno: SequenceNumber(fields.u64("largest_seqno")?),
            smallest_internal_key: fields.bytes("smallest_internal_key")?,
            largest_internal_key: fields.bytes("largest_internal_key")?,
            oldest_ancester_time: fields.u64_or_0("oldest_ancester_time")?,
            file_creation_time: fields.u64_or_0("file_creation_time")?,
            epoch_number: fields.u64("epoch_number")?,
            file_checksum: fields.bytes("file_checksum")?,
            file_checksum_func_name: fields.string("file_checksum_func_name")?,
            paranoid_hash: fields.u64_or_0("paranoid_hash")?,
            marked_for_compaction: fields.bool("marked_for_compaction")?,
            unique_id: [id(0)?, id(1)?],
            table_properties: properties.into_owned(),
            is_proximal_level_output: fields.bool("is_proximal_level_output")?,
            file_temperature: temperature.map(|(_, code)| *code).ok_or_else(|| wrong("file_temperature"))?,
        })
    }

    fn write(&self, out: &mut Writer) {
        out.bytes("file_name", self.file_name.as_bytes());
        out.number("file_size", self.file_size);
        out.number("smallest_seqno", self.smallest_seqno.0);
        out.number("largest_seqno", self.largest_seqno.0);
        out.bytes("smallest_internal_key", &self.smallest_internal_key);
        out.bytes("largest_internal_key", &self.largest_internal_key);
        out.number("oldest_ancester_time", self.oldest_ancester_time);
        out.number("file_creation_time", self.file_creation_time);
        out.number("epoch_number", self.epoch_number);
        out.bytes("file_checksum", &self.file_checksum);
        out.bytes("file_checksum_func_name", self.file_checksum_func_name.as_bytes());
        out.number("paranoid_hash", self.paranoid_hash);
        out.bool("marked_for_compaction", self.marked_for_compaction);
        out.raw("unique_id", &join(self.unique_id.iter().map(u64::to_string)));
        out.group("table_properties", |out| {
            self.table_properties.iter().for_each(|(name, value)| out.raw(name, value));
        });
        out.bool("is_proximal_level_output", self.is_proximal_level_output);
        let temperature = TEMPERATURES.iter().find(|(_, code)| *code == self.file_temperature);
        out.raw("file_temperature", temperature.map_or("kUnknown", |(name, _)| name));
    }
}

/// The result of a worker's job.
#[derive(Clone, Debug)]
pub struct CompactionServiceResult {
    /// The job's error, if it failed.
    pub status: std::result::Result<(), Error>,
    /// The tables, in the order of their keys.
    pub output_files: Vec<CompactionServiceOutputFile>,
    /// The level of these tables.
    pub output_level: usize,
    /// The directory of these tables.
    pub output_path: String,
    /// Bytes read from files.
    pub bytes_read: u64,
    /// Bytes written to files.
    pub bytes_written: u64,
    /// Counts.
    pub stats: RemoteJobCounts,
    /// Whether `num_input_records` counts every entry of the inputs.
    pub has_accurate_num_input_records: bool,
    /// Whether the inputs were all files of the family.
    pub is_full_compaction: bool,
    /// Whether a caller requested it.
    pub is_manual_compaction: bool,
    /// Counts for the output level.
    pub level_stats: RemoteLevelCounts,
}

impl Default for CompactionServiceResult {
    fn default() -> Self {
        CompactionServiceResult {
            status: Ok(()),
            output_files: Vec::new(),
            output_level: 0,
            output_path: String::new(),
            bytes_read: 0,
            bytes_written: 0,
            stats: RemoteJobCounts::default(),
            has_accurate_num_input_records: false,
            is_full_compaction: false,
            is_manual_compaction: false,
            level_stats: RemoteLevelCounts::default(),
        }
    }
}

impl CompactionServiceResult {
    /// Reads a result.
    /// # Errors
    /// `InvalidArgument` naming the field · `NotSupported`: another version of the bytes.
    pub fn parse(bytes: &[u8]) -> Result<CompactionServiceResult> {
        let fields = fields_of(bytes, "CompactionServiceResult")?;
        let stats = Fields::parse(fields.required("stats")?)?;
        let internal = Fields::parse(fields.required("internal_stats")?)?;
        let level_stats = internal.optional("output_level_stats").unwrap_or_default();
        let files = list(fields.required("output_files")?)?;
        Ok(CompactionServiceResult {
            status: parse_status(fields.required("status")?)?,
            output_files: files.into_iter().map(CompactionServiceOutputFile::parse).collect::<Result<_>>()?,
            output_level: level(fields.u64("output_level")?)?,
            output_path: fields.string("output_path")?,
            bytes_read: fields.u64_or_0("bytes_read")?,
            bytes_written: fields.u64_or_0("bytes_written")?,
            has_accurate_num_input_records: stats.bool("has_accurate_num_input_records")?,
            is_full_compaction: stats.bool("is_full_compaction")?,
            is_manual_compaction: stats.bool("is_manual_compaction")?,
            stats: RemoteJobCounts::read(&stats)?,
            level_stats: RemoteLevelCounts::read(&Fields::parse(level_stats)?)?,
        })
    }

    /// The result as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.group("status", |out| write_status(out, &self.status));
        // As in RocksDB: an element with a colon has braces of its own.
        let file = |file: &CompactionServiceOutputFile| {
            let mut out = Writer::default();
            file.write(&mut out);
            format!("{{{{{}}}}}", out.text)
        };
        let files = join(self.output_files.iter().map(file));
        out.raw("output_files", &if files.is_empty() { files } else { format!("{{{files}}}") });
        out.number("output_level", self.output_level as u64);
        out.bytes("output_path", self.output_path.as_bytes());
        out.number("bytes_read", self.bytes_read);
        out.number("bytes_written", self.bytes_written);
        out.group("stats", |out| {
            self.stats.write(out);
            out.bool("has_accurate_num_input_records", self.has_accurate_num_input_records);
            out.bool("is_full_compaction", self.is_full_compaction);
            out.bool("is_manual_compaction", self.is_manual_compaction);
            out.bool("is_remote_compaction", true);
        });
        out.group("internal_stats", |out| {
            out.group("output_level_stats", |out| self.level_stats.write(out));
            out.bool("has_proximal_level_output", false);
        });
        with_version(out)
    }
}

/// RocksDB's numbers of kinds, in their order from 1 on.
const KINDS: [ErrorKind; 15] = [
    ErrorKind::NotFound,
    ErrorKind::Corruption,
    ErrorKind::NotSupported,
    ErrorKind::InvalidArgument,
    ErrorKind::IoError,
    ErrorKind::MergeInProgress,
    ErrorKind::Incomplete,
    ErrorKind::ShutdownInProgress,
    ErrorKind::TimedOut,
    ErrorKind::Aborted,
    ErrorKind::Busy,
    ErrorKind::Expired,
    ErrorKind::TryAgain,
    ErrorKind::CompactionTooLarge,
    ErrorKind::ColumnFamilyDropped,
];

/// RocksDB's numbers of sub-codes. Other sub-codes are not written.
const SUB_CODES: [(u64, SubCode); 14] = [
    (0, SubCode::None),
    (1, SubCode::MutexTimeout),
    (2, SubCode::LockTimeout),
    (3, SubCode::LockLimit),
    (4, SubCode::NoSpace),
    (5, SubCode::Deadlock),
    (6, SubCode::StaleFile),
    (7, SubCode::MemoryLimit),
    (8, SubCode::SpaceLimit),
    (9, SubCode::PathNotFound),
    (11, SubCode::ManualCompactionPaused),
    (14, SubCode::IoFenced),
    (15, SubCode::MergeOperatorFailed),
    (19, SubCode::CompactionAborted),
];

fn parse_status(text: &str) -> Result<std::result::Result<(), Error>> {
    let fields = Fields::parse(text)?;
    let code = usize::try_from(fields.u64("code")?).unwrap_or(usize::MAX);
    let Some(before) = code.checked_sub(1) else { return Ok(Ok(())) };
    let kind = KINDS.get(before).copied().ok_or_else(|| wrong("status"))?;
    let number = fields.u64("subcode")?;
    let subcode = SUB_CODES.iter().find(|(of, _)| *of == number).map(|(_, subcode)| *subcode);
    let message = String::from_utf8_lossy(&fields.bytes("message")?).into_owned();
    Ok(Err(Error::new(kind, message).with_subcode(subcode.unwrap_or_default())))
}

fn write_status(out: &mut Writer, status: &std::result::Result<(), Error>) {
    let (code, subcode, message) = match status {
        Ok(()) => (0, 0, ""),
        Err(e) => {
            let kind = KINDS.iter().position(|kind| *kind == e.kind());
            let subcode = SUB_CODES.iter().find(|(_, subcode)| *subcode == e.subcode());
            (kind.map_or(0, |at| at + 1), subcode.map_or(0, |(number, _)| *number), e.message())
        }
    };
    out.number("code", code as u64);
    out.number("subcode", subcode);
    // The primary decides about the severity.
    out.number("severity", Severity::NoError as u64);
    out.bytes("message", message.as_bytes());
}

/// The fields behind the version.
fn fields_of<'a>(bytes: &'a [u8], what: &str) -> Result<Fields<'a>> {
    let Some((version, text)) = bytes.split_first_chunk::<4>() else {
        return Err(Error::invalid_argument(format!("Invalid {what} string")));
    };
    if text.is_empty() || bytes.len() > MAX_BYTES {
        return Err(Error::invalid_argument(format!("Invalid {what} string")));
    }
    let version = u32::from_le_bytes(*version);
    if version != VERSION {
        return Err(Error::not_supported(format!("{what} data version not supported: {version}")));
    }
    let text = std::str::from_utf8(text).map_err(|_| Error::invalid_argument("it is no text").at(what))?;
    // Every field ends with a semicolon, the last one, too.
    if !text.trim_end().ends_with(';') {
        return Err(Error::invalid_argument("it ends within a field").at(what));
    }
    Fields::parse(text).map_err(|e| e.at(what))
}

fn with_version(out: Writer) -> Vec<u8> {
    [&VERSION.to_le_bytes(), out.text.as_bytes()].concat()
}

fn join(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(":")
}

fn level(number: u64) -> Result<usize> {
    usize::try_from(number).ok().filter(|level| *level < 1 << 16).ok_or_else(|| wrong("output_level"))
}

fn utf8(name: &str, bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|_| wrong(name))
}

fn wrong(name: &str) -> Error {
    Error::invalid_argument(format!("the field '{name}' has a wrong value"))
}

#[cfg(test)]
mod tests;
