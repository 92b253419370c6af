//! Reads encrypted files: finds the frame of an offset, checks it and decrypts it.
//!
//! In: an open file of the underlying file system, and the file's key. Out: the content.
//!
//! A page of a file that was written without flushes is one frame, so an offset gives its page.
//! Otherwise a binary search over the heads at the fronts of pages finds it.
//!
//! Invariants
//!  1. Bytes that a read returns come from frames whose tags were right, with one exception: a lost
//!     part of a log reads as [`LOST`].
//!  2. A log ends behind its last authentic frame. A lost part has authentic frames behind it.

use crate::file_key::FileKey;
use esker_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use esker_base::sync::{Arc, Mutex};
use esker_base::{Error, Result};
use esker_env::RandomAccessFile;
use esker_format::encryption::{
    EncryptedKind, FRAME_MARK, FRAME_OVERHEAD, FrameHead, HEAD_BYTES, LEAST_ROOM, MOST_CONTENT, PAGE_BYTES,
};
use std::cell::RefCell;
use std::fmt;

/// The bytes of a lost part of a log. No record of a log has this length and type.
pub(crate) const LOST: u8 = 0xFF;
/// Pages that are read at once.
const MOST_PAGES: usize = 64;
/// Content that a log's reader passes over before it searches.
const NEAR_BYTES: u64 = 64 << 10;
pub(crate) const PAGE: u64 = PAGE_BYTES as u64;

/// A place between two frames: in the file, and in the content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FramePlace {
    pub(crate) physical: u64,
    pub(crate) content: u64,
}

/// The front of the content.
pub(crate) const FRONT: FramePlace = FramePlace { physical: PAGE, content: 0 };

/// Pages in memory, as they are in the file.
#[derive(Default)]
struct Pages {
    bytes: Vec<u8>,
    start: u64,
    len: usize,
}

impl Pages {
    /// Reads up to `count` pages from the page that `physical` lies in.
    fn load(&mut self, file: &dyn RandomAccessFile, physical: u64, count: usize) -> Result<()> {
        let wanted = count.clamp(1, MOST_PAGES) * PAGE_BYTES;
        if self.bytes.len() < wanted {
            self.bytes.resize(wanted, 0);
        }
        self.start = physical / PAGE * PAGE;
        self.len = 0;
        self.len = file.read_at(self.start, &mut self.bytes[..wanted])?;
        Ok(())
    }

    fn has(&self, physical: u64) -> bool {
        (self.start..self.start + self.len as u64).contains(&physical)
    }

    /// The bytes of the page of `physical`, from there on, as far as the file has them.
    fn rest_of_page(&mut self, physical: u64) -> &mut [u8] {
        if !self.has(physical) {
            return &mut [];
        }
        let at = (physical - self.start) as usize;
        let end = (at / PAGE_BYTES + 1) * PAGE_BYTES;
        &mut self.bytes[at..end.min(self.len)]
    }
}

thread_local! {
    /// Memory for pages, which the thread keeps.
    static PAGES: RefCell<Pages> = RefCell::default();
}

/// The place of the next frame: this place, or the next page if this page has no room.
pub(crate) fn next_frame(physical: u64) -> u64 {
    let room = PAGE - physical % PAGE;
    if room < LEAST_ROOM as u64 { physical + room } else { physical }
}

/// The frames of an open file.
pub(crate) struct FrameReader {
    inner: Arc<dyn RandomAccessFile>,
    key: FileKey,
    kind: EncryptedKind,
    /// For a file that is no log: bytes of content, bytes of the file at that time, and whether
    /// each page before the last one is one frame.
    content: AtomicU64,
    physical: AtomicU64,
    is_uniform: AtomicBool,
    /// The last frame that was read of a log.
    cursor: Mutex<FramePlace>,
}

impl fmt::Debug for FrameReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FrameReader({})", self.inner.path().display())
    }
}

impl FrameReader {
    /// A reader of this file.
    /// # Errors
    /// `Corruption` if the file is no log and has no end mark at its end · `IoError`.
    pub(crate) fn new(
        inner: Arc<dyn RandomAccessFile>,
        key: FileKey,
        kind: EncryptedKind,
    ) -> Result<FrameReader> {
        let (content, physical) = (AtomicU64::new(0), AtomicU64::new(0));
        let is_uniform = AtomicBool::new(false);
        let cursor = Mutex::new(FRONT);
        let reader = FrameReader { inner, key, kind, content, physical, is_uniform, cursor };
        if kind == EncryptedKind::Whole {
            reader.find_end()?;
        }
        Ok(reader)
    }

