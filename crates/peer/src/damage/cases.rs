//! The damages that a case does to a database's files.

use super::Files;
use esker::comparator::{self, BytewiseComparator};
use esker::internals::base::coding::put_varint32;
use esker::internals::format::file_name::{FileType, parse_file_name};
use esker::internals::format::footer::Footer;
use esker::internals::format::handle::BlockHandle;
use esker::internals::format::log::{LogEvent, LogReader, LogSource, LogWriter};

/// One damage.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Damage {
    /// A bit of this byte is flipped.
    Flip { file: String, at: usize, mask: u8 },
    /// These bytes are zero.
    Zero { file: String, from: usize, to: usize },
    /// The file ends here.
    Cut { file: String, len: usize },
    /// The file is missing.
    Missing { file: String },
    /// The bytes of two files are exchanged.
    Swapped { one: String, other: String },
    /// This text is appended to an OPTIONS file.
    Options { file: String, more: &'static str, readable: bool },
    /// A record with this tag and one byte behind it is appended to the MANIFEST.
    Tag { file: String, tag: u32, readable: bool },
}

/// Whether `name` is that of a WAL or a MANIFEST.
pub(super) fn is_log(name: &str) -> bool {
    matches!(parse_file_name(name), Some((FileType::Wal | FileType::Descriptor, _)))
}

fn kind_of(name: &str) -> Option<FileType> {
    parse_file_name(name).map(|(kind, _)| kind)
}

fn is_wal(name: &str) -> bool {
    kind_of(name) == Some(FileType::Wal)
}

/// Unknown tags: a reader must understand the first, and may skip the second.
const UNKNOWN_TAG: u32 = 777;
const UNKNOWN_TAG_THAT_MAY_BE_SKIPPED: u32 = 8192 + 777;

/// All damages to try on `files`. One byte in `step` is flipped.
pub(super) fn all(files: &Files, step: usize) -> Vec<Damage> {
    let mut all = Vec::new();
    for (name, bytes) in files {
        let file = name.clone();
        // The first flip of each file is at another place, so that flips reach every part of a
        // format.
        let first = name.bytes().map(usize::from).sum::<usize>() % step;
        for at in (first..bytes.len()).step_by(step) {
            all.push(Damage::Flip { file: file.clone(), at, mask: 1 << (at % 8) });
        }
        for pair in block_starts(name, bytes).windows(2) {
            all.push(Damage::Zero { file: file.clone(), from: pair[0], to: pair[1] });
            all.push(Damage::Cut { file: file.clone(), len: pair[0] });
            if pair[1] > pair[0] + 1 {
                all.push(Damage::Cut { file: file.clone(), len: usize::midpoint(pair[0], pair[1]) });
            }
        }
        all.push(Damage::Missing { file: file.clone() });
        match kind_of(name) {
            Some(FileType::Descriptor) => {
                all.push(Damage::Tag { file: file.clone(), tag: UNKNOWN_TAG, readable: false });
                let tag = UNKNOWN_TAG_THAT_MAY_BE_SKIPPED;
                all.push(Damage::Tag { file: file.clone(), tag, readable: true });
            }
            Some(FileType::Options) => {
                let more = "\n[Portents \"default\"]\n  comet=true\n";
                all.push(Damage::Options { file: file.clone(), more, readable: false });
                let more = "\n[CFOptions \"from the future\"]\n  unheard_of={a=b;c={d=e}}\n";
                all.push(Damage::Options { file: file.clone(), more, readable: true });
            }
            _ => {}
        }
    }
    let names: Vec<&String> = files.keys().collect();
    for (i, one) in names.iter().enumerate() {
        for other in &names[i + 1..] {
            all.push(Damage::Swapped { one: (*one).clone(), other: (*other).clone() });
        }
    }
    all
}

impl Damage {
    /// The files with this damage.
    pub(super) fn applied(&self, files: &Files) -> Files {
        let mut files = files.clone();
        match self {
            Damage::Flip { file, at, mask } => {
                files.get_mut(file).expect("the damaged file exists")[*at] ^= mask
            }
            Damage::Zero { file, from, to } => {
                files.get_mut(file).expect("the damaged file exists")[*from..*to].fill(0)
            }
            Damage::Cut { file, len } => files.get_mut(file).expect("the damaged file exists").truncate(*len),
            Damage::Missing { file } => drop(files.remove(file)),
            Damage::Swapped { one, other } => {
                let (a, b) = (files[one].clone(), files[other].clone());
                files.insert(one.clone(), b);
                files.insert(other.clone(), a);
            }
            Damage::Options { file, more, .. } => {
                files.get_mut(file).expect("the damaged file exists").extend_from_slice(more.as_bytes());
            }
            Damage::Tag { file, tag, .. } => {
                let mut record = Vec::new();
                put_varint32(&mut record, *tag);
                record.extend_from_slice(&[1, b'x']);
                let bytes = files.get_mut(file).expect("the damaged file exists");
                *bytes = with_record(bytes, &record);
            }
        }
        files
    }

    /// The damaged files.
    fn files(&self) -> Vec<&String> {
        match self {
            Damage::Flip { file, .. }
            | Damage::Zero { file, .. }
            | Damage::Cut { file, .. }
            | Damage::Missing { file }
            | Damage::Options { file, .. }
            | Damage::Tag { file, .. } => vec![file],
            Damage::Swapped { one, other } => vec![one, other],
        }
    }

