//! Sequence numbers with the times at which they were the newest.
//!
//! In: samples of (sequence number, Unix seconds). Out: a short list of samples, which bounds the
//! time at which an entry was written; also the list's bytes in a table's properties.
//! Page: `docs/format/properties.md`. Source: RocksDB `db/seqno_to_time_mapping.h`.
//!
//! Invariants
//!  1. Both the sequence numbers and the times ascend strictly.
//!  2. A pair says that no entry up to its sequence number was written after its time.

use esker_base::coding::{Decoder, put_varint64};
use esker_base::{Error, Result, SequenceNumber};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;

/// Largest number of pairs in the properties of a table.
pub const MAX_PAIRS_PER_TABLE: usize = 100;
/// Largest number of pairs of a database in memory, and of a compaction.
pub const MAX_PAIRS: usize = 1000;
/// Number of pairs that cover the period for which a family keeps times.
pub const PAIRS_PER_FAMILY: u64 = 100;

/// A sample: no entry up to `seqno` was written after `time`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SeqnoTimePair {
    /// The newest sequence number at that time.
    pub seqno: SequenceNumber,
    /// Unix seconds.
    pub time: u64,
}

/// Samples in ascending order. Lookups take O(log n), a new sample O(1) amortized.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct SeqnoToTimeMapping {
    pairs: Vec<SeqnoTimePair>,
}

impl SeqnoToTimeMapping {
    /// A mapping of these samples, in any order. Of samples that contradict each other the earlier
    /// time counts.
    ///
    /// ```
    /// use esker_base::SequenceNumber;
    /// use esker_format::seqno_to_time::{SeqnoTimePair, SeqnoToTimeMapping};
    /// let pair = |seqno, time| SeqnoTimePair { seqno: SequenceNumber(seqno), time };
    /// let times = SeqnoToTimeMapping::from_samples(vec![pair(20, 600), pair(10, 500)]);
    /// assert_eq!(times.time_before(SequenceNumber(20)), 500);
    /// assert_eq!(times.seqno_at(600), SequenceNumber(20));
    /// ```
    pub fn from_samples(mut samples: Vec<SeqnoTimePair>) -> SeqnoToTimeMapping {
        samples.sort_unstable();
        let mut mapping = SeqnoToTimeMapping::default();
        for pair in samples {
            mapping.append(pair.seqno, pair.time);
        }
        mapping
    }

    /// Samples for the numbers `from` to `to`, at equal distances from `from_time` to `to_time`.
    pub fn between(from: SequenceNumber, to: SequenceNumber, from_time: u64, to_time: u64) -> Self {
        let (steps, seconds) = (to.0.saturating_sub(from.0).max(1), to_time.saturating_sub(from_time));
        let at = |seqno: u64| {
            let passed = u128::from(seconds) * u128::from(seqno - from.0) / u128::from(steps);
            from_time + u64::try_from(passed).unwrap_or(seconds)
        };
        let samples =
            (from.0..=to.0).map(|seqno| SeqnoTimePair { seqno: SequenceNumber(seqno), time: at(seqno) });
        SeqnoToTimeMapping::from_samples(samples.collect())
    }

    /// Reads the bytes of the property; no bytes are no samples.
    /// # Errors
    /// `Corruption`.
    pub fn decode(bytes: &[u8]) -> Result<Vec<SeqnoTimePair>> {
        let mut input = Decoder::new(bytes);
        let mut pairs = Vec::new();
        if bytes.is_empty() {
            return Ok(pairs);
        }
        let count = input.varint64()?;
        let (mut seqno, mut time) = (0_u64, 0_u64);
        for _ in 0..count {
            seqno = seqno.wrapping_add(input.varint64()?);
            time = time.wrapping_add(input.varint64()?);
            pairs.push(SeqnoTimePair { seqno: SequenceNumber(seqno), time });
        }
        if input.is_empty() {
            Ok(pairs)
        } else {
            Err(Error::corruption("bytes follow the sequence numbers and times"))
        }
    }

