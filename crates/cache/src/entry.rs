//! One cached value: key, charge and the counts that decide when it is freed, in one piece of
//! memory.
//!
//! In: a value. Out: [`Handle`]s, which keep it alive and charged; [`Borrowed`]s, which keep it
//! alive as long as a guard.
//!
//! The state is one word:
//!
//! ```text
//! pins 32 | listings 8 | DEAD | UNCHARGED | TENTATIVE | BORROWED | EMPTY
//! ```
//!
//! *pins*: handles. *listings*: places of a table that name the entry (one; two while a bucket is
//! split).
//!
//! | state | found by | entered by | thread |
//! |---|---|---|---|
//! | private | its maker's handle | `tentative` | the inserter |
//! | tentative | all threads | a place of the table names it | the inserter |
//! | live | all threads | `confirm` | the inserter, unless the entry was killed before |
//! | dead, pinned | holders of handles | `erase` (by a user, or for a better duplicate), `erase_for_callback` | the thread that wins the update |
//! | dead, uncharged | no new thread; readers under guards | `erase` or `erase_unpinned` without pins, or the last `unpin` | the winner |
//! | dead, empty | no new thread; it was never borrowed and its value is gone | the same in the clock table | the winner, which drops the value |
//! | free | no thread | the last of pins and listings goes | the thread that takes it |
//! | standalone | holders of handles | `standalone`: dead from birth, never listed | its maker |
//!
//! Invariants
//!  1. DEAD is set once and stays: exactly one caller wins. A pin that finds it set takes itself
//!     back and fails, so legitimate pins of a dead entry only become fewer.
//!  2. A listing is released (`unlist`) only after every guard that was open when the place stopped
//!     naming the entry has been dropped. So within a guard an entry read from a place has a
//!     listing, `pin` may add without looking first, and taking that back never frees. When pins
//!     and listings are both zero no thread can find the entry: it is freed at once, by one thread.
//!  3. The charge is released exactly once: by the thread that sets UNCHARGED, or, without one,
//!     when the entry is freed.
//!  4. Key, charge, role, priority and value never change.
//!  5. A value is read only by a thread that holds a pin, or has found BORROWED set, or set it,
//!     while DEAD was not. BORROWED stays. So if a thread makes an entry dead and pinless that is
//!     not BORROWED, no thread reads the value, now or later. The value is freed at once, and only
//!     key and counts wait for guards. A cache that is too small evicts mostly unread values, and a
//!     thread that sleeps under a guard delays everything that waits.
//!  6. An entry keeps its home, and with it the memory it lies in: it may outlive the cache.

use crate::contract::{CachePriority, Visited};
use crate::key::CacheKey;
use crate::ledger::{ChargeTally, Ledger};
use crate::role::Role;
use crate::slab::{LINK_BYTES, Slab};
use esker_base::bytes::RawOwner;
use esker_base::sync::Arc;
#[cfg(not(esker_tsan))]
use esker_base::sync::atomic::fence;
use esker_base::sync::atomic::{AtomicU64, Ordering};
use esker_base::sync::epoch::Guard;
use std::cell::UnsafeCell;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::{self, NonNull};

const PIN: u64 = 1;
const PINS: u64 = (1 << 32) - 1;
const LISTING: u64 = 1 << 32;
const LISTINGS: u64 = 255 << 32;
const DEAD: u64 = 1 << 40;
const UNCHARGED: u64 = 1 << 41;
const TENTATIVE: u64 = 1 << 42;
const BORROWED: u64 = 1 << 43;
const EMPTY: u64 = 1 << 44;

/// More handles than this mean that a caller leaks them in a loop.
const MAX_PINS: u64 = PINS / 2;

/// The `slot` of an entry that lies in a box of its own.
const BOXED: u32 = u32::MAX;
/// Boxes show sanitizers the use of a freed entry; models of tables need not cover the slab.
const ALWAYS_BOXED: bool = cfg!(any(loom, shuttle, esker_asan));

/// State shared by the entries of one cache: their memory and their charges.
pub(crate) struct Home<V> {
    pub(crate) ledger: Arc<Ledger>,
    /// Its memory stays for later entries. There is enough for the largest number of entries that
    /// existed at one time.
    slab: Slab<CacheEntry<V>>,
}

