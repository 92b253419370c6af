//! Integration tests of encryption at rest: the contract of file systems, damage, crashes, keys.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

#[path = "../../../env/tests/it/conformance.rs"]
mod conformance;
mod convert;
mod crashes;
mod damage;
mod engine;
mod keys;
mod refused;
mod search;
mod support;
mod systems;
#[allow(clippy::disallowed_methods, reason = "a directory of the real file system")]
#[path = "../../../env/tests/it/temp_dir.rs"]
mod temp_dir;
