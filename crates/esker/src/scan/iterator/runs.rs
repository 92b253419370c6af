//! The sorted runs of a super version as one cursor, and its exchange for a newer super version.
//!
//! In: a super version, options, a sequence number. Out: one cursor over everything that the number
//! may see. Runs that a newer super version shares with the old one keep their cursor, mostly in
//! place, with its block and its decoded entries. A flush costs one new cursor, a compaction one
//! for each level it changed; an unchanged run costs a comparison of two pointers. A changed level
//! opens only the file of the position, and not even that if the cursor was in it before.
//!
//! Invariants
//!  1. `sources` names each child's source, newest first. Two super versions have their common runs
//!     in the same order.
//!  2. If one child has skipped, all children are kept, but not their positions.
//!  3. While there are ranges (`is_planned`), `ahead` has the files of `sources`; otherwise it has
//!     these files or none.
//!  4. A memtable without entries that the sequence number sees is not among them.
//!  5. A level may take over the cursor of a file from another level. The cursor has the bounds and
//!     options of all, and the taking level positions it. This happens only in exchanges at the
//!     same sequence number.

use super::committed::CommittedRuns;
use super::timestamped::is_too_new;
use super::watch::{RunWatch, WatchedRun};
use crate::snapshot::{OwnNumbers, UnseenSections};
mod by_prefix;
mod source;

use crate::cf::{ColumnFamily, SuperVersion};
use crate::files::open_table::open_for;
use crate::merge::level::set_bound;
use crate::merge::range_del::FileBounds;
use crate::merge::timestamps::table_iter;
use crate::merge::{
    FileOpener, LevelIterator, LevelTombstones, MergeChild, MergingIterator, OpenedFile, RunTombstones,
};
use crate::options::{ReadOptions, ReadTier, ScanTableFilter, table_read_options};
use crate::version::FileMeta;
use by_prefix::ByPrefix;
pub(in crate::scan) use by_prefix::memtables_by_prefix;
use esker_base::stats::Statistics;
use esker_base::sync::atomic::{AtomicBool, Ordering};
use esker_base::sync::{Arc, Mutex};
use esker_base::{FileNumber, IoActivity, Result, SequenceNumber};
use esker_format::cursor::{InternalIterator, ScanIterator, forward_cursor, on_cursor};
use esker_format::key::InternalKeyComparator;
use esker_format::range_del::FragmentedRangeTombstones;
use esker_memtable::MemTable;
use esker_table::{
    AheadOptions, ScanRanges, ScanTables, ScansAhead, TableCache, TableReadOptions, TableReader,
};
use source::{Source, SourceRef};
use std::cell::Cell;

/// A lone run is read without a merge.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one in an iterator, mostly a merge, and steps go through it"
)]
enum Cursor {
    Lone(Box<dyn ScanIterator>),
    Merged(MergingIterator),
}

impl Cursor {
    fn new(icmp: &InternalKeyComparator, mut children: Vec<MergeChild>) -> Cursor {
        if children.len() == 1 && children[0].tombstones.is_none() {
            return Cursor::Lone(children.pop().expect("the list has one child").iter);
        }
        Cursor::Merged(MergingIterator::new(icmp.clone(), children))
    }

    /// Declares a reader at this sequence number: entries invisible to it may be skipped.
    fn read_at(&mut self, sequence: SequenceNumber) {
        if let Cursor::Merged(merged) = self {
            merged.read_at(sequence);
        }
    }

    /// Whether child `at` has range tombstones.
    fn has_tombstones(&self, at: usize) -> bool {
        match self {
            Cursor::Lone(_) => false,
            Cursor::Merged(merged) => merged.has_tombstones(at),
        }
    }
}

/// All that a super version has, newest first, as one cursor.
pub(crate) struct Runs {
    icmp: InternalKeyComparator,
    sources: Vec<Source>,
    cursor: Cursor,
    /// The sequence number at which range tombstones apply.
    sequence: SequenceNumber,
    kept: Arc<KeptFiles>,
    upper_bound: Option<Vec<u8>>,
    wanted_prefix_of: Option<Vec<u8>>,
    tables: Arc<TableCache>,
    /// The planned scans of its tables' cursors.
    ahead: Arc<ScansAhead>,
    /// Whether there are planned scans.
    is_planned: bool,
    /// Whether `ahead` has the files.
    knows_files: bool,
    /// The iterator's options for reads of tables.
    options: TableReadOptions,
    /// Refuses tables.
    filter: Option<ScanTableFilter>,
    /// The same super version, if it is complete and another iterator may take it over.
    plain: Option<TableReadOptions>,
}

