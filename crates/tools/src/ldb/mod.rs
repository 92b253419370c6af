//! `esker ldb`: the commands of RocksDB's `ldb` that scripts use, with its flags and its output.
//!
//! In: a database directory and a command. Out: on standard output the text that RocksDB 7.8.3's
//! `ldb` prints; errors as `Failed: …` on standard error, with exit code 1. Commands that only read
//! open the database read-only and leave no file in its directory.
//!
//! One difference is intended: all bytes are printed. RocksDB's `ldb` stops at the first zero byte.
//!
//! Reading order: `session` (the opening of the database), then a file for each group of commands.

mod admin;
mod data;
mod dump;
#[cfg(feature = "encryption")]
mod encryption;
mod entities;
mod files;
mod levels;
mod logs;
mod offline;
mod query;
mod remote_compaction;
mod repair;
mod session;
mod single_file;
mod times;

use crate::failure::{CommandOutcome, Failure};
use crate::host::{Host, Stream};
use crate::progress::LongCommand;
use clap::{Args, Subcommand};
use session::Session;
pub(crate) use session::{DatabaseAccess, OpenedWith, open_as_it_is, open_with_access};
use std::io::{BufWriter, Write};
use std::path::PathBuf;

#[derive(Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct LdbOptions {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

/// Flags of all commands.
#[derive(Args, Clone, Debug, Default)]
#[command(rename_all = "snake_case")]
struct Common {
    /// Directory of the database
    #[arg(long, global = true)]
    db: Option<PathBuf>,
    /// Read the database as a secondary, beside the process that writes it; DIR for the secondary's
    /// LOG
    #[arg(long, global = true, conflicts_with = "ttl")]
    secondary_path: Option<PathBuf>,
    /// Directories of tables in the order of db_paths, separated by commas: DIR or DIR=BYTES
    #[arg(long, global = true, value_delimiter = ',')]
    db_paths: Vec<String>,
    /// Read and print keys and values as 0x…
    #[arg(long, global = true)]
    hex: bool,
    /// Read and print keys as 0x…
    #[arg(long, global = true)]
    key_hex: bool,
    /// Read and print values as 0x…
    #[arg(long, global = true)]
    value_hex: bool,
    /// Column family to work on
    #[arg(long, alias = "column-family", global = true, default_value = "default")]
    column_family: String,
    /// Use the options of the newest OPTIONS file; this is the default
    #[arg(long, global = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    try_load_options: Option<bool>,
    /// Ignore unknown objects in the OPTIONS file
    #[arg(long, global = true)]
    ignore_unknown_options: bool,
    /// Create the database if it is missing
    #[arg(long, global = true)]
    create_if_missing: bool,
    /// Bits per key of Bloom filters in new tables
    #[arg(long, global = true)]
    bloom_bits: Option<u32>,
    /// Compression of new tables: no, snappy, zlib, bzip2, lz4, lz4hc, zstd
    #[arg(long, global = true)]
    compression_type: Option<String>,
    /// Bytes in a block of new tables
    #[arg(long, global = true)]
    block_size: Option<usize>,
    /// Bytes in a memtable
    #[arg(long, global = true)]
    write_buffer_size: Option<usize>,
    /// Bytes in a table file
    #[arg(long, global = true)]
    file_size: Option<u64>,
    /// Treat the last 4 bytes of each value as the time of its write; for get, put, batchput, load,
    /// scan and dump
    #[arg(long, global = true)]
    ttl: bool,
    /// Put large values into blob files
    #[arg(long, global = true)]
    enable_blob_files: bool,
    /// Smallest size of a large value in bytes
    #[arg(long, global = true)]
    min_blob_size: Option<u64>,
    /// Bytes in a blob file
    #[arg(long, global = true)]
    blob_file_size: Option<u64>,
    /// Compression of new blob files: no, snappy, zlib, lz4, lz4hc, zstd
    #[arg(long, global = true)]
    blob_compression_type: Option<String>,
    /// Let compactions move values out of the oldest blob files
    #[arg(long, global = true)]
    enable_blob_garbage_collection: bool,
    /// Fraction of blob files that counts as oldest
    #[arg(long, global = true)]
    blob_garbage_collection_age_cutoff: Option<f64>,
    /// Fraction of garbage in the oldest blob files from which on their tables are compacted
    #[arg(long, global = true)]
    blob_garbage_collection_force_threshold: Option<f64>,
}