    /// Content before `size` from the front of a frame on, and the place of that frame. It is at
    /// most a page, if the file is undamaged.
    pub(crate) fn before(&self, size: u64) -> Result<(FramePlace, Vec<u8>)> {
        let place = self.search(size)?;
        let mut content = vec![0; size.saturating_sub(place.content) as usize];
        let (read, at) = self.read_frames(place, place.content, &mut content)?;
        if read < content.len() { Err(self.damaged(at.physical)) } else { Ok((place, content)) }
    }

    /// Bytes of content.
    pub(crate) fn size(&self) -> Result<u64> {
        let is_known =
            self.kind == EncryptedKind::Whole && self.inner.size()? == self.physical.load(Ordering::Acquire);
        if is_known { Ok(self.content.load(Ordering::Acquire)) } else { Ok(self.find_end()?.content) }
    }

    /// Finds the end. Costs a read of the last page, for a log also of each page behind the last
    /// one with an authentic frame.
    /// # Errors
    /// `Corruption` if the file is no log and has no end mark at its end · `IoError`.
    pub(crate) fn find_end(&self) -> Result<FramePlace> {
        let physical = self.inner.size()?;
        PAGES.with_borrow_mut(|memory| {
            for page in (1..physical.div_ceil(PAGE)).rev() {
                memory.load(&*self.inner, page * PAGE, 1)?;
                let bytes = memory.rest_of_page(page * PAGE);
                if self.kind == EncryptedKind::Whole {
                    return self.whole_end(bytes, page, physical);
                }
                let (mut at, mut end) = (0, None);
                while let Some((place, head)) = self.scan(bytes, at, 0) {
                    at = place + head.frame_bytes();
                    let content = head.offset + u64::from(head.len);
                    end = Some(FramePlace { physical: page * PAGE + at as u64, content });
                }
                match end {
                    Some(end) if self.kind == EncryptedKind::Log || self.is_torn(memory, end)? => {
                        return Ok(end);
                    }
                    Some(end) => return Err(self.damaged(end.physical)),
                    None => {}
                }
            }
            if self.kind == EncryptedKind::StrictLog && !self.is_torn(memory, FRONT)? {
                return Err(self.damaged(PAGE));
            }
            if self.kind == EncryptedKind::Whole { Err(self.cut_off()) } else { Ok(FRONT) }
        })
    }

    /// The end of a file that is no log, from its last page.
    fn whole_end(&self, bytes: &[u8], page: u64, physical: u64) -> Result<FramePlace> {
        let (mut at, mut last, mut first) = (0, None, 0);
        while at < bytes.len() {
            match self.scan(bytes, at, 0) {
                Some((place, head)) if place == at => {
                    first = if at == 0 { head.offset } else { first };
                    at += head.frame_bytes();
                    last = Some(head);
                }
                _ => return Err(self.damaged(page * PAGE + at as u64)),
            }
        }
        let Some(last) = last.filter(|last| last.is_end) else { return Err(self.cut_off()) };
        let content = last.offset + u64::from(last.len);
        self.content.store(content, Ordering::Release);
        self.is_uniform.store(first == (page - 1) * MOST_CONTENT as u64, Ordering::Release);
        self.physical.store(physical, Ordering::Release);
        Ok(FramePlace { physical, content })
    }

    /// The first authentic frame of the page at or behind `at` whose content begins at `least` or
    /// behind. The bytes stay as they are.
    fn scan(&self, page: &[u8], mut at: usize, least: u64) -> Option<(usize, FrameHead)> {
        let mut copy = [0; PAGE_BYTES];
        while at + FRAME_OVERHEAD <= page.len() {
            if page[at] == FRAME_MARK
                && let Some(head) = FrameHead::decode(&page[at..])
                && head.offset >= least
                && let Some(frame) = page.get(at..at + head.frame_bytes())
            {
                let copy = &mut copy[..frame.len()];
                copy.copy_from_slice(frame);
                if self.key.open(copy).is_some() {
                    return Some((at, head));
                }
            }
            at += 1;
        }
        None
    }

