//! Compactions end their tables where a partitioner says.

use esker::internals::env::mem::MemFs;
use esker::options::{
    PartitionerRequest, SstPartitioner, SstPartitionerContext, SstPartitionerFactory,
    SstPartitionerFixedPrefixFactory,
};
use esker::{CompactionOptions, Db, Env, Options};
use std::path::Path;
use std::sync::{Arc, Mutex};

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.disable_auto_compactions = true;
    options
}

fn fill(db: &Db, round: usize) {
    for user in ["anna", "bert", "cleo"] {
        (0..20).for_each(|i| db.put(format!("{user}/{i:02}"), format!("{round}")).unwrap());
    }
    db.flush().unwrap();
}

/// First and last key of each table, level 0 first.
fn tables(db: &Db) -> Vec<(usize, String, String)> {
    let text = |key: &[u8]| String::from_utf8(key.to_vec()).unwrap();
    let files = db.live_files();
    files.iter().map(|f| (f.level, text(&f.smallest_key), text(&f.largest_key))).collect()
}

#[test]
fn tables_end_where_a_fixed_prefix_changes_and_moves_are_refused_across_it() {
    let mut options = options();
    options.cf.sst_partitioner_factory = Some(Arc::new(SstPartitionerFixedPrefixFactory::new(4)));
    let db = Db::open(&options, "/db").unwrap();
    fill(&db, 0);
    assert_eq!(tables(&db).len(), 1, "flushes are not partitioned");
    // One table goes into empty levels: it would move, but has three prefixes.
    db.compact_range(None, None).unwrap();
    let of = |level, user: &str| (level, format!("{user}/00"), format!("{user}/19"));
    assert_eq!(tables(&db), [of(6, "anna"), of(6, "bert"), of(6, "cleo")]);
    // Tables with one prefix move.
    let family = db.default_column_family();
    fill(&db, 1);
    db.compact_range(None, None).unwrap();
    assert_eq!(tables(&db).len(), 3);
    assert_eq!(db.get("bert/07").unwrap().as_deref(), Some(&b"1"[..]));
    // A range deletion over several prefixes is cut, too.
    db.delete_range("anna/10", "cleo/10").unwrap();
    let snapshot = db.snapshot();
    db.put("anna/30", "1").unwrap();
    db.put("cleo/30", "1").unwrap();
    db.flush().unwrap();
    let newest = db.live_files()[0].file_number;
    db.compact_files(&CompactionOptions::default(), &family, &[newest], 3).unwrap();
    assert_eq!(db.get("bert/07").unwrap(), None);
    assert_eq!(db.get("cleo/11").unwrap().as_deref(), Some(&b"1"[..]));
    drop(snapshot);
    db.close().unwrap();
    drop((family, db));
    let fs = options.db.env.fs.as_ref();
    let loaded = esker::options::load_latest_options_from(fs, Path::new("/db")).unwrap();
    let printed = format!("{:?}", loaded.families[0].1.sst_partitioner_factory);
    assert!(printed.contains("SstPartitionerFixedPrefixFactory"), "{printed}");
}

/// The context of a partitioner: whether the compaction is full, and manual; output level, smallest
/// and largest key.
type Made = (bool, bool, usize, String, String);

/// Ends tables before keys that end in `0`, and records its calls.
#[derive(Default)]
struct Tens {
    made: Mutex<Vec<Made>>,
}

struct Ten;

impl SstPartitioner for Ten {
    fn should_partition(&mut self, request: &PartitionerRequest<'_>) -> bool {
        assert!(request.prev_user_key < request.current_user_key && request.current_output_file_size > 0);
        request.current_user_key.ends_with(b"0")
    }
    fn can_do_trivial_move(&mut self, _smallest_user_key: &[u8], _largest_user_key: &[u8]) -> bool {
        true
    }
}

impl SstPartitionerFactory for Tens {
    fn name(&self) -> &str {
        "tens"
    }
    fn create_partitioner(&self, context: &SstPartitionerContext<'_>) -> Box<dyn SstPartitioner> {
        let text = |key: &[u8]| String::from_utf8(key.to_vec()).unwrap();
        let (smallest, largest) = (text(context.smallest_user_key), text(context.largest_user_key));
        let (full, manual) = (context.is_full_compaction, context.is_manual_compaction);
        self.made.lock().unwrap().push((full, manual, context.output_level, smallest, largest));
        Box::new(Ten)
    }
}

#[test]
fn a_partitioner_of_the_user_sees_neighbouring_keys_and_its_compaction() {
    let mut options = options();
    let tens = Arc::new(Tens::default());
    options.cf.sst_partitioner_factory = Some(tens.clone());
    let db = Db::open(&options, "/db").unwrap();
    fill(&db, 0);
    fill(&db, 1);
    db.compact_range(None, None).unwrap();
    let made = tens.made.lock().unwrap().clone();
    assert_eq!(made, [(true, true, 6, "anna/00".to_owned(), "cleo/19".to_owned())]);
    assert_eq!(tables(&db).len(), 6);
    assert!(tables(&db).iter().all(|(_, smallest, _)| smallest.ends_with('0')));
    // Reopens without the partitioner: the OPTIONS file has its name, but an open does not need it.
    db.close().unwrap();
    drop(db);
    options.cf.sst_partitioner_factory = None;
    let db = Db::open(&options, "/db").unwrap();
    assert_eq!(db.get("cleo/10").unwrap().as_deref(), Some(&b"1"[..]));
}
