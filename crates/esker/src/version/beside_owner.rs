//! Reads a directory while its owner, another process, may be changing it.
//!
//! In: an attempt to read it. Out: the result, or the error, of an attempt during which no needed
//! file was deleted.
//!
//! The owner logs an edit before it deletes the files that the edit drops. It renames CURRENT
//! before it deletes the MANIFEST that CURRENT named (`docs/format/manifest.md`). So after an
//! attempt that misses a file, the next one finds another MANIFEST or a longer one. If it does not,
//! the file is really missing.

use super::manifest::{ManifestReader, read_current};
use super::{VersionSet, VersionSetOptions};
use esker_base::{Error, ErrorKind, FileNumber, Result, SubCode};
use esker_env::{Clock, FileSystem};
use esker_format::file_name::descriptor_file_name;
use std::path::Path;
use std::time::Duration;

/// Number of attempts that an owner's changes may disturb before a reader returns an error.
const MOST_ATTEMPTS: usize = 200;
/// Pauses for a write in progress, in milliseconds.
const PAUSES: [u64; 4] = [1, 9, 40, 200];

/// The progress of an owner: its MANIFEST and the bytes in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OwnersProgress {
    manifest: FileNumber,
    bytes: u64,
}

impl OwnersProgress {
    /// The owner's present progress; `None` if the directory has no database, or its MANIFEST is
    /// being replaced.
    pub(crate) fn now(fs: &dyn FileSystem, dir: &Path) -> Option<OwnersProgress> {
        let manifest = read_current(fs, dir).ok()?;
        let bytes = fs.file_size(&descriptor_file_name(dir, manifest)).ok()?;
        Some(OwnersProgress { manifest, bytes })
    }

    /// The present progress for a set that only reads; `None` for the owner's own.
    pub(super) fn of_reader(options: &VersionSetOptions) -> Option<OwnersProgress> {
        if options.read_only { OwnersProgress::now(options.fs.as_ref(), &options.dir) } else { None }
    }
}

impl VersionSet {
    /// Whether the set is read-only, and the MANIFEST is still as it was when the set was read.
    pub fn is_as_it_was_read(&self) -> bool {
        self.read_at.is_some() && OwnersProgress::of_reader(self.options()) == self.read_at
    }
}

/// The MANIFEST that CURRENT names, and its number. `follows`: see [`ManifestReader::open`].
/// # Errors
/// Errors of [`read_current`] and [`ManifestReader::open`], if CURRENT still names the same
/// MANIFEST.
pub(crate) fn open_current_manifest(
    fs: &dyn FileSystem,
    dir: &Path,
    follows: bool,
) -> Result<(FileNumber, ManifestReader)> {
    let mut number = read_current(fs, dir)?;
    loop {
        let failed = match ManifestReader::open(fs, dir, number, follows) {
            Ok(reader) => return Ok((number, reader)),
            Err(e) => e,
        };
        let now = read_current(fs, dir)?;
        if now == number {
            return Err(failed);
        }
        number = now;
    }
}

/// Repeats an attempt until it succeeds, or fails for a reason that the owner has not caused: with
/// another kind of error, or twice with the same error while the owner did nothing. A retryable
/// error may come from a write in progress: the function waits for it, a quarter of a second in
/// total.
/// # Errors
/// The last attempt's error · `TryAgain` if the owner is too fast.
pub fn read_beside_owner<T>(
    fs: &dyn FileSystem,
    clock: &dyn Clock,
    dir: &Path,
    mut attempt: impl FnMut() -> Result<T>,
) -> Result<T> {
    let mut last = None;
    let mut pauses = PAUSES.iter();
    for _ in 0..MOST_ATTEMPTS {
        let failed = match attempt() {
            Err(e) if owner_may_have_caused(&e) => e,
            done => return done,
        };
        esker_base::probe!("beside_owner:failed");
        let seen = (failed.to_string(), OwnersProgress::now(fs, dir));
        if last.as_ref() == Some(&seen) {
            match pauses.next().filter(|_| failed.is_retryable()) {
                Some(millis) => clock.sleep(Duration::from_millis(*millis)),
                None => return Err(failed.with_retryable(false)),
            }
        }
        last = Some(seen);
    }
    let why = last.map_or_else(String::new, |(why, _)| why);
    let what =
        format!("the owner changes this database faster than it can be opened for reading; last: {why}");
    Err(Error::try_again(what).at(dir.display()))
}

fn owner_may_have_caused(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::Corruption | ErrorKind::TryAgain | ErrorKind::NotFound => true,
        _ => matches!(error.subcode(), SubCode::PathNotFound | SubCode::StaleFile),
    }
}

/// The error of an attempt that has noticed a change.
pub(crate) fn owner_has_changed(what: &str) -> Error {
    Error::try_again(format!("{what} while it was read"))
}
