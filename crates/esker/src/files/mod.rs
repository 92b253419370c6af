//! Files: their writing, their ingestion, and their deletion.
//!
//! Reading order: `table_output` and `blob_output` (the files of a job), `written` (their checks),
//! `file_checksum`, [`open_table`] (a file's open table), `row_cache` (entries of tables in
//! memory), `copy` (links and copies), `directories` (`db_paths` and `cf_paths`), `on_demand` (a
//! follower's links), `obsolete` (the files that may be deleted).

mod blob_output;
mod copy;
mod directories;
mod file_checksum;
mod obsolete;
mod on_demand;
pub(crate) mod open_table;
mod row_cache;
mod table_output;
mod written;

pub(crate) use blob_output::BlobOutput;
pub(crate) use copy::{
    copy_file, link_or_copy, link_or_copy_synced, read_chunks, sync_file, under_either_name,
};
pub(crate) use directories::{
    LOST, check_ours, is_data_file, move_to_lost, names_if_there, other_directories, take_directories,
};
pub(crate) use file_checksum::{
    ChecksumReads, FileChecksum, PendingChecksum, checksum_of_file, checksummed, hex, verify_file_checksum,
};
pub(crate) use obsolete::{KeepSet, is_obsolete, is_trash, is_trash_name};
pub(crate) use on_demand::OnDemandFileSystem;
pub(crate) use row_cache::{NewRow, Row, RowCache, RowKey};
pub(crate) use table_output::{
    FinishedTable, NewTable, OutputContext, TableOutput, check_space_limit, type_of,
};
