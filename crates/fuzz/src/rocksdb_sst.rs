//! Tables with changed blocks and right checksums. Esker's reads end, whatever the order of the
//! keys. If `esker verify` finds no problem and RocksDB reads the database, Esker reads the same
//! entries.

use crate::blocks::{self, FuzzBlock, CHANGE};
use crate::oracle::{OracleAnswer, ask};
use crate::scene::{Files, contents, databases, is_whole};
use std::path::Path;
use std::sync::OnceLock;

fn is_table(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "sst")
}

/// A database's blocks, each with the index of its file.
type Mapped = Vec<(usize, FuzzBlock)>;

fn mapped(variant: usize) -> &'static Mapped {
    static MAPPED: OnceLock<Vec<Mapped>> = OnceLock::new();
    let of = |files: &Files| -> Mapped {
        let tables = files.iter().enumerate().filter(|(_, (path, _))| is_table(path));
        tables.flat_map(|(at, (_, bytes))| blocks::of(bytes).into_iter().map(move |block| (at, block))).collect()
    };
    &MAPPED.get_or_init(|| databases().iter().map(of).collect())[variant]
}

/// Runs one input. The first byte selects the database. Each six bytes after it are a change.
pub fn run(data: &[u8]) {
    let Some((&variant, data)) = data.split_first() else { return };
    let variant = usize::from(variant) % databases().len();
    let mut files = databases()[variant].clone();
    let (changes, _) = data.as_chunks::<CHANGE>();
    let blocks = mapped(variant);
    for change in changes.iter().take(4) {
        let (at, block) = &blocks[usize::from(change[0]) % blocks.len()];
        blocks::change(&mut files[*at].1, block, change);
    }
    let own = contents(&files, variant, 2);
    // Keys may be out of order, for example, or newer than the MANIFEST says. The engines may then
    // read different entries, and RocksDB does not always end.
    if !is_whole(&files) {
        return;
    }
    let Some(OracleAnswer::Holds(theirs)) = ask(&files, 2) else { return };
    match own {
        Ok(own) => assert_eq!(own, theirs),
        Err(why) => panic!("RocksDB reads {} entries, Esker says {why}", theirs.concat().len()),
    }
}
