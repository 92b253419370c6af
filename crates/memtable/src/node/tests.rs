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
fn a_leaf_is_18_lines() {
    assert_eq!(size_of::<Node<{ crate::tree::WIDTH }>>(), 18 * 64);
    assert_eq!(
        std::mem::offset_of!(Node<{ crate::tree::WIDTH }>, prefix),
        64,
        "who goes along a level reads one line"
    );
}
