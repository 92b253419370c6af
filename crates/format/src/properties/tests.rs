use super::*;

fn parse(bytes: Vec<u8>) -> Result<TableProperties> {
    TableProperties::parse(&Block::parse(bytes)?)
}

#[test]
fn properties_come_back() {
    let mut p = TableProperties {
        data_size: 1 << 40,
        num_entries: 3,
        raw_key_size: 30,
        db_id: "id".into(),
        comparator_name: "leveldb.BytewiseComparator".into(),
        index_type: Some(0),
        external_sst_file_version: Some(2),
        external_sst_file_global_seqno: Some(7),
        user_defined_timestamps_persisted: false,
        whole_key_filtering: false,
        index_key_is_user_key: true,
        ..TableProperties::absent()
    };
    p.user_collected_properties.insert(b"mine".to_vec(), b"value".to_vec());
    let bytes = p.encode();
    let back = parse(bytes.clone()).unwrap();
    let at = back.global_seqno_offset.unwrap();
    assert_eq!(bytes[at..at + 8], 7u64.to_le_bytes());
    assert_eq!(TableProperties { global_seqno_offset: None, ..back }, p);
}

#[test]
fn malformed_numbers_are_skipped_and_bad_order_is_not() {
    let mut block = BlockBuilder::new(1000);
    block.add(b"rocksdb.data.size", &[0x80]);
    block.add(b"rocksdb.index.size", &[5]);
    block.finish();
    let p = parse(block.into_contents()).unwrap();
    assert_eq!((p.data_size, p.index_size), (0, 5));
    for (a, b) in [("b", "a"), ("a", "a")] {
        let mut block = BlockBuilder::new(1000);
        block.add(a.as_bytes(), b"");
        block.add(b.as_bytes(), b"");
        block.finish();
        assert!(parse(block.into_contents()).unwrap_err().is_corruption());
    }
}
