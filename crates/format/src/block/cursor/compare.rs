//! Compares keys, and finds the byte at which they differ.

use super::super::common_prefix;
use crate::key;
use std::cmp::Ordering;

/// Compares internal keys in bytewise order; if they differ within both user keys, says where.
#[inline]
pub(super) fn compare_bytewise(a: &[u8], b: &[u8]) -> (Ordering, Option<usize>) {
    let (a_user, b_user) = (key::user_key(a), key::user_key(b));
    let common = common_prefix(a_user, b_user);
    match (a_user.get(common), b_user.get(common)) {
        (Some(x), Some(y)) => (x.cmp(y), Some(common)),
        (None, None) => (key::trailer(b).cmp(&key::trailer(a)), None),
        (x, y) => (x.is_some().cmp(&y.is_some()), None),
    }
}

/// Offset of the first byte in which an internal key differs from the user key `target`. `None`
/// unless the key is smaller there, within both user keys. The key is the first `at` bytes of
/// `target` followed by `suffix`.
#[inline]
pub(super) fn smaller_behind(suffix: &[u8], target: &[u8], at: usize) -> Option<usize> {
    let (user_suffix, _) = suffix.split_last_chunk::<{ key::TRAILER_BYTES }>()?;
    let rest = target.get(at..)?;
    let first = user_suffix.first()?.cmp(rest.first()?);
    if first.is_ne() {
        return first.is_lt().then_some(at);
    }
    let common = common_prefix(user_suffix, rest);
    (user_suffix.get(common)? < rest.get(common)?).then_some(at + common)
}

/// The order of the internal key `target` and all keys that begin with `prefix`: `Equal` if the
/// user key of `target` begins with it, too.
#[inline]
pub(super) fn compare_prefix(prefix: &[u8], target: &[u8]) -> Ordering {
    let user_key = key::user_key(target);
    user_key.get(..prefix.len()).unwrap_or(user_key).cmp(prefix)
}
