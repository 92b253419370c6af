//! The locks of one leaf: disjoint fragments of the key space in order, each with mode and owners.
//!
//! In: a span and an owner. Out: whether the owner holds the span; or the span taken, released or
//! downgraded, reported as [`Pieces`] and as a difference in bytes. Nothing here waits.
//!
//! Invariants
//!  1. Fragments are disjoint and sorted. None is empty.
//!  2. Each has at least one owner; an exclusive one has exactly one. Owners are sorted by id.
//!  3. A fragment without `more.hi` is a point: it starts before its key and ends after it.

use crate::cut::{Cut, CutBuf, CutOrder, CutPosition, KeySpan, KeySpanBuf};
use crate::key::KeyBuf;
use crate::owner::LockOwner;
use crate::{LockMode, cut::EndpointBuf};
use esker_base::sync::Arc;
use esker_base::sync::atomic::Ordering;
use std::collections::HashMap;
use std::ops::Range;

/// A locked piece of the key space.
#[derive(Debug)]
pub(crate) struct LockFragment {
    key: KeyBuf,
    owner: Arc<LockOwner>,
    more: Option<Box<More>>,
    place: CutPosition,
    mode: LockMode,
    /// Made by escalation: may cover keys that its owner never requested. Always exclusive.
    escalated: bool,
}

const _: () = assert!(size_of::<LockFragment>() == 48);

/// Fields that few fragments need.
#[derive(Debug, Default)]
struct More {
    hi: Option<CutBuf>,
    others: Vec<Arc<LockOwner>>,
}

/// The parts of a request that its owner did not hold before in the requested mode or a stronger
/// one.
#[derive(Debug)]
pub(crate) enum Pieces {
    /// The owner held all of it already.
    Nothing,
    /// The owner held none of it and took the whole request.
    Whole,
    Some(Vec<FragmentPiece>),
}

/// One span that the owner took or upgraded.
#[derive(Debug)]
pub(crate) struct FragmentPiece {
    pub(crate) change: FragmentChange,
    pub(crate) span: KeySpanBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FragmentChange {
    /// The owner did not hold the span before.
    Taken,
    /// The owner held the span shared before, and holds it exclusive now.
    Upgraded,
}

/// The treatment, at a release, of locks that escalation has joined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Escalated {
    /// Releases the requested part; the sweep at the transaction's end releases the rest.
    Release,
    /// Keeps joined locks until everything is released, because a joined range does not record its
    /// requested parts.
    Keep,
}

impl LockFragment {
    fn new(span: KeySpan<'_>, mode: LockMode, owner: Arc<LockOwner>) -> LockFragment {
        let more =
            (!span.is_point()).then(|| Box::new(More { hi: Some(span.hi.to_buf()), others: Vec::new() }));
        LockFragment {
            key: KeyBuf::new(span.lo.key),
            owner,
            more,
            place: span.lo.place,
            mode,
            escalated: false,
        }
    }

