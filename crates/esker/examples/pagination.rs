//! How do I show a long list page by page, without holding an iterator between requests?
//!
//! Run: `cargo run -p esker --example pagination`
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use esker::{Db, Options, ReadOptions};

/// A page: up to `size` keys after `after`, all with `prefix`. Also the start of the next page, if
/// there is one.
fn page(
    db: &Db,
    prefix: &str,
    after: Option<&str>,
    size: usize,
) -> esker::Result<(Vec<String>, Option<String>)> {
    let mut end = prefix.as_bytes().to_vec();
    *end.last_mut().expect("a prefix is not empty") += 1; // The first key behind the prefix.
    let options = ReadOptions::new().lower_bound(prefix).upper_bound(end);
    let mut iter = db.iter_opt(options, &db.default_column_family())?;
    match after {
        // The smallest key larger than `after` is `after` and a zero byte.
        Some(after) => iter.seek([after.as_bytes(), b"\0"].concat()),
        None => iter.seek_to_first(),
    }
    let mut keys = Vec::new();
    while keys.len() < size
        && let Some((key, _)) = iter.item()
    {
        keys.push(String::from_utf8_lossy(key).into_owned());
        iter.next();
    }
    iter.status()?;
    let next = if iter.valid() { keys.last().cloned() } else { None };
    Ok((keys, next))
}

fn main() -> esker::Result<()> {
    let dir = std::env::temp_dir().join(format!("esker-example-pages-{}", std::process::id()));
    let mut options = Options::default();
    options.db.create_if_missing = true;
    let db = Db::open(&options, &dir)?;
    for i in 0..25 {
        db.put(format!("order/{i:03}"), "")?;
    }
    db.put("person/1", "")?;

    let (mut cursor, mut pages) = (None, 0);
    loop {
        let (keys, next) = page(&db, "order/", cursor.as_deref(), 10)?;
        pages += 1;
        println!("page {pages}: {} to {}", keys[0], keys[keys.len() - 1]);
        if next.is_none() {
            break;
        }
        cursor = next;
    }
    assert_eq!(pages, 3);

    drop(db);
    esker::destroy_db(&options.db, &dir)
}
