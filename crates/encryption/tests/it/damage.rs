//! Damaged encrypted files: a read returns the content or an error, never wrong content. In a log,
//! lost content reads as bytes 0xFF, or is missing at the end.

use super::support::{encrypted, pattern, put_raw, raw, read, with_keys, write_pieces};
use esker_base::{ErrorKind, Result};
use esker_env::{FileSystem, MemFs};
use esker_format::encryption::FrameHead;
use std::path::Path;
use std::sync::Arc;

const TABLE: &str = "/000012.sst";
const LOG: &str = "/000004.log";
const PAGE: usize = 4096;

/// A file system with a file of `pages` pages and a half, the file's content, and its encrypted
/// bytes.
fn table(pages: usize) -> (MemFs, Vec<u8>, Vec<u8>) {
    let disk = MemFs::new();
    let content = pattern(4064 * pages + 2000, 1);
    write_pieces(&encrypted(disk.clone()), Path::new(TABLE), &[&content]);
    let bytes = raw(&disk, Path::new(TABLE));
    (disk, content, bytes)
}

/// The content of a file that has these bytes on disk.
fn content_of(path: &str, bytes: &[u8]) -> Result<Vec<u8>> {
    let disk = MemFs::new();
    put_raw(&disk, Path::new(path), bytes);
    read(&encrypted(disk), Path::new(path))
}

fn is_damage(result: Result<Vec<u8>>, path: &str) {
    let e = result.expect_err("the damage is found");
    assert_eq!(e.kind(), ErrorKind::Corruption, "{e}");
    assert!(e.message().starts_with(path), "{e}");
}

#[test]
fn no_plain_bytes_reach_the_disk() {
    let disk = MemFs::new();
    let secret = b"a secret that nobody may read ".repeat(500);
    write_pieces(&encrypted(disk.clone()), Path::new(TABLE), &[&secret]);
    write_pieces(&encrypted(disk.clone()), Path::new(LOG), &[&secret[..100], &secret]);
    for path in [TABLE, LOG] {
        let bytes = raw(&disk, Path::new(path));
        assert!(!bytes.windows(8).any(|window| window == b"a secret"), "{path}");
    }
}

/// A changed bit in a frame is an error. A changed bit in the header leaves the content readable,
/// because the header has two slots.
#[test]
fn a_changed_bit_of_a_table_is_damage() {
    let (_, content, bytes) = table(2);
    let mut rng = fastrand::Rng::with_seed(7);
    for _ in 0..3000 {
        let (at, bit) = (rng.usize(..bytes.len()), rng.u8(..8));
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << bit;
        match content_of(TABLE, &damaged) {
            Ok(there) => assert!(at < PAGE && there == content, "byte {at}"),
            Err(e) => assert!(e.kind() == ErrorKind::Corruption && at >= PAGE, "byte {at}: {e}"),
        }
    }
}

/// A changed bit in a log: its content reads as it was, or as 0xFF; the last record may be missing.
#[test]
fn a_changed_bit_of_a_log_is_seen() {
    let disk = MemFs::new();
    let pieces: Vec<Vec<u8>> = (1..200).map(|n| vec![n as u8; 1 + n * 37 % 300]).collect();
    let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
    let content = pieces.concat();
    write_pieces(&encrypted(disk.clone()), Path::new(LOG), &pieces);
    let bytes = raw(&disk, Path::new(LOG));
    let last = pieces.last().unwrap().len();
    let mut rng = fastrand::Rng::with_seed(8);
    for _ in 0..3000 {
        let at = rng.usize(..bytes.len());
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << rng.u8(..8);
        let there = content_of(LOG, &damaged).unwrap();
        assert!((content.len() - last..=content.len()).contains(&there.len()), "byte {at}");
        let wrong = there.iter().zip(&content).filter(|(a, b)| a != b);
        assert!(wrong.clone().all(|(a, _)| *a == 0xFF), "byte {at}");
        let is_seen = there.len() < content.len() || wrong.count() > 0;
        // The unused bytes of the header and the padding of pages have no content.
        let is_frame = at >= PAGE && at % PAGE < PAGE - 40;
        assert!(is_seen || !is_frame, "byte {at}");
    }
}

#[test]
fn pages_that_moved_are_damage() {
    let (_, _, bytes) = table(3);
    let mut swapped = bytes.clone();
    swapped[PAGE..3 * PAGE].rotate_left(PAGE);
    is_damage(content_of(TABLE, &swapped), TABLE);
    let mut doubled = bytes.clone();
    doubled.copy_within(PAGE..2 * PAGE, 2 * PAGE);
    is_damage(content_of(TABLE, &doubled), TABLE);
    let missing = [&bytes[..2 * PAGE], &bytes[3 * PAGE..]].concat();
    is_damage(content_of(TABLE, &missing), TABLE);
    let (_, _, other) = table(3);
    let mut mixed = bytes.clone();
    mixed[2 * PAGE..3 * PAGE].copy_from_slice(&other[2 * PAGE..3 * PAGE]);
    is_damage(content_of(TABLE, &mixed), TABLE);
    let header_of_other = [&other[..PAGE], &bytes[PAGE..]].concat();
    is_damage(content_of(TABLE, &header_of_other), TABLE);
}

/// Cuts the table within the header, behind it, within pages and at the ends of pages.
#[test]
fn a_table_that_was_cut_is_damage() {
    let (_, content, bytes) = table(2);
    let ends = [1, 95, 96, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE, 3 * PAGE, bytes.len() - 1];
    for end in ends {
        is_damage(content_of(TABLE, &bytes[..end]), TABLE);
    }
    is_damage(content_of(TABLE, &[&bytes[..], &[0; 100]].concat()), TABLE);
    assert_eq!(content_of(TABLE, &bytes).unwrap(), content);
}

