use super::*;

#[test]
fn who_repeats_a_key_that_repeats_another_gets_the_answer_of_that() {
    let mut output = MultiGetOutput::new();
    output.reset(3);
    output.set(0, Answer::Made(Ok(Some(PinnedBytes::copy_from(b"value")))));
    // The third key was found to repeat the second, and then the second to repeat the first, which
    // had to wait.
    Left { waiting: SmallVec::new(), repeated: smallvec![(2, 1), (1, 0)] }.repeat(&mut output);
    output.iter().for_each(|value| assert_eq!(value.unwrap(), Some(&b"value"[..])));
    assert_eq!((output.found_count(), output.value_bytes()), (3, 15));
}
