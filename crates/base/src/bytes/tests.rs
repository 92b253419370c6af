use super::*;

#[test]
fn parts_of_a_buffer_live_until_the_last_of_them_is_gone() {
    let bytes: Vec<u8> = (0..100).collect();
    for taken in [0, 1, 10] {
        let mut parts = Parts::of(bytes.clone(), 10);
        let values: Vec<PinnedBytes> = (0..taken).map(|i| parts.take(i * 10..i * 10 + 10)).collect();
        drop(parts);
        let kept: Vec<PinnedBytes> = values.iter().step_by(2).cloned().collect();
        std::thread::scope(|scope| {
            for (i, value) in values.into_iter().enumerate() {
                scope.spawn(move || assert_eq!(value, bytes_of(i)));
            }
        });
        kept.iter().enumerate().for_each(|(i, value)| assert_eq!(*value, bytes_of(2 * i)));
        let again = kept.last().map(|value| value.slice(3..5));
        drop(kept);
        assert!(again.is_none_or(|value| value[1] == value[0] + 1));
    }
}

fn bytes_of(i: usize) -> Vec<u8> {
    (0..10).map(|at| (i * 10 + at) as u8).collect()
}

#[test]
fn counts_are_given_back_one_for_each_part_and_the_rest_at_once() {
    let mut parts = Parts::of(vec![1, 2, 3], 3);
    // SAFETY: the buffer lives as long as `parts`.
    let count = unsafe { &parts.shared.as_ref().parts };
    assert_eq!(count.load(Ordering::Relaxed), 4);
    let (a, b) = (parts.take(0..1), parts.take(1..3));
    assert_eq!(count.load(Ordering::Relaxed), 4);
    let c = a.clone();
    assert_eq!(count.load(Ordering::Relaxed), 5);
    drop((a, b));
    assert_eq!(count.load(Ordering::Relaxed), 3);
    drop(parts);
    assert_eq!(c, [1]);
}

#[test]
#[should_panic(expected = "one count for each part")]
fn no_more_parts_are_taken_than_were_counted() {
    let mut parts = Parts::of(vec![1], 1);
    let _first = parts.take(0..1);
    parts.take(0..1);
}