    /// Reads up to `buf.len()` bytes of content at `offset`; fewer only at the end.
    /// # Errors
    /// `Corruption` naming file and offset, unless the file is a log · `IoError`.
    pub(crate) fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        if self.kind != EncryptedKind::Whole {
            return self.read_log_at(offset, buf);
        }
        let mut content = self.content.load(Ordering::Acquire);
        if offset.saturating_add(buf.len() as u64) > content {
            content = self.size()?;
        }
        let wanted = content.saturating_sub(offset).min(buf.len() as u64) as usize;
        if wanted == 0 {
            return Ok(0);
        }
        let place = if self.is_uniform.load(Ordering::Acquire) {
            let page = offset / MOST_CONTENT as u64;
            FramePlace { physical: (page + 1) * PAGE, content: page * MOST_CONTENT as u64 }
        } else {
            self.search(offset)?
        };
        let (read, place) = self.read_frames(place, offset, &mut buf[..wanted])?;
        if read < wanted { Err(self.damaged(place.physical)) } else { Ok(read) }
    }

    fn read_log_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let cursor = *self.cursor.lock();
        let is_near = cursor.content <= offset && offset - cursor.content < NEAR_BYTES;
        let place = if is_near { cursor } else { self.search(offset)? };
        let (read, place) = self.read_frames(place, offset, buf)?;
        *self.cursor.lock() = place;
        Ok(read)
    }

    /// A place at or before `offset`, in its page if the heads of the pages are undamaged.
    fn search(&self, offset: u64) -> Result<FramePlace> {
        let pages = self.inner.size()?.div_ceil(PAGE).saturating_sub(1);
        let probe = |page: u64| -> Result<Option<u64>> {
            let mut head = [0; HEAD_BYTES];
            let read = self.inner.read_at((page + 1) * PAGE, &mut head)?;
            let found = FrameHead::decode(&head[..read]).map(|head| head.offset);
            Ok(found.filter(|&content| content <= offset))
        };
        // A page has at most this much content, so the offset lies in this page or behind it.
        let mut low = offset / MOST_CONTENT as u64;
        let Some(content) = probe(low)? else { return Ok(FRONT) };
        let mut place = FramePlace { physical: (low + 1) * PAGE, content };
        let mut high = pages;
        while low + 1 < high {
            let middle = low.midpoint(high);
            match probe(middle)? {
                Some(content) => {
                    low = middle;
                    place = FramePlace { physical: (low + 1) * PAGE, content };
                }
                None => high = middle,
            }
        }
        Ok(place)
    }

    /// Reads content at `offset` from the frames at `place` and behind. Returns the number of
    /// bytes, and the place of the last frame that was read in part or of the next one.
    fn read_frames(&self, place: FramePlace, offset: u64, buf: &mut [u8]) -> Result<(usize, FramePlace)> {
        PAGES.with_borrow_mut(|memory| {
            memory.len = 0;
            let (mut at, mut done) = (place, 0);
            while done < buf.len() {
                let wanted = offset + done as u64;
                at.physical = next_frame(at.physical);
                if !memory.has(at.physical) {
                    let left = (wanted - at.content) as usize + (buf.len() - done);
                    memory.load(&*self.inner, at.physical, left.div_ceil(MOST_CONTENT))?;
                }
                let page = memory.rest_of_page(at.physical);
                if let Some((head, copied)) = self.take(page, at.content, wanted, &mut buf[done..]) {
                    done += copied;
                    let content = at.content + u64::from(head.len);
                    if offset + done as u64 >= content || copied == 0 {
                        at = FramePlace { physical: at.physical + head.frame_bytes() as u64, content };
                    }
                    continue;
                }
                let Some(next) = self.behind_damage(memory, at)? else { break };
                let lost = next.content.saturating_sub(wanted).min((buf.len() - done) as u64) as usize;
                buf[done..done + lost].fill(LOST);
                done += lost;
                if offset + done as u64 >= next.content {
                    at = next;
                }
            }
            Ok((done, at))
        })
    }

    /// Copies content from `wanted` on out of the frame at the front of `page`, which must begin
    /// with the content at `content`. A frame before `wanted` is not decrypted.
    fn take(&self, page: &mut [u8], content: u64, wanted: u64, buf: &mut [u8]) -> Option<(FrameHead, usize)> {
        let head = FrameHead::decode(page).filter(|head| head.offset == content)?;
        let frame = page.get_mut(..head.frame_bytes())?;
        let skipped = (wanted - content) as usize;
        if skipped >= usize::from(head.len) {
            return Some((head, 0));
        }
        self.key.open(frame)?;
        let part = &frame[HEAD_BYTES + skipped..HEAD_BYTES + usize::from(head.len)];
        let copied = part.len().min(buf.len());
        buf[..copied].copy_from_slice(&part[..copied]);
        Some((head, copied))
    }

    /// Whether a crash may have left the bytes behind this place: zeros, or a frame that the end of
    /// the file cuts.
    fn is_torn(&self, memory: &mut Pages, end: FramePlace) -> Result<bool> {
        let mut at = next_frame(end.physical);
        let left = self.inner.size()?.saturating_sub(at);
        memory.load(&*self.inner, at, MOST_PAGES)?;
        let head = FrameHead::decode(memory.rest_of_page(at));
        let is_short = |head: &FrameHead| head.offset == end.content && head.frame_bytes() as u64 > left;
        if left < HEAD_BYTES as u64 {
            return Ok(true);
        }
        if let Some(head) = head.filter(is_short) {
            let is_whole = self.has_other_length(memory.rest_of_page(at), head);
            return Ok(!is_whole && self.find_frame(memory, end)?.is_none());
        }
        while memory.has(at) {
            if memory.rest_of_page(at).iter().any(|&byte| byte != 0) {
                return Ok(false);
            }
            at = (at / PAGE + 1) * PAGE;
            if !memory.has(at) {
                memory.load(&*self.inner, at, MOST_PAGES)?;
            }
        }
        Ok(true)
    }

    /// Whether the bytes are a whole frame whose length was changed.
    fn has_other_length(&self, bytes: &[u8], head: FrameHead) -> bool {
        let Some(len) = bytes.len().checked_sub(FRAME_OVERHEAD) else { return false };
        let head = FrameHead { len: len as u16, ..head };
        let mut frame = bytes.to_vec();
        frame[..HEAD_BYTES].copy_from_slice(&head.encode());
        self.key.open(&mut frame).is_some()
    }

    /// Continues where no authentic frame was read. If a second read finds a frame at the same
    /// place, it continues there; in a log, at the next authentic frame. `None` at the end of a
    /// log.
    /// # Errors
    /// `Corruption` if the file is no log.
    #[cold]
    fn behind_damage(&self, memory: &mut Pages, at: FramePlace) -> Result<Option<FramePlace>> {
        let mut next = None;
        if self.kind == EncryptedKind::Log {
            next = self.find_frame(memory, at)?;
            if next.is_none() {
                return Ok(None);
            }
        } else if self.kind == EncryptedKind::StrictLog && self.is_torn(memory, at)? {
            return Ok(None);
        } else {
            self.inner.read_anew(at.physical, PAGE);
        }
        // The writer may have appended since; or the medium now returns the right bytes.
        memory.load(&*self.inner, at.physical, 1)?;
        let page = memory.rest_of_page(at.physical);
        let here =
            self.scan(page, 0, at.content).filter(|(place, head)| *place == 0 && head.offset == at.content);
        match (here, next) {
            (Some(_), _) => Ok(Some(at)),
            (None, Some(next)) => Ok(Some(next)),
            (None, None) => Err(self.damaged(at.physical)),
        }
    }

    /// The next authentic frame of a log, at or behind this place.
    fn find_frame(&self, memory: &mut Pages, from: FramePlace) -> Result<Option<FramePlace>> {
        let mut at = from.physical;
        loop {
            memory.load(&*self.inner, at, MOST_PAGES)?;
            if !memory.has(at) {
                return Ok(None);
            }
            while memory.has(at) {
                if let Some((place, head)) = self.scan(memory.rest_of_page(at), 0, from.content) {
                    return Ok(Some(FramePlace { physical: at + place as u64, content: head.offset }));
                }
                at = (at / PAGE + 1) * PAGE;
            }
        }
    }

    #[cold]
    fn damaged(&self, physical: u64) -> Error {
        let path = self.inner.path().display();
        Error::corruption(format!("{path}: offset {physical}: no authentic page: damaged, or moved here"))
    }

    #[cold]
    fn cut_off(&self) -> Error {
        let path = self.inner.path().display();
        Error::corruption(format!("{path}: the encrypted file is cut off: it does not end with an end mark"))
    }
}
