//! The databases in `fixtures`, read from memory and compared with what RocksDB read.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "the crate has no file system")]

mod fixtures;
