//! Compares Esker with RocksDB's own `sst_dump` (7.8.3, which reads format versions up to 5). The
//! tool reads our tables, and we read RocksDB's tables as the tool prints them.

use crate::options::variants;
use crate::util::*;
use esker_base::{SequenceNumber, ValueType};
use esker_format::key::internal_key;
use esker_table::BlockBasedTableOptions;
use std::path::{Path, PathBuf};
use std::process::Command;

fn tool_is_here() -> bool {
    let here = Command::new("sst_dump").arg("--help").output().is_ok();
    if !here {
        println!("skipped: sst_dump is not installed");
    }
    here
}

/// Runs the tool on a table. Returns its output, as `Ok` if the tool accepted the table.
fn sst_dump(file: &Path, arguments: &[&str]) -> Result<String, String> {
    let output =
        Command::new("sst_dump").arg(format!("--file={}", file.display())).args(arguments).output().unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let bad = ["orruption", "not supported", "Not implemented", "is not a valid", "Failed"];
    if output.status.success() && !bad.iter().any(|b| text.contains(b)) { Ok(text) } else { Err(text) }
}

/// Entries as the tool prints them: `'KEY' seq:N, type:N => VALUE`.
fn printed(e: &Entry) -> String {
    format!("'{}' seq:{}, type:{} => {}", hex(&e.0), e.1, e.2, hex(&e.3))
}

fn lines_of(text: &str) -> Vec<String> {
    text.lines().filter(|l| l.starts_with('\'')).map(|l| l.trim_end().to_owned()).collect()
}

struct TempDir(PathBuf);

impl TempDir {
    fn new(name: &str) -> TempDir {
        let path = std::env::temp_dir().join(format!("esker-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        TempDir(path)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn rocksdb_reads_what_we_write() {
    if !tool_is_here() {
        return;
    }
    let dir = TempDir::new("sst-dump");
    let mut entries = sample_entries(&mut Rng::new(2), 200, 60);
    entries.push((internal_key(b"a", SequenceNumber(9), ValueType::RangeDeletion), b"b".to_vec()));
    let mut checked = 0;
    for (name, options) in variants() {
        if options.table_options.format_version > 5 {
            continue;
        }
        let (bytes, _) = write_table(options, entries.iter().cloned()).unwrap();
        let file = dir.0.join("000009.sst");
        std::fs::write(&file, &bytes).unwrap();
        let dump_text = sst_dump(&file, &["--command=verify"]).unwrap_or_else(|t| panic!("{name}: {t}"));
        assert!(dump_text.contains("The file is ok"), "{name}: {dump_text}");
        let dump_text = sst_dump(&file, &["--command=scan", "--output_hex", "--verify_checksum"])
            .unwrap_or_else(|t| panic!("{name}: {t}"));
        let ours = scan(&open_bytes(&bytes, BlockBasedTableOptions::default()).unwrap()).unwrap();
        let ours: Vec<_> = ours.iter().map(|e| printed(e).trim_end().to_owned()).collect();
        assert_eq!(lines_of(&dump_text), ours, "{name}");
        checked += 1;
    }
    println!("{checked} tables were read by sst_dump");
    assert!(checked > 120);
}

#[test]
fn rocksdb_reads_large_values_and_keys() {
    if !tool_is_here() {
        return;
    }
    let dir = TempDir::new("sst-dump-large");
    let mut rng = Rng::new(8);
    let entries: Vec<_> = (0..50usize)
        .map(|i| {
            let mut user = format!("{i:04}").into_bytes();
            user.extend(rng.bytes(i * i * 4));
            let value = rng.value(i * i * 100);
            (internal_key(&user, SequenceNumber(i as u64), ValueType::Value), value)
        })
        .collect();
    let (bytes, _) = write_table(builder_options(with_filters()), entries).unwrap();
    let file = dir.0.join("000009.sst");
    std::fs::write(&file, &bytes).unwrap();
    let dump_text = sst_dump(&file, &["--command=scan", "--output_hex", "--verify_checksum"]).unwrap();
    let ours = scan(&open_bytes(&bytes, BlockBasedTableOptions::default()).unwrap()).unwrap();
    assert_eq!(
        lines_of(&dump_text),
        ours.iter().map(|e| printed(e).trim_end().to_owned()).collect::<Vec<_>>()
    );
}

#[test]
fn we_read_what_the_tool_reads() {
    if !tool_is_here() {
        return;
    }
    let mut compared = 0;
    for path in fixture_tables() {
        let name = short_name(&path);
        if name.starts_with("v11_9") && !name.contains("fv5") && !name.contains("fv2") {
            continue;
        }
        // The tool prints entities in another form, and does not read blob indexes or other key
        // orders.
        if ["wide_columns", "blob", "udt"].iter().any(|n| name.contains(n)) {
            continue;
        }
        let Ok(dump_text) = sst_dump(&path, &["--command=scan", "--output_hex"]) else { continue };
        let ours = scan(&open_bytes(&std::fs::read(&path).unwrap(), with_filters()).unwrap()).unwrap();
        let lines = lines_of(&dump_text);
        if lines.is_empty() && !ours.is_empty() {
            continue;
        }
        let ours: Vec<_> = ours.iter().map(|e| printed(e).trim_end().to_owned()).collect();
        // Without a MANIFEST both the tool and Esker show the sequence numbers stored in an
        // ingested file.
        assert_eq!(lines, ours, "{name}");
        compared += 1;
    }
    println!("{compared} tables compared");
    assert!(compared > 60, "{compared}");
}
