//! Checks that a database is opened with the merge operator of the operands it holds.
//!
//! In: the newest OPTIONS file, tables and WALs. Out: an error that names both operators.
//!
//! A table names its operator, and [`TableReader::open`](esker_table::TableReader::open) checks
//! that. A WAL names none, but the newest OPTIONS file does. If that file names another operator,
//! all tables of the family are opened here, also those that would stay closed.
//!
//! RocksDB compares no operators when it opens a database (docs/compat/entries.md).

use super::descriptor::ColumnFamilyDescriptor;
use crate::builtin::object_name;
use crate::files::open_table::open_file;
use crate::options::{ColumnFamilyOptions, load_latest_options_from};
use crate::version::VersionSet;
use esker_base::merge_operator::check_operands_of;
use esker_base::sync::Arc;
use esker_base::{ColumnFamilyId, Error, Result};
use esker_env::FileSystem;
use esker_table::TableCache;
use std::collections::BTreeMap;
use std::path::Path;

/// For each family whose operator is refused: why it does not take the operands of the one in the
/// newest OPTIONS file.
#[derive(Debug, Default)]
pub(super) struct FormerOperators(BTreeMap<String, Error>);

impl FormerOperators {
    /// Reads the OPTIONS file if any family has an operator. A missing or unreadable file refuses
    /// nothing.
    pub(super) fn of(
        fs: &dyn FileSystem,
        dir: &Path,
        families: &[ColumnFamilyDescriptor],
    ) -> FormerOperators {
        let mut former = FormerOperators::default();
        if families.iter().all(|family| family.options.merge_operator.is_none()) {
            return former;
        }
        let Ok(loaded) = load_latest_options_from(fs, dir) else { return former };
        let loaded: BTreeMap<&str, &ColumnFamilyOptions> =
            loaded.families.iter().map(|(name, options)| (name.as_str(), options)).collect();
        for family in families {
            let Some(operator) = &family.options.merge_operator else { continue };
            let Some(name) = loaded.get(family.name.as_str()).and_then(|options| operator_name(options))
            else {
                continue;
            };
            if let Err(e) = check_operands_of(&**operator, name) {
                former.0.insert(family.name.clone(), e.at(format!("column family '{}'", family.name)));
            }
        }
        former
    }

    /// Opens the tables of families whose operator has changed. A table with operands refuses by
    /// itself.
    /// # Errors
    /// `InvalidArgument` names the table and both operators · those of opening a table.
    pub(super) fn check_tables(
        &self,
        manifest: &VersionSet,
        tables: &BTreeMap<ColumnFamilyId, Arc<TableCache>>,
    ) -> Result<()> {
        for family in manifest.families().filter(|family| self.0.contains_key(family.name())) {
            let Some(of_family) = tables.get(&family.id()) else { continue };
            for (_, file) in family.current().all_files() {
                open_file(of_family, file)?;
            }
        }
        Ok(())
    }

    /// The error to give if a WAL has operands of this family.
    pub(super) fn refusal(&self, family: &str) -> Option<&Error> {
        self.0.get(family)
    }
}

/// The name of the operator in an OPTIONS file, built in or not.
fn operator_name(options: &ColumnFamilyOptions) -> Option<&str> {
    let unresolved = options.unresolved.iter().find(|(option, _)| option == "merge_operator");
    match (unresolved, &options.merge_operator) {
        (Some((_, text)), _) => Some(object_name(text)),
        (None, operator) => operator.as_ref().map(|operator| operator.name()),
    }
}
