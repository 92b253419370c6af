use super::super::manifest::{ManifestReader, read_current};
use super::*;
use crate::version::{DEFAULT_COLUMN_FAMILY_NAME, FileMeta, ListedFamily};
use esker_base::ValueType;
use esker_base::comparator::{self, BytewiseComparator};
use esker_base::rng::Rng;
use esker_base::{ErrorKind, SubCode};
use esker_env::crash::{CrashChoices, CrashFs};
use esker_env::fault::{FaultFs, FaultRule};
use esker_env::mem::MemFs;
use esker_env::{FileSystem, PosixFileSystem};
use esker_format::file_name;
use esker_format::key::{InternalKeyComparator, internal_key};
use esker_format::version_edit::{BlobFileAddition, BlobFileGarbage, FileMetaData};
use std::path::PathBuf;

const DB: &str = "/db";
const DEFAULT: ColumnFamilyId = ColumnFamilyId::DEFAULT;

fn descriptors() -> Vec<FamilyDescriptor> {
    vec![FamilyDescriptor::new(DEFAULT_COLUMN_FAMILY_NAME)]
}

fn options(fs: &Arc<dyn FileSystem>) -> VersionSetOptions {
    let mut options = VersionSetOptions::new(Arc::clone(fs), DB);
    // The tables of these tests do not exist.
    options.paranoid_checks = false;
    options
}

fn create(fs: &Arc<dyn FileSystem>) -> VersionSet {
    fs.create_dir_if_missing(Path::new(DB)).unwrap();
    let comparator: ComparatorRef = Arc::new(BytewiseComparator);
    VersionSet::create_new_db(&options(fs), "an id", &comparator).unwrap();
    VersionSet::recover(options(fs), &descriptors()).unwrap()
}

fn mem() -> Arc<dyn FileSystem> {
    Arc::new(MemFs::new())
}

fn table(number: FileNumber, from: &str, to: &str, seq: u64, epoch: u64) -> FileMetaData {
    let seq = SequenceNumber(seq);
    FileMetaData {
        number,
        file_size: 1000 + number.0,
        smallest: internal_key(from.as_bytes(), seq, ValueType::Value),
        largest: internal_key(to.as_bytes(), seq, ValueType::Value),
        smallest_seqno: seq,
        largest_seqno: seq,
        epoch_number: epoch,
        ..FileMetaData::default()
    }
}

fn add(set: &VersionSet, level: usize, from: &str, to: &str) -> VersionEdit {
    let number = set.numbers().new_file_number();
    let epoch = set.family(DEFAULT).unwrap().epochs().fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    VersionEdit {
        new_files: vec![(level, table(number, from, to, number.0, epoch))],
        ..VersionEdit::default()
    }
}

fn numbers_at(set: &VersionSet, level: usize) -> Vec<u64> {
    set.current(DEFAULT).unwrap().files(level).iter().map(|f| f.number.0).collect()
}

/// A set's facts about its families, without facts that only this process knows.
fn describe(set: &VersionSet) -> String {
    let mut out = String::new();
    for f in set.families() {
        out += &format!("{} {} log {} ", f.id(), f.name(), f.log_number());
        out += &format!("epoch {:?}\n", f.epochs());
        for (level, file) in f.current().all_files() {
            out += &format!("  L{level} {:?}\n", file.data());
        }
        out += &format!("  {:?} {:?}\n", f.current().blob_files(), f.current().compact_cursors);
        out += &format!("  ts {:?}\n", f.current().full_history_ts_low());
    }
    out += &format!("min log {} max cf {}", set.min_log_number_to_keep(), set.max_column_family());
    out
}

#[test]
fn logged_edits_are_recovered() {
    let fs = mem();
    let mut set = create(&fs);
    let first = add(&set, 0, "a", "m");
    let number = first.new_files[0].1.number;
    set.log_and_apply(vec![first], LogOptions::default()).unwrap();
    let second = add(&set, 0, "c", "z");
    let newer = second.new_files[0].1.number;
    set.log_and_apply(vec![second], LogOptions::default()).unwrap();
    assert_eq!(numbers_at(&set, 0), [newer.0, number.0], "level 0 is ordered from the newest file");

    let moved = VersionEdit {
        deleted_files: vec![(0, number)],
        new_files: vec![(6, set.current(DEFAULT).unwrap().files(0)[1].data().clone())],
        compact_cursors: vec![(3, internal_key(b"k", SequenceNumber(3), ValueType::Value))],
        log_number: Some(FileNumber(9)),
        ..VersionEdit::default()
    };
    set.log_and_apply(vec![moved], LogOptions::default()).unwrap();
    assert_eq!(set.min_log_number_to_keep(), FileNumber(9));
    assert!(set.take_obsolete_tables().is_empty(), "a file that moved is still named");

    let again = VersionSet::recover(options(&fs), &descriptors()).unwrap();
    assert_eq!(describe(&again), describe(&set));
    assert_eq!(again.db_id(), Some("an id"));
    assert_eq!(again.numbers().last_sequence(), set.logged_sequence());
    assert!(again.numbers().next_file_number() > newer);
}

