//! The text of `rocksdb.stats`, `rocksdb.cfstats`, `rocksdb.dbstats`, `rocksdb.levelstats` and of
//! the periodic dump.
//!
//! In: plain values, gathered by the caller under its locks. Out: text with RocksDB's columns,
//! which scripts parse, and the maps that `get_map_property` gives. Source: RocksDB
//! `db/internal_stats.cc`.
//!
//! "Interval" means since the last periodic dump: the caller keeps the values of that dump and
//! passes them as `since`.

use super::compaction_stats::{CompactionStats, LevelCompactionStats, WorkPriority};
use super::human::{self, GB, MB};
use super::reason::{WriteStallCause, WriteStallCondition};
use std::collections::BTreeMap;
use std::fmt::Write;

/// One level at the time of the dump.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct LevelStats {
    /// Number of files.
    pub num_files: usize,
    /// Number of files that a running compaction reads.
    pub being_compacted: usize,
    /// Bytes of the files.
    pub bytes: u64,
    /// Its compaction score; 0 if it has none.
    pub score: f64,
}

/// Number of times writers of one family were slowed down or stopped, by cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct StallCounts {
    /// Times that writes were slowed down because too many memtables waited for their flush.
    pub memtable_limit_delays: u64,
    /// Times that writes stopped because too many memtables waited for their flush.
    pub memtable_limit_stops: u64,
    /// Times that writes were slowed down because level 0 had too many files.
    pub l0_file_count_limit_delays: u64,
    /// Times that writes stopped because level 0 had too many files.
    pub l0_file_count_limit_stops: u64,
    /// Times that writes were slowed down because level 0 had too many files during a compaction of
    /// it.
    pub l0_delays_with_ongoing_compaction: u64,
    /// Times that writes stopped because level 0 had too many files during a compaction of it.
    pub l0_stops_with_ongoing_compaction: u64,
    /// Times that writes were slowed down because too many bytes waited for compaction.
    pub pending_compaction_bytes_delays: u64,
    /// Times that writes stopped because too many bytes waited for compaction.
    pub pending_compaction_bytes_stops: u64,
}

impl StallCounts {
    /// Counts one more stall of this kind. `level0_is_compacting` matters for level 0 only.
    /// Database-wide causes and `Normal` count nothing here.
    pub fn count(
        &mut self,
        cause: WriteStallCause,
        condition: WriteStallCondition,
        level0_is_compacting: bool,
    ) {
        use WriteStallCause::{L0FileCountLimit, MemtableLimit, PendingCompactionBytes};
        use WriteStallCondition::{Delayed, Stopped};
        let ongoing = u64::from(level0_is_compacting);
        match (cause, condition) {
            (MemtableLimit, Delayed) => self.memtable_limit_delays += 1,
            (MemtableLimit, Stopped) => self.memtable_limit_stops += 1,
            (L0FileCountLimit, Delayed) => {
                self.l0_file_count_limit_delays += 1;
                self.l0_delays_with_ongoing_compaction += ongoing;
            }
            (L0FileCountLimit, Stopped) => {
                self.l0_file_count_limit_stops += 1;
                self.l0_stops_with_ongoing_compaction += ongoing;
            }
            (PendingCompactionBytes, Delayed) => self.pending_compaction_bytes_delays += 1,
            (PendingCompactionBytes, Stopped) => self.pending_compaction_bytes_stops += 1,
            _ => {}
        }
    }

    /// All delays.
    pub fn total_delays(&self) -> u64 {
        self.memtable_limit_delays + self.l0_file_count_limit_delays + self.pending_compaction_bytes_delays
    }

    /// All stops.
    pub fn total_stops(&self) -> u64 {
        self.memtable_limit_stops + self.l0_file_count_limit_stops + self.pending_compaction_bytes_stops
    }

