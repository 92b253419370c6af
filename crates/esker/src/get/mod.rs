//! Point lookups: from what memtables and files hold of a key to the value that the user gets.
//!
//! Reading order: [`search`] (one key through memtables, then files), [`saver`] (what has been
//! found so far), [`answer`] (what is handed out), [`multi_get`] (many keys, source by source),
//! [`latest`] (whether a key was written since).

pub(crate) mod answer;
pub(crate) mod latest;
pub(crate) mod multi_get;
pub(crate) mod saver;
pub(crate) mod search;
