//! A repair with `salvage` keeps what can be read of damaged tables and blob files, and names the
//! rest. Each round damages a random database and compares it with a model.

use esker::internals::env::FileSystem;
use esker::internals::env::mem::MemFs;
use esker::options::{CompressionType, FilterPolicy, IndexType, TargetVersion};
use esker::{Db, Env, MissingKeys, Options, RepairOptions, RepairSummary, repair_db_with};
use esker_testkit::seed::for_each_seed;
use fastrand::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/db";

type State = BTreeMap<Vec<u8>, Vec<u8>>;

/// A database, and all values that each key has had.
struct Subject {
    options: Options,
    fs: MemFs,
    state: State,
    history: BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>,
    has_merges: bool,
}

fn any_options(rng: &mut Rng) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.avoid_flush_during_shutdown = rng.bool();
    options.cf.disable_auto_compactions = true;
    options.cf.merge_operator = esker::builtin::merge_operator("stringappend");
    let table = &mut options.cf.table;
    table.block_size = rng.usize(200..600);
    table.format_version = rng.u32(2..8);
    if table.format_version > 5 {
        options.db.compatible_with = TargetVersion::V11;
    }
    if rng.bool() {
        table.filter_policy = Some(FilterPolicy::bloom(10.0));
    }
    if rng.bool() {
        table.index_type = IndexType::TwoLevel;
        table.metadata_block_size = 200;
        table.partition_filters = table.filter_policy.is_some();
    }
    let codecs =
        [CompressionType::None, CompressionType::Snappy, CompressionType::Lz4, CompressionType::Zstd];
    options.cf.compression = codecs[rng.usize(0..codecs.len())];
    options.cf.enable_blob_files = rng.u8(0..3) == 0;
    options.cf.min_blob_size = 30;
    options.cf.blob_compression_type = codecs[rng.usize(0..codecs.len())];
    options
}

fn key(n: u32) -> Vec<u8> {
    format!("key{n:05}").into_bytes()
}

impl Subject {
    fn new(rng: &mut Rng) -> Subject {
        let fs = MemFs::new();
        let mut options = any_options(rng);
        options.db.env = Env::with_fs(Arc::new(fs.clone()));
        let has_merges = rng.u8(0..3) == 0;
        let mut subject = Subject { options, fs, state: State::new(), history: BTreeMap::new(), has_merges };
        subject.fill(rng);
        subject
    }

    fn fill(&mut self, rng: &mut Rng) {
        let db = Db::open(&self.options, DIR).unwrap();
        let mut snapshots = Vec::new();
        let keys = rng.u32(20..300);
        for _ in 0..rng.u32(2..6) {
            for _ in 0..rng.u32(1..200) {
                self.change(&db, rng, keys);
                if rng.u8(0..60) == 0 {
                    snapshots.push(db.snapshot());
                }
            }
            if rng.u8(0..5) > 0 {
                db.flush().unwrap();
            }
            if rng.u8(0..6) == 0 {
                db.compact_range(None, None).unwrap();
            }
        }
        drop(snapshots);
        db.close().unwrap();
    }

    fn change(&mut self, db: &Db, rng: &mut Rng, keys: u32) {
        let at = rng.u32(0..keys);
        let key = key(at);
        let bytes = if rng.u8(0..4) == 0 { rng.usize(30..120) } else { rng.usize(0..30) };
        let value: Vec<u8> = (0..bytes).map(|_| rng.alphanumeric() as u8).collect();
        match rng.u8(0..20) {
            0..2 => {
                db.delete(&key).unwrap();
                self.state.remove(&key);
            }
            2 => {
                let end = self::key(at + rng.u32(1..20));
                db.delete_range(&key, &end).unwrap();
                let gone: Vec<_> = self.state.range(key..end).map(|(key, _)| key.clone()).collect();
                gone.iter().for_each(|key| drop(self.state.remove(key)));
            }
            3..6 if self.has_merges => {
                db.merge(&key, &value).unwrap();
                match self.state.get_mut(&key) {
                    Some(before) => {
                        before.push(b',');
                        before.extend_from_slice(&value);
                    }
                    None => drop(self.state.insert(key, value)),
                }
            }
            _ => {
                db.put(&key, &value).unwrap();
                self.history.entry(key.clone()).or_default().insert(value.clone());
                self.state.insert(key, value);
            }
        }
    }

    fn files(&self, ends: &[&str]) -> Vec<String> {
        let mut names = self.fs.children(Path::new(DIR)).unwrap();
        names.retain(|name| ends.iter().any(|end| name.ends_with(end) || name.starts_with(end)));
        names.sort();
        names
    }

