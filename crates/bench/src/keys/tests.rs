use super::*;

fn key(flags: &Flags, number: u64, count: u64) -> Vec<u8> {
    let maker = KeyMaker::new(flags, usize::try_from(flags.key_size).unwrap());
    let mut key = maker.buffer();
    maker.fill(number, count, &mut key);
    key
}

#[test]
fn a_key_is_its_number_and_zeros() {
    let flags = Flags::default();
    assert_eq!(key(&flags, 0x0102, 1000), b"\0\0\0\0\0\0\x01\x0200000000");
}

#[test]
fn short_keys_keep_the_last_bytes_of_the_number() {
    let flags = Flags { key_size: 3, ..Flags::default() };
    assert_eq!(key(&flags, 0x0405_0607, 1000), b"\x05\x06\x07");
}

#[test]
fn with_prefixes_the_number_of_the_prefix_stands_first() {
    let flags = Flags { key_size: 14, prefix_size: 10, keys_per_prefix: 10, ..Flags::default() };
    // 100 keys in prefixes of 10: ten prefixes; key 23 has prefix 3.
    assert_eq!(key(&flags, 23, 100), b"\0\0\0\0\0\0\0\x0300\0\0\0\x17");
}

#[test]
fn a_missing_prefix_differs_from_all_there_are() {
    let flags = Flags {
        key_size: 20,
        prefix_size: 10,
        keys_per_prefix: 10,
        seek_missing_prefix: true,
        ..Flags::default()
    };
    let maker = KeyMaker::new(&flags, 20);
    let mut key = maker.buffer();
    maker.fill_for_seek(23, 100, &mut key);
    assert_eq!(&key[..10], b"\0\0\0\0\0\0\0\x0310");
}

#[test]
fn unique_numbers_are_all_numbers_in_another_order() {
    let mut random = Random64::new(1);
    let mut numbers = KeyNumbers::new(WriteOrder::UniqueRandom, 100, 7);
    let mut drawn: Vec<u64> = std::iter::from_fn(|| numbers.next(&mut random)).collect();
    assert!(!drawn.is_sorted());
    drawn.sort_unstable();
    assert_eq!(drawn, (0..100).collect::<Vec<_>>());
}
