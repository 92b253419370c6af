//! Objects that a user supplies may have any name: the directory opens again.

use esker::comparator::Comparator;
use esker::internals::env::mem::MemFs;
use esker::merge_operator::MergeOperator;
use esker::prefix::SliceTransform;
use esker::{Db, Env, Options};
use std::cmp::Ordering;
use std::sync::Arc;

struct Named(String);

impl Comparator for Named {
    fn name(&self) -> &str {
        &self.0
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }
}

impl MergeOperator for Named {
    fn name(&self) -> &str {
        &self.0
    }
    fn full_merge(&self, _key: &[u8], _existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        Some(operands.concat())
    }
}

impl SliceTransform for Named {
    fn name(&self) -> &str {
        &self.0
    }
    fn transform<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
        key.get(..1)
    }
}

#[test]
fn objects_of_any_name_leave_an_options_file_that_can_be_read() {
    let names = [
        "",
        " ",
        "nullptr",
        "None",
        " a ",
        "a b",
        "a;b",
        "{a}",
        "{",
        "}",
        "a=b",
        "id=a",
        "id=a;b=c",
        "a\nb",
        "#a",
        "a:b",
        "[DBOptions]",
        "\\",
        "\"",
        "é",
        "{id=x;y={",
        "bytewise",
        "put",
        "leveldb.BytewiseComparator",
        "rocksdb.FixedPrefix.3",
        "StringAppendOperator",
    ];
    type Install = fn(&mut Options, &str);
    let kinds: [(&str, Install); 3] = [
        ("comparator", |options, name| options.cf.comparator = Arc::new(Named(name.to_owned()))),
        ("merge operator", |options, name| {
            options.cf.merge_operator = Some(Arc::new(Named(name.to_owned())))
        }),
        ("prefix extractor", |options, name| {
            options.cf.prefix_extractor = Some(Arc::new(Named(name.to_owned())))
        }),
    ];
    let mut failed = Vec::new();
    for (kind, install) in kinds {
        for name in names {
            let mut options = Options::default();
            options.db.create_if_missing = true;
            options.db.env = Env::with_fs(Arc::new(MemFs::new()));
            install(&mut options, name);
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| -> Result<(), String> {
                for round in 0..2 {
                    let db = Db::open(&options, "/db").map_err(|e| format!("open {round}: {e}"))?;
                    db.put("a", "b").map_err(|e| e.to_string())?;
                    db.flush().map_err(|e| e.to_string())?;
                    let loaded =
                        esker::options::load_latest_options_from(options.db.env.fs.as_ref(), "/db".as_ref());
                    drop(loaded.map_err(|e| format!("load {round}: {e}"))?);
                }
                Ok(())
            }));
            match outcome {
                Err(_) => failed.push(format!("{kind} {name:?}: panicked")),
                Ok(Err(e)) => failed.push(format!("{kind} {name:?}: {e}")),
                Ok(Ok(())) => {}
            }
        }
    }
    assert_eq!(failed, Vec::<String>::new());
}
