//! Answers of filters of tables and memtables, as `PerfContext` counts them: the number of false
//! positives identifies a filter's scheme.

use esker::internals::env::mem::MemFs;
use esker::options::FilterPolicy;
use esker::perf_context::PerfContext;
use esker::prefix;
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
        options.cf.table.filter_policy = Some(policy.clone());
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

#[test]
fn filters_of_memtables_rule_out_absent_keys_and_nothing_else() {
    for (whole_keys, extractor) in [(true, None), (false, Some(prefix::fixed(6))), (false, None)] {
        let has_filter = whole_keys || extractor.is_some();
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.db.env = Env::with_fs(Arc::new(MemFs::new()));
        options.cf.write_buffer_size = 1 << 20;
        options.cf.memtable_prefix_bloom_size_ratio = 0.1;
        options.cf.memtable_whole_key_filtering = whole_keys;
        options.cf.prefix_extractor = extractor;
        let db = Db::open(&options, "/db").unwrap();
        (0..2_000).for_each(|i| db.put(format!("{i:06}"), format!("{i}")).unwrap());
        (0..2_000).step_by(3).for_each(|i| db.delete(format!("{i:06}")).unwrap());
        let expected =
            |i: u32, end: u32| (i < end && !i.is_multiple_of(3)).then(|| format!("{i}").into_bytes());
        let check = |end: u32| {
            let keys: Vec<String> = (0..4_000).map(|i| format!("{i:06}")).collect();
            for (i, found) in db.multi_get(&keys).into_iter().enumerate() {
                assert_eq!(found.unwrap().map(|v| v.to_vec()), expected(i as u32, end), "{i}");
            }
            for (i, key) in keys.iter().enumerate() {
                assert_eq!(db.get(key).unwrap().map(|v| v.to_vec()), expected(i as u32, end), "{i}");
            }
        };
        PerfContext::reset();
        check(2_000);
        let counts = PerfContext::current();
        let (maybe, never) = (counts.bloom_memtable_hit_count, counts.bloom_memtable_miss_count);
        assert_eq!(maybe + never, if has_filter { 8_000 } else { 0 });
        assert!(!has_filter || (3_950..=4_000).contains(&never), "{never} of 4,000 absent keys");
        // A range tombstone hides keys that the filter rules out.
        let family = db.default_column_family();
        db.delete_range(format!("{:06}", 1_500), format!("{:06}", 3_000)).unwrap();
        check(1_500);
        db.flush_opt(&esker::FlushOptions::default(), &[&family]).unwrap();
        db.delete_range(format!("{:06}", 1_000), format!("{:06}", 3_000)).unwrap();
        check(1_000);
    }
}