    fn read(&self, name: &str) -> Vec<u8> {
        let path = Path::new(DIR).join(name);
        let mut bytes = vec![0; usize::try_from(self.fs.file_size(&path).unwrap()).unwrap()];
        self.fs.new_random_access_file(&path).unwrap().read_at(0, &mut bytes).unwrap();
        bytes
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let mut file = self.fs.new_writable_file(&Path::new(DIR).join(name)).unwrap();
        file.append(bytes).unwrap();
        file.close().unwrap();
    }

    /// All files and their bytes.
    fn directory(&self) -> BTreeMap<String, Vec<u8>> {
        self.files(&[""]).into_iter().map(|name| (name.clone(), self.read(&name))).collect()
    }

    fn repair(&self, how: &RepairOptions) -> RepairSummary {
        repair_db_with(how, &self.options, DIR, &[]).unwrap()
    }

    fn contents(&self, db: &Db) -> State {
        let mut iter = db.iter().unwrap();
        let mut found = State::new();
        iter.seek_to_first();
        while let Some((key, value)) = iter.item() {
            found.insert(key.to_vec(), value.to_vec());
            iter.next();
        }
        iter.status().unwrap();
        found
    }

    /// Checks a repaired database. Returns the number of keys that are not as they were.
    fn check(&self, found: &State, summary: &RepairSummary) -> Result<usize, String> {
        let mut changed = 0;
        let keys: BTreeSet<_> = self.state.keys().chain(found.keys()).collect();
        for key in keys {
            let (is, was) = (found.get(key), self.state.get(key));
            if is == was {
                continue;
            }
            changed += 1;
            let text = key.escape_ascii();
            let holds = |keys: &MissingKeys| {
                keys.from.as_ref().is_none_or(|from| from <= key)
                    && keys.to.as_ref().is_none_or(|to| key <= to)
            };
            let named: Vec<_> = summary
                .tables_salvaged
                .iter()
                .filter(|t| t.missing.iter().any(holds) || t.range_deletions_lost.as_ref().is_some_and(holds))
                .collect();
            if named.is_empty() {
                return Err(format!("{text} is {is:?}, was {was:?}, and no range names it"));
            }
            let Some(value) = is.filter(|_| !self.has_merges) else { continue };
            if !self.history.get(key).is_some_and(|had| had.contains(value)) {
                return Err(format!("{text} never had the value {}", value.escape_ascii()));
            }
            if !named.iter().any(|table| table.may_reappear) {
                return Err(format!("{text} is {is:?}, was {was:?}, and nothing says that it may reappear"));
            }
        }
        Ok(changed)
    }
}

/// Damages a random table or blob file, and says how.
fn damage(subject: &Subject, rng: &mut Rng) -> String {
    let names = subject.files(&[".sst", ".blob"]);
    let name = &names[rng.usize(0..names.len())];
    let mut bytes = subject.read(name);
    let at = rng.usize(0..bytes.len());
    let most = [4, 60, 700][rng.usize(0..3)];
    let to = bytes.len().min(at + rng.usize(1..most));
    let how = match rng.u8(0..8) {
        0 => {
            bytes.truncate(at);
            format!("cut at {at}")
        }
        1 => {
            bytes[at..to].fill(0);
            format!("zeros from {at} to {to}")
        }
        2 | 3 => {
            bytes[at] ^= 1 << rng.u8(0..8);
            format!("a flipped bit at {at}")
        }
        _ => {
            bytes[at..to].iter_mut().for_each(|byte| *byte = rng.u8(..));
            format!("noise from {at} to {to}")
        }
    };
    subject.write(name, &bytes);
    format!("{name}: {how}")
}

/// The facts that a dry run and a repair both tell.
fn described(summary: &RepairSummary) -> String {
    let tables = summary.tables_salvaged.iter();
    let of = |t: &esker::SalvagedTable| {
        let ranges: Vec<_> = t.missing.iter().map(|keys| (keys.from.clone(), keys.to.clone())).collect();
        (t.number, t.blocks, t.blocks_lost, t.blocks_mended, t.entries, t.entries_lost, t.values_lost, ranges)
    };
    format!("{:?} {:?} {:?}", tables.map(of).collect::<Vec<_>>(), summary.tables_kept, summary.tables_lost)
}

