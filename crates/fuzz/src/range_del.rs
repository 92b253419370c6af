//! Any bytes as a block of range tombstones: the fragments say of every key what the tombstones
//! say.

use esker_base::SequenceNumber;
use esker_format::block::{Block, BlockCursor};
use esker_format::key::InternalKeyComparator;
use esker_format::range_del::{FragmentedRangeTombstones, RangeTombstone, RangeTombstoneRef};

/// Decodes tombstones from a block as on disk. Since few inputs are blocks, falls back to triples
/// of small keys.
fn tombstones(data: &[u8]) -> Option<Vec<RangeTombstone>> {
    let (&kind, bytes) = data.split_first()?;
    if kind & 1 == 0 {
        let (triples, _) = bytes.as_chunks::<3>();
        let make =
            |t: &[u8; 3]| RangeTombstone::new([t[0] % 32], [t[1] % 32], SequenceNumber(u64::from(t[2])));
        return Some(triples.iter().take(64).map(make).collect());
    }
    let block = Block::parse(bytes.to_vec()).ok()?;
    let mut cursor = BlockCursor::new();
    let mut found = Vec::new();
    cursor.seek_to_first(&block).ok()?;
    while cursor.valid() && found.len() < 64 {
        found.push(RangeTombstoneRef::parse(cursor.key(), cursor.value(&block)).ok()?.to_owned());
        cursor.next(&block).ok()?;
    }
    Some(found)
}

/// One input.
pub fn run(data: &[u8]) {
    let Some(tombstones) = tombstones(data) else { return };
    let icmp = InternalKeyComparator::default();
    let fragments = FragmentedRangeTombstones::build(tombstones.clone(), &icmp);
    let mut last_end: Vec<u8> = Vec::new();
    for (i, fragment) in (0..fragments.len()).map(|i| (i, fragments.fragment(i))) {
        assert!(fragment.start < fragment.end && (i == 0 || last_end.as_slice() == fragment.start));
        let sequences = fragments.sequences(i);
        assert!(sequences.is_sorted_by(|a, b| a > b));
        assert_eq!(sequences.first().copied().unwrap_or_default(), fragment.newest);
        last_end = fragment.end.to_vec();
    }
    let keys =
        tombstones.iter().flat_map(|t| [t.start.clone(), t.end.clone(), [&t.start[..], &[0]].concat()]);
    for key in keys {
        for snapshot in [0, 7, 100, SequenceNumber::MAX.0] {
            let expected = tombstones
                .iter()
                .filter(|t| t.as_ref().covers(&key, &icmp) && t.seq.0 <= snapshot)
                .map(|t| t.seq)
                .max()
                .unwrap_or_default();
            assert_eq!(fragments.max_covering_seq(&key, &icmp, SequenceNumber(snapshot)), expected);
        }
    }
}
