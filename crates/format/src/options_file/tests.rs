use super::*;
use proptest::prelude::*;

const SMALL: &str = "[Version]\n  rocksdb_version=7.8.3\n[DBOptions]\n[CFOptions \"default\"]\n";

fn parse(text: &str) -> Result<OptionsFile> {
    OptionsFile::parse(text.as_bytes())
}

#[test]
fn comments_and_white_space_do_not_count() {
    let file = parse(
        "# head\n\n [DBOptions]  # section\r\n\t max_open_files = 7 # trailing\n#x=1\n[CFOptions \"default\"]\n a=b=c \n k=\n",
    )
    .unwrap();
    assert_eq!(file.db_options().unwrap().entries, [("max_open_files".to_owned(), "7".to_owned())]);
    let family = file.cf_options("default").unwrap();
    assert_eq!(family.raw("a"), Some("b=c"));
    assert_eq!(family.raw("k"), Some(""));
    assert_eq!(family.raw("x"), None);
}

#[test]
fn first_of_two_entries_counts() {
    let file = parse("[DBOptions]\n a=1\n a=2\n[CFOptions \"default\"]").unwrap();
    assert_eq!(file.db_options().unwrap().raw("a"), Some("1"));
}

#[test]
fn text_that_rocksdb_refuses_is_refused_with_its_line() {
    for (text, part) in [
        ("", "no [DBOptions]"),
        ("[DBOptions]", "no [CFOptions"),
        ("[CFOptions \"default\"]", "no [DBOptions]"),
        ("[DBOptions]\n[DBOptions]", "line 2"),
        ("[DBOptions]\n[Mine]", "line 2: unknown section 'Mine'"),
        ("[DBOptions]\n[TableOptions/ \"default\"]", "unknown section"),
        ("[DBOptions]\n\n[CFOptions \"other\"]", "line 3"),
        ("[DBOptions]\n[CFOptions \"default\"]\n[CFOptions \"a\"]\n[CFOptions \"a\"]", "line 4"),
        ("[DBOptions]\n[CFOptions \"default\"]\n[CFOptions \"default\"]", "line 3"),
        ("[DBOptions]\n[TableOptions/BlockBasedTable \"default\"]", "line 2"),
        ("[DBOptions]\nnonsense", "line 2"),
        ("[DBOptions]\n =1", "line 2: no key"),
        ("a=1\n[DBOptions]", "line 1: an entry before"),
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!(error.kind(), esker_base::ErrorKind::InvalidArgument);
        assert!(error.message().contains(part), "{text:?}: {error}");
    }
    assert!(OptionsFile::parse(b"[DBOptions]\n\xFF").unwrap_err().message().contains("byte 12"));
}

#[test]
fn names_are_escaped() {
    let name = "with:special#chars\\ and \"quotes\"\r\n]";
    let mut file = parse(SMALL).unwrap();
    file.sections.push(OptionsSection::new(SectionKind::CfOptions(name.to_owned())));
    let mut table = OptionsSection::new(SectionKind::TableOptions {
        factory: "BlockBasedTable".to_owned(),
        family: name.to_owned(),
    });
    table.push_text("text", "a:b#c\\d\ne");
    file.sections.push(table);
    let text = file.to_string();
    assert!(text.contains("[CFOptions \"with\\:special\\#chars\\\\ and \"quotes\"\\r\\n]\"]"), "{text}");
    let back = parse(&text).unwrap();
    assert_eq!(back, file);
    assert_eq!(back.table_options(name).unwrap().text("text").unwrap(), "a:b#c\\d\ne");
    assert_eq!(back.families().collect::<Vec<_>>(), ["default", name]);
}

#[test]
fn maps_and_lists_are_split() {
    assert_eq!(
        split_map("{a=1;b={c=2;d={e=3};};f=;}").unwrap(),
        [("a", "1"), ("b", "{c=2;d={e=3};}"), ("f", "")]
    );
    assert_eq!(split_map(" a = 1 ; b=x=y").unwrap(), [("a", "1"), ("b", "x=y")]);
    assert_eq!(split_map("{{a=1}}").unwrap(), [("a", "1")]);
    assert_eq!(split_map("a={x};b={y}").unwrap(), [("a", "{x}"), ("b", "{y}")]);
    assert_eq!(split_map("").unwrap(), []);
    assert_eq!(split_map("{}").unwrap(), []);
    for bad in ["a", "=1", "{a=1", "a={1;b=2", "a={1}x", "a={1}}", "{a};b=1", "a;b=1"] {
        assert!(split_map(bad).is_err(), "{bad}");
    }
    assert_eq!(split_list("a:b: c :{d:e}:f", ':').unwrap(), ["a", "b", "c", "{d:e}", "f"]);
    assert_eq!(split_list("a\\:b:c", ':').unwrap(), ["a\\:b", "c"]);
    assert_eq!(split_list("", ':').unwrap(), [""; 0]);
    assert!(split_list("{a:b", ':').is_err());
}

proptest! {
    #[test]
    fn escapes_round_trip(text in "(?s).{0,60}") {
        let escaped = escape(&text);
        prop_assert_eq!(unescape(&escaped), &text[..]);
        prop_assert!(!escaped.contains(['\n', '\r']));
    }

    /// Any family name and any text survive a file.
    #[test]
    fn files_round_trip(name in "(?s).{1,30}", key in "[a-z_]{1,12}", text in "[^\\s](?s:.{0,30})[^\\s]") {
        prop_assume!(name != "default");
        let mut file = parse(SMALL).unwrap();
        let mut section = OptionsSection::new(SectionKind::CfOptions(name));
        section.push_text(&key, &text);
        file.sections.push(section);
        prop_assert_eq!(parse(&file.to_string()).unwrap(), file);
    }

    #[test]
    fn arbitrary_text_is_no_problem(text in "(?s)[\\[\\]{}=;:#\\\\\"a-c \n]{0,80}") {
        if let Ok(file) = parse(&format!("{SMALL}{text}")) {
            prop_assert_eq!(parse(&file.to_string()).unwrap(), file);
        }
        if let Ok(entries) = split_map(&text) {
            for (_, value) in entries {
                prop_assert!(text.contains(value));
            }
        }
        if let Ok(items) = split_list(&text, ':') {
            prop_assert!(items.len() <= text.len());
        }
    }
}