    #[inline]
    pub(crate) fn span(&self) -> KeySpan<'_> {
        let key = self.key.as_slice();
        let hi = match self.more.as_ref().and_then(|more| more.hi.as_ref()) {
            Some(hi) => hi.as_cut(),
            None => Cut { key, place: CutPosition::After },
        };
        KeySpan { lo: Cut { key, place: self.place }, hi }
    }

    pub(crate) fn mode(&self) -> LockMode {
        self.mode
    }

    pub(crate) fn owners(&self) -> impl Iterator<Item = &Arc<LockOwner>> {
        std::iter::once(&self.owner).chain(self.others())
    }

    fn others(&self) -> &[Arc<LockOwner>] {
        self.more.as_ref().map_or(&[], |more| &more.others)
    }

    #[inline]
    fn is_sole_owner(&self, id: u64) -> bool {
        self.owner.id == id && self.others().is_empty()
    }

    /// True if the fragment is exactly `span`, not joined by escalation, and only `id` owns it.
    #[inline]
    fn is_just(&self, span: KeySpan<'_>, id: u64) -> bool {
        if self.owner.id != id || self.escalated || self.key.as_slice() != span.lo.key {
            return false;
        }
        match self.more.as_deref() {
            None => span.is_point(),
            Some(More { hi: Some(hi), others }) => {
                let same_places = self.place == span.lo.place && hi.place == span.hi.place;
                others.is_empty() && same_places && hi.key.as_slice() == span.hi.key
            }
            Some(_) => false,
        }
    }

    #[inline]
    pub(crate) fn is_owned_by(&self, id: u64) -> bool {
        self.owner.id == id || self.others().iter().any(|o| o.id == id)
    }

    /// Bytes of the fragment, with keys and owners.
    pub(crate) fn bytes(&self) -> i64 {
        let more = self.more.as_ref().map_or(0, |more| {
            let hi = more.hi.as_ref().map_or(0, |hi| hi.key.heap_bytes());
            size_of::<More>() + hi + more.others.capacity() * size_of::<Arc<LockOwner>>()
        });
        (size_of::<LockFragment>() + self.key.heap_bytes() + more) as i64
    }

    /// Splits off the part up to `at`, which lies inside; `self` keeps the rest.
    fn split_off_left(&mut self, at: Cut<'_>) -> LockFragment {
        let old = self.span();
        let left_span = KeySpan { lo: old.lo, hi: at };
        let mut left = LockFragment::new(left_span, self.mode, self.owner.clone());
        let mut right = LockFragment::new(KeySpan { lo: at, hi: old.hi }, self.mode, self.owner.clone());
        left.set_others(self.others().to_vec());
        right.set_others(self.others().to_vec());
        (left.escalated, right.escalated) = (self.escalated, self.escalated);
        *self = right;
        left
    }

    fn set_others(&mut self, others: Vec<Arc<LockOwner>>) {
        match &mut self.more {
            Some(more) => more.others = others,
            None if others.is_empty() => return,
            None => self.more = Some(Box::new(More { hi: None, others })),
        }
        if self.more.as_ref().is_some_and(|more| more.hi.is_none() && more.others.is_empty()) {
            self.more = None;
        }
    }

    fn set_owners(&mut self, mut owners: Vec<Arc<LockOwner>>) {
        owners.sort_by_key(|o| o.id);
        let first = owners.remove(0);
        self.owner = first;
        self.set_others(owners);
    }

    fn add_owner(&mut self, owner: Arc<LockOwner>) {
        let owners = self.owners().cloned().chain([owner]).collect();
        self.set_owners(owners);
    }

    /// Removes an owner. False if none is left.
    fn remove_owner(&mut self, id: u64) -> bool {
        let owners: Vec<_> = self.owners().filter(|o| o.id != id).cloned().collect();
        if owners.is_empty() {
            return false;
        }
        self.set_owners(owners);
        true
    }

    fn has_same_owners(&self, other: &LockFragment) -> bool {
        self.owner.id == other.owner.id
            && self.others().iter().map(|o| o.id).eq(other.others().iter().map(|o| o.id))
    }
}

/// True if locks of these modes by different owners must not overlap.
#[inline]
pub(crate) fn conflict(a: LockMode, b: LockMode) -> bool {
    a == LockMode::Exclusive || b == LockMode::Exclusive
}

/// The fragments of a leaf.
#[derive(Debug, Default)]
pub(crate) struct Fragments {
    all: Vec<LockFragment>,
}

impl Fragments {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Bytes allocated for the fragments.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(crate) fn allocated_bytes(&self) -> usize {
        let beside: i64 = self.all.iter().map(|f| f.bytes() - size_of::<LockFragment>() as i64).sum();
        self.all.capacity() * size_of::<LockFragment>() + beside as usize
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, LockFragment> {
        self.all.iter()
    }

