//! Explanations of reads, as values: for people ([`Display`](std::fmt::Display)) and for programs
//! ([`Explanation::to_json`]).
//!
//! In: the findings of `explain/`. Out: text.

use super::JsonWriter;
use esker_base::{FileNumber, SequenceNumber, ValueType};
use esker_table::{AheadCounts, FoundAt, Touched, TouchedKind};
use std::fmt;

/// The steps of a read, and the reasons for them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Explanation {
    /// `get`, `multiget`, `seek`, `scan` or `multiscan`.
    pub operation: &'static str,
    /// The column family's name.
    pub family: String,
    /// The sequence number the read used: it did not see later writes.
    pub sequence: SequenceNumber,
    /// The keys that the read looked up, in that order.
    pub keys: Vec<KeyRead>,
    /// The runs and counts of a seek or a scan; `None` for lookups.
    pub scan: Option<ScanRead>,
    /// Duration of the whole read, in nanoseconds. The text and the JSON account for all of it.
    pub nanos: u64,
}

/// The lookup of one key.
#[derive(Clone)]
#[non_exhaustive]
pub struct KeyRead {
    /// The user key.
    pub key: Vec<u8>,
    /// The sources, in the order in which the lookup searched them.
    pub steps: Vec<ReadStep>,
    /// The outcome: the value's size in bytes, `None` if there is no value, or an error.
    pub outcome: Result<Option<u64>, String>,
    /// Duration, in nanoseconds.
    pub nanos: u64,
}

esker_base::debug_with_text!(KeyRead {
    text key,
    steps,
    outcome,
    nanos,
});

/// A source of entries: a memtable, a table or a level.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ReadSource {
    /// A memtable with this number.
    Memtable {
        /// Its number.
        id: u64,
        /// Whether the memtable is immutable.
        is_immutable: bool,
        /// Number of its entries.
        entries: u64,
    },
    /// A table.
    File {
        /// Its level.
        level: usize,
        /// Its number.
        number: FileNumber,
        /// Its size in bytes.
        bytes: u64,
    },
    /// The files of a level.
    Level {
        /// Its level.
        level: usize,
        /// Number of its files.
        files: usize,
    },
}

impl fmt::Display for ReadSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadSource::Memtable { id, is_immutable: false, entries } => {
                write!(f, "memtable {id} (active, {entries} entries)")
            }
            ReadSource::Memtable { id, is_immutable: true, entries } => {
                write!(f, "memtable {id} (immutable, {entries} entries)")
            }
            ReadSource::File { level, number, bytes } => write!(f, "L{level} {number:06}.sst ({bytes} B)"),
            ReadSource::Level { level, files: 1 } => write!(f, "L{level} (1 file)"),
            ReadSource::Level { level, files } => write!(f, "L{level} ({files} files)"),
        }
    }
}

/// An entry that a lookup met.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SeenEntry {
    /// Its type.
    pub value_type: ValueType,
    /// Its sequence number.
    pub sequence: SequenceNumber,
    /// Bytes of its value or operand as stored.
    pub bytes: u64,
}

/// One source that a lookup searched or skipped.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReadStep {
    /// The source.
    pub source: ReadSource,
    /// Filters, indexes and blocks that the lookup used.
    pub touched: Vec<Touched>,
    /// Entries of the key, newest first.
    pub entries: Vec<SeenEntry>,
    /// The newest range tombstone over the key that the read may see, if this source has one.
    pub tombstone: Option<SequenceNumber>,
    /// The reason why the lookup searched or skipped the source, and the result.
    pub why: String,
    /// Duration, in nanoseconds.
    pub nanos: u64,
}

/// The work of a seek or a scan.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct ScanRead {
    /// The sorted runs that were merged, newest first.
    pub runs: Vec<RunRead>,
    /// Files that the bounds or the snapshot excluded, each with the reason.
    pub left_out: Vec<(ReadSource, &'static str)>,
    /// Number of rows returned.
    pub rows: u64,
    /// Bytes of their keys and values.
    pub row_bytes: u64,
    /// Entries that the scan stepped over: older versions and deleted entries.
    pub skipped_entries: u64,
    /// Point deletions among them.
    pub skipped_deletions: u64,
    /// Seeks past ranges that range tombstones cover.
    pub tombstone_seeks: u64,
    /// Merge operands that the scan used.
    pub operands: u64,
    /// Readahead of several scans. The blocks count as read by the run that first missed one of
    /// them.
    pub ahead: Option<AheadCounts>,
    /// First and last user key returned.
    pub ends: Option<(Vec<u8>, Vec<u8>)>,
    /// The error that ended the scan.
    pub error: Option<String>,
    /// Time to open the runs, in nanoseconds.
    pub opening_nanos: u64,
}

esker_base::debug_with_text!(ScanRead {
    runs,
    left_out,
    rows,
    row_bytes,
    skipped_entries,
    skipped_deletions,
    tombstone_seeks,
    operands,
    ahead,
    text ends,
    error,
    opening_nanos,
});

