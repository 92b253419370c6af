//! Any bytes as an entity whose columns may lie in blob files: the list of its blobs is complete.

use esker_base::ValueType;
use esker_format::wide_column::EncodedColumns;
use esker_format::wide_column::stored::{StoredColumns, StoredValue, for_each_blob, may_have_blobs};

/// One input.
pub fn run(data: &[u8]) {
    let mut visited = Vec::new();
    let visit = for_each_blob(ValueType::WideColumnEntity, data, &mut |location| visited.push(location));
    let Ok(stored) = StoredColumns::parse(data) else { return };
    visit.unwrap();
    assert!(stored.blobs().eq(visited), "a visitor missed a blob, which would be deleted");
    assert!(stored.columns.is_sorted_by(|a, b| a.0 < b.0));
    let mut again = Vec::new();
    stored.append_to(&mut again).unwrap();
    assert_eq!(StoredColumns::parse(&again).unwrap(), stored);
    if stored.blobs().next().is_some() {
        assert!(may_have_blobs(data) && may_have_blobs(&again));
        return;
    }
    let plain = EncodedColumns::parse(&again).unwrap();
    let inline = |value| match value {
        StoredValue::Inline(value) => value,
        StoredValue::Blob(_) => unreachable!("the input has no blob references"),
    };
    assert!(plain.iter().eq(stored.columns.iter().map(|&(name, value)| (name, inline(value)))));
}
