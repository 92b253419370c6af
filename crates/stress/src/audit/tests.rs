//! The audit finds each kind of fault; `crates/stress/mutants` has more.

use super::*;
use esker::comparator::BytewiseComparator;
use esker::internals::cache::CacheOptions;
use esker::internals::env::mem::MemFs;
use esker::internals::env::{Env, MockClock};
use esker::{Db, Options};

const PATH: &str = "/db";

struct House {
    options: Options,
    cache: Arc<BlockCache>,
    fs: MemFs,
}

impl House {
    fn new() -> House {
        let (mut options, fs) = (Options::default(), MemFs::new());
        let cache = Arc::new(BlockCache::new(&CacheOptions::with_capacity(1 << 20)).unwrap());
        options.db.create_if_missing = true;
        options.db.env = Env::with_fs(Arc::new(fs.clone()));
        options.cf.table.block_cache = Some(cache.clone());
        options.cf.enable_blob_files = true;
        // Both tables stay, although the newer one hides the other.
        options.cf.disable_auto_compactions = true;
        House { options, cache, fs }
    }

    /// Two tables and a blob file.
    fn filled(&self) -> Db {
        let db = Db::open(&self.options, PATH).unwrap();
        for value in ["one", "other"] {
            db.put("key", value).unwrap();
            db.delete_range("m", "n").unwrap();
            db.flush().unwrap();
        }
        db
    }

    fn audit(&self, db: &Db) -> Result<Audited, String> {
        let (handle, order) = (db.default_column_family(), Arc::new(BytewiseComparator) as ComparatorRef);
        let families = vec![(&handle, &order)];
        let subject = AuditSubject {
            db,
            fs: &self.fs,
            path: Path::new(PATH),
            families,
            may_be_left: false,
            all_garbage_is_counted: true,
        };
        audit(&subject, &MockClock::new(0))
    }

    fn are_caches_empty(&self) -> Result<Audited, String> {
        are_empty(&[&self.cache], None, self.options.db.env.clock.as_ref())
    }
}

#[test]
fn all_of_a_database_that_is_whole_is_looked_at() {
    let house = House::new();
    let db = house.filled();
    let seen = house.audit(&db).unwrap();
    assert_eq!((seen.tables, seen.entries, seen.blobs), (2, 4, 2));
    drop(db);
    assert_eq!(house.are_caches_empty().unwrap().caches, 1);
}

#[test]
fn an_unneeded_file_is_reported() {
    let house = House::new();
    let db = house.filled();
    for name in ["000999.sst", "000999.blob", "000999.dbtmp"] {
        let path = Path::new(PATH).join(name);
        drop(house.fs.new_writable_file(&path).unwrap());
        let error = house.audit(&db).unwrap_err();
        assert!(error.contains(name), "{error}");
        house.fs.delete_file(&path).unwrap();
    }
    house.audit(&db).unwrap();
}

#[test]
fn a_live_file_that_is_gone_is_reported() {
    let house = House::new();
    let db = house.filled();
    let names = house.fs.children(Path::new(PATH)).unwrap();
    let blob = names.iter().find(|name| name.ends_with(".blob")).unwrap();
    house.fs.delete_file(&Path::new(PATH).join(blob)).unwrap();
    let error = house.audit(&db).unwrap_err();
    assert!(error.contains(blob), "{error}");
}

#[test]
fn memory_of_a_cache_held_after_the_close_is_reported() {
    let house = House::new();
    drop(house.filled());
    let reserved = house.cache.reserve(Role::Misc, 1000).unwrap();
    assert!(house.are_caches_empty().unwrap_err().contains("1000 bytes are charged"));
    drop(reserved);
    house.are_caches_empty().unwrap();
}

#[test]
fn counts_that_do_not_add_up_are_reported() {
    let statistics = Statistics::default();
    statistics.record_tick(Ticker::BlockCacheHit, 2);
    statistics.record_tick(Ticker::BlockCacheDataHit, 1);
    assert!(add_up(&statistics).unwrap_err().contains("BlockCacheHit"));
    statistics.record_tick(Ticker::BlockCacheIndexHit, 1);
    add_up(&statistics).unwrap();
    statistics.record_tick(Ticker::NumberDbSeekFound, 1);
    assert!(add_up(&statistics).unwrap_err().contains("NumberDbSeekFound"));
}
