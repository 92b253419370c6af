//! A slice of the damage campaign: some databases of both versions, few of their bytes. `cargo
//! xtask long compat` runs all.

use esker_peer::damage::{DamageTally, campaign};
use esker_peer::{fixture, note};

#[test]
fn damaged_databases_are_read_rightly_or_refused_with_the_files_name() {
    let mut all = DamageTally::default();
    for name in [
        "v7_8_deletes",
        "v7_8_blob",
        "v7_8_range_del",
        "v11_8_udt",
        "v11_9_default",
        "v11_9_wide_columns",
        "v11_9_udt",
    ] {
        for fixture in fixture::all(&[name]).iter().filter(|f| f.is_database()) {
            all.add(campaign(fixture, 499, 40));
        }
    }
    note(&format!("{all:?}"));
    assert!(all.findings.is_empty(), "{}", all.findings.join("\n"));
    assert!(all.cases > 1000 && all.errors > 500 && all.repaired > 10, "{all:?}");
}
