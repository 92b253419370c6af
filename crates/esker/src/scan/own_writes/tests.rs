use super::*;
use crate::merge::vec_iter::{Entries, Moves, VecIter};
use esker_base::ValueType;
use esker_base::sync::Arc;
use esker_base::sync::atomic::Ordering::Relaxed;
use esker_format::key::{InternalKeyComparator, internal_key};

/// Others write one key again and again while a transaction runs.
#[test]
fn versions_that_are_too_new_are_sought_past() {
    const NEWER: u64 = 1000;
    let mut keys = vec![internal_key(b"a", SequenceNumber(1), ValueType::Value)];
    for user_key in [&b"hot"[..], b"hotter"] {
        let versions = (2..NEWER).rev();
        keys.extend(versions.map(|n| internal_key(user_key, SequenceNumber(n), ValueType::Value)));
    }
    keys.push(internal_key(b"new", SequenceNumber(NEWER), ValueType::Value));
    keys.push(internal_key(b"z", SequenceNumber(5), ValueType::Value));
    let (entries, moves): (Entries, Arc<Moves>) =
        (Arc::new(keys.iter().map(|key| (key.clone(), Vec::new())).collect()), Arc::default());
    for sequence in [1, 3, 5, NEWER - 5, NEWER] {
        let sequence = SequenceNumber(sequence);
        let seen = |key: &&Vec<u8>| ParsedInternalKey::parse(key).unwrap().sequence <= sequence;
        let seen: Vec<&Vec<u8>> = keys.iter().filter(seen).collect();
        for forward in [true, false] {
            let inner = VecIter::new(&InternalKeyComparator::default(), entries.clone()).counting(&moves);
            let mut iter = VisibleOnly { iter: Box::new(inner), sequence };
            moves.steps.store(0, Relaxed);
            moves.seeks.store(0, Relaxed);
            if forward {
                iter.seek_to_first()
            } else {
                iter.seek_to_last()
            }
            let mut found = Vec::new();
            while iter.valid() {
                found.push(iter.key().to_vec());
                if forward { iter.next() } else { iter.prev() }
            }
            if !forward {
                found.reverse();
            }
            assert!(found.iter().eq(seen.iter().copied()), "{sequence:?} {forward}");
            let moved = moves.steps.load(Relaxed) + moves.seeks.load(Relaxed);
            assert!(moved <= seen.len() as u64 + 40, "{moved} moves for {} entries", seen.len());
        }
    }
}
