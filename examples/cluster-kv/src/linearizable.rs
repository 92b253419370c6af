//! Checks that a history of reads and writes of registers is linearizable: each operation took
//! effect at one point between its call and its return. Each key is checked by itself.
//!
//! In: the operations of all clients, with times of one clock. Out: nothing, or the operation that
//! fits nowhere. The search is Wing and Gong's, with Lowe's memory of the states that it has
//! reached. The number of its steps is proportional to the operations if few run at once, and
//! exponential in the worst case.

use std::collections::{BTreeMap, HashSet};

/// An operation of a client, with the times of its call and its return.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Operation {
    pub key: String,
    pub action: Action,
    pub call: u64,
    /// `None`: the client does not know whether the write took effect.
    pub returned: Option<u64>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// The value that the client wrote.
    Write(String),
    /// The value that the client got; `None` if there was none.
    Read(Option<String>),
}

/// Checks a history that begins with no values.
/// # Errors
/// A key whose operations have no order, with the operation at which the longest attempt ended.
pub fn check(history: &[Operation]) -> Result<(), String> {
    let mut keys: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
    for operation in history {
        keys.entry(&operation.key).or_default().push(operation);
    }
    for (key, operations) in keys {
        if let Err(culprit) = check_register(&relevant(&operations)) {
            return Err(format!("key '{key}': no order of its operations explains {culprit:?}"));
        }
    }
    Ok(())
}

/// Leaves out operations that restrict nothing: reads without a return, and writes without a return
/// whose value no read got.
fn relevant<'a>(operations: &[&'a Operation]) -> Vec<&'a Operation> {
    let read: HashSet<&str> = operations
        .iter()
        .filter_map(|operation| match &operation.action {
            Action::Read(Some(value)) => Some(value.as_str()),
            _ => None,
        })
        .collect();
    let matters = |operation: &&&Operation| match (&operation.action, operation.returned) {
        (_, Some(_)) => true,
        (Action::Write(value), None) => read.contains(value.as_str()),
        (Action::Read(_), None) => false,
    };
    operations.iter().filter(matters).copied().collect()
}

/// The calls and returns of a key in the order of time, as a list from which operations can be
/// taken out and put back.
struct Events {
    /// The operation of each event; the first event, a sentinel, has none.
    operation: Vec<usize>,
    is_call: Vec<bool>,
    /// The event of an operation's return.
    return_of: Vec<usize>,
    next: Vec<usize>,
    previous: Vec<usize>,
}

const SENTINEL: usize = 0;

impl Events {
    fn new(operations: &[&Operation]) -> Events {
        // A call comes before a return of the same time: the two operations then overlap.
        let mut times: Vec<(u64, bool, usize)> = Vec::new();
        for (at, operation) in operations.iter().enumerate() {
            times.push((operation.call, false, at));
            times.push((operation.returned.unwrap_or(u64::MAX), true, at));
        }
        times.sort_unstable();
        let count = times.len() + 1;
        let mut events = Events {
            operation: vec![usize::MAX],
            is_call: vec![false],
            return_of: vec![0; operations.len()],
            next: (1..=count).map(|at| at % count).collect(),
            previous: (0..count).map(|at| (at + count - 1) % count).collect(),
        };
        for (at, (_, is_return, operation)) in times.into_iter().enumerate() {
            events.operation.push(operation);
            events.is_call.push(!is_return);
            if is_return {
                events.return_of[operation] = at + 1;
            }
        }
        events
    }

    /// Takes out an operation, given the event of its call.
    fn take_out(&mut self, call: usize) {
        for event in [call, self.return_of[self.operation[call]]] {
            let (previous, next) = (self.previous[event], self.next[event]);
            self.next[previous] = next;
            self.previous[next] = previous;
        }
    }

    /// Puts back the operation that was taken out last.
    fn put_back(&mut self, call: usize) {
        for event in [self.return_of[self.operation[call]], call] {
            let (previous, next) = (self.previous[event], self.next[event]);
            self.next[previous] = event;
            self.previous[next] = event;
        }
    }
}

