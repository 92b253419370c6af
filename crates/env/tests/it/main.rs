//! Integration tests of the outside world: one contract for all file systems, locks between
//! processes, full disks.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

mod conformance;
mod direct;
mod full_disk;
mod locks;
#[cfg(target_os = "linux")]
mod refused;
#[cfg(target_os = "linux")]
mod standard_streams;
mod systems;
mod temp_dir;
