//! Reading: from what memtables and files hold of a key to the value the user gets.

pub(crate) mod answer;
pub(crate) mod get;
pub(crate) mod latest;
pub mod merge;
pub(crate) mod multi_get;
pub(crate) mod saver;
pub(crate) mod tables;