#[derive(Subcommand)]
#[command(rename_all = "snake_case")]
enum Command {
    /// Prints the value of a key
    Get {
        key: String,
        #[command(flatten)]
        time: entities::ReadTimestampFlag,
    },
    /// Prints the values of several keys
    MultiGet {
        #[arg(required = true)]
        keys: Vec<String>,
        #[command(flatten)]
        time: entities::ReadTimestampFlag,
    },
    /// Prints the columns of a key's entity: NAME:VALUE
    GetEntity {
        key: String,
        #[command(flatten)]
        time: entities::ReadTimestampFlag,
    },
    /// Prints the columns of the entities of several keys
    MultiGetEntity {
        #[arg(required = true)]
        keys: Vec<String>,
        #[command(flatten)]
        time: entities::ReadTimestampFlag,
    },
    /// Stores a value under a key
    Put { key: String, value: String },
    /// Stores an entity of columns NAME:VALUE under a key
    PutEntity {
        key: String,
        #[arg(required = true)]
        columns: Vec<String>,
    },
    /// Stores several values as one batch
    Batchput {
        #[arg(required = true, value_names = ["KEY", "VALUE"])]
        pairs: Vec<String>,
    },
    /// Removes a key
    Delete { key: String },
    /// Removes a key that was stored once since its last removal
    Singledelete { key: String },
    /// Removes the keys from BEGIN up to, not including, END
    Deleterange { begin: String, end: String },
    /// Prints keys and values in order
    Scan(data::ScanOptions),
    /// Prints and counts keys and values, in order; with --path a single file
    Dump(dump::DumpOptions),
    /// Prints all internal entries: every version of every key
    Idump(dump::IdumpOptions),
    /// Starts a shell that reads and writes the column family; its command help lists the others
    Query,
    /// Prints the batches in a WAL file
    DumpWal(logs::DumpWalOptions),
    /// Prints the contents of a MANIFEST
    ManifestDump(logs::ManifestDumpOptions),
    /// Prints the checksums of table and blob files in a MANIFEST
    FileChecksumDump {
        /// Path of a MANIFEST file; default: the current MANIFEST of the database in --db
        #[arg(long)]
        path: Option<PathBuf>,
    },
    /// Prints the records of a compaction that can be resumed
    CompactionProgressDump {
        /// Path of the file COMPACTION_PROGRESS-N
        #[arg(long)]
        path: PathBuf,
    },
    /// Stores the entries on standard input: lines KEY ==> VALUE
    Load(files::LoadOptions),
    /// Makes a table of the entries on standard input: lines KEY ==> VALUE, in key order
    WriteExternSst { output_sst_path: PathBuf },
    /// Ingests a table
    IngestExternSst(files::IngestOptions),
    /// Prints the names of the column families
    ListColumnFamilies,
    /// Creates a column family
    CreateColumnFamily { name: String },
    /// Drops a column family and its data
    DropColumnFamily { name: String },
    /// Checks that each file of the MANIFEST exists with its size, and that levels are in order
    Checkconsistency,
    /// Compacts a range of keys
    Compact(admin::Range),
    /// Estimates the size of a range of keys in files
    Approxsize(admin::Range),
    /// Prints a property of the column family
    GetProperty { name: String },
    /// Prints the table files by column family and level, and the blob files
    ListLiveFilesMetadata {
        /// Sort by file name
        #[arg(long)]
        sort_by_filename: bool,
    },
    /// Prints the MANIFEST, all live tables and blob files, and the WALs
    DumpLiveFiles(single_file::LiveFilesOptions),
    /// Compacts the column family into fewer levels
    ReduceLevels(levels::ReduceLevelsOptions),
    /// Compacts a column family of level compaction into one table, for universal compaction
    ChangeCompactionStyle(levels::ChangeStyleOptions),
    /// Records changed facts about tables in the MANIFEST of a closed database
    UpdateManifest(offline::UpdateManifestOptions),
    /// Removes a table, and with it its entries, from a closed database
    UnsafeRemoveSstFile { number: Option<String> },
    /// Prints the range deletions in the tables of the column family
    ListFileRangeDeletes {
        /// Most range deletions to print
        #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
        max_keys: u64,
    },
    /// Compacts the column family through remote_compaction_worker, over files in a directory
    RemoteCompactionPrimary(remote_compaction::JobFlags),
    /// Does the job that remote_compaction_primary has written
    RemoteCompactionWorker(remote_compaction::JobFlags),
    /// Adds a backup of the database to a backup directory
    Backup(admin::BackupDir),
    /// Replaces the database by its newest backup; its present contents are lost
    Restore(admin::BackupDir),
    /// Rewrites the files that an older RocksDB cannot read: tables, WALs, MANIFEST, OPTIONS
    Downgrade {
        /// Oldest RocksDB to read the result: 7.8, 8.x, 9.x, 10.x
        #[arg(long)]
        to: String,
    },
    /// Makes a new MANIFEST from tables and WALs; unusable files go into the directory lost
    Repair(repair::RepairFlags),
    /// Encrypts the files of a closed database in place; names directories of wal_dir, db_paths and
    /// cf_paths beside --db
    #[cfg(feature = "encryption")]
    Encrypt { directories: Vec<PathBuf> },
    /// Decrypts the files of a closed database in place
    #[cfg(feature = "encryption")]
    Decrypt { directories: Vec<PathBuf> },
    /// Puts all encrypted files in and below directories under the first given key, without
    /// rewriting their content
    #[cfg(feature = "encryption")]
    Rekey { directories: Vec<PathBuf> },
    /// Makes a copy of the database at this point in time, by hard links
    Checkpoint {
        /// Directory that does not exist yet
        #[arg(long)]
        checkpoint_dir: PathBuf,
    },
}

