//! Random histories of a primary, with a secondary that follows it in the same process.
//!
//! After each catch-up the secondary must show what the primary shows, family by family. Iterators
//! and snapshots of earlier catch-ups must keep showing the contents of that time.

use super::{Pairs, pairs};
use esker::builtin::string_append;
use esker::internals::env::mem::MemFs;
use esker::options::CompactionStyle;
use esker::{
    ColumnFamilyHandle, ColumnFamilyOptions, CompactRangeOptions, Db, DbIterator, DbOptions, Env,
    FlushOptions, ReadOptions, Snapshot, WriteBatch, WriteOptions,
};
use esker_testkit::seed::for_each_seed;
use std::collections::BTreeMap;
use std::sync::Arc;

const NAMES: [&str; 4] = ["default", "one", "two", "three"];

struct Round {
    rng: fastrand::Rng,
    options: DbOptions,
    family: ColumnFamilyOptions,
    primary: Option<Db>,
    secondary: Option<Db>,
    /// The secondary's families since its opening; for a dropped one, the contents that it must
    /// keep showing.
    followed: BTreeMap<String, (ColumnFamilyHandle, Option<Pairs>)>,
    /// Families that were dropped or created since the secondary was opened.
    strangers: Vec<String>,
    kept: Vec<Kept>,
    written: u64,
}

/// The state after an earlier catch-up, and its readers.
struct Kept {
    snapshot: Snapshot,
    seen: BTreeMap<String, Pairs>,
    iter: (String, DbIterator),
}

fn show(db: &Db, family: &ColumnFamilyHandle) -> Pairs {
    pairs(db, family, ReadOptions::default())
}

impl Round {
    fn new(mut rng: fastrand::Rng) -> Round {
        let mut options = DbOptions { create_if_missing: true, ..DbOptions::default() };
        options.create_missing_column_families = true;
        options.env = Env::with_fs(Arc::new(MemFs::new()));
        options.max_manifest_file_size = if rng.bool() { 1 } else { 1 << 30 };
        options.recycle_log_file_num = if rng.u8(..3) == 0 { 2 } else { 0 };
        options.atomic_flush = rng.u8(..4) == 0;
        options.avoid_flush_during_recovery = rng.bool();
        options.manual_wal_flush = rng.u8(..4) == 0;
        options.max_open_files = if rng.bool() { -1 } else { 20 };
        let mut family = ColumnFamilyOptions {
            write_buffer_size: 16 << 10,
            target_file_size_base: 8 << 10,
            level0_file_num_compaction_trigger: 2,
            merge_operator: Some(string_append(",")),
            enable_blob_files: rng.u8(..3) == 0,
            min_blob_size: 50,
            enable_blob_garbage_collection: true,
            blob_garbage_collection_age_cutoff: 1.0,
            ..ColumnFamilyOptions::default()
        };
        if rng.u8(..3) == 0 {
            family.compaction_style = CompactionStyle::Universal;
        }
        Round {
            rng,
            options,
            family,
            primary: None,
            secondary: None,
            followed: BTreeMap::new(),
            strangers: Vec::new(),
            kept: Vec::new(),
            written: 0,
        }
    }

    fn primary(&self) -> &Db {
        self.primary.as_ref().expect("it is open")
    }

    fn open_primary(&mut self) {
        self.primary = None;
        let there = Db::list_column_families(&self.options, "/db").unwrap_or_else(|_| vec!["default".into()]);
        let families = there.into_iter().map(|name| (name, self.family.clone()));
        self.primary = Some(Db::open_cf(&self.options, "/db", families).unwrap());
    }

    fn open_secondary(&mut self) {
        self.kept.clear();
        self.followed.clear();
        self.strangers.clear();
        self.secondary = None;
        let mut names = self.primary().column_family_names();
        names.retain(|name| name == "default" || self.rng.u8(..4) > 0);
        let families = names.iter().map(|name| (name.clone(), self.family.clone()));
        let secondary = Db::open_cf_as_secondary(&self.options, "/db", "/mine", families).unwrap();
        let handle = |name: String| (name.clone(), (secondary.column_family(&name).unwrap(), None));
        self.followed = names.into_iter().map(handle).collect();
        self.secondary = Some(secondary);
        self.compare();
    }

    fn key(&mut self) -> String {
        format!("key{:03}", self.rng.u8(..120))
    }

    fn value(&mut self) -> Vec<u8> {
        self.written += 1;
        let mut value = format!("{}:", self.written).into_bytes();
        let length = if self.rng.u8(..50) == 0 { 40_000 } else { self.rng.usize(..120) };
        value.extend(std::iter::repeat_with(|| self.rng.alphanumeric() as u8).take(length));
        value
    }

    fn any_family(&mut self) -> ColumnFamilyHandle {
        let names = self.primary().column_family_names();
        let name = self.rng.choice(names).unwrap();
        self.primary().column_family(&name).unwrap()
    }

    fn write(&mut self) {
        let mut batch = WriteBatch::new();
        for _ in 0..self.rng.usize(1..8) {
            let family = self.any_family().id();
            let (key, value) = (self.key(), self.value());
            match self.rng.u8(..20) {
                0..9 => batch.put_cf(family, &key, &value).unwrap(),
                9..14 => batch.merge_cf(family, &key, &value[..value.len().min(9)]).unwrap(),
                14..18 => batch.delete_cf(family, &key).unwrap(),
                _ => {
                    let (mut begin, mut end) = (key, self.key());
                    if begin > end {
                        std::mem::swap(&mut begin, &mut end);
                    }
                    batch.delete_range_cf(family, &begin, &end).unwrap();
                }
            }
        }
        let options = WriteOptions { sync: self.rng.u8(..10) == 0, ..WriteOptions::default() };
        self.primary().write_opt(&options, &mut batch).unwrap();
    }

