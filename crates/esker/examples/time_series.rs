//! How do I store measurements by time, read the newest, and delete old ones cheaply?
//!
//! Run: `cargo run -p esker --example time_series`
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use esker::{Db, Options, RangeOpt, ReadOptions};

/// A key for a sensor and a second. Big-endian bytes sort as the numbers do.
fn key(sensor: u16, second: u64) -> [u8; 10] {
    let mut key = [0; 10];
    key[..2].copy_from_slice(&sensor.to_be_bytes());
    key[2..].copy_from_slice(&second.to_be_bytes());
    key
}

/// Up to `count` values of a sensor, newest first.
fn newest(db: &Db, sensor: u16, count: usize) -> esker::Result<Vec<String>> {
    let of_sensor = ReadOptions::new().lower_bound(key(sensor, 0)).upper_bound(key(sensor + 1, 0));
    let mut iter = db.iter_opt(of_sensor, &db.default_column_family())?;
    let mut values = Vec::new();
    iter.seek_to_last();
    while values.len() < count
        && let Some((_, value)) = iter.item()
    {
        values.push(String::from_utf8_lossy(value).into_owned());
        iter.prev();
    }
    iter.status()?;
    Ok(values)
}

fn main() -> esker::Result<()> {
    let dir = std::env::temp_dir().join(format!("esker-example-series-{}", std::process::id()));
    let mut options = Options::default();
    options.db.create_if_missing = true;
    let db = Db::open(&options, &dir)?;
    for second in 0..10_000 {
        for sensor in 0..3 {
            db.put(key(sensor, second), format!("{}", 20 + second % 7))?;
        }
    }

    println!("sensor 1, newest first: {:?}", newest(&db, 1, 5)?);

    // One tombstone hides all values older than second 9000, however many there are.
    db.delete_range(key(1, 0), key(1, 9_000))?;
    // Files completely within the range are deleted at once; compactions remove the other values.
    let (start, limit) = (key(1, 0), key(1, 9_000));
    let old = RangeOpt { start: Some(&start), limit: Some(&limit) };
    db.delete_files_in_ranges(&db.default_column_family(), &[old], false)?;

    assert_eq!(newest(&db, 1, usize::MAX)?.len(), 1_000);

    drop(db);
    esker::destroy_db(&options.db, &dir)
}
