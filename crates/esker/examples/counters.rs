//! How do I count without reading first, and how do I write a merge operator of my own?
//!
//! Run: `cargo run -p esker --example counters`
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use esker::merge_operator::AssociativeMergeOperator;
use esker::{ColumnFamilyOptions, Db, Options, builtin};
use std::sync::Arc;

/// Keeps the longest of all operands.
struct Longest;

impl AssociativeMergeOperator for Longest {
    fn name(&self) -> &str {
        "example.Longest"
    }

    fn merge(&self, _key: &[u8], existing: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>> {
        let longest = existing.filter(|value| value.len() >= operand.len()).unwrap_or(operand);
        Some(longest.to_vec())
    }
}

fn main() -> esker::Result<()> {
    let dir = std::env::temp_dir().join(format!("esker-example-counters-{}", std::process::id()));
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.cf.merge_operator = Some(builtin::uint64_add());
    let db = Db::open(&options, &dir)?;

    // Threads may merge the same key at once: a merge reads no value, so no count is lost.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..250).try_for_each(|_| db.merge("visits", 1u64.to_le_bytes())));
        }
    });
    let visits = db.get("visits")?.expect("it was merged");
    println!("visits: {}", u64::from_le_bytes(visits.try_into().expect("eight bytes")));

    let of_words = ColumnFamilyOptions::default().merge_operator(Some(Arc::new(Longest)));
    let words = db.create_column_family("words", &of_words)?;
    for word in ["ridge", "moraine", "esker"] {
        db.merge_opt(&Default::default(), &words, "longest", word)?;
    }
    assert_eq!(db.get_cf(&words, "longest")?.as_deref(), Some(&b"moraine"[..]));
    println!("longest: moraine");

    drop((words, db));
    esker::destroy_db(&options.db, &dir)
}