#[test]
fn every_record_carries_a_next_file_above_its_numbers() {
    let fs = mem();
    let mut set = create(&fs);
    for i in 0..20 {
        let edit = add(&set, 0, "a", "b");
        set.log_and_apply(vec![edit], LogOptions { new_manifest: i % 7 == 3, ..LogOptions::default() })
            .unwrap();
        let mut reader =
            ManifestReader::open(fs.as_ref(), Path::new(DB), set.manifest_number(), false).unwrap();
        let (mut largest, mut next) = (set.manifest_number(), FileNumber(0));
        while let Some(edit) = reader.next_edit().unwrap() {
            largest = edit.new_files.iter().map(|(_, f)| f.number).fold(largest, FileNumber::max);
            next = next.max(edit.next_file_number.unwrap_or_default());
            if edit.prev_log_number.is_some() {
                assert!(next > largest, "{next} {largest}");
            }
        }
        assert!(next > largest);
    }
}

#[test]
fn a_full_manifest_is_followed_by_a_fresh_one() {
    let fs = mem();
    let mut set = create(&fs);
    set.options.max_manifest_file_size = 2000;
    let mut seen = BTreeSet::new();
    for _ in 0..120 {
        let mut edit = add(&set, 0, "a", "b");
        let before = set.current(DEFAULT).unwrap().files(0).first().map(|f| (0, f.number));
        edit.deleted_files.extend(before);
        set.log_and_apply(vec![edit], LogOptions::default()).unwrap();
        seen.insert(set.manifest_number());
    }
    assert!(seen.len() > 3);
    let obsolete = set.take_obsolete_manifests();
    assert_eq!(obsolete.len(), seen.len(), "the first MANIFEST, of create_new_db, is among them");
    assert!(!obsolete.contains(&set.manifest_number()));
    assert_eq!(read_current(fs.as_ref(), Path::new(DB)).unwrap(), set.manifest_number());
    let again = VersionSet::recover(options(&fs), &descriptors()).unwrap();
    assert_eq!(describe(&again), describe(&set));
}

/// Even the smallest possible MANIFEST exceeds the size limit.
#[test]
fn a_manifest_of_many_tables_is_not_written_anew_with_each_edit() {
    let fs = mem();
    let mut set = create(&fs);
    set.options.max_manifest_file_size = 1000;
    let log = |set: &mut VersionSet, edit| {
        let before = set.manifest_number();
        set.log_and_apply(vec![edit], LogOptions::default()).unwrap();
        usize::from(set.manifest_number() != before)
    };
    let mut fresh = 0;
    for _ in 0..200 {
        let edit = add(&set, 0, "a", "b");
        fresh += log(&mut set, edit);
    }
    assert!(fresh <= 6, "{fresh} MANIFESTs for 200 tables");
    // The number of tables is constant, so the snapshot is, too: a new MANIFEST begins when edits
    // have five times its bytes.
    fresh = 0;
    for _ in 0..2000 {
        let mut edit = add(&set, 0, "a", "b");
        let oldest = set.current(DEFAULT).unwrap().files(0).last().unwrap().number;
        edit.deleted_files.push((0, oldest));
        fresh += log(&mut set, edit);
    }
    assert!((1..=4).contains(&fresh), "{fresh} MANIFESTs for 2000 edits of 200 tables");
    let again = VersionSet::recover(options(&fs), &descriptors()).unwrap();
    assert_eq!(describe(&again), describe(&set));
}

