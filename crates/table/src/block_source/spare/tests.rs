use super::*;

fn kept() -> Vec<usize> {
    SPARE.with_borrow(|spare| spare.iter().map(Vec::capacity).collect())
}

#[test]
fn memory_that_was_given_is_handed_out_again_if_it_fits() {
    give(Vec::with_capacity(4100));
    assert_eq!(take(4200).len(), 4200);
    assert_eq!(kept(), [4100], "too small");
    assert_eq!(take(3000).len(), 3000);
    assert_eq!(kept(), [4100], "much larger than that");
    let buffer = take(4000);
    assert_eq!((buffer.len(), buffer.capacity()), (4000, 4100));
    assert!(kept().is_empty());
    give(buffer);
    let again = take(4100);
    assert_eq!((again.len(), again.capacity()), (4100, 4100));
}

#[test]
fn a_thread_keeps_little() {
    give(Vec::with_capacity(LEAST - 1));
    give(Vec::with_capacity(MOST_BYTES + 1));
    assert!(kept().is_empty());
    (0..2 * MOST).for_each(|i| give(Vec::with_capacity(4096 + i)));
    assert_eq!(kept().len(), MOST);
    assert_eq!(kept()[0], 4096 + MOST, "the first went");
    give(Vec::with_capacity(MOST_BYTES - 5000));
    assert_eq!(kept(), [4096 + 2 * MOST - 1, MOST_BYTES - 5000]);
    assert_eq!(take_up_to(4096, 2 * 4096).capacity(), 4096 + 2 * MOST - 1);
}
