//! Any bytes as a blob index.

use esker_format::blob::BlobIndex;

/// One input.
pub fn run(data: &[u8]) {
    let Ok(index) = BlobIndex::parse(data) else { return };
    let mut again = Vec::new();
    index.append_to(&mut again);
    assert_eq!(BlobIndex::parse(&again).unwrap(), index);
}