/// The destination of the output. It is buffered: a scan prints millions of lines.
type Out = BufWriter<Stream>;

pub(crate) fn run(options: &LdbOptions, host: &Host) -> CommandOutcome {
    let mut out = BufWriter::with_capacity(64 << 10, host.output());
    let done = dispatch(&options.common, &options.command, host, &mut out);
    // As in RocksDB's tool, output printed before a failure stays.
    let flushed = out.flush().map_err(Failure::from);
    match done {
        Err(Failure::Told(why)) => Err(Failure::Told(format!("Failed: {why}"))),
        other => other.and(flushed),
    }
}

impl LdbOptions {
    /// Whether the command changes no file. Creating a database is a change.
    pub(crate) fn only_reads(&self) -> bool {
        let looks = matches!(
            self.command,
            Command::Get { .. }
                | Command::MultiGet { .. }
                | Command::GetEntity { .. }
                | Command::MultiGetEntity { .. }
                | Command::Scan(_)
                | Command::Dump(_)
                | Command::Idump(_)
                | Command::DumpLiveFiles(_)
                | Command::DumpWal(_)
                | Command::ManifestDump(_)
                | Command::FileChecksumDump { .. }
                | Command::CompactionProgressDump { .. }
                | Command::ListColumnFamilies
                | Command::Checkconsistency
                | Command::Approxsize(_)
                | Command::GetProperty { .. }
                | Command::ListLiveFilesMetadata { .. }
                | Command::ListFileRangeDeletes { .. }
        );
        looks && !self.common.create_if_missing
    }

    /// The files for the progress of the command; `None`: it is short.
    pub(crate) fn long_command(&self) -> Option<LongCommand> {
        let over_database = |what| Some(LongCommand::over(what, self.common.db.iter()));
        let rows_of_database =
            |what| over_database(what).map(|command| LongCommand { prints_rows: true, ..command });
        match &self.command {
            Command::Scan(_) => rows_of_database("scanning"),
            Command::Dump(_) | Command::Idump(_) | Command::DumpLiveFiles(_) => rows_of_database("dumping"),
            Command::Load(_) | Command::WriteExternSst { .. } => {
                over_database("loading").map(|command| LongCommand { reads_input: true, ..command })
            }
            Command::IngestExternSst(options) => options.long_command(),
            Command::Compact(_) | Command::ReduceLevels(_) | Command::ChangeCompactionStyle(_) => {
                over_database("compacting")
            }
            Command::Backup(_) => over_database("backing up"),
            Command::Restore(options) => options.long_command(),
            Command::Downgrade { .. } => over_database("downgrading"),
            Command::Repair(_) => over_database("repairing"),
            #[cfg(feature = "encryption")]
            Command::Encrypt { directories } => self.conversion("encrypting", directories),
            #[cfg(feature = "encryption")]
            Command::Decrypt { directories } => self.conversion("decrypting", directories),
            #[cfg(feature = "encryption")]
            Command::Rekey { directories } => self.conversion("rekeying", directories),
            _ => None,
        }
    }

    #[cfg(feature = "encryption")]
    fn conversion(&self, what: &'static str, more: &[PathBuf]) -> Option<LongCommand> {
        Some(LongCommand::over(what, self.common.db.iter().chain(more)))
    }
}

