//! Encrypts directories, decrypts them, or gives their files a new master key.
//!
//! In: directories. Only a change of the master key may run while an engine has them open. Out: the
//! same content. After a kill at any point, the directories can still be opened with the keys of
//! the file system.
//!
//! Encryption and decryption replace one file after the other. Meanwhile the directory has a marker
//! file. If it is there, readers with the key accept both kinds of files. The MANIFEST is encrypted
//! first and decrypted last, so an open without the key fails at the MANIFEST.
//!
//! A header has two slots, and each holds the file's key under a master key. A change of the master
//! key goes through all files twice. Each round rewrites one slot of each header. The old key opens
//! the existing files until the first round ends, and the new key opens all files from then on. New
//! files of an engine have only the new key.

use crate::CONVERSION_MARKER;
use crate::file_key::{Front, read_header, unwrap_slot, wrap};
use crate::fs::EncryptedFs;
use crate::keys::{MasterKey, MasterKeyId};
use crate::policy::Class;
use esker_base::{Error, ErrorKind, Result};
use esker_env::{FileSystem, SequentialFile, WritableFile};
use esker_format::encryption::{HeaderSlot, PAGE_BYTES, SLOT_PLACES, decode_header};
use esker_format::file_name;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The name of a file's new copy, until the copy replaces the file.
const TEMPORARY: &str = "ENCRYPTION-CONVERSION.tmp";
const COPY_BYTES: usize = 1 << 20;

/// Counts of the files of a conversion.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ConversionReport {
    /// Files that were changed.
    pub changed: u64,
    /// Files that needed no change.
    pub kept: u64,
    /// Changed files that had further hard links. After an encryption or decryption, those links
    /// still lead to the unchanged file. A change of the master key changes the file for all links.
    /// The number is 0 if the underlying file system does not count links.
    pub linked: u64,
}

/// Encrypts the files of databases in these directories, and in the directory `archive` below each.
/// Leaves files with unknown names unchanged. The old bytes stay on the device until it uses their
/// place again.
/// # Errors
/// `IoError` · `Corruption`. After an error, the directories can still be opened with the keys of
/// `fs`. A second call continues the work.
pub fn encrypt_directories(fs: &EncryptedFs, dirs: &[&Path]) -> Result<ConversionReport> {
    convert(fs, dirs, true)
}

/// Decrypts the files that [`encrypt_directories`] encrypts.
/// # Errors
/// The errors of [`encrypt_directories`].
pub fn decrypt_directories(fs: &EncryptedFs, dirs: &[&Path]) -> Result<ConversionReport> {
    convert(fs, dirs, false)
}

/// Gives all encrypted files in and below these directories a new master key: the first key of
/// `fs`'s provider. Writes and syncs the two 96-byte slots of each file's header, one after the
/// other, and nothing else. An engine may have the directories open with `fs`. Its new files have
/// the new key already ([`EncryptedFs::reload_keys`]). Files that it deletes meanwhile do not
/// count. A file that is moved in from elsewhere meanwhile, as by an ingestion, may keep its key.
/// So may a file that a writer with direct I/O has open, if the device's blocks are larger than
/// 4 KiB.
/// # Errors
/// `IoError` · `Corruption` · `InvalidArgument` if the provider lacks a file's master key. A second
/// call continues the work. `NotSupported` if the underlying file system cannot overwrite files.
pub fn rekey_directories(fs: &EncryptedFs, dirs: &[&Path]) -> Result<ConversionReport> {
    let master = fs.keys().current();
    let mut report = ConversionReport::default();
    for round in [Round::First, Round::Second] {
        let mut seen = BTreeSet::new();
        // An engine may rename a file before its turn. So the loop lists the files again until no
        // listed file is gone.
        let mut has_missed = true;
        while has_missed {
            has_missed = false;
            let mut files = Vec::new();
            for dir in dirs {
                files_below(fs.inner(), dir, &mut files)?;
            }
            files.retain(|path| seen.insert(path.clone()));
            for path in &files {
                let is_changed = rewrite_header(fs, path, round, &master);
                match is_changed.and_then(|is_changed| Ok((is_changed, is_linked(fs, path)?))) {
                    Ok((is_changed, is_linked)) if round == Round::Second => {
                        report.count(is_changed, is_linked);
                    }
                    Ok(_) => {}
                    Err(error) if fs.inner().file_exists(path)? => return Err(error),
                    Err(_) => has_missed = true,
                }
            }
        }
    }
    Ok(report)
}

impl ConversionReport {
    fn count(&mut self, is_changed: bool, is_linked: bool) {
        if is_changed {
            self.changed += 1;
            self.linked += u64::from(is_linked);
        } else {
            self.kept += 1;
        }
    }
}

