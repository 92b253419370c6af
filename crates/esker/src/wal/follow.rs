//! The WALs of a primary that a secondary follows.
//!
//! In: the numbers of the WALs that exist and are wanted. Out: open readers, each with the position
//! behind its last replayed record, and the state of the replay between two catch-ups.
//!
//! Invariants
//!  1. A position only moves over complete records. An unfinished record is read again later.
//!  2. A WAL has ended once a later one has a record: the primary writes to one WAL at a time. So
//!     the caller asks [`FollowedWals::has_record_behind`] before it reads a WAL to its end.

use super::{TailSource, TwoPhaseReplay};
use esker_base::{FileNumber, Result};
use esker_env::FileSystem;
use esker_format::file_name::wal_file_name;
use esker_format::log::{LogEvent, LogMark, LogReader};
use esker_format::wal_recovery::{WalReplay, WalReplayMode};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;

/// One WAL.
#[derive(Debug)]
pub(crate) struct FollowedWal {
    pub(crate) log: LogReader<TailSource>,
    /// The position behind the last replayed record.
    pub(crate) mark: LogMark,
    /// Whether the replay has begun; `is_done`: whether it has reached the end.
    pub(crate) is_begun: bool,
    pub(crate) is_done: bool,
}

impl FollowedWal {
    /// The next event. [`FollowedWal::take`] moves `mark` behind it.
    /// # Errors
    /// `IoError`.
    pub(crate) fn next_record(&mut self, record: &mut Vec<u8>) -> Result<LogEvent> {
        self.log.next_record(record)
    }

    /// Takes the last event.
    pub(crate) fn take(&mut self) {
        self.mark = self.log.mark();
    }

    /// Returns to `mark`: events that were not taken are read again.
    pub(crate) fn go_back(&mut self) {
        self.log.go_back(&self.mark);
    }

    /// Whether the WAL has a complete record that was not replayed.
    fn has_record(&mut self) -> Result<bool> {
        let mut record = Vec::new();
        let found = loop {
            match self.log.next_record(&mut record) {
                Ok(LogEvent::Record { .. }) => break Ok(true),
                Ok(LogEvent::TimestampSizes | LogEvent::Predecessor(_) | LogEvent::Ignored { .. }) => {}
                Ok(_) => break Ok(false),
                Err(e) => break Err(e),
            }
        };
        self.go_back();
        found
    }
}

/// The wanted WALs of a primary, and the state of their replay.
#[derive(Debug)]
pub(crate) struct FollowedWals {
    mode: WalReplayMode,
    wals: BTreeMap<FileNumber, FollowedWal>,
    /// WALs in the directory when it was last listed.
    pub(crate) seen: Vec<FileNumber>,
    pub(crate) decide: WalReplay,
    pub(crate) two_phase: TwoPhaseReplay,
    /// The WAL that is being replayed, and the WAL before it.
    pub(crate) at: (FileNumber, Option<FileNumber>),
    /// Numbers of their records.
    pub(crate) records: (u64, u64),
}

impl FollowedWals {
    /// A state without open WALs.
    pub(crate) fn new(mode: WalReplayMode) -> FollowedWals {
        FollowedWals {
            mode,
            wals: BTreeMap::new(),
            seen: Vec::new(),
            decide: WalReplay::new(mode),
            two_phase: TwoPhaseReplay::new(true),
            at: (FileNumber(0), None),
            records: (0, 0),
        }
    }

    /// Forgets the progress: all wanted WALs are replayed again, from the start.
    pub(crate) fn begin_again(&mut self) {
        let seen = std::mem::take(&mut self.seen);
        *self = FollowedWals { seen, ..FollowedWals::new(self.mode) };
    }

    /// Opens the wanted WALs that are not open, and closes those below `smallest_wanted`.
    /// # Errors
    /// `IoError`; sub-code `PathNotFound` if the primary has deleted one since it was listed.
    pub(crate) fn open(
        &mut self,
        fs: &dyn FileSystem,
        dir: &Path,
        listed: &[FileNumber],
        smallest_wanted: FileNumber,
    ) -> Result<()> {
        self.wals = self.wals.split_off(&smallest_wanted);
        for number in listed.iter().filter(|number| **number >= smallest_wanted) {
            if !self.wals.contains_key(number) {
                let log = LogReader::new(TailSource::open(fs, &wal_file_name(dir, *number))?, number.0);
                let mark = log.mark();
                self.wals.insert(*number, FollowedWal { log, mark, is_begun: false, is_done: false });
            }
        }
        Ok(())
    }

    /// Whether the WAL is open.
    pub(crate) fn is_open(&self, number: FileNumber) -> bool {
        self.wals.contains_key(&number)
    }

    /// WALs whose end the replay has not reached, oldest first.
    pub(crate) fn unfinished(&self) -> Vec<FileNumber> {
        self.wals.iter().filter(|(_, wal)| !wal.is_done).map(|(number, _)| *number).collect()
    }

    /// Whether a later WAL has a record.
    /// # Errors
    /// `IoError`.
    pub(crate) fn has_record_behind(&mut self, number: FileNumber) -> Result<bool> {
        for (_, wal) in self.wals.range_mut((Bound::Excluded(number), Bound::Unbounded)) {
            if wal.has_record()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes an open WAL out to replay it; [`FollowedWals::put_back`] returns it.
    pub(crate) fn take_out(&mut self, number: FileNumber) -> FollowedWal {
        let mut wal = self.wals.remove(&number).expect("the WAL is in the list of unfinished WALs");
        if !wal.is_begun {
            wal.is_begun = true;
            self.decide.begin_file(number);
            self.two_phase.begin_file();
            // Only an open needs the ended transactions.
            self.two_phase.take_ended();
            self.at = (number, Some(self.at.0).filter(|wal| wal.0 > 0));
            self.records = (0, self.records.0);
        }
        wal
    }

    /// See [`FollowedWals::take_out`].
    pub(crate) fn put_back(&mut self, number: FileNumber, wal: FollowedWal) {
        self.wals.insert(number, wal);
    }
}
