//! Partitioners: they end the tables that compactions write at user keys of their choice.
//!
//! Source: RocksDB `include/rocksdb/sst_partitioner.h`.

use super::log::LogLine;
use super::value::{OptionValue, is_null, object_name};
use esker_base::sync::Arc;
use esker_base::{Error, Result};
use std::fmt;

/// Two neighbouring keys of a compaction's output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartitionerRequest<'a> {
    /// The last user key of the table so far.
    pub prev_user_key: &'a [u8],
    /// The next user key.
    pub current_user_key: &'a [u8],
    /// About the bytes of the table so far.
    pub current_output_file_size: u64,
}

/// The compaction that a partitioner is made for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SstPartitionerContext<'a> {
    /// Whether the inputs are all files of the family.
    pub is_full_compaction: bool,
    /// Whether a caller requested it.
    pub is_manual_compaction: bool,
    /// The level of its outputs.
    pub output_level: usize,
    /// The smallest user key of its inputs.
    pub smallest_user_key: &'a [u8],
    /// The largest user key of its inputs.
    pub largest_user_key: &'a [u8],
}

/// Decides where the tables of one subcompaction end, besides their sizes. The engine does not call
/// it for outputs in level 0.
pub trait SstPartitioner: Send {
    /// Whether the table ends between the two keys.
    fn should_partition(&mut self, request: &PartitionerRequest<'_>) -> bool;
    /// Whether a table with these first and last user keys may move to the next level as it is.
    fn can_do_trivial_move(&mut self, smallest_user_key: &[u8], largest_user_key: &[u8]) -> bool;
}

/// Makes a partitioner for each subcompaction.
pub trait SstPartitionerFactory: Send + Sync {
    /// The factory's name in logs and OPTIONS files.
    fn name(&self) -> &str;
    /// A partitioner for this compaction.
    fn create_partitioner(&self, context: &SstPartitionerContext<'_>) -> Box<dyn SstPartitioner>;
    /// Its text in OPTIONS files. Default: the name.
    fn option_text(&self) -> String {
        self.name().to_owned()
    }
}

/// A shared factory.
pub type SstPartitionerFactoryRef = Arc<dyn SstPartitionerFactory>;

impl fmt::Debug for dyn SstPartitionerFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SstPartitionerFactory({})", self.name())
    }
}

/// Ends tables where the first `length` bytes of the user key change.
///
/// ```
/// use esker::Options;
/// use esker::options::SstPartitionerFixedPrefixFactory;
/// use std::sync::Arc;
///
/// let mut options = Options::default();
/// options.cf.sst_partitioner_factory = Some(Arc::new(SstPartitionerFixedPrefixFactory::new(8)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SstPartitionerFixedPrefixFactory {
    length: usize,
}

impl SstPartitionerFixedPrefixFactory {
    const NAME: &str = "SstPartitionerFixedPrefixFactory";

    /// A factory for prefixes of `length` bytes.
    pub fn new(length: usize) -> SstPartitionerFixedPrefixFactory {
        SstPartitionerFixedPrefixFactory { length }
    }

    fn have_one_prefix(self, a: &[u8], b: &[u8]) -> bool {
        let prefix = |key: &[u8]| key.len().min(self.length);
        a[..prefix(a)] == b[..prefix(b)]
    }
}

impl SstPartitionerFactory for SstPartitionerFixedPrefixFactory {
    fn name(&self) -> &str {
        SstPartitionerFixedPrefixFactory::NAME
    }
    fn create_partitioner(&self, _context: &SstPartitionerContext<'_>) -> Box<dyn SstPartitioner> {
        Box::new(*self)
    }
    fn option_text(&self) -> String {
        format!("{{id={};length={};}}", self.name(), self.length)
    }
}

impl SstPartitioner for SstPartitionerFixedPrefixFactory {
    fn should_partition(&mut self, request: &PartitionerRequest<'_>) -> bool {
        !self.have_one_prefix(request.prev_user_key, request.current_user_key)
    }
    fn can_do_trivial_move(&mut self, smallest_user_key: &[u8], largest_user_key: &[u8]) -> bool {
        self.have_one_prefix(smallest_user_key, largest_user_key)
    }
}

/// `nullptr`, or the partitioner by fixed prefixes with its `length`.
impl OptionValue for Option<SstPartitionerFactoryRef> {
    fn parse(text: &str) -> Result<Option<SstPartitionerFactoryRef>> {
        let name = object_name(text);
        if is_null(name) {
            return Ok(None);
        }
        if name != SstPartitionerFixedPrefixFactory::NAME {
            let what = format!("no built-in partitioner of tables is called '{name}'");
            return Err(Error::invalid_argument(what));
        }
        let fields = text.trim().trim_matches(['{', '}']).split(';');
        let length = fields.filter_map(|field| field.trim().strip_prefix("length=")).next();
        let length = length.map_or(Ok(0), usize::parse)?;
        Ok(Some(Arc::new(SstPartitionerFixedPrefixFactory::new(length))))
    }
    fn print(&self) -> String {
        self.as_ref().map_or_else(|| "nullptr".to_owned(), |factory| factory.option_text())
    }
    fn log(&self, name: &str, lines: &mut Vec<LogLine>) {
        lines.push((name.to_owned(), self.as_ref().map_or("None", |factory| factory.name()).to_owned()));
    }
}
