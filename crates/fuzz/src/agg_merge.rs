//! Any bytes as operands of the merge operator over named functions: the operator never fails, and
//! its value has the form that it reads. Operands without an aggregate are in the value as a list.
//!
//! Each operand begins with a byte that has its length. A first byte of odd value: the first
//! operand is the value below.

use esker_base::coding::put_length_prefixed;
use esker_format::agg_merge::{
    Aggregator, ERROR_FUNC_NAME, add_aggregator, agg_merge_operator, encode_agg_func_and_payload,
    extract_agg_func_and_value, extract_list,
};

/// The sum of all bytes; refuses an empty payload.
struct Sum;

impl Aggregator for Sum {
    fn aggregate(&self, values: &[&[u8]]) -> Option<Vec<u8>> {
        let sum = |value: &&[u8]| value.iter().copied().reduce(u8::wrapping_add);
        values.iter().map(sum).reduce(|a, b| Some(a?.wrapping_add(b?)))?.map(|sum| vec![sum])
    }
}

/// One input.
pub fn run(data: &[u8]) {
    add_aggregator("s", Box::new(Sum)).unwrap();
    if let Some((name, payload)) = extract_agg_func_and_value(data)
        && let Ok(encoded) = encode_agg_func_and_payload(name, payload)
    {
        assert_eq!(extract_agg_func_and_value(&encoded), Some((name, payload)));
    }
    if let Some(items) = extract_list(data) {
        let mut encoded = Vec::new();
        items.iter().for_each(|item| put_length_prefixed(&mut encoded, item));
        assert_eq!(extract_list(&encoded), Some(items));
    }
    let Some((choice, mut rest)) = data.split_first() else { return };
    let mut operands: Vec<&[u8]> = Vec::new();
    while let Some((length, behind)) = rest.split_first() {
        let (operand, behind) = behind.split_at(usize::from(*length).min(behind.len()));
        operands.push(operand);
        rest = behind;
    }
    let (existing, above) = match operands.split_first() {
        Some((first, above)) if choice & 1 == 1 => (Some(*first), above),
        _ => (None, operands.as_slice()),
    };
    let operator = agg_merge_operator();
    let merged = operator.full_merge(b"key", existing, above).expect("the operator never fails");
    let (name, payload) = extract_agg_func_and_value(&merged).expect("the value has the form of operands");
    if name == ERROR_FUNC_NAME {
        assert_eq!(extract_list(payload).as_deref(), Some(operands.as_slice()), "an operand is lost");
    } else {
        assert_eq!((name, payload.len()), (&b"s"[..], 1));
    }
    let is_sound = |operand: &&[u8]| operand.starts_with(b"\x01s") && operand.len() > 2;
    if let [left, right] = above
        && above.iter().all(is_sound)
    {
        let both = operator.partial_merge(b"key", left, right).expect("both name one function");
        assert_eq!(operator.full_merge(b"key", existing, &[&both]).unwrap(), merged);
    }
}
