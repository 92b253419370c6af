//! The native module `esker._esker`: Esker's public Rust API as Python classes.
//!
//! In: calls of the Python package `esker` (`python/esker`). Out: Python objects and exceptions.
//!
//! Invariants
//!  1. A call of the engine runs without the GIL (`call.rs`) if it may wait, end a handle, or take
//!     a lock under which callbacks run. A callback in Python takes the GIL while it may hold
//!     locks of the engine, so the other order would be a deadlock.
//!  2. No thread waits for a mutex of this module while it holds the GIL, unless each holder of the
//!     mutex keeps the GIL and runs no Python code. Making an exception runs Python code, and an
//!     allocation of a tuple or list may run finalizers.
//!  3. No engine calls come from a forked child, from inside a callback, or after a close. Handles
//!     that end inside a callback go to a thread (`later.rs`).
//!
//! Reading order: `call`, `later`, `error`, `args` (parts that all methods use), `options`,
//! `callbacks`, `shared` (an open database), `reader` → `writer` → `family` → `db` (a class
//! each), `observe`, `scan`, `value`, `snapshot`, `batch`, `transaction`, `backup`.

#![warn(missing_docs)]

mod args;
mod backup;
mod batch;
mod call;
mod callbacks;
mod db;
mod error;
mod family;
mod later;
mod observe;
mod options;
mod reader;
mod scan;
mod shared;
mod snapshot;
mod transaction;
mod value;
mod writer;

use pyo3::prelude::*;

/// The native part of the package `esker`.
#[pymodule]
#[pyo3(name = "_esker")]
fn native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<reader::PyReader>()?;
    module.add_class::<writer::PyWriter>()?;
    module.add_class::<family::PyColumnFamily>()?;
    module.add_class::<db::PyDb>()?;
    module.add_class::<snapshot::PySnapshot>()?;
    module.add_class::<transaction::PyTransaction>()?;
    module.add_class::<batch::PyWriteBatch>()?;
    module.add_class::<scan::PyEntries>()?;
    module.add_class::<value::PyPinnedValue>()?;
    module.add_class::<options::PyBlockCache>()?;
    module.add_class::<backup::PyBackupEngine>()?;
    module.add_function(wrap_pyfunction!(db::list_column_families, module)?)?;
    module.add_function(wrap_pyfunction!(db::destroy, module)?)?;
    module.add_function(wrap_pyfunction!(db::repair, module)?)?;
    let at_exit = wrap_pyfunction!(shared::close_all, module)?;
    module.py().import("atexit")?.call_method1("register", (at_exit,))?;
    call::watch_forks(module.py())
}