#[test]
fn a_manifest_grows_by_the_percentage_of_its_beginning() {
    let manifests_for_200_edits = |percent: u64| {
        let fs = mem();
        let mut set = create(&fs);
        set.set_manifest_limits(1000, percent, 0);
        let first = set.manifest_number().0;
        let mut fresh = 0;
        for _ in 0..200 {
            let (edit, before) = (add(&set, 0, "a", "b"), set.manifest_number());
            set.log_and_apply(vec![edit], LogOptions::default()).unwrap();
            fresh += usize::from(set.manifest_number() != before);
        }
        assert!(set.manifest_number().0 > first);
        fresh
    };
    assert!(manifests_for_200_edits(0) > 100, "each initial snapshot exceeds the limit");
    let (some, few) = (manifests_for_200_edits(50), manifests_for_200_edits(2000));
    assert!(few < some && some < 30, "{few} and {some}");
}

#[test]
fn obsolete_tables_are_reported_once_and_only_when_no_version_names_them() {
    let fs = mem();
    let mut set = create(&fs);
    let edit = add(&set, 0, "a", "m");
    let number = edit.new_files[0].1.number;
    set.log_and_apply(vec![edit], LogOptions::default()).unwrap();
    let pinned = Arc::clone(set.current(DEFAULT).unwrap());
    let gone = VersionEdit { deleted_files: vec![(0, number)], ..VersionEdit::default() };
    set.log_and_apply(vec![gone], LogOptions::default()).unwrap();
    assert!(set.take_obsolete_tables().is_empty());
    assert!(set.live_files().contains(&number));
    assert_eq!((set.live_versions(DEFAULT).count(), set.obsolete_table_bytes()), (2, 0));
    let pinned_bytes = pinned.total_size();
    drop(pinned);
    assert_eq!(set.live_versions(DEFAULT).count(), 1);
    assert_eq!(set.obsolete_table_bytes(), pinned_bytes);
    assert_eq!(set.take_obsolete_tables().iter().map(|table| table.number).collect::<Vec<_>>(), [number]);
    assert!(set.take_obsolete_tables().is_empty());
    assert!(!set.live_files().contains(&number));
}