/// Planned ranges and the readahead that serves them.
#[derive(Default, Debug)]
pub(super) struct PlanTarget {
    pub(super) ranges: Arc<ScanRanges>,
    /// `None` if nothing is read ahead for them.
    pub(super) ahead: Option<Arc<ScansAhead>>,
}

/// Cursors over files of removed levels, for the levels that replace them; empty except during an
/// exchange of super versions, so that it holds nothing. Shared by everything that one `Runs`
/// opens.
#[derive(Default)]
struct KeptFiles {
    /// Whether files of removed levels may be needed; not those of planned scans beforehand.
    open: AtomicBool,
    files: Mutex<Vec<(FileNumber, Box<dyn ScanIterator>)>>,
}

impl KeptFiles {
    /// Keeps them until the returned value is dropped; the remaining ones are closed then.
    fn hand_over(&self) -> HandingOver<'_> {
        self.open.store(true, Ordering::Relaxed);
        HandingOver(self)
    }
}

/// See [`KeptFiles::hand_over`]. Ends the exchange even if a comparator panics.
struct HandingOver<'a>(&'a KeptFiles);

impl Drop for HandingOver<'_> {
    fn drop(&mut self) {
        self.0.open.store(false, Ordering::Relaxed);
        // Closed after the lock is released.
        let left = std::mem::take(&mut *self.0.files.lock());
        drop(left);
    }
}

impl Runs {
    /// Makes the runs of an iterator, not yet positioned.
    /// # Errors
    /// Those of opening files of level 0.
    pub(super) fn new(
        cf: &ColumnFamily,
        super_version: &SuperVersion,
        options: &ReadOptions,
        sequence: SequenceNumber,
    ) -> Result<Runs> {
        let children = Opening::new((cf, super_version), options, sequence, Default::default());
        Runs::open(cf, super_version, options, children)
    }

    /// Makes the runs with a counting cursor around each, as a part of planned scans if there are
    /// any.
    /// # Errors
    /// As [`Runs::new`].
    pub(crate) fn watched(
        cf: &ColumnFamily,
        super_version: &SuperVersion,
        options: &ReadOptions,
        sequence: SequenceNumber,
        (watch, ahead): (&Arc<dyn RunWatch>, Option<Arc<ScansAhead>>),
    ) -> Result<Runs> {
        let shared = (Arc::default(), ahead.unwrap_or_default());
        Runs::open(
            cf,
            super_version,
            options,
            Opening::watched((cf, super_version), options, sequence, Some(watch.clone()), shared),
        )
    }

    fn open(
        cf: &ColumnFamily,
        super_version: &SuperVersion,
        options: &ReadOptions,
        children: Opening<'_>,
    ) -> Result<Runs> {
        let (mut sources, mut opened) = (Vec::new(), Vec::new());
        for_each_source(
            cf,
            super_version,
            options,
            children.sequence,
            |_| false,
            |source| {
                sources.push(source.to_owned());
                opened.push(children.open(source)?);
                Ok(())
            },
        )?;
        let mut cursor = Cursor::new(&cf.icmp, opened);
        cursor.read_at(children.sequence);
        let icmp = cf.icmp.clone();
        let may_hand_on = children.opener.watch.is_none();
        let ahead = children.opener.ahead.clone();
        let mut runs = Runs {
            icmp,
            sources,
            cursor,
            sequence: children.sequence,
            kept: children.opener.kept.clone(),
            upper_bound: None,
            wanted_prefix_of: None,
            tables: cf.tables.clone(),
            is_planned: ahead.is_planned(),
            knows_files: false,
            ahead,
            options: children.opener.options,
            filter: options.table_filter.clone(),
            plain: plain_reads(cf, super_version, options).filter(|_| may_hand_on),
        };
        runs.files_have_changed();
        Ok(runs)
    }

    /// Whether the iterator reads with the options of `plain_reads`.
    pub(super) fn reads_plainly(&self, how: TableReadOptions) -> bool {
        self.plain == Some(how)
    }

