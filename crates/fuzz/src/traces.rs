//! Any bytes as records of traces.

use esker_format::trace::{
    BlockAccess, FRAME_BYTES, IoOp, Query, TraceFrame, parse_binary_header, parse_query_header, payload_len,
};

/// One input.
pub fn run(data: &[u8]) {
    let Some((&kind, payload)) = data.split_first() else { return };
    let frame = TraceFrame { timestamp: 7, kind, payload };
    let mut record = Vec::new();
    frame.encode(&mut record);
    assert_eq!(TraceFrame::decode(&record).unwrap(), frame);
    assert_eq!(payload_len(&record).unwrap() as usize + FRAME_BYTES, record.len());
    if let Ok(cut) = TraceFrame::decode(data) {
        assert_eq!(cut.payload.len() + FRAME_BYTES, data.len());
    }
    _ = parse_query_header(&frame);
    _ = parse_binary_header(&frame);
    for version in [1, 2] {
        let Ok(Some(query)) = Query::decode(kind, payload, version) else { continue };
        let mut again = Vec::new();
        query.encode(&mut again);
        assert_eq!(Query::decode(query.kind() as u8, &again, 2).unwrap(), Some(query));
    }
    if let Ok(access) = BlockAccess::decode(&frame) {
        let mut again = Vec::new();
        access.encode(&mut again);
        assert_eq!(BlockAccess::decode(&TraceFrame::decode(&again).unwrap()).unwrap(), access);
    }
    if let Ok(op) = IoOp::decode(&frame) {
        let mut again = Vec::new();
        op.encode(&mut again);
        assert_eq!(IoOp::decode(&TraceFrame::decode(&again).unwrap()).unwrap(), op);
    }
}
