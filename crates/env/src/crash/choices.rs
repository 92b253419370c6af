//! Chooses one of the states that a crash may leave.

use crate::mem::content::Content;
use crate::mem::node::{ContentPiece, FileData};

/// The kind of crash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CrashKind {
    /// The process died; the machine continues.
    ProcessKill,
    /// The machine died.
    PowerLoss,
}

/// The rule by which the name of a file becomes durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameDurability {
    /// A sync of its directory makes a name durable, as POSIX promises.
    Strict,
    /// Any later sync makes a name durable, as ext4 does it.
    Journaled,
}

/// The part of unsynced data that survives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keep {
    /// None of it.
    Nothing,
    /// A prefix. Its length is drawn anew for each file and each sequence of name operations.
    Some,
    /// All of it.
    Everything,
}

/// The content between the last byte that survived and the former end of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tail {
    /// Nothing: the file ends.
    Cut,
    /// Zeros, up to a random place.
    Zeros,
    /// Random bytes, to somewhere.
    Garbage,
    /// Some 4 KiB pages, each with its real bytes or with zeros: the kernel writes pages back in
    /// any order.
    Pages,
    /// Some 512-byte sectors of the lost writes, each with its new or its former bytes. They may
    /// also lie within the file: a disk writes sectors in any order.
    Sectors,
}

/// One outcome of a crash. Callers may change single fields: `CrashChoices { tear: true,
/// ..CrashChoices::random(7) }`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CrashChoices {
    /// The kind of crash. A killed process ignores all other choices.
    pub kind: CrashKind,
    /// The rule by which names become durable.
    pub names: NameDurability,
    /// The part of the name operations not yet durable that survives.
    pub keep_names: Keep,
    /// The part of each file's unsynced appends that survives.
    pub keep_data: Keep,
    /// Whether a part of the first lost append survives (with [`Keep::Some`]).
    pub tear: bool,
    /// The content of the file behind the bytes that survived.
    pub tail: Tail,
    /// Seed of all random draws: the same choices for the same file system give the same outcome.
    pub seed: u64,
}

/// Choices, and the random numbers to carry them out.
pub(super) struct Draws<'a> {
    choices: &'a CrashChoices,
    rng: fastrand::Rng,
}

impl CrashChoices {
    /// The process is killed.
    pub fn process_kill() -> CrashChoices {
        CrashChoices { kind: CrashKind::ProcessKill, ..CrashChoices::lose_unsynced() }
    }

    /// Power loss. Only synced data survives, and names by the strict rule.
    pub fn lose_unsynced() -> CrashChoices {
        CrashChoices {
            kind: CrashKind::PowerLoss,
            names: NameDurability::Strict,
            keep_names: Keep::Nothing,
            keep_data: Keep::Nothing,
            tear: false,
            tail: Tail::Cut,
            seed: 0,
        }
    }

    /// Power loss. All flushed data survives.
    pub fn keep_flushed() -> CrashChoices {
        let (keep_names, keep_data) = (Keep::Everything, Keep::Everything);
        CrashChoices { keep_names, keep_data, ..CrashChoices::lose_unsynced() }
    }

    /// Power loss; all else is drawn from `seed`.
    pub fn random(seed: u64) -> CrashChoices {
        let mut rng = fastrand::Rng::with_seed(seed);
        let names = if rng.bool() { NameDurability::Strict } else { NameDurability::Journaled };
        let keeps = [Keep::Nothing, Keep::Some, Keep::Some, Keep::Everything];
        let (keep_names, keep_data) = (keeps[rng.usize(..4)], keeps[rng.usize(..4)]);
        let tear = rng.bool();
        let tails = [Tail::Cut, Tail::Cut, Tail::Zeros, Tail::Garbage, Tail::Pages, Tail::Sectors];
        let tail = tails[rng.usize(..tails.len())];
        CrashChoices { kind: CrashKind::PowerLoss, names, keep_names, keep_data, tear, tail, seed }
    }
}

