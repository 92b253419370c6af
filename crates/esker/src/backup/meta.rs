//! The text that lists the files of a backup.
//!
//! ```text
//! [schema_version 2.x]
//! TIMESTAMP
//! SEQUENCE NUMBER
//! [metadata HEX]
//! NUMBER OF FILES
//! NAME crc32 CRC32C        once for each file; the name from the backup directory on
//! NAME ni::excluded true   once for each file that was left out, which does not count; schema 2
//! ```
//!
//! Source: RocksDB `utilities/backup/backup_engine.cc` (`BackupMeta`). Every version reads the
//! first schema, which has no first line.

use esker_base::{Error, Result};
use std::fmt::Write;

/// Prefix of fields, in later schemas, that a reader must not ignore.
const NOT_IGNORABLE: &str = "ni::";

/// A file of a backup.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct BackupFile {
    /// Path relative to the backup directory.
    pub(super) name: String,
    /// CRC-32C of the whole file.
    pub(super) crc: u32,
    /// Its size in bytes.
    pub(super) bytes: u64,
}

/// The contents of `meta/N`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct BackupMeta {
    pub(super) timestamp: u64,
    pub(super) sequence: u64,
    pub(super) app_metadata: Vec<u8>,
    pub(super) files: Vec<BackupFile>,
    /// Names of shared files that the backup lacks and a restore needs.
    pub(super) excluded: Vec<String>,
}

impl BackupMeta {
    /// The text, in schema 1 or 2. The first schema has no excluded files.
    pub(super) fn encode(&self, schema_version: i32) -> Vec<u8> {
        let mut text = if schema_version < 2 { String::new() } else { "schema_version 2.1\n".to_owned() };
        write!(text, "{}\n{}\n", self.timestamp, self.sequence).expect("a write to a String cannot fail");
        if !self.app_metadata.is_empty() {
            text.push_str("metadata ");
            for byte in &self.app_metadata {
                write!(text, "{byte:02X}").expect("a write to a String cannot fail");
            }
            text.push('\n');
        }
        writeln!(text, "{}", self.files.len()).expect("a write to a String cannot fail");
        for file in &self.files {
            writeln!(text, "{} crc32 {}", file.name, file.crc).expect("a write to a String cannot fail");
        }
        for name in &self.excluded {
            writeln!(text, "{name} ni::excluded true").expect("a write to a String cannot fail");
        }
        text.into_bytes()
    }

    /// Parses `meta/N`. Sizes of files are 0.
    /// # Errors
    /// `Corruption` naming the fault · `NotSupported` for a later schema.
    pub(super) fn parse(text: &[u8]) -> Result<BackupMeta> {
        let text = std::str::from_utf8(text).map_err(|_| bad("no text"))?;
        let mut lines = text.lines().peekable();
        if let Some(version) = lines.peek().and_then(|l| l.strip_prefix("schema_version ")) {
            if version != "2" && !version.starts_with("2.") {
                return Err(Error::not_supported(format!("backup schema version {version}")));
            }
            lines.next();
        }
        let mut meta = BackupMeta { timestamp: number(lines.next())?, ..BackupMeta::default() };
        meta.sequence = number(lines.next())?;
        let count = loop {
            let line = lines.next().ok_or_else(|| bad("it ends before the number of files"))?;
            match line.split_once(' ') {
                None => break number(Some(line))?,
                Some(("metadata", hex)) => meta.app_metadata = unhex(hex)?,
                Some((field, _)) if field.starts_with(NOT_IGNORABLE) => {
                    return Err(Error::not_supported(format!("backup field {field}")));
                }
                Some(_) => {}
            }
        };
        for line in lines.take_while(|line| *line != "// FOOTER") {
            match parse_file(line)? {
                Entry::File(file) => meta.files.push(file),
                Entry::Excluded(name) => meta.excluded.push(name),
            }
        }
        if meta.files.len() as u64 > count {
            return Err(bad("more files than it says"));
        }
        if (meta.files.len() as u64) < count {
            return Err(bad("fewer files than it says"));
        }
        Ok(meta)
    }
}

/// A line of the list of files.
enum Entry {
    File(BackupFile),
    Excluded(String),
}

