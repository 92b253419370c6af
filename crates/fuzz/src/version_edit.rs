//! Any bytes as a MANIFEST record: refused, or the same edit again after encoding.

use esker_format::version_edit::VersionEdit;

/// One input.
pub fn run(data: &[u8]) {
    let Ok(mut edit) = VersionEdit::decode(data) else { return };
    // These are read and never written.
    edit.ignored_tags.clear();
    edit.wal_additions.clear();
    edit.wal_deletion = None;
    let bytes = edit.encode();
    assert_eq!(VersionEdit::decode(&bytes).unwrap(), edit);
}
