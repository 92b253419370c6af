//! Point lookups: from the entries of memtables and files to the user's value.
//!
//! Reading order: [`point`] (one key of an open database), [`search`] (the key through memtables,
//! then files), [`saver`] (the state of a lookup), [`answer`] (its result), [`batch`] (many keys at
//! one point in time), [`multi_get`] (many keys of one family, source by source), [`latest`]
//! (conflict checks: the newest write of a key).

pub(crate) mod answer;
pub(crate) mod batch;
mod by_level;
pub(crate) mod latest;
pub(crate) mod multi_get;
pub(crate) mod point;
pub(crate) mod saver;
pub(crate) mod search;
mod traced;

pub use batch::MultiGetOutput;
