use super::*;
use crate::merge::tests::script::{all, entries, text, tombstones};
use crate::merge::vec_iter::{Entries, VecIter};
use esker_base::sync::Mutex;
use esker_base::{Error, ValueType};
use esker_format::cursor::forward_cursor;
use esker_format::key::{internal_key, seek_key};

struct File {
    number: usize,
    smallest: Vec<u8>,
    largest: Vec<u8>,
    entries: Entries,
    range_dels: Option<Arc<FragmentedRangeTombstones>>,
}

impl LevelFile for File {
    fn smallest(&self) -> &[u8] {
        &self.smallest
    }
    fn largest(&self) -> &[u8] {
        &self.largest
    }
    fn may_have_range_dels(&self) -> bool {
        self.range_dels.is_some()
    }
    fn was_seen(&self, _known: &KnownDeletedRun<'_>) -> bool {
        false
    }
}

fn file(number: usize, lines: &[&str]) -> File {
    let entries = entries(lines);
    let (smallest, largest) = (entries[0].0.clone(), entries[lines.len() - 1].0.clone());
    File { number, smallest, largest, entries, range_dels: None }
}

/// An opener that records the opened files; file `broken` cannot be opened.
#[derive(Default)]
struct Opener {
    opened: Mutex<Vec<usize>>,
    broken: Option<usize>,
}

impl FileOpener<File> for Opener {
    fn open(&self, file: &File) -> Result<OpenedFile> {
        self.opened.lock().push(file.number);
        if self.broken == Some(file.number) {
            return Err(Error::io("cannot be opened"));
        }
        let iter = VecIter::new(&InternalKeyComparator::default(), Arc::clone(&file.entries));
        Ok(OpenedFile { iter: Box::new(iter), range_dels: file.range_dels.clone() })
    }
}

fn three() -> Arc<[File]> {
    Arc::new([
        file(0, &["a@1 put a", "b@1 put b"]),
        file(1, &["d@1 put d", "f@1 put f"]),
        file(2, &["h@1 put h"]),
    ])
}

fn level(files: &Arc<[File]>, opener: &Arc<Opener>) -> LevelIterator<File, Opener> {
    LevelIterator::new(InternalKeyComparator::default(), Arc::clone(files), Arc::clone(opener))
}

#[test]
fn files_follow_each_other_both_ways() {
    let (files, opener) = (three(), Arc::new(Opener::default()));
    let mut iter = level(&files, &opener);
    assert!(opener.opened.lock().is_empty());
    let order = ["a@1 put a", "b@1 put b", "d@1 put d", "f@1 put f", "h@1 put h"];
    assert_eq!(all(&mut iter), order);
    assert_eq!(*opener.opened.lock(), [0, 1, 2]);
    iter.seek_to_last();
    for expected in order.iter().rev() {
        assert_eq!(text(iter.key(), iter.value()), *expected);
        iter.prev();
    }
    assert!(!iter.valid() && iter.status().is_ok());
    for (target, at, before) in [
        ("a", Some(0), Some(0)),
        ("c", Some(2), Some(1)),
        ("f", Some(3), Some(3)),
        ("i", None, Some(4)),
        ("", Some(0), None),
    ] {
        let shown = |iter: &LevelIterator<File, Opener>| iter.valid().then(|| text(iter.key(), iter.value()));
        iter.seek(&seek_key(target.as_bytes(), SequenceNumber::MAX));
        assert_eq!(shown(&iter).as_deref(), at.map(|i: usize| order[i]), "{target}");
        iter.seek_for_prev(&internal_key(target.as_bytes(), SequenceNumber::ZERO, ValueType::Deletion));
        assert_eq!(shown(&iter).as_deref(), before.map(|i: usize| order[i]), "{target}");
    }
}

#[test]
fn only_the_files_asked_for_are_opened_and_none_behind_the_upper_bound() {
    let (files, opener) = (three(), Arc::new(Opener::default()));
    let mut iter = level(&files, &opener);
    iter.set_upper_bound(Some(b"h"));
    iter.seek(&seek_key(b"d", SequenceNumber::MAX));
    iter.next();
    iter.seek(&seek_key(b"e", SequenceNumber::MAX));
    iter.next();
    assert!(!iter.valid() && iter.status().is_ok());
    iter.seek(&seek_key(b"g", SequenceNumber::MAX));
    assert!(!iter.valid());
    assert_eq!(*opener.opened.lock(), [1]);
}

