//! `esker rocksdb_dump` and `esker rocksdb_undump`: a database as one file, as RocksDB's tools of
//! these names write and read it.
//!
//! ```text
//! ROCKDUMP  version, 8 bytes: 0…01
//! size of the info, 4 bytes, little-endian · the info: JSON, or {} if it is anonymous
//! size of the key · the key · size of the value · the value        once for each entry
//! ```
//!
//! In: the default family of a database, or a dump. Out: a dump, or a database with its entries.
//!
//! Intended differences: a key, a value or a size that is cut off at the end of a dump is an error,
//! also in the size of a key, where RocksDB's tool takes it for the end. A dump is synced.

use crate::failure::{CommandOutcome, Failure};
use crate::host::Host;
use crate::progress::LongCommand;
use clap::Args;
use esker::internals::env::SequentialFile;
use esker::internals::env::system::hostname;
use esker::options::options_from_string;
use esker::{Db, Options};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"ROCKDUMP";
const VERSION: [u8; 8] = [0, 0, 0, 0, 0, 0, 0, 1];
/// Bytes that are read at a time, whatever a damaged size says.
const PIECE_BYTES: usize = 1 << 20;

#[derive(Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct DbDumpOptions {
    /// The directory of the database
    #[arg(long)]
    db_path: PathBuf,
    /// The file to write
    #[arg(long)]
    dump_location: PathBuf,
    /// Leave out directory, host and time
    #[arg(long)]
    anonymous: bool,
    /// Options of the database: name=value;…
    #[arg(long, default_value = "")]
    db_options: String,
}

#[derive(Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct DbUndumpOptions {
    /// The file to read
    #[arg(long)]
    dump_location: PathBuf,
    /// The directory of the database; it is made if it is missing
    #[arg(long)]
    db_path: PathBuf,
    /// Compact the database at the end
    #[arg(long)]
    compact: bool,
    /// Options of the database: name=value;…
    #[arg(long, default_value = "")]
    db_options: String,
}

impl DbDumpOptions {
    /// The files for the progress of the command.
    pub(crate) fn long_command(&self) -> Option<LongCommand> {
        Some(LongCommand::over("dumping", [&self.db_path]))
    }
}

impl DbUndumpOptions {
    /// The files for the progress of the command.
    pub(crate) fn long_command(&self) -> Option<LongCommand> {
        Some(LongCommand::over("loading", [&self.dump_location]))
    }
}

fn options_of(text: &str, host: &Host) -> CommandOutcome<Options> {
    let options = options_from_string(&Options::default(), text);
    let mut options =
        options.map_err(|e| Failure::new(format_args!("Cannot parse provided db_options: {e}")))?;
    options.db.env = host.env();
    Ok(options)
}

/// Writes a database to a file.
pub(crate) fn dump(flags: &DbDumpOptions, host: &Host) -> CommandOutcome {
    let options = options_of(&flags.db_options, host)?;
    let db = Db::open_for_read_only(&options, &flags.db_path).map_err(|e| {
        Failure::new(format_args!("Unable to open database '{}' for reading: {e}", flags.db_path.display()))
    })?;
    let mut file = host.fs().new_writable_file(&flags.dump_location).map_err(|e| {
        let path = flags.dump_location.display();
        Failure::new(format_args!("Unable to open dump file '{path}' for writing: {e}"))
    })?;
    file.append(MAGIC)?;
    file.append(&VERSION)?;
    let info = if flags.anonymous {
        "{}".to_owned()
    } else {
        let path = host.fs().absolute_path(&flags.db_path)?;
        format!(
            "{{ \"database-path\": \"{}\", \"hostname\": \"{}\", \"creation-time\": {} }}",
            path.display(),
            hostname(),
            host.env().clock.now_seconds()
        )
    };
    let mut sized = |bytes: &[u8]| -> CommandOutcome {
        let size = u32::try_from(bytes.len()).map_err(|_| Failure::new("Append failed: above 4 GiB"))?;
        file.append(&size.to_le_bytes())?;
        Ok(file.append(bytes)?)
    };
    sized(info.as_bytes())?;
    let mut iter = db.iter()?;
    iter.seek_to_first();
    while let Some((key, value)) = iter.item() {
        sized(key)?;
        sized(value)?;
        iter.next();
    }
    iter.status().map_err(|e| Failure::new(format_args!("Database iteration failed: {e}")))?;
    file.sync()?;
    Ok(file.close()?)
}

/// Puts the entries of a dump into a database.
pub(crate) fn undump(flags: &DbUndumpOptions, host: &Host) -> CommandOutcome {
    let mut dump = Dump::open(&flags.dump_location, host)?;
    let mut options = options_of(&flags.db_options, host)?;
    options.db.create_if_missing = true;
    let db = Db::open(&options, &flags.db_path).map_err(|e| {
        Failure::new(format_args!("Unable to open database '{}' for writing: {e}", flags.db_path.display()))
    })?;
    while let Some(key) = dump.next("key")? {
        let Some(value) = dump.next("value")? else {
            return Err(Failure::new("Unable to read value size: insufficient data"));
        };
        db.put(&key, &value)
            .map_err(|e| Failure::new(format_args!("Unable to write database entry: {e}")))?;
    }
    if flags.compact {
        db.compact_range(None, None).map_err(|e| {
            Failure::new(format_args!("Unable to compact the database after loading the dumped file: {e}"))
        })?;
    }
    Ok(db.close()?)
}

/// A dump that is read from front to back.
struct Dump {
    file: Box<dyn SequentialFile>,
}

impl Dump {
    /// Opens a dump at its first entry.
    fn open(path: &Path, host: &Host) -> CommandOutcome<Dump> {
        let named = path.display();
        let file = host
            .fs()
            .new_sequential_file(path)
            .map_err(|e| Failure::new(format_args!("Unable to open dump file '{named}' for reading: {e}")))?;
        let mut dump = Dump { file };
        if dump.bytes(8)? != MAGIC {
            return Err(Failure::new(format_args!("File '{named}' is not a recognizable dump file.")));
        }
        if dump.bytes(8)? != VERSION {
            return Err(Failure::new(format_args!("File '{named}' version not recognized.")));
        }
        match dump.next("info blob")? {
            Some(_) => Ok(dump),
            None => Err(Failure::new("Unable to read info blob size.")),
        }
    }

    /// The next bytes with their size before them; `None` at the end of the dump.
    fn next(&mut self, what: &str) -> CommandOutcome<Option<Vec<u8>>> {
        let cut = || Failure::new(format_args!("Unable to read {what}: insufficient data"));
        let size = self.bytes(4)?;
        if size.is_empty() {
            return Ok(None);
        }
        let size = u32::from_le_bytes(size.try_into().map_err(|_| cut())?) as usize;
        let bytes = self.bytes(size)?;
        if bytes.len() == size { Ok(Some(bytes)) } else { Err(cut()) }
    }

    /// Up to `count` bytes; fewer at the end of the file.
    fn bytes(&mut self, count: usize) -> CommandOutcome<Vec<u8>> {
        let mut bytes = Vec::new();
        while bytes.len() < count {
            let start = bytes.len();
            bytes.resize(start + (count - start).min(PIECE_BYTES), 0);
            let piece = bytes.get_mut(start..).unwrap_or_default();
            let (wanted, read) = (piece.len(), self.file.read(piece)?);
            if read < wanted {
                bytes.truncate(start + read);
                break;
            }
        }
        Ok(bytes)
    }
}