/// Searches for an order of the operations of one key.
/// # Errors
/// The operation whose return ended the longest attempt.
fn check_register<'a>(operations: &[&'a Operation]) -> Result<(), &'a Operation> {
    let mut events = Events::new(operations);
    let mut done = vec![0_u64; operations.len().div_ceil(64)];
    let mut value: Option<&str> = None;
    // The states that the search has reached: the set of operations done, and the value after them.
    let mut seen: HashSet<(Vec<u64>, Option<&str>)> = HashSet::new();
    let mut order: Vec<(usize, Option<&str>)> = Vec::new();
    let (mut longest, mut culprit) = (0, None);
    let mut event = events.next[SENTINEL];
    while events.next[SENTINEL] != SENTINEL {
        let at = events.operation[event];
        if events.is_call[event] {
            let after = match &operations[at].action {
                Action::Write(written) => Some(Some(written.as_str())),
                Action::Read(read) if read.as_deref() == value => Some(value),
                Action::Read(_) => None,
            };
            if let Some(after) = after {
                done[at / 64] |= 1 << (at % 64);
                if seen.insert((done.clone(), after)) {
                    order.push((event, value));
                    value = after;
                    events.take_out(event);
                    event = events.next[SENTINEL];
                    continue;
                }
                done[at / 64] &= !(1 << (at % 64));
            }
            event = events.next[event];
        } else {
            // Each operation called before this return was tried here.
            if culprit.is_none() || order.len() > longest {
                (longest, culprit) = (order.len(), Some(operations[at]));
            }
            let Some((call, before)) = order.pop() else { return Err(culprit.unwrap_or(operations[at])) };
            let undone = events.operation[call];
            done[undone / 64] &= !(1 << (undone % 64));
            value = before;
            events.put_back(call);
            event = events.next[call];
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(value: &str, call: u64, returned: impl Into<Option<u64>>) -> Operation {
        let returned = returned.into();
        Operation { key: "k".to_owned(), action: Action::Write(value.to_owned()), call, returned }
    }

    fn read(value: Option<&str>, call: u64, returned: u64) -> Operation {
        let action = Action::Read(value.map(str::to_owned));
        Operation { key: "k".to_owned(), action, call, returned: Some(returned) }
    }

    #[test]
    fn one_client_reads_its_own_writes() {
        let history = [read(None, 0, 1), write("a", 2, 3), read(Some("a"), 4, 5), write("b", 6, 7)];
        assert_eq!(check(&history), Ok(()));
    }

    #[test]
    fn reads_beside_a_write_may_have_either_value_in_order() {
        let write = write("b", 10, 20);
        let first = super::tests::write("a", 0, 1);
        let old_then_new = [first.clone(), write.clone(), read(Some("a"), 11, 12), read(Some("b"), 13, 14)];
        assert_eq!(check(&old_then_new), Ok(()));
        let new_then_old = [first, write, read(Some("b"), 11, 12), read(Some("a"), 13, 14)];
        assert!(check(&new_then_old).is_err());
    }

    #[test]
    fn a_stale_read_is_found() {
        let history = [write("a", 0, 1), write("b", 2, 3), read(Some("a"), 4, 5)];
        let error = check(&history).unwrap_err();
        assert!(error.contains("Read(Some(\"a\"))"), "{error}");
    }

    #[test]
    fn a_lost_write_is_found() {
        let history = [write("a", 0, 1), read(Some("a"), 2, 3), read(None, 4, 5)];
        assert!(check(&history).is_err());
    }

    #[test]
    fn a_value_without_a_write_is_found() {
        assert!(check(&[write("a", 0, 1), read(Some("x"), 2, 3)]).is_err());
    }

    #[test]
    fn a_write_of_unknown_fate_may_take_effect_late_once_or_never() {
        let never = [write("a", 0, 1), write("b", 2, None), read(Some("a"), 10, 11)];
        assert_eq!(check(&never), Ok(()));
        let late = [write("a", 0, 1), write("b", 2, None), read(Some("a"), 4, 5), read(Some("b"), 6, 7)];
        assert_eq!(check(&late), Ok(()));
        let twice = [&late[..], &[read(Some("a"), 8, 9)]].concat();
        assert!(check(&twice).is_err());
        let early = [read(Some("b"), 0, 1), write("b", 2, None)];
        assert!(check(&early).is_err());
    }

    #[test]
    fn keys_are_independent() {
        let other = Operation { key: "other".to_owned(), ..read(None, 4, 5) };
        assert_eq!(check(&[write("a", 0, 1), other]), Ok(()));
    }

    /// Many clients use one register. The order of the steps explains their history, until a read
    /// of an old value is added.
    #[test]
    fn a_long_history_is_checked_and_one_stale_read_in_it_is_found() {
        let mut history = Vec::new();
        let mut last = None;
        for step in 0..900_u64 {
            // Each operation takes effect at its call. About five operations run at any time.
            let (call, returned) = (10 * step + 1, 10 * step + 50 + step % 7);
            if step % 3 == 0 {
                last = Some(step.to_string());
                history.push(write(&step.to_string(), call, returned));
            } else {
                history.push(read(last.as_deref(), call, returned));
            }
        }
        assert_eq!(check(&history), Ok(()));
        history.push(read(Some("30"), 6000, 6001));
        assert!(check(&history).is_err());
    }
}
