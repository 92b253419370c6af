//! Options as lines of the LOG, in RocksDB's format: `Options.max_open_files: -1`.
//!
//! In: option structs. Out: pairs of name and value, and their lines. The table of options makes
//! the pairs, so a new option has its line at once. Source: RocksDB `options/db_options.cc`,
//! `options/options.cc`, `table/block_based/block_based_table_factory.cc`.
//!
//! Objects show their name, or `(set)`. RocksDB shows the address of most, which would make two
//! runs of one program differ.

use super::table::OptionStruct;
use super::value::OptionValue;
use super::{
    BlockBasedTableOptions, BlockCache, CompactionFilterRef, CompressionOptions, DbOptions, DbPath,
    InplaceCallback, WriteBufferManager,
};
use crate::compaction_filter::CompactionFilterFactoryRef;
use crate::observe::EventListener;
use esker_base::logger::InfoLog;
use esker_base::stats::Statistics;
use esker_base::table_properties_collector::TablePropertiesCollectorFactoryRef;
use esker_env::{Env, RateLimiter, SstFileManager};
use esker_table::cache_options::CacheUsageOptions;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Name and value.
pub type LogLine = (String, String);

/// The lines in the LOG of an option that has no text.
pub trait ObjectLog {
    /// Appends the lines of the option called `name`; there may be none.
    fn log(&self, name: &str, lines: &mut Vec<LogLine>);
}

fn push(lines: &mut Vec<LogLine>, name: impl Into<String>, value: impl Into<String>) {
    lines.push((name.into(), value.into()));
}

/// Objects without a name.
macro_rules! presence {
    ($($ty:ty),*) => {$(
        impl ObjectLog for Option<Arc<$ty>> {
            fn log(&self, name: &str, lines: &mut Vec<LogLine>) {
                push(lines, name, if self.is_some() { "(set)" } else { "(nil)" });
            }
        }
    )*};
}
presence!(RateLimiter, Statistics, dyn InfoLog, WriteBufferManager);

impl ObjectLog for Option<Arc<SstFileManager>> {
    fn log(&self, name: &str, lines: &mut Vec<LogLine>) {
        let rate = self.as_ref().map_or(0, |manager| manager.delete_rate_bytes_per_second());
        push(lines, format!("{name}.rate_bytes_per_sec"), rate.to_string());
    }
}

/// The values of a set; RocksDB prints none.
impl<T: std::fmt::Debug> ObjectLog for BTreeSet<T> {
    fn log(&self, name: &str, lines: &mut Vec<LogLine>) {
        push(lines, name, format!("{self:?}"));
    }
}

/// One line for each directory; RocksDB has none.
impl ObjectLog for Vec<DbPath> {
    fn log(&self, name: &str, lines: &mut Vec<LogLine>) {
        for (i, DbPath { path, target_size }) in self.iter().enumerate() {
            push(lines, format!("{name}[{i}]"), format!("{} ({target_size} bytes)", path.display()));
        }
    }
}

impl ObjectLog for Option<CompactionFilterRef> {
    fn log(&self, name: &str, lines: &mut Vec<LogLine>) {
        push(lines, name, self.as_ref().map_or("None", |filter| filter.name()));
    }
}

impl ObjectLog for Option<CompactionFilterFactoryRef> {
    fn log(&self, name: &str, lines: &mut Vec<LogLine>) {
        push(lines, name, self.as_ref().map_or("None", |factory| factory.name()));
    }
}

impl ObjectLog for Vec<TablePropertiesCollectorFactoryRef> {
    fn log(&self, _name: &str, lines: &mut Vec<LogLine>) {
        let all: String = self.iter().map(|factory| factory.description() + "; ").collect();
        push(lines, "table_properties_collectors", all);
    }
}

impl ObjectLog for Option<Arc<BlockCache>> {
    fn log(&self, name: &str, lines: &mut Vec<LogLine>) {
        if name == "row_cache" {
            let capacity = self.as_ref().map(|cache| cache.capacity().to_string());
            return push(lines, name, capacity.unwrap_or_else(|| "None".to_owned()));
        }
        push(lines, name, if self.is_some() { "(set)" } else { "(nil)" });
        if let Some(cache) = self {
            push(lines, format!("{name}_name"), cache.cache_type().name());
            let strict = u8::from(cache.has_strict_capacity_limit());
            let options =
                format!("\n    capacity : {}\n    strict_capacity_limit : {strict}", cache.capacity());
            push(lines, format!("{name}_options"), options);
        }
    }
}

