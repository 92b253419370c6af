//! Any bytes as an index block, of any shape: every walk ends.

use esker_format::block::Block;
use esker_format::index_entry::{IndexCursor, IndexShape};
use esker_format::key::InternalKeyComparator;

/// One input.
pub fn run(data: &[u8]) {
    let Some((&kind, bytes)) = data.split_first() else { return };
    let shape = IndexShape {
        key_is_user_key: kind & 1 != 0,
        value_is_delta_encoded: kind & 2 != 0,
        with_first_key: kind & 4 != 0,
        value_escapes: kind & 8 != 0,
    };
    let Ok(block) = Block::parse_prefixed(bytes.to_vec()) else { return };
    let mut cursor = IndexCursor::new(shape);
    let mut count = 0;
    let mut is_whole = cursor.seek_to_first(&block).is_ok();
    while is_whole && cursor.valid() {
        count += 1;
        drop(cursor.first_key(&block));
        assert!(cursor.separator_user_key().len() <= cursor.separator().len());
        assert!(count <= bytes.len(), "the cursor does not advance");
        is_whole = cursor.next(&block).is_ok();
    }
    let mut cursor = IndexCursor::new(shape);
    count = 0;
    is_whole = cursor.seek_to_last(&block).is_ok();
    while is_whole && cursor.valid() {
        count += 1;
        assert!(count <= bytes.len(), "the cursor does not advance");
        is_whole = cursor.prev(&block).is_ok();
    }
    let target = bytes.get(..bytes.len().min(20)).unwrap_or_default();
    drop(cursor.seek(&block, target, &InternalKeyComparator::default()));
}
