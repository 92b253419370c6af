//! Iterators over several families (`coalescing_iter`).

use esker::comparator::{BytewiseComparatorWithU64Ts, ReverseBytewiseComparator};
use esker::internals::base::rng::split_mix;
use esker::internals::env::mem::MemFs;
use esker::{CoalescingIterator, ColumnFamilyHandle, Db, Env, ErrorKind, Options, ReadOptions, WriteOptions};
use std::collections::BTreeMap;
use std::sync::Arc;

type Columns = BTreeMap<String, String>;

/// The columns of each family under each key.
type Model = BTreeMap<String, BTreeMap<usize, Columns>>;

fn open(reverse: bool) -> (Db, Vec<ColumnFamilyHandle>) {
    let mut options = Options::new().create_if_missing(true);
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    if reverse {
        options.cf.comparator = Arc::new(ReverseBytewiseComparator);
    }
    let db = Db::open(&options, "/db").unwrap();
    let mut families = vec![db.default_column_family()];
    families.extend(["one", "two"].map(|name| db.create_column_family(name, &options.cf).unwrap()));
    (db, families)
}

fn bytes(columns: &Columns) -> Vec<(&[u8], &[u8])> {
    columns.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect()
}

/// Writes and deletes at random.
fn fill(db: &Db, families: &[ColumnFamilyHandle], random: &mut impl FnMut(u64) -> u64) -> Model {
    let mut model = Model::new();
    for i in 0..300 {
        let (family, key) = (random(3) as usize, format!("key{:02}", random(40)));
        let columns: Columns = match random(4) {
            0 => [(String::new(), format!("value{i}"))].into(),
            1 => [("a", i), ("b", i + 1)].map(|(name, n)| (name.to_owned(), n.to_string())).into(),
            2 => [("", i), ("b", i + 1)].map(|(name, n)| (name.to_owned(), n.to_string())).into(),
            _ => Columns::new(),
        };
        if columns.is_empty() {
            db.delete_cf(&families[family], &key).unwrap();
            model.entry(key).or_default().remove(&family);
        } else {
            let stored = bytes(&columns);
            db.put_entity(&WriteOptions::default(), &families[family], &key, &stored).unwrap();
            model.entry(key).or_default().insert(family, columns);
        }
        if random(60) == 0 {
            db.flush().unwrap();
        }
    }
    model.retain(|_, families| !families.is_empty());
    model
}

/// Compares what the iterator shows with the model's entry, or with none.
fn compare(iter: &CoalescingIterator, expected: Option<(&String, &BTreeMap<usize, Columns>)>, step: &str) {
    iter.status().unwrap();
    let Some((key, families)) = expected else {
        assert!(!iter.valid(), "{step}");
        assert!(iter.columns().is_empty() && iter.attribute_groups().is_empty(), "{step}");
        return;
    };
    assert!(iter.valid(), "{step}");
    assert_eq!(iter.key(), key.as_bytes(), "{step}");
    let together: Columns = families.values().flatten().map(|(n, v)| (n.clone(), v.clone())).collect();
    assert_eq!(iter.columns(), bytes(&together), "{step}");
    assert_eq!(iter.value(), together.get("").map_or("", |value| value).as_bytes(), "{step}");
    let groups = iter.attribute_groups();
    let groups = groups.iter().map(|(family, columns)| (family.id().0 as usize, columns.clone()));
    let expected = families.iter().map(|(family, columns)| (*family, bytes(columns)));
    assert_eq!(groups.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{step}");
}

#[test]
fn an_iterator_over_families_shows_the_union_of_their_keys_and_columns() {
    for (seed, reverse) in [(0, false), (1, true), (2, false), (3, true)] {
        let (db, families) = open(reverse);
        let mut state: u64 = seed << 32;
        let mut random = move |bound: u64| {
            state += 1;
            split_mix(state) % bound
        };
        let model = fill(&db, &families, &mut random);
        let all: Vec<_> = families.iter().collect();
        let mut iter = db.coalescing_iter(&ReadOptions::default(), &all).unwrap();
        // A later write is not seen.
        db.put_cf(&families[1], "key00a", "later").unwrap();
        let deleted = if reverse { ("key20", "key00") } else { ("key00", "key20") };
        db.delete_range(deleted.0, deleted.1).unwrap();
        let mut keys: Vec<_> = model.iter().collect();
        if reverse {
            keys.reverse();
        }
        let is_before = |a: &str, b: &str| if reverse { a > b } else { a < b };
        let mut at: Option<usize> = None;
        for i in 0..2_000 {
            let target = format!("key{:02}", random(42));
            let what = random(9);
            match what {
                0 => {
                    iter.seek_to_first();
                    at = (!keys.is_empty()).then_some(0);
                }
                1 => {
                    iter.seek_to_last();
                    at = keys.len().checked_sub(1);
                }
                2 => {
                    iter.seek(&target);
                    at = keys.iter().position(|(key, _)| !is_before(key, &target));
                }
                3 => {
                    iter.seek_for_prev(&target);
                    at = keys.iter().rposition(|(key, _)| !is_before(&target, key));
                }
                4..=6 => {
                    iter.next();
                    at = at.map(|at| at + 1).filter(|at| *at < keys.len());
                }
                _ => {
                    iter.prev();
                    at = at.and_then(|at| at.checked_sub(1));
                }
            }
            compare(&iter, at.map(|at| keys[at]), &format!("seed {seed}, step {i}, move {what}"));
        }
    }
}

#[test]
fn bounds_and_snapshots_count_for_all_families() {
    let (db, families) = open(false);
    for (i, family) in families.iter().enumerate() {
        (0..9).for_each(|key| db.put_cf(family, key.to_string(), i.to_string()).unwrap());
    }
    let before = db.snapshot();
    families.iter().for_each(|family| db.put_cf(family, "4", "new").unwrap());
    let all: Vec<_> = families.iter().collect();
    let options = ReadOptions::new().lower_bound("3").upper_bound("6").snapshot(&before);
    let mut iter = db.coalescing_iter(&options, &all).unwrap();
    let mut seen = Vec::new();
    iter.seek_to_first();
    while iter.valid() {
        seen.push((iter.key().to_vec(), iter.value().to_vec()));
        iter.next();
    }
    assert_eq!(seen, [("3", "2"), ("4", "2"), ("5", "2")].map(|(k, v)| (k.into(), v.into())));
}

#[test]
fn families_that_do_not_go_together_are_refused_by_name() {
    let (db, families) = open(false);
    let kind = |options: &ReadOptions, families: &[&ColumnFamilyHandle]| {
        let error = db.coalescing_iter(options, families).unwrap_err();
        (error.kind(), error.to_string())
    };
    let plain = ReadOptions::default();
    assert_eq!(kind(&plain, &[]).0, ErrorKind::InvalidArgument);
    let mut reversed = Options::default().cf;
    reversed.comparator = Arc::new(ReverseBytewiseComparator);
    let reversed = db.create_column_family("reversed", &reversed).unwrap();
    let (error, text) = kind(&plain, &[&families[0], &reversed]);
    assert_eq!(error, ErrorKind::InvalidArgument);
    assert!(text.contains("'reversed'"), "{text}");
    let mut stamped = Options::default().cf;
    stamped.comparator = Arc::new(BytewiseComparatorWithU64Ts);
    let stamped = db.create_column_family("stamped", &stamped).unwrap();
    assert_eq!(kind(&plain, &[&stamped]).0, ErrorKind::NotSupported);
    let (_other, foreign) = open(false);
    assert_eq!(kind(&plain, &[&families[0], &foreign[1]]).0, ErrorKind::InvalidArgument);
}