impl Draws<'_> {
    pub(super) fn new(choices: &CrashChoices) -> Draws<'_> {
        // Another seed than the one from which `random` drew the choices.
        Draws { choices, rng: fastrand::Rng::with_seed(!choices.seed) }
    }

    fn prefix(&mut self, keep: Keep, n: usize) -> usize {
        match keep {
            Keep::Nothing => 0,
            Keep::Everything => n,
            Keep::Some => self.rng.usize(0..=n),
        }
    }

    /// The number of survivors among `n` successive name operations.
    pub(super) fn kept_names(&mut self, n: usize) -> usize {
        self.prefix(self.choices.keep_names, n)
    }

    /// The file after its process was killed. A file appended in place ends with a whole block.
    /// Behind the appended bytes lie zeros, or an append in progress without its first eight bytes.
    pub(super) fn killed(&self, file: &FileData) -> FileData {
        let mut left = file.clone();
        let len = left.live.len();
        let Some(block) = left.block.take().filter(|_| len > 0) else { return left };
        let mut rng = fastrand::Rng::with_seed(!self.choices.seed ^ len);
        let end = (len / block + 1) * block;
        left.set_len(end);
        if end - len > 8 {
            let mut behind = vec![0; rng.u64(0..end - len - 8) as usize];
            rng.fill(&mut behind);
            left.write(len + 8, &behind);
        }
        left
    }

    /// The file after a power loss. A file appended in place may end with zeros up to a whole
    /// block.
    pub(super) fn content(&mut self, file: &FileData) -> Content {
        let mut content = self.appended(file);
        let len = content.len();
        if let Some(block) = file.block.filter(|_| len > 0) {
            let mut rng = fastrand::Rng::with_seed(!self.choices.seed ^ len);
            if file.pieces.is_empty() || !rng.bool() {
                content.set_len((len / block + 1) * block);
            }
        }
        content
    }

    /// The file with the appended bytes that survive.
    fn appended(&mut self, file: &FileData) -> Content {
        if file.pieces.is_empty() {
            return file.live.clone();
        }
        let kept = self.prefix(self.choices.keep_data, file.pieces.len());
        let Some(lost) = file.pieces.get(kept) else { return file.live.clone() };
        let mut content = file.synced.clone();
        file.pieces[..kept].iter().for_each(|piece| piece.apply(&mut content));
        if let (true, Keep::Some, ContentPiece::Write { offset, data }) =
            (self.choices.tear, self.choices.keep_data, lost)
        {
            content.write_at(*offset, &data[..self.rng.usize(0..=data.len())]);
        }
        match self.choices.tail {
            Tail::Sectors => self.scatter(&mut content, &file.live, &file.pieces[kept..]),
            _ => self.add_tail(&mut content, &file.live),
        }
        content
    }

    /// Adds some sectors of the lost writes.
    fn scatter(&mut self, content: &mut Content, live: &Content, lost: &[ContentPiece]) {
        const SECTOR: u64 = 512;
        let (mut start, mut end) = (u64::MAX, 0);
        for piece in lost {
            // A change of length invalidates the offsets of later writes.
            let ContentPiece::Write { offset, data } = piece else { break };
            (start, end) = (start.min(*offset), end.max(offset + data.len() as u64));
        }
        let end = end.min(live.len());
        if end > content.len() {
            let len = self.rng.u64(content.len()..=end);
            content.set_len(len);
        }
        let end = end.min(content.len());
        let mut at = start;
        while at < end {
            let next = (at / SECTOR + 1) * SECTOR;
            if self.rng.bool() {
                let mut sector = vec![0; (next.min(end) - at) as usize];
                live.read_at(at, &mut sector);
                content.write_at(at, &sector);
            }
            at = next;
        }
    }

    /// Extends `content`, which survived, towards the length of `live`.
    fn add_tail(&mut self, content: &mut Content, live: &Content) {
        const PAGE: u64 = 4096;
        if self.choices.tail == Tail::Cut || content.len() >= live.len() {
            return;
        }
        let start = content.len();
        let end = self.rng.u64(start..=live.len());
        content.set_len(end);
        let mut at = start;
        while at < end && self.choices.tail != Tail::Zeros {
            let n = (PAGE - at % PAGE).min(end - at);
            let mut page = vec![0; n as usize];
            if self.choices.tail == Tail::Garbage {
                self.rng.fill(&mut page);
            } else if self.rng.bool() {
                live.read_at(at, &mut page);
            }
            content.write_at(at, &page);
            at += n;
        }
    }
}
