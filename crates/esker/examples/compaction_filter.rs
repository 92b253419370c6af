//! How do I drop entries by a rule of my own during compactions?
//!
//! Run: `cargo run -p esker --example compaction_filter`
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use esker::compaction_filter::{CompactionFilter, FilterDecision};
use esker::{Db, Options};
use std::sync::Arc;

/// Drops drafts.
struct NoDrafts;

impl CompactionFilter for NoDrafts {
    fn name(&self) -> &str {
        "example.NoDrafts"
    }

    fn filter(&self, _level: usize, _key: &[u8], value: &[u8]) -> FilterDecision {
        if value.starts_with(b"draft:") { FilterDecision::Remove } else { FilterDecision::Keep }
    }
}

fn main() -> esker::Result<()> {
    let dir = std::env::temp_dir().join(format!("esker-example-filter-{}", std::process::id()));
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.cf.compaction_filter = Some(Arc::new(NoDrafts));
    let db = Db::open(&options, &dir)?;
    db.put("page 1", "draft: glaciers")?;
    db.put("page 2", "eskers are ridges")?;
    db.compact_range(None, None)?;
    assert_eq!(db.get("page 1")?, None);
    assert!(db.get("page 2")?.is_some());
    println!("the draft is gone");

    drop(db);
    esker::destroy_db(&options.db, &dir)
}