/// The work of a scan in one memtable or file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunRead {
    /// The memtable or file.
    pub source: ReadSource,
    /// Number of times the cursor was positioned.
    pub seeks: u64,
    /// Steps to the next or previous entry.
    pub steps: u64,
    /// Blocks found in the cache, index and filter blocks included.
    pub cached_blocks: u64,
    /// Blocks read from the file.
    pub blocks_read: u64,
    /// Bytes of the blocks read from the file.
    pub bytes_read: u64,
    /// Duration, in nanoseconds.
    pub nanos: u64,
}

fn micros(nanos: u64) -> String {
    format!("{}.{:02} µs", nanos / 1000, nanos % 1000 / 10)
}

fn place(found_at: FoundAt) -> &'static str {
    match found_at {
        FoundAt::Reader => "open table",
        FoundAt::BlockCache => "block cache",
        FoundAt::SecondaryCache => "secondary cache",
        FoundAt::File => "file",
    }
}

fn kind(touched: &Touched) -> &'static str {
    match touched.kind {
        TouchedKind::Filter { .. } => "filter",
        TouchedKind::Index => "index",
        TouchedKind::Data => "data block",
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Explanation { operation, family, sequence, .. } = self;
        writeln!(f, "{operation} in '{family}' at sequence {}: {}", sequence.0, micros(self.nanos))?;
        self.keys.iter().try_for_each(|key| key.print(f))?;
        self.scan.iter().try_for_each(|scan| scan.print(f))?;
        let what =
            if self.scan.is_some() { "merging runs, versions and deletions" } else { "before the first key" };
        part(f, what, self.other_nanos(), "")
    }
}

/// Prints one line for a part that took time and is not a source.
fn part(f: &mut fmt::Formatter<'_>, what: &str, nanos: u64, why: &str) -> fmt::Result {
    writeln!(f, "  {what:<44} {:>12}  {why}", micros(nanos))
}

impl KeyRead {
    /// Time outside its steps, in nanoseconds.
    fn other_nanos(&self) -> u64 {
        self.nanos.saturating_sub(self.steps.iter().map(|step| step.nanos).sum())
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key \"{}\": ", self.key.escape_ascii())?;
        match &self.outcome {
            Ok(Some(bytes)) => write!(f, "found, {bytes} B")?,
            Ok(None) => write!(f, "not found")?,
            Err(e) => write!(f, "{e}")?,
        }
        writeln!(f, ", {}", micros(self.nanos))?;
        for step in &self.steps {
            writeln!(f, "  {:<44} {:>12}  {}", step.source.to_string(), micros(step.nanos), step.why)?;
            for touched in &step.touched {
                let offset = touched.offset.map_or_else(String::new, |offset| format!(" at {offset}"));
                let what = format!("{}{offset}", kind(touched));
                write!(f, "    {what:<42} {:>12}  {} B", micros(touched.nanos), touched.bytes)?;
                write!(f, " in the {}", place(touched.found_at))?;
                match touched.kind {
                    TouchedKind::Filter { passes: true } => writeln!(f, ": it may be there")?,
                    TouchedKind::Filter { passes: false } => writeln!(f, ": it is not there")?,
                    _ if touched.bytes_read > 0 => writeln!(f, ": {} B read", touched.bytes_read)?,
                    _ => writeln!(f)?,
                }
            }
            if let Some(tombstone) = step.tombstone {
                writeln!(f, "    range tombstone at sequence {}", tombstone.0)?;
            }
            for entry in &step.entries {
                writeln!(
                    f,
                    "    {:?} at sequence {}, {} B",
                    entry.value_type, entry.sequence.0, entry.bytes
                )?;
            }
        }
        part(f, "the rest of the key", self.other_nanos(), "choosing files, merging operands, reading blobs")
    }

    fn json(&self, json: &mut JsonWriter) {
        json.text("key", &self.key.escape_ascii().to_string());
        match &self.outcome {
            Ok(Some(bytes)) => json.text("outcome", "found").number("value_bytes", *bytes),
            Ok(None) => json.text("outcome", "not found"),
            Err(e) => json.text("outcome", "error").text("error", e),
        };
        json.number("nanos", self.nanos).number("other_nanos", self.other_nanos());
        json.objects("steps", &self.steps, ReadStep::json);
    }
}

impl ReadStep {
    fn json(&self, json: &mut JsonWriter) {
        json.text("source", &self.source.to_string()).text("why", &self.why).number("nanos", self.nanos);
        if let Some(tombstone) = self.tombstone {
            json.number("range_tombstone", tombstone.0);
        }
        json.objects("touched", &self.touched, |touched, json| {
            json.text("kind", kind(touched)).text("found_at", place(touched.found_at));
            if let Some(offset) = touched.offset {
                json.number("offset", offset);
            }
            if let TouchedKind::Filter { passes } = touched.kind {
                json.text("filter", if passes { "may be there" } else { "not there" });
            }
            json.number("bytes", touched.bytes).number("bytes_read", touched.bytes_read);
            json.number("nanos", touched.nanos);
        });
        json.objects("entries", &self.entries, |entry, json| {
            json.text("type", &format!("{:?}", entry.value_type)).number("sequence", entry.sequence.0);
            json.number("bytes", entry.bytes);
        });
    }
}