    /// Drops everything and returns the bytes freed.
    pub(crate) fn clear(&mut self) -> i64 {
        self.all.drain(..).map(|f| f.bytes()).sum()
    }

    /// Index of the first fragment that ends behind `lo`.
    #[inline]
    fn first_behind(&self, order: &CutOrder, lo: Cut<'_>) -> usize {
        self.all.partition_point(|f| order.cmp(f.span().hi, lo).is_le())
    }

    /// Indexes of the fragments that overlap `span`.
    #[inline]
    fn overlapping(&self, order: &CutOrder, span: KeySpan<'_>) -> Range<usize> {
        let first = self.first_behind(order, span.lo);
        let count = self.all[first..].iter().take_while(|f| order.cmp(f.span().lo, span.hi).is_lt()).count();
        first..first + count
    }

    /// The fragments that overlap `span`, in order.
    pub(crate) fn within<'a>(
        &'a self,
        order: &'a CutOrder,
        span: KeySpan<'a>,
    ) -> impl Iterator<Item = &'a LockFragment> + 'a {
        let first = self.first_behind(order, span.lo);
        self.all[first..].iter().take_while(move |f| order.cmp(f.span().lo, span.hi).is_lt())
    }

    /// True if `id` holds all of `span` in this mode or a stronger one.
    pub(crate) fn holds(&self, order: &CutOrder, span: KeySpan<'_>, mode: LockMode, id: u64) -> bool {
        let mut at = span.lo;
        for fragment in self.within(order, span) {
            let own = fragment.span();
            if order.cmp(own.lo, at).is_gt() || fragment.mode < mode || !fragment.is_owned_by(id) {
                return false;
            }
            at = own.hi;
        }
        order.cmp(at, span.hi).is_ge()
    }

    /// Takes `span` if no owner holds any of it; returns the difference in bytes.
    #[inline]
    pub(crate) fn take_free(
        &mut self,
        order: &CutOrder,
        span: KeySpan<'_>,
        mode: LockMode,
        owner: &Arc<LockOwner>,
    ) -> Option<i64> {
        let first = self.first_behind(order, span.lo);
        if self.all.get(first).is_some_and(|f| order.cmp(f.span().lo, span.hi).is_lt()) {
            return None;
        }
        let fragment = LockFragment::new(span, mode, owner.clone());
        let bytes = fragment.bytes();
        self.insert(first, fragment);
        Some(bytes)
    }

    /// Takes `span`. Any conflicting owner has expired and loses its lock.
    pub(crate) fn take(
        &mut self,
        order: &CutOrder,
        span: KeySpan<'_>,
        mode: LockMode,
        owner: &Arc<LockOwner>,
    ) -> (Pieces, i64) {
        if let Some(bytes) = self.take_free(order, span, mode, owner) {
            return (Pieces::Whole, bytes);
        }
        self.take_beside_others(order, span, mode, owner)
    }

    #[inline]
    fn insert(&mut self, at: usize, fragment: LockFragment) {
        if self.all.len() == self.all.capacity() {
            // Grows by a quarter instead of doubling: the byte counts do not include spare room, so
            // it must stay small.
            self.all.reserve_exact((self.all.len() / 4).max(4));
        }
        self.all.insert(at, fragment);
    }

