use super::*;

#[test]
fn it_is_written_once_as_the_standard_one() {
    let cell = OnceLock::new();
    assert_eq!((cell.get(), cell.set(1), cell.set(2)), (None, Ok(()), Err(2)));
    assert_eq!((cell.get(), *cell.get_or_init(|| 3), cell.clone().get()), (Some(&1), 1, Some(&1)));
    let other = OnceLock::new();
    assert_eq!((*other.get_or_init(|| 4), other.set(5), other.get()), (4, Err(5), Some(&4)));
}

#[test]
fn the_value_needs_no_default() {
    let cell: OnceLock<Box<dyn Fn() -> u8>> = OnceLock::default();
    assert!(cell.get().is_none());
    assert_eq!(cell.get_or_init(|| Box::new(|| 7))(), 7);
}
