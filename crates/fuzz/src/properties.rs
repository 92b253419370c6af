//! Any bytes as a properties block.

use esker_format::block::Block;
use esker_format::properties::TableProperties;

/// One input.
pub fn run(data: &[u8]) {
    let Ok(block) = Block::parse(data.to_vec()) else { return };
    let Ok(properties) = TableProperties::parse(&block) else { return };
    let again = Block::parse(properties.encode()).unwrap();
    TableProperties::parse(&again).unwrap();
}
