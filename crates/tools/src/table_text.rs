//! A table in the text form of `sst_dump`: its properties, and all its blocks.
//!
//! Source of the form: the output of RocksDB 7.8.3's `sst_dump`. The text of the time mapping is
//! empty.

use crate::text::{hex, public_unique_id_text};
use esker::Result;
use esker::internals::base::ValueType;
use esker::internals::base::coding::put_length_prefixed;
use esker::internals::format::key::ParsedInternalKey;
use esker::internals::format::meta_index::COMPRESSION_DICT;
use esker::internals::format::properties::TableProperties;
use esker::internals::format::unique_id::unique_id;
use esker::internals::table::TableReader;
use std::fmt::Write;

/// The properties in the form of `--show_properties`: a line of dashes, then a line for each.
pub(crate) fn properties_text(reader: &TableReader, rule: &str) -> String {
    let mut text = format!("Table Properties:\n{rule}\n");
    for (name, value) in properties(reader) {
        writeln!(text, "  {name}: {value}").expect("a write to a string cannot fail");
    }
    let collected = &reader.properties().user_collected_properties;
    writeln!(text, "  Raw user collected properties\n{rule}").expect("a write to a string cannot fail");
    let mut raw: Vec<(String, String)> =
        collected.iter().map(|(name, value)| (name.escape_ascii().to_string(), hex(value))).collect();
    raw.extend(own_properties(reader.properties()));
    raw.sort();
    for (name, value) in raw {
        writeln!(text, "  # {name}: 0x{value}").expect("a write to a string cannot fail");
    }
    text
}

/// The built-in properties as one text, for a search: `NAME: VALUE`, each on a line of its own.
pub(crate) fn properties_in_one(reader: &TableReader) -> String {
    properties(reader).into_iter().map(|(name, value)| format!("{name}: {value}\n  ")).collect()
}

/// The built-in properties in the form of `ldb dump`: a line for each.
pub(crate) fn properties_lines(reader: &TableReader) -> String {
    properties(reader).into_iter().map(|(name, value)| format!("{name}={value}\n")).collect()
}

/// Built-in properties that RocksDB prints among the user's.
fn own_properties(p: &TableProperties) -> Vec<(String, String)> {
    let flag = |on: bool| hex(if on { b"1" } else { b"0" });
    let mut own = vec![
        ("rocksdb.block.based.table.prefix.filtering".to_owned(), flag(p.prefix_filtering)),
        ("rocksdb.block.based.table.whole.key.filtering".to_owned(), flag(p.whole_key_filtering)),
    ];
    if let Some(index_type) = p.index_type {
        own.push(("rocksdb.block.based.table.index.type".to_owned(), hex(&index_type.to_le_bytes())));
    }
    let mut counted = |name: &str, count: u64| {
        let mut bytes = Vec::new();
        esker::internals::base::coding::put_varint64(&mut bytes, count);
        own.push((name.to_owned(), hex(&bytes)));
    };
    counted("rocksdb.deleted.keys", p.num_deletions);
    counted("rocksdb.merge.operands", p.num_merge_operands);
    if let Some(version) = p.external_sst_file_version {
        own.push(("rocksdb.external_sst_file.version".to_owned(), hex(&version.to_le_bytes())));
    }
    if let Some(seqno) = p.external_sst_file_global_seqno {
        own.push(("rocksdb.external_sst_file.global_seqno".to_owned(), hex(&seqno.to_le_bytes())));
    }
    own
}

fn or<'a>(text: &'a str, absent: &'a str) -> String {
    if text.is_empty() { absent.to_owned() } else { text.to_owned() }
}

