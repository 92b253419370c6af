//! Stands in for the mapped end of a log (`posix/mapped.rs`) on systems where Esker maps no log.
//!
//! In: the same calls. Out: no mapping, so that every append is a `write`.

use esker_base::Result;
use rustix::fd::OwnedFd;
use std::path::Path;

pub(super) use NoMappedEnd as MappedEnd;

/// No value of this type exists.
pub(super) enum NoMappedEnd {}

impl NoMappedEnd {
    /// Refuses the mapping.
    pub(super) fn new(_fd: &OwnedFd, _block: u64, _end: u64, _reserved: u64) -> Option<MappedEnd> {
        None
    }

    pub(super) fn store(&mut self, _at: u64, _data: &[u8]) -> usize {
        match *self {}
    }

    pub(super) fn is_full(&self, _size: u64) -> bool {
        match *self {}
    }

    pub(super) fn reserved_up_to(&mut self, _reserved: u64) {
        match *self {}
    }

    pub(super) fn grow(&mut self, _fd: &OwnedFd, _path: &Path, _size: u64) -> Result<()> {
        match *self {}
    }
}
