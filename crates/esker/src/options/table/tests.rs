use super::*;
use crate::options::{BlockBasedTableOptions, ColumnFamilyOptions, DbOptions};
use std::collections::HashSet;

/// Invariants 1 and 2 of the module, for a struct at its defaults.
fn check_table<T: OptionStruct + Default>() {
    let mut names = HashSet::new();
    for option in T::all_options() {
        assert!(names.insert(option.name), "{} stands twice", option.name);
        assert_eq!(option.text.is_none(), option.kind == OptionKind::Object, "{}", option.name);
        let Some(text) = &option.text else { continue };
        let printed = (text.print)(&T::default());
        let mut parsed = T::default();
        (text.parse)(&mut parsed, &printed).unwrap_or_else(|e| panic!("{}={printed}: {e}", option.name));
        assert_eq!((text.print)(&parsed), printed, "{}", option.name);
    }
}

#[test]
fn every_option_comes_back_from_its_text() {
    check_table::<DbOptions>();
    check_table::<ColumnFamilyOptions>();
    check_table::<BlockBasedTableOptions>();
}

#[test]
fn every_option_is_explained() {
    let explained =
        |help: &str| help.contains("Default") || help.contains("Mutable") || help.contains("Fixed");
    for option in DbOptions::all_options() {
        assert!(explained(option.help), "{}: {}", option.name, option.help);
    }
    for option in ColumnFamilyOptions::all_options() {
        let told = explained(option.help);
        assert!(told, "{}: {}", option.name, option.help);
        let says = if option.kind == OptionKind::Mutable { "Mutable" } else { "Fixed" };
        assert!(option.help.contains(says), "{}: help does not say {says}", option.name);
    }
}

#[test]
fn names_with_capitals_are_rocksdbs() {
    let mut db = DbOptions::default();
    db.set_text("WAL_ttl_seconds", "60").unwrap();
    assert_eq!(db.wal_ttl_seconds, 60);
    assert!(db.set_text("wal_ttl_seconds", "60").is_err());
}

#[test]
fn a_string_of_options_is_all_or_nothing() {
    let mut db = DbOptions::default();
    assert!(db.set_from_string("max_open_files=7;bytes_per_sync=x").is_err());
    assert_eq!(db.max_open_files, -1);
    db.set_from_string("max_open_files=7; bytes_per_sync=1M;").unwrap();
    assert_eq!((db.max_open_files, db.bytes_per_sync), (7, 1 << 20));
    assert!(db.set_text("statistics", "x").unwrap_err().message().contains("object"));
}
