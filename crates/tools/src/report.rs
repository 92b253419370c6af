//! `esker report DIR`: one HTML page about a database and its past.
//!
//! In: a directory of Esker or RocksDB with its files LOG and LOG.old.*. Out: a page that needs no
//! other file: `esker info` on top, then levels over time, flushes and compactions with reasons,
//! stalls with causes, and caches as far as the statistics dumps of the LOG tell them.
//!
//! If the database itself cannot be read, the page says why, and shows the LOG.
//!
//! Cost: that of `esker info`, and one pass over the LOG files. Memory is bounded: the page keeps
//! sums, the longest jobs, and series of some hundred points.
//!
//! Invariants
//!  1. The command opens files for reading only, takes no lock, and writes `--out` only.
//!  2. No content of a LOG makes it panic, load a resource or run a script in the page.
//!  3. Keys are printed as by `esker info`. Failures in the LOG of an encrypted database, which may
//!     name keys, are left out.

mod charts;
mod history;
mod lines;
mod page;
mod series;

use crate::failure::CommandOutcome;
use crate::host::{FileLines, Host, write_file};
use crate::html::{self, escape};
use crate::info::{DatabaseFlags, FAMILIES_SHOWN, KeyForm, gather, page as info_page};
use clap::Args;
use esker::internals::format::file_name::{FileType, parse_file_name};
use history::LogHistory;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(crate) struct HtmlReportOptions {
    #[command(flatten)]
    database: DatabaseFlags,
    /// Write the page to this file; default: standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Read these LOG files, oldest first, in place of those in DIR
    #[arg(long = "log", value_name = "FILE")]
    logs: Vec<PathBuf>,
}

impl HtmlReportOptions {
    /// Whether the command writes no file.
    pub(crate) fn only_reads(&self) -> bool {
        self.out.is_none()
    }
}

pub(crate) fn run(options: &HtmlReportOptions, host: &Host) -> CommandOutcome {
    let info = gather::gather(&options.database.sources(host));
    let dir = &options.database.dir;
    let logs = match options.logs.is_empty() {
        true => logs_in(host, dir).unwrap_or_default(),
        false => options.logs.clone(),
    };
    let mut body = match info {
        Ok(info) => info_page::fragment(&info, FAMILIES_SHOWN),
        Err(failure) if logs.is_empty() => return Err(failure),
        Err(failure) => {
            let (dir, why) = (dir.display().to_string(), failure.to_string());
            format!(
                "<h1>{}</h1><section><ul class=\"bad\"><li>{}</li></ul></section>",
                escape(&dir),
                escape(&why)
            )
        }
    };
    let (mut history, mut read) = (LogHistory::default(), Vec::new());
    for path in &logs {
        let bytes = add_log(host, path, &mut history)?;
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        read.push((name, bytes));
    }
    history.finish();
    history.keep_longest_jobs();
    if host.is_encrypted() && options.database.keys.is_none_or(|keys| keys == KeyForm::None) {
        history.failures.clear();
    }
    body.push_str(&page::fragment(&history, &read));
    let page = html::page(&format!("{}: report", dir.display()), &body);
    match &options.out {
        Some(path) => Ok(write_file(host, path, page.as_bytes())?),
        None => Ok(host.output().write_all(page.as_bytes())?),
    }
}

/// The LOG files in a directory, oldest first.
fn logs_in(host: &Host, dir: &Path) -> CommandOutcome<Vec<PathBuf>> {
    let mut found = Vec::new();
    for name in host.fs().children(dir)? {
        if let Some((FileType::InfoLog, number)) = parse_file_name(&name) {
            // The present file has no number, and is the newest.
            let age = if name == "LOG" { u64::MAX } else { number.0 };
            found.push((age, dir.join(name)));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// Adds the lines of a file. Returns its size.
/// # Errors
/// The file cannot be opened or read, or is no regular file.
fn add_log(host: &Host, path: &Path, history: &mut LogHistory) -> CommandOutcome<u64> {
    host.check_regular(path)?;
    let bytes = host.fs().file_size(path)?;
    let mut lines = FileLines::open(host.fs(), path)?;
    lines.limit(lines::LINE_BYTES);
    while let Some((_, line)) = lines.next_line()? {
        history.add(&line);
    }
    Ok(bytes)
}