impl<V> Home<V> {
    pub(crate) fn new(ledger: Ledger) -> Arc<Home<V>> {
        Arc::new(Home { ledger: Arc::new(ledger), slab: Slab::new() })
    }
}

/// A value's facts beside the value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub(crate) struct About {
    pub(crate) key: CacheKey,
    /// The charge, with the bytes of the entry itself if they are charged.
    pub(crate) charge: usize,
    pub(crate) role: Role,
    pub(crate) priority: CachePriority,
}

/// See the head of the file. Aligned so that the first 24 bytes, which a search reads, are in one
/// line of the processor's cache. A place of a table can also use the lowest four bits of the
/// address.
#[repr(C, align(32))]
pub(crate) struct CacheEntry<V> {
    state: AtomicU64,
    pub(crate) about: About,
    /// `None`: charged nowhere, and in a box. `CacheEntry::free` takes it out.
    home: ManuallyDrop<Option<Arc<Home<V>>>>,
    /// Its slot of the home's slab, or `BOXED`.
    slot: u32,
    /// The order in which entries were made: addresses differ from run to run, models must not.
    #[cfg(loom)]
    serial: usize,
    /// Gone once EMPTY is set.
    value: UnsafeCell<ManuallyDrop<V>>,
}

// SAFETY: threads share the value as behind an `Arc`; it is taken out by one, when no other reads
// it (invariant 5).
unsafe impl<V: Send + Sync> Sync for CacheEntry<V> {}

impl<V> CacheEntry<V> {
    /// Bytes of an entry beside its value.
    pub(crate) const OVERHEAD_BYTES: usize = size_of::<CacheEntry<V>>() - size_of::<V>() + LINK_BYTES;

    /// An entry with one pin and one listing, in no table yet. Its charge has been made.
    pub(crate) fn tentative(about: About, home: &Arc<Home<V>>, value: V) -> Handle<V> {
        CacheEntry::with_state(PIN | LISTING | TENTATIVE, about, home, value)
    }

    /// An entry that no table will ever name.
    pub(crate) fn standalone(about: About, home: &Arc<Home<V>>, value: V) -> Handle<V> {
        home.ledger.add_detached(about.charge);
        CacheEntry::with_state(PIN | DEAD, about, home, value)
    }

    fn with_state(state: u64, about: About, home: &Arc<Home<V>>, value: V) -> Handle<V> {
        home.ledger.count(about.role, 1, about.charge as isize);
        let mut entry = CacheEntry::new(state, about, Some(Arc::clone(home)), value);
        let place = if ALWAYS_BOXED { None } else { home.slab.take() };
        let Some((place, slot)) = place else { return entry.into_box() };
        entry.slot = slot;
        // SAFETY: the slot is ours and has room for an entry.
        unsafe { place.write(entry) };
        Handle { entry: place }
    }

    fn new(state: u64, about: About, home: Option<Arc<Home<V>>>, value: V) -> CacheEntry<V> {
        CacheEntry {
            state: AtomicU64::new(state),
            about,
            home: ManuallyDrop::new(home),
            slot: BOXED,
            #[cfg(loom)]
            serial: next_serial(),
            value: UnsafeCell::new(ManuallyDrop::new(value)),
        }
    }

    fn into_box(self) -> Handle<V> {
        Handle { entry: NonNull::from(Box::leak(Box::new(self))) }
    }

    /// The ledger that charges the entry, if there is one.
    #[inline]
    fn ledger(&self) -> Option<&Arc<Ledger>> {
        self.home.as_ref().map(|home| &home.ledger)
    }

    /// Adds a pin. Fails if the entry is dead.
    ///
    /// REQUIRES: a listing that stays for the duration (a guard, or the table's lock).
    #[inline]
    pub(crate) fn pin(&self) -> Option<Handle<V>> {
        // Relaxed: the place that the entry was read from published its content.
        let before = self.state.fetch_add(PIN, Ordering::Relaxed);
        if before & (DEAD | (MAX_PINS + 1)) == 0 {
            return Some(Handle { entry: NonNull::from(self) });
        }
        if before & PINS > MAX_PINS {
            std::process::abort();
        }
        self.state.fetch_sub(PIN, Ordering::Relaxed);
        None
    }

