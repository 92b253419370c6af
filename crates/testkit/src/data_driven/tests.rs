use super::*;

const FILE: &str = "# head\n\nadd a=1 b=(2 3) fast\nx\ny\n----\n1 2\nx\ny\n\n# next\nblank\n----\n----\na\n\nb\n----\n----\n\nnone\n----\n";

fn answer(case: &Case) -> String {
    match case.command.as_str() {
        "add" => {
            assert_eq!(case.value::<u32>("a"), Some(1));
            assert_eq!(case.arg("b").unwrap(), ["2", "3"]);
            assert!(case.has("fast") && !case.has("slow"));
            assert_eq!(case.lines().collect::<Vec<_>>(), ["x", "y"]);
            assert_eq!(case.place, "f:3");
            format!("1 2\n{}", case.input)
        }
        "blank" => "a\n\nb".to_owned(),
        _ => String::new(),
    }
}

#[test]
fn cases_are_run_and_unchanged_files_come_back_as_they_were() {
    assert_eq!(run_text("f", FILE, false, &mut answer), FILE);
    assert_eq!(run_text("f", FILE, true, &mut answer), FILE);
}

#[test]
#[should_panic(expected = "f:3: add")]
fn a_difference_is_shown_with_its_place() {
    run_text("f", &FILE.replace("1 2\n", "1 3\n"), false, &mut answer);
}

#[test]
fn rewriting_replaces_outputs_only() {
    let stale = FILE.replace("1 2\n", "old\n").replace("a\n\nb\n", "c\n");
    assert_eq!(run_text("f", &stale, true, &mut answer), FILE);
}

#[test]
fn an_output_that_was_written_is_read_again() {
    for output in ["a\n", "a\n\nb\n", "\na\n", "a\n \nb\n", "a\n\t\n", "----\na\n", "a\n----\n"] {
        let mut answer = |_: &Case| output.to_owned();
        let text = run_text("f", "say\n----\n\nsay\n----\n", true, &mut answer);
        assert_eq!(run_text("f", &text, false, &mut answer), text, "{output:?}");
    }
}
