//! The progress file of a worker, from which another worker resumes the job.
//!
//! In: finished outputs of a job. Out: `COMPACTION_PROGRESS-N` beside them; at the next start of
//! the job its outputs so far, checked, and the key at which it goes on.
//!
//! Source: RocksDB `db/db_impl/db_impl_secondary.cc` (`PrepareCompactionProgressState`).
//!
//! Invariants
//!  1. The files of a record, and their names, are durable before the record is written.
//!  2. Only the job that made it uses progress: the same bytes, and so the same inputs, range,
//!     snapshots and database.
//!  3. Progress that is damaged or of another job costs work, never data: the job begins anew.
//!
//! Cost: one sync of the directory and one of the file for each output.

use super::super::output::ProgressLog;
use crate::merge::CompactionIteratorStats;
use esker_base::hash::xxh3_128;
use esker_base::{Error, FileNumber, Result, SequenceNumber};
use esker_env::{Clock, Directory, FileSystem, SequentialFile, WritableFile};
use esker_format::compaction_progress::{CompactionProgress, LevelProgress, OwnProgress};
use esker_format::file_name::{
    FileType, compaction_progress_file_name, parse_file_name, table_file_name,
    temp_compaction_progress_file_name,
};
use esker_format::key::{self, InternalKeyComparator};
use esker_format::log::{LogReader, LogSource, LogWriter, next_strict};
use esker_format::unique_id::unique_id;
use esker_format::version_edit::FileMetaData;
use esker_table::{TableCache, TableFile};
use std::cmp::Ordering;
use std::path::{Path, PathBuf};

/// The place at which a job goes on.
pub(crate) struct ResumePoint {
    /// The user key of the first entries that no output has.
    pub(crate) next: Vec<u8>,
    /// Outputs with all entries before that key.
    pub(crate) files: Vec<FileMetaData>,
    /// Counts of the entries before that key.
    pub(crate) stats: CompactionIteratorStats,
}

/// The directory of a resumable job.
pub(crate) struct Resumption<'a> {
    fs: &'a dyn FileSystem,
    dir: PathBuf,
    /// A hash of the job's bytes.
    job: u128,
    progress: CompactionProgress,
    /// Counts of the entries that the resumed outputs have.
    base: CompactionIteratorStats,
    /// The latest progress file before this worker, and its number.
    latest: Option<u64>,
    /// The reason why found progress is not used.
    refused: Option<Error>,
    writer: Option<ProgressWriter>,
}

impl std::fmt::Debug for Resumption<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resumption").field("dir", &self.dir).finish_non_exhaustive()
    }
}

struct ProgressWriter {
    file: Box<dyn WritableFile>,
    log: LogWriter,
    directory: Box<dyn Directory>,
}

impl ProgressWriter {
    fn add(&mut self, progress: &CompactionProgress) -> Result<()> {
        let mut bytes = Vec::new();
        self.log.add_record(&progress.encode(), &mut bytes);
        self.file.append(&bytes)?;
        self.file.sync()
    }
}

