use super::*;

#[test]
fn separators_lie_between_their_neighbours() {
    for (start, limit, expected) in [
        (&b"abcdef"[..], &b"abzz"[..], &b"abd"[..]),
        (b"abc", b"abcd", b"abc"),
        (b"abcd", b"abc", b"abcd"),
        (b"ab\x01\xFF\x05", b"ab\x02", b"ab\x01\xFF\x06"),
        (b"ab\x01\xFF", b"ab\x02", b"ab\x01\xFF"),
        (b"ab\x01", b"ab\x02\x00", b"ab\x02"),
    ] {
        let mut key = start.to_vec();
        BytewiseComparator.find_shortest_separator(&mut key, limit);
        assert_eq!(key, expected, "between {start:?} and {limit:?}");
    }
}

#[test]
fn successor_raises_the_first_byte_it_can() {
    for (key, expected) in
        [(&b"\xFF\xFFa"[..], &b"\xFF\xFFb"[..]), (b"\xFF", b"\xFF"), (b"abc", b"b"), (b"", b"")]
    {
        let mut k = key.to_vec();
        BytewiseComparator.find_short_successor(&mut k);
        assert_eq!(k, expected);
    }
}

#[test]
fn timestamps_sort_newest_first() {
    let key = |k: &[u8], ts: u64| [k, &ts.to_le_bytes()].concat();
    let c = BytewiseComparatorWithU64Ts;
    assert_eq!(c.compare(&key(b"a", 300), &key(b"a", 2)), Ordering::Less);
    assert_eq!(c.compare(&key(b"a", 2), &key(b"b", 300)), Ordering::Less);
    assert_eq!(c.compare(b"short", b"short"), Ordering::Equal);
}
