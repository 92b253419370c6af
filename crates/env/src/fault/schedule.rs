//! A schedule of faults that come and go, drawn from a seed: the behaviour of a failing disk.
//!
//! In: operations. Out: the operations that take long, fail, find the disk full, or read other
//! bytes than were written. A spell of faults begins at some operation, concerns some kinds of
//! operations or files, and ends after a number of failures or a time. A later operation begins the
//! next spell. [`super::FaultFs::clear_rules`] ends the schedule and heals its damage.
//!
//! Damage changes only the bytes that a read returns, never the disk below. It occurs only in files
//! with checksums (tables and blob files). Damage in a log would look like its torn end, and lose
//! acknowledged writes.
//!
//! Invariants
//!  1. With one seed, the same operations at the same times give the same faults.
//!  2. A permanently damaged place gives the same wrong bytes at each read.

use super::op::OpKind;
use super::rule::injected;
use crate::clock::Clock;
use esker_base::Error;
use esker_base::sync::Arc;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes that a disk reads and writes as one.
const SECTOR: u64 = 512;

/// Reads at an offset of a file; bytes beyond its end keep their value.
pub(super) type ReadAgain<'a> = dyn FnMut(u64, &mut [u8]) + 'a;

/// A schedule of faults that come and go, drawn from a seed.
#[derive(Debug)]
pub struct FaultSchedule {
    clock: Arc<dyn Clock>,
    rng: fastrand::Rng,
    /// One operation in this many is slow; 0: none.
    slow_one_in: u64,
    /// Exponent of the longest delay: a millisecond times two to this power.
    slowest: u32,
    /// One operation in this many begins a spell; 0: none.
    spell_one_in: u64,
    /// One read in this many gives other bytes; 0: none.
    damage_one_in: u64,
    spell: Option<Spell>,
    damaged: BTreeMap<PathBuf, Vec<Damage>>,
}

/// A while in which operations fail.
#[derive(Debug)]
struct Spell {
    kinds: u32,
    /// Part of the names of the files that it concerns.
    name: &'static str,
    errno: i32,
    retryable: Option<bool>,
    /// Whether a failing append first writes a part of its bytes into the file.
    short: bool,
    /// The spell ends after this many failures.
    left: u64,
    /// Time at which the spell ends, in monotonic nanoseconds.
    until: u64,
    /// Free bytes, if the spell is a full disk. Deleted files add to them.
    room: Option<u64>,
}

/// A change of the bytes that a read returns.
#[derive(Clone, Copy, Debug)]
enum Damage {
    /// A bit of the byte at this offset is flipped.
    Bit(u64, u8),
    /// The sector at the second offset is returned in place of that at the first.
    Sector(u64, u64),
}

/// The outcome of an operation.
#[derive(Debug)]
pub(super) enum Forecast {
    Fair,
    Fail(Error),
    /// Append this many bytes, then fail.
    Short(usize, Error),
}

impl FaultSchedule {
    /// A schedule in which operations are sometimes slow, and never fail.
    pub fn slow(seed: u64, clock: Arc<dyn Clock>) -> FaultSchedule {
        let mut rng = fastrand::Rng::with_seed(seed);
        let slow_one_in = 1 << rng.u32(1..=9);
        let slowest = rng.u32(0..=14);
        let (spell_one_in, damage_one_in) = (0, 0);
        let (spell, damaged) = (None, BTreeMap::new());
        FaultSchedule { clock, rng, slow_one_in, slowest, spell_one_in, damage_one_in, spell, damaged }
    }

    /// A schedule of slow operations, and of failures, damaged reads or both: the seed decides.
    pub fn bad(seed: u64, clock: Arc<dyn Clock>) -> FaultSchedule {
        let mut schedule = FaultSchedule::slow(seed, clock);
        let rng = &mut schedule.rng;
        schedule.spell_one_in = [0, 1 << rng.u32(3..=9), 1 << rng.u32(3..=9)][rng.usize(..3)];
        schedule.damage_one_in = [0, 0, 1 << rng.u32(2..=8)][rng.usize(..3)];
        if schedule.spell_one_in == 0 && schedule.damage_one_in == 0 {
            schedule.spell_one_in = 20;
        }
        schedule
    }

    /// A schedule of slow operations, and of reads with flipped bits or misdirected sectors. No
    /// operation fails.
    pub fn bad_reads(seed: u64, clock: Arc<dyn Clock>) -> FaultSchedule {
        let mut schedule = FaultSchedule::slow(seed, clock);
        schedule.damage_one_in = 1 << schedule.rng.u32(0..=6);
        schedule
    }

    /// The delay of the next operation, and the clock to sleep on. `None` if it is not slow.
    pub(super) fn delay(&mut self) -> Option<(Duration, Arc<dyn Clock>)> {
        if self.slow_one_in == 0 || self.rng.u64(..self.slow_one_in) > 0 {
            return None;
        }
        let most = 1_000 << self.rng.u32(..=self.slowest);
        Some((Duration::from_micros(self.rng.u64(..most)), self.clock.clone()))
    }

    /// Whether reads may give other bytes.
    pub(super) fn spoils(&self) -> bool {
        self.damage_one_in > 0
    }

