//! Any name in a directory, and any contents of CURRENT.

use esker_format::file_name::{
    FileType, blob_file_name, current_contents, descriptor_file_name, options_file_name, parse_current,
    parse_file_name, wal_file_name,
};
use std::path::Path;

/// One input.
pub fn run(data: &[u8]) {
    if let Ok(number) = parse_current(data) {
        assert_eq!(parse_current(current_contents(number).as_bytes()).unwrap(), number);
    }
    let Ok(name) = std::str::from_utf8(data) else { return };
    let Some((file_type, number)) = parse_file_name(name) else { return };
    let make = match file_type {
        FileType::Wal => wal_file_name,
        FileType::Blob => blob_file_name,
        FileType::Descriptor => descriptor_file_name,
        FileType::Options => options_file_name,
        _ => return,
    };
    let made = make(Path::new("/db"), number);
    assert_eq!(parse_file_name(made.file_name().unwrap().to_str().unwrap()), Some((file_type, number)));
}
