//! Text form of `compression_opts`: `{window_bits=-14;level=32767;…}`, or the old `-14:32767:0:0`.
//!
//! Source: RocksDB `options/cf_options.cc`.

use super::cf::CompressionOptions;
use super::log::{LogLine, log_fields};
use super::value::{OptionValue, no_such_field, split_map};
use esker_base::Result;

impl CompressionOptions {
    fn set(&mut self, name: &str, text: &str) -> Result<()> {
        match name {
            "window_bits" => self.window_bits = OptionValue::parse(text)?,
            "level" => self.level = OptionValue::parse(text)?,
            "strategy" => self.strategy = OptionValue::parse(text)?,
            "max_dict_bytes" => self.max_dict_bytes = OptionValue::parse(text)?,
            "zstd_max_train_bytes" => self.zstd_max_train_bytes = OptionValue::parse(text)?,
            "use_zstd_dict_trainer" => self.use_zstd_dict_trainer = OptionValue::parse(text)?,
            "max_dict_buffer_bytes" => self.max_dict_buffer_bytes = OptionValue::parse(text)?,
            "parallel_threads" => self.parallel_threads = OptionValue::parse(text)?,
            "enabled" => self.enabled = OptionValue::parse(text)?,
            "max_compressed_bytes_per_kb" => self.max_compressed_bytes_per_kb = OptionValue::parse(text)?,
            "checksum" => self.checksum = OptionValue::parse(text)?,
            "auto_skip" => self.auto_skip = OptionValue::parse(text)?,
            "auto_skip_min_sample_every" => self.auto_skip_min_sample_every = OptionValue::parse(text)?,
            _ => return Err(no_such_field("compression")),
        }
        Ok(())
    }

    /// The positional form of old versions; missing fields keep their defaults.
    fn parse_positional(text: &str) -> Result<CompressionOptions> {
        const NAMES: [&str; 7] = [
            "window_bits",
            "level",
            "strategy",
            "max_dict_bytes",
            "zstd_max_train_bytes",
            "parallel_threads",
            "enabled",
        ];
        let mut options = CompressionOptions::default();
        let parts: Vec<&str> = text.split(':').collect();
        // With six fields, the sixth is `enabled`: `parallel_threads` was added later, before it.
        let enabled_is_sixth = parts.len() == 6;
        for (i, (name, part)) in NAMES.iter().zip(&parts).enumerate() {
            let name = if enabled_is_sixth && i == 5 { "enabled" } else { name };
            options.set(name, part).map_err(|e| e.at(name))?;
        }
        Ok(options)
    }
}

impl OptionValue for CompressionOptions {
    fn parse(text: &str) -> Result<CompressionOptions> {
        let mut options = CompressionOptions::default();
        options.update(text)?;
        Ok(options)
    }

    fn update(&mut self, text: &str) -> Result<()> {
        if !text.contains('=') && text.contains(':') {
            *self = CompressionOptions::parse_positional(text.trim())?;
            return Ok(());
        }
        let mut options = *self;
        for (name, value) in split_map(text)? {
            options.set(name, value).map_err(|e| e.at(name))?;
        }
        *self = options;
        Ok(())
    }

    fn log(&self, name: &str, lines: &mut Vec<LogLine>) {
        log_fields(name, &self.log_fields(), lines);
    }

    /// Prints only names that RocksDB 7.8 also knows, and those of `auto_skip` if they are set.
    fn print(&self) -> String {
        let mut newer = String::new();
        if self.auto_skip || self.auto_skip_min_sample_every != 0 {
            let every = self.auto_skip_min_sample_every;
            newer = format!("auto_skip={};auto_skip_min_sample_every={every};", self.auto_skip);
        }
        format!(
            "{{max_dict_bytes={};zstd_max_train_bytes={};max_dict_buffer_bytes={};use_zstd_dict_trainer={};\
             enabled={};parallel_threads={};strategy={};level={};window_bits={};{newer}}}",
            self.max_dict_bytes,
            self.zstd_max_train_bytes,
            self.max_dict_buffer_bytes,
            self.use_zstd_dict_trainer,
            self.enabled,
            self.parallel_threads,
            self.strategy,
            self.level,
            self.window_bits,
        )
    }
}
