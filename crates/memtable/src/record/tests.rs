use super::*;

const VALUE_LENGTHS: [usize; 8] = [0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152];

fn with_record(key: &[u8], value: &[u8], check: impl FnOnce(Record<'_>)) {
    let mut bytes = vec![0xEE; encoded_len(key.len(), value.len())];
    let place = NonNull::new(bytes.as_mut_ptr()).unwrap();
    // SAFETY: `bytes` is ours, lives until `check` is done, and is not touched meanwhile.
    check(unsafe { Record::write(place, bytes.len(), SequenceNumber(77), ValueType::Merge, key, value) });
}

#[test]
fn a_record_gives_back_what_went_in_at_every_length_of_its_lengths() {
    for key_len in [0, 1, 119, 120, 127, 128, 16_375, 16_376, 20_000] {
        for value_len in VALUE_LENGTHS.iter().copied().filter(|&len| !cfg!(miri) || len < 200) {
            let (key, value) = (vec![b'k'; key_len], vec![b'v'; value_len]);
            with_record(&key, &value, |record| {
                assert_eq!(record.parts(), (&key[..], 77 << 8 | ValueType::Merge as u64));
                let (internal_key, got) = record.key_value();
                assert_eq!(internal_key, record.internal_key());
                assert_eq!(internal_key.len(), key_len + TRAILER_BYTES);
                assert_eq!(got, value);
            });
        }
    }
}

#[test]
fn newer_versions_come_first() {
    let icmp = InternalKeyComparator::default();
    with_record(b"b", b"", |record| {
        let cmp = |user_key: &[u8], trailer| Target { user_key, trailer }.cmp_record(&icmp, record);
        let own = 77 << 8 | ValueType::Merge as u64;
        assert_eq!(cmp(b"b", own), Ordering::Equal);
        assert_eq!(
            cmp(b"b", own + 1),
            Ordering::Greater,
            "the record is older than the target, so behind it"
        );
        assert_eq!(cmp(b"b", own - 1), Ordering::Less);
        assert_eq!(cmp(b"a", 0), Ordering::Greater);
        assert_eq!(cmp(b"c", u64::MAX), Ordering::Less);
    });
}
