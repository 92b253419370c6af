//! Write stalls: the rate of writers.
//!
//! In: the condition of each family, of which the worst counts. Out: the time that a write must
//! wait. Delayed writers share `delayed_write_rate`, which falls while the compaction debt grows
//! and rises while it shrinks. A leader waits for its own bytes before it writes them. For the
//! bytes that a leader wrote for others, the next writer waits.
//!
//! Source of the rate rule: RocksDB `db/column_family.cc` (`RecalculateWriteStallConditions`),
//! `db/write_controller.cc`.

use crate::observe::WriteStallCondition;
use esker_base::sync::Mutex;
use esker_base::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

const NORMAL: u8 = 0;
const DELAYED: u8 = 1;
const STOPPED: u8 = 2;

/// The worst condition of all families, cheap to read for each write.
#[derive(Debug)]
pub(crate) struct StallState {
    worst: AtomicU8,
    /// Bytes per second for all delayed writers together.
    rate: AtomicU64,
    max_rate: AtomicU64,
    credit: Mutex<Credit>,
    /// Whether compactions are behind, but only so far that low-priority writers are slowed down.
    is_pressed: AtomicBool,
    /// Bytes per second for all low-priority writers together; `low_pri` is their credit.
    low_pri_rate: AtomicU64,
    low_pri: Mutex<Credit>,
}

/// Bytes that delayed writers may write before they wait. Times are monotonic.
#[derive(Debug, Default)]
struct Credit {
    bytes: u64,
    /// The time of the next refill; `None` before the first writer of a delay. While this time is
    /// more than one refill ahead, the time until then pays for bytes that are already written.
    next_refill_micros: Option<u64>,
    last_debt: u64,
    /// The worst condition of all families. `StallState::worst` is `STOPPED` while `locks` is not
    /// 0.
    worst_of_families: u8,
    /// Calls of `Db::lock_wal` that are in force.
    locks: usize,
}

/// Time for which each refill gives credit.
const REFILL_MICROS: u64 = 1024;
const MIN_RATE: u64 = 16 << 10;
/// The low-priority rate before the first delay.
const LOW_PRI_RATE: u64 = 1 << 20;

impl StallState {
    /// A state without stalls. Delayed writers would start at `delayed_write_rate` bytes per
    /// second.
    pub(crate) fn new(delayed_write_rate: u64) -> StallState {
        let max_rate = delayed_write_rate.max(MIN_RATE);
        StallState {
            worst: AtomicU8::new(NORMAL),
            rate: AtomicU64::new(max_rate),
            max_rate: AtomicU64::new(max_rate),
            credit: Mutex::new(Credit::default()),
            is_pressed: AtomicBool::new(false),
            low_pri_rate: AtomicU64::new(LOW_PRI_RATE),
            low_pri: Mutex::new(Credit::default()),
        }
    }

    #[inline]
    pub(crate) fn condition(&self) -> WriteStallCondition {
        match self.worst.load(Ordering::Relaxed) {
            NORMAL => WriteStallCondition::Normal,
            DELAYED => WriteStallCondition::Delayed,
            _ => WriteStallCondition::Stopped,
        }
    }

    /// Sets the rate, in bytes per second, at which delayed writers start.
    pub(crate) fn set_max_rate(&self, delayed_write_rate: u64) {
        let max_rate = delayed_write_rate.max(MIN_RATE);
        let _credit = self.credit.lock();
        self.max_rate.store(max_rate, Ordering::Relaxed);
        self.rate.store(max_rate, Ordering::Relaxed);
    }

    /// Bytes per second that delayed writers get.
    pub(crate) fn delayed_write_rate(&self) -> u64 {
        self.rate.load(Ordering::Relaxed)
    }

    /// Sets the worst of the families' conditions. `debt`, the bytes to compact, controls the rate.
    pub(crate) fn update(&self, conditions: impl Iterator<Item = WriteStallCondition>, debt: u64) {
        let code = |condition| match condition {
            WriteStallCondition::Normal => NORMAL,
            WriteStallCondition::Delayed => DELAYED,
            WriteStallCondition::Stopped => STOPPED,
        };
        let code = conditions.map(code).max().unwrap_or(NORMAL);
        let mut credit = self.credit.lock();
        let before = std::mem::replace(&mut credit.worst_of_families, code);
        self.worst.store(if credit.locks > 0 { STOPPED } else { code }, Ordering::Relaxed);
        let (rate, max_rate) = (self.rate.load(Ordering::Relaxed), self.max_rate.load(Ordering::Relaxed));
        let new_rate = match (before, code) {
            (_, NORMAL) => max_rate,
            (DELAYED, DELAYED) if debt > credit.last_debt => part(rate, 4, 5),
            (DELAYED, DELAYED) if debt < credit.last_debt => part(rate, 5, 4),
            (STOPPED, DELAYED) => part(rate, 3, 5),
            _ => rate,
        };
        self.rate.store(new_rate.clamp(MIN_RATE, max_rate), Ordering::Relaxed);
        credit.last_debt = debt;
        if before == DELAYED && code == NORMAL {
            self.low_pri_rate.store((rate / 4).max(1), Ordering::Relaxed);
        }
        if code == DELAYED && before != DELAYED {
            // A new delay begins: the time before it gives no credit.
            (credit.bytes, credit.next_refill_micros) = (0, None);
        }
    }

