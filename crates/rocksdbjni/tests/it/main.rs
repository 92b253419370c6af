//! Tests of the library as a JVM sees it, without a JVM.
#![allow(clippy::disallowed_methods, reason = "a test reads the table of its own crate")]
#![allow(missing_docs, reason = "no test has users")]

use std::path::PathBuf;

/// The library, which cargo builds beside its tests.
fn library() -> PathBuf {
    std::env::current_exe().expect("a test knows its file").with_file_name("librocksdbjni.so")
}

#[test]
fn the_library_exports_a_symbol_for_each_native() {
    let symbols: &[(&str, &str, bool)] = &include!(concat!(env!("OUT_DIR"), "/table.rs"));
    // SAFETY: the library has no code that runs when it is loaded.
    let library = unsafe { libloading::Library::new(library()) }.expect("cargo has built the library");
    for (native, symbol, _) in symbols {
        // SAFETY: the test does not call the function.
        let found = unsafe { library.get::<unsafe extern "C" fn()>(symbol.as_bytes()) };
        assert!(found.is_ok(), "{native}: the library has no {symbol}");
    }
    // SAFETY: the test does not call the function.
    assert!(unsafe { library.get::<unsafe extern "C" fn()>(b"JNI_OnLoad") }.is_ok());
    // A program that also has RocksDB must find its own functions.
    // SAFETY: the test does not call the function.
    assert!(unsafe { library.get::<unsafe extern "C" fn()>(b"rocksdb_open") }.is_err());
}