    /// RocksDB's names, for `get_map_property("rocksdb.cf-write-stall-stats")`.
    pub fn to_map(&self) -> BTreeMap<String, String> {
        let entries = [
            ("memtable-limit-delays", self.memtable_limit_delays),
            ("memtable-limit-stops", self.memtable_limit_stops),
            ("l0-file-count-limit-delays", self.l0_file_count_limit_delays),
            ("l0-file-count-limit-stops", self.l0_file_count_limit_stops),
            ("pending-compaction-bytes-delays", self.pending_compaction_bytes_delays),
            ("pending-compaction-bytes-stops", self.pending_compaction_bytes_stops),
            ("cf-l0-file-count-limit-delays-with-ongoing-compaction", self.l0_delays_with_ongoing_compaction),
            ("cf-l0-file-count-limit-stops-with-ongoing-compaction", self.l0_stops_with_ongoing_compaction),
            ("total-delays", self.total_delays()),
            ("total-stops", self.total_stops()),
        ];
        entries.into_iter().map(|(name, count)| (name.to_owned(), count.to_string())).collect()
    }

    /// `Write Stall (count): name: n, …`, and the number since `earlier` if the total is not 0.
    pub fn to_text(&self, earlier: &StallCounts) -> String {
        let entries: Vec<String> = self.to_map().iter().map(|(name, n)| format!("{name}: {n}")).collect();
        let mut text = format!("Write Stall (count): {}\n", entries.join(", "));
        let total = self.total_delays() + self.total_stops();
        if total > 0 {
            let interval = total.saturating_sub(earlier.total_delays() + earlier.total_stops());
            line(&mut text, format_args!("interval: {interval} total count"));
        }
        text
    }
}

/// Files ingested into a family since the database was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct IngestedFiles {
    /// Bytes of the files.
    pub bytes: u64,
    /// Number of files.
    pub files: u64,
    /// Number of files that went to level 0.
    pub l0_files: u64,
    /// Number of their entries.
    pub keys: u64,
}

/// The blob files of a family.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct BlobFileStats {
    /// Number of files.
    pub files: usize,
    /// Total bytes of the ingested files.
    pub bytes: u64,
    /// Bytes of records that no table refers to any more.
    pub garbage_bytes: u64,
}

impl BlobFileStats {
    /// Ratio of the files' size to the size of the live records; 0 if none is live.
    pub fn space_amplification(&self) -> f64 {
        match self.bytes.checked_sub(self.garbage_bytes) {
            Some(wanted @ 1..) => self.bytes as f64 / wanted as f64,
            _ => 0.0,
        }
    }
}

/// One family at the time of the dump.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CfStats {
    /// Its name.
    pub name: String,
    /// Its levels.
    pub levels: Vec<LevelStats>,
    /// Costs of its flushes and compactions.
    pub compactions: LevelCompactionStats,
    /// Bytes that flushes wrote, to tables and blob files.
    pub bytes_flushed: u64,
    /// Ingested files, bytes and keys.
    pub ingested: IngestedFiles,
    /// Its blob files.
    pub blobs: BlobFileStats,
    /// Its stalls.
    pub stalls: StallCounts,
    /// Bytes that compactions must rewrite to bring all levels to size.
    pub estimated_pending_compaction_bytes: u64,
    /// Seconds since open.
    pub seconds_up: f64,
}

impl CfStats {
    /// A family without work so far.
    pub fn new(name: impl Into<String>, num_levels: usize) -> CfStats {
        CfStats {
            name: name.into(),
            levels: vec![LevelStats::default(); num_levels],
            compactions: LevelCompactionStats::new(num_levels),
            bytes_flushed: 0,
            ingested: IngestedFiles::default(),
            blobs: BlobFileStats::default(),
            stalls: StallCounts::default(),
            estimated_pending_compaction_bytes: 0,
            seconds_up: 0.0,
        }
    }

