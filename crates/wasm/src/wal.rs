//! The WALs: writes that are in no table yet.
//!
//! In: the WALs that the MANIFEST needs, in order of their numbers. Out: the entries of each
//! family. `esker_format::wal_recovery` decides about damage, in point-in-time mode.
//! Source: RocksDB `db/write_batch.cc` (MemTableInserter).
//!
//! Invariants
//!  1. An entry enters a family only if the WAL's number is not below the family's log number.
//!  2. The operations of a prepared transaction enter with the sequence numbers of its commit.

use crate::files::DirectoryFiles;
use crate::manifest::Manifest;
use esker_base::{ColumnFamilyId, Error, FileNumber, Result, SequenceNumber, ValueType};
use esker_format::key::{InternalKeyComparator, internal_key};
use esker_format::log::{LogEvent, LogReader, SliceSource};
use esker_format::range_del::RangeTombstone;
use esker_format::wal_recovery::{ReplayStep, WalReplay, WalReplayMode, check_timestamp_sizes};
use esker_format::write_batch::{BatchOp, PrepareKind, WriteBatchView};
use std::collections::BTreeMap;

/// The entries of one family.
#[derive(Debug, Default)]
pub(crate) struct WalEntries {
    /// Internal keys and values.
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    tombstones: Vec<RangeTombstone>,
}

/// The same in the order of the family, as reads need it.
#[derive(Debug, Default)]
pub(crate) struct SortedWalEntries {
    /// Internal keys and values.
    pub(crate) entries: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) tombstones: Vec<RangeTombstone>,
}

impl WalEntries {
    pub(crate) fn sorted(mut self, icmp: &InternalKeyComparator) -> SortedWalEntries {
        self.entries.sort_by(|(a, _), (b, _)| icmp.compare(a, b));
        SortedWalEntries { entries: self.entries, tombstones: self.tombstones }
    }

    fn add(&mut self, entry: Entry, sequence: SequenceNumber) {
        let Entry { key, value, kind, .. } = entry;
        if kind == ValueType::RangeDeletion {
            self.tombstones.push(RangeTombstone::new(key, value, sequence));
        } else {
            self.entries.push((internal_key(&key, sequence, kind), value));
        }
    }
}

/// One operation that writes.
struct Entry {
    family: ColumnFamilyId,
    key: Vec<u8>,
    value: Vec<u8>,
    kind: ValueType,
}

impl Entry {
    fn of(op: &BatchOp<'_>) -> Option<Entry> {
        let (key, value, kind): (&[u8], &[u8], ValueType) = match *op {
            BatchOp::Put { key, value, .. } => (key, value, ValueType::Value),
            BatchOp::Delete { key, .. } => (key, &[], ValueType::Deletion),
            BatchOp::SingleDelete { key, .. } => (key, &[], ValueType::SingleDeletion),
            BatchOp::Merge { key, operand, .. } => (key, operand, ValueType::Merge),
            BatchOp::DeleteRange { begin, end, .. } => (begin, end, ValueType::RangeDeletion),
            BatchOp::BlobIndex { key, index, .. } => (key, index, ValueType::BlobIndex),
            BatchOp::PutEntity { key, entity, .. } => (key, entity, ValueType::WideColumnEntity),
            // Its time matters to compactions only.
            BatchOp::TimedPut { key, value, .. } => (key, value.value(), ValueType::Value),
            _ => return None,
        };
        Some(Entry { family: op.family()?, key: key.to_vec(), value: value.to_vec(), kind })
    }
}

/// Reads the WALs.
/// # Errors
/// `Corruption` if they contradict themselves or the tables · `NotSupported`.
pub(crate) fn replay(
    files: &DirectoryFiles,
    manifest: &Manifest,
    timestamp_sizes: &BTreeMap<ColumnFamilyId, usize>,
) -> Result<BTreeMap<ColumnFamilyId, WalEntries>> {
    let mut replay = Replay {
        manifest,
        timestamp_sizes,
        decisions: WalReplay::new(WalReplayMode::PointInTimeRecovery),
        memtables: BTreeMap::new(),
        prepared: BTreeMap::new(),
    };
    let needed = manifest.families.values().map(|family| family.log_number).min().unwrap_or_default();
    // Prepared transactions may lie in WALs that no family needs.
    let first = if manifest.min_log_number.0 > 0 { manifest.min_log_number } else { needed };
    let mut before = None;
    for number in files.wals().into_iter().filter(|number| *number >= first) {
        before = replay.file(files, number, before)?;
    }
    let is_newer =
        |stopped| manifest.families.values().any(|f| f.log_number > stopped && !f.tables.is_empty());
    match replay.decisions.stopped_in() {
        Some(stopped) if is_newer(stopped) => Err(Error::corruption(format!(
            "{:06}.log is damaged, and a column family has tables that are newer",
            stopped.0
        ))),
        _ => Ok(replay.memtables),
    }
}

