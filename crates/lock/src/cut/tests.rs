use super::*;
use esker_base::comparator::{BytewiseComparator, ReverseBytewiseComparator};

fn all_cuts() -> Vec<(Vec<u8>, CutPosition)> {
    let keys: [&[u8]; 8] =
        [b"", b"a", b"ab", b"abcdefgh", b"abcdefghi", b"b", b"b\xff\xff\xff\xff\xff\xff\xff\xff", b"\xff"];
    let places = [CutPosition::Infimum, CutPosition::Before, CutPosition::After, CutPosition::Supremum];
    let mut all = vec![(Vec::new(), CutPosition::Min), (Vec::new(), CutPosition::Max)];
    all.extend(keys.iter().flat_map(|k| places.map(|p| (k.to_vec(), p))));
    all
}

fn orders() -> [CutOrder; 3] {
    [
        CutOrder::of(&(Arc::new(BytewiseComparator) as ComparatorRef)),
        CutOrder::of(&(Arc::new(ReverseBytewiseComparator) as ComparatorRef)),
        CutOrder::Custom(Arc::new(BytewiseComparator)),
    ]
}

use esker_base::sync::Arc;

#[test]
fn the_order_is_total_and_heads_agree_with_it() {
    for order in orders() {
        let all = all_cuts();
        let cuts: Vec<Cut<'_>> = all.iter().map(|(key, place)| Cut { key, place: *place }).collect();
        for &a in &cuts {
            for &b in &cuts {
                assert_eq!(order.cmp(a, b), order.cmp(b, a).reverse(), "{order:?} {a:?} {b:?}");
                if order.cmp(a, b).is_lt() {
                    assert!(order.head(a) <= order.head(b), "{order:?} {a:?} {b:?}");
                }
                for &c in &cuts {
                    if order.cmp(a, b).is_le() && order.cmp(b, c).is_le() {
                        assert!(order.cmp(a, c).is_le(), "{order:?} {a:?} {b:?} {c:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn infimum_and_supremum_hold_the_prefix_between_them_in_every_order() {
    for order in orders() {
        let prefix = KeySpan::closed(Endpoint::Infimum(b"ab"), Endpoint::Supremum(b"ab"));
        for inside in [&b"ab"[..], b"abc", b"ab\xff\xff\xff\xff\xff\xff\xff\xff\xff", b"ab\0"] {
            assert!(order.covers(prefix, KeySpan::point(inside)), "{order:?} {inside:?}");
        }
        for outside in [&b"a"[..], b"aa\xff", b"ac", b"", b"b"] {
            assert!(!order.overlap(prefix, KeySpan::point(outside)), "{order:?} {outside:?}");
        }
    }
}
