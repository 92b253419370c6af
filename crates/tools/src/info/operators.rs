//! The operators of a family: the code that its data needs, and the form of its tables.
//!
//! In: the MANIFEST's comparator, the OPTIONS file, the properties of the tables. Out:
//! [`OperatorsInfo`]. Where both say something, the OPTIONS file counts: tables may be older.

use super::model::OperatorsInfo;
use crate::manifest::ManifestFamily;
use esker::options::OptionStruct;
use esker::{ColumnFamilyOptions, TableProperties};
use std::collections::BTreeSet;

/// The names in the properties of a family's tables.
#[derive(Default)]
pub(super) struct OfTables {
    format_versions: BTreeSet<u32>,
    filters: BTreeSet<String>,
    merge_operators: BTreeSet<String>,
    prefix_extractors: BTreeSet<String>,
}

impl OfTables {
    pub(super) fn add(&mut self, format_version: u32, properties: &TableProperties) {
        self.format_versions.insert(format_version);
        let add = |names: &mut BTreeSet<String>, name: &str| {
            if is_name(name) {
                names.insert(name.to_owned());
            }
        };
        add(&mut self.filters, &properties.filter_policy_name);
        add(&mut self.merge_operators, &properties.merge_operator_name);
        add(&mut self.prefix_extractors, &properties.prefix_extractor_name);
    }
}

/// Whether the text names an object.
fn is_name(text: &str) -> bool {
    !matches!(text, "" | "nullptr" | "none")
}

/// The names of a set, or `None` for an empty set.
fn joined(names: BTreeSet<String>) -> Option<String> {
    (!names.is_empty()).then(|| names.into_iter().collect::<Vec<_>>().join(", "))
}

pub(super) fn describe(
    family: &ManifestFamily,
    options: Option<&ColumnFamilyOptions>,
    tables: OfTables,
) -> OperatorsInfo {
    let named = |name: &str| {
        let text = options?.text_of(name)?;
        is_name(&text).then_some(text)
    };
    let default = "leveldb.BytewiseComparator";
    OperatorsInfo {
        comparator: family.comparator.clone().unwrap_or_else(|| default.to_owned()),
        comparator_is_known: family.comparator().is_some(),
        merge_operator: named("merge_operator").or_else(|| joined(tables.merge_operators)),
        prefix_extractor: named("prefix_extractor").or_else(|| joined(tables.prefix_extractors)),
        filter_policy: options.and_then(|o| o.table.text_of("filter_policy")).filter(|text| is_name(text)),
        table_filters: tables.filters.into_iter().collect(),
        compaction_style: named("compaction_style").map(|text| short(&text, "kCompactionStyle", "")),
        compression_by_level: options.map(compression_by_level),
        format_versions: tables.format_versions.into_iter().collect(),
    }
}

/// A value of RocksDB's enumerations without the parts that all values have.
fn short(value: &str, before: &str, behind: &str) -> String {
    let value = value.strip_prefix(before).unwrap_or(value);
    value.strip_suffix(behind).unwrap_or(value).to_owned()
}

/// The compression of each level's new tables, with equal neighbours joined.
fn compression_by_level(options: &ColumnFamilyOptions) -> String {
    const MOST_LEVELS: usize = 64;
    let levels = usize::try_from(options.num_levels).unwrap_or(1).clamp(1, MOST_LEVELS);
    let of_level = |level: usize| {
        let listed = options.compression_per_level.get(level).or(options.compression_per_level.last());
        let bottommost = options.bottommost_compression.filter(|_| level > 0 && level + 1 == levels);
        *bottommost.as_ref().or(listed).unwrap_or(&options.compression)
    };
    let mut parts: Vec<(usize, usize, &str)> = Vec::new();
    for level in 0..levels {
        let name = of_level(level).option_name();
        match parts.last_mut() {
            Some((_, last, of_last)) if *of_last == name => *last = level,
            _ => parts.push((level, level, name)),
        }
    }
    let text = |(first, last, name): &(usize, usize, &str)| {
        let name = short(name, "k", "Compression");
        let name = if name == "No" { "none" } else { &name };
        if first == last { format!("L{first} {name}") } else { format!("L{first}-L{last} {name}") }
    };
    parts.iter().map(text).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker::options::CompressionType;

    #[test]
    fn levels_with_the_same_compression_are_joined() {
        let mut options = ColumnFamilyOptions::default().compression(CompressionType::None);
        assert_eq!(compression_by_level(&options), "L0-L6 none");
        options.compression_per_level =
            vec![CompressionType::None, CompressionType::None, CompressionType::Lz4];
        options.bottommost_compression = Some(CompressionType::Zstd);
        assert_eq!(compression_by_level(&options), "L0-L1 none, L2-L5 LZ4, L6 ZSTD");
    }
}