    /// Plans the ascending ranges that will be scanned: see [`ScansAhead`]. A copy of them.
    pub(super) fn plan(
        &mut self,
        ranges: &ScanRanges,
        options: AheadOptions,
        statistics: Option<&Arc<Statistics>>,
    ) -> PlanTarget {
        let ranges = self.ahead.plan(ranges, options, statistics);
        self.is_planned = true;
        self.report_files();
        PlanTarget { ranges, ahead: Some(self.ahead.clone()) }
    }

    /// Removes the planned ranges.
    pub(super) fn forget_ranges(&mut self) {
        if self.is_planned {
            self.is_planned = false;
            self.ahead.forget();
        }
    }

    /// Reports the files to the planned scans, unless they have them. The planned scans keep the
    /// files for later ranges.
    fn report_files(&mut self) {
        if !self.knows_files {
            let (icmp, tables) = (self.icmp.clone(), self.tables.clone());
            let (filter, sources) = (self.filter.clone(), self.sources.clone());
            let files = FilesOfScans { icmp, tables, options: self.options, filter, sources };
            self.ahead.set_tables(Some(Box::new(files)));
            self.knows_files = true;
        }
    }

    /// The planned scans' knowledge of files is out of date.
    fn files_have_changed(&mut self) {
        let did_know = std::mem::take(&mut self.knows_files);
        if self.is_planned {
            self.report_files();
        } else if did_know {
            self.ahead.set_tables(None);
        }
    }

    /// Prepares the exchange for `super_version`, at `sequence`: shared runs are not opened again.
    /// # Errors
    /// Those of opening files of level 0; nothing has changed then.
    pub(super) fn prepare(
        &self,
        cf: &ColumnFamily,
        super_version: &SuperVersion,
        options: &ReadOptions,
        sequence: SequenceNumber,
    ) -> Result<Exchange> {
        let mut exchange = Exchange { sequence, gone: Vec::new(), fresh: Vec::new() };
        let mut opening = None;
        // Of the old runs, all before `at` are dealt with; of the new ones, `count`.
        let (at, count) = (Cell::new(0), Cell::new(0));
        let is_kept = |source: SourceRef<'_>| {
            let from = at.get();
            let is_next = self.sources.get(from).is_some_and(|old| old.is(source));
            if !is_next || !self.may_keep(from, sequence) {
                return false;
            }
            at.set(from + 1);
            count.set(count.get() + 1);
            true
        };
        for_each_source(cf, super_version, options, sequence, is_kept, |source| {
            let from = at.get();
            let kept = self.sources[from..].iter().position(|old| old.is(source));
            if let Some(passed) = kept {
                exchange.gone.extend(from..from + passed);
                at.set(from + passed + 1);
            }
            if kept.is_none() || !self.may_keep(at.get() - 1, sequence) {
                exchange.gone.extend(kept.map(|passed| from + passed));
                let opening = opening.get_or_insert_with(|| {
                    let shared = (self.kept.clone(), self.ahead.clone());
                    Opening::new((cf, super_version), options, sequence, shared)
                });
                exchange.fresh.push((count.get(), source.to_owned(), opening.open(source)?));
            }
            count.set(count.get() + 1);
            Ok(())
        })?;
        exchange.gone.extend(at.get()..self.sources.len());
        Ok(exchange)
    }

    /// Whether there are no ranges, and no blocks that were read ahead.
    #[cfg(test)]
    pub(super) fn has_nothing_ahead(&self) -> bool {
        !self.is_planned && !self.ahead.is_planned() && !self.ahead.holds()
    }

    /// Whether planned ranges have a source of files.
    #[cfg(test)]
    pub(super) fn knows_files(&self) -> bool {
        assert_eq!(self.knows_files, self.ahead.knows_tables());
        self.knows_files
    }

    /// Whether no cursor is held over from an exchange.
    #[cfg(test)]
    pub(super) fn keeps_nothing(&self) -> bool {
        self.kept.files.lock().is_empty()
    }

    /// Whether the cursor of child `at` is also right at `sequence`: its range tombstones were
    /// applied at another one, and a memtable may have got some since.
    fn may_keep(&self, at: usize, sequence: SequenceNumber) -> bool {
        sequence == self.sequence || !self.cursor.has_tombstones(at) && !self.sources[at].has_new_tombstones()
    }

    /// Does a prepared exchange. With a place and a direction it is there afterwards, as it must
    /// have been before.
    pub(super) fn exchange(&mut self, prepared: Exchange, place: Option<(&[u8], bool)>) {
        self.cursor.read_at(prepared.sequence);
        if prepared.is_empty() && place.is_none() {
            // All are positioned next.
            self.sequence = prepared.sequence;
            return;
        }
        // Where a comparator panics on the way, sources and cursors may not belong together any
        // more.
        let plain = self.plain.take();
        let icmp = &self.icmp;
        let Exchange { sequence, gone, fresh } = prepared;
        self.sequence = sequence;
        for &at in gone.iter().rev() {
            self.sources.remove(at);
        }
        let mut children = Vec::with_capacity(fresh.len());
        for (at, source, mut child) in fresh {
            child.iter.set_upper_bound(self.upper_bound.as_deref());
            child.iter.set_wanted_prefix_of(self.wanted_prefix_of.as_deref());
            self.sources.insert(at, source);
            children.push((at, child));
        }
        if let Cursor::Lone(_) = &self.cursor {
            let nothing = Cursor::Merged(MergingIterator::new(icmp.clone(), Vec::new()));
            if let Cursor::Lone(iter) = std::mem::replace(&mut self.cursor, nothing) {
                self.cursor = Cursor::Merged(
                    MergingIterator::new(icmp.clone(), vec![MergeChild::new(iter)]).unsettled(),
                );
            }
        }
        self.cursor.read_at(sequence);
        self.files_have_changed();
        let _handing_over = (place.is_some() && !self.is_planned).then(|| self.kept.hand_over());
        if let Cursor::Merged(merged) = &mut self.cursor {
            merged.exchange(&gone, children, place);
        }
        self.plain = plain;
    }
}

