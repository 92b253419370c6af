//! Why was this read slow? The report has one line for each source that the read searched.
//!
//! Run: `cargo run -p esker --example explain`
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use esker::{Db, Options, ReadOptions};

fn main() -> esker::Result<()> {
    let dir = std::env::temp_dir().join(format!("esker-example-explain-{}", std::process::id()));
    let mut options = Options::default();
    options.db.create_if_missing = true;
    let db = Db::open(&options, &dir)?;
    for round in 0..3 {
        for i in (round..1_000).step_by(3) {
            db.put(format!("key-{i:04}"), format!("value of round {round}"))?;
        }
        db.flush()?;
    }

    let explanation = db.explain_get(&ReadOptions::new(), &db.default_column_family(), "key-0500")?;
    println!("{explanation}");

    drop(db);
    esker::destroy_db(&options.db, &dir)
}