/// A table whose content ends at the end of a page. The end mark is then in a frame without
/// content, on the next page.
#[test]
fn a_table_of_whole_pages_that_was_cut_is_damage() {
    let disk = MemFs::new();
    let content = pattern(4064 * 3, 5);
    write_pieces(&encrypted(disk.clone()), Path::new(TABLE), &[&content]);
    let bytes = raw(&disk, Path::new(TABLE));
    assert_eq!(content_of(TABLE, &bytes).unwrap(), content);
    for pages in 2..=4 {
        is_damage(content_of(TABLE, &bytes[..pages * PAGE]), TABLE);
    }
}

/// The last appends to a log may be missing.
#[test]
fn a_log_that_was_cut_ends_there() {
    let disk = MemFs::new();
    write_pieces(&encrypted(disk.clone()), Path::new(LOG), &[b"first", b"second", b"third"]);
    let bytes = raw(&disk, Path::new(LOG));
    for (end, there) in [
        (0, ""),
        (50, ""),
        (PAGE, ""),
        (PAGE + 36, ""),
        (PAGE + 37, "first"),
        (PAGE + 74, "first"),
        (PAGE + 75, "firstsecond"),
        (bytes.len(), "firstsecondthird"),
    ] {
        assert_eq!(content_of(LOG, &bytes[..end]).unwrap(), there.as_bytes(), "{end}");
    }
    let zeros = [&bytes[..], &[0; 20_000]].concat();
    assert_eq!(content_of(LOG, &zeros).unwrap(), b"firstsecondthird");
    let garbage = [&bytes[..], &pattern(20_000, 9)].concat();
    assert_eq!(content_of(LOG, &garbage).unwrap(), b"firstsecondthird");
}

#[test]
fn a_file_that_is_not_encrypted_is_refused() {
    let e = content_of(TABLE, &pattern(10_000, 3)).unwrap_err().to_string();
    assert_eq!(e, "Corruption: /000012.sst: the file is not encrypted, and `accept_plaintext` is off");
    assert_eq!(content_of("/CURRENT", b"MANIFEST-000005\n").unwrap(), b"MANIFEST-000005\n");
}

#[test]
fn a_wrong_key_names_file_and_place() {
    let (disk, ..) = table(1);
    let e = read(&with_keys(Arc::new(disk), &[2, 3]), Path::new(TABLE)).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument);
    let (message, name) = (e.message(), |n| super::support::key(n).id().to_string());
    assert!(message.starts_with("/000012.sst: encrypted under master key "), "{message}");
    assert!(message.contains(&name(1)), "{message}");
    assert!(message.ends_with(&format!("but the key callback gives {}, {}", name(2), name(3))), "{message}");
}

/// A MANIFEST may end within a frame or with zeros. A changed bit is damage, also in its last
/// frame.
#[test]
fn a_changed_bit_of_a_manifest_is_damage() {
    const MANIFEST: &str = "/MANIFEST-000005";
    let disk = MemFs::new();
    let pieces: [&[u8]; 3] = [b"first", &[7; 5000], b"third"];
    write_pieces(&encrypted(disk.clone()), Path::new(MANIFEST), &pieces);
    let (content, bytes) = (pieces.concat(), raw(&disk, Path::new(MANIFEST)));
    for at in PAGE..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        match content_of(MANIFEST, &damaged) {
            Err(e) => assert_eq!(e.kind(), ErrorKind::Corruption, "byte {at}: {e}"),
            // Padding holds nothing.
            Ok(there) => assert!(there == content && at % PAGE > PAGE - 40, "byte {at}"),
        }
    }
    for cut in 1..37 {
        let there = content_of(MANIFEST, &bytes[..bytes.len() - cut]).unwrap();
        assert!(there == content[..content.len() - 5], "{cut}");
    }
    let zeros = [&bytes[..], &[0; 9000]].concat();
    assert!(content_of(MANIFEST, &zeros).unwrap() == content);
    let garbage = [&bytes[..], &pattern(9000, 4)].concat();
    is_damage(content_of(MANIFEST, &garbage), MANIFEST);
}

/// Other content at the same offset has another nonce: after a truncation, a reopening, a new file.
#[test]
fn no_nonce_comes_again() {
    let (disk, path) = (MemFs::new(), Path::new(TABLE));
    let fs = encrypted(disk.clone());
    let mut seen = std::collections::HashMap::new();
    let mut note = || {
        let page = raw(&disk, path)[PAGE..].to_vec();
        let mut rest = page.as_slice();
        while let Some(head) = FrameHead::decode(rest) {
            let (frame, behind) = rest.split_at(head.frame_bytes());
            let known = seen.entry(frame[4..16].to_vec()).or_insert_with(|| frame.to_vec());
            assert_eq!(known, frame);
            rest = behind;
        }
    };
    let mut file = fs.new_writable_file(path).unwrap();
    for round in 0..3 {
        file.append(&[round; 10]).unwrap();
        file.flush().unwrap();
        note();
        file.truncate(0).unwrap();
        note();
    }
    drop(file);
    let mut file = fs.reopen_writable_file(path).unwrap();
    file.truncate(0).unwrap();
    file.append(b"again").unwrap();
    file.close().unwrap();
    note();
    write_pieces(&fs, path, &[b"new"]);
    note();
    assert!(seen.len() >= 7, "{}", seen.len());
}
