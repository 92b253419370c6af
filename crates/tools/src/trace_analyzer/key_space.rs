//! Files of whole key spaces: `FAMILY.txt` has a line with a hex key for each key of the family.

use super::stats::{FamilyStats, Queries};
use super::{AnalyzerOptions, key_text};
use crate::failure::{CommandOutcome, Failure};
use crate::host::{Host, read_file};
use crate::text::parse_hex;
use std::collections::BTreeMap;
use std::io::Write;

/// The whole key spaces of column families, each with its keys in the order of the file.
#[derive(Default)]
pub(super) struct KeySpaces(BTreeMap<u32, Vec<Vec<u8>>>);

impl KeySpaces {
    /// Reads the files of the families in the trace. A family without a file has no key space, and
    /// a warning says so. Cost: memory for all keys.
    /// # Errors
    /// A file that cannot be read, or a line that is no hex key.
    pub(super) fn read(
        options: &AnalyzerOptions,
        host: &Host,
        queries: &Queries,
    ) -> CommandOutcome<KeySpaces> {
        let mut spaces = BTreeMap::new();
        for family in queries.families().into_iter().filter(|_| options.key_space_dir.is_some()) {
            let path = options.key_space_dir.clone().unwrap_or_default().join(format!("{family}.txt"));
            if !host.fs().file_exists(&path)? {
                let why = "Cannot open the whole key space file of CF";
                writeln!(host.errors(), "Warning: {why}: {family}: {}", path.display())?;
                continue;
            }
            let text = read_file(host.fs(), &path)?;
            let text = String::from_utf8_lossy(&text);
            let key = |(number, line): (usize, &str)| {
                parse_hex(line, &format!("{}, line {}", path.display(), number + 1))
            };
            spaces.insert(family, text.lines().enumerate().map(key).collect::<Result<Vec<_>, Failure>>()?);
        }
        Ok(KeySpaces(spaces))
    }

    /// Number of keys of a family; 0 if it has no file.
    pub(super) fn key_count(&self, family: u32) -> usize {
        self.keys(family).map_or(0, <[_]>::len)
    }

    /// The keys of a family.
    pub(super) fn keys(&self, family: u32) -> Option<&[Vec<u8>]> {
        self.0.get(&family).map(Vec::as_slice)
    }
}

/// A line for each key that the trace accesses: the key's number in the key space, accesses.
pub(super) fn accessed_lines(keys: &[Vec<u8>], stats: &FamilyStats) -> impl Iterator<Item = String> {
    keys.iter().enumerate().filter_map(|(number, key)| {
        let accesses = stats.keys.get(key)?.accesses;
        Some(format!("{number} {accesses}"))
    })
}

/// A line for each run of keys with the same first bytes: number of the run's first key, prefix.
pub(super) fn prefix_lines(keys: &[Vec<u8>], bytes: usize) -> impl Iterator<Item = String> {
    let cut = move |key: &[u8]| key.get(..bytes).unwrap_or(key).to_vec();
    let mut before = None;
    keys.iter().enumerate().filter_map(move |(number, key)| {
        let prefix = Some(cut(key));
        if before == prefix {
            return None;
        }
        before = prefix;
        Some(format!("{number} {}", key_text(before.as_deref()?)))
    })
}
