//! Answers of filters, as `PerfContext` counts them: false positives are a fingerprint of a schema.

use esker::internals::env::mem::MemFs;
use esker::options::FilterPolicy;
use esker::perf_context::PerfContext;
use esker::{Db, Env, Options};
use std::sync::Arc;

/// Phase "filter" of `c_test.c` of RocksDB 11.8.1, which expects these counts of 10,000.
#[test]
fn filters_answer_absent_keys_as_those_of_rocksdb() {
    let ribbon = |level| FilterPolicy::ribbon(8.0, level);
    let policies = [(FilterPolicy::bloom(8.0), 188), (ribbon(-1), 226), (ribbon(0), 188), (ribbon(1), 188)];
    for (policy, false_positives) in policies {
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.db.env = Env::with_fs(Arc::new(MemFs::new()));
        options.cf.table.filter_policy = Some(policy);
        options.cf.table.optimize_filters_for_memory = false;
        let db = Db::open(&options, "/db").unwrap();
        db.put("foo", "foovalue").unwrap();
        db.put("bar", "barvalue").unwrap();
        (0..1500).for_each(|i| db.put(format!("yes{i:020}"), "val").unwrap());
        db.compact_range(None, None).unwrap();
        assert_eq!(db.get("foo").unwrap().as_deref(), Some(&b"foovalue"[..]));
        PerfContext::reset();
        for i in 0..10_000 {
            assert_eq!(db.get(format!("no{i:020}")).unwrap(), None);
        }
        let counts = PerfContext::current();
        assert_eq!(counts.bloom_sst_hit_count, false_positives, "{policy:?}");
        assert_eq!(counts.bloom_sst_miss_count, 10_000 - false_positives, "{policy:?}");
    }
}
