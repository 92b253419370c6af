//! Any bytes as a properties block.

use esker_format::block::Block;
use esker_format::properties::TableProperties;
use esker_format::seqno_to_time::SeqnoToTimeMapping;

/// One input.
pub fn run(data: &[u8]) {
    let Ok(block) = Block::parse(data.to_vec()) else { return };
    let Ok(properties) = TableProperties::parse(&block) else { return };
    if let Ok(pairs) = SeqnoToTimeMapping::decode(&properties.seqno_to_time_mapping) {
        let mut times = SeqnoToTimeMapping::from_samples(pairs);
        assert_eq!(SeqnoToTimeMapping::decode(&times.encode()).unwrap(), times.pairs());
        times.thin_out(10);
        assert!(times.pairs().len() <= 10);
    }
    let again = Block::parse(properties.encode()).unwrap();
    TableProperties::parse(&again).unwrap();
}
