//! Options of the compaction styles other than leveled: RocksDB's `CompactionOptionsUniversal`,
//! `CompactionOptionsFIFO`.
//!
//! Source of names, defaults and text forms: RocksDB `include/rocksdb/universal_compaction.h`,
//! `include/rocksdb/advanced_options.h`, `options/cf_options.cc`.

use super::hints::Temperature;
use super::log::{LogLine, log_fields};
use super::value::{OptionValue, no_such_field, option_enum, split_map};
use esker_base::Result;
use esker_format::options_file::split_list;

option_enum! {
    /// The rule by which universal compaction stops adding runs to the picked ones.
    #[derive(Default)]
    pub enum CompactionStopStyle {
        /// Stops when the next run has no similar size.
        SimilarSize = 0, "kCompactionStopStyleSimilarSize";
        /// Stops when the next run is larger than all picked runs together.
        #[default]
        TotalSize = 1, "kCompactionStopStyleTotalSize";
    }
}

/// Options of universal compaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CompactionOptionsUniversal {
    /// Percent by which the next run may exceed the picked runs and still be picked. Default
    /// 1.
    pub size_ratio: u32,
    /// Runs merged at once, at least. Default 2.
    pub min_merge_width: u32,
    /// Runs merged at once, at most. Default: all.
    pub max_merge_width: u32,
    /// Bytes of all newer runs, in percent of the oldest run's bytes, at which all runs are merged.
    /// Default 200.
    pub max_size_amplification_percent: u32,
    /// An output is compressed if the runs older than it hold less than this percentage of all
    /// bytes; -1: always. Default -1.
    pub compression_size_percent: i32,
    /// Most runs that may exist; -1: `level0_file_num_compaction_trigger`; 0: derived from the
    /// runs' sizes. Default -1.
    pub max_read_amp: i32,
    /// The rule that stops the adding of runs. Default `TotalSize`.
    pub stop_style: CompactionStopStyle,
    /// Move files that do not overlap each other without rewriting them. Default false.
    pub allow_trivial_move: bool,
    /// Reduce size amplification in parts of about `max_compaction_bytes`: a part of the newer of
    /// the two oldest runs is merged into the oldest. A run in level 0 is merged whole. Default
    /// false.
    pub incremental: bool,
    /// Lock fewer files while a compaction waits. Accepted without effect: a waiting compaction
    /// locks none. Default true.
    pub reduce_file_locking: bool,
}

impl Default for CompactionOptionsUniversal {
    fn default() -> CompactionOptionsUniversal {
        CompactionOptionsUniversal {
            size_ratio: 1,
            min_merge_width: 2,
            max_merge_width: u32::MAX,
            max_size_amplification_percent: 200,
            compression_size_percent: -1,
            max_read_amp: -1,
            stop_style: CompactionStopStyle::TotalSize,
            allow_trivial_move: false,
            incremental: false,
            reduce_file_locking: true,
        }
    }
}

esker_base::setters! {
    CompactionOptionsUniversal {
        size_ratio: u32;
        min_merge_width: u32;
        max_merge_width: u32;
        max_size_amplification_percent: u32;
        compression_size_percent: i32;
        max_read_amp: i32;
        stop_style: CompactionStopStyle;
        allow_trivial_move: bool;
        incremental: bool;
        reduce_file_locking: bool;
    }
}

/// A temperature that tables get at an age.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FileTemperatureAge {
    /// The temperature.
    pub temperature: Temperature,
    /// Seconds since the newest key of the table was written.
    pub age: u64,
}

/// Options of FIFO compaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompactionOptionsFifo {
    /// Bytes of all tables at which the oldest are deleted. Default 1 GiB.
    pub max_table_files_size: u64,
    /// Merge small files of level 0. Default false.
    pub allow_compaction: bool,
    /// Bytes of all tables and blob files at which the oldest tables are deleted, with the blob
    /// files that only those tables refer to. If set, `max_table_files_size` is ignored. Not saved
    /// in OPTIONS files, as RocksDB 7.8 does not know it. Default 0: blob files do not count.
    pub max_data_files_size: u64,
    /// With `allow_compaction` and `max_data_files_size`: merge files of level 0 step by step. The
    /// largest merged file has a size of which `level0_file_num_compaction_trigger` files, with
    /// their blobs, fill `max_data_files_size`. Not saved in OPTIONS files. Default false.
    pub use_kv_ratio_compaction: bool,
    /// Ages at which tables get other temperatures, in increasing order; only with one level. A
    /// change of temperature is an edit of the MANIFEST. As soon as some age is set, each look for
    /// a compaction visits the family's tables. Not saved in OPTIONS files. Default: none.
    pub file_temperature_age_thresholds: Vec<FileTemperatureAge>,
}

impl Default for CompactionOptionsFifo {
    fn default() -> CompactionOptionsFifo {
        CompactionOptionsFifo {
            max_table_files_size: 1 << 30,
            allow_compaction: false,
            max_data_files_size: 0,
            use_kv_ratio_compaction: false,
            file_temperature_age_thresholds: Vec::new(),
        }
    }
}

esker_base::setters! {
    CompactionOptionsFifo {
        max_table_files_size: u64;
        allow_compaction: bool;
        max_data_files_size: u64;
        use_kv_ratio_compaction: bool;
        file_temperature_age_thresholds: Vec<FileTemperatureAge>;
    }
}

/// Sets fields of a copy of `current` by name, and returns it.
fn updated<T: Clone>(current: &T, text: &str, set: fn(&mut T, &str, &str) -> Result<()>) -> Result<T> {
    let mut changed = current.clone();
    for (name, value) in split_map(text)? {
        set(&mut changed, name, value).map_err(|e| e.at(name))?;
    }
    Ok(changed)
}