    fn take_beside_others(
        &mut self,
        order: &CutOrder,
        span: KeySpan<'_>,
        mode: LockMode,
        owner: &Arc<LockOwner>,
    ) -> (Pieces, i64) {
        let range = self.overlapping(order, span);
        let mut new = Vec::new();
        let mut pieces = Vec::new();
        let mut at = span.lo.to_buf();
        let fill = |new: &mut Vec<LockFragment>, pieces: &mut Vec<FragmentPiece>, gap: KeySpan<'_>| {
            if !order.is_empty(gap) {
                new.push(LockFragment::new(gap, mode, owner.clone()));
                add_piece(order, pieces, FragmentChange::Taken, gap);
            }
        };
        let edit = self.cut_out(order, range, span);
        let (place, old_bytes) = (edit.place, edit.bytes);
        new.extend(edit.left);
        for mut fragment in edit.inside {
            fill(&mut new, &mut pieces, KeySpan { lo: at.as_cut(), hi: fragment.span().lo });
            if let Some(change) = fragment.join(mode, owner) {
                add_piece(order, &mut pieces, change, fragment.span());
            }
            at = fragment.span().hi.to_buf();
            new.push(fragment);
        }
        fill(&mut new, &mut pieces, KeySpan { lo: at.as_cut(), hi: span.hi });
        new.extend(edit.right);
        let bytes = new.iter().map(LockFragment::bytes).sum::<i64>() - old_bytes;
        self.all.splice(place..place, new);
        if pieces.is_empty() { (Pieces::Nothing, bytes) } else { (Pieces::Some(pieces), bytes) }
    }

    /// Removes the fragments of `range`; those that extend beyond `span` are cut at its ends.
    fn cut_out(&mut self, order: &CutOrder, range: Range<usize>, span: KeySpan<'_>) -> CutOut {
        let place = range.start;
        let mut inside: Vec<LockFragment> = self.all.drain(range).collect();
        let bytes = inside.iter().map(LockFragment::bytes).sum();
        let left = inside
            .first_mut()
            .filter(|f| order.cmp(f.span().lo, span.lo).is_lt())
            .map(|f| f.split_off_left(span.lo));
        let right = inside.last_mut().filter(|f| order.cmp(f.span().hi, span.hi).is_gt()).map(|f| {
            let inner = f.split_off_left(span.hi);
            std::mem::replace(f, inner)
        });
        CutOut { place, left, inside, right, bytes }
    }

    /// Releases the part of `span` that `id` holds; returns the difference in bytes, `None` for
    /// nothing.
    pub(crate) fn release(
        &mut self,
        order: &CutOrder,
        span: KeySpan<'_>,
        id: u64,
        escalated: Escalated,
    ) -> Option<i64> {
        let first = self.first_behind(order, span.lo);
        if self.all.get(first).is_some_and(|f| f.is_just(span, id)) {
            let fragment = self.all.remove(first);
            self.shrink();
            return Some(-fragment.bytes());
        }
        let range = self.overlapping(order, span);
        if !self.all[range.clone()].iter().any(|f| f.gives_up(id, escalated)) {
            return None;
        }
        let edit = self.cut_out(order, range, span);
        let (place, old_bytes) = (edit.place, edit.bytes);
        let kept = edit
            .inside
            .into_iter()
            .filter_map(|mut f| (!f.gives_up(id, escalated) || f.remove_owner(id)).then_some(f));
        let new: Vec<LockFragment> = edit.left.into_iter().chain(kept).chain(edit.right).collect();
        let bytes = new.iter().map(LockFragment::bytes).sum::<i64>() - old_bytes;
        let count = new.len();
        self.all.splice(place..place, new);
        let saved = self.join_neighbours(order, place, count);
        self.shrink();
        Some(bytes - saved)
    }

    /// Releases everything that `id` holds, without comparing keys; returns the difference in
    /// bytes, `None` for nothing.
    pub(crate) fn purge(&mut self, id: u64) -> Option<i64> {
        let held = self.all.iter().filter(|f| f.is_owned_by(id));
        let old: i64 = held.map(LockFragment::bytes).sum();
        if old == 0 {
            return None;
        }
        let mut new = 0;
        self.all.retain_mut(|f| {
            if !f.is_owned_by(id) {
                return true;
            }
            let stays = f.remove_owner(id);
            new += if stays { f.bytes() } else { 0 };
            stays
        });
        self.shrink();
        Some(new - old)
    }

    /// Makes the exclusive locks of `id` within `span` shared; `None` if there are none.
    pub(crate) fn downgrade(&mut self, order: &CutOrder, span: KeySpan<'_>, id: u64) -> Option<i64> {
        let is_hit = |f: &LockFragment| f.mode == LockMode::Exclusive && f.is_owned_by(id);
        let range = self.overlapping(order, span);
        if !self.all[range.clone()].iter().any(is_hit) {
            return None;
        }
        let mut edit = self.cut_out(order, range, span);
        for fragment in edit.inside.iter_mut().filter(|f| is_hit(f)) {
            fragment.mode = LockMode::Shared;
            fragment.escalated = false;
        }
        let new: Vec<LockFragment> = edit.left.into_iter().chain(edit.inside).chain(edit.right).collect();
        let bytes = new.iter().map(LockFragment::bytes).sum::<i64>() - edit.bytes;
        let count = new.len();
        self.all.splice(edit.place..edit.place, new);
        let saved = self.join_neighbours(order, edit.place, count);
        Some(bytes - saved)
    }

    /// Joins touching fragments with the same mode, owners and `escalated`. Visits `count`
    /// fragments from `place` on, and the neighbour on each side. Returns bytes saved.
    fn join_neighbours(&mut self, order: &CutOrder, place: usize, count: usize) -> i64 {
        let mut saved = 0;
        let mut index = place.saturating_sub(1);
        let mut end = (place + count + 1).min(self.all.len());
        while index + 1 < end {
            let (a, b) = (&self.all[index], &self.all[index + 1]);
            let alike = a.mode == b.mode && a.escalated == b.escalated && a.has_same_owners(b);
            if alike && order.cmp(a.span().hi, b.span().lo).is_eq() {
                saved += self.join_range(index..index + 2);
                end -= 1;
            } else {
                index += 1;
            }
        }
        saved
    }

    /// Replaces the fragments of `range` by one that spans them all. Returns bytes saved.
    fn join_range(&mut self, range: Range<usize>) -> i64 {
        let old: i64 = self.all[range.clone()].iter().map(LockFragment::bytes).sum();
        let (first, last) = (&self.all[range.start], &self.all[range.end - 1]);
        let span = KeySpan { lo: first.span().lo, hi: last.span().hi };
        let mut joined = LockFragment::new(span, first.mode, first.owner.clone());
        joined.set_others(first.others().to_vec());
        joined.escalated = first.escalated;
        let saved = old - joined.bytes();
        self.all.splice(range, [joined]);
        saved
    }

    /// Joins neighbouring exclusive fragments of each of `owners`, if `may_bridge` permits the gap
    /// between them. Marks each owner whose locks it joined. Returns the number of locks removed
    /// and the bytes saved.
    pub(crate) fn escalate(
        &mut self,
        owners: &HashMap<u64, &LockOwner>,
        may_bridge: impl Fn(Cut<'_>, Cut<'_>) -> bool,
    ) -> (usize, i64) {
        let (mut merged, mut saved) = (0, 0);
        let mut start = 0;
        while start < self.all.len() {
            let owner = owners.get(&self.all[start].owner.id);
            let mut end = start + 1;
            while end < self.all.len() {
                let (a, b) = (&self.all[end - 1], &self.all[end]);
                let is_joinable = |f: &LockFragment| {
                    f.mode == LockMode::Exclusive && owner.is_some_and(|owner| f.is_sole_owner(owner.id))
                };
                let alike = is_joinable(a) && is_joinable(b);
                if !alike || !may_bridge(a.span().hi, b.span().lo) {
                    break;
                }
                end += 1;
            }
            if end > start + 1 {
                merged += end - start - 1;
                saved += self.join_range(start..end);
                self.all[start].escalated = true;
                owner.inspect(|owner| owner.escalated.store(true, Ordering::Release));
            }
            start += 1;
        }
        self.shrink();
        (merged, saved)
    }

    /// Splits off everything from `at` on, and cuts a fragment that spans `at`. Returns the part
    /// behind `at`, and the difference in bytes of both parts together.
    pub(crate) fn split_off(&mut self, order: &CutOrder, at: Cut<'_>) -> (Fragments, i64) {
        let index = self.first_behind(order, at);
        let mut right: Vec<LockFragment> = self.all.drain(index..).collect();
        let mut bytes = 0;
        if let Some(first) = right.first_mut()
            && order.cmp(first.span().lo, at).is_lt()
        {
            let old = first.bytes();
            let left = first.split_off_left(at);
            bytes = left.bytes() + first.bytes() - old;
            self.all.push(left);
        }
        self.all.shrink_to_fit();
        (Fragments { all: right }, bytes)
    }

    /// The start of the middle fragment. With two fragments or more, this cut has fragments on both
    /// sides.
    pub(crate) fn middle(&self) -> Option<CutBuf> {
        let middle = self.all.get(self.all.len() / 2)?;
        Some(CutBuf { key: middle.key.clone(), place: middle.place })
    }

    fn shrink(&mut self) {
        // Frees memory after a burst; the margin keeps short transactions from allocating again and
        // again.
        if self.all.capacity() > 16 && self.all.len() < self.all.capacity() / 4 {
            self.all.shrink_to(self.all.len() * 2);
        }
    }

    /// Checks invariant 1, and that each exclusive fragment has one owner.
    pub(crate) fn check(&self, order: &CutOrder) -> Result<(), String> {
        for fragment in &self.all {
            if order.is_empty(fragment.span()) {
                return Err(format!("empty fragment {fragment:?}"));
            }
            if fragment.mode == LockMode::Exclusive && !fragment.others().is_empty() {
                return Err(format!("exclusive with several owners {fragment:?}"));
            }
        }
        match self.all.windows(2).find(|w| order.cmp(w[0].span().hi, w[1].span().lo).is_gt()) {
            Some(pair) => Err(format!("overlap or disorder {pair:?}")),
            None => Ok(()),
        }
    }
}

