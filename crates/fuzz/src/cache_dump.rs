//! Any bytes as a unit of a cache dump: an accepted unit is read again from its own bytes, and its
//! metadata accepts these bytes only.

use esker_format::cache_dump::{DUMP_UNIT_META_BYTES, DumpUnit, DumpUnitMeta};

/// One input.
pub fn run(data: &[u8]) {
    if let Ok(meta) = DumpUnitMeta::decode(data) {
        assert_eq!(meta.encode(), data[..DUMP_UNIT_META_BYTES]);
        assert!(meta.check(data).is_err() || meta == DumpUnitMeta::of(meta.sequence_num, data));
    }
    let Ok(unit) = DumpUnit::decode(data) else { return };
    _ = unit.check_header();
    let bytes = unit.encode().expect("an input is small");
    assert_eq!(DumpUnit::decode(&bytes).expect("these are its bytes"), unit);
    let meta = DumpUnitMeta::of(3, &bytes);
    meta.check(&bytes).expect("the metadata was made of them");
    assert!(meta.check(&bytes[1..]).is_err());
}