    /// Lets the value be read as long as the guard under which the entry was found. Fails if the
    /// entry is dead.
    #[inline]
    pub(crate) fn borrow(&self) -> bool {
        let state = self.state.load(Ordering::Acquire);
        let state = if state & (BORROWED | DEAD) == 0 {
            self.state.fetch_or(BORROWED, Ordering::Acquire)
        } else {
            state
        };
        state & DEAD == 0
    }

    /// The value.
    /// # Safety
    /// The caller holds a pin, or has borrowed the entry and is still under the guard; or the
    /// table's lock keeps it alive.
    #[inline]
    pub(crate) unsafe fn value(&self) -> &V {
        // SAFETY: such a caller's value is not taken out (invariant 5).
        unsafe { &*self.value.get() }
    }

    /// Drops the value.
    ///
    /// # Safety
    /// The caller has set EMPTY, and a guard or a pin keeps the entry.
    unsafe fn empty(&self) {
        // SAFETY: no thread reads the value any more, and only this one takes it out: EMPTY is set
        // once (invariant 5).
        let value = unsafe { &mut *self.value.get() };
        // SAFETY: the value is dropped once, because EMPTY is set once (invariant 5).
        unsafe { ManuallyDrop::drop(value) };
    }

    /// Adds a listing to the listing it was made with.
    pub(crate) fn list(&self) {
        self.state.fetch_add(LISTING, Ordering::Relaxed);
    }

    /// Confirms the entry. False if it was killed before.
    pub(crate) fn confirm(&self) -> bool {
        self.state.fetch_and(!TENTATIVE, Ordering::AcqRel) & DEAD == 0
    }

    /// Its rank among duplicates: no two existing entries have the same.
    pub(crate) fn rank(&self) -> usize {
        #[cfg(not(loom))]
        return std::ptr::from_ref(self).addr();
        #[cfg(loom)]
        self.serial
    }

    #[inline]
    pub(crate) fn is_dead(&self) -> bool {
        self.state.load(Ordering::Acquire) & DEAD != 0
    }

    #[cfg(loom)]
    pub(crate) fn is_uncharged(&self) -> bool {
        self.state.load(Ordering::Relaxed) & UNCHARGED != 0
    }

    pub(crate) fn is_pinned(&self) -> bool {
        self.state.load(Ordering::Relaxed) & PINS != 0
    }

    /// Marks the entry as dead, unless it is. Returns whether it was confirmed before. The charge
    /// is freed now, or with the last handle.
    pub(crate) fn erase(&self) -> Option<bool> {
        self.erase_if(|_| true, 0).map(|before| before & TENTATIVE == 0)
    }

    /// `erase`; frees a value that was never read at once.
    pub(crate) fn erase_under(&self, _guard: &Guard) -> Option<bool> {
        let before = self.erase_if(|_| true, EMPTY)?;
        self.empty_unread(before);
        Some(before & TENTATIVE == 0)
    }

    /// `erase_unpinned`; frees a value that was never read at once. Adds the charge to `tally`,
    /// which the caller settles under the same guard.
    pub(crate) fn erase_unpinned_under(&self, _guard: &Guard, tally: &mut ChargeTally) -> bool {
        let may = |state| state & (PINS | TENTATIVE) == 0;
        let Some((before, after)) = self.set_dead_if(may, EMPTY) else { return false };
        tally.add(self.about.charge, self.deferred_bytes(after));
        self.empty_unread(before);
        true
    }

    /// Finishes an `erase_if` with EMPTY, under the guard that keeps the entry.
    fn empty_unread(&self, before: u64) {
        if before & (PINS | BORROWED) == 0 {
            // SAFETY: `erase_if` has set EMPTY then.
            unsafe { self.empty() };
        }
    }

    /// Marks the entry as dead if it is tentative.
    pub(crate) fn erase_tentative(&self) -> bool {
        self.erase_if(|state| state & TENTATIVE != 0, 0).is_some()
    }

    /// Marks the entry as dead if it is confirmed and has no handle.
    pub(crate) fn erase_unpinned(&self) -> bool {
        self.erase_if(|state| state & (PINS | TENTATIVE) == 0, 0).is_some()
    }

