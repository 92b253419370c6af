//! Reads and ingests files with changed blocks under right checksums.
//!
//! Laws: each read, ingestion and compaction ends, whatever the order of keys. If verification
//! finds no error in the file, its entries are the same before the ingestion, after it, and after
//! the compaction. RocksDB then reads the same entries as Esker.

use crate::blocks::{self, FuzzBlock, CHANGE};
use crate::oracle::{OracleAnswer, ask};
use crate::scene::{FAMILIES, files_below, key, lay, open, options, value};
use esker::internals::env::{FileSystem, MemFs};
use esker::options::BottommostLevelCompaction;
use esker::{
    ColumnFamilyHandle, CompactRangeOptions, Db, IngestExternalFileOptions, OpenMode, Options, ReadOptions,
    SstFileReader, SstFileWriter,
};
use esker_peer::contents::ContentsPair;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

const PATH: &str = "/made.sst";
const KEYS: u32 = 40;
const VARIANTS: usize = 6;

/// A file before any change, and its blocks.
type BuiltFile = (Vec<u8>, Vec<FuzzBlock>);

/// Makes a file with every kind of entry. Some variants have no range deletions; one has only range
/// deletions.
fn make(variant: usize) -> BuiltFile {
    let fs = MemFs::new();
    let mut writer = SstFileWriter::new(&options(&fs, variant));
    writer.open(PATH).unwrap();
    let has_points = variant != 4;
    for n in (0..KEYS).filter(|_| has_points) {
        let (key, value) = (key(n), value(n, 1));
        match n % 7 {
            0 => writer.delete(&key).unwrap(),
            1 => writer.merge(&key, &value).unwrap(),
            2 => writer.put_entity(&key, &[(b"", &value), (b"column", b"of it")]).unwrap(),
            _ => writer.put(&key, &value).unwrap(),
        }
    }
    if variant >= 3 {
        for (begin, end) in [(3, 9), (5, 20), (30, 90)] {
            writer.delete_range(key(begin), key(end)).unwrap();
        }
    }
    writer.finish().unwrap();
    let mut bytes = vec![0; usize::try_from(fs.file_size(Path::new(PATH)).unwrap()).unwrap()];
    fs.new_random_access_file(Path::new(PATH)).unwrap().read_at(0, &mut bytes).unwrap();
    let blocks = blocks::of(&bytes);
    (bytes, blocks)
}

fn made(variant: usize) -> &'static BuiltFile {
    static MADE: OnceLock<Vec<BuiltFile>> = OnceLock::new();
    &MADE.get_or_init(|| (0..VARIANTS).map(make).collect())[variant]
}

/// Reads all entries of an iterator, forward and backward. `None` if a read fails.
macro_rules! walked {
    ($iter:expr, $forwards:expr) => {{
        let mut iter = $iter;
        let mut found = Vec::<ContentsPair>::new();
        if $forwards {
            iter.seek_to_first();
        } else {
            iter.seek_to_last();
        }
        while let Some((key, value)) = iter.item() {
            found.push((key.to_vec(), value.to_vec()));
            if $forwards {
                iter.next();
            } else {
                iter.prev();
            }
        }
        if !$forwards {
            found.reverse();
        }
        iter.status().ok().map(|()| found)
    }};
}

fn alone(options: &Options) -> Option<(Vec<ContentsPair>, bool)> {
    let reader = SstFileReader::open(options, PATH).ok()?;
    let forwards = walked!(reader.iter(&ReadOptions::default()).ok()?, true);
    let backwards = walked!(reader.iter(&ReadOptions::default()).ok()?, false);
    for n in 0..KEYS {
        drop(reader.get(&ReadOptions::default(), key(n)));
    }
    let is_whole = reader.verify_checksum().is_ok();
    if is_whole {
        assert_eq!(forwards, backwards);
    }
    Some((forwards?, is_whole))
}

fn ingested(db: &Db, family: &ColumnFamilyHandle) -> [Option<Vec<ContentsPair>>; 2] {
    for n in 0..KEYS {
        drop(db.get_cf(family, key(n)));
    }
    [true, false].map(|forwards| walked!(db.iter_cf(family).ok()?, forwards))
}

/// Runs one input. The first byte selects the file. The second byte selects the options of the
/// ingestion and the family. The rest is changes of six bytes each.
pub fn run(data: &[u8]) {
    let Some((&[variant, how], data)) = data.split_first_chunk::<2>() else { return };
    let variant = usize::from(variant) % VARIANTS;
    let (bytes, blocks) = made(variant);
    let mut bytes = bytes.clone();
    for change in data.as_chunks::<CHANGE>().0.iter().take(4) {
        blocks::change(&mut bytes, &blocks[usize::from(change[0]) % blocks.len()], change);
    }
    let fs = MemFs::new();
    lay(&fs, &vec![(PathBuf::from(PATH), bytes)]);
    let options = options(&fs, variant);
    let Some((held, is_whole)) = alone(&options) else { return };
    fs.create_dir_if_missing(Path::new("/db")).unwrap();
    let db = open(&options, OpenMode::ReadWrite).unwrap();
    let family = db.column_family(FAMILIES[usize::from(how & 1)]).unwrap();
    let is_empty = how & 2 == 0;
    if !is_empty {
        for n in 0..KEYS / 2 {
            db.put_cf(&family, key(2 * n), value(2 * n, 0)).unwrap();
        }
    }
    let ingestion = IngestExternalFileOptions {
        move_files: how & 4 != 0,
        verify_checksums_before_ingest: how & 8 != 0,
        ..IngestExternalFileOptions::default()
    };
    if db.ingest_external_file_opt(&ingestion, &family, &[PATH]).is_err() {
        return;
    }
    let check = |found: [Option<Vec<ContentsPair>>; 2]| {
        if is_whole && is_empty {
            assert_eq!(found, [Some(held.clone()), Some(held.clone())]);
        } else if is_whole {
            assert_eq!(found[0], found[1]);
        }
    };
    check(ingested(&db, &family));
    let is_asked_before = how & 16 != 0;
    if is_whole && is_asked_before {
        read_alike(&db, &fs);
    }
    let force = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    drop(db.compact_range_opt(&force, &family, None, None));
    check(ingested(&db, &family));
    drop(db.verify_checksum());
    if is_whole && !is_asked_before {
        read_alike(&db, &fs);
    }
    drop(db.close());
}

/// Checks that RocksDB reads the same entries from the database's files as Esker.
fn read_alike(db: &Db, fs: &MemFs) {
    db.disable_file_deletions();
    let files = files_below(fs, Path::new("/db"));
    db.enable_file_deletions().unwrap();
    let Some(OracleAnswer::Holds(theirs)) = ask(&files, 2) else { return };
    let own = FAMILIES.map(|name| ingested(db, &db.column_family(name).unwrap())[0].clone().unwrap());
    assert_eq!(own.as_slice(), theirs);
}