    /// Names that an error may have: those of the damaged files, and of files to which they lead.
    pub(super) fn names(&self) -> Vec<String> {
        let files = self.files();
        let mut names: Vec<String> = files.iter().map(|name| (*name).clone()).collect();
        // CURRENT leads to any MANIFEST. An old MANIFEST leads to files that are gone or have
        // grown.
        if files.iter().any(|name| *name == "CURRENT") {
            names.push("MANIFEST-".to_owned());
        }
        if files.iter().any(|name| name.starts_with("MANIFEST-")) {
            names.extend([".sst", ".blob", ".log"].map(str::to_owned));
        }
        // With two WALs exchanged, an error may name any WAL as the one out of order.
        if matches!(self, Damage::Swapped { .. }) && files.iter().any(|name| is_wal(name)) {
            names.push(".log".to_owned());
        }
        // An OPTIONS file may name another comparator than the MANIFEST, or give an option a value
        // that it cannot have.
        if files.iter().any(|name| name.starts_with("OPTIONS-")) {
            names.extend(["OPTIONS file", "MANIFEST-", ": option "].map(str::to_owned));
        }
        names
    }

    pub(super) fn takes_current(&self) -> bool {
        matches!(self, Damage::Missing { file } if file == "CURRENT")
    }

    pub(super) fn is_of_log(&self) -> bool {
        self.files().iter().any(|name| is_log(name))
    }

    /// Whether only a checksum reveals the damage.
    pub(super) fn is_blind(&self) -> bool {
        matches!(self, Damage::Flip { .. } | Damage::Zero { .. })
    }

    /// Whether records in the middle of the WALs may be lost without an error. Zeros look like the
    /// padding of a block, and a missing or exchanged file leaves no trace.
    pub(super) fn may_leave_a_hole(&self) -> bool {
        match self {
            Damage::Zero { file, .. } | Damage::Missing { file } => is_wal(file),
            Damage::Swapped { one, other } => is_wal(one) || is_wal(other),
            _ => false,
        }
    }

    /// Whether to try a repair: only CURRENT, MANIFESTs, tables or blob files are damaged.
    pub(super) fn calls_for_repair(&self) -> bool {
        let is_one = |name: &&String| {
            name.as_str() == "CURRENT"
                || matches!(kind_of(name), Some(FileType::Table | FileType::Descriptor | FileType::Blob))
        };
        self.files().iter().all(is_one)
    }

    /// Whether this table is unchanged, under its own name.
    pub(super) fn spares(&self, table: &str) -> bool {
        self.files().iter().all(|name| *name != table)
    }
}

struct Bytes<'a>(&'a [u8]);

impl LogSource for Bytes<'_> {
    fn read(&mut self, buf: &mut [u8]) -> esker::Result<usize> {
        let n = buf.len().min(self.0.len());
        buf[..n].copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        Ok(n)
    }
}

/// The offset at which the records of a log begin, and the offsets at which each ends.
pub(super) fn record_ends(name: &str, bytes: &[u8]) -> Vec<usize> {
    let number = parse_file_name(name).filter(|(kind, _)| *kind == FileType::Wal).map_or(0, |(_, n)| n.0);
    let mut log = LogReader::new(Bytes(bytes), number);
    let (mut ends, mut record) = (vec![0], Vec::new());
    loop {
        match log.next_record(&mut record) {
            Ok(LogEvent::End) | Err(_) => return ends,
            Ok(_) => {
                ends.push(usize::try_from(log.offset()).expect("an offset fits into usize").min(bytes.len()))
            }
        }
    }
}

/// A log with one more record.
fn with_record(bytes: &[u8], record: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    let mut log = LogReader::new(Bytes(bytes), 0);
    let (mut writer, mut buffer) = (LogWriter::new(0, false), Vec::new());
    while let Ok(LogEvent::Record { .. }) = log.next_record(&mut buffer) {
        writer.add_record(&buffer, &mut whole);
    }
    writer.add_record(record, &mut whole);
    whole
}

/// The offsets at which the parts of a file begin, and its end. Parts are blocks of a table,
/// records of a log, and pieces of any other file.
fn block_starts(name: &str, bytes: &[u8]) -> Vec<usize> {
    let mut starts = match kind_of(name) {
        Some(FileType::Table) => table_blocks(bytes).unwrap_or_default(),
        _ if is_log(name) => record_ends(name, bytes),
        _ => (0..bytes.len()).step_by(512).collect(),
    };
    starts.extend([0, bytes.len()]);
    starts.sort_unstable();
    starts.dedup();
    starts
}

/// The offsets of a table's footer, meta index, index, meta blocks and data blocks.
fn table_blocks(bytes: &[u8]) -> Option<Vec<usize>> {
    use esker::internals::env::FileSystem;
    use esker::internals::format::key::InternalKeyComparator;
    use esker::internals::table::{TableReader, TableReaderOptions};
    use std::sync::Arc;
    let size = bytes.len() as u64;
    let footer = Footer::parse(&bytes[bytes.len().saturating_sub(53)..], size).ok()?;
    let fs = super::file_system(&Files::from([("1.sst".to_owned(), bytes.to_vec())]));
    let file = fs.new_random_access_file(std::path::Path::new("/db/1.sst")).ok()?;
    let properties = TableReader::properties_of(file.clone(), size).ok()?;
    let order =
        comparator::by_name(&properties.comparator_name).unwrap_or_else(|| Arc::new(BytewiseComparator));
    let options = TableReaderOptions::new(InternalKeyComparator::new(order), Arc::default(), size);
    let reader = TableReader::open(file, options).ok()?;
    let at = |handle: BlockHandle| usize::try_from(handle.offset).expect("an offset fits into usize");
    let mut starts = vec![at(footer.meta_index), bytes.len() - 53];
    starts.extend(footer.index.map(at));
    starts.extend(reader.meta_index().iter().map(|(_, handle)| at(handle)));
    reader
        .for_each_data_block(&mut |block| {
            starts.push(at(block.handle));
            Ok(())
        })
        .ok()?;
    Some(starts)
}