    /// The bytes of the property; none without samples.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if self.pairs.is_empty() {
            return out;
        }
        put_varint64(&mut out, self.pairs.len() as u64);
        let (mut seqno, mut time) = (0, 0);
        for pair in &self.pairs {
            put_varint64(&mut out, pair.seqno.0 - seqno);
            put_varint64(&mut out, pair.time - time);
            (seqno, time) = (pair.seqno.0, pair.time);
        }
        out
    }

    /// Adds a sample behind all others. An older sequence number, and 0, are ignored.
    pub fn append(&mut self, seqno: SequenceNumber, time: u64) {
        let is_older = self.pairs.last().is_some_and(|last| last.seqno > seqno);
        if is_older || seqno == SequenceNumber::ZERO {
            return;
        }
        let mut time = time;
        while let Some(last) = self.pairs.last().filter(|last| last.seqno == seqno || last.time >= time) {
            time = time.min(last.time);
            self.pairs.pop();
        }
        self.pairs.push(SeqnoTimePair { seqno, time });
    }

    /// Drops samples that are older than `seconds` at the time `now`, except for the newest of
    /// them.
    pub fn forget_before(&mut self, now: u64, seconds: u64) {
        let Some(limit) = now.checked_sub(seconds) else { return };
        let old = self.pairs.partition_point(|pair| pair.time <= limit);
        self.pairs.drain(..old.saturating_sub(1));
    }

    /// Drops samples until at most `most` are left (2 if `most` is 1), and leaves gaps of about
    /// equal length between them. Both ends stay, unless `most` is 0. Takes O(n log n).
    pub fn thin_out(&mut self, most: usize) {
        let most = if most == 1 { 2 } else { most };
        let count = self.pairs.len();
        if count <= most {
            return;
        }
        if most == 0 {
            self.pairs.clear();
            return;
        }
        let times: Vec<u64> = self.pairs.iter().map(|pair| pair.time).collect();
        let time = |i: usize| times.get(i).copied().unwrap_or(u64::MAX);
        let mut before: Vec<usize> = (0..count).map(|i| i.saturating_sub(1)).collect();
        let mut after: Vec<usize> = (1..=count).collect();
        let mut is_gone = vec![false; count];
        let gaps = (1..count - 1).map(|i| Reverse((time(i + 1) - time(i - 1), i)));
        let mut candidates: BinaryHeap<_> = gaps.collect();
        let mut left = count;
        while left > most
            && let Some(Reverse((gap, i))) = candidates.pop()
        {
            let (Some(&previous), Some(&next)) = (before.get(i), after.get(i)) else { break };
            let now = time(next) - time(previous);
            if now != gap {
                candidates.push(Reverse((now, i)));
                continue;
            }
            is_gone.iter_mut().skip(i).take(1).for_each(|gone| *gone = true);
            after.iter_mut().skip(previous).take(1).for_each(|after| *after = next);
            before.iter_mut().skip(next).take(1).for_each(|before| *before = previous);
            left -= 1;
        }
        let mut gone = is_gone.into_iter();
        self.pairs.retain(|_| !gone.next().unwrap_or(false));
    }

    /// The part that suffices for [`Self::time_before`] of the numbers `from` to `to`, inclusive.
    pub fn within(&self, from: SequenceNumber, to: SequenceNumber) -> SeqnoToTimeMapping {
        let start = self.pairs.partition_point(|pair| pair.seqno < from);
        let end = self.pairs.partition_point(|pair| pair.seqno <= to).max(start);
        let pairs = self.pairs.get(start.saturating_sub(1)..end).unwrap_or_default();
        SeqnoToTimeMapping { pairs: pairs.to_vec() }
    }

    /// A time that precedes the write of the entry with this sequence number; 0 if none is known.
    pub fn time_before(&self, seqno: SequenceNumber) -> u64 {
        let count = self.pairs.partition_point(|pair| pair.seqno < seqno);
        count.checked_sub(1).and_then(|i| self.pairs.get(i)).map_or(0, |pair| pair.time)
    }

    /// A sequence number that was written by this time; 0 if none is known.
    pub fn seqno_at(&self, time: u64) -> SequenceNumber {
        let count = self.pairs.partition_point(|pair| pair.time <= time);
        count.checked_sub(1).and_then(|i| self.pairs.get(i)).map_or(SequenceNumber::ZERO, |pair| pair.seqno)
    }

    /// The samples, oldest first.
    pub fn pairs(&self) -> &[SeqnoTimePair] {
        &self.pairs
    }
}

