use super::*;
use crate::blob::{BlobFileBuilder, BlobSourceOptions};
use esker_base::{ColumnFamilyId, FileNumber};
use esker_env::{FileSystem, MemFs};
use esker_format::blob::BlobIndex;
use esker_format::compression::{CodecOptions, CompressionType};
use esker_format::file_name::blob_file_name;
use esker_format::wide_column::DEFAULT_COLUMN_NAME;
use std::path::Path;

/// A blob file in memory.
struct Stored {
    reader: BlobReader,
    /// The blob indexes of the values, in their order, as text.
    indexes: Vec<String>,
}

/// Writes these values to blob file 12.
fn stored(values: &[(&str, &str)]) -> Stored {
    let fs: Arc<dyn FileSystem> = Arc::new(MemFs::new());
    let dir = Path::new("/db");
    fs.create_dir_if_missing(dir).unwrap();
    let number = FileNumber(12);
    let file = fs.new_writable_file(&blob_file_name(dir, number)).unwrap();
    let mut builder = BlobFileBuilder::new(
        file,
        number,
        ColumnFamilyId::DEFAULT,
        CompressionType::None,
        &CodecOptions::default(),
    )
    .unwrap();
    let mut indexes = Vec::new();
    for (key, value) in values {
        let location = builder.add(key.as_bytes(), value.as_bytes()).unwrap();
        let mut index = Vec::new();
        BlobIndex::Blob(location).append_to(&mut index);
        indexes.push(String::from_utf8(index).unwrap());
    }
    let (mut file, _) = builder.finish().unwrap();
    file.close().unwrap();
    let options = BlobSourceOptions {
        dir: dir.to_owned(),
        open_files: crate::OpenFiles::new(None),
        cache: None,
        charged_to: None,
        use_direct_reads: false,
        statistics: None,
        clock: Arc::new(esker_env::SystemClock),
    };
    let source = Arc::new(BlobSource::new(fs, options));
    Stored { reader: BlobReader { source, options: TableReadOptions::default() }, indexes }
}

#[test]
fn entities_are_made_whole() {
    let blobs = stored(&[("a", "alpha"), ("a", "aleph")]);
    let location = |i: usize| match BlobIndex::parse(blobs.indexes[i].as_bytes()).unwrap() {
        BlobIndex::Blob(location) => StoredValue::Blob(location),
        other => panic!("{other:?}"),
    };
    let columns = vec![
        (DEFAULT_COLUMN_NAME, location(0)),
        (&b"here"[..], StoredValue::Inline(b"x")),
        (b"there", location(1)),
    ];
    let mut entity = Vec::new();
    StoredColumns { columns }.append_to(&mut entity).unwrap();
    let reads = blobs.reader.reads();
    assert_eq!(reads.default_column(b"a", &entity).unwrap().unwrap(), b"alpha"[..]);
    let whole = reads.whole_entity(b"a", &entity).unwrap().unwrap();
    let whole: Vec<_> = EncodedColumns::parse(&whole).unwrap().iter().collect();
    assert_eq!(whole, [(&b""[..], &b"alpha"[..]), (b"here", b"x"), (b"there", b"aleph")]);
    // Another key's blob is no blob of this key.
    assert!(reads.default_column(b"b", &entity).unwrap_err().is_corruption());
    assert!(reads.whole_entity(b"b", &entity).unwrap_err().is_corruption());
}
