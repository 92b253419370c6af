//! The merge operator over named functions, in a database.

use esker::agg_merge::{
    Aggregator, ERROR_FUNC_NAME, UNNAMED_FUNC_NAME, add_aggregator, agg_merge_operator,
    encode_agg_func_and_payload, extract_agg_func_and_value, extract_list,
};
use esker::internals::env::mem::MemFs;
use esker::{Db, Env, Options};
use esker_testkit::seed::for_each_seed;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Numbers as text, combined by a function.
struct Fold(fn(i64, i64) -> i64, bool);

impl Aggregator for Fold {
    fn aggregate(&self, values: &[&[u8]]) -> Option<Vec<u8>> {
        let number = |text: &&[u8]| std::str::from_utf8(text).ok()?.parse::<i64>().ok();
        let folded = values.iter().map(number).reduce(|a, b| Some((self.0)(a?, b?)))??;
        Some(folded.to_string().into_bytes())
    }
    fn do_partial_aggregate(&self) -> bool {
        self.1
    }
}

/// Functions in the order of [`NAMES`].
const FUNCTIONS: [fn(i64, i64) -> i64; 3] = [i64::wrapping_add, i64::max, |_, newest| newest];
const NAMES: [&str; 3] = ["it.sum", "it.max", "it.last"];

fn open(fs: &Arc<MemFs>) -> Db {
    for (name, function) in NAMES.iter().zip(FUNCTIONS) {
        add_aggregator(name, Box::new(Fold(function, *name != "it.last"))).unwrap();
    }
    let mut options = Options::new().create_if_missing(true);
    options.db.env = Env::with_fs(fs.clone());
    options.cf.merge_operator = Some(agg_merge_operator());
    Db::open(&options, "/db").unwrap()
}

#[test]
fn aggregates_are_those_of_a_model_through_flushes_and_compactions() {
    for_each_seed("aggregates", 20, |_, mut rng| {
        let fs = Arc::new(MemFs::new());
        let mut db = open(&fs);
        // For each key its last function, and its number.
        let mut model: BTreeMap<u8, (&str, i64)> = BTreeMap::new();
        for _ in 0..300 {
            let (key, number, choice) = (rng.u8(..6), i64::from(rng.u8(..100)), rng.usize(..3));
            match rng.u8(..40) {
                0 => db.flush().unwrap(),
                1 => db.compact_range(None, None).unwrap(),
                2 => {
                    drop(db);
                    db = open(&fs);
                }
                3 => {
                    let value = encode_agg_func_and_payload(UNNAMED_FUNC_NAME, number.to_string());
                    db.put([key], value.unwrap()).unwrap();
                    model.insert(key, ("", number));
                }
                _ => {
                    let operand = encode_agg_func_and_payload(NAMES[choice], number.to_string());
                    db.merge([key], operand.unwrap()).unwrap();
                    let former = model.get(&key).map(|(_, former)| *former);
                    let number = former.map_or(number, |former| FUNCTIONS[choice](former, number));
                    model.insert(key, (NAMES[choice], number));
                }
            }
        }
        for key in 0..6 {
            let stored = db.get([key]).unwrap();
            let found = stored.as_deref().map(|stored| {
                let (name, payload) = extract_agg_func_and_value(stored).unwrap();
                (String::from_utf8_lossy(name).into_owned(), String::from_utf8_lossy(payload).into_owned())
            });
            let expected = model.get(&key).map(|(name, number)| (name.to_string(), number.to_string()));
            assert_eq!(found, expected, "key {key}");
        }
    });
}

#[test]
fn operands_without_a_function_harm_no_other_key_and_come_back_as_a_list() {
    let fs = Arc::new(MemFs::new());
    let db = open(&fs);
    let sound = encode_agg_func_and_payload("it.sum", "1").unwrap();
    db.merge("bad", &sound).unwrap();
    db.merge("bad", b"\x06absentx").unwrap();
    db.merge("good", &sound).unwrap();
    for _ in 0..2 {
        let stored = db.get("bad").unwrap().unwrap();
        let (name, payload) = extract_agg_func_and_value(&stored).unwrap();
        assert_eq!(name, ERROR_FUNC_NAME);
        assert_eq!(extract_list(payload), Some(vec![&sound[..], b"\x06absentx"]));
        assert_eq!(db.get("good").unwrap().as_deref(), Some(&sound[..]));
        db.flush().unwrap();
        db.compact_range(None, None).unwrap();
    }
    drop(db);
    assert_eq!(open(&fs).get("good").unwrap().as_deref(), Some(&sound[..]));
}
