//! Checksums of whole files: RocksDB's `FileChecksumGenFactory`.
//!
//! In: the bytes of a table or blob file, in their order. Out: a checksum, which the MANIFEST keeps
//! beside the name of its function.
//!
//! Source: RocksDB `include/rocksdb/file_checksum.h`, `util/file_checksum_helper.h`.

use super::log::LogLine;
use super::value::{OptionValue, is_null, object_name};
use esker_base::sync::Arc;
use esker_base::{Error, Result, crc32c};
use std::fmt::Debug;

/// The file for which a generator is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FileChecksumGenContext<'a> {
    /// The file's name.
    pub file_name: &'a str,
    /// The name of the required function; empty: the factory chooses.
    pub requested_checksum_func_name: &'a str,
}

/// Computes one checksum.
pub trait FileChecksumGenerator: Send {
    /// Adds the next bytes of the file.
    fn update(&mut self, data: &[u8]);
    /// The checksum of all bytes. No `update` follows.
    fn finalize(&mut self) -> Vec<u8>;
    /// The function's name, which the MANIFEST keeps.
    fn name(&self) -> &str;
}

/// Makes generators.
pub trait FileChecksumGenFactory: Send + Sync + Debug {
    /// A generator for one file; `None` if the factory lacks the requested function.
    fn create_file_checksum_generator(
        &self,
        context: &FileChecksumGenContext<'_>,
    ) -> Option<Box<dyn FileChecksumGenerator>>;
    /// The factory's name, for OPTIONS files.
    fn name(&self) -> &str;
}

/// A shared factory.
pub type FileChecksumGenFactoryRef = Arc<dyn FileChecksumGenFactory>;

/// CRC-32C, most significant byte first, under the name `FileChecksumCrc32c`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FileChecksumGenCrc32cFactory;

impl FileChecksumGenCrc32cFactory {
    /// The factory's name in OPTIONS files.
    pub const CLASS_NAME: &str = "FileChecksumGenCrc32cFactory";
    /// The function's name in MANIFESTs.
    pub const FUNCTION: &str = "FileChecksumCrc32c";
}

impl FileChecksumGenFactory for FileChecksumGenCrc32cFactory {
    fn create_file_checksum_generator(
        &self,
        context: &FileChecksumGenContext<'_>,
    ) -> Option<Box<dyn FileChecksumGenerator>> {
        matches!(context.requested_checksum_func_name, "" | Self::FUNCTION)
            .then(|| Box::new(Crc32c(0)) as Box<dyn FileChecksumGenerator>)
    }

    fn name(&self) -> &str {
        Self::CLASS_NAME
    }
}

struct Crc32c(u32);

impl FileChecksumGenerator for Crc32c {
    fn update(&mut self, data: &[u8]) {
        self.0 = crc32c::extend(self.0, data);
    }

    fn finalize(&mut self) -> Vec<u8> {
        self.0.to_be_bytes().to_vec()
    }

    fn name(&self) -> &str {
        FileChecksumGenCrc32cFactory::FUNCTION
    }
}

impl OptionValue for Option<FileChecksumGenFactoryRef> {
    fn parse(text: &str) -> Result<Option<FileChecksumGenFactoryRef>> {
        match object_name(text) {
            name if is_null(name) => Ok(None),
            FileChecksumGenCrc32cFactory::CLASS_NAME => Ok(Some(Arc::new(FileChecksumGenCrc32cFactory))),
            name => Err(Error::invalid_argument(format!(
                "no built-in factory of file checksums is called '{name}'"
            ))),
        }
    }

    fn print(&self) -> String {
        self.as_ref().map_or_else(|| "nullptr".to_owned(), |factory| factory.name().to_owned())
    }

    fn log(&self, name: &str, lines: &mut Vec<LogLine>) {
        let value = self.as_ref().map_or("Unknown", |factory| factory.name());
        lines.push((name.to_owned(), value.to_owned()));
    }
}
