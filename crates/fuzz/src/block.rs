//! Reads any bytes as a block of keys and values.
//!
//! Laws: every scan of the block ends. A new block, built of the entries found, shows these entries
//! in every scan and seek.

use esker_format::block::{Block, BlockBuilder, BlockCursor, EntryShape};

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn forwards(block: &Block, shape: EntryShape) -> Option<Entries> {
    let mut cursor = BlockCursor::with_buffer(shape, Vec::new());
    let mut entries = Entries::new();
    cursor.seek_to_first(block).ok()?;
    while cursor.valid() {
        entries.push((cursor.key().to_vec(), cursor.value(block).to_vec()));
        assert!(entries.len() <= block.bytes().len(), "the cursor does not advance");
        cursor.next(block).ok()?;
    }
    Some(entries)
}

fn backwards(block: &Block, shape: EntryShape) -> Option<Entries> {
    let mut cursor = BlockCursor::with_buffer(shape, Vec::new());
    let mut entries = Entries::new();
    cursor.seek_to_last(block).ok()?;
    while cursor.valid() {
        entries.push((cursor.key().to_vec(), cursor.value(block).to_vec()));
        assert!(entries.len() <= block.bytes().len(), "the cursor does not advance");
        cursor.prev(block).ok()?;
    }
    Some(entries)
}

/// Builds a block of the entries. Both directions of a scan must agree, and every seek must find
/// its entry.
fn check_built(entries: &Entries, restart_interval: usize, probe: &[u8]) {
    let mut builder = BlockBuilder::new(restart_interval);
    for (key, value) in entries {
        builder.add(key, value);
    }
    check_block(&Block::parse(builder.finish().to_vec()).unwrap(), entries, probe);
    let mut builder = BlockBuilder::new(restart_interval).key_prefix(EntryShape::KeyValue, true);
    for (key, value) in entries {
        builder.add(key, value);
    }
    check_block(&Block::parse_prefixed(builder.finish().to_vec()).unwrap(), entries, probe);
}

/// Checks that all kinds of scans and seeks in the block find `entries`.
fn check_block(block: &Block, entries: &Entries, probe: &[u8]) {
    let mut back = backwards(block, EntryShape::KeyValue).unwrap();
    back.reverse();
    assert_eq!(&back, entries);
    assert_eq!(&forwards(block, EntryShape::KeyValue).unwrap(), entries);
    let mut cursor = BlockCursor::new();
    cursor.seek_by(block, |key| key < probe).unwrap();
    let expected = entries.iter().map(|(key, _)| &key[..]).find(|key| *key >= probe);
    assert_eq!(cursor.valid().then(|| cursor.key()), expected);
    cursor.seek_for_prev_by(block, |key| key <= probe).unwrap();
    let expected = entries.iter().map(|(key, _)| &key[..]).rfind(|key| *key <= probe);
    assert_eq!(cursor.valid().then(|| cursor.key()), expected);
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let Some((&kind, bytes)) = data.split_first() else { return };
    let shape = match kind % 4 {
        0 => EntryShape::DeltaIndex { with_first_key: false, escapes: kind & 8 != 0 },
        1 => EntryShape::DeltaIndex { with_first_key: true, escapes: kind & 8 != 0 },
        _ => EntryShape::KeyValue,
    };
    let Ok(block) = Block::parse_prefixed(bytes.to_vec()) else { return };
    // Restart points of a damaged block may lie anywhere, so the two directions need not agree.
    // Both must end.
    let (ahead, back) = (forwards(&block, shape), backwards(&block, shape));
    let probe = bytes.get(..bytes.len().min(usize::from(kind))).unwrap_or_default();
    let mut cursor = BlockCursor::with_buffer(shape, Vec::new());
    drop(cursor.seek_by(&block, |key| key < probe));
    if cursor.seek_for_prev_by(&block, |key| key <= probe).is_ok() && cursor.valid() {
        assert!(cursor.value_range().end <= bytes.len());
    }
    for entries in [ahead, back].into_iter().flatten() {
        if entries.is_sorted_by(|a, b| a.0 < b.0) {
            check_built(&entries, usize::from(kind >> 4) + 1, probe);
        }
    }
}
