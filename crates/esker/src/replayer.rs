//! Repeats the queries of a trace: RocksDB's default `Replayer`.
//!
//! In: a trace of queries, a database. Out: the result of each query. The replay keeps the trace's
//! intervals, or scales them.
//!
//! Invariants
//!  1. Queries begin in the order of the trace. With one thread each ends before the next begins.
//!  2. The error of the earliest query in the trace ends the replay and is returned.
//!
//! Source: RocksDB `utilities/trace/replayer_impl.cc`, `trace_replay/trace_record_handler.cc`.

use crate::db::{ColumnFamilyHandle, Db};
use crate::options::{ReadOptions, WriteOptions};
use crate::trace::{Query, TraceFrame, TraceKind, TraceReader};
use esker_base::sync::Mutex;
use esker_base::{ColumnFamilyId, Error, Result};
use esker_env::on_threads;
use esker_format::trace::parse_query_header;
use esker_format::write_batch::{BatchOp, WriteBatch};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Options of a replay.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ReplayOptions {
    /// Number of threads that run queries; 0 means 1. Default 1.
    pub num_threads: u32,
    /// Speed relative to the trace: 2.0 halves the intervals between queries. Must be above 0.
    /// Default 1.0.
    pub fast_forward: f64,
}

impl Default for ReplayOptions {
    fn default() -> ReplayOptions {
        ReplayOptions { num_threads: 1, fast_forward: 1.0 }
    }
}

/// The answer to a query.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ReplayedAnswer {
    /// The batch was written.
    Written,
    /// The value, if the key was found.
    Value(Option<Vec<u8>>),
    /// Key and value at the iterator's position; `None` if the iterator is not valid.
    Entry(Option<(Vec<u8>, Vec<u8>)>),
    /// One item for each key: its value, or `None` if the key was not found.
    Values(Vec<Option<Vec<u8>>>),
}

/// The result of one record.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReplayedQuery {
    /// The record's kind, as RocksDB's number of it.
    pub kind: u8,
    /// Microseconds since 1970 at which the record was written.
    pub timestamp: u64,
    /// Time at which the replayed query began, in microseconds since 1970; 0 if it did not run.
    pub began_at: u64,
    /// Time at which the replayed query ended, in microseconds since 1970; 0 if it did not run.
    pub ended_at: u64,
    /// The answer. `NotSupported` means that the record is no query; the replay skips it.
    pub answer: Result<ReplayedAnswer>,
}

/// Repeats a trace on a database.
/// [`new_file_trace_writer`](crate::trace::new_file_trace_writer) has an example.
pub struct Replayer {
    db: Db,
    families: BTreeMap<ColumnFamilyId, ColumnFamilyHandle>,
    source: Mutex<Source>,
    header_timestamp: u64,
    version: Option<u32>,
}

/// The trace, and the state of its replay.
struct Source {
    reader: Box<dyn TraceReader>,
    is_at_end: bool,
    /// The operations of prepared transactions, by the transaction's name.
    prepared: BTreeMap<Vec<u8>, WriteBatch>,
}

impl fmt::Debug for Replayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replayer").field("db", &self.db).finish_non_exhaustive()
    }
}

/// An owned record of the trace.
struct Record {
    bytes: Vec<u8>,
    /// If the record is a batch with markers of prepared transactions: the operations to write in
    /// its place.
    plain: Option<WriteBatch>,
}

impl Replayer {
    /// Makes a replayer of the trace `reader` on `db`. Reads work on `families` and the default
    /// family; a read of another family fails. Writes work on every family of the database.
    pub fn new(db: &Db, families: &[ColumnFamilyHandle], reader: Box<dyn TraceReader>) -> Replayer {
        let all = families.iter().cloned().chain([db.default_column_family()]);
        Replayer {
            db: db.clone(),
            families: all.map(|family| (family.id(), family)).collect(),
            source: Mutex::new(Source { reader, is_at_end: false, prepared: BTreeMap::new() }),
            header_timestamp: 0,
            version: None,
        }
    }

    /// Moves to the beginning of the trace and reads the header.
    /// # Errors
    /// `Corruption` if the file is no trace of queries · `Incomplete` if it is empty · `IoError`.
    pub fn prepare(&mut self) -> Result<()> {
        let mut source = self.source.lock();
        source.reader.reset()?;
        let header = source.reader.read()?.ok_or_else(|| Error::incomplete("the trace is empty"))?;
        let header = TraceFrame::decode(&header)?;
        self.version = Some(parse_query_header(&header)?);
        self.header_timestamp = header.timestamp;
        source.is_at_end = false;
        source.prepared.clear();
        Ok(())
    }

