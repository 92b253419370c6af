//! Commands on families, snapshots, properties and options.

use super::Out;
use super::database::{DbShell, no_family};
use super::print::{RowForm, json_text};
use super::words::{key_text, message_text};
use crate::failure::{CommandOutcome, Failure};
use crate::info::{changed_of_database, changed_of_family};
use crate::units;
use esker::observe::Property;
use esker::options::OptionStruct;
use esker::{ColumnFamilyHandle, FlushOptions};
use std::io::Write;

/// The names of the properties that take no number, without `rocksdb.` before them.
pub(super) fn properties() -> Vec<&'static str> {
    let names = Property::ALL.iter().map(|property| property.name().trim_start_matches("rocksdb."));
    names
        .filter(|name| *name == "base-level" || !name.ends_with("-level") && !name.ends_with("level"))
        .collect()
}

/// The name and text of each option that has a text.
fn texts<T: OptionStruct>(prefix: &str, options: &T) -> Vec<(String, String)> {
    let text = |option: &esker::options::OptionInfo<T>| {
        Some((format!("{prefix}{}", option.name), (option.text.as_ref()?.print)(options)))
    };
    T::all_options().iter().filter_map(text).collect()
}

/// The names of all options, for completion.
#[cfg(feature = "shell")]
pub(super) fn option_names() -> Vec<String> {
    let names = |texts: Vec<(String, String)>| texts.into_iter().map(|(name, _)| name);
    names(texts("", &esker::ColumnFamilyOptions::default()))
        .chain(names(texts("table.", &esker::options::BlockBasedTableOptions::default())))
        .chain(names(texts("", &esker::DbOptions::default())))
        .collect()
}

