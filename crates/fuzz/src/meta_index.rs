//! Any bytes as a meta index.

use esker_format::block::Block;
use esker_format::meta_index::MetaIndex;

/// One input.
pub fn run(data: &[u8]) {
    let Ok(block) = Block::parse(data.to_vec()) else { return };
    let Ok(index) = MetaIndex::parse(&block, 1 << 20) else { return };
    let again = Block::parse(index.encode()).unwrap();
    assert_eq!(MetaIndex::parse(&again, 1 << 20).unwrap(), index);
    assert!(index.properties().is_none_or(|handle| handle.size <= 1 << 20));
}