    /// `rocksdb.levelstats`.
    pub fn level_stats_text(&self) -> String {
        let mut text = String::from("Level Files Size(MB)\n--------------------\n");
        for (level, stats) in self.levels.iter().enumerate() {
            line(&mut text, format_args!("{level:3} {:8} {:8.0}", stats.num_files, stats.bytes as f64 / MB));
        }
        text
    }

    /// `rocksdb.cfstats-no-file-histogram`; intervals are since `since`, or since open.
    pub fn to_text(&self, since: Option<&CfStats>) -> String {
        let nothing = CfStats::new("", self.levels.len());
        let since = since.unwrap_or(&nothing);
        let mut text = String::new();
        self.write_levels(&mut text, since);
        self.write_priorities(&mut text);
        line(
            &mut text,
            format_args!(
                "\nBlob file count: {}, total size: {:.1} GB, garbage size: {:.1} GB, space amp: {:.1}\n",
                self.blobs.files,
                self.blobs.bytes as f64 / GB,
                self.blobs.garbage_bytes as f64 / GB,
                self.blobs.space_amplification()
            ),
        );
        self.write_ingest(&mut text, since);
        self.write_compactions(&mut text, since);
        line(
            &mut text,
            format_args!("Estimated pending compaction bytes: {}", self.estimated_pending_compaction_bytes),
        );
        text.push_str(&self.stalls.to_text(&since.stalls));
        text
    }

    fn write_levels(&self, text: &mut String, since: &CfStats) {
        write_header(text, &self.name, "Level");
        for row in self.rows() {
            row.write(text);
        }
        let ingested = self.ingest_bytes().saturating_sub(since.ingest_bytes()) + 1;
        let interval = self.compactions.total().since(&since.compactions.total());
        let write_amp = interval.all_bytes_written() as f64 / ingested as f64;
        Row { name: "Int".to_owned(), level: LevelStats::default(), write_amp, stats: interval }.write(text);
    }

    fn write_priorities(&self, text: &mut String) {
        write_header(text, &self.name, "Priority");
        for (priority, stats) in self.compactions.by_priority() {
            if stats.micros > 0 {
                Row::of_priority(priority, stats).write(text);
            }
        }
    }

    fn ingest_bytes(&self) -> u64 {
        self.bytes_flushed + self.ingested.bytes
    }