    /// The outcome of an operation.
    pub(super) fn forecast(
        &mut self,
        index: u64,
        kind: OpKind,
        path: &Path,
        offset: Option<u64>,
        bytes: usize,
    ) -> Forecast {
        if self.spell.is_none() && self.spell_one_in > 0 && self.rng.u64(..self.spell_one_in) == 0 {
            self.spell = Some(Spell::random(&mut self.rng, self.clock.monotonic_nanos()));
        }
        let Some(spell) = &mut self.spell else { return Forecast::Fair };
        if spell.left == 0 || self.clock.monotonic_nanos() >= spell.until {
            self.spell = None;
            return Forecast::Fair;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if spell.kinds & kind.bit() == 0 || !name.contains(spell.name) {
            return Forecast::Fair;
        }
        let error = || {
            let error = injected(index, kind, path, offset, spell.errno);
            spell.retryable.map_or(error.clone(), |retryable| error.with_retryable(retryable))
        };
        if let Some(room) = &mut spell.room {
            // Operations without bytes need almost no space.
            if kind != OpKind::Append && *room > 0 {
                return Forecast::Fair;
            }
            let fits = usize::try_from(*room).unwrap_or(usize::MAX).min(bytes);
            *room -= fits as u64;
            if kind == OpKind::Append && fits == bytes && bytes > 0 {
                return Forecast::Fair;
            }
            spell.left -= 1;
            return Forecast::Short(fits, error());
        }
        let error = error();
        spell.left -= 1;
        match spell.short && kind == OpKind::Append {
            true => Forecast::Short(self.rng.usize(0..bytes.max(1)), error),
            false => Forecast::Fail(error),
        }
    }

    /// Records the deletion of a file of this many bytes.
    pub(super) fn freed(&mut self, bytes: u64) {
        if let Some(Spell { room: Some(room), .. }) = &mut self.spell {
            *room += bytes;
        }
    }

    /// Changes the bytes read at `offset` if this read is to be wrong. Returns whether it changed
    /// them. `again` reads from the file.
    pub(super) fn spoil(
        &mut self,
        path: &Path,
        offset: u64,
        read: &mut [u8],
        again: &mut ReadAgain<'_>,
    ) -> bool {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if read.is_empty() || !(name.ends_with(".sst") || name.ends_with(".blob")) {
            return false;
        }
        let mut spoilt = false;
        if self.damage_one_in > 0 && self.rng.u64(..self.damage_one_in) == 0 {
            let at = offset + self.rng.u64(..read.len() as u64);
            let damage = match self.rng.bool() {
                true => Damage::Bit(at, 1 << self.rng.u8(..8)),
                // A misdirected read returns a sector nearby, as if from another track.
                false => {
                    let sector = at / SECTOR;
                    Damage::Sector(sector * SECTOR, (sector ^ (1 + self.rng.u64(..16))) * SECTOR)
                }
            };
            match self.rng.u8(..3) {
                0 => self.damaged.entry(path.to_owned()).or_default().push(damage),
                _ => spoilt |= damage.apply(offset, read, again),
            }
        }
        for damage in self.damaged.get(path).into_iter().flatten() {
            spoilt |= damage.apply(offset, read, again);
        }
        spoilt
    }
}

impl Spell {
    fn random(rng: &mut fastrand::Rng, now: u64) -> Spell {
        use OpKind::*;
        let kinds: &[&[OpKind]] = &[
            &OpKind::ALL,
            &OpKind::CHANGES,
            &[Append],
            &[Sync],
            &[Sync, DirSync],
            &[Create],
            &[Read],
            &[Read, Open],
            &[Rename, Link, Delete],
            &[Append, Flush, Sync, Create],
        ];
        let kinds = kinds[rng.usize(..kinds.len())].iter().fold(0, |set, kind| set | kind.bit());
        let names = ["", "", "", ".log", ".sst", ".blob", "MANIFEST", "CURRENT", ".dbtmp"];
        let short = rng.bool();
        let most = 1 << rng.u32(0..=6);
        let mut spell = Spell {
            kinds,
            name: names[rng.usize(..names.len())],
            errno: libc::EIO,
            retryable: [None, Some(true), Some(false)][rng.usize(..3)],
            short,
            left: rng.u64(1..=most),
            until: now.saturating_add(1_000_000_000 << rng.u32(..10)),
            room: None,
        };
        if rng.u8(..3) == 0 {
            spell.kinds = Append.bit() | Create.bit();
            (spell.errno, spell.retryable, spell.name) = (libc::ENOSPC, None, "");
            let most = 1 << rng.u32(4..=15);
            spell.room = Some(rng.u64(..most));
        }
        spell
    }
}

impl Damage {
    /// Changes the bytes read at `offset`; returns whether any of them changed.
    fn apply(self, offset: u64, read: &mut [u8], again: &mut ReadAgain<'_>) -> bool {
        let end = offset + read.len() as u64;
        match self {
            Damage::Bit(at, bit) => {
                if !(offset..end).contains(&at) {
                    return false;
                }
                read[(at - offset) as usize] ^= bit;
                true
            }
            Damage::Sector(to, from) => {
                let (start, stop) = (to.max(offset), (to + SECTOR).min(end));
                if start >= stop {
                    return false;
                }
                let mut other = vec![0; (stop - start) as usize];
                // Behind the file's end lie zeros.
                again(from + (start - to), &mut other);
                let here = &mut read[(start - offset) as usize..(stop - offset) as usize];
                let differs = here != other.as_slice();
                here.copy_from_slice(&other);
                differs
            }
        }
    }
}
