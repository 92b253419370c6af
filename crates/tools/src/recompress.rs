//! `esker sst_dump --command=recompress`: the size of a table under other codecs and levels.
//!
//! In: a table. Out: a line for each codec and level, in the form of RocksDB 7.8.3's tool. Each
//! table is written in memory; no file changes.

use crate::failure::{CommandOutcome, Failure};
use clap::Args;
use esker::Result;
use esker::internals::base::stats::{Statistics, Ticker};
use esker::internals::env::{FileSystem, MemFs};
use esker::internals::format::compression::{CodecOptions, CompressionType, Compressor};
use esker::internals::format::cursor::InternalIterator;
use esker::internals::table::{
    BlockBasedTableOptions, TableBuilder, TableBuilderOptions, TableReadOptions, TableReader,
};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// RocksDB's block size for this command.
const BLOCK_BYTES: usize = 16_384;

#[derive(Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct RecompressFlags {
    /// With --command=recompress: bytes of a block; default 16384
    #[arg(long, alias = "block_size")]
    set_block_size: Option<usize>,
    /// With --command=recompress: codecs, separated by commas, as kZSTD; default: all
    #[arg(long, value_delimiter = ',')]
    compression_types: Vec<String>,
    /// With --command=recompress and one codec: the level
    #[arg(
        long,
        allow_negative_numbers = true,
        conflicts_with_all = ["compression_level_from", "compression_level_to"]
    )]
    compression_level: Option<i32>,
    /// With --command=recompress and one codec: first level
    #[arg(long, requires = "compression_level_to", allow_negative_numbers = true)]
    compression_level_from: Option<i32>,
    /// With --command=recompress and one codec: last level
    #[arg(long, requires = "compression_level_from", allow_negative_numbers = true)]
    compression_level_to: Option<i32>,
    /// With --command=recompress: most bytes of a dictionary
    #[arg(long)]
    compression_max_dict_bytes: Option<u32>,
    /// With --command=recompress: bytes of samples from which zstd trains the dictionary
    #[arg(long)]
    compression_zstd_max_train_bytes: Option<u32>,
    /// With --command=recompress: bytes of a table to take samples from
    #[arg(long)]
    compression_max_dict_buffer_bytes: Option<u64>,
    /// With --command=recompress: samples are the dictionary; zstd's trainer makes none
    #[arg(long)]
    compression_use_zstd_finalize_dict: bool,
    /// With --command=recompress: accepted for scripts; has no effect: one thread compresses
    #[arg(long, value_parser = clap::value_parser!(u32).range(..=100))]
    compression_parallel_threads: Option<u32>,
    /// With --command=recompress: whether index blocks are compressed; default true
    #[arg(long, value_parser = parse_bool)]
    enable_index_compression: Option<bool>,
    /// With --command=recompress: whether each compressed block is decompressed and compared;
    /// default false
    #[arg(long, value_parser = parse_bool)]
    verify_compression: Option<bool>,
}

/// As RocksDB's tool reads a bool, but a text that is none is an error.
fn parse_bool(text: &str) -> std::result::Result<bool, String> {
    match text.as_bytes().first() {
        Some(b'1' | b't' | b'T') => Ok(true),
        Some(b'0' | b'f' | b'F') => Ok(false),
        _ => Err(format!("'{text}' is neither true nor false")),
    }
}

/// The codecs and options to try.
pub(crate) struct Trials {
    codecs: Vec<CompressionType>,
    levels: std::ops::RangeInclusive<i32>,
    codec_options: CodecOptions,
    layout: Arc<BlockBasedTableOptions>,
}

