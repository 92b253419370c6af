//! How do I see what the database does? Statistics, properties and a listener.
//!
//! Run: `cargo run -p esker --example watch`
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use esker::observe::{EventListener, FlushJobInfo};
use esker::options::Statistics;
use esker::stats::Ticker;
use esker::{Db, Options};
use std::sync::Arc;

struct Printer;

impl EventListener for Printer {
    fn on_flush_completed(&self, info: &FlushJobInfo) {
        println!("flushed {} entries of '{}' into file {}", info.num_entries, info.cf_name, info.file_number);
    }
}

fn main() -> esker::Result<()> {
    let dir = std::env::temp_dir().join(format!("esker-example-watch-{}", std::process::id()));
    let statistics = Arc::new(Statistics::new());
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.statistics = Some(statistics.clone());
    options.db.listeners.push(Arc::new(Printer));
    let db = Db::open(&options, &dir)?;

    for i in 0..10_000 {
        db.put(format!("key-{i:05}"), "value")?;
    }
    db.flush()?;
    for i in 0..100 {
        db.get(format!("key-{:05}", i * 100))?;
    }
    println!("bytes written: {}", statistics.ticker_count(Ticker::BytesWritten));
    println!("block cache hits: {}", statistics.ticker_count(Ticker::BlockCacheHit));
    println!("keys, estimated: {:?}", db.int_property("rocksdb.estimate-num-keys"));
    println!("{}", db.property("rocksdb.levelstats").unwrap_or_default());

    drop(db);
    esker::destroy_db(&options.db, &dir)
}
