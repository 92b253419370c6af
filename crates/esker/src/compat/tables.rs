//! Features that a table's readers must support.

use super::{CompatReport, table_path};
use crate::options::Feature;
use crate::version::ListedFamily;
use esker_base::{ErrorKind, Result, ValueType, comparator};
use esker_env::FileSystem;
use esker_format::footer::{FOOTER_BYTES, Footer};
use esker_format::key::{InternalKeyComparator, ParsedInternalKey};
use esker_format::version_edit::FileMetaData;
use esker_format::wide_column::stored::may_have_blobs;
use esker_table::{TableReader, TableReaderOptions};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// Adds to `report` the needs of the table `meta` of family `listed`.
/// # Errors
/// `Corruption` or `NotSupported` naming the file · `IoError`.
pub(super) fn inspect(
    fs: &dyn FileSystem,
    dirs: &[&Path],
    listed: &ListedFamily,
    meta: &FileMetaData,
    report: &mut CompatReport,
) -> Result<()> {
    let path = table_path(fs, dirs, meta.number)?;
    let size = fs.file_size(&path)?;
    let file = fs.new_random_access_file(&path)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    report.tables += 1;

    let mut features = BTreeSet::new();
    let mut tail = vec![0; FOOTER_BYTES.min(usize::try_from(size).unwrap_or(FOOTER_BYTES))];
    file.read_at(size - tail.len() as u64, &mut tail)?;
    match Footer::parse(&tail, size).map_err(|e| e.at(path.display()))?.format_version {
        0 | 1 => {
            report.notes.push(format!("{name} has a format_version below 2: RocksDB from 11.0 on refuses it"))
        }
        6 => drop(features.insert(Feature::FormatVersion6)),
        8.. => drop(features.insert(Feature::FormatVersion8)),
        7 => drop(features.insert(Feature::FormatVersion7)),
        _ => {}
    }
    let properties = TableReader::properties_of(file.clone(), size)?;
    if properties.separate_key_value_in_data_block {
        features.insert(Feature::SeparatedValues);
    }
    if !properties.user_defined_timestamps_persisted {
        features.insert(Feature::TimestampsInMemory);
    }
    if properties.has_embedded_blobs() {
        features.insert(Feature::EmbeddedBlobs);
    }
    if properties.udi_is_primary_index {
        features.insert(Feature::UserDefinedIndex);
    } else if let Some(order) = comparator::by_name(listed.comparator.as_deref().unwrap_or(DEFAULT_ORDER)) {
        let mut options = TableReaderOptions::new(InternalKeyComparator::new(order), Arc::default(), size);
        options.file_number = meta.number;
        options.largest_seqno = Some(meta.largest_seqno);
        match TableReader::open(file, options) {
            Ok(reader) => inspect_blocks(&reader, &mut features)?,
            // The table's features are known: every reader must support them.
            Err(e) if features.contains(&Feature::EmbeddedBlobs) => report.notes.push(e.to_string()),
            // Codecs by user code: their blocks were not looked at.
            Err(e) if e.kind() == ErrorKind::NotSupported => report.notes.push(e.to_string()),
            Err(e) => return Err(e),
        }
    } else {
        let order = listed.comparator.as_deref().unwrap_or_default();
        report.notes.push(format!(
            "{name}: its comparator {order} is not known here: its entries were not looked at"
        ));
    }
    features.into_iter().for_each(|feature| report.need(feature, &name));
    Ok(())
}

/// The comparator of families whose MANIFEST names none.
const DEFAULT_ORDER: &str = "leveldb.BytewiseComparator";

fn inspect_blocks(reader: &Arc<TableReader>, features: &mut BTreeSet<Feature>) -> Result<()> {
    if reader.has_uniform_index()? {
        features.insert(Feature::UniformIndex);
    }
    reader.for_each_data_block(&mut |block| {
        block.for_each(&mut |key, value| {
            match ParsedInternalKey::parse(key)?.value_type {
                ValueType::ValuePreferredSeqno => drop(features.insert(Feature::TimedPut)),
                ValueType::WideColumnEntity if may_have_blobs(value) => {
                    features.insert(Feature::EntityBlobs);
                }
                _ => {}
            }
            Ok(())
        })
    })
}
