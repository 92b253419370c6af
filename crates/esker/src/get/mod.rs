//! Point lookups: from what memtables and files hold of a key to the value that the user gets.
//!
//! Reading order: [`point`] (one key of an open database), [`search`] (the key through memtables,
//! then files), [`saver`] (what has been found so far), [`answer`] (what is handed out), [`batch`]
//! (many keys as of one point in time), [`multi_get`] (those of one family, source by source),
//! [`latest`] (whether a key was written since).

pub(crate) mod answer;
pub(crate) mod batch;
pub(crate) mod latest;
pub(crate) mod multi_get;
pub(crate) mod point;
pub(crate) mod saver;
pub(crate) mod search;

pub use batch::MultiGetOutput;
