use super::heads::head_after;
use super::*;

#[test]
fn heads_are_a_monotone_image_of_keys_whatever_the_prefix() {
    let mut rng = fastrand::Rng::with_seed(5);
    let mut key = || -> Vec<u8> {
        let letters: &[u8] = &[0, 1, b'a', b'b', 0xFF];
        (0..rng.usize(0..14)).map(|_| letters[rng.usize(0..letters.len())]).collect()
    };
    for _ in 0..if cfg!(miri) { 100 } else { 20_000 } {
        let (a, b, prefix) = (key(), key(), key());
        let prefix = if a.len() % 3 == 0 { &a[..a.len().min(4)] } else { &prefix[..prefix.len().min(3)] };
        for order in [KeyOrder::Bytewise, KeyOrder::ReverseBytewise, KeyOrder::Custom] {
            let (x, y) = (head_after(prefix, order, &a), head_after(prefix, order, &b));
            let (low, high) = if (a < b) == (order != KeyOrder::ReverseBytewise) { (x, y) } else { (y, x) };
            assert!(a == b || low <= high, "{a:?} {b:?} {prefix:?} {order:?}");
        }
    }
}

#[test]
fn the_fast_path_for_heads_gives_the_same_numbers() {
    let mut rng = fastrand::Rng::with_seed(6);
    let mut counts = [0; 2];
    for _ in 0..if cfg!(miri) { 100 } else { 20_000 } {
        let mut bytes = |len: usize| -> Vec<u8> { (0..len).map(|_| rng.u8(..2) * 0xFF).collect() };
        let (mut key, rest) = (bytes(40), bytes(MAX_PREFIX));
        key.truncate(rng.usize(..=40));
        // The first `len` bytes are the node's prefix; the bytes behind them do not count. The
        // prefix begins like the key, but half of the time one byte differs.
        let len = rng.usize(..=MAX_PREFIX);
        let mut prefix: [u8; MAX_PREFIX] = rest.try_into().unwrap();
        let shared = len.min(key.len());
        prefix[..shared].copy_from_slice(&key[..shared]);
        if shared > 0 && rng.bool() {
            prefix[rng.usize(..shared)] ^= 1;
        }
        counts[usize::from(key.starts_with(&prefix[..len]))] += 1;
        for order in [KeyOrder::Bytewise, KeyOrder::ReverseBytewise, KeyOrder::Custom] {
            let head = head_in_node(&prefix, len, order, &key);
            assert_eq!(head, head_after(&prefix[..len], order, &key), "{key:?} {prefix:?} {len} {order:?}");
        }
    }
    assert!(counts.iter().all(|&times| times > 20), "{counts:?}");
}

#[test]
fn a_leaf_takes_18_cache_lines() {
    assert_eq!(size_of::<Node<{ crate::tree::WIDTH }>>(), 18 * 64);
    assert_eq!(
        std::mem::offset_of!(Node<{ crate::tree::WIDTH }>, prefix),
        64,
        "a reader that moves along a level reads one line"
    );
}