    /// One row for each level that has files or was written to, then the sum.
    fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut sum = Row {
            name: "Sum".to_owned(),
            level: LevelStats::default(),
            write_amp: 0.0,
            stats: CompactionStats::default(),
        };
        for (i, (level, stats)) in self.levels.iter().zip(self.compactions.levels()).enumerate() {
            sum.level.num_files += level.num_files;
            sum.level.being_compacted += level.being_compacted;
            if stats.micros == 0 && stats.cpu_micros == 0 && level.num_files == 0 {
                continue;
            }
            sum.level.bytes += level.bytes;
            sum.stats += stats;
            let read = stats.bytes_read_non_output_levels + stats.bytes_read_blob;
            let input = if i == 0 { self.ingest_bytes() } else { read };
            let write_amp = ratio(stats.all_bytes_written(), input);
            rows.push(Row { name: format!("L{i}"), level: *level, write_amp, stats: stats.clone() });
        }
        sum.write_amp = ratio(sum.stats.all_bytes_written(), self.ingest_bytes());
        rows.push(sum);
        rows
    }

    fn write_ingest(&self, text: &mut String, since: &CfStats) {
        let gb = |now: u64, then: u64| (now as f64 / GB, now.saturating_sub(then) as f64 / GB);
        let interval_up = self.seconds_up - since.seconds_up;
        line(text, format_args!("Uptime(secs): {:.1} total, {interval_up:.1} interval", self.seconds_up));
        let (total, interval) = gb(self.bytes_flushed, since.bytes_flushed);
        line(text, format_args!("Flush(GB): cumulative {total:.3}, interval {interval:.3}"));
        let (total, interval) = gb(self.ingested.bytes, since.ingested.bytes);
        line(text, format_args!("AddFile(GB): cumulative {total:.3}, interval {interval:.3}"));
        for (what, total, then) in [
            ("Total Files", self.ingested.files, since.ingested.files),
            ("L0 Files", self.ingested.l0_files, since.ingested.l0_files),
            ("Keys", self.ingested.keys, since.ingested.keys),
        ] {
            let interval = total.saturating_sub(then);
            line(text, format_args!("AddFile({what}): cumulative {total}, interval {interval}"));
        }
    }

    fn write_compactions(&self, text: &mut String, since: &CfStats) {
        let total = self.compactions.total();
        let interval = total.since(&since.compactions.total());
        for (what, stats, seconds) in [
            ("Cumulative", &total, self.seconds_up),
            ("Interval", &interval, self.seconds_up - since.seconds_up),
        ] {
            let seconds = seconds.max(0.001);
            let (written, read) = (stats.all_bytes_written() as f64, stats.bytes_read() as f64);
            line(
                text,
                format_args!(
                    "{what} compaction: {:.2} GB write, {:.2} MB/s write, {:.2} GB read, {:.2} MB/s read, {:.1} seconds",
                    written / GB,
                    written / MB / seconds,
                    read / GB,
                    read / MB / seconds,
                    stats.micros as f64 / 1e6
                ),
            );
        }
    }

    /// `get_map_property("rocksdb.cfstats")`: `compaction.L0.NumFiles` and so on, and the stalls.
    pub fn to_map(&self) -> BTreeMap<String, String> {
        let mut map = self.stalls.to_map();
        for row in self.rows() {
            for (column, value) in row.values() {
                map.insert(format!("compaction.{}.{column}", row.name), format!("{value:.6}"));
            }
        }
        map
    }
}

fn ratio(numerator: u64, denominator: u64) -> f64 {
    if denominator == 0 { 0.0 } else { numerator as f64 / denominator as f64 }
}

/// Appends one line; a `String` takes any.
fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    writeln!(text, "{arguments}").expect("writing to a String cannot fail");
}

fn write_header(text: &mut String, cf_name: &str, group_by: &str) {
    let columns = format!(
        "{group_by}    Files   Size     Score Read(GB)  Rn(GB) Rnp1(GB) Write(GB) WPreComp(GB) Wnew(GB) Moved(GB) W-Amp \
         Rd(MB/s) Wr(MB/s) Comp(sec) CompMergeCPU(sec) Comp(cnt) Avg(sec) KeyIn KeyDrop Rblob(GB) Wblob(GB)\n"
    );
    line(text, format_args!("\n** Compaction Stats [{cf_name}] **"));
    text.push_str(&columns);
    // RocksDB rules a line as long as the header with its line end.
    line(text, format_args!("{}", "-".repeat(columns.len())));
}

/// One line of the compaction table.
struct Row {
    name: String,
    level: LevelStats,
    write_amp: f64,
    stats: CompactionStats,
}

impl Row {
    fn of_priority(priority: WorkPriority, stats: &CompactionStats) -> Row {
        let level = LevelStats::default();
        Row { name: priority.as_str().to_owned(), level, write_amp: 0.0, stats: stats.clone() }
    }

