//! The merge operators of the families.
//!
//! In: the OPTIONS file, which names the operator of each family; a value and operands. Out: the
//! value that RocksDB's operator of that name makes of them ([`builtin`]).

use crate::files::DirectoryFiles;
use esker_base::{Error, Result};
use esker_format::builtin;
use esker_format::options_file::{OptionsFile, SectionKind};
use std::collections::BTreeMap;

/// The operator of each family that has one: its text in the OPTIONS file.
#[derive(Debug, Default)]
pub(crate) struct MergeOperators(BTreeMap<String, String>);

impl MergeOperators {
    /// Reads the newest OPTIONS file. A database without a readable one has no operators, because
    /// RocksDB needs none to open it.
    pub(crate) fn of(files: &DirectoryFiles) -> MergeOperators {
        let Some(file) = files.options().and_then(|bytes| OptionsFile::parse(bytes).ok()) else {
            return MergeOperators::default();
        };
        let named = |kind: SectionKind, text: Option<String>| match (kind, text) {
            (SectionKind::CfOptions(family), Some(text)) if text != "nullptr" => Some((family, text)),
            _ => None,
        };
        let sections = file.sections.into_iter();
        let operators = sections.filter_map(|section| {
            let text = section.text("merge_operator").map(|text| text.into_owned());
            named(section.kind, text)
        });
        MergeOperators(operators.collect())
    }

    /// The merged value of a key. `operands` are the newest first.
    /// # Errors
    /// `NotSupported` if the family has no operator of RocksDB · `Corruption` if it refuses the
    /// operands.
    pub(crate) fn merge(
        &self,
        family: &str,
        user_key: &[u8],
        existing: Option<&[u8]>,
        operands: &[Vec<u8>],
    ) -> Result<Vec<u8>> {
        let key = user_key.escape_ascii();
        let text = self.0.get(family).map(String::as_str);
        let operator = text.and_then(builtin::merge_operator).ok_or_else(|| {
            let operator = text.unwrap_or("no operator");
            Error::not_supported(format!("key '{key}' has merge operands, and OPTIONS names {operator}"))
        })?;
        let operands: Vec<&[u8]> = operands.iter().rev().map(Vec::as_slice).collect();
        operator
            .full_merge(user_key, existing, &operands)
            .ok_or_else(|| Error::corruption(format!("key '{key}': the merge operator refuses its operands")))
    }
}
