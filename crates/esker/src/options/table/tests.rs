use super::*;
use crate::options::{BlockBasedTableOptions, ColumnFamilyOptions, DbOptions, MemtableFactory};
use std::collections::HashSet;

/// Invariants 1 and 2 of the module, for a struct at its defaults.
fn check_table<T: OptionStruct + Default>() {
    let mut names = HashSet::new();
    for option in T::all_options() {
        assert!(names.insert(option.name), "{} occurs twice", option.name);
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
        let is_explained = explained(option.help);
        assert!(is_explained, "{}: {}", option.name, option.help);
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
    assert!(db.set_text("listeners", "x").unwrap_err().message().contains("object"));
}

#[test]
fn names_that_rocksdb_ignores_are_ignored() {
    let mut db = DbOptions::default();
    db.set_from_string(
        "access_hint_on_compaction_start=NORMAL;rate_limiter_bytes_per_sec=1m;statistics=nullptr",
    )
    .unwrap();
    assert_eq!(db.rate_limiter.as_ref().unwrap().bytes_per_second(), 1 << 20);
    db.set_text("rate_limiter", "nullptr").unwrap();
    assert!(db.rate_limiter.is_none());
    assert!(db.set_text("rate_limiter", "0").is_err());
    assert!(db.set_text("filter_deletes", "true").unwrap_err().message().contains("no such option"));

    let mut cf = ColumnFamilyOptions::default();
    cf.set_from_string("filter_deletes=true;memtable=prefix_hash:1000;compaction_filter=nullptr").unwrap();
    assert_eq!(cf.memtable_factory, MemtableFactory::HashSkipList);
    assert!(cf.set_text("compaction_filter", "mine").is_err());
    for text in ["{id=VectorRepFactory;count=7;}", "vector"] {
        cf.set_text("memtable_factory", text).unwrap();
        assert_eq!(cf.text_of("memtable_factory").unwrap(), "VectorRepFactory");
    }
    assert!(cf.set_text("memtable_factory", "btree").unwrap_err().message().contains("'btree'"));
    BlockBasedTableOptions::default().set_text("hash_index_allow_collision", "true").unwrap();
}

/// The page lists exactly the options whose help says that they have no effect.
#[test]
fn options_without_effect_are_listed_with_the_reason() {
    fn of<T: OptionStruct>() -> Vec<&'static str> {
        let says_so = |help: &str| help.contains("Accepted without effect: ");
        T::all_options().iter().filter(|o| says_so(o.help)).map(|o| o.name).collect()
    }
    let page = include_str!("../../../../../docs/compat/options.md");
    let list = page.split_once("## Accepted without effect").unwrap().1.split_once("\n## ").unwrap().0;
    let section = |title: &str| -> Vec<&str> {
        let rest = list.split_once(&format!("### {title}\n")).unwrap().1;
        let rows = rest.split("\n### ").next().unwrap().lines();
        let cells = rows.filter_map(|row| row.strip_prefix("| `")?.split_once("` | "));
        cells
            .inspect(|(name, why)| assert!(why.len() > 10, "{name} has no reason"))
            .map(|(name, _)| name)
            .collect()
    };
    let sorted = |mut names: Vec<&'static str>| {
        names.sort_unstable();
        names
    };
    assert_eq!(sorted(section("Of the database")), sorted(of::<DbOptions>()));
    assert_eq!(sorted(section("Of a family")), sorted(of::<ColumnFamilyOptions>()));
    for name in section("Of tables") {
        assert!(BlockBasedTableOptions::find(name).is_some(), "{name}");
    }
}
