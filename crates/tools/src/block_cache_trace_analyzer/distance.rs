//! Reuse distances: bytes of the distinct blocks between two accesses to one block.
//!
//! Each block has its size at the place of its last access in a Fenwick tree, whose places are the
//! accesses in their order. The sum behind a block's place is its distance. Cost: 8 bytes and
//! O(log accesses) for each access. RocksDB's tool adds each access to a set of every block.

use std::collections::HashMap;

/// The last accesses to the blocks of a trace.
#[derive(Default)]
pub(super) struct LastAccesses {
    /// Node `n`, counted from 1, is the sum over the places `n - lowest_bit(n) + 1 ..= n`.
    nodes: Vec<u64>,
    total: u64,
    /// Place and bytes by key.
    blocks: HashMap<Vec<u8>, (usize, u64)>,
}

fn lowest_bit(n: usize) -> usize {
    n & n.wrapping_neg()
}

impl LastAccesses {
    /// Records an access. Returns the distance from the block's access before it: the bytes of the
    /// distinct blocks since then, that block included. `None` for a first access.
    pub(super) fn access(&mut self, key: &[u8], bytes: u64) -> Option<u64> {
        let place = self.nodes.len() + 1;
        let known = match self.blocks.get_mut(key) {
            Some(known) => Some(std::mem::replace(known, (place, bytes))),
            None => {
                self.blocks.insert(key.to_vec(), (place, bytes));
                None
            }
        };
        let distance = known.map(|(before, old_bytes)| {
            let distance = self.total.wrapping_sub(self.sum(before - 1));
            self.subtract(before, old_bytes);
            distance
        });
        self.push(bytes);
        distance
    }

    /// The sum of the first `places` places.
    fn sum(&self, mut places: usize) -> u64 {
        let mut sum = 0u64;
        while places > 0 {
            sum = sum.wrapping_add(self.nodes[places - 1]);
            places -= lowest_bit(places);
        }
        sum
    }

    fn subtract(&mut self, mut place: usize, bytes: u64) {
        self.total = self.total.wrapping_sub(bytes);
        while let Some(node) = self.nodes.get_mut(place - 1) {
            *node = node.wrapping_sub(bytes);
            place += lowest_bit(place);
        }
    }

    fn push(&mut self, bytes: u64) {
        let place = self.nodes.len() + 1;
        let begin = place - lowest_bit(place);
        let (mut sum, mut below) = (bytes, place - 1);
        while below > begin {
            sum = sum.wrapping_add(self.nodes[below - 1]);
            below -= lowest_bit(below);
        }
        self.nodes.push(sum);
        self.total = self.total.wrapping_add(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};

    #[test]
    fn distances_are_those_of_sets_of_blocks() {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut last = LastAccesses::default();
        let mut since: HashMap<u8, HashSet<u8>> = HashMap::new();
        let mut sizes: HashMap<u8, u64> = HashMap::new();
        for _ in 0..2000 {
            let (block, bytes) = (rng.u8(..20), rng.u64(..100));
            let wanted = since.get_mut(&block).map(|set| set.drain().map(|b| sizes[&b]).sum::<u64>());
            assert_eq!(last.access(&[block], bytes), wanted);
            since.entry(block).or_default();
            sizes.insert(block, bytes);
            for set in since.values_mut() {
                set.insert(block);
            }
        }
    }
}
