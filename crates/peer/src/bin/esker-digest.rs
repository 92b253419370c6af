//! Digests of databases, by any library with RocksDB's C functions: `esker-digest LIBRARY
//! read|write DIRECTORY [STAMPED]`.
//!
//! In: a library, and a directory below which databases lie; `write` opens them for writing. If a
//! part of STAMPED, which commas separate, is part of a database's path, its keys have timestamps
//! of 8 bytes, under a comparator of the writer's.
//! Out: a line for each database, in order of paths: path, families, keys and a digest of all keys
//! and values; or path, `refused` and the reason. Tabulators part the fields. Two libraries that
//! read the same print the same digest.

use esker_peer::{RocksDb, load_library, note};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [library, access, directory, stamped @ ..] = &arguments[..] else {
        note("usage: esker-digest LIBRARY read|write DIRECTORY [STAMPED]");
        return ExitCode::from(2);
    };
    let stamped = stamped.first().map(String::as_str);
    match run(Path::new(library), access == "write", Path::new(directory), stamped) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            note(&why);
            ExitCode::FAILURE
        }
    }
}

fn run(library: &Path, writes: bool, directory: &Path, stamped: Option<&str>) -> Result<(), String> {
    load_library(library)?;
    for path in databases(directory).map_err(|error| format!("{}: {error}", directory.display()))? {
        let name = path.strip_prefix(directory).unwrap_or(&path).display().to_string();
        let are_stamped = stamped.is_some_and(|marks| marks.split(',').any(|mark| name.contains(mark)));
        match digest(&path, writes, are_stamped) {
            Ok((families, keys, digest)) => print(&format!("{name}\t{families}\t{keys}\t{digest:016x}")),
            Err(why) => print(&format!("{name}\trefused\t{}", why.escape_default())),
        }
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the program's answer")]
fn print(line: &str) {
    println!("{line}");
}

/// Directories below `directory` that have a CURRENT file, in order.
fn databases(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut left = vec![directory.to_owned()];
    while let Some(at) = left.pop() {
        if at.join("CURRENT").is_file() {
            found.push(at.clone());
        }
        for entry in fs::read_dir(&at)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                left.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Families, keys, and a digest of both.
/// # Errors
/// The library's, as text.
fn digest(path: &Path, writes: bool, are_stamped: bool) -> Result<(usize, usize, u64), String> {
    let db = RocksDb::open_unknown(path, writes, are_stamped)?;
    let mut names: Vec<&str> = db.family_names().collect();
    names.sort_unstable();
    let (mut keys, mut hasher) = (0, DefaultHasher::new());
    for name in &names {
        let contents = db.contents(name, None).or_else(|why| {
            // Keys with timestamps are read as of the newest.
            db.contents_at(name, &[0xFF; 8]).map_err(|_| format!("'{name}': {why}"))
        })?;
        keys += contents.0.len();
        (name, contents.0).hash(&mut hasher);
    }
    Ok((names.len(), keys, hasher.finish()))
}
