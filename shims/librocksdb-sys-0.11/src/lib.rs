//! The C interface of RocksDB 8.1, implemented by Esker. docs/compat/c-api.md of Esker says how to
//! use this crate through `[patch.crates-io]`.
#![allow(non_snake_case, non_camel_case_types, non_upper_case_globals, missing_docs)]

extern crate esker_capi;

include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
