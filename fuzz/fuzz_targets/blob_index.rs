//! Any bytes as a blob index.
#![no_main]

use esker_format::blob::BlobIndex;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(index) = BlobIndex::parse(data) else { return };
    let mut again = Vec::new();
    index.append_to(&mut again);
    assert_eq!(BlobIndex::parse(&again).unwrap(), index);
});
