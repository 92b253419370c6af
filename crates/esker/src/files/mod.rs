//! Files that nothing needs any more.

mod obsolete;
mod table_output;

pub(crate) use obsolete::{KeepSet, is_obsolete};
pub(crate) use table_output::{OutputContext, TableOutput};