/// Adds a piece, or extends the last one if the new one continues it.
fn add_piece(order: &CutOrder, pieces: &mut Vec<FragmentPiece>, change: FragmentChange, span: KeySpan<'_>) {
    match pieces.last_mut() {
        Some(last) if last.change == change && order.cmp(last.span.hi.as_cut(), span.lo).is_eq() => {
            last.span.hi = span.hi.to_buf();
        }
        _ => pieces.push(FragmentPiece { change, span: span.to_buf() }),
    }
}

struct CutOut {
    place: usize,
    left: Option<LockFragment>,
    inside: Vec<LockFragment>,
    right: Option<LockFragment>,
    /// Bytes that the removed fragments had before they were cut.
    bytes: i64,
}

impl LockFragment {
    fn gives_up(&self, id: u64, escalated: Escalated) -> bool {
        self.is_owned_by(id) && !(self.escalated && escalated == Escalated::Keep)
    }

    /// Adds `owner`. Owners that conflict have expired and are removed.
    fn join(&mut self, mode: LockMode, owner: &Arc<LockOwner>) -> Option<FragmentChange> {
        let is_own = self.is_owned_by(owner.id);
        if is_own && self.mode >= mode {
            return None;
        }
        if conflict(mode, self.mode) {
            self.mode = mode;
            self.set_owners(vec![owner.clone()]);
            self.escalated &= is_own;
            return Some(if is_own { FragmentChange::Upgraded } else { FragmentChange::Taken });
        }
        self.add_owner(owner.clone());
        Some(FragmentChange::Taken)
    }

    /// The fragment's ends, as reports show them.
    pub(crate) fn endpoints(&self) -> (EndpointBuf, EndpointBuf) {
        (self.span().lo.to_endpoint(), self.span().hi.to_endpoint())
    }
}
