//! Any bytes as a wide-column entity.

use esker_format::wide_column::{EncodedColumns, serialize};

/// One input.
pub fn run(data: &[u8]) {
    let Ok(columns) = EncodedColumns::parse(data) else { return };
    let pairs: Vec<(&[u8], &[u8])> = columns.iter().collect();
    assert_eq!(pairs.len(), columns.len());
    let mut again = Vec::new();
    serialize(&pairs, &mut again).unwrap();
    assert!(again.len() <= data.len(), "Esker's encoding is the shortest");
    assert!(EncodedColumns::parse(&again).unwrap().iter().eq(pairs));
}
