//! Reading: from what memtables and files hold of a key to the value the user gets.

pub(crate) mod answer;
pub(crate) mod get;
pub(crate) mod latest;
pub mod merge;
pub(crate) mod multi_get;
mod saver;
pub(crate) mod tables;
