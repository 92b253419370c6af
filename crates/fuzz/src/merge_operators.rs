//! Any operands for RocksDB's merge operators.
//!
//! The first byte chooses the operator and whether the key has a value. Each operand begins with a
//! byte that has its length.

use esker_format::builtin::{MERGE_OPERATOR_NAMES, merge_operator};

/// One input.
pub fn run(data: &[u8]) {
    let Some((choice, mut rest)) = data.split_first() else { return };
    let name = MERGE_OPERATOR_NAMES[usize::from(choice >> 1) % MERGE_OPERATOR_NAMES.len()];
    let operator = merge_operator(name).unwrap();
    let mut operands: Vec<Vec<u8>> = Vec::new();
    while let Some((length, behind)) = rest.split_first() {
        let (operand, behind) = behind.split_at(usize::from(*length).min(behind.len()));
        operands.push(operand.to_vec());
        rest = behind;
    }
    let existing = (choice & 1 == 1).then(|| operands.pop()).flatten();
    let merged = |operands: &[Vec<u8>]| {
        let operands: Vec<&[u8]> = operands.iter().map(Vec::as_slice).collect();
        operator.full_merge(b"key", existing.as_deref(), &operands)
    };
    let whole = merged(&operands);
    while let [.., left, right] = operands.as_slice() {
        let Some(both) = operator.partial_merge(b"key", left, right) else { break };
        operands.truncate(operands.len() - 2);
        operands.push(both);
    }
    // Lists that are not sorted have no order that all ways to merge them share.
    assert!(name == "sortlist" || merged(&operands) == whole, "{name}: a partial merge changes the value");
}