impl ObjectLog for u64 {
    fn log(&self, name: &str, lines: &mut Vec<LogLine>) {
        push(lines, name, self.to_string());
    }
}

impl ObjectLog for bool {
    fn log(&self, name: &str, lines: &mut Vec<LogLine>) {
        push(lines, name, u8::from(*self).to_string());
    }
}

/// Objects that have lines of their own elsewhere, or none.
macro_rules! no_lines {
    ($($ty:ty),*) => {$(
        impl ObjectLog for $ty {
            fn log(&self, _name: &str, _lines: &mut Vec<LogLine>) {}
        }
    )*};
}
no_lines!(
    Env,
    Vec<Arc<dyn EventListener>>,
    BlockBasedTableOptions,
    CacheUsageOptions,
    Vec<(String, String)>,
    Option<InplaceCallback>
);

/// The lines of a value with fields: `compression_opts.level` and so on.
pub(super) fn log_fields(name: &str, fields: &[(&str, String)], lines: &mut Vec<LogLine>) {
    lines.extend(fields.iter().map(|(field, value)| (format!("{name}.{field}"), value.clone())));
}

impl CompressionOptions {
    /// See [`log_fields`].
    pub(super) fn log_fields(&self) -> [(&'static str, String); 10] {
        [
            ("window_bits", self.window_bits.to_string()),
            ("level", self.level.to_string()),
            ("strategy", self.strategy.to_string()),
            ("max_dict_bytes", self.max_dict_bytes.to_string()),
            ("zstd_max_train_bytes", self.zstd_max_train_bytes.to_string()),
            ("use_zstd_dict_trainer", self.use_zstd_dict_trainer.to_string()),
            ("parallel_threads", self.parallel_threads.to_string()),
            ("enabled", self.enabled.to_string()),
            ("max_dict_buffer_bytes", self.max_dict_buffer_bytes.to_string()),
            ("checksum", self.checksum.to_string()),
        ]
    }
}

/// The lines of all options of a struct, in the order of declaration.
fn lines_of<T: OptionStruct>(options: &T) -> Vec<LogLine> {
    let mut lines = Vec::new();
    for option in T::all_options() {
        (option.log)(options, &mut lines);
    }
    lines
}

fn option_lines(lines: Vec<LogLine>) -> impl Iterator<Item = String> {
    lines.into_iter().map(|(name, value)| format!("{:>52}: {value}", format!("Options.{name}")))
}

impl DbOptions {
    /// Lines of the LOG: one for each option.
    pub(crate) fn log_lines(&self) -> Vec<String> {
        option_lines(lines_of(self)).collect()
    }
}

impl super::ColumnFamilyOptions {
    /// Lines of the LOG: one for each option; the options of tables share one text.
    pub(crate) fn log_lines(&self) -> Vec<String> {
        let mut table = format!("{:>52}: ", "table_factory options");
        for (name, value) in lines_of(&self.table) {
            // The options of a cache are lines of their own.
            let space = if value.starts_with('\n') { "" } else { " " };
            table.push_str(&format!("  {name}:{space}{value}\n"));
        }
        let first = format!("{:>52}: BlockBasedTable", "Options.table_factory");
        [first, table].into_iter().chain(option_lines(lines_of(self))).collect()
    }
}

/// A flag as the LOG shows it: a word for the options for which RocksDB prints one, else a number.
pub(super) fn flag(name: &str, is_set: bool) -> String {
    const SPELLED: [&str; 6] = [
        "enforce_single_del_contracts",
        "enable_blob_files",
        "enable_blob_garbage_collection",
        "cf_allow_ingest_behind",
        "memtable_batch_lookup_optimization",
        "enable_blob_direct_write",
    ];
    if SPELLED.contains(&name) { is_set.print() } else { u8::from(is_set).to_string() }
}

#[cfg(test)]
mod tests;
