//! Reads encrypted files: finds the frame of an offset, checks the frame and decrypts it.
//!
//! In: an open file of the underlying file system, and the file's key. Out: the content.
//!
//! If the writer of a file never flushed, each page is one frame, so the page of an offset can be
//! computed. Otherwise a binary search finds the page. The search reads the head of the first frame
//! of each page that it tries. Heads are hints. A read starts before the first frame, at a computed
//! page, at an authentic frame, or where one ends.
//!
//! Invariants
//!  1. A read returns bytes of authentic frames only: their tags are right. There is one exception:
//!     in place of a lost part of a file of kind `Log`, a read returns bytes [`LOST`].
//!  2. A file of kind `Log` ends behind its last authentic frame. So authentic frames follow each
//!     lost part.
//!
//! In this file, a *log* is a file of kind `Log` or `StrictLog`.

use crate::file_key::FileKey;
use esker_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use esker_base::sync::{Arc, Mutex};
use esker_base::{Error, Result, perf_time};
use esker_env::{Clock, RandomAccessFile, SystemClock};
use esker_format::encryption::{
    EncryptedKind, FRAME_MARK, FRAME_OVERHEAD, FrameHead, HEAD_BYTES, LEAST_ROOM, MOST_CONTENT, PAGE_BYTES,
};
use std::cell::RefCell;
use std::fmt;

/// The byte that stands for each byte of a lost part of a file of kind `Log`. No record of a log
/// has a header of these bytes.
pub(crate) const LOST: u8 = 0xFF;
/// Largest number of pages that one read gets from the file.
const MOST_PAGES: usize = 64;
/// If a read of a log begins less than this number of bytes behind the reader's `cursor`, the
/// reader steps over the frames between. Otherwise it searches for the frame.
const NEAR_BYTES: u64 = 64 << 10;
pub(crate) const PAGE: u64 = PAGE_BYTES as u64;

/// A place between two frames: its offset in the file, and its offset in the content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FramePlace {
    pub(crate) physical: u64,
    pub(crate) content: u64,
}

/// The place before the first frame.
pub(crate) const FRONT: FramePlace = FramePlace { physical: PAGE, content: 0 };

/// Some pages of a file in memory, encrypted.
#[derive(Default)]
struct Pages {
    bytes: Vec<u8>,
    start: u64,
    len: usize,
}

impl Pages {
    /// Reads up to `count` pages, beginning with the page of the offset `physical`.
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

    /// The bytes from offset `physical` to the end of its page, or to the end of the file.
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
    /// Memory for pages, which the thread reuses.
    static PAGES: RefCell<Pages> = RefCell::default();
}

/// Calls `read` with the thread's memory for pages. The memory holds no page when `read` begins.
fn with_pages<T>(read: impl FnOnce(&mut Pages) -> T) -> T {
    PAGES.with_borrow_mut(|memory| {
        memory.len = 0;
        read(memory)
    })
}

/// The offset of the next frame: `physical`, or the next page if this page has no room for a frame.
pub(crate) fn next_frame(physical: u64) -> u64 {
    let room = PAGE - physical % PAGE;
    if room < LEAST_ROOM as u64 { physical + room } else { physical }
}

/// Reads the content of an open file.
pub(crate) struct FrameReader {
    inner: Arc<dyn RandomAccessFile>,
    key: FileKey,
    kind: EncryptedKind,
    /// For kind `Whole`: the number of bytes of content.
    content: AtomicU64,
    /// For kind `Whole`: the size of the underlying file when `content` was found.
    physical: AtomicU64,
    /// For kind `Whole`: whether each page except the last is one frame.
    is_uniform: AtomicBool,
    /// For logs: the place of the frame at which a read of the next bytes starts.
    cursor: Mutex<FramePlace>,
}

impl fmt::Debug for FrameReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FrameReader({})", self.inner.path().display())
    }
}

impl FrameReader {
    /// Makes the reader of a file. For kind `Whole`, also finds the end of the content.
    /// # Errors
    /// `Corruption` if the last page of a file of kind `Whole` is damaged or lacks the end mark ·
    /// `IoError`.
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

    /// Finds the end of the last frame whose content ends at or before the offset `size`, and reads
    /// the content from there to `size`. Returns the end and the content: in an undamaged file less
    /// than a frame. Reads the page of `size`, in a file with damaged heads more pages.
    pub(crate) fn before(&self, size: u64) -> Result<(FramePlace, Vec<u8>)> {
        with_pages(|memory| {
            let end = self.last_end_before(memory, size)?;
            let mut content = vec![0; size.saturating_sub(end.content) as usize];
            let (read, at) = self.read_frames(memory, end, end.content, &mut content)?;
            if read < content.len() { Err(self.damaged(at.physical)) } else { Ok((end, content)) }
        })
    }

