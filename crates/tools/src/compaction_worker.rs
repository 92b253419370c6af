//! `esker compaction_worker`: runs one job of a compaction service, in a process of its own.
//!
//! In: a database's directory, a file with the job's bytes. Out: tables and a LOG in the output
//! directory, and a file with the result's bytes, which appears whole or not at all. Exit code 1 if
//! the job failed: there are no tables and no result then. The command changes nothing in the
//! database's directory.

use crate::failure::{CommandOutcome, Failure};
use crate::host::{Host, read_file};
use clap::Args;
use esker::internals::env::replace_file;
use esker::options::{CompactionServiceOptionsOverride, OpenAndCompactOptions};
use esker::{Db, builtin};
use std::io::Write;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(crate) struct WorkerOptions {
    /// Directory of the database
    #[arg(long)]
    db: PathBuf,
    /// File with the job: the input of the service's `schedule`
    #[arg(long)]
    job: PathBuf,
    /// File for the result: the answer of the service's `wait`
    #[arg(long)]
    result: PathBuf,
    /// Directory for tables; made if it is missing
    #[arg(long)]
    output: PathBuf,
    /// Record progress in the output directory, and go on where an earlier worker of the same job
    /// has ended there
    #[arg(long, alias = "allow_resumption")]
    allow_resumption: bool,
    /// An option that the OPTIONS file has otherwise, as NAME=VALUE; may be repeated
    #[arg(long = "option", value_parser = name_and_value)]
    options: Vec<(String, String)>,
    /// The merge operator: one of RocksDB's stock operators
    #[arg(long, alias = "merge_operator")]
    merge_operator: Option<String>,
}

fn name_and_value(text: &str) -> std::result::Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("an option is NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

pub(crate) fn run(options: &WorkerOptions, host: &Host) -> CommandOutcome {
    let mut overrides = CompactionServiceOptionsOverride { env: host.env(), ..Default::default() };
    overrides.options_map.clone_from(&options.options);
    if let Some(name) = &options.merge_operator {
        let operator = builtin::merge_operator(name);
        overrides.merge_operator =
            Some(operator.ok_or_else(|| Failure::new(format_args!("{name} is no stock merge operator")))?);
    }
    let job = read_file(host.fs(), &options.job)?;
    let how = OpenAndCompactOptions::default().allow_resumption(options.allow_resumption);
    let result = Db::open_and_compact(&how, &options.db, &options.output, &job, &overrides)?;
    replace_file(host.fs(), &temporary(&options.result), &options.result, &result, true)?;
    Ok(writeln!(host.output(), "OK: {}", options.result.display())?)
}

fn temporary(path: &Path) -> PathBuf {
    path.with_extension("dbtmp")
}