struct Replay<'a> {
    manifest: &'a Manifest,
    /// The size of each family's timestamps.
    timestamp_sizes: &'a BTreeMap<ColumnFamilyId, usize>,
    decisions: WalReplay,
    memtables: BTreeMap<ColumnFamilyId, WalEntries>,
    /// Transactions that wait for their commit.
    prepared: BTreeMap<Vec<u8>, Vec<Entry>>,
}

/// A WAL that was replayed, and the offset of its end.
type Replayed = (FileNumber, u64);

impl Replay<'_> {
    fn file(
        &mut self,
        files: &DirectoryFiles,
        number: FileNumber,
        before: Option<Replayed>,
    ) -> Result<Option<Replayed>> {
        let name = format!("{:06}.log", number.0);
        let mut reader = LogReader::new(SliceSource(files.get(&name)?), number.0);
        let mut record = Vec::new();
        self.decisions.begin_file(number);
        loop {
            let event = reader.next_record(&mut record).map_err(|e| e.at(&name))?;
            match event {
                LogEvent::TimestampSizes => {
                    let size = |id| self.timestamp_sizes.get(&id).copied();
                    check_timestamp_sizes(reader.timestamp_sizes(), size)?;
                }
                LogEvent::Predecessor(stated) => {
                    let Some((known, end)) = before.filter(|(known, _)| *known <= stated.log_number) else {
                        continue;
                    };
                    let is_whole = known == stated.log_number && end >= stated.size_bytes;
                    if !self.decisions.after(stated.log_number, None, is_whole)? {
                        return Ok(Some((number, reader.offset())));
                    }
                }
                _ => {}
            }
            match self.decisions.event(&event, &record)? {
                ReplayStep::Apply(batch) => {
                    let consumed = self.apply(number, &batch).map_err(|e| e.at(&name))?;
                    self.decisions.applied(batch.sequence(), consumed)?;
                }
                ReplayStep::Continue => {}
                ReplayStep::EndOfFile => return Ok(Some((number, reader.offset()))),
            }
        }
    }

    /// Applies a batch, and returns the number of sequence numbers that it takes.
    fn apply(&mut self, number: FileNumber, batch: &WriteBatchView<'_>) -> Result<u64> {
        let mut sequence = batch.sequence();
        let mut section: Option<Vec<Entry>> = None;
        for op in batch.iter() {
            match op {
                BatchOp::BeginPrepare(PrepareKind::Committed) => section = Some(Vec::new()),
                BatchOp::BeginPrepare(_) => {
                    return Err(Error::not_supported(
                        "transactions of the policies write-prepared and write-unprepared",
                    ));
                }
                BatchOp::EndPrepare { xid } => {
                    self.prepared.insert(xid.to_vec(), section.take().unwrap_or_default());
                }
                BatchOp::Commit { xid } => {
                    for entry in self.prepared.remove(xid).unwrap_or_default() {
                        self.add(number, entry, sequence);
                        sequence.0 += 1;
                    }
                }
                BatchOp::CommitWithTimestamp { .. } => {
                    return Err(Error::not_supported("transactions with commit timestamps"));
                }
                BatchOp::Rollback { xid } => drop(self.prepared.remove(xid)),
                BatchOp::LogData(_) | BatchOp::Noop => {}
                _ => {
                    let Some(entry) = Entry::of(&op) else { continue };
                    match &mut section {
                        Some(section) => section.push(entry),
                        None => {
                            self.add(number, entry, sequence);
                            sequence.0 += 1;
                        }
                    }
                }
            }
        }
        Ok(sequence.0 - batch.sequence().0)
    }

    fn add(&mut self, number: FileNumber, entry: Entry, sequence: SequenceNumber) {
        let needs_it =
            self.manifest.families.get(&entry.family).is_some_and(|family| family.log_number <= number);
        if needs_it {
            self.memtables.entry(entry.family).or_default().add(entry, sequence);
        }
    }
}
