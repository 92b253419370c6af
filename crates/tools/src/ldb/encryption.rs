//! Commands that change the keys of directories.

use super::{Common, Out};
use crate::failure::{CommandOutcome, Failure};
use crate::host::Host;
use esker::Result;
use esker::encryption::{
    ConversionReport, EncryptedFs, decrypt_directories, encrypt_directories, rekey_directories,
};
use esker::internals::env::FileSystem;
use esker::internals::format::file_name;
use std::io::Write;
use std::path::{Path, PathBuf};

pub(super) fn encrypt(common: &Common, more: &[PathBuf], host: &Host, out: &mut Out) -> CommandOutcome {
    let report = convert(common, more, host, encrypt_directories)?;
    print_report(&report, "encrypted", "Their other links are not encrypted", out)
}

pub(super) fn decrypt(common: &Common, more: &[PathBuf], host: &Host, out: &mut Out) -> CommandOutcome {
    let report = convert(common, more, host, decrypt_directories)?;
    print_report(&report, "decrypted", "Their other links are still encrypted", out)
}

pub(super) fn rekey(common: &Common, more: &[PathBuf], host: &Host, out: &mut Out) -> CommandOutcome {
    let report = convert(common, more, host, rekey_directories)?;
    print_report(&report, "under the first key now", "Their other links need that key too", out)
}

type Conversion = fn(&EncryptedFs, &[&Path]) -> Result<ConversionReport>;

/// Converts the directories of the command line while it holds the locks of their databases.
fn convert(
    common: &Common,
    more: &[PathBuf],
    host: &Host,
    convert: Conversion,
) -> Result<ConversionReport, Failure> {
    let directories: Vec<&Path> = common.db.iter().chain(more).map(PathBuf::as_path).collect();
    if directories.is_empty() {
        return Err(Failure::new("Name a directory, or a database with --db"));
    }
    let fs = host
        .encrypted()
        .ok_or_else(|| Failure::new("Give the keys with --encryption_key_file or --encryption_key_env"))?;
    let mut locks = Vec::new();
    for dir in &directories {
        fs.children(dir)?;
        let lock = file_name::lock_file_name(dir);
        if fs.file_exists(&lock)? || fs.file_exists(&file_name::current_file_name(dir))? {
            locks.push(fs.lock_file(&lock)?);
        }
    }
    let report = convert(fs, &directories)?;
    drop(locks);
    Ok(report)
}

fn print_report(report: &ConversionReport, done: &str, about_links: &str, out: &mut Out) -> CommandOutcome {
    writeln!(out, "{} files {done}, {} as they were", report.changed, report.kept)?;
    if report.linked > 0 {
        writeln!(out, "{} of them have other hard links. {about_links}.", report.linked)?;
    }
    Ok(())
}