    /// RocksDB's names of the columns in maps, with their values.
    fn values(&self) -> [(&'static str, f64); 22] {
        let stats = &self.stats;
        let gb = |bytes: u64| bytes as f64 / GB;
        // RocksDB adds a microsecond to avoid a division by zero.
        let elapsed = (stats.micros + 1) as f64 / 1e6;
        let new_bytes = stats.bytes_written as f64 - stats.bytes_read_output_level as f64;
        let seconds = stats.micros as f64 / 1e6;
        [
            ("NumFiles", self.level.num_files as f64),
            ("CompactedFiles", self.level.being_compacted as f64),
            ("SizeBytes", self.level.bytes as f64),
            ("Score", self.level.score),
            ("ReadGB", gb(stats.bytes_read())),
            ("RnGB", gb(stats.bytes_read_non_output_levels)),
            ("Rnp1GB", gb(stats.bytes_read_output_level)),
            ("WriteGB", gb(stats.bytes_written)),
            ("WPreCompGB", gb(stats.bytes_written_pre_comp)),
            ("WnewGB", new_bytes / GB),
            ("MovedGB", gb(stats.bytes_moved)),
            ("WriteAmp", self.write_amp),
            ("ReadMBps", stats.bytes_read() as f64 / MB / elapsed),
            ("WriteMBps", stats.all_bytes_written() as f64 / MB / elapsed),
            ("CompSec", seconds),
            ("CompMergeCPU", stats.cpu_micros as f64 / 1e6),
            ("CompCount", stats.count as f64),
            ("AvgSec", if stats.count == 0 { 0.0 } else { seconds / stats.count as f64 }),
            ("KeyIn", stats.num_input_records as f64),
            ("KeyDrop", stats.num_dropped_records as f64),
            ("RblobGB", gb(stats.bytes_read_blob)),
            ("WblobGB", gb(stats.bytes_written_blob)),
        ]
    }

    fn write(&self, text: &mut String) {
        // A level that shrank by very little gives a negative number that rounds to 0, and 0 must
        // have no sign.
        let v = self.values().map(|(_, value)| if value < 0.0 && value > -0.05 { 0.0 } else { value });
        line(
            text,
            format_args!(
                "{:>4} {:6}/{:<3} {:>10} {:5.1} {:8.1} {:7.1} {:8.1} {:9.1} {:9.1} {:8.1} {:9.1} {:5.1} {:8.1} {:8.1} \
                 {:9.2} {:17.2} {:9} {:8.3} {:>7} {:>6} {:9.1} {:9.1}",
                self.name,
                self.level.num_files,
                self.level.being_compacted,
                human::bytes(self.level.bytes),
                v[3],
                v[4],
                v[5],
                v[6],
                v[7],
                v[8],
                v[9],
                v[10],
                v[11],
                v[12],
                v[13],
                v[14],
                v[15],
                self.stats.count,
                v[17],
                human::number(self.stats.num_input_records),
                human::number(self.stats.num_dropped_records),
                v[20],
                v[21],
            ),
        );
    }
}

/// The whole database at the time of the dump.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct DbStats {
    /// Bytes appended to WALs.
    pub wal_bytes_written: u64,
    /// Number of syncs of WALs.
    pub wal_syncs: u64,
    /// Bytes of keys and values that users wrote.
    pub user_bytes_written: u64,
    /// Number of keys that users wrote.
    pub user_keys_written: u64,
    /// Writes that another thread's group leader did.
    pub user_writes_by_other: u64,
    /// Writes done by their own thread: one for each group.
    pub user_writes_by_self: u64,
    /// Writes that went to a WAL.
    pub user_writes_with_wal: u64,
    /// Microseconds that writers waited in stalls.
    pub user_write_stall_micros: u64,
    /// Stops because all memtables together were too large.
    pub write_buffer_manager_limit_stops: u64,
    /// Seconds since open.
    pub seconds_up: f64,
}

impl DbStats {
    /// `rocksdb.dbstats`; intervals are since `since`.
    pub fn to_text(&self, since: &DbStats) -> String {
        let seconds = self.seconds_up.max(0.001);
        let interval_seconds = self.seconds_up - since.seconds_up;
        let mut text = format!(
            "\n** DB Stats **\nUptime(secs): {:.1} total, {interval_seconds:.1} interval\n",
            self.seconds_up
        );
        self.write_period(&mut text, "Cumulative", "GB", GB, seconds);
        self.minus(since).write_period(&mut text, "Interval", "MB", MB, interval_seconds.max(0.001));
        text.push_str(&self.write_stall_text());
        text
    }

