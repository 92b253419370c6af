//! Any bytes as a properties block.
#![no_main]

use esker_format::block::Block;
use esker_format::properties::TableProperties;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(block) = Block::parse(data.to_vec()) else { return };
    let Ok(properties) = TableProperties::parse(&block) else { return };
    let again = Block::parse(properties.encode()).unwrap();
    TableProperties::parse(&again).unwrap();
});