impl<'a> Resumption<'a> {
    /// Looks for progress of the job `input` in the directory `dir`, which exists. Deletes other
    /// progress files and every table that the progress does not name.
    /// # Errors
    /// `IoError`. Damaged progress is none.
    pub(crate) fn prepare(fs: &'a dyn FileSystem, dir: &Path, input: &[u8]) -> Result<Resumption<'a>> {
        let mut resumption = Resumption {
            fs,
            dir: dir.to_owned(),
            job: xxh3_128(input, 0),
            progress: CompactionProgress::default(),
            base: CompactionIteratorStats::default(),
            latest: None,
            refused: None,
            writer: None,
        };
        let names = fs.children(dir)?;
        let progress_files = names.iter().filter_map(|name| match parse_file_name(name)? {
            (FileType::CompactionProgress, number) => Some(number.0),
            _ => None,
        });
        resumption.latest = progress_files.max();
        if let Some(latest) = resumption.latest {
            match read(fs, &compaction_progress_file_name(dir, latest)) {
                Ok(Some(found)) if found.own.as_ref().is_some_and(|own| own.job == resumption.job) => {
                    resumption.progress = found;
                }
                Ok(Some(_)) => resumption.refused = Some(unusable("it is of another job or of RocksDB")),
                Ok(None) => {}
                Err(error) => resumption.refused = Some(error),
            }
        }
        resumption.clean()?;
        Ok(resumption)
    }

    /// Deletes every table that the progress does not name, and every progress file but the latest.
    fn clean(&self) -> Result<()> {
        for name in self.fs.children(&self.dir)? {
            let is_left = match parse_file_name(&name) {
                Some((FileType::Table, number)) => !self.has(number),
                Some((FileType::CompactionProgress, number)) => Some(number.0) != self.latest,
                Some((FileType::Temp, _)) => name.starts_with("COMPACTION_PROGRESS-"),
                _ => false,
            };
            if is_left {
                self.fs.delete_file(&self.dir.join(name))?;
            }
        }
        Ok(())
    }

    /// Whether the progress names this table.
    pub(crate) fn has(&self, number: FileNumber) -> bool {
        self.progress.output.files.iter().any(|file| file.number == number)
    }

    /// The reason why the job begins anew although there was progress.
    pub(crate) fn refused(&self) -> Option<&Error> {
        self.refused.as_ref()
    }

    /// Checks the outputs so far, and begins a new progress file. Returns the place at which the
    /// job goes on; `None`: at its beginning.
    /// # Errors
    /// `IoError`.
    pub(crate) fn begin(
        &mut self,
        outputs: &TableCache,
        icmp: &InternalKeyComparator,
        range: (Option<&[u8]>, Option<&[u8]>),
        clock: &dyn Clock,
    ) -> Result<Option<ResumePoint>> {
        let mut found = None;
        if !self.progress.output.files.is_empty() {
            match self.check(outputs, icmp, range) {
                Ok(point) => found = Some(point),
                Err(error) => {
                    self.progress.output.files.iter().for_each(|file| outputs.evict(file.number));
                    self.progress = CompactionProgress::default();
                    self.refused = Some(error);
                    self.clean()?;
                }
            }
        }
        self.base = found.as_ref().map(|point| point.stats).unwrap_or_default();
        self.start_file(clock.now_micros())?;
        Ok(found)
    }

    /// Puts a file with the progress so far in the place of the latest one.
    fn start_file(&mut self, micros: u64) -> Result<()> {
        let number = micros.max(self.latest.map_or(0, |latest| latest.saturating_add(1)));
        let temporary = temp_compaction_progress_file_name(&self.dir, number);
        let mut writer = ProgressWriter {
            file: self.fs.new_writable_file(&temporary)?,
            log: LogWriter::new(0, false),
            directory: self.fs.new_directory(&self.dir)?,
        };
        if !self.progress.output.files.is_empty() {
            writer.add(&self.progress)?;
        }
        self.fs.rename(&temporary, &compaction_progress_file_name(&self.dir, number))?;
        writer.directory.fsync()?;
        self.latest = Some(number);
        self.writer = Some(writer);
        self.clean()
    }

    /// Checks the progress against the outputs.
    /// # Errors
    /// The reason why the progress is of no use.
    fn check(
        &self,
        outputs: &TableCache,
        icmp: &InternalKeyComparator,
        (begin, end): (Option<&[u8]>, Option<&[u8]>),
    ) -> Result<ResumePoint> {
        let (progress, own) = (&self.progress, self.progress.own.clone().unwrap_or_default());
        let stats = CompactionIteratorStats::from_counts(&own.counts)
            .filter(|stats| stats.records_in == progress.input_records)
            .filter(|stats| stats.records_out == progress.output.output_records)
            .ok_or_else(|| unusable("its counts contradict each other"))?;
        let is_plain = progress.proximal == LevelProgress::default() && icmp.timestamp_size() == 0;
        if !is_plain || progress.next_key.len() < key::TRAILER_BYTES {
            return Err(unusable("it has outputs of a kind that is not resumed"));
        }
        let next = key::user_key(&progress.next_key);
        let order = icmp.user_comparator();
        let mut last = begin.map(<[u8]>::to_vec);
        let (mut is_exclusive, mut points) = (true, 0);
        for file in &progress.output.files {
            let (smallest, largest) = (key::user_key(&file.smallest), key::user_key(&file.largest));
            let follows = |last: &Vec<u8>| match order.compare(last, smallest) {
                Ordering::Less => true,
                Ordering::Equal => is_exclusive,
                Ordering::Greater => false,
            };
            if last.as_ref().is_some_and(|last| !follows(last)) {
                return Err(unusable("its outputs are out of order"));
            }
            points += self.check_file(outputs, file)?;
            is_exclusive = key::trailer(&file.largest) == key::RANGE_END_SENTINEL;
            last = Some(largest.to_vec());
        }
        let is_before_next = last.is_none_or(|last| match order.compare(&last, next) {
            Ordering::Less => true,
            Ordering::Equal => is_exclusive,
            Ordering::Greater => false,
        });
        if !is_before_next || end.is_some_and(|end| order.compare(next, end).is_ge()) {
            return Err(unusable("the next key does not follow the outputs"));
        }
        if points != stats.records_out {
            return Err(unusable("its outputs have another number of entries"));
        }
        Ok(ResumePoint { next: next.to_vec(), files: progress.output.files.clone(), stats })
    }

    /// Checks that an output is the recorded one; returns its number of point entries.
    fn check_file(&self, outputs: &TableCache, file: &FileMetaData) -> Result<u64> {
        let path = table_file_name(&self.dir, file.number);
        let size = self.fs.file_size(&path)?;
        if size != file.file_size {
            return Err(unusable("an output has another size").at(path.display()));
        }
        let reader = outputs.reader(&TableFile { meta: file, level: None })?;
        let properties = reader.properties();
        let id = unique_id(&properties.db_id, &properties.db_session_id, properties.orig_file_number);
        if id != file.unique_id {
            return Err(unusable("an output is another table").at(path.display()));
        }
        Ok(properties.num_entries.saturating_sub(properties.num_range_deletions))
    }
}

impl ProgressLog for Resumption<'_> {
    /// Records that `finished` has all entries before the user key `next`. `stats` counts the
    /// entries of this worker before that key.
    /// # Errors
    /// `IoError`. The job must then fail: a later record would lack files.
    fn record(
        &mut self,
        next: &[u8],
        stats: &CompactionIteratorStats,
        finished: &[FileMetaData],
    ) -> Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let new = finished.get(self.progress.output.files.len()..).unwrap_or_default();
        if new.is_empty() {
            return Ok(());
        }
        let mut counts = *stats;
        counts += self.base;
        let record = CompactionProgress {
            next_key: key::seek_key(next, SequenceNumber::MAX),
            input_records: counts.records_in,
            output: LevelProgress { output_records: counts.records_out, files: new.to_vec() },
            proximal: LevelProgress::default(),
            own: Some(OwnProgress { job: self.job, counts: counts.counts().to_vec() }),
        };
        writer.directory.fsync()?;
        writer.add(&record)?;
        self.progress.add(record);
        Ok(())
    }
}

struct Source(Box<dyn SequentialFile>);

impl LogSource for Source {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        self.0.read(buf)
    }
}

/// The progress in the file at `path`; `None` if it has no record yet. A record that is cut off at
/// the end was not finished.
/// # Errors
/// `Corruption` · `IoError`.
fn read(fs: &dyn FileSystem, path: &Path) -> Result<Option<CompactionProgress>> {
    let mut log = LogReader::new(Source(fs.new_sequential_file(path)?), 0);
    let (mut all, mut record): (Option<CompactionProgress>, _) = (None, Vec::new());
    while next_strict(&mut log, &mut record, &path.display())? {
        let later = CompactionProgress::decode(&record).map_err(|e| e.at(path.display()))?;
        let Some(later) = later else { break };
        match &mut all {
            Some(all) => all.add(later),
            None => all = Some(later),
        }
    }
    Ok(all)
}

fn unusable(what: &str) -> Error {
    Error::corruption(format!("the recorded progress is not used: {what}"))
}
