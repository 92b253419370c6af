use super::*;

#[test]
fn a_repeat_of_a_repeated_key_gets_the_first_ones_answer() {
    let mut output = MultiGetOutput::new();
    output.reset(3);
    output.set(0, Answer::Made(Ok(Some(PinnedBytes::copy_from(b"value")))));
    // The third key was found to repeat the second, and then the second to repeat the first, which
    // had to wait.
    Left { waiting: SmallVec::new(), repeated: smallvec![(2, 1), (1, 0)] }.repeat(&mut output);
    output.iter().for_each(|value| assert_eq!(value.unwrap(), Some(&b"value"[..])));
    assert_eq!((output.found_count(), output.value_bytes()), (3, 15));
}