    /// Microseconds since 1970 at which the trace began; 0 before [`prepare`](Self::prepare).
    pub fn header_timestamp(&self) -> u64 {
        self.header_timestamp
    }

    /// Runs the next query and returns its result; `None` at the end of the trace.
    /// # Errors
    /// `Incomplete` before [`prepare`](Self::prepare) · `Corruption` of the trace · `IoError`.
    pub fn step(&mut self) -> Result<Option<ReplayedQuery>> {
        let version = self.version()?;
        let record = self.next_record(version)?;
        Ok(record.map(|record| self.run(&record, version)))
    }

    /// Runs the remaining queries, each at its time. The thread that ran a query calls `result`
    /// with its result. A trace without a footer, which a killed process leaves, is no error.
    /// # Errors
    /// `InvalidArgument`: `fast_forward` is not above 0 · `Incomplete`: before
    /// [`prepare`](Self::prepare), or at the end of the trace · `Corruption` of the trace ·
    /// `IoError` · the error of a query.
    pub fn replay(
        &mut self,
        options: &ReplayOptions,
        result: impl Fn(&ReplayedQuery) + Send + Sync,
    ) -> Result<()> {
        if options.fast_forward.is_nan() || options.fast_forward <= 0.0 {
            return Err(Error::invalid_argument("Wrong fast forward speed!"));
        }
        let version = self.version()?;
        if self.source.lock().is_at_end {
            return Err(Error::incomplete("Trace end."));
        }
        let began_at = self.db.inner.engine.env.clock.monotonic_micros();
        let failed: Mutex<Option<(u64, Error)>> = Mutex::new(None);
        let fail = |timestamp, error: Error| {
            let mut failed = failed.lock();
            if failed.as_ref().is_none_or(|(earliest, _)| timestamp < *earliest) {
                *failed = Some((timestamp, error));
            }
        };
        let work = |_| {
            while failed.lock().is_none() {
                match self.next_record(version) {
                    Ok(Some(record)) => {
                        self.wait_for(record.frame().timestamp, began_at, options.fast_forward);
                        let replayed = self.run(&record, version);
                        result(&replayed);
                        match &replayed.answer {
                            Err(e) if !is_no_query(replayed.kind) => fail(replayed.timestamp, e.clone()),
                            _ => {}
                        }
                    }
                    Ok(None) => return,
                    Err(e) => return fail(u64::MAX, e),
                }
            }
        };
        match options.num_threads {
            0 | 1 => work(0),
            threads => drop(on_threads("esker:replay", threads as usize, work)?),
        }
        failed.into_inner().map_or(Ok(()), |(_, error)| Err(error))
    }

    fn version(&self) -> Result<u32> {
        self.version.ok_or_else(|| Error::incomplete("Not prepared!"))
    }

    fn next_record(&self, version: u32) -> Result<Option<Record>> {
        let mut source = self.source.lock();
        if source.is_at_end {
            return Ok(None);
        }
        let record = source.reader.read()?;
        let bytes = match record {
            Some(bytes) if TraceFrame::decode(&bytes)?.kind != TraceKind::End as u8 => bytes,
            _ => {
                source.is_at_end = true;
                return Ok(None);
            }
        };
        let frame = TraceFrame::decode(&bytes)?;
        let plain = match Query::decode(frame.kind, frame.payload, version) {
            Ok(Some(Query::Write(batch))) => plain_batch(batch, &mut source.prepared)?,
            _ => None,
        };
        Ok(Some(Record { bytes, plain }))
    }

    /// Sleeps until the time at which a record is due.
    fn wait_for(&self, timestamp: u64, began_at: u64, fast_forward: f64) {
        let clock = &self.db.inner.engine.env.clock;
        let after = timestamp.saturating_sub(self.header_timestamp) as f64 / fast_forward;
        let due = began_at.saturating_add(after.round() as u64);
        let now = clock.monotonic_micros();
        if due > now {
            clock.sleep(Duration::from_micros(due - now));
        }
    }

