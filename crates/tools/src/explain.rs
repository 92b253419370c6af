//! `esker explain DIR get KEY`: shows the steps of a read and the time of each step.
//!
//! In: a database directory and a read. Out: every memtable, file, filter, index and block that the
//! read touches, with bytes and time; every entry, operand and range tombstone that the read meets.
//! With `--json` the output is one object. The command opens the database for reading only.

use crate::failure::{CommandOutcome, Failure};
use crate::host::Host;
use crate::ldb::open_as_it_is;
use crate::text::parse_hex;
use clap::{Args, Subcommand};
use esker::{ColumnFamilyHandle, Db, ExplainScan, Explanation, MultiScanArgs, ReadOptions};
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct ExplainOptions {
    /// Directory of the database
    dir: PathBuf,
    /// The column family
    #[arg(long, alias = "column_family", global = true, default_value = "default")]
    column_family: String,
    /// Keys are given as hexadecimal digits, 0x…
    #[arg(long, global = true)]
    hex: bool,
    /// Print one JSON object
    #[arg(long, global = true)]
    json: bool,
    /// Explain a second read, with caches that the first read has filled
    #[arg(long, global = true)]
    warm: bool,
    #[command(subcommand)]
    read: Read,
}

#[derive(Subcommand)]
enum Read {
    /// Read one key
    Get { key: String },
    /// Read several keys at one sequence number
    #[command(name = "multiget")]
    MultiGet {
        #[arg(required = true)]
        keys: Vec<String>,
    },
    /// Seek to the first key at or after KEY
    Seek { key: String },
    /// Scan several ranges as one multi-scan: START LIMIT, START LIMIT, … in key order
    #[command(name = "multiscan")]
    MultiScan {
        #[arg(required = true, num_args = 2..)]
        bounds: Vec<String>,
        /// Go from the end of each range to its start
        #[arg(long)]
        reverse: bool,
        /// Largest number of bytes to read ahead at once; 0 for the default
        #[arg(long, default_value_t = 0)]
        max_prefetch_size: u64,
    },
    /// Scan rows in key order
    Scan {
        /// Key to start at; default: the first key, or the last one with --reverse
        #[arg(long)]
        from: Option<String>,
        /// Scan only keys before this one
        #[arg(long)]
        to: Option<String>,
        /// Largest number of rows to scan
        #[arg(long, default_value_t = 1000)]
        rows: u64,
        /// Go from the end to the start
        #[arg(long)]
        reverse: bool,
    },
}

pub(crate) fn run(options: &ExplainOptions, host: &Host) -> CommandOutcome {
    let db = open_as_it_is(&options.dir, host)?;
    let name = &options.column_family;
    let family = db
        .column_family(name)
        .ok_or_else(|| Failure::new(format_args!("there is no column family '{name}'")))?;
    let mut report = explain(options, &db, &family)?;
    if options.warm {
        report = explain(options, &db, &family)?;
    }
    let text = if options.json { report.to_json() + "\n" } else { report.to_string() };
    host.output().write_all(text.as_bytes())?;
    report.error().map_or(Ok(()), |error| Err(Failure::new(error)))
}

fn explain(options: &ExplainOptions, db: &Db, family: &ColumnFamilyHandle) -> CommandOutcome<Explanation> {
    let key = |text: &String| match options.hex {
        true => parse_hex(text, "key"),
        false => Ok(text.clone().into_bytes()),
    };
    let mut read = ReadOptions::default();
    Ok(match &options.read {
        Read::Get { key: text } => db.explain_get(&read, family, key(text)?)?,
        Read::MultiGet { keys } => {
            let keys = keys.iter().map(key).collect::<CommandOutcome<Vec<_>>>()?;
            db.explain_multi_get(&read, family, &keys)?
        }
        Read::Seek { key: text } => db.explain_seek(&read, family, key(text)?)?,
        Read::MultiScan { bounds, reverse, max_prefetch_size } => {
            let (reverse, max_prefetch_size) = (*reverse, *max_prefetch_size);
            let mut args = MultiScanArgs { reverse, max_prefetch_size, ..MultiScanArgs::default() };
            for range in bounds.chunks(2) {
                let [start, limit] = range else {
                    return Err(Failure::new("a range is a START and a LIMIT"));
                };
                args.insert(key(start)?, key(limit)?);
            }
            db.explain_multi_scan(&read, family, &args)?
        }
        Read::Scan { from, to, rows, reverse } => {
            read.iterate_upper_bound = to.as_ref().map(key).transpose()?;
            let from = from.as_ref().map(key).transpose()?;
            db.explain_scan(&read, family, &ExplainScan { from, rows: *rows, reverse: *reverse })?
        }
    })
}
