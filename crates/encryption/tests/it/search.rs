//! Reads at any offset of damaged files. In a log, intact frames are found whatever the damaged
//! heads say.

use super::support::{encrypted, pattern, put_raw, raw, write_pieces};
use esker_base::{ErrorKind, Result};
use esker_encryption::EncryptedFs;
use esker_env::{FileSystem, MemFs};
use esker_format::encryption::{FrameHead, HEAD_BYTES};
use std::path::Path;

const LOG: &str = "/000004.log";
const MANIFEST: &str = "/MANIFEST-000005";
const TABLE: &str = "/000012.sst";
const PAGE: usize = 4096;
/// Bytes of content of a frame that fills a quarter of a page.
const QUARTER: usize = 992;

/// Writes a file in these pieces. Returns the content and the underlying file system.
fn file(path: &str, pieces: &[&[u8]]) -> (Vec<u8>, MemFs) {
    let disk = MemFs::new();
    write_pieces(&encrypted(disk.clone()), Path::new(path), pieces);
    (pieces.concat(), disk)
}

/// An encrypted file system with a copy of this file, whose bytes `change` damages.
fn damaged(disk: &MemFs, path: &str, change: impl FnOnce(&mut [u8])) -> EncryptedFs {
    let mut bytes = raw(disk, Path::new(path));
    change(&mut bytes);
    let damaged = MemFs::new();
    put_raw(&damaged, Path::new(path), &bytes);
    encrypted(damaged)
}

/// Ten bytes at `offset`, read by a new reader.
fn ten(fs: &EncryptedFs, path: &str, offset: usize) -> Result<[u8; 10]> {
    let mut buf = [0; 10];
    assert_eq!(fs.new_random_access_file(Path::new(path))?.read_at(offset as u64, &mut buf)?, 10);
    Ok(buf)
}

/// A log of 60 full pages, each of four frames. At offsets of 64 KiB or more, a reader searches for
/// the frame.
fn log_of_quarters(seed: u64) -> (Vec<u8>, MemFs) {
    let content = pattern(60 * 4 * QUARTER, seed);
    file(LOG, &content.chunks(QUARTER).collect::<Vec<_>>())
}

/// A head that sends the search to its page does not hide the pages before it.
#[test]
fn a_damaged_offset_of_a_log_hides_no_other_frame() {
    let (content, disk) = log_of_quarters(1);
    for damaged_page in [20, 40, 59] {
        for bit in 0..48 {
            let at = (damaged_page + 1) * PAGE + 4;
            let fs = damaged(&disk, LOG, |bytes| bytes[at + bit / 8] ^= 1 << (bit % 8));
            for page in 10..60 {
                let offset = page * 4 * QUARTER + 100;
                let is_lost = page == damaged_page;
                let wanted = if is_lost { &[0xFF; 10][..] } else { &content[offset..offset + 10] };
                assert_eq!(ten(&fs, LOG, offset).unwrap(), wanted, "{damaged_page}, bit {bit}: {page}");
                // The page's second frame is intact.
                let behind = offset + QUARTER;
                assert_eq!(ten(&fs, LOG, behind).unwrap(), content[behind..behind + 10]);
            }
        }
    }
}

/// The first heads of two pages claim random offsets.
#[test]
fn damaged_offsets_of_two_pages_hide_no_other_page() {
    let (content, disk) = log_of_quarters(2);
    let mut rng = fastrand::Rng::with_seed(4);
    for round in 0..200 {
        let pages = [rng.usize(..59), rng.usize(..59)];
        let claims = pages.map(|_| rng.u64(..content.len() as u64));
        let fs = damaged(&disk, LOG, |bytes| {
            for (page, claim) in pages.iter().zip(claims) {
                let at = (page + 1) * PAGE;
                let head = FrameHead::decode(&bytes[at..]).unwrap();
                let head = FrameHead { offset: claim, ..head };
                bytes[at..at + HEAD_BYTES].copy_from_slice(&head.encode());
            }
        });
        for page in (0..60).filter(|page| !pages.contains(page)) {
            let offset = page * 4 * QUARTER + rng.usize(..QUARTER - 10);
            assert_eq!(ten(&fs, LOG, offset).unwrap(), content[offset..offset + 10], "{round}: {page}");
        }
    }
}

