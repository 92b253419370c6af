//! Whole tables: RocksDB's read by us, ours read by RocksDB, and both against models.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests stop where they fail, and read fixtures"
)]
#![allow(unreachable_pub, reason = "the modules of one test binary")]

mod blobs;
mod charges;
mod damage;
mod golden;
mod long_scans;
mod model;
mod options;
mod read_again;
mod read_ahead;
mod rebuild;
mod salvage;
mod speed;
mod sst_dump;
mod util;
