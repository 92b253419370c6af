use super::*;
use esker_base::ErrorKind;
use std::sync::Arc;

/// An operator whose results show the order of its inputs; it refuses "bad".
struct Join;
impl MergeOperator for Join {
    fn name(&self) -> &str {
        "Join"
    }
    fn full_merge(&self, _key: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        if operands.contains(&&b"bad"[..]) {
            return None;
        }
        let mut parts = vec![existing.unwrap_or(b"-")];
        parts.extend_from_slice(operands);
        Some(parts.join(&b','))
    }
}

fn operator() -> MergeOperatorRef {
    Arc::new(Join)
}

#[test]
fn the_operator_gets_operands_oldest_first() {
    let mut operands = MergeOperands::new();
    for operand in [&b"c"[..], b"", b"a"] {
        operands.push(operand);
    }
    let op = operator();
    assert_eq!(operands.merge_newest_first(Some(&op), b"k", Some(b"v")).unwrap(), b"v,a,,c");
    let merged = operands.merge_columns_oldest_first(Some(&op), b"k", StoredBase::Nothing).unwrap();
    assert_eq!(merged, MergedValue::Plain(b"-,c,,a".to_vec()));
    operands.clear();
    operands.push(b"x");
    assert_eq!(operands.iter().collect::<Vec<_>>(), [b"x"]);
}

#[test]
fn a_missing_operator_is_an_invalid_argument_naming_the_key() {
    let error = full_merge(None, b"k\x01", None, &[b"a"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().contains("merge_operator is not set"), "{error}");
    assert!(error.message().contains("k\\x01"), "{error}");
}

#[test]
fn a_refusal_is_a_corruption_with_its_sub_code() {
    let error = full_merge(Some(&operator()), b"key", None, &[b"a", b"bad"]).unwrap_err();
    assert_eq!((error.kind(), error.subcode()), (ErrorKind::Corruption, SubCode::MergeOperatorFailed));
    assert!(error.message().contains("Join") && error.message().contains("'key'"), "{error}");
}