/// The samples as RocksDB's tools print them: `10->500,20->600,`.
impl fmt::Display for SeqnoToTimeMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pairs.iter().try_for_each(|pair| write!(f, "{}->{},", pair.seqno.0, pair.time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(pairs: &[(u64, u64)]) -> SeqnoToTimeMapping {
        let pair = |&(seqno, time)| SeqnoTimePair { seqno: SequenceNumber(seqno), time };
        SeqnoToTimeMapping::from_samples(pairs.iter().map(pair).collect())
    }

    #[test]
    fn lookups_give_the_nearest_sample_before() {
        let times = mapping(&[(10, 500), (20, 600), (30, 700)]);
        let before = [(10, 0), (11, 500), (20, 500), (21, 600), (1000, 700)];
        for (seqno, time) in before {
            assert_eq!(times.time_before(SequenceNumber(seqno)), time, "{seqno}");
        }
        for (time, seqno) in [(499, 0), (500, 10), (599, 10), (600, 20), (900, 30)] {
            assert_eq!(times.seqno_at(time), SequenceNumber(seqno), "{time}");
        }
    }

    #[test]
    fn samples_that_contradict_each_other_leave_an_ascending_list() {
        assert_eq!(mapping(&[(10, 500), (10, 400)]).to_string(), "10->400,");
        assert_eq!(mapping(&[(10, 500), (11, 500)]).to_string(), "11->500,");
        assert_eq!(mapping(&[(10, 500), (20, 600), (30, 450)]).to_string(), "30->450,");
        assert_eq!(mapping(&[(0, 1), (7, 3)]).to_string(), "7->3,");
        let mut times = mapping(&[(10, 500)]);
        times.append(SequenceNumber(9), 900);
        assert_eq!(times.to_string(), "10->500,");
    }

    #[test]
    fn samples_survive_their_encoding_and_damage_is_found() {
        let times = mapping(&[(10, 500), (20, 600), (300_000, 1_700_000_000)]);
        let bytes = times.encode();
        assert_eq!(bytes[..5], [3, 10, 0xF4, 3, 10]);
        assert_eq!(SeqnoToTimeMapping::decode(&bytes).unwrap(), times.pairs());
        assert!(SeqnoToTimeMapping::decode(&[]).unwrap().is_empty());
        for end in 1..bytes.len() {
            assert!(SeqnoToTimeMapping::decode(&bytes[..end]).is_err(), "{end}");
        }
        assert!(SeqnoToTimeMapping::decode(&[bytes, vec![0]].concat()).is_err());
    }

    #[test]
    fn old_samples_go_except_for_the_newest_of_them() {
        let mut times = mapping(&[(1, 10), (2, 20), (3, 30), (4, 40)]);
        times.forget_before(5, 10);
        assert_eq!(times.pairs().len(), 4);
        times.forget_before(45, 15);
        assert_eq!(times.to_string(), "3->30,4->40,");
        times.forget_before(1000, 1);
        assert_eq!(times.to_string(), "4->40,");
    }

    #[test]
    fn thinning_removes_the_smallest_gaps_and_keeps_both_ends() {
        let mut times = mapping(&[(1, 10), (2, 11), (3, 12), (4, 100), (5, 200)]);
        times.thin_out(4);
        assert_eq!(times.to_string(), "1->10,3->12,4->100,5->200,");
        times.thin_out(3);
        assert_eq!(times.to_string(), "1->10,4->100,5->200,");
        times.thin_out(1);
        assert_eq!(times.to_string(), "1->10,5->200,");
        times.thin_out(0);
        assert!(times.pairs().is_empty());
        let mut many = mapping(&(1..=5000).map(|i| (i, i * 3)).collect::<Vec<_>>());
        many.thin_out(100);
        assert_eq!(many.pairs().len(), 100);
        assert_eq!(many.pairs().last().unwrap().seqno.0, 5000);
    }

    #[test]
    fn a_part_begins_one_sample_before_its_first_number() {
        let times = mapping(&[(10, 500), (20, 600), (30, 700)]);
        let part = |from, to| times.within(SequenceNumber(from), SequenceNumber(to)).to_string();
        assert_eq!(part(20, 29), "10->500,20->600,");
        assert_eq!(part(1, 10), "10->500,");
        assert_eq!(part(31, u64::MAX), "30->700,");
        assert_eq!(part(1, 5), "");
        assert_eq!(part(100, 0), "30->700,");
    }

    #[test]
    fn a_new_database_gets_samples_at_equal_distances() {
        let times = SeqnoToTimeMapping::between(SequenceNumber(1), SequenceNumber(5), 100, 200);
        assert_eq!(times.to_string(), "1->100,2->125,3->150,4->175,5->200,");
    }
}
