//! The sorted runs of a view as one cursor, and how it goes over to a newer view.
//!
//! In: a view, options, a sequence number. Out: one cursor over all that the number may see. Of a newer view, runs that the
//! old one has too keep their cursor, mostly where it stands, with its block and what it has read ahead: a flush costs one new
//! cursor, a compaction one for each level it changed, however many files there are.
//!
//! Invariants
//!  1. `sources` says of each child what it reads, newest first.
//!  2. Cursors of which one has hopped are kept, but not where they stand.
//!  3. A memtable of which the sequence number sees nothing is not among them.

use super::super::explain::{Watch, Watched};
use super::super::reads::table_read_options;
use crate::cf::{ColumnFamily, SuperVersion};
use crate::iter::range_del::FileBounds;
use crate::iter::timestamped::table_iter;
use crate::iter::{
    FileOpener, LevelIterator, LevelTombstones, MergeChild, MergingIterator, OpenedFile, RunTombstones,
};
use crate::options::{ReadOptions, ReadTier};
use crate::read::tables::open_file;
use crate::version::FileMeta;
use esker_base::iter::{Hopped, InternalIterator, KnownDead};
use esker_base::sync::Arc;
use esker_base::{PinnedBytes, Result, SequenceNumber};
use esker_format::key::InternalKeyComparator;
use esker_format::range_del::FragmentedRangeTombstones;
use esker_memtable::MemTable;
use esker_table::{TableCache, TableReadOptions};

/// What a child reads.
#[derive(Clone, Debug)]
enum Source {
    Memtable(Arc<MemTable>),
    /// A file of level 0.
    File(Arc<FileMeta>),
    Level(Arc<[Arc<FileMeta>]>),
}

