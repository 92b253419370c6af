//! Blob files being written by a flush or compaction, beside its tables.
//!
//! In: entries on their way into a table. Out: large values in blob files, and their indexes in the
//! table instead; a description of each file for the MANIFEST.
//!
//! Invariants
//!  1. A described file is on the medium; its name is durable after the job's directory sync.
//!  2. `created` names every file that may exist, finished or not: an aborted job deletes them.
//!
//! Source: RocksDB `db/blob/blob_file_builder.cc`.

use super::file_checksum::{PendingChecksum, checksummed};
use super::table_output::{OutputContext, TableOutput, create_paced, type_of};
use crate::observe::{BlobFileCreationBriefInfo, BlobFileCreationInfo, Event, TableFileCreationReason};
use crate::options::PrepopulateBlobCache;
use esker_base::stats::{Histogram, Ticker, record_tick};
use esker_base::{Error, FileNumber, Result, ValueType};
use esker_env::StopWatch;
use esker_format::blob::BlobIndex;
use esker_format::file_name::FileType;
use esker_format::key::{self, append_internal_key};
use esker_format::version_edit::BlobFileAddition;
use esker_table::blob::BlobFileBuilder;

/// The blob files of one job, or of one key range of it.
pub(crate) struct BlobOutput<'a> {
    context: OutputContext<'a>,
    new_number: Box<dyn Fn() -> FileNumber + 'a>,
    /// Values of at least this many bytes go into blob files; `None`: no values.
    min_bytes: Option<u64>,
    /// Values go into the blob cache too: `prepopulate_blob_cache`.
    warms: bool,
    current: Option<BlobFileBuilder>,
    /// The checksum of the current file, if there is a `file_checksum_gen_factory`.
    checksum: Option<PendingChecksum>,
    pub(crate) finished: Vec<BlobFileAddition>,
    pub(crate) created: Vec<FileNumber>,
    key: Vec<u8>,
    index: Vec<u8>,
}

impl std::fmt::Debug for BlobOutput<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlobOutput").field("current", &self.current).finish_non_exhaustive()
    }
}

