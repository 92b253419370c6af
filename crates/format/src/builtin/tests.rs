use super::*;
use proptest::collection;
use proptest::prelude::*;

fn full(text: &str, existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
    merge_operator(text).unwrap().full_merge(b"k", existing, operands)
}

#[test]
fn every_name_leads_to_its_class() {
    let classes = [
        "UInt64AddOperator",
        "StringAppendOperator",
        "StringAppendTESTOperator",
        "PutOperator",
        "MaxOperator",
        "BytesXOR",
        "MergeSortOperator",
    ];
    for (nick, class) in MERGE_OPERATOR_NAMES.iter().zip(classes) {
        assert_eq!(merge_operator(nick).unwrap().name(), class);
        assert_eq!(merge_operator(class).unwrap().name(), class);
        assert_eq!(merge_operator(&format!("{{id={class};}}")).unwrap().name(), class);
    }
    assert!(merge_operator("nullptr").is_none());
    assert!(merge_operator("Uint64add").is_none());
}

#[test]
fn uint64add_wraps_and_takes_odd_lengths_for_zero() {
    let n = |v: u64| v.to_le_bytes().to_vec();
    assert_eq!(full("uint64add", None, &[&n(5)]), Some(n(5)));
    assert_eq!(full("uint64add", Some(&n(u64::MAX)), &[&n(2), &n(3)]), Some(n(4)));
    assert_eq!(full("uint64add", Some(b"abc"), &[&n(7)]), Some(n(7)));
    assert_eq!(full("uint64add", None, &[b""]), Some(n(0)));
    assert_eq!(uint64_add().partial_merge(b"", &n(1), b"123456789"), Some(n(1)));
}

#[test]
fn stringappend_joins_and_the_test_kind_never_merges_partially() {
    assert_eq!(full("stringappend", None, &[b"a"]).unwrap(), b"a");
    assert_eq!(full("stringappend", Some(b"v"), &[b"a", b""]).unwrap(), b"v,a,");
    assert_eq!(full("stringappend", Some(b""), &[b"a"]).unwrap(), b",a");
    assert_eq!(
        full("{id=StringAppendOperator;delimiter=||}", Some(b"v"), &[b"a", b"b"]).unwrap(),
        b"v||a||b"
    );
    assert_eq!(full("stringappendtest", Some(b"v"), &[b"a", b"b"]).unwrap(), b"v,a,b");
    assert_eq!(full("stringappendtest", None, &[b"a"]).unwrap(), b"a");
    assert_eq!(string_append(":").partial_merge(b"", b"x", b"y").unwrap(), b"x:y");
    assert_eq!(merge_operator("stringappendtest").unwrap().partial_merge(b"", b"x", b"y"), None);
}

#[test]
fn put_max_xor_and_sortlist() {
    assert_eq!(full("put", Some(b"z"), &[b"b", b"a"]).unwrap(), b"a");
    assert_eq!(put().partial_merge(b"", b"x", b"y").unwrap(), b"y");
    assert_eq!(full("max", Some(b"m"), &[b"a", b"mm", b"b"]).unwrap(), b"mm");
    assert_eq!(full("max", None, &[b"", b""]).unwrap(), b"");
    assert_eq!(max().partial_merge(b"", b"x", b"wxyz").unwrap(), b"x");
    assert_eq!(full("bytesxor", Some(&[1, 2, 3]), &[&[3]]).unwrap(), [2, 2, 3]);
    assert_eq!(full("bytesxor", Some(&[1]), &[&[3, 9]]).unwrap(), [2, 9]);
    assert_eq!(full("bytesxor", None, &[&[3, 9]]).unwrap(), [3, 9]);
    assert_eq!(full("sortlist", Some(b"1,2"), &[b"3,9", b"-4,5"]).unwrap(), b"-4,3,5,9");
    assert_eq!(full("sortlist", None, &[b"3,x"]), None);
    assert_eq!(merge_operator("sortlist").unwrap().partial_merge(b"", b"1,5", b"5,7").unwrap(), b"1,5,5,7");
}

/// The operators that merge partially, with operands that each of them takes.
fn operator_and_operands() -> impl Strategy<Value = (&'static str, Vec<Vec<u8>>)> {
    let texts = || collection::vec(collection::vec(b'a'..b'e', 0..5), 2..7);
    let sums = collection::vec(any::<[u8; 8]>().prop_map(Vec::from), 2..7);
    let lists = collection::vec((-9..9).prop_map(|number: i32| number.to_string().into_bytes()), 2..7);
    let on_texts = prop::sample::select(vec!["stringappend", "put", "max", "bytesxor"]);
    prop_oneof![
        4 => (on_texts, texts()),
        1 => (Just("uint64add"), sums),
        1 => (Just("sortlist"), lists),
    ]
}

proptest! {
    /// Partial merges must not change the value: any split into neighbours gives the same result.
    #[test]
    fn partial_merges_never_change_the_value(
        (name, mut operands) in operator_and_operands(),
        has_value in any::<bool>(),
        places in collection::vec(any::<prop::sample::Index>(), 6),
    ) {
        let operator = merge_operator(name).unwrap();
        let existing = has_value.then(|| operands.remove(0));
        let all = |operands: &[Vec<u8>]| {
            let operands: Vec<&[u8]> = operands.iter().map(Vec::as_slice).collect();
            operator.full_merge(b"k", existing.as_deref(), &operands)
        };
        let expected = all(&operands);
        for place in places {
            if operands.len() < 2 {
                break;
            }
            let left = place.index(operands.len() - 1);
            let right = operands.remove(left + 1);
            operands[left] = operator.partial_merge(b"k", &operands[left], &right).unwrap();
            prop_assert_eq!(&all(&operands), &expected, "{}", name);
        }
    }
}

#[test]
fn operands_of_ttl_databases_are_merged_without_their_times() {
    let text = "{id=TtlMergeOperator;user_operator={id=StringAppendOperator;delimiter=|}}";
    let operator = merge_operator(text).unwrap();
    assert_eq!(operator.name(), "TtlMergeOperator");
    let merged = operator.full_merge(b"k", Some(b"vTIM1"), &[b"aTIM2", b"bTIM3"]);
    assert_eq!(merged.as_deref(), Some(&b"v|a|bTIM3"[..]));
    assert_eq!(operator.partial_merge(b"k", b"aTIM2", b"bTIM3").as_deref(), Some(&b"a|bTIM3"[..]));
    assert_eq!(operator.full_merge(b"k", None, &[b"abc"]), None, "the value is too short for a time");
    assert!(merge_operator("{id=TtlMergeOperator;user_operator=mine}").is_none());
}