#[test]
fn keys_outside_the_named_ranges_are_as_they_were() {
    let (mut rounds, mut kept, mut all, mut losses) = (0, 0, 0, 0);
    for_each_seed("salvage", 120, |_, mut rng| {
        let subject = Subject::new(&mut rng);
        if subject.files(&[".sst"]).is_empty() {
            return;
        }
        let mut what: Vec<_> = (0..rng.u32(1..4)).map(|_| damage(&subject, &mut rng)).collect();
        if rng.u8(0..3) == 0 {
            for name in subject.files(&["MANIFEST", "CURRENT"]) {
                subject.fs.delete_file(&Path::new(DIR).join(name)).unwrap();
            }
            what.push("no MANIFEST".to_owned());
        }
        let before = subject.directory();
        let salvage = RepairOptions::new().salvage(true);
        let dry = subject.repair(&salvage.clone().dry_run(true));
        assert!(subject.directory() == before, "{what:?}: the dry run changed a file");
        let summary = subject.repair(&salvage);
        assert_eq!(described(&dry), described(&summary), "{what:?}");
        assert_eq!(dry.has_losses(), summary.has_losses(), "{what:?}");

        let db = Db::open(&subject.options, DIR).unwrap();
        db.verify_checksum().unwrap();
        let found = subject.contents(&db);
        let changed =
            subject.check(&found, &summary).unwrap_or_else(|e| panic!("{what:?}: {e}\n{summary:?}"));
        assert!(changed == 0 || summary.has_losses(), "{what:?}");
        for (key, value) in &found {
            assert_eq!(db.get(key).unwrap().as_deref(), Some(&value[..]), "{what:?}");
        }
        db.compact_range(None, None).unwrap();
        assert_eq!(subject.contents(&db), found, "{what:?}: after a compaction");
        db.close().unwrap();
        rounds += 1;
        kept += subject.state.len() - changed.min(subject.state.len());
        all += subject.state.len();
        losses += usize::from(summary.has_losses());
    });
    println!("{rounds} rounds, {losses} with losses, {kept} of {all} keys as they were");
    assert!(kept * 10 > all * 6 || rounds < 50, "{kept} of {all} keys are as they were");
}

fn damaged_table(options: &Options, fs: &MemFs, keys: u32) -> (String, Vec<u8>) {
    let db = Db::open(options, DIR).unwrap();
    for n in 0..keys {
        db.put(key(n), format!("value {n}")).unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    let name = fs.children(Path::new(DIR)).unwrap().into_iter().find(|name| name.ends_with(".sst")).unwrap();
    let path = Path::new(DIR).join(&name);
    let mut bytes = vec![0; usize::try_from(fs.file_size(&path).unwrap()).unwrap()];
    fs.new_random_access_file(&path).unwrap().read_at(0, &mut bytes).unwrap();
    bytes[2000..2016].copy_from_slice(b"sixteen of noise");
    let mut file = fs.new_writable_file(&path).unwrap();
    file.append(&bytes).unwrap();
    file.close().unwrap();
    (name, bytes)
}

fn plain_options(fs: &MemFs) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(fs.clone()));
    options.cf.compression = CompressionType::None;
    options.cf.table.block_size = 500;
    options
}

#[test]
fn one_bad_block_of_many_costs_its_own_keys_only() {
    let fs = MemFs::new();
    let options = plain_options(&fs);
    let (name, bytes) = damaged_table(&options, &fs, 1000);
    let summary = repair_db_with(&RepairOptions::new().salvage(true), &options, DIR, &[]).unwrap();
    let [table] = &summary.tables_salvaged[..] else { panic!("{summary:?}") };
    assert!(table.blocks > 40 && table.blocks_lost == 1, "{table:?}");
    assert!(table.entries > 950 && table.entries_lost == Some(1000 - table.entries), "{table:?}");
    let [missing] = &table.missing[..] else { panic!("{table:?}") };
    assert!(missing.error.to_string().contains(&name) && !table.may_reappear, "{table:?}");
    let db = Db::open(&options, DIR).unwrap();
    let is_there = |n: u32| db.get(key(n)).unwrap().is_some();
    let gone: Vec<_> = (0..1000).filter(|n| !is_there(*n)).map(key).collect();
    assert_eq!(gone.len() as u64, 1000 - table.entries);
    // The bounds are the keys around those that are gone.
    assert!(missing.from.as_ref() < gone.first() && gone.last() < missing.to.as_ref(), "{missing:?}");
    assert!(db.get(missing.from.as_ref().unwrap()).unwrap().is_some());
    // The damaged table is kept.
    let kept = Path::new(DIR).join("lost").join(&name);
    assert_eq!(fs.file_size(&kept).unwrap(), bytes.len() as u64);
}

