//! `option_change_migration`: databases that change their compaction style and lose levels.

use esker::internals::env::mem::MemFs;
use esker::options::CompactionStyle::{self, Fifo, Level, Universal};
use esker::{ColumnFamilyDescriptor, Db, Env, ErrorKind, Options, option_change_migration};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A style, its number of levels, and whether levels are dynamic.
type Shape = (CompactionStyle, i32, bool);

fn options(env: &Env, (style, levels, is_dynamic): Shape) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.create_missing_column_families = true;
    options.db.env = env.clone();
    options.cf.compaction_style = style;
    options.cf.num_levels = levels;
    options.cf.level_compaction_dynamic_level_bytes = is_dynamic;
    options.cf.write_buffer_size = 64 << 10;
    options.cf.target_file_size_base = 32 << 10;
    options.cf.max_bytes_for_level_base = 64 << 10;
    options.cf.level0_file_num_compaction_trigger = 2;
    options
}

fn families(options: &Options) -> [ColumnFamilyDescriptor; 2] {
    ["default", "other"].map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()))
}

fn open(options: &Options) -> Db {
    Db::open_cf(&options.db, "/db", families(options)).unwrap()
}

fn contents(db: &Db) -> BTreeMap<Vec<u8>, usize> {
    let mut all = BTreeMap::new();
    for name in ["default", "other"] {
        let family = db.column_family(name).unwrap();
        for pair in db.range_cf(&family, ..) {
            let (key, value) = pair.unwrap();
            all.insert([name.as_bytes(), &key].concat(), value.len());
        }
    }
    all
}

#[test]
fn a_database_opens_under_its_new_options_with_all_it_had() {
    let shapes: [Shape; 7] = [
        (Level, 7, true),
        (Level, 7, false),
        (Level, 3, false),
        (Universal, 7, true),
        (Universal, 3, true),
        (Universal, 1, true),
        (Fifo, 1, true),
    ];
    for from in shapes {
        for to in shapes {
            let env = Env::with_fs(Arc::new(MemFs::new()));
            let (old, new) = (options(&env, from), options(&env, to));
            let db = open(&old);
            let other = db.column_family("other").unwrap();
            for n in 0..600_u32 {
                db.put(format!("k{:03}", n * 7 % 500), vec![b'v'; 500 + n as usize]).unwrap();
                db.put_cf(&other, format!("k{n:03}"), vec![b'w'; 100]).unwrap();
            }
            let before = contents(&db);
            db.close().unwrap();
            drop(db);
            let (old_families, new_families) = (families(&old), families(&new));
            option_change_migration(&old.db, "/db", &old_families, &new_families)
                .unwrap_or_else(|e| panic!("{from:?} to {to:?}: {e}"));
            let db = open(&new);
            assert_eq!(contents(&db), before, "{from:?} to {to:?}");
            let deepest = db.live_files().iter().map(|file| file.level).max().unwrap();
            assert!(deepest < to.1 as usize, "{from:?} to {to:?}: level {deepest}");
            db.wait_for_background_work().unwrap();
            assert_eq!(contents(&db), before, "{from:?} to {to:?}");
        }
    }
}

#[test]
fn families_that_differ_are_named_before_anything_changes() {
    let env = Env::with_fs(Arc::new(MemFs::new()));
    let old = options(&env, (Level, 7, true));
    drop(open(&old));
    let run =
        |from: &[&str], to: &[&str]| option_change_migration(&old.db, "/db", from.to_vec(), to.to_vec());
    for (from, to, what) in
        [(&["default", "other"][..], &["default"][..], "2 old"), (&["default"], &["other"], "'other'")]
    {
        let error = run(from, to).unwrap_err();
        assert!(error.kind() == ErrorKind::InvalidArgument && error.to_string().contains(what), "{error}");
    }
    // The open refuses a family that was left out.
    assert!(run(&["default"], &["default"]).is_err());
}
