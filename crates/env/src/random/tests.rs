use super::*;

#[test]
fn session_ids_have_20_digits_split_8_and_12() {
    assert_eq!(session_id_from(0, 1), "00000000000000000001");
    assert_eq!(session_id_from(0, 36), "00000000000000000010");
    // The two top bits of `lower` belong to the first half.
    assert_eq!(session_id_from(0, 1 << 62), "00000001000000000000");
    assert_eq!(session_id_from(1, 35), "0000000400000000000Z");
    for _ in 0..100 {
        let id = session_id();
        assert_eq!(id.len(), 20);
        assert!(id.bytes().all(|c| c.is_ascii_digit() || c.is_ascii_uppercase()), "{id}");
    }
    assert_ne!(session_id(), session_id());
}

#[test]
fn uuids_are_version_4() {
    let id = uuid_v4();
    assert_eq!(id.len(), 36);
    let parts: Vec<usize> = id.split('-').map(str::len).collect();
    assert_eq!(parts, [8, 4, 4, 4, 12]);
    assert_eq!(id.as_bytes()[14], b'4');
    assert!(matches!(id.as_bytes()[19], b'8' | b'9' | b'a' | b'b'));
    assert_ne!(id, uuid_v4());
}

#[test]
fn fill_reaches_every_byte() {
    let mut seen = [0u8; 300];
    for _ in 0..20 {
        let mut bytes = [0u8; 300];
        fill(&mut bytes);
        seen.iter_mut().zip(bytes).for_each(|(s, b)| *s |= b);
    }
    assert!(seen.iter().all(|&b| b != 0));
}
