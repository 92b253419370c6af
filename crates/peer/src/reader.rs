//! A process that prints the contents of directories with RocksDB.
//!
//! Campaigns use it as a second reader, so they need no RocksDB in their own process.
//!
//! In: lines on standard input. Each has a directory, and the name and options of each family that
//! may exist there, separated by tabs. Out: for each family of the directory a line `family NAME`,
//! and then a line for each pair, in hex. A line with a dot ends the answer. After an error, one
//! line `refused WHY` is the answer. RocksDB opens the directory for reading only, so nothing there
//! changes.

use crate::contents::hex;
use crate::{FamilySpec, RocksDb};
use std::fmt::Write as _;
use std::io::{BufRead, Write};
use std::path::Path;

/// Answers until standard input ends.
/// # Errors
/// Standard input or output are broken.
pub fn serve() -> std::io::Result<()> {
    for line in std::io::stdin().lock().lines() {
        let text = answer(&line?).unwrap_or_else(|why| format!("refused {}", why.escape_default()));
        let mut out = std::io::stdout().lock();
        writeln!(out, "{text}")?;
        out.flush()?;
    }
    Ok(())
}

/// Answers one line.
/// # Errors
/// RocksDB's error, or a description of the mistake in the line.
fn answer(question: &str) -> Result<String, String> {
    let mut parts = question.split('\t');
    let dir = Path::new(parts.next().unwrap_or_default());
    let known: Vec<(&str, &str)> = parts.map(|part| part.split_once(' ').unwrap_or((part, ""))).collect();
    let options = |name: &str| known.iter().find(|(n, _)| n == &name).map_or("", |(_, options)| options);
    let names = RocksDb::list_column_families(dir)?;
    let families: Vec<FamilySpec> =
        names.iter().map(|name| FamilySpec::new(name.clone(), options(name))).collect();
    let db = RocksDb::open_for_read_only(dir, "", &families)?;
    let mut text = String::new();
    for name in &names {
        writeln!(text, "family {name}").map_err(|e| e.to_string())?;
        for (key, value) in db.contents(name, None)?.0 {
            writeln!(text, "{} {}", hex(&key), hex(&value)).map_err(|e| e.to_string())?;
        }
    }
    Ok(text + ".")
}