impl<'a> BlobOutput<'a> {
    /// The blob files of tables for `level`. Creates no file before the first value for it.
    pub(crate) fn new(
        context: OutputContext<'a>,
        level: usize,
        new_number: impl Fn() -> FileNumber + 'a,
    ) -> BlobOutput<'a> {
        let options = context.family_options;
        let starts_here = usize::try_from(options.blob_file_starting_level).is_ok_and(|first| level >= first);
        BlobOutput {
            min_bytes: (options.enable_blob_files && starts_here).then_some(options.min_blob_size),
            warms: options.prepopulate_blob_cache == PrepopulateBlobCache::FlushOnly
                && context.reason() == TableFileCreationReason::Flush,
            context,
            new_number: Box::new(new_number),
            current: None,
            checksum: None,
            finished: Vec::new(),
            created: Vec::new(),
            key: Vec::new(),
            index: Vec::new(),
        }
    }

    /// An output that writes no blob files.
    pub(crate) fn none(context: OutputContext<'a>) -> BlobOutput<'a> {
        let mut output = BlobOutput::new(context, 0, || FileNumber(0));
        output.min_bytes = None;
        output
    }

    /// Adds an entry to `table`, with its value in a blob file if it is a plain value and large
    /// enough.
    /// # Errors
    /// `IoError`, and errors of [`TableOutput::add`].
    #[inline]
    pub(crate) fn add(&mut self, table: &mut TableOutput, internal_key: &[u8], value: &[u8]) -> Result<()> {
        match self.min_bytes {
            Some(min) if value.len() as u64 >= min && type_of(internal_key) == Some(ValueType::Value) => {
                self.put(internal_key, value)?;
                table.add(&self.key, &self.index)
            }
            _ => table.add(internal_key, value),
        }
    }

    /// Puts a value into the current blob file. Fills `key` and `index`, the entry for the table.
    fn put(&mut self, internal_key: &[u8], value: &[u8]) -> Result<()> {
        if self.current.is_none() {
            let number = (self.new_number)();
            let begun = self.begin(number);
            let begun = begun.inspect_err(|e| report_created(&self.context, number, Err(e)));
            self.current = Some(begun?);
        }
        let builder = self.current.as_mut().expect("the builder was made above");
        let user_key = key::user_key(internal_key);
        let location = builder.add(user_key, value)?;
        if self.warms {
            self.context.tables.blobs().prepopulate(&location, value);
        }
        self.index.clear();
        BlobIndex::Blob(location).append_to(&mut self.index);
        self.key.clear();
        let sequence = esker_base::SequenceNumber(key::trailer(internal_key) >> 8);
        append_internal_key(&mut self.key, user_key, sequence, ValueType::BlobIndex);
        if builder.file_size() >= self.context.family_options.blob_file_size {
            self.finish()?;
        }
        Ok(())
    }

    /// Creates a file.
    fn begin(&mut self, number: FileNumber) -> Result<BlobFileBuilder> {
        self.created.push(number);
        let context = &self.context;
        for listener in &context.options.listeners {
            listener.on_blob_file_creation_started(&brief(context, number));
        }
        let path = context.tables.paths().blob(number);
        let file = create_paced(context, &path, FileType::Blob, Histogram::BlobDbBlobFileWriteMicros)?;
        let factory = context.options.file_checksum_gen_factory.as_ref();
        let (file, checksum) = checksummed(factory, &path, file);
        self.checksum = checksum;
        let family = &context.family_options;
        let (compression, effort) = (family.blob_compression_type, family.blob_compression_opts.codec());
        let builder = BlobFileBuilder::new(file, number, context.column_family, compression, &effort)?;
        Ok(builder.timed(context.options.statistics.clone(), context.env.clock.clone()))
    }

    /// Ends the current file, if there is one, and syncs it.
    /// # Errors
    /// `IoError`; the files are then useless.
    pub(crate) fn finish(&mut self) -> Result<()> {
        let Some(builder) = self.current.take() else { return Ok(()) };
        let number = builder.number();
        let finished = self.end(builder);
        report_created(&self.context, number, finished.as_ref());
        self.finished.push(finished?);
        Ok(())
    }

    /// Writes the rest of a file, and syncs it.
    fn end(&mut self, builder: BlobFileBuilder) -> Result<BlobFileAddition> {
        let number = builder.number();
        let (mut file, info) = builder.finish()?;
        let statistics = &self.context.options.statistics;
        let clock = self.context.env.clock.as_ref();
        let watch = StopWatch::start(statistics.as_deref(), clock, Histogram::BlobDbBlobFileSyncMicros);
        if self.context.options.use_fsync {
            file.fsync()?;
        } else {
            file.sync()?;
        }
        drop(watch);
        record_tick(statistics, Ticker::BlobDbBlobFileBytesWritten, file.file_size());
        record_tick(statistics, Ticker::BlobDbBlobFileSynced, 1);
        file.close()?;
        self.context.track(&self.context.tables.paths().blob(number), file.file_size());
        let checksum = self.checksum.take().map(PendingChecksum::finish);
        let (checksum_value, checksum_method) = checksum.unwrap_or_default();
        Ok(BlobFileAddition {
            number,
            total_blob_count: info.blob_count,
            total_blob_bytes: info.blob_bytes,
            checksum_method,
            checksum_value,
        })
    }

    /// Deletes all created files.
    /// # Errors
    /// `IoError`: some may be left; no MANIFEST names them, and the next open removes them.
    pub(crate) fn delete_all(&mut self) -> Result<()> {
        if let Some(builder) = self.current.take() {
            let given_up = Error::aborted("the job that wrote the blob file has failed");
            report_created(&self.context, builder.number(), Err(&given_up));
        }
        self.finished.clear();
        for number in self.created.drain(..) {
            self.context.tables.blobs().evict(number);
            let path = self.context.tables.paths().blob(number);
            if self.context.env.fs.file_exists(&path)? {
                self.context.env.fs.delete_file(&path)?;
                self.context.untrack(&path);
            }
        }
        Ok(())
    }
}

fn brief(context: &OutputContext<'_>, number: FileNumber) -> BlobFileCreationBriefInfo {
    BlobFileCreationBriefInfo {
        db_name: context.database.display().to_string(),
        cf_name: context.column_family_name.to_owned(),
        file_path: context.tables.paths().blob(number),
        job_id: context.job_id,
        reason: context.reason(),
    }
}

/// Writes the event of a finished file to the LOG, and calls the listeners.
fn report_created(
    context: &OutputContext<'_>,
    number: FileNumber,
    result: std::result::Result<&BlobFileAddition, &Error>,
) {
    if let Ok(addition) = result {
        let (cf_name, job) = (context.column_family_name, context.job_id);
        let line = Event::BlobFileCreation { cf_name, job, addition }.to_line(context.env.clock.now_micros());
        esker_base::info_log!(context.info_log, Info, "{line}");
    }
    for listener in &context.options.listeners {
        listener.on_blob_file_created(&BlobFileCreationInfo {
            brief: brief(context, number),
            total_blob_count: result.map_or(0, |file| file.total_blob_count),
            total_blob_bytes: result.map_or(0, |file| file.total_blob_bytes),
            status: result.map(|_| ()).map_err(Clone::clone),
            file_checksum: result.map_or_else(|_| Vec::new(), |file| file.checksum_value.clone()),
            file_checksum_func_name: result
                .map_or_else(|_| String::new(), |file| file.checksum_method.clone()),
        });
    }
}
