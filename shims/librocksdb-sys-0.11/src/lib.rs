//! The C interface of RocksDB 8.1, implemented by Esker. For `[patch.crates-io]`: see
//! docs/compat/c-api.md of Esker.
#![allow(non_snake_case, non_camel_case_types, non_upper_case_globals, missing_docs)]

extern crate esker_capi;

include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
