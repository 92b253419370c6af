//! The files that make up the database: versions, and the MANIFEST that records their history.
//!
//! Reading order: [`file_meta`] (one table), [`blob_meta`] (one blob file), [`weights`], [`levels`]
//! and [`version`] (the files of a family at one point in time), [`findings`] (known facts about
//! levels), [`file_picker`] (files that may hold a key), [`builder`] (version + edits -> version),
//! [`check`] (consistency of a version), [`manifest`] (the log of edits and CURRENT), `snapshot`
//! (the edits that begin a MANIFEST), `recover` (reads a MANIFEST), [`best_efforts`] (finds the
//! newest state that has all its files), [`beside_owner`] (reads while another process writes),
//! `follow` (reads another owner's later edits), [`set`] (the current versions of all families, and
//! the only way to change them). Helpers: `family_map` (a value per
//! family), [`config`], [`numbers`], `timestamps` (bounds of tables that store no timestamps).

pub(crate) mod beside_owner;
pub(crate) mod best_efforts;
pub(crate) mod blob_meta;
pub(crate) mod builder;
pub(crate) mod check;
pub(crate) mod config;
mod family_map;
pub(crate) mod file_meta;
pub(crate) mod file_picker;
pub(crate) mod findings;
mod follow;
pub(crate) mod levels;
pub(crate) mod manifest;
pub(crate) mod numbers;
mod recover;
pub(crate) mod set;
mod snapshot;
mod timestamps;
#[allow(clippy::module_inception, reason = "the type's own file, as in every other room")]
pub(crate) mod version;
pub(crate) mod weights;

pub(crate) use blob_meta::blob_file_size;
pub(crate) use config::{
    DEFAULT_COLUMN_FAMILY_NAME, EPOCH_BEHIND_ALL, LogOptions, STATS_HISTORY_COLUMN_FAMILY_NAME,
};
pub use config::{FamilyDescriptor, VersionSetOptions};
pub(crate) use config::{check_family_name, find_fault_in_family_name};
pub(crate) use family_map::FamilyMap;
pub(crate) use file_meta::{FileMeta, ObsoleteBlob, ObsoleteFiles, ObsoleteTable};
pub(crate) use file_picker::Candidates;
pub(crate) use follow::Followed;
pub(crate) use levels::Level;
pub(crate) use numbers::Numbers;
pub use recover::ListedFamily;
pub(crate) use recover::missing_table;
pub use set::VersionSet;
pub(crate) use set::VersionSetFamily;
pub(crate) use timestamps::stripped;
pub(crate) use version::Version;
pub(crate) use weights::Weights;