#[test]
fn a_file_that_cannot_be_opened_ends_the_scan_with_its_error() {
    let files = three();
    let opener = Arc::new(Opener { broken: Some(1), ..Opener::default() });
    let mut iter = level(&files, &opener);
    assert_eq!(all(&mut iter).len(), 2);
    assert!(iter.status().is_err());
    iter.seek_to_last();
    assert!(iter.valid() && iter.status().is_ok());
    iter.prev();
    assert!(!iter.valid() && iter.status().is_err());
    iter.seek(&seek_key(b"h", SequenceNumber::MAX));
    assert!(iter.valid() && iter.status().is_ok());
}

/// An opener that keeps the cursors of closed levels. The cursors end at their upper bounds.
#[derive(Default)]
struct Keeper {
    opener: Opener,
    kept: Mutex<Vec<(usize, Box<dyn ScanIterator>)>>,
}

impl FileOpener<File> for Keeper {
    fn open(&self, file: &File) -> Result<OpenedFile> {
        let OpenedFile { iter, range_dels } = self.opener.open(file)?;
        Ok(OpenedFile { iter: Box::new(Bounded { iter, upper: None }), range_dels })
    }
    fn keep(&self, file: &File, iter: Box<dyn ScanIterator>) {
        self.kept.lock().push((file.number, iter));
    }
    fn take_kept(&self, file: &File) -> Option<Box<dyn ScanIterator>> {
        let mut kept = self.kept.lock();
        let at = kept.iter().position(|(number, _)| *number == file.number)?;
        Some(kept.swap_remove(at).1)
    }
}

struct Bounded {
    iter: Box<dyn ScanIterator>,
    upper: Option<Vec<u8>>,
}

impl InternalIterator for Bounded {
    forward_cursor!(self => self.iter; seek_to_first, seek_to_last, seek, seek_for_prev, next, prev, key,
        value, pinned_value, status);

    fn valid(&self) -> bool {
        self.iter.valid() && self.upper.as_ref().is_none_or(|upper| key::user_key(self.key()) < &upper[..])
    }
}

impl ScanIterator for Bounded {
    forward_cursor!(self => self.iter; set_wanted_prefix_of, progress, continue_from, release);
    plain_cursor!(self; next_key, prev_key, prev_key_leaving, left_value, pinned_left_value, look_ahead,
        advance, pass, deleted_run_end, was_seen, skip_deleted_run);

    fn set_upper_bound(&mut self, user_key: Option<&[u8]>) {
        self.upper = user_key.map(<[u8]>::to_vec);
    }
}

#[test]
fn a_kept_cursor_has_the_bounds_of_the_level_that_takes_it() {
    let keeper = Arc::new(Keeper::default());
    let level = |files: &Arc<[File]>| {
        LevelIterator::new(InternalKeyComparator::default(), Arc::clone(files), Arc::clone(&keeper))
    };
    let mut before = level(&three());
    before.set_upper_bound(Some(b"e"));
    before.seek(&seek_key(b"d", SequenceNumber::MAX));
    assert!(before.valid());
    drop(before);
    assert_eq!(keeper.kept.lock().len(), 1);
    // The file has other neighbours and another index.
    let files: Arc<[File]> = Arc::new([
        file(3, &["a@1 put a"]),
        file(4, &["c@1 put c"]),
        file(1, &["d@1 put d", "f@1 put f"]),
        file(5, &["g@1 put g"]),
    ]);
    let mut after = level(&files);
    after.seek(&seek_key(b"d", SequenceNumber::MAX));
    assert_eq!(*keeper.opener.opened.lock(), [1]);
    assert!(keeper.kept.lock().is_empty());
    for expected in ["d@1 put d", "f@1 put f", "g@1 put g"] {
        assert_eq!(text(after.key(), after.value()), expected);
        after.next();
    }
    assert!(!after.valid() && after.status().is_ok());
    assert_eq!(*keeper.opener.opened.lock(), [1, 5]);
    // A level without a position gives no cursor to another level.
    drop(after);
    assert!(keeper.kept.lock().is_empty());
}