impl ScanRead {
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows, {} B", self.rows, self.row_bytes)?;
        if let Some((first, last)) = &self.ends {
            write!(f, ", \"{}\" to \"{}\"", first.escape_ascii(), last.escape_ascii())?;
        }
        if let Some(error) = &self.error {
            write!(f, "; {error}")?;
        }
        writeln!(f)?;
        for (count, what) in [
            (self.skipped_entries, "entries stepped over: older versions, or deleted"),
            (self.skipped_deletions, "point deletions among them"),
            (self.tombstone_seeks, "seeks past range tombstones"),
            (self.operands, "merge operands"),
        ] {
            if count > 0 {
                writeln!(f, "  {count} {what}")?;
            }
        }
        if let Some(ahead) = &self.ahead {
            let AheadCounts { batches, ranges, blocks_read, blocks_cached, bytes_read, reads, .. } = ahead;
            writeln!(
                f,
                "  {batches} times blocks read ahead, for {ranges} ranges: {blocks_read} blocks ({bytes_read} B)"
            )?;
            writeln!(f, "    in {reads} reads, {blocks_cached} cached")?;
        }
        part(f, "opening", self.opening_nanos, "the runs")?;
        for run in &self.runs {
            write!(f, "  {:<44} {:>12}  ", run.source.to_string(), micros(run.nanos))?;
            write!(f, "{} seeks, {} steps", run.seeks, run.steps)?;
            if run.cached_blocks + run.blocks_read > 0 {
                write!(
                    f,
                    ", {} blocks cached, {} read ({} B)",
                    run.cached_blocks, run.blocks_read, run.bytes_read
                )?;
            }
            writeln!(f)?;
        }
        for (source, why) in &self.left_out {
            writeln!(f, "  {:<44} {:>12}  {why}", source.to_string(), "not asked")?;
        }
        Ok(())
    }

    fn json(&self, json: &mut JsonWriter) {
        json.number("rows", self.rows).number("row_bytes", self.row_bytes);
        if let Some((first, last)) = &self.ends {
            json.text("first", &first.escape_ascii().to_string());
            json.text("last", &last.escape_ascii().to_string());
        }
        if let Some(error) = &self.error {
            json.text("error", error);
        }
        json.number("skipped_entries", self.skipped_entries)
            .number("skipped_deletions", self.skipped_deletions)
            .number("tombstone_seeks", self.tombstone_seeks)
            .number("operands", self.operands)
            .number("opening_nanos", self.opening_nanos);
        if let Some(ahead) = &self.ahead {
            json.object("ahead", |json| {
                json.number("batches", ahead.batches).number("ranges", ahead.ranges);
                json.number("blocks_read", ahead.blocks_read).number("bytes_read", ahead.bytes_read);
                json.number("reads", ahead.reads).number("blocks_cached", ahead.blocks_cached);
                json.number("most_held_bytes", ahead.most_held_bytes);
            });
        }
        json.objects("runs", &self.runs, |run, json| {
            json.text("source", &run.source.to_string())
                .number("seeks", run.seeks)
                .number("steps", run.steps);
            json.number("cached_blocks", run.cached_blocks).number("blocks_read", run.blocks_read);
            json.number("bytes_read", run.bytes_read).number("nanos", run.nanos);
        });
        json.objects("left_out", &self.left_out, |(source, why), json| {
            json.text("source", &source.to_string()).text("why", why);
        });
    }
}

impl Explanation {
    /// The first error: of the whole read, or of a key's lookup.
    pub fn error(&self) -> Option<&str> {
        let of_keys = self.keys.iter().filter_map(|key| key.outcome.as_ref().err());
        of_keys.chain(self.scan.iter().filter_map(|scan| scan.error.as_ref())).next().map(String::as_str)
    }

    /// Time outside its keys, or outside its runs and their opening, in nanoseconds.
    fn other_nanos(&self) -> u64 {
        let keys = self.keys.iter().map(|key| key.nanos);
        let scan = self.scan.iter();
        let runs = scan.flat_map(|scan| scan.runs.iter().map(|run| run.nanos).chain([scan.opening_nanos]));
        self.nanos.saturating_sub(keys.chain(runs).sum())
    }

    /// One JSON object, on one line. Bytes of keys that are not printable ASCII are escaped as in
    /// Rust.
    pub fn to_json(&self) -> String {
        let mut json = JsonWriter::new();
        json.text("operation", self.operation).text("family", &self.family);
        json.number("sequence", self.sequence.0).number("nanos", self.nanos);
        json.number("other_nanos", self.other_nanos());
        json.objects("keys", &self.keys, KeyRead::json);
        if let Some(scan) = &self.scan {
            json.object("scan", |json| scan.json(json));
        }
        json.finish()
    }
}