    /// `erase_unpinned` that returns the last handle, for callbacks.
    pub(crate) fn erase_for_callback(&self) -> Option<Handle<V>> {
        self.erase_if(|state| state & (PINS | TENTATIVE) == 0, PIN)?;
        Some(Handle { entry: NonNull::from(self) })
    }

    /// Marks the entry as dead if `may` accepts its state, and adds `with`: PIN, or EMPTY if the
    /// value was never read. Returns the state before.
    fn erase_if(&self, may: impl Fn(u64) -> bool, with: u64) -> Option<u64> {
        let (before, after) = self.set_dead_if(may, with)?;
        if let Some(ledger) = self.ledger() {
            match after & UNCHARGED {
                0 => ledger.add_detached(self.about.charge),
                _ => ledger.uncharge_deferred(self.about.charge, self.deferred_bytes(after)),
            }
        }
        Some(before)
    }

    /// `erase_if` that leaves the charge to the caller. Returns the state before and after.
    fn set_dead_if(&self, may: impl Fn(u64) -> bool, with: u64) -> Option<(u64, u64)> {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            if state & DEAD != 0 || !may(state) {
                return None;
            }
            let mut after = (state + (with & PINS)) | DEAD;
            if after & PINS == 0 {
                after |= UNCHARGED | if state & BORROWED == 0 { with & EMPTY } else { 0 };
            }
            match self.state.compare_exchange_weak(state, after, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Some((state, after)),
                Err(now) => state = now,
            }
        }
    }

    /// Bytes that wait for guards when it has died, and whether its value is among them.
    fn deferred_bytes(&self, state: u64) -> (usize, bool) {
        if state & EMPTY == 0 { (self.about.charge, true) } else { (CacheEntry::<V>::OVERHEAD_BYTES, false) }
    }

    /// The entry for a visitor. `overhead` of the charge is the entry's own.
    ///
    /// # Safety
    /// The caller holds a pin, or has found or set BORROWED while DEAD was not set (invariant 5).
    pub(crate) unsafe fn visited(&self, overhead: usize) -> Visited<'_, V> {
        Visited {
            key: &self.about.key,
            // SAFETY: the contract of this function is that of `value`.
            value: unsafe { self.value() },
            charge: self.about.charge - overhead,
            role: self.about.role,
            priority: self.about.priority,
            is_pinned: self.is_pinned(),
        }
    }

    /// A reference that lasts as long as a guard.
    ///
    /// # Safety
    /// The entry was read from a place of a table within this guard.
    pub(crate) unsafe fn under(entry: NonNull<CacheEntry<V>>, _guard: &Guard) -> &CacheEntry<V> {
        // SAFETY: it had a listing within the guard, which therefore stays as long as the guard
        // (invariant 2).
        unsafe { entry.as_ref() }
    }

    /// Releases a listing.
    ///
    /// # Safety
    /// The caller owns the listing, and every guard that was open while a place named the entry is
    /// dropped.
    pub(crate) unsafe fn unlist(entry: NonNull<CacheEntry<V>>) {
        // SAFETY: the listing keeps it.
        let before = unsafe { entry.as_ref() }.state.fetch_sub(LISTING, Ordering::Release);
        if before & (PINS | LISTINGS) == LISTING {
            // SAFETY: that was the last listing, there is no pin, and no thread can find the entry
            // any more.
            unsafe { CacheEntry::free(entry) };
        }
    }

    /// Frees the entry and its value.
    /// # Safety
    /// Neither pins nor listings are left, and no guard protects it.
    unsafe fn free(entry: NonNull<CacheEntry<V>>) {
        // Earlier releases of pins happen before this: all uses of the value lie before its end.
        #[cfg(not(esker_tsan))]
        fence(Ordering::Acquire);
        // A load has the effect of that fence for ThreadSanitizer, which does not see fences.
        #[cfg(esker_tsan)]
        // SAFETY: the caller has the last reference to the entry, and frees it below.
        unsafe { entry.as_ref() }.state.load(Ordering::Acquire);
        // SAFETY: the caller has the last reference to the entry.
        let last = unsafe { entry.as_ref() };
        // SAFETY: it is read once; dropping the entry leaves the field alone.
        let home = ManuallyDrop::into_inner(unsafe { ptr::read(&last.home) });
        let (place, slot) = (entry.as_ptr(), last.slot);
        if slot == BOXED {
            // SAFETY: then it came from a Box.
            drop(unsafe { Box::from_raw(place) });
        } else {
            // SAFETY: no thread refers to it any more, and its memory lives as long as its home.
            unsafe { ptr::drop_in_place(place) };
            if let Some(home) = &home {
                home.slab.release(slot);
            }
        }
    }
}

