//! The corpora of `fuzz/corpus`, played again without a fuzzer.
#![allow(clippy::disallowed_methods, reason = "the corpora are on the real file system")]

mod corpora;