/// The changes that lead to a newer super version.
pub(super) struct Exchange {
    sequence: SequenceNumber,
    /// Places of runs that it has not.
    gone: Vec<usize>,
    /// Further runs of the new super version, with their places in it.
    fresh: Vec<(usize, Source, MergeChild)>,
}

impl Exchange {
    /// Whether nothing does: then the cursor need not be moved.
    pub(super) fn is_empty(&self) -> bool {
        self.gone.is_empty() && self.fresh.is_empty()
    }

    /// Places of the cursors that are new ones.
    #[cfg(test)]
    pub(super) fn fresh(&self) -> Vec<usize> {
        self.fresh.iter().map(|(at, ..)| *at).collect()
    }
}

/// The runs of a super version as children of a merge, newest first, without the entries that
/// `unseen` hides. With `own`, entries of these numbers are shown, and no others beyond `sequence`.
/// # Errors
/// Those of opening files of level 0.
pub(in crate::scan) fn children_of(
    cf: &ColumnFamily,
    super_version: &SuperVersion,
    options: &ReadOptions,
    sequence: SequenceNumber,
    unseen: Option<UnseenSections>,
    own: Option<&OwnNumbers>,
) -> Result<Vec<MergeChild>> {
    let newest = own.map_or(sequence, |own| sequence.max(own.last()));
    let shown = match own {
        Some(own) => Some(CommittedRuns::with_own(unseen, own.clone(), sequence)),
        None => unseen.map(CommittedRuns::new),
    };
    let hiding = shown.map(|shown| Arc::new(shown) as Arc<dyn RunWatch>);
    // Range tombstones are those up to `sequence`: a transaction with writes here has none.
    let opening = Opening::watched((cf, super_version), options, sequence, hiding, Default::default());
    let mut children = Vec::new();
    for_each_source(
        cf,
        super_version,
        options,
        newest,
        |_| false,
        |source| {
            children.push(opening.open(source)?);
            Ok(())
        },
    )?;
    Ok(children)
}

