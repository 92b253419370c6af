//! How fast writers may go.
//!
//! In: the condition of each family; the worst one rules. Out: how long a write must wait. Delayed writers share
//! `delayed_write_rate`, which falls while the compaction debt grows and rises while it shrinks.
//!
//! Source of the rate rule: RocksDB `db/column_family.cc` (`RecalculateWriteStallConditions`), `db/write_controller.cc`.

use crate::observe::WriteStallCondition;
use esker_base::sync::Mutex;
use esker_base::sync::atomic::{AtomicU8, AtomicU64, Ordering};

const NORMAL: u8 = 0;
const DELAYED: u8 = 1;
const STOPPED: u8 = 2;

/// The worst condition of all families, cheap to look at for each write.
#[derive(Debug)]
pub(crate) struct StallState {
    worst: AtomicU8,
    /// Bytes per second for all delayed writers together.
    rate: AtomicU64,
    max_rate: AtomicU64,
    credit: Mutex<Credit>,
}

#[derive(Debug, Default)]
struct Credit {
    bytes: u64,
    next_refill_micros: u64,
    last_debt: u64,
}

/// Credit is handed out for this long at a time.
const REFILL_MICROS: u64 = 1024;
const MIN_RATE: u64 = 16 << 10;

impl StallState {
    /// Nobody stalls; delayed writers would start at `delayed_write_rate` bytes per second.
    pub(crate) fn new(delayed_write_rate: u64) -> StallState {
        let max_rate = delayed_write_rate.max(MIN_RATE);
        StallState {
            worst: AtomicU8::new(NORMAL),
            rate: AtomicU64::new(max_rate),
            max_rate: AtomicU64::new(max_rate),
            credit: Mutex::new(Credit::default()),
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

    /// From now on delayed writers start at `delayed_write_rate` bytes per second.
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

    /// Takes over the worst of the families' conditions; `debt` (bytes to compact) steers the rate.
    pub(crate) fn update(&self, conditions: impl Iterator<Item = WriteStallCondition>, debt: u64) {
        let code = |condition| match condition {
            WriteStallCondition::Normal => NORMAL,
            WriteStallCondition::Delayed => DELAYED,
            WriteStallCondition::Stopped => STOPPED,
        };
        let code = conditions.map(code).max().unwrap_or(NORMAL);
        let before = self.worst.swap(code, Ordering::Relaxed);
        let mut credit = self.credit.lock();
        let (rate, max_rate) = (self.rate.load(Ordering::Relaxed), self.max_rate.load(Ordering::Relaxed));
        let new_rate = match (before, code) {
            (_, NORMAL) => max_rate,
            (DELAYED, DELAYED) if debt > credit.last_debt => rate * 4 / 5,
            (DELAYED, DELAYED) if debt < credit.last_debt => rate * 5 / 4,
            (STOPPED, DELAYED) => rate * 3 / 5,
            _ => rate,
        };
        self.rate.store(new_rate.clamp(MIN_RATE, max_rate), Ordering::Relaxed);
        credit.last_debt = debt;
    }

    /// Microseconds that a delayed writer of `bytes` waits, at time `now_micros`.
    pub(crate) fn delay_micros(&self, bytes: u64, now_micros: u64) -> u64 {
        let rate = self.rate.load(Ordering::Relaxed);
        let mut credit = self.credit.lock();
        if credit.bytes >= bytes {
            credit.bytes -= bytes;
            return 0;
        }
        if credit.next_refill_micros == 0 {
            credit.next_refill_micros = now_micros;
        }
        if credit.next_refill_micros <= now_micros {
            let elapsed = now_micros - credit.next_refill_micros + REFILL_MICROS;
            credit.bytes += (elapsed as f64 / 1e6 * rate as f64 + 0.999_999) as u64;
            credit.next_refill_micros = now_micros + REFILL_MICROS;
            if credit.bytes >= bytes {
                credit.bytes -= bytes;
                return 0;
            }
        }
        let over_budget = bytes - credit.bytes;
        let needed = (over_budget as f64 / rate as f64 * 1e6) as u64;
        credit.bytes = 0;
        credit.next_refill_micros += needed;
        (credit.next_refill_micros - now_micros).max(REFILL_MICROS)
    }
}
