//! The flags of `db_stress`: RocksDB's names where it has them.

use clap::Args;
use std::path::PathBuf;

/// Random operations of many threads on a real directory, each answer compared with what is
/// expected.
#[derive(Args, Clone, Debug)]
#[command(rename_all = "snake_case")]
pub struct StressFlags {
    /// The database's directory
    #[arg(long)]
    pub db: PathBuf,
    /// Where the file of expected values is; must not be in the database's directory
    #[arg(long)]
    pub expected_values_dir: PathBuf,
    /// Of everything random
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Threads that write and read
    #[arg(long, default_value_t = 16)]
    pub threads: u32,
    /// Operations of each thread, all reopenings together
    #[arg(long, default_value_t = 100_000)]
    pub ops_per_thread: u64,
    /// Keys of each family; the same in each run on a directory
    #[arg(long, default_value_t = 10_000)]
    pub max_key: u32,
    /// Families; the same in each run on a directory
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(..=10_000))]
    pub column_families: u32,
    /// Values have up to 16 times so many bytes; the same in each run on a directory
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(..=1 << 20))]
    pub value_size_mult: u32,
    /// Per cent of the keys that are put once and then deleted by single deletions; the same in
    /// each run on a directory
    #[arg(long, default_value_t = 10)]
    pub nooverwritepercent: u32,
    /// How often the database is closed, or dropped, and opened again meanwhile
    #[arg(long, default_value_t = 2)]
    pub reopen: u32,
    /// Delete the database and the expected values first
    #[arg(long)]
    pub destroy_db_initially: bool,
    /// Only compare what is there with what is expected
    #[arg(long)]
    pub verification_only: bool,
    /// Of which all options are drawn, as the metamorphic campaign draws them; 0: Esker's own, with
    /// small buffers
    #[arg(long, default_value_t = 0)]
    pub options_seed: u64,
    /// Of what must stay the same over all runs on a directory, as compaction's style
    #[arg(long, default_value_t = 1)]
    pub lasting_options_seed: u64,
    /// More options of the families, `name=value;…`
    #[arg(long, default_value = "")]
    pub column_family_options: String,
    /// More options of the database, `name=value;…`
    #[arg(long, default_value = "")]
    pub db_options: String,

    /// Per cent of the operations: a key is read
    #[arg(long, default_value_t = 25)]
    pub readpercent: u32,
    /// A range is scanned, within bounds
    #[arg(long, default_value_t = 5)]
    pub prefixpercent: u32,
    /// A key is written
    #[arg(long, default_value_t = 45)]
    pub writepercent: u32,
    /// A key is deleted
    #[arg(long, default_value_t = 15)]
    pub delpercent: u32,
    /// A range is deleted
    #[arg(long, default_value_t = 2)]
    pub delrangepercent: u32,
    /// An iterator is moved about. What is left of a hundred are reads
    #[arg(long, default_value_t = 8)]
    pub iterpercent: u32,

    /// Some writes are merges
    #[arg(long)]
    pub use_merge: bool,
    /// One in so many values is put as an entity; 0: none
    #[arg(long, default_value_t = 0)]
    pub use_put_entity_one_in: u32,
    /// Some reads are of several keys at once
    #[arg(long)]
    pub use_multiget: bool,
    /// One in so many writes is a batch of several keys
    #[arg(long, default_value_t = 10)]
    pub batch_one_in: u32,
    /// Writes are synced
    #[arg(long)]
    pub sync: bool,
    /// 0 or 8
    #[arg(long, default_value_t = 0)]
    pub batch_protection_bytes_per_key: usize,
    /// One in so many operations
    #[arg(long, default_value_t = 2_000)]
    pub flush_one_in: u32,
    /// One in so many operations
    #[arg(long, default_value_t = 5_000)]
    pub compact_range_one_in: u32,
    /// One in so many operations
    #[arg(long, default_value_t = 20_000)]
    pub checkpoint_one_in: u32,
    /// One in so many operations
    #[arg(long, default_value_t = 5_000)]
    pub ingest_external_file_one_in: u32,
    /// One in so many operations
    #[arg(long, default_value_t = 500)]
    pub acquire_snapshot_one_in: u32,
    /// Operations of the thread until a snapshot is read and released
    #[arg(long, default_value_t = 1_000)]
    pub snapshot_hold_ops: u64,
    /// One in so many operations
    #[arg(long, default_value_t = 10_000)]
    pub set_options_one_in: u32,
    /// One in so many operations
    #[arg(long, default_value_t = 2_000)]
    pub get_property_one_in: u32,
    /// A family is dropped and made again, one in so many operations; 0: never
    #[arg(long, default_value_t = 50_000)]
    pub clear_column_family_one_in: u32,
    /// All blocks of all tables are checked, one in so many operations; 0: never
    #[arg(long, default_value_t = 50_000)]
    pub verify_checksum_one_in: u32,

    /// About one in so many file operations that change something fails; 0: none
    #[arg(long, default_value_t = 0)]
    pub write_fault_one_in: u32,
    /// About one in so many reads of files fails; 0: none
    #[arg(long, default_value_t = 0)]
    pub read_fault_one_in: u32,
    /// The process ends at one in so many file operations that change something, without a word to
    /// the database; 0: never
    #[arg(long, default_value_t = 0)]
    pub kill_random_test: u32,
}