/// Calls `each` with the runs of `super_version` that a scan needs, newest first, except those that
/// `is_kept` accepts. `is_kept` is called for each in turn, for files before they are compared with
/// the bounds.
fn for_each_source<'a>(
    cf: &ColumnFamily,
    super_version: &'a SuperVersion,
    options: &ReadOptions,
    sequence: SequenceNumber,
    is_kept: impl Fn(SourceRef<'a>) -> bool,
    mut each: impl FnMut(SourceRef<'a>) -> Result<()>,
) -> Result<()> {
    // Visible entries were written before `sequence` was read: a memtable without any now gets none
    // later.
    let seen = |mem: &&Arc<MemTable>| {
        let has_tombstones = !options.ignore_range_deletions && mem.num_range_deletes() > 0;
        (has_tombstones || !mem.has_no_points()) && mem.first_seqno() <= sequence
    };
    // Only gets by timestamps come here with that tier, and only if memtables may have writes
    // without WAL.
    if options.read_tier != ReadTier::Persisted {
        let memtables = super_version.memtables().filter(seen).map(SourceRef::Memtable);
        memtables.filter(|&source| !is_kept(source)).try_for_each(&mut each)?;
    }
    if options.read_tier == ReadTier::Memtable {
        return Ok(());
    }
    for file in super_version.version.files(0) {
        let source = SourceRef::File(file);
        if !is_kept(source) && !outside_bounds(cf, file, options) {
            each(source)?;
        }
    }
    let levels = super_version.version.levels().iter().skip(1).map(|level| level.files());
    let levels = levels.filter(|files| !files.is_empty()).map(SourceRef::Level);
    levels.filter(|&source| !is_kept(source)).try_for_each(each)
}

/// Makes cursors.
struct Opening<'a> {
    cf: &'a ColumnFamily,
    opener: Arc<ReadOpener>,
    sequence: SequenceNumber,
    /// See [`memtables_by_prefix`].
    by_prefix: bool,
}

impl Opening<'_> {
    fn new<'a>(
        of: (&'a ColumnFamily, &SuperVersion),
        options: &ReadOptions,
        sequence: SequenceNumber,
        shared: (Arc<KeptFiles>, Arc<ScansAhead>),
    ) -> Opening<'a> {
        Opening::watched(of, options, sequence, None, shared)
    }

    fn watched<'a>(
        (cf, super_version): (&'a ColumnFamily, &SuperVersion),
        options: &ReadOptions,
        sequence: SequenceNumber,
        watch: Option<Arc<dyn RunWatch>>,
        (kept, ahead): (Arc<KeptFiles>, Arc<ScansAhead>),
    ) -> Opening<'a> {
        let opener = Arc::new(ReadOpener {
            tables: cf.tables.clone(),
            icmp: cf.icmp.clone(),
            options: iterator_table_options(options),
            ignore_range_deletions: options.ignore_range_deletions,
            table_filter: options.table_filter.clone(),
            timestamp: options.timestamp.clone(),
            kept,
            watch,
            ahead,
        });
        Opening { cf, opener, sequence, by_prefix: memtables_by_prefix(super_version, options) }
    }

    fn open(&self, source: SourceRef<'_>) -> Result<MergeChild> {
        let icmp = &self.cf.icmp;
        let hides = !self.opener.ignore_range_deletions;
        Ok(match source {
            SourceRef::Memtable(mem) => MergeChild {
                iter: {
                    let iter = if hides { mem.iter() } else { mem.iter_ignoring_range_deletions() };
                    let iter: Box<dyn ScanIterator> =
                        if self.by_prefix { Box::new(ByPrefix::new(iter)) } else { Box::new(iter) };
                    watched(&self.opener.watch, WatchedRun::Memtable(mem.id()), iter)
                },
                tombstones: (hides && mem.num_range_deletes() > 0).then(|| {
                    let sets = mem.range_tombstones();
                    Box::new(RunTombstones::of_memtable(icmp.clone(), sets, self.sequence)) as Box<_>
                }),
            },
            SourceRef::File(file) => {
                let opened = self.opener.open(file)?;
                let bounds = || FileBounds::new(&file.smallest, &file.largest);
                let tombstones = opened.range_dels.map(|fragments| {
                    let bounds = Some(bounds());
                    Box::new(RunTombstones::new(icmp.clone(), fragments, bounds, self.sequence)) as Box<_>
                });
                MergeChild { iter: opened.iter, tombstones }
            }
            SourceRef::Level(files) => {
                let may_hide = hides && files.iter().any(|f| f.may_have_range_deletions());
                let (icmp, opener) = (icmp.clone(), self.opener.clone());
                let tombstones =
                    || LevelTombstones::new(icmp.clone(), files.clone(), opener.clone(), self.sequence);
                let tombstones = may_hide.then(|| Box::new(tombstones()) as Box<_>);
                let iter = LevelIterator::new(icmp.clone(), files.clone(), opener.clone());
                MergeChild { iter: Box::new(iter), tombstones }
            }
        })
    }
}