    fn step(&mut self) {
        match self.rng.u8(..100) {
            0..70 => (0..self.rng.usize(1..30)).for_each(|_| self.write()),
            70..78 => {
                let family = self.any_family();
                self.primary().flush_opt(&FlushOptions::default(), &[&family]).unwrap();
            }
            78..83 => {
                let family = self.any_family();
                let options = CompactRangeOptions::default();
                self.primary().compact_range_opt(&options, &family, None, None).unwrap();
            }
            83..87 => {
                let there = self.primary().column_family_names();
                let name = NAMES.iter().find(|name| !there.iter().any(|there| there == *name));
                if let Some(name) = name {
                    self.primary().create_column_family(name, &self.family.clone()).unwrap();
                    self.strangers.push((*name).to_owned());
                }
            }
            87..90 => {
                let family = self.any_family();
                if family.name() != "default" {
                    self.primary().drop_column_family(&family).unwrap();
                    self.strangers.push(family.name().to_owned());
                }
            }
            90..94 => self.open_primary(),
            94..97 => self.open_secondary(),
            _ => self.kept.truncate(2),
        }
    }

    fn catch_up(&mut self) {
        if self.options.manual_wal_flush {
            self.primary().flush_wal(false).unwrap();
        }
        let secondary = self.secondary.clone().unwrap();
        for name in &self.strangers {
            if let Some((handle, dropped @ None)) = self.followed.get_mut(name) {
                // The handle keeps showing the state of the previous catch-up.
                *dropped = Some(show(&secondary, handle));
            }
        }
        secondary.try_catch_up_with_primary().unwrap();
        self.compare();
    }

    fn compare(&mut self) {
        if self.options.manual_wal_flush && self.followed.values().all(|(_, dropped)| dropped.is_none()) {
            self.primary().flush_wal(false).unwrap();
            self.secondary.as_ref().unwrap().try_catch_up_with_primary().unwrap();
        }
        let (primary, secondary) = (self.primary().clone(), self.secondary.clone().unwrap());
        let mut seen = BTreeMap::new();
        for (name, (handle, dropped)) in &self.followed {
            let shown = show(&secondary, handle);
            match dropped {
                Some(before) => assert_eq!(&shown, before, "dropped family {name}"),
                None => {
                    let of_primary = primary.column_family(name).unwrap();
                    let expected = show(&primary, &of_primary);
                    assert_eq!(shown, expected, "family {name}");
                    let keys: Vec<String> = (0..3).map(|_| format!("key{:03}", self.rng.u8(..120))).collect();
                    for key in &keys {
                        let expected = primary.get_cf(&of_primary, key).unwrap();
                        assert_eq!(secondary.get_cf(handle, key).unwrap(), expected, "{name} {key}");
                    }
                }
            }
            seen.insert(name.clone(), shown);
        }
        self.compare_batch(&secondary, &seen);
        for kept in &mut self.kept {
            for (name, expected) in &kept.seen {
                let at = ReadOptions::new().snapshot(&kept.snapshot);
                assert_eq!(&pairs(&secondary, &self.followed[name].0, at), expected, "snapshot of {name}");
            }
            let (name, iter) = &mut kept.iter;
            iter.seek_to_first();
            for (key, value) in &kept.seen[name] {
                assert_eq!(iter.item(), Some((&key[..], &value[..])), "iterator of {name}");
                iter.next();
            }
            assert!(!iter.valid());
            iter.status().unwrap();
        }
        if self.kept.len() < 4 {
            let name = self.rng.choice(seen.keys()).unwrap().clone();
            let iter = secondary.iter_cf(&self.followed[&name].0).unwrap();
            self.kept.push(Kept { snapshot: secondary.snapshot(), seen, iter: (name, iter) });
        }
    }

    fn compare_batch(&mut self, secondary: &Db, seen: &BTreeMap<String, Pairs>) {
        let mut keys = Vec::new();
        for (name, (handle, _)) in &self.followed {
            for _ in 0..4 {
                keys.push((name, handle, format!("key{:03}", self.rng.u8(..120))));
            }
        }
        let asked: Vec<_> = keys.iter().map(|(_, handle, key)| (*handle, key.as_bytes())).collect();
        let found = secondary.multi_get_cf(&ReadOptions::default(), &asked);
        for ((name, _, key), found) in keys.iter().zip(found) {
            let expected = seen[*name].iter().find(|(k, _)| k == key.as_bytes()).map(|(_, value)| &value[..]);
            assert_eq!(found.unwrap().as_deref(), expected, "{name} {key}");
        }
    }
}

#[test]
fn a_secondary_shows_what_its_primary_showed_at_each_catch_up() {
    for_each_seed("secondary_campaign", 6, |_, rng| {
        let mut round = Round::new(rng);
        round.open_primary();
        round.open_secondary();
        for _ in 0..40 {
            for _ in 0..round.rng.usize(..6) {
                round.step();
            }
            round.catch_up();
        }
    });
}