fn parse_file(line: &str) -> Result<Entry> {
    let mut words = line.split(' ');
    let name = words.next().filter(|n| !n.is_empty()).ok_or_else(|| bad("an empty line"))?;
    // A name must not lead out of the backup directory.
    if name.starts_with('/') || name.split('/').any(|part| part == "..") {
        return Err(bad("a file outside of the backup directory"));
    }
    let (mut crc, mut is_excluded) = (None, false);
    while let Some(field) = words.next() {
        let value = words.next().ok_or_else(|| bad("a field without a value"))?;
        match field {
            "crc32" => crc = Some(value.parse().map_err(|_| bad("a checksum that is none"))?),
            "ni::excluded" if matches!(value, "true" | "false") => is_excluded = value == "true",
            _ if field.starts_with(NOT_IGNORABLE) => {
                return Err(Error::not_supported(format!("backup field {field}")));
            }
            _ => {}
        }
    }
    if is_excluded {
        return Ok(Entry::Excluded(name.to_owned()));
    }
    let crc = crc.ok_or_else(|| bad("a file without a checksum"))?;
    Ok(Entry::File(BackupFile { name: name.to_owned(), crc, bytes: 0 }))
}

fn number(line: Option<&str>) -> Result<u64> {
    line.and_then(|l| l.parse().ok()).ok_or_else(|| bad("a number is missing"))
}

fn unhex(text: &str) -> Result<Vec<u8>> {
    let digit = |c: u8| char::from(c).to_digit(16).and_then(|d| u8::try_from(d).ok());
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    text.as_bytes().chunks(2).map(byte).collect::<Option<_>>().ok_or_else(|| bad("metadata that is no hex"))
}

fn bad(why: &str) -> Error {
    Error::corruption(format!("backup meta file: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_meta_file_is_parsed_and_damage_is_an_error() {
        let meta = BackupMeta {
            timestamp: 1_795_180_855,
            sequence: 77,
            app_metadata: b"from a test".to_vec(),
            files: vec![
                BackupFile { name: "shared_checksum/000007_sABC_9.sst".to_owned(), crc: u32::MAX, bytes: 0 },
                BackupFile { name: "private/1/CURRENT".to_owned(), crc: 0, bytes: 0 },
            ],
            excluded: Vec::new(),
        };
        let text = meta.encode(1);
        assert_eq!(BackupMeta::parse(&text).unwrap(), meta);
        for end in 0..text.len() - 1 {
            if let Ok(less) = BackupMeta::parse(&text[..end]) {
                // A cut can only remove the last digits of a number.
                assert_eq!(less.files.len(), meta.files.len(), "cut at {end}");
            }
        }
        for wrong in
            ["1\n2\n1\n/etc/passwd crc32 1\n", "1\n2\n1\nprivate/../x crc32 1\n", "1\n2\n1\nx crc32\n"]
        {
            assert!(BackupMeta::parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
        let later =
            "schema_version 2.1\n1\n2\nfield x\n1\nprivate/1/CURRENT crc32 5 size 9 temp kWarm\n// FOOTER\n";
        assert_eq!(BackupMeta::parse(later.as_bytes()).unwrap().files[0].crc, 5);
        assert!(BackupMeta::parse(b"schema_version 3.0\n").is_err());
    }

    #[test]
    fn an_excluded_file_is_named_and_does_not_count() {
        let name = "shared_checksum/7_s_9.sst";
        let meta = BackupMeta {
            timestamp: 1,
            sequence: 2,
            files: vec![BackupFile { name: "private/1/CURRENT".to_owned(), crc: 5, bytes: 0 }],
            excluded: vec![name.to_owned()],
            ..BackupMeta::default()
        };
        let text = String::from_utf8(meta.encode(2)).unwrap();
        let written =
            format!("schema_version 2.1\n1\n2\n1\nprivate/1/CURRENT crc32 5\n{name} ni::excluded true\n");
        assert_eq!(text, written);
        assert_eq!(BackupMeta::parse(text.as_bytes()).unwrap(), meta);
        let counted = text.replace("\n1\nprivate", "\n2\nprivate");
        assert!(BackupMeta::parse(counted.as_bytes()).is_err());
        let kept =
            text.replace("ni::excluded true", "crc32 1 ni::excluded false").replace("\n1\np", "\n2\np");
        assert_eq!(BackupMeta::parse(kept.as_bytes()).unwrap().files.len(), 2);
        let unclear = text.replace("excluded true", "excluded maybe");
        let refused = BackupMeta::parse(unclear.as_bytes()).unwrap_err();
        assert_eq!(refused.kind(), esker_base::ErrorKind::NotSupported, "{refused}");
    }
}
