//! Tables with changed blocks under right checksums: Esker's reads end, in whatever order the keys are; and of tables in which
//! Esker's check finds nothing wrong, what RocksDB reads, Esker reads as the same.

use crate::oracle::{Answer, ask};
use crate::world::{Files, databases, contents};
use esker_base::Result;
use esker_env::{FileSystem, MemFs};
use esker_format::footer::Footer;
use esker_format::key::InternalKeyComparator;
use esker_table::{TableReader, TableReaderOptions};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Bytes of a change.
const CHANGE: usize = 6;
const TRAILER: usize = 5;

fn is_table(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "sst")
}

fn footer(bytes: &[u8]) -> Footer {
    Footer::parse(&bytes[bytes.len() - 53..], bytes.len() as u64).unwrap()
}

/// Where the blocks of a whole table lie, without their trailers: they follow each other, and each ends where its checksum fits.
fn blocks(bytes: &[u8]) -> Vec<Range<usize>> {
    let guard = footer(bytes).guard;
    let mut found = Vec::new();
    let mut start = 0;
    while let Some(end) = (start..bytes.len() - TRAILER)
        .find(|end| guard.check(&bytes[start..end + TRAILER], start as u64).is_ok())
    {
        found.push(start..end);
        start = end + TRAILER;
    }
    found
}

/// A database's files, and the blocks of those that are tables.
type Mapped = Vec<(usize, Vec<Range<usize>>)>;

fn mapped(variant: usize) -> &'static Mapped {
    static MAPPED: OnceLock<Vec<Mapped>> = OnceLock::new();
    let of = |files: &Files| -> Mapped {
        let tables = files.iter().enumerate().filter(|(_, (path, _))| is_table(path));
        tables.map(|(at, (_, bytes))| (at, blocks(bytes))).collect()
    };
    &MAPPED.get_or_init(|| databases().iter().map(of).collect())[variant]
}

/// Changes a block and puts the checksum right.
fn change(files: &mut Files, tables: &Mapped, change: &[u8; CHANGE]) {
    let &[which, low, high, kind, count, byte] = change;
    let all: Vec<_> = tables.iter().flat_map(|(at, blocks)| blocks.iter().map(move |b| (*at, b))).collect();
    let (at, block) = all[usize::from(which) % all.len()];
    let bytes = &mut files[at].1;
    let place = block.start + usize::from(u16::from_le_bytes([low, high])) % block.len().max(1);
    let end = (place + usize::from(count % 16)).min(block.end);
    match kind % 4 {
        0 if place < block.end => bytes[place] ^= byte.max(1),
        1 => bytes[place..end].fill(byte),
        2 if place < block.end => bytes[place] = bytes[place].wrapping_add_signed(byte.cast_signed() % 4),
        // What stands before it, again.
        3 => {
            let from = place.saturating_sub(usize::from(byte)).max(block.start);
            let count = (end - place).min(block.end - from);
            bytes.copy_within(from..from + count, place);
        }
        _ => {}
    }
    let code = bytes[block.end];
    let mut sealed = bytes[block.clone()].to_vec();
    footer(bytes).guard.append_trailer(&mut sealed, 0, code, block.start as u64);
    bytes[block.start..block.end + TRAILER].copy_from_slice(&sealed);
}

fn verify(bytes: &[u8]) -> Result<()> {
    let (fs, path) = (MemFs::new(), PathBuf::from("/000007.sst"));
    let mut file = fs.new_writable_file(&path)?;
    file.append(bytes)?;
    file.close()?;
    let options = TableReaderOptions::new(InternalKeyComparator::default(), Arc::default(), bytes.len() as u64);
    TableReader::open(fs.new_random_access_file(&path)?, options)?.verify(&mut |_| true)
}

/// The first byte says which database; each six bytes are a change.
pub fn run(data: &[u8]) {
    let Some((&variant, data)) = data.split_first() else { return };
    let variant = usize::from(variant) % databases().len();
    let mut files = databases()[variant].clone();
    let (changes, _) = data.as_chunks::<CHANGE>();
    for bytes in changes.iter().take(4) {
        change(&mut files, mapped(variant), bytes);
    }
    let own = contents(&files, variant, 2);
    // Keys out of order, say: each reads what it comes upon, and RocksDB does not always end.
    if files.iter().filter(|(path, _)| is_table(path)).any(|(_, bytes)| verify(bytes).is_err()) {
        return;
    }
    let Some(Answer::Holds(theirs)) = ask(&files, 2) else { return };
    match own {
        Ok(own) => assert_eq!(own, theirs),
        Err(why) => panic!("RocksDB reads {} entries, Esker says {why}", theirs.concat().len()),
    }
}
