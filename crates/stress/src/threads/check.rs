//! The invariants of one writer's keys at one point in time.

use super::Shared;
use esker::{DbIterator, ReadOptions, Snapshot};

/// Entries of a writer's log.
pub(super) const LOG: u64 = 64;
/// Bytes of a value.
const VALUE_BYTES: usize = 120;

/// A writer's state at one point in time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct WriterState {
    pub(super) a: u64,
    pub(super) base: u64,
}

pub(super) fn key(writer: usize, name: &str) -> Vec<u8> {
    format!("{writer:02}/{name}").into_bytes()
}

pub(super) fn log_key(writer: usize, n: u64) -> Vec<u8> {
    key(writer, &format!("log/{:02}", n % LOG))
}

/// The number, and filling that depends on it.
pub(super) fn value(n: u64) -> Vec<u8> {
    let mut bytes = n.to_le_bytes().to_vec();
    bytes.extend((0..VALUE_BYTES - 8).map(|i| (n as usize * 31 + i) as u8));
    bytes
}

/// The number in a value; 0 if there is none.
pub(super) fn number(found: Option<&[u8]>) -> Result<u64, String> {
    let Some(found) = found else { return Ok(0) };
    let head: Option<[u8; 8]> = found.get(..8).and_then(|head| head.try_into().ok());
    let n = u64::from_le_bytes(head.ok_or_else(|| format!("a value of {} bytes", found.len()))?);
    if found.len() > 8 && found != value(n) {
        return Err(format!("the value of {n} is damaged: {}", found.escape_ascii()));
    }
    Ok(n)
}

/// Reads one writer's keys at `snapshot` in every way and checks invariants 1 and 2.
pub(super) fn check_writer(
    shared: &Shared,
    writer: usize,
    snapshot: &Snapshot,
) -> Result<WriterState, String> {
    let options = ReadOptions::new().snapshot(snapshot);
    let get = |family, name: &str| {
        let found = shared.db.get_pinned_opt(&options, family, key(writer, name));
        let found = found.map_err(|e| format!("get {writer}/{name}: {e}"))?;
        number(found.as_deref()).map_err(|e| format!("get {writer}/{name}: {e}"))
    };
    let a = get(&shared.first, "a")?;
    let base = get(&shared.first, "base")?;
    let (b, c) = (get(&shared.second, "b")?, get(&shared.second, "c")?);
    if a != b || a != c {
        return Err(format!("writer {writer} at {snapshot:?}: a {a}, b {b}, c {c}"));
    }
    let bounded = options.lower_bound(key(writer, "log/")).upper_bound(key(writer, "log0"));
    let mut iter =
        shared.db.iter_opt(bounded, &shared.first).map_err(|e| format!("iterator over {writer}/log: {e}"))?;
    let state = WriterState { a, base };
    for backward in [false, true] {
        check_log(&mut iter, writer, &state, backward)
            .map_err(|e| format!("writer {writer} at {snapshot:?}, {state:?}, backward {backward}: {e}"))?;
    }
    Ok(state)
}

/// Walks through a writer's log.
fn check_log(
    iter: &mut DbIterator,
    writer: usize,
    state: &WriterState,
    backward: bool,
) -> Result<(), String> {
    let first = (state.a + 1).saturating_sub(LOG).max(state.base).max(1);
    let mut expected: Vec<u64> = (first..=state.a).collect();
    expected.sort_unstable_by_key(|n| n % LOG);
    if backward {
        expected.reverse();
        iter.seek_to_last();
    } else {
        iter.seek_to_first();
    }
    for n in expected {
        let Some((key, found)) = iter.item() else {
            return Err(format!("{n} is missing from the log: {:?}", iter.status()));
        };
        let found = number(Some(found))?;
        if key != log_key(writer, n) || found != n {
            return Err(format!("the log has {} = {found} where {n} is due", key.escape_ascii()));
        }
        if backward { iter.prev() } else { iter.next() }
    }
    match iter.item() {
        Some((key, _)) => Err(format!("the log has {} behind its end", key.escape_ascii())),
        None => iter.status().map_err(|e| e.to_string()),
    }
}
