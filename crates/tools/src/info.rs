//! `esker info DIR`: says what a database holds, from its metadata.
//!
//! In: a database directory of Esker or RocksDB, also beside the process that has it open. Out:
//! families, levels, operators, options, large files, damage and the holder of `LOCK`, as text, as
//! one JSON object ([`model`] is its shape) or as an HTML page. Exit code 0 if the MANIFEST can be
//! read, even if files are damaged.
//!
//! Cost: one listing of each directory, the whole MANIFEST, and of each live table its size, its
//! footer and its properties. No data block, no WAL and no blob file is read, whatever they hold.
//! Memory grows with the number of live files.
//!
//! Invariants
//!  1. The command opens files for reading only, and takes no lock.
//!  2. It opens regular files only: a FIFO in place of a file is an error and not a hang.
//!  3. No key of an encrypted database is printed, unless `--keys` or `--hex` asks for keys.

mod damage;
pub(crate) mod gather;
pub(crate) mod holder;
pub(crate) mod model;
mod operators;
mod options;
pub(crate) mod page;
mod shape;
mod text;

use crate::failure::CommandOutcome;
use crate::host::{Host, write_file};
use crate::html;
use clap::{Args, ValueEnum};
use gather::Sources;
pub(crate) use options::{of_database as changed_of_database, of_family as changed_of_family};
use std::path::PathBuf;

/// The flags that name a database and the form of its keys.
#[derive(Args, Clone)]
pub(crate) struct DatabaseFlags {
    /// The database's directory
    pub(crate) dir: PathBuf,
    /// Directory of the WALs; default: the directory in the OPTIONS file, else DIR
    #[arg(long = "wal_dir", alias = "wal-dir")]
    pub(crate) wal_dir: Option<PathBuf>,
    /// Directory of db_paths or cf_paths; may be repeated
    #[arg(long = "path")]
    pub(crate) paths: Vec<PathBuf>,
    /// Form of the keys in key ranges; default: text, or none if the flags name encryption keys
    #[arg(long, value_enum)]
    pub(crate) keys: Option<KeyForm>,
    /// Print keys as hexadecimal digits, 0x…, as --keys=hex
    #[arg(long, alias = "key_hex", conflicts_with = "keys")]
    pub(crate) hex: bool,
}

#[derive(Args)]
pub(crate) struct DatabaseInfoOptions {
    #[command(flatten)]
    database: DatabaseFlags,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Write an HTML page to this file
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    html: Option<PathBuf>,
    /// Describe all families; otherwise the 20 largest
    #[arg(long)]
    all: bool,
    /// Columns of the output; default: those of the terminal, else 80
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(40..=400))]
    width: Option<u16>,
}

/// The form in which keys are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum KeyForm {
    /// Text, with escapes for other bytes
    Text,
    /// Hexadecimal digits
    Hex,
    /// No keys
    None,
}

/// Number of families that the text and the page describe without `--all`.
pub(crate) const FAMILIES_SHOWN: usize = 20;

impl DatabaseFlags {
    /// The form of keys: the flags' choice, or text for a database that is not encrypted.
    fn key_form(&self, host: &Host) -> KeyForm {
        match self.keys {
            Some(form) => form,
            None if self.hex => KeyForm::Hex,
            None if host.is_encrypted() => KeyForm::None,
            None => KeyForm::Text,
        }
    }

    /// The places of the database's files.
    pub(crate) fn sources<'a>(&'a self, host: &'a Host) -> Sources<'a> {
        Sources {
            host,
            dir: &self.dir,
            wal_dir: self.wal_dir.as_deref(),
            paths: &self.paths,
            keys: self.key_form(host),
        }
    }
}

impl DatabaseInfoOptions {
    /// Whether the command writes no file.
    pub(crate) fn only_reads(&self) -> bool {
        self.html.is_none()
    }
}

pub(crate) fn run(options: &DatabaseInfoOptions, host: &Host) -> CommandOutcome {
    let info = gather::gather(&options.database.sources(host))?;
    let shown = if options.all { usize::MAX } else { FAMILIES_SHOWN };
    if let Some(path) = &options.html {
        let title = format!("{}: what it holds", info.directory);
        let body = page::fragment(&info, shown);
        return Ok(write_file(host, path, html::page(&title, &body).as_bytes())?);
    }
    let text = if options.json {
        serde_json::to_string(&info).expect("the model has text keys only") + "\n"
    } else {
        text::text(&info, usize::from(options.width.unwrap_or_else(terminal_width)), shown)
    };
    Ok(host.output().write_all(text.as_bytes())?)
}

/// The columns of the terminal at standard output, or 80.
fn terminal_width() -> u16 {
    const DEFAULT: u16 = 80;
    const MOST: u16 = 160;
    let size = console::Term::stdout().size_checked();
    size.map_or(DEFAULT, |(_, columns)| columns.clamp(60, MOST))
}
