//! Any text as an OPTIONS file: refused, or the same file again after printing; any value as map
//! and list.

use esker_format::options_file::{OptionsFile, escape, split_list, split_map, unescape};

fn split_all(value: &str) {
    if let Ok(entries) = split_map(value) {
        for (_, inner) in entries {
            if inner.len() < value.len() {
                split_all(inner);
            }
        }
    }
    if let Ok(items) = split_list(value, ':') {
        assert!(items.len() <= value.len());
    }
}

/// One input.
pub fn run(data: &[u8]) {
    if let Ok(file) = OptionsFile::parse(data) {
        let text = file.to_string();
        assert_eq!(OptionsFile::parse(text.as_bytes()).unwrap(), file, "{text}");
        for (_, value) in file.sections.iter().flat_map(|s| &s.entries) {
            split_all(value);
        }
    }
    if let Ok(text) = std::str::from_utf8(data) {
        assert_eq!(unescape(&escape(text)), text);
        if text.len() < 256 {
            split_all(text);
        }
    }
}
