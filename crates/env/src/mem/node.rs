//! A file in memory; if tracked, also its possible states after a power loss.

use super::content::Content;
use crate::clock::{Clock, SystemClock};
use esker_base::sync::{Arc, RwLock};

/// A change that the medium may not have.
#[derive(Clone, Debug)]
pub(crate) enum ContentPiece {
    Write { offset: u64, data: Arc<[u8]> },
    SetLen(u64),
}

impl ContentPiece {
    pub(crate) fn apply(&self, content: &mut Content) {
        match self {
            ContentPiece::Write { offset, data } => content.write_at(*offset, data),
            ContentPiece::SetLen(len) => content.set_len(*len),
        }
    }
}

/// A file, under any number of names.
#[derive(Debug)]
pub(crate) struct FileNode {
    pub(crate) id: u64,
    pub(crate) data: RwLock<FileData>,
}

/// Invariant, if tracked: `synced` with `pieces` applied in order is `live`.
#[derive(Clone, Debug)]
pub(crate) struct FileData {
    /// The bytes that the kernel has, as readers see them.
    pub(crate) live: Content,
    /// The bytes that are certainly on the medium.
    pub(crate) synced: Content,
    /// Later changes, one piece for each append.
    pub(crate) pieces: Vec<ContentPiece>,
    pub(crate) ever_synced: bool,
    pub(crate) changed_micros: u64,
    /// For a file appended to in place: the unit in which the real file grows, by zeros.
    pub(crate) block: Option<u64>,
    tracked: bool,
}

impl FileNode {
    pub(crate) fn new(id: u64, tracked: bool) -> FileNode {
        FileNode { id, data: RwLock::new(FileData::on_medium(Content::default(), tracked, false)) }
    }

    /// A file with the bytes and the unsynced changes of another.
    pub(crate) fn with(id: u64, data: FileData) -> FileNode {
        FileNode { id, data: RwLock::new(data) }
    }

    /// A file whose bytes are all on the medium.
    pub(crate) fn on_medium(id: u64, content: Content) -> FileNode {
        FileNode { id, data: RwLock::new(FileData::on_medium(content, true, true)) }
    }
}

impl FileData {
    fn on_medium(content: Content, tracked: bool, ever_synced: bool) -> FileData {
        let synced = if tracked { content.clone() } else { Content::default() };
        let changed_micros = SystemClock.now_micros();
        FileData {
            live: content,
            synced,
            pieces: Vec::new(),
            ever_synced,
            changed_micros,
            block: None,
            tracked,
        }
    }

    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        self.live.write_at(offset, data);
        self.changed(|| ContentPiece::Write { offset, data: data.into() });
    }

    pub(crate) fn set_len(&mut self, len: u64) {
        self.live.set_len(len);
        self.changed(|| ContentPiece::SetLen(len));
    }

    fn changed(&mut self, piece: impl FnOnce() -> ContentPiece) {
        self.changed_micros = SystemClock.now_micros();
        if self.tracked {
            self.pieces.push(piece());
        }
    }

    /// Marks everything as on the medium. Returns whether there was anything to sync, such as a new
    /// file.
    pub(crate) fn sync(&mut self) -> bool {
        if !self.tracked {
            return false;
        }
        let had_work = !self.pieces.is_empty() || !self.ever_synced;
        self.synced = self.live.clone();
        self.pieces.clear();
        self.ever_synced = true;
        had_work
    }
}
