//! Opens databases of RocksDB whose codec may be missing from this build. Each is read, or is
//! refused with the name of the feature that has the codec. A refusal changes no table, no blob
//! file and no compressed WAL.
//!
//! `cargo test -p esker-demo` builds Esker without the codecs that need a feature: Bzip2, Zlib and
//! Zstandard. A test of the whole workspace builds Esker with all codecs.

use esker::internals::format::compression::CompressionType;
use esker::{Db, Error, ErrorKind, Options};
use esker_testkit::TempDir;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Golden databases with a compressed table, blob file or WAL.
const COMPRESSED: &[(&str, CompressionType)] = &[
    ("v7_8_compress_bzip2", CompressionType::Bzip2),
    ("v7_8_compress_lz4", CompressionType::Lz4),
    ("v7_8_compress_lz4hc", CompressionType::Lz4hc),
    ("v7_8_compress_snappy", CompressionType::Snappy),
    ("v7_8_compress_zlib", CompressionType::Zlib),
    ("v7_8_compress_zstd", CompressionType::Zstd),
    ("v7_8_dict_lz4", CompressionType::Lz4),
    ("v7_8_dict_zstd_trained", CompressionType::Zstd),
    ("v7_8_blob_zstd", CompressionType::Zstd),
    ("v11_9_wal_zstd", CompressionType::Zstd),
];

/// A copy of the golden database `name`.
fn copy(name: &str, temp: &TempDir) -> PathBuf {
    let from = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures")).join(name).join("db");
    let to = temp.join(name);
    std::fs::create_dir_all(&to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
    to
}

/// Contents of tables and blob files, and of the WAL if it is compressed. An open replays other
/// WALs.
fn data(name: &str, dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let kept: &[&str] = if name.contains("_wal_") { &["sst", "blob", "log"] } else { &["sst", "blob"] };
    let paths = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let is_kept = |path: &PathBuf| path.extension().is_some_and(|e| kept.iter().any(|x| e == *x));
    paths.filter(is_kept).map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// Opens the database and counts its keys.
fn count(dir: &Path) -> Result<usize, Error> {
    let db = Db::open(&Options::default(), dir)?;
    let mut iter = db.iter()?;
    let mut keys = 0;
    iter.seek_to_first();
    while iter.item().is_some() {
        keys += 1;
        iter.next();
    }
    iter.status()?;
    Ok(keys)
}

#[test]
fn a_database_is_read_or_refused_with_the_name_of_the_missing_feature() {
    let temp = TempDir::new("codecs");
    for (name, kind) in COMPRESSED {
        let dir = copy(name, &temp);
        let before = data(name, &dir);
        match (count(&dir), kind.feature().filter(|_| !kind.is_built_in())) {
            (Ok(keys), None) => assert!(keys > 0, "{name}"),
            (Err(error), Some(feature)) => {
                assert_eq!(error.kind(), ErrorKind::NotSupported, "{name}: {error}");
                assert!(error.to_string().contains(&format!("feature `{feature}`")), "{name}: {error}");
                let after = data(name, &dir);
                for (path, bytes) in &before {
                    assert!(after.get(path) == Some(bytes), "{name}: {} changed", path.display());
                }
            }
            (outcome, missing) => panic!("{name}: {outcome:?}, missing: {missing:?}"),
        }
    }
}

#[test]
fn an_option_that_names_a_missing_codec_is_refused_before_anything_is_made() {
    let temp = TempDir::new("codec-options");
    for kind in CompressionType::ALL {
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.cf.compression = kind;
        let dir = temp.join(kind.option_name());
        match Db::open(&options, &dir) {
            Ok(_) => assert!(kind.is_built_in(), "{kind:?}"),
            Err(error) => {
                assert!(!kind.is_built_in(), "{kind:?}: {error}");
                assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
                // The message has RocksDB's words and names the feature.
                assert!(error.to_string().contains("is not linked with the binary"), "{error}");
                assert!(kind.feature().is_none_or(|f| error.to_string().contains(f)), "{error}");
                assert!(!dir.exists(), "{kind:?}");
            }
        }
    }
}
