//! Blob files: written beside tables, read value by value.
//!
//! In: user keys and values; blob indexes. Out: blob files; values. Bytes: `esker_format::blob`.

mod reader;
mod source;
mod value;
mod writer;

pub use reader::{BlobFileReader, BlobRecord, for_each_damage, salvage_value};
pub use source::{BlobSource, BlobSourceOptions};
pub use value::{BlobReader, BlobReads};
pub use writer::{BlobFileBuilder, BlobFileInfo};