    /// Stops writers until [`StallState::unlock`], whatever the families' conditions are. Calls
    /// nest.
    pub(crate) fn lock(&self) {
        let mut credit = self.credit.lock();
        credit.locks += 1;
        self.worst.store(STOPPED, Ordering::Relaxed);
    }

    /// Undoes one [`StallState::lock`].
    pub(crate) fn unlock(&self) {
        let mut credit = self.credit.lock();
        credit.locks -= 1;
        if credit.locks == 0 {
            self.worst.store(credit.worst_of_families, Ordering::Relaxed);
        }
    }

    /// Whether [`StallState::lock`] stops writers.
    pub(crate) fn is_locked(&self) -> bool {
        self.credit.lock().locks > 0
    }

    /// Microseconds that a delayed writer of `bytes` waits, at time `now_micros`.
    pub(crate) fn delay_micros(&self, bytes: u64, now_micros: u64) -> u64 {
        let rate = self.rate.load(Ordering::Relaxed);
        let mut credit = self.credit.lock();
        if credit.take(bytes, rate, now_micros) {
            return 0;
        }
        let next_refill = credit.borrow(bytes, rate, now_micros);
        (next_refill - now_micros).max(REFILL_MICROS)
    }

    /// Whether writers of low priority have to give way.
    pub(crate) fn holds_low_pri_back(&self) -> bool {
        self.is_pressed.load(Ordering::Relaxed) || self.condition() != WriteStallCondition::Normal
    }

    /// Sets whether compactions of any family are behind.
    pub(crate) fn set_pressure(&self, is_pressed: bool) {
        self.is_pressed.store(is_pressed, Ordering::Relaxed);
    }

    /// Microseconds that a low-priority writer waits for `bytes`, at time `now_micros`. These
    /// writers have a rate of their own, so that no other writer waits for them.
    pub(crate) fn low_pri_delay_micros(&self, bytes: u64, now_micros: u64) -> u64 {
        let rate = self.low_pri_rate.load(Ordering::Relaxed);
        let mut credit = self.low_pri.lock();
        // Unused credit expires.
        if credit.next_refill_micros.is_some_and(|refill| refill + REFILL_MICROS < now_micros) {
            (credit.bytes, credit.next_refill_micros) = (0, None);
        }
        if credit.take(bytes, rate, now_micros) {
            return 0;
        }
        credit.borrow(bytes, rate, now_micros) - now_micros
    }

    /// Whether a writer of `bytes` need not wait at time `now_micros`; if so, takes them from the
    /// credit.
    pub(crate) fn take_without_delay(&self, bytes: u64, now_micros: u64) -> bool {
        self.credit.lock().take(bytes, self.rate.load(Ordering::Relaxed), now_micros)
    }

    /// Charges `bytes` that writers wrote at `now_micros` without waiting: later writers wait for
    /// them.
    pub(crate) fn charge(&self, bytes: u64, now_micros: u64) {
        let rate = self.rate.load(Ordering::Relaxed);
        let mut credit = self.credit.lock();
        if !credit.take(bytes, rate, now_micros) {
            credit.borrow(bytes, rate, now_micros);
        }
    }
}

/// `rate * parts / of`, without overflow: some users set a huge rate for "no limit".
fn part(rate: u64, parts: u128, of: u128) -> u64 {
    u64::try_from(u128::from(rate) * parts / of).unwrap_or(u64::MAX)
}

impl Credit {
    /// Refills the credit up to now, and takes `bytes` from it if it suffices.
    fn take(&mut self, bytes: u64, rate: u64, now_micros: u64) -> bool {
        if self.bytes < bytes {
            let next_refill = self.next_refill_micros.unwrap_or(now_micros);
            if next_refill <= now_micros {
                let elapsed = now_micros - next_refill + REFILL_MICROS;
                let refill = (elapsed as f64 / 1e6 * rate as f64 + 0.999_999) as u64;
                self.bytes = self.bytes.saturating_add(refill);
                self.next_refill_micros = Some(now_micros + REFILL_MICROS);
            }
        }
        let is_enough = self.bytes >= bytes;
        self.bytes -= if is_enough { bytes } else { 0 };
        is_enough
    }

    /// Takes `bytes`, which are more than the credit; returns the time at which they are paid for.
    fn borrow(&mut self, bytes: u64, rate: u64, now_micros: u64) -> u64 {
        let needed = ((bytes - self.bytes) as f64 / rate as f64 * 1e6) as u64;
        self.bytes = 0;
        let paid = self.next_refill_micros.unwrap_or(now_micros) + needed;
        self.next_refill_micros = Some(paid);
        paid
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;
