//! The files that make up the database: versions, and the MANIFEST that records their history.
//!
//! `family_map` keeps a value per family. Reading order: [`file_meta`] (one file), [`weights`],
//! [`levels`] and [`version`] (the files of a family at one point in time), `findings` (known facts
//! about levels), [`file_picker`] (files that may hold a key), [`builder`] (version + edits ->
//! version), [`check`] (consistency of a version), [`manifest`] (the log of edits and CURRENT),
//! `recover` (the log read back), [`set`] (the current versions of all families, and the only way
//! to change them).

pub mod beside_owner;
pub mod blob_meta;
pub mod builder;
pub mod check;
pub mod config;
mod family_map;
pub mod file_meta;
pub mod file_picker;
pub(crate) mod findings;
pub mod levels;
pub mod manifest;
pub mod numbers;
mod recover;
pub mod set;
mod snapshot;
mod timestamps;
#[allow(clippy::module_inception, reason = "the type's own file, as in every other room")]
pub mod version;
pub mod weights;

pub(crate) use blob_meta::blob_file_size;
pub use config::{DEFAULT_COLUMN_FAMILY_NAME, FamilyDescriptor, LogOptions, VersionSetOptions};
pub(crate) use config::{check_family_name, what_is_wrong_with_family_name};
pub(crate) use family_map::FamilyMap;
pub use file_meta::{FileMeta, ObsoleteTable};
pub use file_picker::Candidates;
pub use levels::Level;
pub use numbers::Numbers;
pub use recover::ListedFamily;
pub use set::{Family, VersionSet};
pub(crate) use timestamps::stripped;
pub use version::Version;
pub use weights::Weights;