    /// `rocksdb.db-write-stall-stats`.
    pub fn write_stall_text(&self) -> String {
        let stops = self.write_buffer_manager_limit_stops;
        format!("Write Stall (count): write-buffer-manager-limit-stops: {stops}\n")
    }

    fn minus(&self, since: &DbStats) -> DbStats {
        DbStats {
            wal_bytes_written: self.wal_bytes_written.saturating_sub(since.wal_bytes_written),
            wal_syncs: self.wal_syncs.saturating_sub(since.wal_syncs),
            user_bytes_written: self.user_bytes_written.saturating_sub(since.user_bytes_written),
            user_keys_written: self.user_keys_written.saturating_sub(since.user_keys_written),
            user_writes_by_other: self.user_writes_by_other.saturating_sub(since.user_writes_by_other),
            user_writes_by_self: self.user_writes_by_self.saturating_sub(since.user_writes_by_self),
            user_writes_with_wal: self.user_writes_with_wal.saturating_sub(since.user_writes_with_wal),
            user_write_stall_micros: self
                .user_write_stall_micros
                .saturating_sub(since.user_write_stall_micros),
            write_buffer_manager_limit_stops: 0,
            seconds_up: self.seconds_up - since.seconds_up,
        }
    }

    /// The three lines of one period. Ingested bytes are printed in `unit`, WAL bytes always in GB.
    fn write_period(&self, text: &mut String, what: &str, unit: &str, unit_bytes: f64, seconds: f64) {
        let writes = self.user_writes_by_other + self.user_writes_by_self;
        let per_group = writes as f64 / (self.user_writes_by_self as f64).max(1.0);
        let per_sync = self.user_writes_with_wal as f64 / (self.wal_syncs as f64).max(1.0);
        line(
            text,
            format_args!(
                "{what} writes: {} writes, {} keys, {} commit groups, {per_group:.1} writes per commit group, \
                 ingest: {:.2} {unit}, {:.2} MB/s",
                human::number(writes),
                human::number(self.user_keys_written),
                human::number(self.user_writes_by_self),
                self.user_bytes_written as f64 / unit_bytes,
                self.user_bytes_written as f64 / MB / seconds
            ),
        );
        line(
            text,
            format_args!(
                "{what} WAL: {} writes, {} syncs, {per_sync:.2} writes per sync, written: {:.2} GB, {:.2} MB/s",
                human::number(self.user_writes_with_wal),
                human::number(self.wal_syncs),
                self.wal_bytes_written as f64 / GB,
                self.wal_bytes_written as f64 / MB / seconds
            ),
        );
        line(
            text,
            format_args!(
                "{what} stall: {}, {:.1} percent",
                human::micros(self.user_write_stall_micros),
                self.user_write_stall_micros as f64 / 10_000.0 / seconds
            ),
        );
    }

    /// `get_map_property("rocksdb.dbstats")`.
    pub fn to_map(&self) -> BTreeMap<String, String> {
        let entries = [
            ("db.wal_bytes_written", self.wal_bytes_written),
            ("db.wal_syncs", self.wal_syncs),
            ("db.user_bytes_written", self.user_bytes_written),
            ("db.user_keys_written", self.user_keys_written),
            ("db.user_writes_by_other", self.user_writes_by_other),
            ("db.user_writes_by_self", self.user_writes_by_self),
            ("db.user_writes_with_wal", self.user_writes_with_wal),
            ("db.user_write_stall_micros", self.user_write_stall_micros),
            ("write-buffer-manager-limit-stops", self.write_buffer_manager_limit_stops),
        ];
        let mut map: BTreeMap<String, String> =
            entries.into_iter().map(|(name, n)| (name.to_owned(), n.to_string())).collect();
        map.insert("db.uptime".to_owned(), format!("{:.6}", self.seconds_up));
        map
    }
}

#[cfg(test)]
mod tests;