#[cfg(loom)]
fn next_serial() -> usize {
    thread_local! {
        static NEXT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }
    NEXT.replace(NEXT.get() + 1)
}

impl<V> Drop for CacheEntry<V> {
    fn drop(&mut self) {
        let state = self.state.load(Ordering::Relaxed);
        if state & EMPTY == 0 {
            // SAFETY: the value exists, and no other thread refers to the entry.
            unsafe { self.empty() };
        }
        let Some(ledger) = self.ledger() else { return };
        let charge = self.about.charge;
        ledger.count(self.about.role, -1, -(charge as isize));
        if state & UNCHARGED != 0 {
            ledger.free_deferred(self.deferred_bytes(state));
            return;
        }
        if state & DEAD != 0 {
            ledger.sub_detached(charge);
        }
        ledger.uncharge(charge);
    }
}

/// The listing of a table whose readers pin only under its lock: released at once when dropped.
pub(crate) struct Listed<V>(NonNull<CacheEntry<V>>);

// SAFETY: it leads to the value as a handle does.
unsafe impl<V: Send + Sync> Send for Listed<V> {}

impl<V> Listed<V> {
    /// Confirms an entry that is in no table, and takes its listing.
    pub(crate) fn new(handle: &Handle<V>) -> Listed<V> {
        handle.entry().confirm();
        Listed(handle.entry)
    }
}

impl<V> Deref for Listed<V> {
    type Target = CacheEntry<V>;
    fn deref(&self) -> &CacheEntry<V> {
        // SAFETY: this is a listing.
        unsafe { self.0.as_ref() }
    }
}

impl<V> Drop for Listed<V> {
    fn drop(&mut self) {
        // SAFETY: this value owns the listing, and no thread reads the table under a guard.
        unsafe { CacheEntry::unlist(self.0) };
    }
}

/// A value of a cache, kept alive by a guard: readers count nothing.
pub struct Borrowed<'g, V>(&'g CacheEntry<V>);

impl<'g, V> Borrowed<'g, V> {
    /// `None` if it is dead.
    ///
    /// REQUIRES: the entry was read from a place of a table under the guard that it is borrowed
    /// from.
    #[inline]
    pub(crate) fn new(entry: &'g CacheEntry<V>) -> Option<Borrowed<'g, V>> {
        entry.borrow().then_some(Borrowed(entry))
    }

    /// The value, held beyond the guard; `None` if the cache has given it up meanwhile.
    #[inline]
    pub fn hold(&self) -> Option<Handle<V>> {
        self.0.pin()
    }
}

impl<V> Clone for Borrowed<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for Borrowed<'_, V> {}

impl<V> Deref for Borrowed<'_, V> {
    type Target = V;
    #[inline]
    fn deref(&self) -> &V {
        // SAFETY: it was borrowed, under a guard that lives as long as this.
        unsafe { self.0.value() }
    }
}

impl<V: fmt::Debug> fmt::Debug for Borrowed<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A value of a cache, kept alive and charged until the handle is dropped. Cloning and dropping are
/// one atomic update each. It may outlive the cache.
pub struct Handle<V> {
    entry: NonNull<CacheEntry<V>>,
}

// SAFETY: handles share the value, as `Arc` does.
unsafe impl<V: Send + Sync> Send for Handle<V> {}
// SAFETY: a shared handle gives shared access to the value, as `Arc` does.
unsafe impl<V: Send + Sync> Sync for Handle<V> {}

impl<V> Handle<V> {
    #[inline]
    pub(crate) fn entry(&self) -> &CacheEntry<V> {
        // SAFETY: the handle is a pin.
        unsafe { self.entry.as_ref() }
    }

    pub(crate) fn address(&self) -> NonNull<CacheEntry<V>> {
        self.entry
    }