#[test]
fn no_file_is_no_entry() {
    let files: Arc<[File]> = Arc::new([]);
    let opener = Arc::new(Opener::default());
    let mut iter = level(&files, &opener);
    assert!(all(&mut iter).is_empty() && iter.status().is_ok());
    iter.seek_to_last();
    iter.seek_for_prev(b"k\x01\0\0\0\0\0\0\0");
    assert!(!iter.valid() && iter.status().is_ok());
    let mut tombstones =
        LevelTombstones::new(InternalKeyComparator::default(), files, opener, SequenceNumber::MAX);
    assert_eq!(tombstones.locate(b"a").unwrap(), Cover::NONE);
    assert_eq!(tombstones.window(), (Bound::Unbounded, Bound::Unbounded));
}

/// A file d@1..f@1, whose bound clips a tombstone `[e, z)@5`.
fn with_tombstone(largest: Vec<u8>) -> Arc<[File]> {
    let mut files =
        [file(0, &["a@1 put a", "b@1 put b"]), file(1, &["d@1 put d", "f@1 put f"]), file(2, &["h@1 put h"])];
    files[1].range_dels = Some(tombstones(&[("e", "z", 5)]));
    files[1].largest = largest;
    Arc::new(files)
}

#[test]
fn tombstones_act_up_to_the_bound_of_their_file_also_beyond_its_entries() {
    let files = with_tombstone(internal_key(b"g", SequenceNumber::MAX, ValueType::RangeDeletion));
    let opener = Arc::new(Opener::default());
    let icmp = InternalKeyComparator::default();
    let mut level = LevelTombstones::new(icmp, files, Arc::clone(&opener), SequenceNumber::MAX);
    let below = |level: &mut LevelTombstones<File, Opener>, key: &[u8]| level.locate(key).unwrap().below.0;
    for order in [["a", "d", "e", "ff", "g", "h", "i"], ["i", "h", "g", "ff", "e", "d", "a"]] {
        for key in order {
            let expected = if key == "e" || key == "ff" { 5 } else { 0 };
            assert_eq!(below(&mut level, key.as_bytes()), expected, "{key}");
            let (low, high) = level.window();
            assert!(std::ops::RangeBounds::contains(&(low, high), key.as_bytes()), "{key} {low:?} {high:?}");
        }
    }
    assert_eq!(below(&mut level, b"f"), 5);
    let mut ends = Vec::new();
    level.covered_until(&mut ends);
    level.covered_since(&mut ends);
    assert_eq!(ends, b"ge");
    // Files that are known to have no tombstones are not opened.
    assert!(opener.opened.lock().iter().all(|&number| number == 1));
}

#[test]
fn tombstones_of_a_file_that_cannot_be_opened_are_an_error() {
    let files = with_tombstone(internal_key(b"g", SequenceNumber::MAX, ValueType::RangeDeletion));
    let opener = Arc::new(Opener { broken: Some(1), ..Opener::default() });
    let icmp = InternalKeyComparator::default();
    let mut level = LevelTombstones::new(icmp, files, opener, SequenceNumber::MAX);
    assert!(level.locate(b"a").is_ok());
    assert!(level.locate(b"e").is_err());
    assert!(level.locate(b"e").is_err());
    assert!(level.locate(b"h").is_ok());
}

#[test]
fn where_a_user_key_goes_on_in_the_next_file_it_is_a_window_of_its_own() {
    let mut first = file(0, &["a@1 put a", "d@6 put d"]);
    first.range_dels = Some(tombstones(&[("b", "z", 9)]));
    let files: Arc<[File]> = Arc::new([first, file(1, &["d@4 put d", "f@1 put f"])]);
    let icmp = InternalKeyComparator::default();
    let mut level = LevelTombstones::new(icmp, files, Arc::<Opener>::default(), SequenceNumber::MAX);
    for _ in 0..2 {
        let cover = level.locate(b"d").unwrap();
        assert_eq!(cover, Cover { edge_from: SequenceNumber(6), edge_to: SequenceNumber(9), ..Cover::NONE });
        assert_eq!(level.window(), (Bound::Included(&b"d"[..]), Bound::Included(&b"d"[..])));
        assert_eq!(level.locate(b"e").unwrap(), Cover::NONE);
        assert_eq!(level.locate(b"c").unwrap(), Cover::below(SequenceNumber(9)));
    }
}