#[test]
fn edits_that_do_not_fit_are_refused_and_change_nothing() {
    let fs = mem();
    let mut set = create(&fs);
    let edit = add(&set, 1, "a", "m");
    let file = edit.new_files[0].1.clone();
    set.log_and_apply(vec![edit], LogOptions::default()).unwrap();
    let before = (describe(&set), set.manifest_bytes());
    let with = |f: &dyn Fn(&mut VersionEdit)| {
        let mut edit = VersionEdit::default();
        f(&mut edit);
        edit
    };
    let overlapping = table(FileNumber(50), "k", "p", 7, 9);
    let bad = [
        with(&|e| e.deleted_files.push((0, file.number))),
        with(&|e| e.deleted_files.push((1, FileNumber(99)))),
        with(&|e| e.new_files.push((1, file.clone()))),
        with(&|e| e.new_files.push((2, file.clone()))),
        with(&|e| e.new_files.push((1, overlapping.clone()))),
        with(&|e| e.new_files.push((1, table(FileNumber(51), "z", "x", 7, 9)))),
        with(&|e| e.blob_file_garbages.push(BlobFileGarbage { number: FileNumber(7), ..Default::default() })),
    ];
    for edit in bad {
        let error = set.log_and_apply(vec![edit.clone()], LogOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{edit:?}");
    }
    let deep = with(&|e| e.new_files.push((7, table(FileNumber(52), "a", "b", 7, 9))));
    let error = set.log_and_apply(vec![deep], LogOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let elsewhere = with(&|e| e.column_family = ColumnFamilyId(3));
    let error = set.log_and_apply(vec![elsewhere], LogOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ColumnFamilyDropped);
    assert_eq!((describe(&set), set.manifest_bytes()), before);
    assert!(set.files_to_quarantine().is_empty());
    assert!(set.take_obsolete_tables().is_empty());
}

#[test]
fn families_come_and_go_and_ids_are_not_reused() {
    let fs = mem();
    let mut set = create(&fs);
    let (one, _) = set.create_column_family(FamilyDescriptor::new("one"), FileNumber(4)).unwrap();
    let (two, _) = set.create_column_family(FamilyDescriptor::new("two"), FileNumber(5)).unwrap();
    assert_eq!((one.0, two.0), (1, 2));
    let twice = set.create_column_family(FamilyDescriptor::new("two"), FileNumber(5)).unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::InvalidArgument);
    let file = table(set.numbers().new_file_number(), "a", "b", 3, 1);
    let edit = VersionEdit { column_family: two, new_files: vec![(0, file.clone())], ..Default::default() };
    let pinned = set.log_and_apply(vec![edit], LogOptions::default()).unwrap();
    assert_eq!(pinned[0].0, two);
    set.drop_column_family(two).unwrap();
    assert!(set.drop_column_family(two).is_err() && set.drop_column_family(DEFAULT).is_err());
    assert!(set.take_obsolete_tables().is_empty());
    drop(pinned);
    assert_eq!(
        set.take_obsolete_tables().iter().map(|table| table.number).collect::<Vec<_>>(),
        [file.number]
    );

    assert_eq!(VersionSet::list_column_families(fs.as_ref(), Path::new(DB)).unwrap(), ["default", "one"]);
    let error = VersionSet::recover(options(&fs), &descriptors()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().contains("Column families not opened: one"), "{error}");
    let read_only = VersionSetOptions { read_only: true, ..options(&fs) };
    let partial = VersionSet::recover(read_only, &descriptors()).unwrap();
    assert!(partial.family_by_name("one").is_none());

    let all = [FamilyDescriptor::new("default"), FamilyDescriptor::new("one"), FamilyDescriptor::new("new")];
    let mut again = VersionSet::recover(options(&fs), &all).unwrap();
    assert!(again.family_by_name("new").is_none());
    let (three, _) = again.create_column_family(FamilyDescriptor::new("two"), FileNumber(6)).unwrap();
    assert_eq!(three.0, 3, "number 2 was used");

    let mut other = all.clone();
    other[1].comparator = Arc::new(comparator::ReverseBytewiseComparator);
    let error =
        VersionSet::recover(options(&fs), &[other.as_slice(), &[FamilyDescriptor::new("two")]].concat());
    let message = error.unwrap_err().to_string();
    for part in ["'one'", "leveldb.BytewiseComparator", "rocksdb.ReverseBytewiseComparator"] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn an_atomic_group_that_is_cut_off_is_not_there() {
    let fs = mem();
    let mut set = create(&fs);
    let (one, _) = set.create_column_family(FamilyDescriptor::new("one"), FileNumber(2)).unwrap();
    let before = describe(&set);
    let mut second = add(&set, 0, "a", "c");
    second.column_family = one;
    let group = vec![add(&set, 0, "a", "b"), second, add(&set, 0, "x", "y")];
    let empty_until = set.manifest_bytes();
    let versions = set.log_and_apply(group, LogOptions { atomic_group: true, ..Default::default() }).unwrap();
    assert_eq!(versions.iter().map(|(id, _)| id.0).collect::<Vec<_>>(), [0, 1]);
    let after = describe(&set);
    let path = file_name::descriptor_file_name(Path::new(DB), set.manifest_number());
    let both = [FamilyDescriptor::new("default"), FamilyDescriptor::new("one")];
    for bytes in (empty_until..=set.manifest_bytes()).rev() {
        fs.truncate(&path, bytes).unwrap();
        let again = VersionSet::recover(options(&fs), &both).unwrap();
        let whole = bytes == set.manifest_bytes();
        let epochless = |s: &str| {
            s.lines().filter(|l| !l.contains("epoch ") || l.starts_with("  ")).collect::<Vec<_>>().join("\n")
        };
        let expected = if whole { &after } else { &before };
        assert_eq!(epochless(&describe(&again)), epochless(expected), "cut at {bytes}");
    }
}

fn recover_from(edits: &[VersionEdit]) -> Result<VersionSet> {
    let fs = mem();
    fs.create_dir_if_missing(Path::new(DB)).unwrap();
    let mut manifest = ManifestWriter::create(&options(&fs), FileNumber(1)).unwrap();
    edits.iter().for_each(|e| manifest.append(e).unwrap());
    manifest.sync().unwrap();
    set_current(&options(&fs), FileNumber(1)).unwrap();
    VersionSet::recover(options(&fs), &descriptors())
}

fn minimal() -> VersionEdit {
    VersionEdit {
        log_number: Some(FileNumber(0)),
        next_file_number: Some(FileNumber(30)),
        last_sequence: Some(SequenceNumber(100)),
        ..VersionEdit::default()
    }
}

#[test]
fn foreign_manifests_with_the_least_content_are_enough() {
    let mut edit = minimal();
    edit.new_files =
        vec![(0, table(FileNumber(9), "a", "b", 5, 0)), (0, table(FileNumber(8), "a", "b", 6, 0))];
    edit.new_files.push((3, table(FileNumber(40), "a", "b", 1, 7)));
    let set = recover_from(&[VersionEdit::default(), edit]).unwrap();
    assert_eq!(numbers_at(&set, 0), [8, 9], "files are ordered by sequence number");
    let epochs: Vec<u64> = set.current(DEFAULT).unwrap().all_files().map(|(_, f)| f.epoch_number).collect();
    assert_eq!(epochs, [3, 2, 1], "all epochs are inferred, because one was missing");
    assert_eq!(set.family(DEFAULT).unwrap().epochs().load(std::sync::atomic::Ordering::Relaxed), 4);
    assert_eq!(
        set.numbers().next_file_number(),
        FileNumber(41),
        "the next number exceeds one that next_file lacks"
    );
}

#[test]
fn impossible_manifests_are_corruption_with_a_reason() {
    let edit = |f: &dyn Fn(&mut VersionEdit)| {
        let mut e = VersionEdit::default();
        f(&mut e);
        e
    };
    let file = table(FileNumber(9), "a", "b", 5, 1);
    let grouped = |n: u32| edit(&|e| e.remaining_in_atomic_group = Some(n));
    let cases: Vec<(Vec<VersionEdit>, &str)> = vec![
        (vec![edit(&|e| e.log_number = Some(FileNumber(1)))], "no next_file_number, last_sequence entry"),
        (vec![], "no log_file_number, next_file_number, last_sequence entry"),
        (vec![minimal(), edit(&|e| e.deleted_files.push((0, FileNumber(9))))], "not in the LSM tree"),
        (
            vec![minimal(), edit(&|e| e.new_files = vec![(0, file.clone()), (1, file.clone())])],
            "already on level 0",
        ),
        (
            vec![
                minimal(),
                edit(&|e| e.new_files = vec![(2, file.clone()), (2, table(FileNumber(8), "b", "c", 9, 1))]),
            ],
            "overlapping ranges",
        ),
        (vec![minimal(), edit(&|e| e.column_family = ColumnFamilyId(4))], "never was"),
        (vec![minimal(), grouped(2), grouped(0)], "counted down"),
        (vec![minimal(), grouped(1), minimal()], "outside of it"),
        (
            vec![
                minimal(),
                edit(&|e| {
                    e.column_family = ColumnFamilyId(1);
                    e.column_family_add = Some("one".to_owned());
                    e.remaining_in_atomic_group = Some(1);
                }),
            ],
            "comes or goes",
        ),
        (vec![minimal(), edit(&|e| e.column_family_add = Some("default".to_owned()))], "added twice"),
        (
            vec![
                minimal(),
                edit(&|e| {
                    e.column_family = ColumnFamilyId(1);
                    e.column_family_drop = true;
                }),
            ],
            "never was",
        ),
    ];
    for (edits, reason) in cases {
        let error = recover_from(&edits).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert!(error.message().contains(reason), "{error} should say: {reason}");
    }
    let deep = edit(&|e| e.new_files.push((9, file.clone())));
    let error = recover_from(&[minimal(), deep.clone()]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    let emptied = edit(&|e| e.deleted_files.push((9, file.number)));
    recover_from(&[minimal(), deep, emptied]).unwrap();
}

#[test]
fn blob_files_are_kept_as_long_as_they_are_needed() {
    let fs = mem();
    let mut set = create(&fs);
    let blob = BlobFileAddition {
        number: set.numbers().new_file_number(),
        total_blob_count: 10,
        total_blob_bytes: 1000,
        ..Default::default()
    };
    let mut edit = add(&set, 0, "a", "b");
    edit.new_files[0].1.oldest_blob_file_number = Some(blob.number);
    edit.blob_file_additions.push(blob.clone());
    let table = edit.new_files[0].1.number;
    set.log_and_apply(vec![edit], LogOptions::default()).unwrap();
    let garbage = |count, bytes| BlobFileGarbage {
        number: blob.number,
        garbage_blob_count: count,
        garbage_blob_bytes: bytes,
    };
    let edit = VersionEdit { blob_file_garbages: vec![garbage(4, 400)], ..Default::default() };
    set.log_and_apply(vec![edit], LogOptions { new_manifest: true, ..Default::default() }).unwrap();
    let again = VersionSet::recover(options(&fs), &descriptors()).unwrap();
    assert_eq!(describe(&again), describe(&set));
    let too_much = VersionEdit { blob_file_garbages: vec![garbage(7, 1)], ..Default::default() };
    assert!(set.log_and_apply(vec![too_much], LogOptions::default()).is_err());
    let gone = VersionEdit {
        deleted_files: vec![(0, table)],
        blob_file_garbages: vec![garbage(6, 600)],
        ..Default::default()
    };
    set.log_and_apply(vec![gone], LogOptions::default()).unwrap();
    assert!(set.current(DEFAULT).unwrap().blob_files().is_empty());
}

/// Runs a random history in which every operation may fail. An acknowledged edit is present
/// afterwards, and a retry succeeds.
#[test]
fn after_failed_writes_the_old_or_the_new_state_is_there_and_a_retry_mends_it() {
    let (mut nothing_in_force, mut may_be_in_force) = (0, 0);
    for seed in 0..150u64 {
        let mut rng = Rng::new(seed);
        let faults = Arc::new(FaultFs::with_seed(mem(), seed));
        let fs: Arc<dyn FileSystem> = faults.clone();
        let mut set = create(&fs);
        set.options.max_manifest_file_size = 1500;
        for _ in 0..12 {
            let before = describe(&set);
            let edit = add(&set, 0, "a", "b");
            let number = edit.new_files[0].1.number;
            let manifest = set.manifest_number();
            if rng.one_in(2) {
                faults.add_rule(FaultRule::fail_any().nth(rng.below(8)));
            } else {
                faults.add_rule(FaultRule::short_write(None).nth(rng.below(3)));
            }
            let log = LogOptions { new_manifest: rng.one_in(4), ..LogOptions::default() };
            let result = set.log_and_apply(vec![edit.clone()], log);
            faults.clear_rules();
            let opened = VersionSet::recover(options(&fs), &descriptors()).unwrap();
            let has = |s: &VersionSet| s.current(DEFAULT).unwrap().live_files().any(|n| n == number);
            match result {
                Ok(_) => assert!(has(&opened) && set.files_to_quarantine().is_empty(), "seed {seed}"),
                Err(_) => {
                    let kept = set.files_to_quarantine();
                    if kept.is_empty() {
                        assert!(!has(&opened) && opened.manifest_number() == manifest, "seed {seed}");
                        nothing_in_force += 1;
                    } else {
                        assert!(kept.contains(&number) && kept.contains(&manifest), "seed {seed}");
                        assert!(kept.contains(&opened.manifest_number()), "seed {seed}");
                        assert!(set.live_files().contains(&number));
                        may_be_in_force += 1;
                    }
                    let same = |a: &str, b: &str| a.split("epoch").next() == b.split("epoch").next();
                    assert!(same(&describe(&set), &before) && !has(&set), "seed {seed}");
                    assert!(set.take_obsolete_manifests().iter().all(|m| !kept_or(&set, *m)));
                    set.log_and_apply(vec![edit], LogOptions::default()).unwrap();
                    assert!(set.files_to_quarantine().is_empty(), "seed {seed}");
                    let opened = VersionSet::recover(options(&fs), &descriptors()).unwrap();
                    assert_eq!(describe(&opened), describe(&set), "seed {seed}");
                }
            }
            let current = read_current(fs.as_ref(), Path::new(DB)).unwrap();
            assert_eq!(current, set.manifest_number());
            // An obsolete MANIFEST can be deleted at once.
            for m in set.take_obsolete_manifests() {
                assert_ne!(m, current);
                let path = file_name::descriptor_file_name(Path::new(DB), m);
                if fs.file_exists(&path).unwrap() {
                    fs.delete_file(&path).unwrap();
                }
            }
            assert!(set.take_obsolete_tables().is_empty());
        }
    }
    assert!(nothing_in_force > 50 && may_be_in_force > 50, "{nothing_in_force} {may_be_in_force}");
}

fn kept_or(set: &VersionSet, m: FileNumber) -> bool {
    set.files_to_quarantine().contains(&m)
}

#[test]
fn after_a_crash_everything_acknowledged_is_there() {
    for seed in 0..120u64 {
        let mut rng = Rng::new(seed);
        let disk = CrashFs::new();
        let fs: Arc<dyn FileSystem> = Arc::new(disk.clone());
        let mut set = create(&fs);
        fs.new_directory(Path::new("/")).unwrap().fsync().unwrap();
        set.options.max_manifest_file_size = 900;
        for _ in 0..rng.below(15) {
            let edit = add(&set, 0, "a", "b");
            set.log_and_apply(vec![edit], LogOptions::default()).unwrap();
        }
        let crashed: Arc<dyn FileSystem> = Arc::new(disk.crash_clone(&CrashChoices::random(seed)));
        let mut again = VersionSet::recover(options(&crashed), &descriptors()).unwrap();
        assert_eq!(numbers_at(&again, 0), numbers_at(&set, 0), "seed {seed}");
        let edit = add(&again, 0, "a", "b");
        again.log_and_apply(vec![edit], LogOptions::default()).unwrap();
    }
}

#[test]
fn missing_and_resized_tables_are_corruption() {
    let fs = mem();
    let mut set = create(&fs);
    let edit = add(&set, 0, "a", "b");
    let file = edit.new_files[0].1.clone();
    set.log_and_apply(vec![edit], LogOptions::default()).unwrap();
    let paranoid = VersionSetOptions { paranoid_checks: true, ..options(&fs) };
    let put = |path: &Path, bytes: u64| {
        let mut f = fs.new_writable_file(path).unwrap();
        f.append(&vec![0; bytes as usize]).unwrap();
        f.close().unwrap();
    };
    let error = VersionSet::recover(paranoid.clone(), &descriptors()).unwrap_err();
    assert!(error.is_corruption() && error.message().contains("missing"), "{error}");
    put(&file_name::table_file_name(Path::new(DB), file.number), file.file_size - 1);
    let error = VersionSet::recover(paranoid.clone(), &descriptors()).unwrap_err();
    assert!(error.is_corruption() && error.message().contains("the MANIFEST says"), "{error}");
    fs.delete_file(&file_name::table_file_name(Path::new(DB), file.number)).unwrap();
    put(&file_name::leveldb_table_file_name(Path::new(DB), file.number), file.file_size);
    VersionSet::recover(paranoid, &descriptors()).unwrap();
    let nothing = VersionSet::recover(VersionSetOptions::new(mem(), DB), &descriptors()).unwrap_err();
    assert_eq!(nothing.subcode(), SubCode::PathNotFound);
}

fn wanted(fs: &dyn FileSystem, dir: &Path) -> Vec<FamilyDescriptor> {
    let listed = VersionSet::list_families(fs, dir).unwrap();
    let descriptor = |f: ListedFamily| {
        let name = f.comparator.as_deref().unwrap_or("leveldb.BytewiseComparator");
        let comparator = comparator::by_name(name).unwrap_or_else(|| panic!("{}: {name}", dir.display()));
        FamilyDescriptor { comparator, ..FamilyDescriptor::new(f.name) }
    };
    listed.into_iter().map(descriptor).collect()
}

fn copy_dir(from: &Path) -> Arc<dyn FileSystem> {
    let (disk, copy) = (PosixFileSystem::new(), mem());
    copy.create_dir_if_missing(Path::new(DB)).unwrap();
    for name in disk.children(from).unwrap() {
        let size = disk.file_size(&from.join(&name)).unwrap();
        let mut bytes = vec![0; size as usize];
        let mut file = disk.new_sequential_file(&from.join(&name)).unwrap();
        let mut at = 0;
        while at < bytes.len() {
            at += file.read(&mut bytes[at..]).unwrap();
        }
        let mut out = copy.new_writable_file(&Path::new(DB).join(&name)).unwrap();
        out.append(&bytes).unwrap();
        out.close().unwrap();
    }
    copy
}

/// `ESKER_FIXTURES` may name a directory with further databases.
#[test]
fn databases_of_rocksdb_are_recovered_and_survive_a_rewrite_of_their_manifest() {
    let in_tree = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures").to_owned();
    let root = PathBuf::from(std::env::var("ESKER_FIXTURES").unwrap_or(in_tree));
    let disk = PosixFileSystem::new();
    let mut opened = 0;
    for name in disk.children(&root).unwrap_or_default() {
        let dir = root.join(&name).join("db");
        if !disk.file_exists(&file_name::current_file_name(&dir)).unwrap_or(false) {
            continue;
        }
        let fs = copy_dir(&dir);
        let wanted = wanted(fs.as_ref(), Path::new(DB));
        let tables = fs.children(Path::new(DB)).unwrap().iter().any(|n| n.ends_with(".sst"));
        let options =
            VersionSetOptions { paranoid_checks: tables, ..VersionSetOptions::new(Arc::clone(&fs), DB) };
        let files_before = fs.children(Path::new(DB)).unwrap().len();
        let mut set = VersionSet::recover(options.clone(), &wanted).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(fs.children(Path::new(DB)).unwrap().len(), files_before, "{name}: recovery wrote");
        let live = set.live_files();
        assert!(live.iter().all(|n| *n < set.numbers().next_file_number()), "{name}");
        set.log_and_apply(Vec::new(), LogOptions::default()).unwrap();
        let again = VersionSet::recover(options, &wanted).unwrap();
        assert_eq!(describe(&again), describe(&set), "{name}");
        assert_eq!(again.numbers().last_sequence(), set.numbers().last_sequence(), "{name}");
        opened += 1;
    }
    println!("{opened} databases");
}

#[test]
fn candidates_are_those_a_plain_search_finds() {
    for seed in 0..60u64 {
        let mut rng = Rng::new(seed);
        let order: ComparatorRef = match seed % 3 {
            0 => Arc::new(comparator::ReverseBytewiseComparator),
            _ => Arc::new(BytewiseComparator),
        };
        let icmp = InternalKeyComparator::new(order);
        let version = random_version(&mut rng, &icmp);
        for _ in 0..200 {
            let user_key = random_key(&mut rng);
            let target = internal_key(&user_key, SequenceNumber(rng.below(40)), ValueType::SEEK);
            let got: Vec<u64> = version.candidates(&target).map(|(_, f)| f.number.0).collect();
            let mut expected = Vec::new();
            for (level, f) in version.all_files() {
                let inside = icmp.compare_user_keys(f.smallest_user_key(), &user_key).is_le()
                    && icmp.compare_user_keys(&user_key, f.largest_user_key()).is_le();
                if inside && (level == 0 || icmp.compare(&f.largest, &target).is_ge()) {
                    expected.push(f.number.0);
                }
            }
            assert_eq!(got, expected, "seed {seed} key {}", user_key.escape_ascii());
        }
    }
}

fn random_key(rng: &mut Rng) -> Vec<u8> {
    let shared: &[u8] = if rng.one_in(8) { b"q" } else { b"prefix" };
    let mut key = shared.to_vec();
    key.extend((0..rng.below(11)).map(|_| b"\0ab\xFF"[rng.index(4)]));
    key
}

/// A version in which half of the neighbouring files of a level share a user key.
fn random_version(rng: &mut Rng, icmp: &InternalKeyComparator) -> Version {
    let mut version = Version::empty(DEFAULT, icmp.clone(), 4);
    let mut number = 0;
    let mut levels = Vec::new();
    for level in 0..4usize {
        let mut keys: Vec<Vec<u8>> = (0..rng.below(30))
            .map(|_| internal_key(&random_key(rng), SequenceNumber(rng.below(40)), ValueType::Value))
            .collect();
        if level > 0 {
            keys.sort_by(|a, b| icmp.compare(a, b));
            keys.dedup();
        }
        let mut files = Vec::new();
        for pair in keys.chunks_exact(2) {
            let (a, b) = (&pair[0], &pair[1]);
            let (smallest, largest) = if icmp.compare(a, b).is_le() { (a, b) } else { (b, a) };
            number += 1;
            files.push(Arc::new(FileMeta::detached(FileMetaData {
                number: FileNumber(number),
                smallest: smallest.clone(),
                largest: largest.clone(),
                ..FileMetaData::default()
            })));
        }
        levels.push(Arc::new(crate::version::Level::new(files, level > 0, icmp)));
    }
    version.levels = levels.into();
    version
}

#[test]
fn a_manifest_that_is_there_is_neither_overwritten_nor_deleted() {
    let fs = mem();
    let mut set = create(&fs);
    let foreign =
        file_name::descriptor_file_name(Path::new(DB), FileNumber(set.numbers().next_file_number().0 + 1));
    let mut file = fs.new_writable_file(&foreign).unwrap();
    file.append(b"another process's").unwrap();
    file.close().unwrap();
    let fresh = LogOptions { new_manifest: true, ..LogOptions::default() };
    let edit = add(&set, 0, "a", "b");
    set.log_and_apply(vec![edit], fresh).expect_err("a file with this number exists");
    assert_eq!(fs.file_size(&foreign).unwrap(), 17);
    // The next MANIFEST has another number.
    let edit = add(&set, 0, "a", "b");
    set.log_and_apply(vec![edit], fresh).unwrap();
    assert_eq!(fs.file_size(&foreign).unwrap(), 17);
}

#[test]
fn leftovers_of_a_crashed_creation_hinder_no_other_one() {
    let fs = mem();
    fs.create_dir_if_missing(Path::new(DB)).unwrap();
    let left = file_name::descriptor_file_name(Path::new(DB), FileNumber(1));
    fs.new_writable_file(&left).unwrap().append(b"torn").unwrap();
    let set = create(&fs);
    drop(set);
    // CURRENT names it now.
    let comparator: ComparatorRef = Arc::new(BytewiseComparator);
    let e = VersionSet::create_new_db(&options(&fs), "an id", &comparator).expect_err("exists");
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
}