impl RecompressFlags {
    /// The name of a flag that is given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let given = [
            ("--set_block_size", self.set_block_size.is_some()),
            ("--compression_types", !self.compression_types.is_empty()),
            ("--compression_level_from", self.compression_level_from.is_some()),
            ("--compression_max_dict_bytes", self.compression_max_dict_bytes.is_some()),
            ("--compression_zstd_max_train_bytes", self.compression_zstd_max_train_bytes.is_some()),
            ("--compression_max_dict_buffer_bytes", self.compression_max_dict_buffer_bytes.is_some()),
            ("--compression_level", self.compression_level.is_some()),
            ("--compression_use_zstd_finalize_dict", self.compression_use_zstd_finalize_dict),
            ("--compression_parallel_threads", self.compression_parallel_threads.is_some()),
            ("--enable_index_compression", self.enable_index_compression.is_some()),
            ("--verify_compression", self.verify_compression.is_some()),
        ];
        given.iter().find(|(_, given)| *given).map(|(name, _)| *name)
    }

    /// The trials for which the flags ask.
    /// # Errors
    /// Unknown codecs, several codecs with levels, levels out of order, blocks of no bytes.
    pub(crate) fn trials(&self) -> CommandOutcome<Trials> {
        let codec = |name: &String| {
            let unknown = || Failure::new(format_args!("{name} is not a valid CompressionType"));
            CompressionType::from_option_name(name).filter(|codec| is_codec(*codec)).ok_or_else(unknown)
        };
        let mut codecs = self.compression_types.iter().map(codec).collect::<CommandOutcome<Vec<_>>>()?;
        let bound = |level: Option<i32>| level.or(self.compression_level);
        let levels = match (bound(self.compression_level_from), bound(self.compression_level_to)) {
            (Some(from), Some(to)) if from > to => {
                return Err(Failure::new("--compression_level_from is above --compression_level_to"));
            }
            (Some(_), Some(_)) if codecs.len() != 1 => {
                return Err(Failure::new("--compression_types: Specify one compression type."));
            }
            (Some(from), Some(to)) => from..=to,
            _ => CodecOptions::DEFAULT_LEVEL..=CodecOptions::DEFAULT_LEVEL,
        };
        if codecs.is_empty() {
            codecs = CompressionType::ALL.into_iter().filter(|codec| is_codec(*codec)).collect();
        }
        let block_size = self.set_block_size.unwrap_or(BLOCK_BYTES);
        if block_size == 0 {
            return Err(Failure::new("--set_block_size must not be 0"));
        }
        let codec_options = CodecOptions {
            max_dict_bytes: self.compression_max_dict_bytes.unwrap_or(0),
            zstd_max_train_bytes: match self.compression_use_zstd_finalize_dict {
                true => 0,
                false => self.compression_zstd_max_train_bytes.unwrap_or(0),
            },
            max_dict_buffer_bytes: self.compression_max_dict_buffer_bytes.unwrap_or(0),
            ..CodecOptions::default()
        };
        let default = BlockBasedTableOptions::default();
        let layout = Arc::new(BlockBasedTableOptions {
            block_size,
            enable_index_compression: self
                .enable_index_compression
                .unwrap_or(default.enable_index_compression),
            verify_compression: self.verify_compression.unwrap_or(default.verify_compression),
            ..default
        });
        Ok(Trials { codecs, levels, codec_options, layout })
    }
}

/// Whether it is a codec, and not a word of options.
fn is_codec(kind: CompressionType) -> bool {
    !matches!(kind, CompressionType::DisableOption | CompressionType::ZstdNotFinal)
}

impl Trials {
    /// The number of times that the table is read.
    pub(crate) fn count(&self) -> u64 {
        self.codecs.len() as u64 * self.levels.clone().count() as u64
    }

    /// Prints the sizes of the table that `reader` reads. Costs a write of the table in memory for
    /// each codec and level.
    /// # Errors
    /// The outer one is the output's; the inner ones are those of the table.
    pub(crate) fn print(&self, reader: &Arc<TableReader>, out: &mut dyn Write) -> CommandOutcome<Result<()>> {
        writeln!(out, "Block Size: {}", self.layout.block_size)?;
        for codec in &self.codecs {
            let name = codec.option_name();
            if *codec != CompressionType::None && Compressor::new(*codec, &self.codec_options).is_err() {
                writeln!(out, "Unsupported compression type: {name}.")?;
                continue;
            }
            writeln!(out, "Compression: {name:<24}")?;
            for level in self.levels.clone() {
                match self.measure(reader, *codec, level) {
                    Ok(line) => writeln!(out, "Compression level: {level} {line}")?,
                    Err(error) => return Ok(Err(error)),
                }
            }
        }
        Ok(Ok(()))
    }

    fn measure(&self, reader: &Arc<TableReader>, codec: CompressionType, level: i32) -> Result<String> {
        let statistics = Arc::new(Statistics::new());
        let mut options = TableBuilderOptions::new(reader.icmp().clone(), self.layout.clone());
        options.compression = codec;
        options.compression_opts = CodecOptions { level, ..self.codec_options };
        options.statistics = Some(statistics.clone());
        let clock = esker::Env::default().clock;
        let start = clock.monotonic_micros();
        let file = MemFs::new().new_writable_file(Path::new("/recompressed.sst"))?;
        let mut builder = TableBuilder::new(options, file)?;
        let mut iter = reader.iter(TableReadOptions { fill_cache: false, ..TableReadOptions::default() });
        iter.seek_to_first();
        while iter.valid() {
            builder.add(iter.key(), iter.value())?;
            iter.next();
        }
        iter.status()?;
        let info = builder.finish()?;
        let micros = clock.monotonic_micros().saturating_sub(start);
        let compressed = statistics.ticker_count(Ticker::NumberBlockCompressed);
        let rejected = statistics.ticker_count(Ticker::NumberBlockCompressionRejected);
        let blocks = info.properties.num_data_blocks;
        // Index blocks may be compressed, too.
        let all = blocks.max(compressed + rejected);
        let share = |count: u64| if all == 0 { 0.0 } else { count as f64 / all as f64 * 100.0 };
        let other = all - compressed - rejected;
        Ok(format!(
            "Size: {:10} Blocks: {blocks:6} Time Taken: {micros:10} microsecs Compressed: {compressed:6} \
             ({:5.1}%) Not compressed (ratio): {other:6} ({:5.1}%) Not compressed (abort): {rejected:6} ({:5.1}%)",
            info.file_size,
            share(compressed),
            share(other),
            share(rejected)
        ))
    }
}
