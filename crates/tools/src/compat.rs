//! `esker compat DIR`: the oldest RocksDB version that can open this directory, and the features
//! that need this version.
//!
//! In: the directory of a closed database. Out: the oldest release, the features with the release
//! that each needs, and notes; with `--json`, all of these as one object. Exit code 1 if the
//! directory cannot be read. The command reads every entry of every table, and writes no file.

use crate::failure::CommandOutcome;
use crate::host::Host;
use crate::progress::LongCommand;
use clap::Args;
use esker::compat::{CompatReport, inspect_with_paths};
use esker::options::TargetVersion;
use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct CompatOptions {
    /// The database's directory
    dir: PathBuf,
    /// Directory of the WALs; default: the directory in the OPTIONS file, else DIR
    #[arg(long)]
    wal_dir: Option<PathBuf>,
    /// Directory of db_paths or cf_paths; may be repeated
    #[arg(long = "path")]
    paths: Vec<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl CompatOptions {
    /// The files for the progress of the command.
    pub(crate) fn long_command(&self) -> Option<LongCommand> {
        let sources = [&self.dir].into_iter().chain(&self.wal_dir).chain(&self.paths);
        Some(LongCommand::over("inspecting", sources))
    }
}

pub(crate) fn run(options: &CompatOptions, host: &Host) -> CommandOutcome {
    let wal_dir = options.wal_dir.clone().or_else(|| host.wal_dir_of(&options.dir));
    let wal_dir = wal_dir.as_ref().unwrap_or(&options.dir);
    let report = inspect_with_paths(host.fs(), &options.dir, wal_dir, &options.paths)?;
    let text = if options.json { json(&report) } else { human(&report) };
    Ok(host.output().write_all(text.as_bytes())?)
}

/// The next older release to which the database can be downgraded, if there is one.
fn older_target(report: &CompatReport) -> Option<TargetVersion> {
    (!report.is_read_by(TargetVersion::V7_8)).then_some(TargetVersion::V7_8)
}

fn human(report: &CompatReport) -> String {
    let mut out = String::new();
    let mut line =
        |text: std::fmt::Arguments<'_>| writeln!(out, "{text}").expect("a write to a string cannot fail");
    match report.needs.first() {
        None => line(format_args!("RocksDB {} and later open it", report.oldest())),
        Some(_) => line(format_args!("RocksDB {} and later open it; it needs", report.oldest())),
    }
    for need in &report.needs {
        let more = match need.files {
            1 => String::new(),
            files => format!(" and {} more", files - 1),
        };
        line(format_args!("  {}: {} ({}{more})", need.feature.since(), need.feature.name(), need.file));
    }
    for note in &report.notes {
        line(format_args!("note: {note}"));
    }
    if let Some(target) = older_target(report) {
        line(format_args!("esker ldb downgrade --to {} --db=DIR makes it readable by that", target.name()));
    }
    line(format_args!("{} tables and {} WALs were looked into", report.tables, report.wals));
    out
}

fn json(report: &CompatReport) -> String {
    let needs: Vec<String> = report
        .needs
        .iter()
        .map(|need| {
            format!(
                "{{\"feature\":{},\"since\":\"{}\",\"file\":{},\"files\":{}}}",
                quoted(need.feature.name()),
                need.feature.since(),
                quoted(&need.file),
                need.files
            )
        })
        .collect();
    let notes: Vec<String> = report.notes.iter().map(|note| quoted(note)).collect();
    let targets: Vec<String> =
        TargetVersion::ALL.into_iter().filter(|t| report.is_read_by(*t)).map(|t| quoted(t.name())).collect();
    format!(
        "{{\"oldest\":\"{}\",\"tools\":\"{}\",\"compatible_with\":[{}],\"needs\":[{}],\"notes\":[{}],\"tables\":{},\"wals\":{}}}\n",
        report.oldest(),
        report.tools,
        targets.join(","),
        needs.join(","),
        notes.join(","),
        report.tables,
        report.wals
    )
}

/// `text` as a JSON string.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => write!(out, "\\u{:04x}", u32::from(c)).expect("a write to a string cannot fail"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_strings_are_escaped() {
        assert_eq!(quoted("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000a\"");
    }
}