impl DbShell<'_> {
    fn families(&self) -> Vec<ColumnFamilyHandle> {
        self.db.column_family_names().iter().filter_map(|name| self.db.column_family(name)).collect()
    }

    pub(super) fn list_families(&self, out: &mut Out) -> CommandOutcome {
        let names: Vec<_> = self.families().iter().map(|f| key_text(f.name().as_bytes())).collect();
        let width = names.iter().map(|name| console::measure_text_width(name)).max().unwrap_or(0);
        for (family, name) in self.families().iter().zip(&names) {
            let number = |property: &str| self.db.int_property_cf(family, property).unwrap_or(0);
            let keys = number("rocksdb.estimate-num-keys");
            let bytes = number("rocksdb.live-sst-files-size");
            if self.printer.form == RowForm::Json {
                let name = family.name();
                let object = serde_json::json!({ "family": name, "keys": keys, "table_bytes": bytes });
                writeln!(out, "{}", json_text(&object.to_string()))?;
                continue;
            }
            let padding = " ".repeat(width - console::measure_text_width(name));
            let mark = if family.id() == self.family.id() { "*" } else { " " };
            let (keys, bytes) = (units::counted(keys, "key"), units::bytes(bytes));
            writeln!(out, "{mark} {name}{padding}  about {keys}, {bytes} in tables")?;
        }
        Ok(())
    }

    pub(super) fn use_family(&mut self, name: &str) -> CommandOutcome {
        self.family = self.db.column_family(name).ok_or_else(|| no_family(name, &self.db))?;
        self.rest = None;
        Ok(())
    }

    fn check_no_transaction(&self) -> CommandOutcome {
        match &self.transaction {
            None => Ok(()),
            Some(_) => Err(Failure::new("families are no part of a transaction: commit or rollback first")),
        }
    }

    pub(super) fn create_family(&mut self, name: &str, out: &mut Out) -> CommandOutcome {
        self.check_no_transaction()?;
        match &self.locking {
            Some(locking) => locking.create_column_family(name, &self.new_family)?,
            None => self.db.create_column_family(name, &self.new_family)?,
        };
        self.say_ok(out)
    }

    pub(super) fn drop_family(&mut self, name: &str, is_forced: bool, out: &mut Out) -> CommandOutcome {
        self.check_no_transaction()?;
        let family = self.db.column_family(name).ok_or_else(|| no_family(name, &self.db))?;
        if !is_forced {
            self.confirm_drop(&family, out)?;
        }
        match &self.locking {
            Some(locking) => locking.drop_column_family(&family)?,
            None => self.db.drop_column_family(&family)?,
        }
        if family.id() == self.family.id() {
            self.family = self.db.default_column_family();
            self.rest = None;
        }
        self.say_ok(out)
    }

    /// Asks for the name of the family again.
    fn confirm_drop(&self, family: &ColumnFamilyHandle, out: &mut Out) -> CommandOutcome {
        let name = family.name();
        if !self.is_interactive {
            let shown = key_text(name.as_bytes());
            return Err(Failure::new(format_args!(
                "drop_family asks for a confirmation, and there is no terminal; drop_family {shown} force asks nothing"
            )));
        }
        let keys = self.db.int_property_cf(family, "rocksdb.estimate-num-keys").unwrap_or(0);
        let keys = units::counted(keys, "key");
        write!(out, "This removes the family and about {keys} for good. Type its name to go on: ")?;
        out.flush()?;
        let mut answer = String::new();
        self.host.input().read_line(&mut answer)?;
        match answer.trim() == name {
            true => Ok(()),
            false => Err(Failure::new("nothing is dropped")),
        }
    }

    pub(super) fn take_snapshot(&mut self, out: &mut Out) -> CommandOutcome {
        self.taken += 1;
        let snapshot = self.db.snapshot();
        let (number, sequence) = (self.taken, snapshot.sequence());
        self.snapshots.insert(number, snapshot);
        if !self.is_interactive {
            return Ok(());
        }
        Ok(writeln!(out, "snapshot {number} at sequence number {sequence}")?)
    }

    pub(super) fn list_snapshots(&self, out: &mut Out) -> CommandOutcome {
        for (number, snapshot) in &self.snapshots {
            let mark = if self.used == Some(*number) { "*" } else { " " };
            writeln!(out, "{mark} {number}  sequence number {}", snapshot.sequence())?;
        }
        Ok(())
    }

    fn number_of_snapshot(&self, text: &str) -> CommandOutcome<u64> {
        let number = text.parse().ok().filter(|number| self.snapshots.contains_key(number));
        number.ok_or_else(|| Failure::new(format_args!("there is no snapshot {text}: snapshot list")))
    }

    pub(super) fn use_snapshot(&mut self, text: &str) -> CommandOutcome {
        self.used = if text == "latest" { None } else { Some(self.number_of_snapshot(text)?) };
        self.rest = None;
        Ok(())
    }

    pub(super) fn release_snapshot(&mut self, text: &str, out: &mut Out) -> CommandOutcome {
        let number = self.number_of_snapshot(text)?;
        self.snapshots.remove(&number);
        self.used = self.used.filter(|used| *used != number);
        self.say_ok(out)
    }

    pub(super) fn list_properties(&self, out: &mut Out) -> CommandOutcome {
        properties().iter().try_for_each(|name| Ok(writeln!(out, "{name}")?))
    }

    pub(super) fn print_property(&self, name: &str, out: &mut Out) -> CommandOutcome {
        let full = match name.starts_with("rocksdb.") {
            true => name.to_owned(),
            false => format!("rocksdb.{name}"),
        };
        let is_text = matches!(full.as_str(), "rocksdb.cfstats" | "rocksdb.dbstats" | "rocksdb.levelstats");
        let map = if is_text { None } else { self.db.map_property_cf(&self.family, &full) };
        if let Some(map) = map {
            let lines = map.iter().map(|(key, value)| message_text(&format!("{key}: {value}")));
            return lines.into_iter().try_for_each(|line| Ok(writeln!(out, "{line}")?));
        }
        let missing = || Failure::new(format_args!("there is no property '{name}'; property lists them"));
        let text = self.db.property_cf(&self.family, &full).ok_or_else(missing)?;
        Ok(writeln!(out, "{}", message_text(text.trim_end()))?)
    }

    /// Prints the options that differ from their defaults, the one called `name`, or those whose
    /// names contain it.
    pub(super) fn print_options(&self, name: Option<&str>, out: &mut Out) -> CommandOutcome {
        let (of_family, of_database) = (self.db.options_cf(&self.family), self.db.db_options());
        let Some(name) = name else {
            let changed = changed_of_family(&of_family).into_iter().chain(changed_of_database(&of_database));
            for option in changed {
                let value = message_text(&option.value);
                writeln!(out, "{}={value}  (default {})", option.name, option.default)?;
            }
            return Ok(());
        };
        let mut all = texts("", &of_family);
        all.extend(texts("table.", &of_family.table));
        all.extend(texts("", &of_database));
        if let Some((_, value)) = all
            .iter()
            .find(|(other, _)| other.trim_start_matches("table.") == name.trim_start_matches("table."))
        {
            return Ok(writeln!(out, "{}", message_text(value))?);
        }
        all.retain(|(other, _)| other.contains(name));
        if all.is_empty() {
            return Err(Failure::new(format_args!("no option has '{name}' in its name")));
        }
        all.iter().try_for_each(|(name, value)| Ok(writeln!(out, "{name}={}", message_text(value))?))
    }

    pub(super) fn flush(&self, out: &mut Out) -> CommandOutcome {
        self.db.flush_opt(&FlushOptions::default(), &[&self.family])?;
        self.say_ok(out)
    }
}
