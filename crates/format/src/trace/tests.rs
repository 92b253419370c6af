use super::*;
use esker_base::{ColumnFamilyId, ErrorKind};

fn queries() -> Vec<Query<'static>> {
    let family = ColumnFamilyId(7);
    let seek = |for_prev, lower_bound, upper_bound| Query::IteratorSeek {
        family,
        for_prev,
        key: b"k",
        lower_bound,
        upper_bound,
    };
    vec![
        Query::Write(b"a batch"),
        Query::Get { family, key: b"" },
        seek(false, b"", b""),
        seek(true, b"a", b"z"),
        seek(false, b"", b"z"),
        Query::MultiGet(vec![(family, b"a"), (ColumnFamilyId(0), b"bb")]),
    ]
}

#[test]
fn queries_come_back_as_they_were() {
    for query in queries() {
        let mut payload = Vec::new();
        query.encode(&mut payload);
        assert_eq!(Query::decode(query.kind() as u8, &payload, 2).unwrap(), Some(query));
    }
    for kind in [0, TraceKind::Begin as u8, TraceKind::DataBlock as u8, 200] {
        assert_eq!(Query::decode(kind, b"", 2).unwrap(), None);
    }
}

/// The bytes that RocksDB 11.8.1 writes.
#[test]
fn a_get_has_rocksdbs_bytes() {
    let mut payload = Vec::new();
    Query::Get { family: ColumnFamilyId(1), key: b"key" }.encode(&mut payload);
    let mut record = Vec::new();
    TraceFrame { timestamp: 2, kind: TraceKind::Get as u8, payload: &payload }.encode(&mut record);
    let expected =
        [&[2, 0, 0, 0, 0, 0, 0, 0, 4, 16, 0, 0, 0, 0x0C, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 3][..], b"key"];
    assert_eq!(record, expected.concat());
}

#[test]
fn a_trace_of_version_0_1_has_no_bits() {
    let payload = [&[1, 0, 0, 0, 3][..], b"key"].concat();
    let get = Query::decode(TraceKind::Get as u8, &payload, 1).unwrap();
    assert_eq!(get, Some(Query::Get { family: ColumnFamilyId(1), key: b"key" }));
    assert_eq!(Query::decode(3, b"batch", 1).unwrap(), Some(Query::Write(b"batch")));
    Query::decode(TraceKind::MultiGet as u8, &payload, 1).unwrap_err();
}

#[test]
fn headers_give_their_versions() {
    let payload = query_header((11, 8));
    assert_eq!(
        payload,
        b"feedcafedeadbeef\tTrace Version: 0.2\tRocksDB Version: 11.8\tFormat: Timestamp OpType Payload\n"
    );
    let header = TraceFrame { timestamp: 1, kind: 1, payload: &payload };
    assert_eq!(parse_query_header(&header).unwrap(), 2);
    for bad in [
        &b"feedcafedeadbee"[..],
        b"feedcafedeadbeef\tTrace Version: 0\t",
        b"feedcafedeadbeef\tTrace Version: 0.x\t",
    ] {
        let error = parse_query_header(&TraceFrame { payload: bad, ..header }).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
    }
    parse_query_header(&TraceFrame { kind: 2, ..header }).unwrap_err();
    let payload = binary_header((11, 8));
    assert_eq!(parse_binary_header(&TraceFrame { payload: &payload, ..header }).unwrap(), (11, 8));
    let longer = [&payload[..], b"x"].concat();
    parse_binary_header(&TraceFrame { payload: &longer, ..header }).unwrap_err();
}

fn accesses() -> Vec<BlockAccess<'static>> {
    let get = GetAccess {
        get_id: 3,
        from_user_specified_snapshot: true,
        referenced_key: b"internal key",
        referenced_data_size: 100,
        num_keys_in_block: 16,
        referenced_key_exists: true,
    };
    let access = BlockAccess {
        timestamp: 9,
        block_type: TraceKind::DataBlock as u8,
        block_key: b"0123456789abcdef",
        block_size: 4096,
        cf_id: 1,
        cf_name: b"family",
        level: 2,
        sst_fd_number: 44,
        caller: TableReaderCaller::UserGet as u8,
        is_cache_hit: true,
        no_insert: false,
        get: Some(get),
    };
    let iterator = BlockAccess { caller: 3, get: None, ..access.clone() };
    let of_index =
        GetAccess { referenced_data_size: 0, num_keys_in_block: 0, referenced_key_exists: false, ..get };
    let index =
        BlockAccess { block_type: TraceKind::IndexBlock as u8, get: Some(of_index), ..access.clone() };
    vec![access, iterator, index]
}

fn io_ops() -> Vec<IoOp<'static>> {
    let op = IoOp {
        timestamp: 9,
        file_operation: b"Read",
        latency: 1000,
        io_status: b"OK",
        file_name: b"000007.sst",
        ..IoOp::default()
    };
    let with = |file_size, len, offset, request_id| IoOp { file_size, len, offset, request_id, ..op.clone() };
    vec![op.clone(), with(Some(1), None, None, None), with(None, Some(2), Some(3), Some(b"r"))]
}

#[test]
fn accesses_and_io_come_back_as_they_were() {
    for access in accesses() {
        let mut record = Vec::new();
        access.encode(&mut record);
        assert_eq!(BlockAccess::decode(&TraceFrame::decode(&record).unwrap()).unwrap(), access);
    }
    for op in io_ops() {
        let mut record = Vec::new();
        op.encode(&mut record);
        assert_eq!(payload_len(&record).unwrap() as usize + FRAME_BYTES, record.len());
        assert_eq!(IoOp::decode(&TraceFrame::decode(&record).unwrap()).unwrap(), op);
    }
}

#[test]
fn damaged_records_never_panic_and_are_never_large() {
    let mut records = Vec::new();
    for query in queries() {
        let (mut payload, mut record) = (Vec::new(), Vec::new());
        query.encode(&mut payload);
        TraceFrame { timestamp: 1, kind: query.kind() as u8, payload: &payload }.encode(&mut record);
        records.push(record);
    }
    let mut encoded = |encode: &dyn Fn(&mut Vec<u8>)| {
        let mut record = Vec::new();
        encode(&mut record);
        records.push(record);
    };
    accesses().iter().for_each(|access| encoded(&|out| access.encode(out)));
    io_ops().iter().for_each(|op| encoded(&|out| op.encode(out)));
    for record in &records {
        for (at, value) in (0..record.len()).flat_map(|at| [0, 1, 0x7F, 0x80, 0xFF].map(|value| (at, value)))
        {
            let mut damaged = record.clone();
            damaged[at] = value;
            read(&damaged);
            read(&record[..at]);
        }
    }
}

fn read(record: &[u8]) {
    _ = TraceFrame::decode(record);
    let kind = record.get(8).copied().unwrap_or(0);
    let frame = TraceFrame { timestamp: 1, kind, payload: record.get(FRAME_BYTES..).unwrap_or_default() };
    _ = Query::decode(frame.kind, frame.payload, 2);
    _ = Query::decode(frame.kind, frame.payload, 1);
    _ = BlockAccess::decode(&frame);
    _ = IoOp::decode(&frame);
    _ = parse_query_header(&frame);
    _ = parse_binary_header(&frame);
}