impl Source {
    fn is_same(&self, other: &Source) -> bool {
        match (self, other) {
            (Source::Memtable(a), Source::Memtable(b)) => Arc::ptr_eq(a, b),
            (Source::File(a), Source::File(b)) => a.number == b.number,
            (Source::Level(a), Source::Level(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

/// A lone run is read without a merge.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one in an iterator, mostly a merge, and steps go through it"
)]
enum Cursor {
    Lone(Box<dyn InternalIterator>),
    Merged(MergingIterator),
}

impl Cursor {
    fn new(icmp: &InternalKeyComparator, mut children: Vec<MergeChild>) -> Cursor {
        if children.len() == 1 && children[0].tombstones.is_none() {
            return Cursor::Lone(children.pop().expect("there is one").iter);
        }
        Cursor::Merged(MergingIterator::new(icmp.clone(), children))
    }

    fn into_children(self) -> Vec<MergeChild> {
        match self {
            Cursor::Lone(iter) => vec![MergeChild::new(iter)],
            Cursor::Merged(merged) => merged.into_children(),
        }
    }
}

/// All that a view has, newest first, as one cursor.
pub(super) struct Runs {
    sources: Vec<Source>,
    cursor: Cursor,
    upper_bound: Option<Vec<u8>>,
    wanted_prefix_of: Option<Vec<u8>>,
}

impl Runs {
    /// Not positioned.
    /// # Errors
    /// Those of opening files of level 0.
    pub(super) fn new(
        cf: &ColumnFamily,
        view: &SuperVersion,
        options: &ReadOptions,
        sequence: SequenceNumber,
    ) -> Result<Runs> {
        Runs::open(cf, view, options, Opening::new(cf, options, sequence))
    }

    /// The same, with everything it opens watched.
    /// # Errors
    /// As [`Runs::new`].
    pub(in crate::db) fn watched(
        cf: &ColumnFamily,
        view: &SuperVersion,
        options: &ReadOptions,
        sequence: SequenceNumber,
        watch: &Arc<Watch>,
    ) -> Result<Runs> {
        Runs::open(cf, view, options, Opening::watched(cf, options, sequence, Some(watch.clone())))
    }

    fn open(
        cf: &ColumnFamily,
        view: &SuperVersion,
        options: &ReadOptions,
        children: Opening<'_>,
    ) -> Result<Runs> {
        let sources = sources_of(cf, view, options, children.sequence);
        let children = sources.iter().map(|source| children.open(source)).collect::<Result<_>>()?;
        let cursor = Cursor::new(&cf.icmp, children);
        Ok(Runs { sources, cursor, upper_bound: None, wanted_prefix_of: None })
    }

    /// What the cursor needs for `view`: the sources it has already are not opened again.
    /// # Errors
    /// Those of opening files of level 0; nothing has changed then.
    pub(super) fn prepare(
        &self,
        cf: &ColumnFamily,
        view: &SuperVersion,
        options: &ReadOptions,
        sequence: SequenceNumber,
    ) -> Result<Vec<Exchange>> {
        let opening = Opening::new(cf, options, sequence);
        let exchange = |source: Source| {
            let kept = self.sources.iter().position(|old| old.is_same(&source));
            let fresh = if kept.is_none() { Some(opening.open(&source)?) } else { None };
            Ok(Exchange { source, kept, fresh })
        };
        sources_of(cf, view, options, sequence).into_iter().map(exchange).collect()
    }

    /// Whether what was prepared is what it reads already: then it need not be moved.
    pub(super) fn has_all_of(&self, prepared: &[Exchange]) -> bool {
        prepared.len() == self.sources.len()
            && prepared.iter().enumerate().all(|(i, exchange)| exchange.kept == Some(i))
    }

    /// Goes over to what was prepared. With a place and a direction it stands there afterwards.
    pub(super) fn exchange(
        &mut self,
        icmp: &InternalKeyComparator,
        prepared: Vec<Exchange>,
        place: Option<(&[u8], bool)>,
    ) {
        let nothing = Cursor::Merged(MergingIterator::new(icmp.clone(), Vec::new()));
        let before = std::mem::replace(&mut self.cursor, nothing).into_children();
        let mut before: Vec<_> = before.into_iter().map(Some).collect();
        let mut children = Vec::new();
        self.sources.clear();
        for Exchange { source, kept, fresh } in prepared {
            let kept = kept.and_then(|at| before[at].take());
            let is_fresh = kept.is_none();
            let mut child = kept.or(fresh).expect("what is not kept was opened");
            if is_fresh {
                child.iter.set_upper_bound(self.upper_bound.as_deref());
                child.iter.set_wanted_prefix_of(self.wanted_prefix_of.as_deref());
            }
            self.sources.push(source);
            children.push(child);
        }
        let mut merged = MergingIterator::new(icmp.clone(), children);
        if let Some((target, forward)) = place {
            merged.resume(target, forward);
        }
        self.cursor = Cursor::Merged(merged);
    }
}

/// One run of a newer view.
pub(super) struct Exchange {
    source: Source,
    /// Its place among the old ones.
    kept: Option<usize>,
    fresh: Option<MergeChild>,
}

impl Exchange {
    /// Whether its cursor is a new one.
    #[cfg(test)]
    pub(super) fn is_fresh(&self) -> bool {
        self.kept.is_none()
    }
}

fn sources_of(
    cf: &ColumnFamily,
    view: &SuperVersion,
    options: &ReadOptions,
    sequence: SequenceNumber,
) -> Vec<Source> {
    // What may be shown was written before `sequence` was read: a memtable without it now will not have it later.
    let seen = |mem: &&Arc<MemTable>| {
        let has_tombstones = !options.ignore_range_deletions && mem.num_range_deletes() > 0;
        (has_tombstones || !mem.has_no_points()) && mem.first_seqno() <= sequence
    };
    let mut sources: Vec<Source> = view.memtables().filter(seen).cloned().map(Source::Memtable).collect();
    if options.read_tier == ReadTier::Memtable {
        return sources;
    }
    let level0 = view.version.files(0).iter().filter(|file| !outside_bounds(cf, file, options));
    sources.extend(level0.cloned().map(Source::File));
    let levels = view.version.levels().iter().skip(1).map(|level| level.files());
    sources.extend(levels.filter(|files| !files.is_empty()).cloned().map(Source::Level));
    sources
}

/// Makes cursors.
struct Opening<'a> {
    cf: &'a ColumnFamily,
    opener: Arc<ReadOpener>,
    sequence: SequenceNumber,
}

impl Opening<'_> {
    fn new<'a>(cf: &'a ColumnFamily, options: &ReadOptions, sequence: SequenceNumber) -> Opening<'a> {
        Opening::watched(cf, options, sequence, None)
    }

    fn watched<'a>(
        cf: &'a ColumnFamily,
        options: &ReadOptions,
        sequence: SequenceNumber,
        watch: Option<Arc<Watch>>,
    ) -> Opening<'a> {
        let opener = Arc::new(ReadOpener {
            tables: cf.tables.clone(),
            icmp: cf.icmp.clone(),
            options: iterator_table_options(options),
            ignore_range_deletions: options.ignore_range_deletions,
            watch,
        });
        Opening { cf, opener, sequence }
    }

    fn open(&self, source: &Source) -> Result<MergeChild> {
        let icmp = &self.cf.icmp;
        let hides = !self.opener.ignore_range_deletions;
        let run = |fragments, bounds| {
            Box::new(RunTombstones::new(icmp.clone(), fragments, bounds, self.sequence)) as Box<_>
        };
        Ok(match source {
            Source::Memtable(mem) => MergeChild {
                iter: watched(&self.opener.watch, Watched::Memtable(mem.id()), Box::new(mem.iter())),
                tombstones: (hides && mem.num_range_deletes() > 0).then(|| run(mem.range_tombstones(), None)),
            },
            Source::File(file) => {
                let opened = self.opener.open(file)?;
                let bounds = || FileBounds::new(&file.smallest, &file.largest);
                let tombstones = opened.range_dels.map(|fragments| run(fragments, Some(bounds())));
                MergeChild { iter: opened.iter, tombstones }
            }
            Source::Level(files) => {
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

macro_rules! of_cursor {
    ($self:ident.$method:ident($($argument:expr),*)) => {
        match &$self.cursor {
            Cursor::Lone(iter) => iter.$method($($argument),*),
            Cursor::Merged(iter) => iter.$method($($argument),*),
        }
    };
    (mut $self:ident.$method:ident($($argument:expr),*)) => {
        match &mut $self.cursor {
            Cursor::Lone(iter) => iter.$method($($argument),*),
            Cursor::Merged(iter) => iter.$method($($argument),*),
        }
    };
}

impl InternalIterator for Runs {
    #[inline]
    fn valid(&self) -> bool {
        of_cursor!(self.valid())
    }
    fn seek_to_first(&mut self) {
        of_cursor!(mut self.seek_to_first());
    }
    fn seek_to_last(&mut self) {
        of_cursor!(mut self.seek_to_last());
    }
    fn seek(&mut self, target: &[u8]) {
        of_cursor!(mut self.seek(target));
    }
    fn seek_for_prev(&mut self, target: &[u8]) {
        of_cursor!(mut self.seek_for_prev(target));
    }
    #[inline]
    fn next(&mut self) {
        of_cursor!(mut self.next());
    }
    #[inline]
    fn prev(&mut self) {
        of_cursor!(mut self.prev());
    }
    #[inline]
    fn key(&self) -> &[u8] {
        of_cursor!(self.key())
    }
    #[inline]
    fn value(&self) -> &[u8] {
        of_cursor!(self.value())
    }
    #[inline]
    fn next_key(&mut self) -> Option<&[u8]> {
        of_cursor!(mut self.next_key())
    }
    #[inline]
    fn prev_key(&mut self) -> Option<&[u8]> {
        of_cursor!(mut self.prev_key())
    }
    fn status(&self) -> Result<()> {
        of_cursor!(self.status())
    }
    fn pinned_value(&self) -> PinnedBytes {
        of_cursor!(self.pinned_value())
    }
    fn set_upper_bound(&mut self, user_key: Option<&[u8]>) {
        self.upper_bound = user_key.map(<[u8]>::to_vec);
        of_cursor!(mut self.set_upper_bound(user_key));
    }
    fn set_wanted_prefix_of(&mut self, user_key: Option<&[u8]>) {
        self.wanted_prefix_of = user_key.map(<[u8]>::to_vec);
        of_cursor!(mut self.set_wanted_prefix_of(user_key));
    }
    fn hop(&mut self, snapshot: SequenceNumber, forward: bool, known: Option<&KnownDead<'_>>) -> Hopped {
        of_cursor!(mut self.hop(snapshot, forward, known))
    }
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

/// A seek may ask prefix filters only if the caller wants nothing but keys with the prefix of the seek key; with mere
/// bounds a key could be missed, so bounds alone never turn it on.
fn iterator_table_options(options: &ReadOptions) -> TableReadOptions {
    let mut table_options = table_read_options(options);
    table_options.prefix_filter_on_seek = options.prefix_same_as_start && !options.total_order_seek;
    table_options
}

/// Opens files for reads.
struct ReadOpener {
    tables: Arc<TableCache>,
    icmp: InternalKeyComparator,
    options: TableReadOptions,
    ignore_range_deletions: bool,
    /// Who counts what its cursors do, if anybody does.
    watch: Option<Arc<Watch>>,
}

/// `iter`, counted if it is watched.
fn watched(
    watch: &Option<Arc<Watch>>,
    what: Watched,
    iter: Box<dyn InternalIterator>,
) -> Box<dyn InternalIterator> {
    match watch {
        None => iter,
        Some(watch) => watch.over(what, iter),
    }
}

impl FileOpener<Arc<FileMeta>> for ReadOpener {
    fn open(&self, file: &Arc<FileMeta>) -> Result<OpenedFile> {
        let reader = open_file(&self.tables, file)?;
        let range_dels = if self.ignore_range_deletions { None } else { reader.range_dels().cloned() };
        let iter = table_iter(&reader, self.options, &self.icmp);
        Ok(OpenedFile { iter: watched(&self.watch, Watched::File(file.number), iter), range_dels })
    }

    fn range_dels(&self, file: &Arc<FileMeta>) -> Result<Option<Arc<FragmentedRangeTombstones>>> {
        Ok(open_file(&self.tables, file)?.range_dels().cloned())
    }
}
