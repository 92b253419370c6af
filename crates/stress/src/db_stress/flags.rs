//! The flags of `db_stress`: RocksDB's names where it has them.

use clap::Args;
use std::path::PathBuf;

/// Random operations of many threads on a real directory, each answer compared with the expected
/// values.
#[derive(Args, Clone, Debug)]
#[command(rename_all = "snake_case")]
pub struct StressFlags {
    /// The database's directory
    #[arg(long)]
    pub db: PathBuf,
    /// Directory of the file of expected values; must not be the database's
    #[arg(long)]
    pub expected_values_dir: PathBuf,
    /// Seed of every random choice
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Threads that write and read
    #[arg(long, default_value_t = 16)]
    pub threads: u32,
    /// Operations of each thread, in all phases together: each reopening begins a phase
    #[arg(long, default_value_t = 100_000)]
    pub ops_per_thread: u64,
    /// Keys of each family; the same in each run on a directory
    #[arg(long, default_value_t = 10_000)]
    pub max_key: u32,
    /// Families; the same in each run on a directory
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(..=10_000))]
    pub column_families: u32,
    /// Largest size of a value, divided by 16; the same in each run on a directory
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(..=1 << 20))]
    pub value_size_mult: u32,
    /// Per cent of the keys that are put once and then deleted by single deletions; the same in
    /// each run on a directory
    #[arg(long, default_value_t = 10)]
    pub nooverwritepercent: u32,
    /// Number of times that the run closes the database (or only drops it) and opens it again
    #[arg(long, default_value_t = 2)]
    pub reopen: u32,
    /// Delete the database and the expected values first
    #[arg(long)]
    pub destroy_db_initially: bool,
    /// Only compare the contents with the expected values
    #[arg(long)]
    pub verification_only: bool,
    /// Seed of all options, drawn as in the metamorphic campaign; 0: Esker's own, with small
    /// buffers
    #[arg(long, default_value_t = 0)]
    pub options_seed: u64,
    /// Seed of the options that must be the same in all runs on a directory, such as the compaction
    /// style
    #[arg(long, default_value_t = 1)]
    pub lasting_options_seed: u64,
    /// More options of the families, `name=value;…`
    #[arg(long, default_value = "")]
    pub column_family_options: String,
    /// More options of the database, `name=value;…`
    #[arg(long, default_value = "")]
    pub db_options: String,

    /// Ignored: an operation that none of the next flags takes is a read of a key
    #[arg(long, default_value_t = 25)]
    pub readpercent: u32,
    /// Per cent of the operations that scan a range within bounds
    #[arg(long, default_value_t = 5)]
    pub prefixpercent: u32,
    /// Per cent that write a key
    #[arg(long, default_value_t = 45)]
    pub writepercent: u32,
    /// Per cent that delete a key
    #[arg(long, default_value_t = 15)]
    pub delpercent: u32,
    /// Per cent that delete a range
    #[arg(long, default_value_t = 2)]
    pub delrangepercent: u32,
    /// Per cent that move an iterator. The rest to 100 are reads
    #[arg(long, default_value_t = 8)]
    pub iterpercent: u32,

    /// Some writes are merges
    #[arg(long)]
    pub use_merge: bool,
    /// One in this many values is put as an entity; 0: none
    #[arg(long, default_value_t = 0)]
    pub use_put_entity_one_in: u32,
    /// Some reads take several keys at once
    #[arg(long)]
    pub use_multiget: bool,
    /// One in this many writes is a batch of several keys
    #[arg(long, default_value_t = 10)]
    pub batch_one_in: u32,
    /// Writes are synced
    #[arg(long)]
    pub sync: bool,
    /// Bytes of checksum for each entry of a batch, 0 or 8
    #[arg(long, default_value_t = 0)]
    pub batch_protection_bytes_per_key: usize,
    /// One in this many operations flushes
    #[arg(long, default_value_t = 2_000)]
    pub flush_one_in: u32,
    /// One in this many operations compacts a range
    #[arg(long, default_value_t = 5_000)]
    pub compact_range_one_in: u32,
    /// One in this many operations makes a checkpoint
    #[arg(long, default_value_t = 20_000)]
    pub checkpoint_one_in: u32,
    /// One in this many operations ingests a file
    #[arg(long, default_value_t = 5_000)]
    pub ingest_external_file_one_in: u32,
    /// One in this many operations takes a snapshot
    #[arg(long, default_value_t = 500)]
    pub acquire_snapshot_one_in: u32,
    /// Number of operations of a thread before it reads a snapshot again and releases it
    #[arg(long, default_value_t = 1_000)]
    pub snapshot_hold_ops: u64,
    /// One in this many operations changes options
    #[arg(long, default_value_t = 10_000)]
    pub set_options_one_in: u32,
    /// One in this many operations reads a property
    #[arg(long, default_value_t = 2_000)]
    pub get_property_one_in: u32,
    /// One in this many operations drops a family and makes it again; 0: never
    #[arg(long, default_value_t = 50_000)]
    pub clear_column_family_one_in: u32,
    /// One in this many operations checks all blocks of all tables; 0: never
    #[arg(long, default_value_t = 50_000)]
    pub verify_checksum_one_in: u32,

    /// About one in this many file operations that change something fails; 0: none
    #[arg(long, default_value_t = 0)]
    pub write_fault_one_in: u32,
    /// About one in this many reads of files fails; 0: none
    #[arg(long, default_value_t = 0)]
    pub read_fault_one_in: u32,
    /// The process kills itself at one in this many file operations that change something; 0: never
    #[arg(long, default_value_t = 0)]
    pub kill_random_test: u32,
}
