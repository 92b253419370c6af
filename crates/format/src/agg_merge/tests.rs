use super::*;

/// Little-endian 16-bit numbers: their sum.
struct Sum;

impl Aggregator for Sum {
    fn aggregate(&self, values: &[&[u8]]) -> Option<Vec<u8>> {
        let numbers = values.iter().map(|value| Some(u16::from_le_bytes((*value).try_into().ok()?)));
        let sum = numbers.reduce(|a, b| Some(a?.wrapping_add(b?)))??;
        Some(sum.to_le_bytes().to_vec())
    }
}

/// The values with `-` between them; never without the value below.
struct Join;

impl Aggregator for Join {
    fn aggregate(&self, values: &[&[u8]]) -> Option<Vec<u8>> {
        Some(values.join(&b'-'))
    }
    fn do_partial_aggregate(&self) -> bool {
        false
    }
}

fn operator() -> MergeOperatorRef {
    add_aggregator("sum", Box::new(Sum)).unwrap();
    add_aggregator("join", Box::new(Join)).unwrap();
    agg_merge_operator()
}

/// RocksDB's bytes: a varint of the name's length, the name, the payload.
#[test]
fn operands_have_rocksdbs_bytes() {
    operator();
    assert_eq!(encode_agg_func_and_payload("sum", "ab").unwrap(), b"\x03sumab");
    assert_eq!(encode_agg_func_and_payload(UNNAMED_FUNC_NAME, "ab").unwrap(), b"\0ab");
    assert_eq!(extract_agg_func_and_value(b"\x03sumab"), Some((&b"sum"[..], &b"ab"[..])));
    assert_eq!(extract_agg_func_and_value(b"\x03su"), None);
    assert_eq!(extract_agg_func_and_value(b""), None);
    assert_eq!(extract_list(b"\x01a\0\x02bc"), Some(vec![&b"a"[..], b"", b"bc"]));
    assert_eq!((extract_list(b""), extract_list(b"\x01a\x02b")), (Some(vec![]), None));
    assert_eq!(extract_list(b"\x01a\x02"), Some(vec![&b"a"[..]]));
    let long = [b'n'; 200];
    assert_eq!(encode(&long, b"x")[..2], [0xC8, 0x01]);
}

#[test]
fn names_without_a_function_are_refused_in_rocksdbs_words() {
    operator();
    let text = |name: &str| encode_agg_func_and_payload(name, "").unwrap_err().to_string();
    assert_eq!(text("nobody"), "Invalid argument: Function name not registered");
    assert_eq!(text("kErrorFuncName"), "Invalid argument: Cannot use error function name");
    let error = add_aggregator(ERROR_FUNC_NAME, Box::new(Sum)).unwrap_err();
    assert_eq!(error.to_string(), "Invalid argument: Cannot register function name kErrorFuncName");
    // The first function with a name stays.
    add_aggregator("sum", Box::new(Join)).unwrap();
    assert_eq!(aggregator(b"sum").unwrap().aggregate(&[b"\x01\0", b"\x02\0"]).unwrap(), b"\x03\0");
}

#[test]
fn a_change_of_function_aggregates_the_former_payloads_first() {
    let operator = operator();
    let full = |existing: Option<&[u8]>, operands: &[&[u8]]| {
        operator.full_merge(b"key", existing, operands).unwrap()
    };
    let sum = [&b"\x03sum\x01\0"[..], b"\x03sum\x02\0"];
    assert_eq!(full(None, &sum), b"\x03sum\x03\0");
    assert_eq!(full(Some(b"\0\x04\0"), &sum), b"\x03sum\x07\0");
    assert_eq!(full(Some(b"\x04joinx"), &[b"\x04joiny"]), b"\x04joinx-y");
    let mixed = [sum[0], sum[1], b"\x04joinx", b"\x04joiny"];
    assert_eq!(full(None, &mixed), b"\x04join\x03\0-x-y");
    let three = [sum[0], b"\x04join", sum[1]];
    assert_eq!(full(None, &three)[..15], *b"\x0ekErrorFuncName", "the join is no number");
}

#[test]
fn operands_that_cannot_be_aggregated_are_kept_in_a_list() {
    let operator = operator();
    let bad: [(&[u8], bool); 4] =
        [(b"\x06nobody1", true), (b"\x03sum1", true), (b"\0\x01\0", true), (b"\x09sum", false)];
    for (operand, is_alone_only) in bad {
        let merged = operator.full_merge(b"key", Some(b"\x03sum\x01\0"), &[operand]).unwrap();
        if is_alone_only {
            let (name, list) = extract_agg_func_and_value(&merged).unwrap();
            assert_eq!(name, ERROR_FUNC_NAME);
            assert_eq!(extract_list(list), Some(vec![&b"\x03sum\x01\0"[..], operand]));
        } else {
            assert_eq!(merged, b"\x03sum\x01\0", "what follows a cut-off operand is ignored");
        }
    }
    let packed = operator.full_merge(b"key", None, &[b"\x09sum"]).unwrap();
    assert_eq!(packed, b"\x0ekErrorFuncName\x04\x09sum");
}

#[test]
fn partial_merges_keep_to_one_function_that_agrees() {
    let operator = operator();
    let partial = |left: &[u8], right: &[u8]| operator.partial_merge(b"key", left, right);
    assert_eq!(partial(b"\x03sum\x01\0", b"\x03sum\x02\0").unwrap(), b"\x03sum\x03\0");
    assert_eq!(partial(b"\0\x01\0", b"\x03sum\x02\0").unwrap(), b"\x03sum\x03\0");
    assert_eq!(partial(b"\x04joinx", b"\x04joiny"), None, "its aggregator refuses");
    assert_eq!(partial(b"\x03sum\x01\0", b"\x04joiny"), None);
    assert_eq!(partial(b"\x06nobody1", b"\x06nobody1"), None);
    assert_eq!(partial(b"\0a", b"\0b"), None, "no operand names a function");
    assert_eq!(partial(b"\x03sum1", b"\x03sum1"), None, "they are no numbers");
    assert_eq!((operator.name(), operator.allow_single_operand()), ("AggMergeOperator.v1", true));
}

/// Threads that register at once all find their functions afterwards.
#[test]
fn functions_may_be_registered_by_many_threads_at_once() {
    let names: Vec<String> = (0..40).map(|n| format!("thread {n}")).collect();
    std::thread::scope(|scope| {
        for names in names.chunks(10) {
            scope.spawn(move || names.iter().for_each(|name| add_aggregator(name, Box::new(Sum)).unwrap()));
        }
    });
    assert!(names.iter().all(|name| aggregator(name.as_bytes()).is_some()));
}