    fn run(&self, record: &Record, version: u32) -> ReplayedQuery {
        let frame = record.frame();
        let clock = &self.db.inner.engine.env.clock;
        let (mut began_at, mut ended_at) = (0, 0);
        let answer = match Query::decode(frame.kind, frame.payload, version) {
            Ok(Some(query)) => {
                began_at = clock.now_micros();
                let answer = self.answer(&query, record.plain.as_ref());
                ended_at = clock.now_micros();
                answer
            }
            Ok(None) => Err(Error::not_supported("Unsupported trace type.")),
            Err(e) => Err(e),
        };
        ReplayedQuery { kind: frame.kind, timestamp: frame.timestamp, began_at, ended_at, answer }
    }

    fn answer(&self, query: &Query<'_>, plain: Option<&WriteBatch>) -> Result<ReplayedAnswer> {
        let options = ReadOptions::default();
        match query {
            Query::Write(batch) => {
                let batch =
                    plain.map_or_else(|| WriteBatch::from_bytes(batch.to_vec()), |b| Ok(b.clone()))?;
                self.db.write_opt(&WriteOptions::default(), batch)?;
                Ok(ReplayedAnswer::Written)
            }
            Query::Get { family, key } => {
                Ok(ReplayedAnswer::Value(self.db.get_opt(&options, self.family(*family)?, key)?))
            }
            Query::IteratorSeek { family, for_prev, key, lower_bound, upper_bound } => {
                let bound = |bound: &[u8]| (!bound.is_empty()).then(|| bound.to_vec());
                let options = ReadOptions {
                    iterate_lower_bound: bound(lower_bound),
                    iterate_upper_bound: bound(upper_bound),
                    ..options
                };
                let mut iter = self.db.iter_opt(options, self.family(*family)?)?;
                if *for_prev {
                    iter.seek_for_prev(key)
                } else {
                    iter.seek(key)
                }
                iter.status()?;
                Ok(ReplayedAnswer::Entry(iter.item().map(|(key, value)| (key.to_vec(), value.to_vec()))))
            }
            Query::MultiGet(keys) => {
                let keys: Vec<_> =
                    keys.iter().map(|(id, key)| Ok((self.family(*id)?, *key))).collect::<Result<_>>()?;
                let values = self.db.multi_get_cf(&options, &keys).into_iter();
                let values = values.map(|value| Ok(value?.map(|value| value.to_vec())));
                Ok(ReplayedAnswer::Values(values.collect::<Result<_>>()?))
            }
        }
    }

    fn family(&self, id: ColumnFamilyId) -> Result<&ColumnFamilyHandle> {
        self.families.get(&id).ok_or_else(|| Error::corruption("Invalid Column Family ID."))
    }
}

impl Record {
    fn frame(&self) -> TraceFrame<'_> {
        TraceFrame::decode(&self.bytes).expect("the reader has decoded the record before")
    }
}

fn is_no_query(kind: u8) -> bool {
    use TraceKind as Kind;
    let queries = [Kind::Write, Kind::Get, Kind::IteratorSeek, Kind::IteratorSeekForPrev, Kind::MultiGet];
    !queries.iter().any(|query| *query as u8 == kind)
}

/// The operations to write for a batch with markers of prepared transactions; `None` for a batch
/// without markers. RocksDB traces both the prepare and the commit of a transaction. Operations of
/// the prepare are stored in `prepared`; the commit writes them, unless its record repeats them.
/// # Errors
/// Those of `WriteBatch::push`. Bytes that are no batch are no error here; writing them fails.
fn plain_batch(bytes: &[u8], prepared: &mut BTreeMap<Vec<u8>, WriteBatch>) -> Result<Option<WriteBatch>> {
    let Ok(batch) = WriteBatch::from_bytes(bytes.to_vec()) else { return Ok(None) };
    if !batch.content().transaction_markers {
        return Ok(None);
    }
    let (mut plain, mut section) = (WriteBatch::new(), None);
    let mut committed = None;
    for op in batch.iter() {
        match op {
            BatchOp::BeginPrepare(_) => section = Some(WriteBatch::new()),
            BatchOp::EndPrepare { xid } => {
                prepared.insert(xid.to_vec(), section.take().unwrap_or_default());
            }
            BatchOp::Commit { xid } | BatchOp::CommitWithTimestamp { xid, .. } => {
                committed = prepared.remove(xid);
            }
            BatchOp::Rollback { xid } => drop(prepared.remove(xid)),
            BatchOp::Noop => {}
            op => section.as_mut().unwrap_or(&mut plain).push(op)?,
        }
    }
    let repeats_nothing = plain.is_empty();
    Ok(Some(committed.filter(|_| repeats_nothing).unwrap_or(plain)))
}