/// Whether the file has further hard links. `false` if the file system does not count links.
fn is_linked(fs: &EncryptedFs, path: &Path) -> Result<bool> {
    match fs.inner().link_count(path) {
        Ok(links) => Ok(links > 1),
        Err(e) if e.kind() == ErrorKind::NotSupported => Ok(false),
        Err(e) => Err(e),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Round {
    /// One slot of each header gets the new master key. The other slot keeps the old one.
    First,
    /// Both slots get the new master key.
    Second,
}

/// Writes slots of an encrypted file's header again, if the round requires it.
///
/// Writes and syncs one slot at a time, and no other bytes. The slot that opens the file stays as
/// it is until the other slot has the new key. So a crash that destroys a write leaves a good slot.
fn rewrite_header(fs: &EncryptedFs, path: &Path, round: Round, master: &MasterKey) -> Result<bool> {
    let mut header = [0; PAGE_BYTES];
    let read = fs.inner().new_random_access_file(path)?.read_at(0, &mut header)?;
    let Front::Key(key, kind) = read_header(&header[..read], fs.keys(), path)? else { return Ok(false) };
    if read < PAGE_BYTES {
        return Ok(false);
    }
    let slots = decode_header(&header).map_err(|e| e.at(path.display()))?;
    let opens_under = |slot: &Option<HeaderSlot>, master: &MasterKey| {
        slot.as_ref().is_some_and(|slot| unwrap_slot(master, slot) == Some(key))
    };
    let is_new = slots.each_ref().map(|slot| opens_under(slot, master));
    let opens = slots.each_ref().map(|slot| {
        let named = slot.as_ref().and_then(|slot| fs.keys().find(MasterKeyId(slot.key_id)));
        named.is_some_and(|named| opens_under(slot, &named))
    });
    let [first, second] = SLOT_PLACES;
    let changed: &[usize] = match (round, is_new) {
        (_, [true, true]) | (Round::First, [true, _] | [_, true]) => return Ok(false),
        (Round::Second, [true, false]) => &[second],
        (Round::Second, [false, true]) => &[first],
        // The slot that does not open the file is replaced first.
        (Round::First, _) if !opens[0] => &[first],
        (Round::First, _) => &[second],
        (Round::Second, _) if !opens[0] => &[first, second],
        (Round::Second, _) => &[second, first],
    };
    let slot = wrap(master, kind, &key)?.encode();
    for &place in changed {
        let mut file = fs.inner().overwrite_file(path, place as u64)?;
        file.append(&slot)?;
        file.fsync()?;
        file.close()?;
    }
    Ok(true)
}

/// Appends all files in and below `dir` to `files`, whatever their names.
fn files_below(fs: &dyn FileSystem, dir: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for name in fs.children(dir)? {
        let path = dir.join(&name);
        // The call succeeds only for a directory.
        match fs.children(&path) {
            Ok(_) => files_below(fs, &path, files)?,
            Err(_) => files.push(path),
        }
    }
    files.sort();
    Ok(())
}

fn convert(fs: &EncryptedFs, dirs: &[&Path], encrypts: bool) -> Result<ConversionReport> {
    let inner = fs.inner();
    let mut all: Vec<PathBuf> = Vec::new();
    for dir in dirs {
        all.push(dir.to_path_buf());
        let archive = dir.join("archive");
        if inner.children(&archive).is_ok() {
            all.push(archive);
        }
    }
    let mut files = Vec::new();
    for dir in &all {
        let names = inner.children(dir)?;
        files.extend(names.iter().filter(|name| is_converted(name)).map(|name| dir.join(name)));
    }
    let is_manifest = |path: &PathBuf| path.to_string_lossy().contains("/MANIFEST-");
    files.sort_by_key(|path| (is_manifest(path) != encrypts, path.clone()));
    all.iter().try_for_each(|dir| mark(fs, dir))?;
    let mut report = ConversionReport::default();
    for path in &files {
        // The copy that replaces the file has one link.
        let is_linked = is_linked(fs, path)?;
        let is_changed = convert_file(fs, path, encrypts)?;
        report.count(is_changed, is_linked);
    }
    // All new names are durable before the first marker is deleted.
    all.iter().try_for_each(|dir| inner.new_directory(dir)?.fsync())?;
    for dir in &all {
        inner.delete_file(&dir.join(CONVERSION_MARKER))?;
        inner.new_directory(dir)?.fsync()?;
    }
    Ok(report)
}

/// Whether a file of this name belongs to a database and may be encrypted.
fn is_converted(name: &str) -> bool {
    file_name::parse_file_name(name).is_some() && !matches!(name, "CURRENT" | "IDENTITY" | "LOCK")
}

/// Writes the marker of a conversion.
fn mark(fs: &EncryptedFs, dir: &Path) -> Result<()> {
    let inner = fs.inner();
    let (marker, temporary) = (dir.join(CONVERSION_MARKER), dir.join(TEMPORARY));
    esker_env::replace_file(inner, &temporary, &marker, &fs.keys().mark(), true)?;
    inner.new_directory(dir)?.fsync()
}

/// Replaces a file by its encrypted or decrypted copy. Does nothing if the file has the wanted
/// form.
fn convert_file(fs: &EncryptedFs, path: &Path, encrypts: bool) -> Result<bool> {
    let inner = fs.inner();
    let is_wanted = match inner.file_size(path)? {
        0 => true,
        _ if encrypts => fs.class(path) == Class::Clear || fs.is_encrypted(path)?,
        _ => !fs.is_encrypted(path)?,
    };
    if is_wanted {
        return Ok(false);
    }
    let temporary = path.with_file_name(TEMPORARY);
    let raw = inner.new_writable_file(&temporary)?;
    let target = if encrypts { fs.new_file_as(&temporary, path, raw)? } else { raw };
    copy(fs.new_sequential_file(path)?, target)?;
    let (before, after) = (
        fs.file_size(path)?,
        if encrypts { fs.file_size(&temporary)? } else { inner.file_size(&temporary)? },
    );
    if before != after {
        let what = format!("{}: copied {after} bytes of {before}", path.display());
        return Err(Error::corruption(what));
    }
    inner.rename(&temporary, path)?;
    Ok(true)
}

fn copy(mut source: Box<dyn SequentialFile>, mut target: Box<dyn WritableFile>) -> Result<()> {
    let mut buffer = vec![0; COPY_BYTES];
    loop {
        match source.read(&mut buffer)? {
            0 => break,
            n => target.append(&buffer[..n])?,
        }
    }
    target.fsync()?;
    target.close()
}