/// A run of damaged pages, each of which claims to be the start of the log.
#[test]
fn a_run_of_damaged_pages_hides_no_other_page() {
    let (content, disk) = log_of_quarters(3);
    let fs = damaged(&disk, LOG, |bytes| {
        for page in 30..50 {
            bytes[(page + 1) * PAGE + 4..][..6].fill(0);
        }
    });
    for page in (0..30).chain(50..60) {
        let offset = page * 4 * QUARTER + 100;
        assert_eq!(ten(&fs, LOG, offset).unwrap(), content[offset..offset + 10], "page {page}");
    }
}

/// A head whose length changed is stepped over, and hides no frame behind it.
#[test]
fn a_damaged_length_of_a_log_hides_no_other_frame() {
    let pieces: Vec<Vec<u8>> = (0..60).map(|n| pattern(100 + n % 7, n as u64)).collect();
    let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
    let (content, disk) = file(LOG, &pieces);
    let bytes = raw(&disk, Path::new(LOG));
    let mut at = PAGE;
    for damaged_frame in 0..10 {
        for bit in 0..16 {
            let fs = damaged(&disk, LOG, |bytes| bytes[at + 2 + bit / 8] ^= 1 << (bit % 8));
            let mut end = 0;
            for (n, piece) in pieces.iter().enumerate() {
                end += piece.len();
                let offset = end - 20;
                let is_lost = n == damaged_frame;
                let wanted = if is_lost { &[0xFF; 10][..] } else { &content[offset..offset + 10] };
                let there = ten(&fs, LOG, offset).unwrap();
                assert_eq!(there, wanted, "frame {damaged_frame}, bit {bit}: frame {n}");
            }
        }
        at += FrameHead::decode(&bytes[at..]).unwrap().frame_bytes();
    }
}

/// In a MANIFEST or a table, a read of an intact frame succeeds, or fails if it has to cross the
/// damaged page. A damaged head with a smaller offset causes no error in other pages.
#[test]
fn a_smaller_offset_in_a_manifest_or_table_hides_no_other_page() {
    let pieces: Vec<Vec<u8>> = (0..90).map(|n| pattern(2000, n)).collect();
    let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
    for path in [MANIFEST, TABLE] {
        let (content, disk) = file(path, &pieces);
        let at = 35 * PAGE;
        let head = FrameHead::decode(&raw(&disk, Path::new(path))[at..]).unwrap();
        let lost = head.offset as usize..head.offset as usize + usize::from(head.len);
        for bit in 16..80 {
            let mut is_smaller = false;
            let fs = damaged(&disk, path, |bytes| {
                bytes[at + bit / 8] ^= 1 << (bit % 8);
                let claim = FrameHead::decode(&bytes[at..]);
                is_smaller = claim.is_some_and(|claim| claim.offset < head.offset);
            });
            // At offsets of 64 KiB or more, a reader searches for the frame.
            for offset in (66_000..content.len() - 10).step_by(500) {
                let is_lost = offset + 10 > lost.start && offset < lost.end;
                let is_other_page = offset + 10 <= lost.start || offset >= lost.end + 2000;
                match ten(&fs, path, offset) {
                    Ok(there) => assert!(!is_lost && there == content[offset..offset + 10]),
                    Err(e) => {
                        assert_eq!(e.kind(), ErrorKind::Corruption);
                        assert!(!is_smaller || !is_other_page, "{path}, bit {bit}: {offset}: {e}");
                    }
                }
            }
        }
    }
}

/// A writer that cuts a damaged log keeps the frames before the cut.
#[test]
fn a_cut_of_a_damaged_log_keeps_the_content_before() {
    let (content, disk) = log_of_quarters(4);
    for bit in 0..48 {
        for size in (50..58).map(|page| page * 4 * QUARTER + 1000) {
            let fs = damaged(&disk, LOG, |bytes| bytes[59 * PAGE + 4 + bit / 8] ^= 1 << (bit % 8));
            fs.truncate(Path::new(LOG), size as u64).unwrap();
            let (there, before) = (raw(&fs, Path::new(LOG)), &content[..size]);
            assert!(there == before, "bit {bit}, {size} bytes");
        }
    }
}