fn properties(reader: &TableReader) -> Vec<(String, String)> {
    let p = reader.properties();
    let average = |bytes: u64| match p.num_entries {
        0 => "0.000000".to_owned(),
        entries => format!("{:.6}", bytes as f64 / entries as f64),
    };
    let index = format!(
        "index block size (user-key? {}, delta-value? {})",
        u8::from(p.index_key_is_user_key),
        u8::from(p.index_value_is_delta_encoded)
    );
    let mut all: Vec<(&str, String)> = vec![
        ("# data blocks", p.num_data_blocks.to_string()),
        ("# entries", p.num_entries.to_string()),
        ("# deletions", p.num_deletions.to_string()),
        ("# merge operands", p.num_merge_operands.to_string()),
        ("# range deletions", p.num_range_deletions.to_string()),
        ("raw key size", p.raw_key_size.to_string()),
        ("raw average key size", average(p.raw_key_size)),
        ("raw value size", p.raw_value_size.to_string()),
        ("raw average value size", average(p.raw_value_size)),
        ("data block size", p.data_size.to_string()),
    ];
    all.push((&index, p.index_size.to_string()));
    if p.index_partitions > 0 {
        all.push(("# index partitions", p.index_partitions.to_string()));
        all.push(("top-level index size", p.top_level_index_size.to_string()));
    }
    let collectors = or(&p.property_collectors_names, "[]");
    all.extend([
        ("filter block size", p.filter_size.to_string()),
        ("# entries for filter", p.num_filter_entries.to_string()),
        ("(estimated) table size", (p.data_size + p.index_size + p.filter_size).to_string()),
        ("filter policy name", or(&p.filter_policy_name, "N/A")),
        ("prefix extractor name", or(&p.prefix_extractor_name, "N/A")),
        ("column family ID", column_family_id(p)),
        ("column family name", or(&p.column_family_name, "N/A")),
        ("comparator name", or(&p.comparator_name, "N/A")),
        ("merge operator name", or(&p.merge_operator_name, "N/A")),
        ("property collectors names", collectors),
        ("SST file compression algo", or(&p.compression_name, "N/A")),
        ("SST file compression options", or(&p.compression_options, "N/A")),
        ("creation time", p.creation_time.to_string()),
        ("time stamp of earliest key", p.oldest_key_time.to_string()),
        ("file creation time", p.file_creation_time.to_string()),
    ]);
    all.extend(creation_level(p));
    all.extend([
        ("slow compression estimated data size", p.slow_compression_estimated_data_size.to_string()),
        ("fast compression estimated data size", p.fast_compression_estimated_data_size.to_string()),
        ("DB identity", p.db_id.clone()),
        ("DB session identity", p.db_session_id.clone()),
        ("DB host id", p.db_host_id.clone()),
        ("original file number", p.orig_file_number.to_string()),
        (
            "unique ID",
            unique_id(&p.db_id, &p.db_session_id, p.orig_file_number)
                .map_or("N/A".to_owned(), public_unique_id_text),
        ),
        ("Sequence number to time mapping", String::new()),
    ]);
    all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The level for which a table was made, if the table records it: RocksDB does so from 11.10 on.
fn creation_level(p: &TableProperties) -> Vec<(&'static str, String)> {
    let (level, bottommost) = match (p.lsm_info_at_creation >> 8 & 3, p.lsm_info_at_creation & 0xFF) {
        (0, _) => return Vec::new(),
        (3, _) => ("N/A".to_owned(), "N/A"),
        (kind, level) => {
            let level = if level == 0xFF { "unknown".to_owned() } else { level.to_string() };
            (level, if kind == 2 { "true" } else { "false" })
        }
    };
    vec![("level at creation", level), ("bottommost at creation", bottommost.to_owned())]
}

fn column_family_id(p: &TableProperties) -> String {
    match p.column_family_id {
        esker::internals::format::properties::UNKNOWN_COLUMN_FAMILY => "N/A".to_owned(),
        id => id.to_string(),
    }
}

const RULE: &str = "--------------------------------------";

/// The whole table in the form of `--command=raw`, with `--show_sequence_number_type` or without.
pub(crate) fn append_raw_dump(
    reader: &TableReader,
    with_sequence_and_type: bool,
    out: &mut Vec<u8>,
) -> Result<()> {
    out.extend_from_slice(footer_text(reader).as_bytes());
    let mut text = format!("Table Properties:\n{RULE}\n");
    for (name, value) in properties(reader) {
        writeln!(text, "  {name}: {value}").expect("a write to a string cannot fail");
    }
    writeln!(text, "  \nIndex Details:\n{RULE}").expect("a write to a string cannot fail");
    text.push_str("  Block key hex dump: Data block handle\n  Block key ascii\n\n");
    out.extend_from_slice(text.as_bytes());
    append_index(reader, out)?;
    append_dictionary(reader, out)?;
    append_range_deletions(reader, with_sequence_and_type, out);
    append_blocks(reader, with_sequence_and_type, out)
}

fn footer_text(reader: &TableReader) -> String {
    let encode = |handle: esker::internals::format::handle::BlockHandle| {
        let mut bytes = Vec::new();
        handle.encode(&mut bytes);
        hex(&bytes)
    };
    let footer = reader.footer();
    let mut text = format!("Footer Details:\n{RULE}\n  metaindex handle: {}\n", encode(footer.meta_index));
    if let Some(index) = footer.index {
        writeln!(text, "  index handle: {}", encode(index)).expect("a write to a string cannot fail");
    }
    writeln!(
        text,
        "  table_magic_number: 9863518390377041911\n  format version: {}\n  ",
        footer.format_version
    )
    .expect("a write to a string cannot fail");
    writeln!(text, "Metaindex Details:\n{RULE}").expect("a write to a string cannot fail");
    for (name, handle) in reader.meta_index().iter() {
        let title = match name {
            b"rocksdb.properties" => "Properties block handle".to_owned(),
            b"rocksdb.compression_dict" => "Compression dictionary block handle".to_owned(),
            b"rocksdb.range_del" => "Range deletion block handle".to_owned(),
            _ if name.starts_with(b"fullfilter.") || name.starts_with(b"partitionedfilter.") => {
                "Filter block handle".to_owned()
            }
            _ => continue,
        };
        writeln!(text, "  {title}: {}", encode(handle)).expect("a write to a string cannot fail");
    }
    text.push('\n');
    text
}

fn append_index(reader: &TableReader, out: &mut Vec<u8>) -> Result<()> {
    let is_user_key = reader.index_shape().key_is_user_key;
    reader.for_each_data_block(&mut |block| {
        let key = if is_user_key {
            block.separator
        } else {
            esker::internals::format::key::user_key(block.separator)
        };
        let mut value = Vec::new();
        block.handle.encode(&mut value);
        if let Some(first_key) = block.first_key {
            put_length_prefixed(&mut value, first_key);
        }
        out.extend_from_slice(format!("  HEX    {}: {}\n  ASCII  ", hex(key), hex(&value)).as_bytes());
        // Unlike in entries, zero bytes are printed as they are.
        key.iter().for_each(|byte| out.extend_from_slice(&[*byte, b' ']));
        out.extend_from_slice(b"\n  ------\n");
        Ok(())
    })?;
    out.push(b'\n');
    Ok(())
}

fn append_dictionary(reader: &TableReader, out: &mut Vec<u8>) -> Result<()> {
    let Some(handle) = reader.meta_index().find(COMPRESSION_DICT) else { return Ok(()) };
    let dictionary = reader.block_contents(handle)?;
    let (bytes, dictionary) = (dictionary.len(), hex(&dictionary));
    let text =
        format!("Compression Dictionary:\n{RULE}\n  size (bytes): {bytes}\n\n  HEX    {dictionary}\n\n");
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

/// Appends each fragment of the range tombstones, once for each of its sequence numbers.
fn append_range_deletions(reader: &TableReader, with_sequence_and_type: bool, out: &mut Vec<u8>) {
    let Some(tombstones) = reader.range_dels() else { return };
    out.extend_from_slice(format!("Range deletions:\n{RULE}\n").as_bytes());
    for i in 0..tombstones.len() {
        let fragment = tombstones.fragment(i);
        for sequence in tombstones.sequences(i) {
            let shown = with_sequence_and_type.then_some((sequence.0, ValueType::RangeDeletion));
            append_pair((fragment.start, shown), fragment.end, out);
        }
    }
    out.push(b'\n');
}

/// Appends key and value twice: as hexadecimal digits, perhaps with sequence number and type, and
/// as raw bytes.
fn append_pair((key, shown): (&[u8], Option<(u64, ValueType)>), value: &[u8], out: &mut Vec<u8>) {
    let shown = shown.map(|(sequence, kind)| format!("  seq: {sequence}  type: {} ", kind as u8));
    let shown = shown.unwrap_or_default();
    out.extend_from_slice(format!("  HEX    {}{shown}: {}\n  ASCII  ", hex(key), hex(value)).as_bytes());
    append_spaced(key, out);
    out.extend_from_slice(b": ");
    append_spaced(value, out);
    out.extend_from_slice(b"\n  ------\n");
}

fn append_blocks(reader: &TableReader, with_sequence_and_type: bool, out: &mut Vec<u8>) -> Result<()> {
    let mut sizes = Vec::new();
    reader.for_each_data_block(&mut |block| {
        sizes.push(block.handle.size);
        let mut handle = Vec::new();
        block.handle.encode(&mut handle);
        out.extend_from_slice(
            format!("Data Block # {} @ {}\n{RULE}\n", sizes.len(), hex(&handle)).as_bytes(),
        );
        block.for_each(&mut |key, value| {
            let Ok(parsed) = ParsedInternalKey::parse(key) else {
                out.extend_from_slice(b"Error parsing internal key - Skipped \n");
                return Ok(());
            };
            let shown = with_sequence_and_type.then_some((parsed.sequence.0, parsed.value_type));
            append_pair((parsed.user_key, shown), value, out);
            Ok(())
        })?;
        out.push(b'\n');
        Ok(())
    })?;
    if sizes.is_empty() {
        return Ok(());
    }
    let (least, most) = (sizes.iter().min().unwrap_or(&0), sizes.iter().max().unwrap_or(&0));
    let summary = format!(
        "Data Block Summary:\n{RULE}\n  # data blocks: {}\n  min data block size: {least}\n  max data block size: \
         {most}\n  avg data block size: {:.6}\n",
        sizes.len(),
        sizes.iter().sum::<u64>() as f64 / sizes.len().max(1) as f64
    );
    out.extend_from_slice(summary.as_bytes());
    Ok(())
}

/// Appends each byte and a space. A zero byte becomes `\0`.
fn append_spaced(bytes: &[u8], out: &mut Vec<u8>) {
    for byte in bytes {
        match byte {
            0 => out.extend_from_slice(b"\\0"),
            byte => out.push(*byte),
        }
        out.push(b' ');
    }
}
