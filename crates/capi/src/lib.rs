//! RocksDB's C API on Esker: the functions of `rocksdb/c.h`, for clients in any language.
//!
//! In: calls as RocksDB 11 declares them. Out: calls of Esker's public Rust API. Setters and
//! getters of options come from `accessors.txt`. A declared function that is neither in a source
//! file nor in that table reports "Not implemented: NAME" (`build.rs`). docs/compat/c-api.md lists
//! all functions.
//!
//! Invariants
//!  1. No panic reaches a caller: the panic becomes an error, or the function's empty answer.
//!  2. Each buffer that a caller frees was made by `malloc`.
//!  3. Callers pass NULL, or a pointer to a live object of the right type that this library has
//!     made. If a required object is NULL, the function reports `InvalidArgument` or returns its
//!     empty answer.
//!  4. No pointer from a caller is used after the call, unless `c.h` obliges the caller to keep the
//!     object alive.
//!
//! Source of names, ownership and errors: RocksDB `include/rocksdb/c.h` and `db/c.cc`, 11.8.1.
#![allow(non_camel_case_types, non_snake_case, reason = "names are those of c.h")]
#![allow(
    unsafe_op_in_unsafe_fn,
    clippy::missing_safety_doc,
    clippy::not_unsafe_ptr_arg_deref,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "the contract of every function is invariant 3, stated once"
)]
#![allow(missing_debug_implementations, reason = "clients see objects as pointers only")]
#![allow(clippy::too_many_arguments, clippy::type_complexity, reason = "signatures are those of c.h")]

pub mod backup;
pub mod batch;
pub mod batch_index;
pub mod cache;
pub mod callbacks;
pub mod column_family;
pub mod compaction_styles;
pub mod db;
pub mod env;
pub mod field;
pub mod iterator;
pub mod job_info;
pub mod listener;
pub mod live_files;
pub mod maintenance;
pub mod memory;
pub mod metadata_reads;
pub mod multi_get;
pub mod optimistic;
pub mod option_sets;
pub mod options;
pub mod oxrocksdb;
pub mod perf;
pub mod read_options;
pub mod reads;
pub mod remote_compaction;
pub mod replay;
pub mod snapshot;
pub mod sst;
pub mod storage_info;
pub mod table_kinds;
pub mod table_options;
pub mod table_properties;
pub mod trace;
pub mod transaction;
pub mod transaction_db;
pub mod user_defined_index;
pub mod wal;
pub mod wal_filter;
pub mod write_buffer_policy;
pub mod write_options;
pub mod writes;

/// Setters and getters, made from `accessors.txt`.
pub mod accessors {
    #![allow(unused_imports, reason = "sections name types of several modules")]
    use crate::backup::*;
    use crate::cache::*;
    use crate::compaction_styles::*;
    use crate::job_info::*;
    use crate::live_files::*;
    use crate::maintenance::*;
    use crate::optimistic::*;
    use crate::options::*;
    use crate::perf::*;
    use crate::read_options::*;
    use crate::replay::*;
    use crate::sst::*;
    use crate::storage_info::*;
    use crate::table_kinds::*;
    use crate::table_options::*;
    use crate::table_properties::*;
    use crate::trace::*;
    use crate::transaction_db::*;
    use crate::wal::*;
    use crate::write_options::*;
    include!(concat!(env!("OUT_DIR"), "/accessors.rs"));
}

/// Functions of `c.h` that this library does not implement.
pub mod missing {
    #![allow(unused_variables, reason = "they look at errptr only")]
    include!(concat!(env!("OUT_DIR"), "/missing.rs"));
}

#[cfg(test)]
mod tests;