fn set_universal(o: &mut CompactionOptionsUniversal, name: &str, text: &str) -> Result<()> {
    match name {
        "size_ratio" => o.size_ratio = OptionValue::parse(text)?,
        "min_merge_width" => o.min_merge_width = OptionValue::parse(text)?,
        "max_merge_width" => o.max_merge_width = OptionValue::parse(text)?,
        "max_size_amplification_percent" => o.max_size_amplification_percent = OptionValue::parse(text)?,
        "compression_size_percent" => o.compression_size_percent = OptionValue::parse(text)?,
        "max_read_amp" => o.max_read_amp = OptionValue::parse(text)?,
        "stop_style" => o.stop_style = OptionValue::parse(text)?,
        "allow_trivial_move" => o.allow_trivial_move = OptionValue::parse(text)?,
        "incremental" => o.incremental = OptionValue::parse(text)?,
        "reduce_file_locking" => o.reduce_file_locking = OptionValue::parse(text)?,
        _ => return Err(no_such_field("universal compaction")),
    }
    Ok(())
}

impl OptionValue for CompactionOptionsUniversal {
    fn parse(text: &str) -> Result<Self> {
        updated(&Self::default(), text, set_universal)
    }
    fn update(&mut self, text: &str) -> Result<()> {
        *self = updated(self, text, set_universal)?;
        Ok(())
    }
    fn log(&self, name: &str, lines: &mut Vec<LogLine>) {
        let fields = [
            ("size_ratio", self.size_ratio.to_string()),
            ("min_merge_width", self.min_merge_width.to_string()),
            ("max_merge_width", self.max_merge_width.to_string()),
            ("max_size_amplification_percent", self.max_size_amplification_percent.to_string()),
            ("compression_size_percent", self.compression_size_percent.to_string()),
            ("stop_style", self.stop_style.print()),
            ("max_read_amp", self.max_read_amp.to_string()),
            ("allow_trivial_move", u8::from(self.allow_trivial_move).to_string()),
            ("incremental", u8::from(self.incremental).to_string()),
            ("reduce_file_locking", u8::from(self.reduce_file_locking).to_string()),
        ];
        log_fields(name, &fields, lines);
    }
    /// Prints only names that RocksDB 7.8 also knows.
    fn print(&self) -> String {
        format!(
            "{{allow_trivial_move={};compression_size_percent={};incremental={};max_merge_width={};\
             max_size_amplification_percent={};min_merge_width={};size_ratio={};stop_style={};}}",
            self.allow_trivial_move,
            self.compression_size_percent,
            self.incremental,
            self.max_merge_width,
            self.max_size_amplification_percent,
            self.min_merge_width,
            self.size_ratio,
            self.stop_style.as_str(),
        )
    }
}

fn set_fifo(o: &mut CompactionOptionsFifo, name: &str, text: &str) -> Result<()> {
    match name {
        "max_table_files_size" => o.max_table_files_size = OptionValue::parse(text)?,
        "allow_compaction" => o.allow_compaction = OptionValue::parse(text)?,
        "max_data_files_size" => o.max_data_files_size = OptionValue::parse(text)?,
        "use_kv_ratio_compaction" => o.use_kv_ratio_compaction = OptionValue::parse(text)?,
        "file_temperature_age_thresholds" => o.file_temperature_age_thresholds = temperature_ages(text)?,
        // In Esker `ttl` is an option of the family, and a change of temperature copies nothing.
        // RocksDB ignores `age_for_warm`, too.
        "ttl"
        | "age_for_warm"
        | "allow_trivial_copy_when_change_temperature"
        | "trivial_copy_buffer_size" => {}
        _ => return Err(no_such_field("FIFO compaction")),
    }
    Ok(())
}

/// Parses `{{temperature=kWarm;age=60}:{temperature=kCold;age=3600}}`, with or without the outer
/// braces.
fn temperature_ages(text: &str) -> Result<Vec<FileTemperatureAge>> {
    let text = text.trim();
    let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    let list = inner.filter(|inner| inner.is_empty() || inner.trim_start().starts_with('{')).unwrap_or(text);
    split_list(list, ':')?.into_iter().map(temperature_age).collect()
}

fn temperature_age(text: &str) -> Result<FileTemperatureAge> {
    updated(&FileTemperatureAge::default(), text, |pair, name, text| {
        match name {
            "temperature" => pair.temperature = OptionValue::parse(text)?,
            "age" => pair.age = OptionValue::parse(text)?,
            _ => return Err(no_such_field("file_temperature_age_thresholds")),
        }
        Ok(())
    })
}

impl OptionValue for CompactionOptionsFifo {
    fn parse(text: &str) -> Result<Self> {
        updated(&Self::default(), text, set_fifo)
    }
    fn update(&mut self, text: &str) -> Result<()> {
        *self = updated(self, text, set_fifo)?;
        Ok(())
    }
    fn log(&self, name: &str, lines: &mut Vec<LogLine>) {
        let fields = [
            ("max_table_files_size", self.max_table_files_size.to_string()),
            ("allow_compaction", u8::from(self.allow_compaction).to_string()),
        ];
        log_fields(name, &fields, lines);
    }
    /// Prints only names that RocksDB 7.8 also knows.
    fn print(&self) -> String {
        format!(
            "{{allow_compaction={};max_table_files_size={};}}",
            self.allow_compaction, self.max_table_files_size
        )
    }
}
