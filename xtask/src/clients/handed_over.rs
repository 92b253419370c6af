//! Databases that a suite left behind, read by two libraries.
//!
//! In: the directory in which the suite's databases lie. Out: their number, and an error if Esker
//! and RocksDB read different families, keys or values. The library that did not write them reads
//! last, and opens them for writing.

use super::{Behind, Clients, checked};
use crate::clients::packages;
use crate::commands::{Outcome, target_dir};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Parts of the paths of databases whose keys have timestamps, separated by commas.
const STAMPED: &str = "WithTS,_with_ts,user_defined_timestamp";

/// Compares the digests of all databases below `kept`.
pub(super) fn check(clients: &Clients, suite: &str, kept: &Path) -> Outcome {
    let sys = packages::PACKAGES.iter().find(|package| package.name == suite).map_or("0.19.0", |p| p.sys);
    let esker = clients.esker.join("lib/librocksdb.so.11");
    let rocksdb = clients.rocksdb(sys)?.join("lib/librocksdb.so");
    let (writer, reader) = match clients.behind {
        Behind::Esker => (&esker, &rocksdb),
        Behind::RocksDb => (&rocksdb, &esker),
    };
    // `--workspace`: the tests have built it already with the features of the whole workspace.
    let build = ["build", "--quiet", "--workspace", "--bin", "esker-digest"];
    checked(Command::new("cargo").args(build).current_dir(&clients.root))?;
    let written = digests(clients, writer, "read", kept)?;
    let read = digests(clients, reader, "write", kept)?;
    let (mut numbers, mut refused, mut differences) = ([0, 0, 0], 0, Vec::new());
    for (path, [was, is]) in joined(&written, &read) {
        let counts = was.split('\t').map(str::parse::<u64>);
        let needs_operator = [was, is].iter().any(|line| line.contains("merge operands were written by"));
        match (was.starts_with("refused"), is.starts_with("refused")) {
            (true, true) => refused += 1,
            // Esker refuses other operators than the writer's.
            _ if needs_operator => refused += 1,
            (false, false) if was == is => {
                let counts = counts.take(2).filter_map(Result::ok);
                numbers.iter_mut().zip([1].into_iter().chain(counts)).for_each(|(sum, n)| *sum += n);
            }
            _ => differences.push(format!("{path}\n  its writer   {was}\n  the other    {is}")),
        }
    }
    let [databases, families, keys] = numbers;
    println!(
        "{suite}: handed over {databases} databases, {families} families, {keys} keys; \
         {refused} need the suite's own merge operators, or are parts of backups"
    );
    if databases == 0 {
        return Err(format!("{suite}: it left no database"));
    }
    if !differences.is_empty() {
        return Err(format!("{suite}: {} read differently\n{}", differences.len(), differences.join("\n")));
    }
    Ok(())
}

/// The digest of each database, as `library` reads it.
fn digests(clients: &Clients, library: &Path, access: &str, kept: &Path) -> Result<String, String> {
    let program = target_dir(&clients.root).join("debug/esker-digest");
    let output = checked(Command::new(program).arg(library).arg(access).arg(kept).arg(STAMPED))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The lines of `written` and `read`, by database.
fn joined<'a>(written: &'a str, read: &'a str) -> BTreeMap<&'a str, [&'a str; 2]> {
    let mut joined: BTreeMap<&str, [&str; 2]> = BTreeMap::new();
    for (at, text) in [written, read].into_iter().enumerate() {
        for (path, line) in text.lines().filter_map(|line| line.split_once('\t')) {
            joined.entry(path).or_insert(["missing"; 2])[at] = line;
        }
    }
    joined
}