    /// Its key.
    pub fn key(this: &Handle<V>) -> &CacheKey {
        &this.entry().about.key
    }

    /// Its charge in bytes, with those of the entry itself if they are charged.
    pub fn charge(this: &Handle<V>) -> usize {
        this.entry().about.charge
    }

    /// Its role.
    pub fn role(this: &Handle<V>) -> Role {
        this.entry().about.role
    }

    /// The value's priority.
    pub fn priority(this: &Handle<V>) -> CachePriority {
        this.entry().about.priority
    }

    /// Whether lookups may find it. Another thread may evict it at any time afterwards.
    pub fn is_in_cache(this: &Handle<V>) -> bool {
        !this.entry().is_dead()
    }

    /// Whether both hold the same value.
    pub fn ptr_eq(this: &Handle<V>, other: &Handle<V>) -> bool {
        this.entry == other.entry
    }

    /// A handle to a value of no cache, without a charge, for callers that hold both kinds.
    pub fn uncached(value: V) -> Handle<V> {
        let key = CacheKey::new((0, 0), 0);
        let about = About { key, charge: 0, role: Role::Misc, priority: CachePriority::Bottom };
        CacheEntry::new(PIN | DEAD, about, None, value).into_box()
    }

    /// Before the last pin of a dead entry is released, it frees the charge: afterwards the entry
    /// may be freed.
    #[cold]
    fn uncharge_if_last(&self) -> bool {
        let entry = self.entry();
        let Some(ledger) = entry.ledger().cloned() else { return false };
        let charge = entry.about.charge;
        let mut state = entry.state.load(Ordering::Relaxed);
        while state & (PINS | UNCHARGED) == PIN && state & LISTINGS != 0 {
            // A value that was never read under a guard is freed now; until then the pin keeps the
            // entry.
            let is_unread = state & BORROWED == 0;
            let after = if is_unread { state | UNCHARGED | EMPTY } else { (state - PIN) | UNCHARGED };
            match entry.state.compare_exchange_weak(state, after, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => {
                    ledger.sub_detached(charge);
                    ledger.uncharge_deferred(charge, entry.deferred_bytes(after));
                    if is_unread {
                        // SAFETY: EMPTY has just been set, and the pin is still there.
                        unsafe { entry.empty() };
                    }
                    return !is_unread;
                }
                Err(now) => state = now,
            }
        }
        false
    }
}

// SAFETY: the value lies in the entry, which stays where it is while a handle lives; nothing
// changes it.
unsafe impl<V: Send + Sync + 'static> RawOwner for Handle<V> {
    #[inline]
    fn into_raw(self) -> *const () {
        ManuallyDrop::new(self).entry.as_ptr().cast_const().cast()
    }

    #[inline]
    unsafe fn from_raw(raw: *const ()) -> Handle<V> {
        // SAFETY: it was not null when it was a handle.
        Handle { entry: unsafe { NonNull::new_unchecked(raw.cast_mut().cast()) } }
    }
}

impl<V> Deref for Handle<V> {
    type Target = V;
    #[inline]
    fn deref(&self) -> &V {
        // SAFETY: the handle is a pin.
        unsafe { self.entry().value() }
    }
}

impl<V> Clone for Handle<V> {
    #[inline]
    fn clone(&self) -> Handle<V> {
        if self.entry().state.fetch_add(PIN, Ordering::Relaxed) & PINS > MAX_PINS {
            std::process::abort();
        }
        Handle { entry: self.entry }
    }
}

impl<V> Drop for Handle<V> {
    #[inline]
    fn drop(&mut self) {
        let state = &self.entry().state;
        // If the entry dies between the check and the update, the charge is released when the entry
        // is freed.
        if state.load(Ordering::Relaxed) & DEAD != 0 && self.uncharge_if_last() {
            return;
        }
        let before = state.fetch_sub(PIN, Ordering::Release);
        if before & (PINS | LISTINGS) == PIN {
            // SAFETY: that was the last pin, and no table names it.
            unsafe { CacheEntry::free(self.entry) };
        }
    }
}

impl<V: fmt::Debug> fmt::Debug for Handle<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<V: PartialEq> PartialEq for Handle<V> {
    fn eq(&self, other: &Handle<V>) -> bool {
        **self == **other
    }
}
