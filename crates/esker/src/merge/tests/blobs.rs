//! A blob file in memory, for scripts.

use esker_base::sync::Arc;
use esker_base::{ColumnFamilyId, FileNumber};
use esker_env::{FileSystem, MemFs};
use esker_format::blob::BlobIndex;
use esker_format::compression::{CodecOptions, CompressionType};
use esker_format::file_name::blob_file_name;
use esker_table::TableReadOptions;
use esker_table::blob::{BlobFileBuilder, BlobReader, BlobSource, BlobSourceOptions};
use std::path::Path;

/// A blob file in memory.
pub(crate) struct Stored {
    pub(crate) reader: BlobReader,
    /// Blob indexes of the values, in order, as text for scripts: two small values at most.
    pub(crate) indexes: Vec<String>,
}

/// A blob file, number 12, with these values.
pub(crate) fn stored(values: &[(&str, &str)]) -> Stored {
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
        open_files: esker_table::OpenFiles::new(None),
        cache: None,
        charged_to: None,
        use_direct_reads: false,
        statistics: None,
        clock: Arc::new(esker_env::SystemClock),
    };
    let source = Arc::new(BlobSource::new(fs, options));
    Stored { reader: BlobReader { source, options: TableReadOptions::default() }, indexes }
}
