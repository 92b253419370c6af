//! The answers that the tree must give: the history itself, replayed.

use esker_base::SequenceNumber;
use esker_format::key::InternalKeyComparator;

#[derive(Clone, Debug)]
pub(super) enum Op {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    SingleDelete(Vec<u8>),
    Merge(Vec<u8>, Vec<u8>),
    DeleteRange(Vec<u8>, Vec<u8>),
}

/// Keys and values in order.
pub(super) type State = Vec<(Vec<u8>, Vec<u8>)>;

/// All writes so far; the sequence number of a write is its index plus one.
#[derive(Debug)]
pub(super) struct History {
    icmp: InternalKeyComparator,
    ops: Vec<Op>,
}

impl History {
    pub(super) fn new(icmp: InternalKeyComparator) -> History {
        History { icmp, ops: Vec::new() }
    }

    pub(super) fn push(&mut self, op: Op) -> SequenceNumber {
        self.ops.push(op);
        self.last()
    }

    pub(super) fn last(&self) -> SequenceNumber {
        SequenceNumber(self.ops.len() as u64)
    }

    /// The state that `snapshot` sees.
    pub(super) fn state_at(&self, snapshot: SequenceNumber) -> State {
        let mut state = State::new();
        for op in &self.ops[..snapshot.0 as usize] {
            self.apply(&mut state, op);
        }
        state
    }

    fn find(&self, state: &State, key: &[u8]) -> Result<usize, usize> {
        state.binary_search_by(|(k, _)| self.icmp.compare_user_keys(k, key))
    }

    pub(super) fn apply(&self, state: &mut State, op: &Op) {
        match op {
            Op::Put(key, value) => match self.find(state, key) {
                Ok(i) => state[i].1.clone_from(value),
                Err(i) => state.insert(i, (key.clone(), value.clone())),
            },
            Op::Delete(key) | Op::SingleDelete(key) => {
                if let Ok(i) = self.find(state, key) {
                    state.remove(i);
                }
            }
            Op::Merge(key, operand) => match self.find(state, key) {
                Ok(i) => state[i].1 = [&state[i].1[..], operand].join(&b','),
                Err(i) => state.insert(i, (key.clone(), operand.clone())),
            },
            Op::DeleteRange(start, end) => {
                let position = |key| self.find(state, key).unwrap_or_else(|i| i);
                let (from, to) = (position(start), position(end));
                if from < to {
                    state.drain(from..to);
                }
            }
        }
    }
}
