//! Cuts decoded entries to a run that a reader may see without changes.

use crate::cursor::{DecodeAhead, DecodedRun, RunEntry};
use crate::key::{self, InternalKeyComparator};
use esker_base::comparator::KeyOrder;
use esker_base::{SequenceNumber, ValueType};

/// Cuts the entries decoded into `run` to those that
/// [`look_ahead`](crate::cursor::ScanIterator::look_ahead) promises. The cursor is on the first
/// of them or, backward, on the last. `global_seqno` is the sequence number of all entries, if the
/// table has one. `is_first_alone`: no entry before the first decoded one has its user key.
pub fn cut_run(
    run: &mut DecodedRun,
    ahead: &DecodeAhead<'_>,
    icmp: &InternalKeyComparator,
    global_seqno: Option<SequenceNumber>,
    is_first_alone: bool,
) {
    let entries = run.entries();
    // A visible plain value has type `Value` and is not newer than the reader.
    let most = match global_seqno {
        None => (ahead.sequence.0 << 8) | 0xFF,
        Some(sequence) if sequence <= ahead.sequence => u64::MAX,
        Some(_) => 0,
    };
    let is_plain = |entry: &RunEntry| entry.packed & 0xFF == ValueType::Value as u64 && entry.packed <= most;
    let trusts_bytes = icmp.order() != KeyOrder::Custom;
    let user_key = |i: usize| key::user_key(run.internal_key(i));
    // Called only for entries whose bytes do not decide it.
    let begins_key = |i: usize| !icmp.same_user_key(user_key(i - 1), user_key(i));
    // Whether a key lies before the limit in key order. In a backward scan, also whether it is at
    // it.
    let is_below = |entry: &RunEntry| {
        let order = |limit| icmp.compare_user_keys(key::user_key(run.key_of(entry)), limit);
        match ahead.limit {
            Some(limit) if ahead.forward => order(limit).is_lt(),
            Some(limit) => order(limit).is_le(),
            None => ahead.forward,
        }
    };
    let (mut first, mut end) = (0, entries.len());
    if ahead.forward {
        for (i, entry) in entries.iter().enumerate() {
            let begins = (entry.differs && trusts_bytes) || i == 0 || begins_key(i);
            if !is_plain(entry) || !begins {
                end = i;
                break;
            }
        }
        let decoded = entries.get(..end).unwrap_or_default();
        if decoded.last().is_some_and(|last| !is_below(last)) {
            end = decoded.partition_point(is_below);
        }
    } else {
        for (i, entry) in entries.iter().enumerate().rev() {
            let begins =
                if i == 0 { is_first_alone } else { (entry.differs && trusts_bytes) || begins_key(i) };
            if !is_plain(entry) || !begins {
                first = i + 1;
                break;
            }
        }
        let decoded = entries.get(first..).unwrap_or_default();
        if decoded.first().is_some_and(is_below) {
            first += decoded.partition_point(is_below);
        }
    }
    run.set_range(first, end, ahead.forward);
}

#[cfg(test)]
mod tests;