/// Runs a command that opens no database, or opens it in its own way; `None`: it is another one.
fn dispatch_without_session(
    common: &Common,
    command: &Command,
    host: &Host,
    out: &mut Out,
) -> Option<CommandOutcome> {
    Some(match command {
        Command::DumpWal(options) => logs::dump_wal(options, host, out),
        Command::ManifestDump(options) => logs::manifest_dump(common, options, host, out),
        Command::FileChecksumDump { path } => logs::file_checksum_dump(common, path.as_deref(), host, out),
        Command::CompactionProgressDump { path } => logs::compaction_progress_dump(path, host, out),
        Command::ListColumnFamilies => admin::list_column_families(common, host, out),
        Command::Dump(options) => return dump::dump_file(common, options, host, out),
        Command::Restore(options) => admin::restore(common, options, host, out),
        Command::Repair(flags) => repair::repair(common, flags, host, out),
        Command::RemoteCompactionWorker(flags) => remote_compaction::worker(common, flags, host, out),
        #[cfg(feature = "encryption")]
        Command::Encrypt { directories } => encryption::encrypt(common, directories, host, out),
        #[cfg(feature = "encryption")]
        Command::Decrypt { directories } => encryption::decrypt(common, directories, host, out),
        #[cfg(feature = "encryption")]
        Command::Rekey { directories } => encryption::rekey(common, directories, host, out),
        _ => return None,
    })
}

fn dispatch(common: &Common, command: &Command, host: &Host, out: &mut Out) -> CommandOutcome {
    if let Some(done) = dispatch_without_session(common, command, host, out) {
        return done;
    }
    let mut session = Session::new(common, host)?;
    match command {
        Command::Get { key, time } => data::get(&session, key, time, out),
        Command::MultiGet { keys, time } => entities::multi_get(&session, keys, time, out),
        Command::GetEntity { key, time } => entities::get_entity(&session, key, time, out),
        Command::MultiGetEntity { keys, time } => entities::multi_get_entity(&session, keys, time, out),
        Command::PutEntity { key, columns } => entities::put_entity(&session, key, columns, out),
        Command::Put { key, value } => data::put(&session, key, value, out),
        Command::Batchput { pairs } => data::batchput(&session, pairs, out),
        Command::Delete { key } => data::delete(&session, key, out),
        Command::Singledelete { key } => data::singledelete(&session, key, out),
        Command::Deleterange { begin, end } => data::deleterange(&session, begin, end, out),
        Command::Scan(options) => data::scan(&session, options, out),
        Command::Dump(options) => dump::dump(&session, options, out),
        Command::Query => query::query(&session, host, out),
        Command::DumpLiveFiles(options) => single_file::dump_live_files(&session, options, host, out),
        Command::ReduceLevels(options) => levels::reduce_levels(&mut session, options, out),
        Command::ChangeCompactionStyle(options) => {
            levels::change_compaction_style(&mut session, options, out)
        }
        Command::UpdateManifest(options) => offline::update_manifest(&session, options, host, out),
        Command::UnsafeRemoveSstFile { number } => {
            offline::unsafe_remove_sst_file(&session, number.as_ref(), host)
        }
        Command::Idump(options) => dump::idump(&session, options, out),
        Command::Load(options) => files::load(&session, options, host, out),
        Command::WriteExternSst { output_sst_path } => {
            files::write_extern_sst(&session, output_sst_path, host, out)
        }
        Command::IngestExternSst(options) => files::ingest_extern_sst(&session, options, out),
        Command::CreateColumnFamily { name } => admin::create_column_family(&session, name, out),
        Command::DropColumnFamily { name } => admin::drop_column_family(&session, name, out),
        Command::Checkconsistency => admin::checkconsistency(&mut session, out),
        Command::Compact(range) => admin::compact(&session, range),
        Command::Approxsize(range) => admin::approxsize(&session, range, out),
        Command::GetProperty { name } => admin::get_property(&session, name, out),
        Command::ListLiveFilesMetadata { sort_by_filename } => {
            admin::list_live_files_metadata(&session, *sort_by_filename, out)
        }
        Command::ListFileRangeDeletes { max_keys } => {
            let most = usize::try_from(*max_keys).unwrap_or(usize::MAX);
            admin::list_file_range_deletes(&session, most, host, out)
        }
        Command::RemoteCompactionPrimary(flags) => remote_compaction::primary(&mut session, flags, host, out),
        Command::Backup(options) => admin::backup(&session, options, host, out),
        Command::Downgrade { to } => admin::downgrade(&session, to, out),
        Command::Checkpoint { checkpoint_dir } => admin::checkpoint(&session, checkpoint_dir, out),
        // Done above.
        _ => Ok(()),
    }
}