    fn last_end_before(&self, memory: &mut Pages, size: u64) -> Result<FramePlace> {
        let mut end = self.search(memory, size)?;
        let (mut page, mut at) = (end.physical, 0);
        while page < self.inner.size()? {
            memory.load(&*self.inner, page, 1)?;
            let bytes = memory.rest_of_page(page);
            while let Some((begin, head)) = self.scan(bytes, at, end.content) {
                let content = head.offset + u64::from(head.len);
                if content > size {
                    return Ok(end);
                }
                at = begin + head.frame_bytes();
                end = FramePlace { physical: page + at as u64, content };
            }
            (page, at) = (page + PAGE, 0);
        }
        Ok(end)
    }

    /// The number of bytes of content.
    pub(crate) fn size(&self) -> Result<u64> {
        let is_known =
            self.kind == EncryptedKind::Whole && self.inner.size()? == self.physical.load(Ordering::Acquire);
        if is_known { Ok(self.content.load(Ordering::Acquire)) } else { Ok(self.find_end()?.content) }
    }

    /// Finds the end of the content. Reads the last page. In a log, reads pages backward until a
    /// page has an authentic frame.
    /// # Errors
    /// `Corruption` if the last page of a file of kind `Whole` is damaged or lacks the end mark.
    /// `Corruption` if a `StrictLog` ends in bytes that no crash leaves · `IoError`.
    pub(crate) fn find_end(&self) -> Result<FramePlace> {
        let physical = self.inner.size()?;
        with_pages(|memory| {
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

    /// Finds the end of a file of kind `Whole`, from its last page.
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

    /// Finds the first authentic frame at or behind `at` in the page. The frame's content must
    /// begin at or behind `least`. Leaves `page` encrypted.
    fn scan(&self, page: &[u8], mut at: usize, least: u64) -> Option<(usize, FrameHead)> {
        while at + FRAME_OVERHEAD <= page.len() {
            if page[at] == FRAME_MARK
                && let Some(head) = self.check(&page[at..])
                && head.offset >= least
            {
                return Some((at, head));
            }
            at += 1;
        }
        None
    }

    /// The head of the frame at the front of `bytes`; `None` if there is no authentic frame. Leaves
    /// `bytes` encrypted.
    fn check(&self, bytes: &[u8]) -> Option<FrameHead> {
        let frame = bytes.get(..FrameHead::decode(bytes)?.frame_bytes())?;
        let mut copy = [0; PAGE_BYTES];
        let copy = &mut copy[..frame.len()];
        copy.copy_from_slice(frame);
        perf_time!(decrypt_data_nanos, SystemClock, self.key.open(copy))
    }

    /// Reads `buf.len()` bytes of content at `offset`, fewer only at the end. Returns the number of
    /// bytes read.
    /// # Errors
    /// `Corruption` with the file and offset, unless the file is of kind `Log` · `IoError`.
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
        with_pages(|memory| {
            let place = if self.is_uniform.load(Ordering::Acquire) {
                let page = offset / MOST_CONTENT as u64;
                FramePlace { physical: (page + 1) * PAGE, content: page * MOST_CONTENT as u64 }
            } else {
                self.search(memory, offset)?
            };
            let (read, place) = self.read_frames(memory, place, offset, &mut buf[..wanted])?;
            if read < wanted { Err(self.damaged(place.physical)) } else { Ok(read) }
        })
    }

    fn read_log_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let cursor = *self.cursor.lock();
        let is_near = cursor.content <= offset && offset - cursor.content < NEAR_BYTES;
        with_pages(|memory| {
            let place = if is_near { cursor } else { self.search(memory, offset)? };
            let (read, place) = self.read_frames(memory, place, offset, buf)?;
            *self.cursor.lock() = place;
            Ok(read)
        })
    }

    /// Finds the place of an authentic frame at or before `offset`; [`FRONT`] if it finds none.
    /// Unless heads are damaged, the frame is the first one of the page that holds `offset`.
    ///
    /// Reads log2(pages) heads, and the page that they lead to. If the first frame of that page is
    /// not authentic, its head may have misled the search. The search then repeats among the pages
    /// before it. So each damaged page that the search is led to costs one more search.
    ///
    /// A damaged head that is unreadable, or claims a larger offset, leads to an earlier page. The
    /// caller then steps over each frame between there and `offset`, at most twice.
    fn search(&self, memory: &mut Pages, offset: u64) -> Result<FramePlace> {
        let mut high = self.inner.size()?.div_ceil(PAGE).saturating_sub(1);
        while high > 0 {
            // A page has at most `MOST_CONTENT` bytes of content, so `offset` lies in this page or
            // behind it.
            let low = (offset / MOST_CONTENT as u64).min(high - 1);
            let page = self.guess_page(offset, low, high)?;
            let physical = (page + 1) * PAGE;
            memory.load(&*self.inner, physical, 1)?;
            if let Some(head) = self.check(memory.rest_of_page(physical))
                && head.offset <= offset
            {
                return Ok(FramePlace { physical, content: head.offset });
            }
            high = page;
        }
        Ok(FRONT)
    }

    /// Finds the last page in `low..high` whose first head claims an offset of at most `offset`.
    /// Trusts the heads. Returns `low` if there is no such page.
    fn guess_page(&self, offset: u64, mut low: u64, mut high: u64) -> Result<u64> {
        while low + 1 < high {
            let middle = low.midpoint(high);
            let mut head = [0; HEAD_BYTES];
            let read = self.inner.read_at((middle + 1) * PAGE, &mut head)?;
            match FrameHead::decode(&head[..read]) {
                Some(head) if head.offset <= offset => low = middle,
                _ => high = middle,
            }
        }
        Ok(low)
    }

    /// Reads content at `offset` from the frames at `place` and behind. `place` is [`FRONT`], a
    /// computed page, an authentic frame, or the end of one. Returns the number of bytes read, and
    /// the place where a read of the next bytes should start. `memory` holds pages of this file, or
    /// nothing.
    ///
    /// A frame before `offset` is first stepped over without a check. If no authentic frame follows
    /// where its head leads, the read goes back and decrypts each frame.
    fn read_frames(
        &self,
        memory: &mut Pages,
        place: FramePlace,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<(usize, FramePlace)> {
        let (mut at, mut done) = (place, 0);
        // `checked` is `place`, or the start or end of an authentic frame.
        let (mut checked, mut checks_all) = (place, false);
        while done < buf.len() {
            let wanted = offset + done as u64;
            at.physical = next_frame(at.physical);
            if !memory.has(at.physical) {
                let left = (wanted - at.content) as usize + (buf.len() - done);
                memory.load(&*self.inner, at.physical, left.div_ceil(MOST_CONTENT))?;
            }
            let page = memory.rest_of_page(at.physical);
            if let Some((head, copied)) = self.take(page, (at.content, wanted), checks_all, &mut buf[done..])
            {
                done += copied;
                let content = at.content + u64::from(head.len);
                if offset + done as u64 >= content || copied == 0 {
                    at = FramePlace { physical: at.physical + head.frame_bytes() as u64, content };
                }
                if copied > 0 || checks_all {
                    checked = at;
                }
                continue;
            }
            if !checks_all {
                checks_all = true;
                at = checked;
                // The attempt to decrypt may have changed the bytes.
                memory.len = 0;
                continue;
            }
            let Some(next) = self.behind_damage(memory, at)? else { break };
            let lost = next.content.saturating_sub(wanted).min((buf.len() - done) as u64) as usize;
            buf[done..done + lost].fill(LOST);
            done += lost;
            if offset + done as u64 >= next.content {
                at = next;
            }
            checked = at;
        }
        Ok((done, at))
    }

    /// Copies content from the frame at the front of `page`, from the offset `wanted` on. The
    /// frame's content must begin at the offset `content`. Decrypts a frame that ends before
    /// `wanted` only if `checks_all`.
    fn take(
        &self,
        page: &mut [u8],
        (content, wanted): (u64, u64),
        checks_all: bool,
        buf: &mut [u8],
    ) -> Option<(FrameHead, usize)> {
        let head = FrameHead::decode(page).filter(|head| head.offset == content)?;
        let frame = page.get_mut(..head.frame_bytes())?;
        let len = usize::from(head.len);
        let skipped = ((wanted - content) as usize).min(len);
        if skipped < len || checks_all {
            perf_time!(decrypt_data_nanos, SystemClock, self.key.open(frame))?;
        }
        let part = &frame[HEAD_BYTES + skipped..HEAD_BYTES + len];
        let copied = part.len().min(buf.len());
        buf[..copied].copy_from_slice(&part[..copied]);
        Some((head, copied))
    }

    /// Whether the bytes behind `end` may be the leftover of a crash: zeros, or a frame that the
    /// end of the file cuts.
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

    /// Whether the bytes are a whole frame with a wrong length in its head.
    fn has_other_length(&self, bytes: &[u8], head: FrameHead) -> bool {
        let Some(len) = bytes.len().checked_sub(FRAME_OVERHEAD) else { return false };
        let head = FrameHead { len: len as u16, ..head };
        let mut frame = bytes.to_vec();
        frame[..HEAD_BYTES].copy_from_slice(&head.encode());
        self.key.open(&mut frame).is_some()
    }

    /// Finds the place where a read continues if there is no authentic frame at `at`. Reads the
    /// page again. If the frame is there now, the result is `at`. Otherwise a read of a file of
    /// kind `Log` continues at the next authentic frame. `None` at the end of a log.
    /// # Errors
    /// `Corruption` if a file that is not of kind `Log` is damaged at `at` · `IoError`.
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
        // The writer may have appended meanwhile, or the device now returns the right bytes.
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

    /// Finds the next authentic frame of a log, at or behind `from`.
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
