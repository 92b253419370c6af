//! RocksJava's native library on Esker: `librocksdbjni.so`, for Java programs that run unchanged.
//!
//! In: calls of the native methods of RocksJava's classes, of the releases in `natives.txt`. Out:
//! calls of Esker's public Rust API. A JVM takes this library instead of the one in RocksJava's jar
//! if `-Djava.library.path` names its directory.
//!
//! `build.rs` makes one function for each native. `built.txt` says what the function calls. Option
//! accessors (`accessors.txt` of `capi`) and natives that free their object need no line there. All
//! other natives without a line throw "Not implemented: NAME". docs/compat/java.md lists the
//! natives that are built and those that are not.
//!
//! Invariants
//!  1. No panic and no error leaves a native except as a Java exception (`border.rs`).
//!  2. `unsafe` is in `jni.rs`, `handle.rs`, `border.rs`, the generated functions and the tests:
//!     all other modules get typed arguments.
//!  3. A Java object is the only owner of its handle, except that a database owns its default
//!     family and its environment. The engine shares objects that it uses longer.
//!
//! Source of names, numbers and ownership: RocksJava's classes in the jars of these releases.
#![warn(missing_docs)]
#![allow(unreachable_pub, reason = "the JVM is the only caller")]

mod batch;
mod border;
mod callbacks;
mod db;
mod events;
mod exports;
mod field;
mod files;
mod filters;
mod given;
mod handle;
mod iterator;
mod jni;
mod kind;
mod listeners;
mod objects;
mod options;
mod reads;
mod release;
mod statistics;
#[cfg(test)]
mod tests;
mod transaction_dbs;
mod transaction_facts;
mod transactions;
mod writes;

/// The functions that the JVM looks up.
mod natives {
    use crate::border::{direct, head, into_array, into_direct, parts, range, whole};
    use crate::handle::none;
    use crate::transactions::{KeyFamilies, ReadLock, Tracking, for_update, tracking};
    use crate::{
        batch, callbacks, db, events, exports, files, filters, given, iterator, kind, listeners, objects,
        options, reads, release, statistics, transaction_dbs, transaction_facts, transactions, writes,
    };
    use esker::{BatchOp, OpenMode};
    include!(concat!(env!("OUT_DIR"), "/natives.rs"));
}
