use super::*;

#[test]
fn names_and_handles_come_back() {
    let mut meta = MetaIndex::default();
    meta.insert(PROPERTIES, BlockHandle::new(900, 50));
    meta.insert(FULL_FILTER, BlockHandle::new(100, 800_000 - 100_000));
    meta.insert(RANGE_DEL, BlockHandle::new(5, 0));
    let block = Block::parse(meta.encode()).unwrap();
    assert_eq!(MetaIndex::parse(&block, 1_000_000).unwrap(), meta);
    assert!(MetaIndex::parse(&block, 10_000).unwrap_err().is_corruption(), "a handle beyond the file");
    assert_eq!(meta.find(RANGE_DEL), Some(BlockHandle::new(5, 0)));
    assert_eq!(meta.find(INDEX), None);
}

#[test]
fn names_out_of_order_are_corruption() {
    let mut block = BlockBuilder::new(1);
    block.add(b"b", &[1, 1]);
    block.add(b"a", &[1, 1]);
    block.finish();
    assert!(
        MetaIndex::parse(&Block::parse(block.into_contents()).unwrap(), 100).unwrap_err().is_corruption()
    );
}