/// A tombstone is lost, and what it hid becomes visible: the report says so.
#[test]
fn a_lost_deletion_is_reported() {
    let fs = MemFs::new();
    let mut options = plain_options(&fs);
    options.cf.disable_auto_compactions = true;
    let db = Db::open(&options, DIR).unwrap();
    (0..1000).for_each(|n| db.put(key(n), "deleted later").unwrap());
    db.flush().unwrap();
    let older = fs.children(Path::new(DIR)).unwrap().into_iter().find(|name| name.ends_with(".sst")).unwrap();
    (0..1000).for_each(|n| db.delete(key(n)).unwrap());
    db.flush().unwrap();
    db.close().unwrap();
    drop(db);
    let mut names = fs.children(Path::new(DIR)).unwrap().into_iter();
    let newer = names.find(|name| name.ends_with(".sst") && *name != older).unwrap();
    let path = Path::new(DIR).join(newer);
    let mut bytes = vec![0; usize::try_from(fs.file_size(&path).unwrap()).unwrap()];
    fs.new_random_access_file(&path).unwrap().read_at(0, &mut bytes).unwrap();
    bytes[3000..3016].copy_from_slice(b"sixteen of noise");
    let mut file = fs.new_writable_file(&path).unwrap();
    file.append(&bytes).unwrap();
    file.close().unwrap();

    let summary = repair_db_with(&RepairOptions::new().salvage(true), &options, DIR, &[]).unwrap();
    let [table] = &summary.tables_salvaged[..] else { panic!("{summary:?}") };
    assert!(table.may_reappear, "{table:?}");
    let db = Db::open(&options, DIR).unwrap();
    let back: Vec<_> = (0..1000).map(key).filter(|key| db.get(key).unwrap().is_some()).collect();
    let [missing] = &table.missing[..] else { panic!("{table:?}") };
    assert!(!back.is_empty() && back.len() < 100, "{} keys are back", back.len());
    assert!(missing.from.as_ref() <= back.first() && back.last() <= missing.to.as_ref(), "{missing:?}");
}

/// A repair that dies leaves the new table beside the damaged one. Operands do not count twice.
#[test]
fn a_salvage_that_was_cut_short_is_done_again() {
    use esker::internals::env::{CrashChoices, CrashFs, FaultFs, FaultRule};
    let disk = CrashFs::new();
    let mut options = plain_options(&MemFs::new());
    options.db.env = Env::with_fs(Arc::new(disk.clone()));
    options.cf.merge_operator = esker::builtin::merge_operator("stringappend");
    let db = Db::open(&options, DIR).unwrap();
    (0..500).for_each(|n| db.merge(key(n), format!("operand {n}")).unwrap());
    db.flush().unwrap();
    db.close().unwrap();
    drop(db);
    let name =
        disk.children(Path::new(DIR)).unwrap().into_iter().find(|name| name.ends_with(".sst")).unwrap();
    let path = Path::new(DIR).join(&name);
    let mut bytes = vec![0; usize::try_from(disk.file_size(&path).unwrap()).unwrap()];
    disk.new_random_access_file(&path).unwrap().read_at(0, &mut bytes).unwrap();
    bytes[2000] ^= 1;
    let mut file = disk.new_writable_file(&path).unwrap();
    file.append(&bytes).unwrap();
    file.sync().unwrap();
    file.close().unwrap();
    let salvage = RepairOptions::new().salvage(true);
    let damaged = disk.crash_clone(&CrashChoices::process_kill());
    let mut cut_short = 0;
    for step in (1..).step_by(3) {
        let disk = damaged.crash_clone(&CrashChoices::process_kill());
        let faults = Arc::new(FaultFs::new(Arc::new(disk.clone())));
        faults.add_rule(FaultRule::fail_any().nth(step).forever());
        options.db.env = Env::with_fs(faults.clone());
        let repaired = repair_db_with(&salvage, &options, DIR, &[]);
        let met = faults.fault_count() > 0;
        cut_short += usize::from(repaired.is_err());
        let disk = disk.crash_clone(&CrashChoices::process_kill());
        options.db.env = Env::with_fs(Arc::new(disk));
        for how in [salvage.clone(), RepairOptions::new()] {
            repair_db_with(&how, &options, DIR, &[]).unwrap();
            let db = Db::open(&options, DIR).unwrap();
            for n in 0..500 {
                let value = db.get(key(n)).unwrap();
                assert_eq!(value.as_deref(), Some(format!("operand {n}").as_bytes()), "step {step}");
            }
            db.close().unwrap();
        }
        if !met {
            break;
        }
    }
    assert!(cut_short > 10, "{cut_short}");
}