impl InternalIterator for Runs {
    forward_cursor!(self => self.cursor, [Cursor::Lone, Cursor::Merged]; valid, seek_to_first, seek_to_last,
        seek, seek_for_prev, next, prev, key, value, pinned_value, status);
}

impl ScanIterator for Runs {
    forward_cursor!(self => self.cursor, [Cursor::Lone, Cursor::Merged]; next_key, prev_key,
        prev_key_leaving, left_value, pinned_left_value, progress, continue_from, look_ahead, advance, pass,
        deleted_run_end, was_seen, skip_deleted_run);

    fn set_upper_bound(&mut self, user_key: Option<&[u8]>) {
        set_bound(&mut self.upper_bound, user_key);
        on_cursor!(&mut self.cursor, [Cursor::Lone, Cursor::Merged], iter => iter.set_upper_bound(user_key));
    }

    fn set_wanted_prefix_of(&mut self, user_key: Option<&[u8]>) {
        self.wanted_prefix_of = user_key.map(<[u8]>::to_vec);
        on_cursor!(&mut self.cursor, [Cursor::Lone, Cursor::Merged], iter => iter.set_wanted_prefix_of(user_key));
    }

    fn release(&mut self) {
        self.forget_ranges();
        on_cursor!(&mut self.cursor, [Cursor::Lone, Cursor::Merged], iter => iter.release());
    }
}

/// Options for reading tables, if all reads with these options may share a cursor over a super
/// version: it has all runs, and holds no table open that the table cache would close.
pub(super) fn plain_reads(
    cf: &ColumnFamily,
    super_version: &SuperVersion,
    options: &ReadOptions,
) -> Option<TableReadOptions> {
    let is_plain = options.read_tier == ReadTier::ReadAll
        && options.max_skippable_internal_keys == 0
        && !options.ignore_range_deletions
        && !options.prefix_same_as_start
        && !options.pin_data
        && !options.allow_unprepared_value
        && options.table_filter.is_none()
        && options.deadline.is_none()
        && cf.tables.keeps_all_open()
        && !memtables_by_prefix(super_version, options)
        && has_all_of_level_0(cf, super_version, options);
    is_plain.then(|| iterator_table_options(options))
}

/// Whether no file of level 0 is left out because of bounds.
fn has_all_of_level_0(cf: &ColumnFamily, super_version: &SuperVersion, options: &ReadOptions) -> bool {
    let has_bounds = options.iterate_lower_bound.is_some() || options.iterate_upper_bound.is_some();
    !has_bounds || !super_version.version.files(0).iter().any(|file| outside_bounds(cf, file, options))
}

fn outside_bounds(cf: &ColumnFamily, file: &FileMeta, options: &ReadOptions) -> bool {
    let below = options
        .iterate_lower_bound
        .as_ref()
        .is_some_and(|lower| cf.icmp.compare_user_keys(file.largest_user_key(), lower).is_lt());
    let above = options
        .iterate_upper_bound
        .as_ref()
        .is_some_and(|upper| cf.icmp.compare_user_keys(file.smallest_user_key(), upper).is_ge());
    below || above
}

/// A seek may use prefix filters only if the caller needs only keys with the prefix of the seek
/// key. With bounds alone a key could be missed, so bounds alone never turn it on.
pub(super) fn iterator_table_options(options: &ReadOptions) -> TableReadOptions {
    let mut table_options = table_read_options(options);
    table_options.activity = IoActivity::DbIterator;
    table_options.prefix_filter_on_seek = options.prefix_same_as_start && !options.total_order_seek;
    table_options
}

/// Opens files for reads.
struct ReadOpener {
    tables: Arc<TableCache>,
    icmp: InternalKeyComparator,
    options: TableReadOptions,
    ignore_range_deletions: bool,
    table_filter: Option<ScanTableFilter>,
    /// The timestamp of the read, if it has one.
    timestamp: Option<Vec<u8>>,
    kept: Arc<KeptFiles>,
    /// Counts its cursors' work, if set.
    watch: Option<Arc<dyn RunWatch>>,
    /// The planned scans of its cursors.
    ahead: Arc<ScansAhead>,
}

