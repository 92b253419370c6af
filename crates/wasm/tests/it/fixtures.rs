//! Every golden database is read as RocksDB read it, or refused for a feature that the error
//! names.

use esker_base::crc32c;
use esker_base::rng::Rng;
use esker_wasm::{DirectoryFiles, Reader};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Features that the reader refuses: words of the message, and databases with the feature. Builds
/// with the feature `zstd` read the others.
const REFUSED: [(&str, &[&str]); 3] = [
    // Without an OPTIONS file nothing tells the delimiter.
    ("OPTIONS names no operator", &["v11_12_merge"]),
    ("write-prepared", &["txn_writeprepared", "txn_writeunprepared"]),
    ("feature `zstd`", &[""]),
];

/// Whether the reader refuses this database with this error.
fn is_refused(name: &str, error: &str) -> bool {
    let has = |databases: &[&str]| databases.iter().any(|database| name.ends_with(database));
    REFUSED.iter().any(|(words, databases)| error.contains(words) && has(databases))
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

/// The names and bytes of the files.
fn contents_of(name: &str) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(directory().join(name).join("db")).unwrap();
    let entries = entries.map(|entry| entry.unwrap());
    let content = |entry: std::fs::DirEntry| {
        (entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).unwrap())
    };
    let mut contents: Vec<_> = entries.map(content).collect();
    contents.sort();
    contents
}

fn files_of(contents: Vec<(String, Vec<u8>)>) -> DirectoryFiles {
    let mut files = DirectoryFiles::new();
    contents.into_iter().for_each(|(name, bytes)| files.insert(name, bytes));
    files
}

fn names() -> Vec<String> {
    let entries = std::fs::read_dir(directory()).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    // Others are WALs damaged by hand, and single files.
    names.retain(|name| name.starts_with('v') && directory().join(name).join("db").is_dir());
    names.sort();
    names
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold("0x".to_owned(), |mut text, byte| {
        write!(text, "{byte:02X}").unwrap();
        text
    })
}

/// A key or a value in the words of `expected.txt`.
fn described(value: &[u8], stated: &str) -> String {
    if stated.starts_with('#') {
        format!("#{} {:08X}", value.len(), crc32c::value(value))
    } else {
        hex(value)
    }
}

/// All keys and values of a family, and the same values by gets.
fn compare(reader: &Reader, family: &str, lines: &[&str]) -> esker_base::Result<()> {
    let pairs = reader.scan(family, None, usize::MAX)?;
    assert_eq!(pairs.len(), lines.len(), "{family}");
    for ((key, value), line) in pairs.iter().zip(lines) {
        let (stated_key, stated) = line.split_once(" : ").unwrap();
        let stated = stated.split(" columns=").next().and_then(|stated| stated.split(" ts=").next()).unwrap();
        assert_eq!(described(key, stated_key), stated_key, "{family}");
        assert_eq!(described(value, stated).to_lowercase(), stated.to_lowercase(), "{family} {stated_key}");
    }
    for from in (0..pairs.len()).step_by(7) {
        let (key, value) = &pairs[from];
        assert_eq!(reader.get(family, key)?.as_ref(), Some(value), "{family} {}", hex(key));
        let absent = [key.as_slice(), b"\0absent"].concat();
        assert_eq!(reader.get(family, &absent)?, None, "{family} {}", hex(&absent));
        let found = reader.scan(family, Some(key), 3)?;
        assert_eq!(found, pairs[from..pairs.len().min(from + 3)], "{family}");
    }
    Ok(())
}

fn read(name: &str) -> esker_base::Result<()> {
    let reader = Reader::open(files_of(contents_of(name)))?;
    let expected = std::fs::read_to_string(directory().join(name).join("expected.txt")).unwrap();
    let mut families: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in expected.lines() {
        match line.strip_prefix("[cf ").and_then(|rest| rest.strip_suffix(']')) {
            Some(head) => families.push((head.split_once(' ').unwrap().1, Vec::new())),
            None => families.last_mut().unwrap().1.push(line),
        }
    }
    assert_eq!(reader.families(), families.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    families.iter().try_for_each(|(family, lines)| compare(&reader, family, lines))
}

#[test]
fn golden_databases_are_read_as_rocksdb_read_them() {
    let names = names();
    let mut wrong = Vec::new();
    let mut count = 0;
    for name in &names {
        match read(name) {
            Ok(()) => count += 1,
            Err(e) if is_refused(name, &e.to_string()) => println!("{name}: {e}"),
            Err(e) => wrong.push(format!("{name}: {e}")),
        }
    }
    println!("{count} of {} databases", names.len());
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(count >= 140, "{count} of {}", names.len());
}

#[test]
fn a_read_at_a_timestamp_sees_the_value_of_that_time() {
    let mut versions_seen = 0;
    for name in ["v7_8_udt_u64", "v11_9_udt_u64"] {
        let reader = Reader::open(files_of(contents_of(name))).unwrap();
        let internal = std::fs::read_to_string(directory().join(name).join("internal.txt")).unwrap();
        // Entries of a key, the newest first, have the timestamps 30, 20 and 10. Keys have 9 bytes.
        let lines: Vec<&str> = internal.lines().filter(|line| !line.starts_with('#')).collect();
        for versions in lines.chunk_by(|a, b| a[..18] == b[..18]) {
            for (line, time) in versions.iter().zip([30_u64, 20, 10]) {
                let fields: Vec<&str> = line.splitn(4, ' ').collect();
                let digits = |i: usize| u8::from_str_radix(&line[2 * i..2 * i + 2], 16).unwrap();
                let key: Vec<u8> = (0..9).map(digits).collect();
                for time in [time, time + 9] {
                    let found = reader.get_at("default", &key, Some(&time.to_le_bytes())).unwrap();
                    let is_value = fields[2] == "1";
                    assert_eq!(found.is_some(), is_value, "{name} {line} at {time}");
                    let found = found.map(|value| described(&value, fields[3]));
                    assert!(found.is_none_or(|found| found == fields[3]), "{name} {line} at {time}");
                    versions_seen += 1;
                }
            }
        }
        assert_eq!(reader.scan_at("default", None, 10, Some(&9_u64.to_le_bytes())).unwrap(), []);
        let error = reader.get_at("default", b"key000005", Some(b"short")).unwrap_err();
        assert!(error.to_string().contains("a timestamp of 5 bytes"), "{error}");
    }
    assert!(versions_seen > 400, "{versions_seen}");
}

/// All pairs of the default family.
fn all(contents: Vec<(String, Vec<u8>)>) -> esker_base::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    Reader::open(files_of(contents))?.scan("default", None, usize::MAX)
}

#[test]
fn damage_is_an_error_or_loses_the_end_of_a_log() {
    for name in ["v11_9_wal_unflushed", "v11_9_fv6", "v7_8_partitioned"] {
        let whole = contents_of(name);
        let pairs = all(whole.clone()).unwrap();
        let mut errors = 0;
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let mut damaged = whole.clone();
            let file = rng.index(damaged.len());
            // A log may lose its end, and with it the newest values.
            let is_log = damaged[file].0.ends_with(".log") || damaged[file].0.starts_with("MANIFEST");
            let bytes = &mut damaged[file].1;
            let at = rng.index(bytes.len().max(1));
            match rng.below(3) {
                0 => bytes.truncate(at),
                _ => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << rng.below(8)),
            }
            match all(damaged) {
                Ok(found) => assert!(is_log || found == pairs, "{name}, seed {seed}"),
                Err(_) => errors += 1,
            }
        }
        assert!(errors > 50, "{name}: {errors} errors");
    }
}