/// The files of some runs, for readahead.
struct FilesOfScans {
    icmp: InternalKeyComparator,
    tables: Arc<TableCache>,
    options: TableReadOptions,
    filter: Option<ScanTableFilter>,
    sources: Vec<Source>,
}

impl FilesOfScans {
    /// Calls `each` with the table of `file`, if it can be opened: the scan will meet the error.
    fn table(&self, file: &Arc<FileMeta>, each: &mut dyn FnMut(&Arc<TableReader>)) {
        if let Ok(table) = open_for(&self.tables, file, &self.options)
            && self.filter.as_ref().is_none_or(|filter| filter.accepts(table.properties()))
        {
            each(&table);
        }
    }
}

impl ScanTables for FilesOfScans {
    fn within(&self, start: &[u8], limit: &[u8], each: &mut dyn FnMut(&Arc<TableReader>)) {
        let icmp = &self.icmp;
        let ends_before = |file: &FileMeta| icmp.compare_user_keys(file.largest_user_key(), start).is_lt();
        let begins_behind = |file: &FileMeta| icmp.compare_user_keys(file.smallest_user_key(), limit).is_ge();
        for source in &self.sources {
            match source {
                Source::Memtable(_) => {}
                Source::File(file) if ends_before(file) || begins_behind(file) => {}
                Source::File(file) => self.table(file, each),
                Source::Level(files) => {
                    let first = files.partition_point(|file| ends_before(file));
                    let within = files[first..].iter().take_while(|file| !begins_behind(file));
                    within.for_each(|file| self.table(file, each));
                }
            }
        }
    }
}

/// `iter`, counted if it is watched.
fn watched(
    watch: &Option<Arc<dyn RunWatch>>,
    what: WatchedRun,
    iter: Box<dyn ScanIterator>,
) -> Box<dyn ScanIterator> {
    match watch {
        None => iter,
        Some(watch) => watch.clone().over(what, iter),
    }
}

impl FileOpener<Arc<FileMeta>> for ReadOpener {
    fn open(&self, file: &Arc<FileMeta>) -> Result<OpenedFile> {
        let reader = open_for(&self.tables, file, &self.options)?;
        let range_dels = if self.ignore_range_deletions { None } else { reader.range_dels().cloned() };
        let is_wanted = self.table_filter.as_ref().is_none_or(|f| f.accepts(reader.properties()))
            && !is_too_new(&self.tables, &self.icmp, file, self.timestamp.as_deref());
        let iter: Box<dyn ScanIterator> = if !is_wanted {
            Box::new(MergingIterator::new(self.icmp.clone(), Vec::new()))
        } else if self.icmp.timestamp_size() == 0 {
            Box::new(reader.iter(self.options).with_scans_ahead(self.ahead.clone()))
        } else {
            table_iter(&reader, self.options, &self.icmp)
        };
        Ok(OpenedFile { iter: watched(&self.watch, WatchedRun::File(file.number), iter), range_dels })
    }

    fn range_dels(&self, file: &Arc<FileMeta>) -> Result<Option<Arc<FragmentedRangeTombstones>>> {
        Ok(open_for(&self.tables, file, &self.options)?.range_dels().cloned())
    }

    fn has_other_prefix(&self, user_key: &[u8], wanted: &[u8]) -> bool {
        let extractor = self.tables.prefix_extractor().filter(|_| self.options.prefix_filter_on_seek);
        extractor.is_some_and(|extractor| extractor.transform(user_key) != extractor.transform(wanted))
    }

    fn keep(&self, file: &Arc<FileMeta>, iter: Box<dyn ScanIterator>) {
        if self.kept.open.load(Ordering::Relaxed) {
            self.kept.files.lock().push((file.number, iter));
        }
    }

    fn take_kept(&self, file: &Arc<FileMeta>) -> Option<Box<dyn ScanIterator>> {
        if !self.kept.open.load(Ordering::Relaxed) {
            return None;
        }
        let mut files = self.kept.files.lock();
        let at = files.iter().position(|(number, _)| *number == file.number)?;
        Some(files.swap_remove(at).1)
    }
}
