//! Reads that tell what they do.
//!
//! In: what to read. Out: its [`Explanation`]. Lookups go through twins of `get/search.rs` and of the
//! tables' `get`, scans through the iterators themselves with a cursor around each run that counts:
//! so nothing of it is in the reads that do not ask.
//!
//! Invariants
//!  1. The outcome is that of the read it explains, at the same sequence number.
//!  2. What is read goes into the cache as it would otherwise, and is counted in the statistics.

mod watch;

use super::{ColumnFamilyHandle, Db};
use crate::cf::SuperVersion;
use crate::files::open_table::open_for;
use crate::get::saver::Saver;
use crate::get::search::ReadContext;
use crate::observe::{Explanation, KeyRead, ReadSource, ScanRead, SeenEntry, Step};
use crate::options::{MultiScanArgs, ReadOptions, table_read_options};
use crate::scan::DbIter;
use crate::scan::iterator::{RunWatch, check_tier, new_ahead, watched_iter, within_ranges};
use crate::version::FileMeta;
use esker_base::perf_context::{PerfContext, PerfLevel, perf_level, set_perf_level};
use esker_base::sync::Arc;
use esker_base::{Error, Result, SequenceNumber};
use esker_format::key::LookupKey;
use esker_table::ScansAhead;
use watch::Watch;

/// Which rows a scan is to give.
#[derive(Clone, Debug, Default)]
pub struct ExplainScan {
    /// The first key, or where to begin; the first or last of all if there is none. Bounds are in
    /// the read options.
    pub from: Option<Vec<u8>>,
    /// Rows at most.
    pub rows: u64,
    /// From the end to the front.
    pub reverse: bool,
}

impl Db {
    /// What [`Db::get_opt`] of this key looks at, and why.
    /// # Errors
    /// `InvalidArgument` and `NotSupported` name the option; families with user-defined timestamps
    /// are not explained. What goes wrong with the read itself is its outcome.
    pub fn explain_get(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
    ) -> Result<Explanation> {
        let mut explanation = self.explain_multi_get(options, family, &[key])?;
        explanation.operation = "get";
        Ok(explanation)
    }

    /// What [`Db::multi_get_opt`] of these keys looks at, and why: in the order of the keys, each
    /// different one once. Blocks that one key has brought into the cache are found there by those
    /// behind it.
    /// # Errors
    /// As [`Db::explain_get`].
    pub fn explain_multi_get<K: AsRef<[u8]>>(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        keys: &[K],
    ) -> Result<Explanation> {
        let start = self.begin_explaining(options, family)?;
        let (view, sequence) = self.inner.pinned_moment(&family.cf, options, None);
        let table_options = table_read_options(options);
        let files_only = self.inner.reads_files_only(options);
        let context =
            ReadContext { files_only, ..ReadContext::new(&family.cf, options, &table_options, None) };
        let mut sorted: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        let icmp = &family.cf.icmp;
        sorted.sort_by(|a, b| icmp.compare_user_keys(a, b));
        sorted.dedup_by(|a, b| icmp.same_user_key(a, b));
        let mut explanation = Explanation {
            operation: "multiget",
            family: family.name().to_owned(),
            sequence,
            keys: Vec::new(),
            scan: None,
            nanos: 0,
        };
        counting(|| {
            for key in sorted {
                let lookup = LookupKey::new(key, sequence);
                explanation.keys.push(self.explain_key(&view, &context, &lookup));
            }
        });
        explanation.nanos = self.now() - start;
        Ok(explanation)
    }

    /// What a seek to `target` and the row there look at.
    /// # Errors
    /// As [`Db::explain_scan`].
    pub fn explain_seek(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        target: impl AsRef<[u8]>,
    ) -> Result<Explanation> {
        let scan = ExplainScan { from: Some(target.as_ref().to_vec()), rows: 1, reverse: false };
        let mut explanation = self.explain_scan(options, family, &scan)?;
        explanation.operation = "seek";
        Ok(explanation)
    }

    /// What a scan looks at, run by run.
    /// # Errors
    /// As [`Db::explain_get`] and [`Db::iter_opt`].
    pub fn explain_scan(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        scan: &ExplainScan,
    ) -> Result<Explanation> {
        self.explain_iter(("scan", options, family), None, |mut iter, read| {
            match (&scan.from, scan.reverse) {
                (Some(from), false) => iter.seek(from),
                (Some(from), true) => iter.seek_for_prev(from),
                (None, false) => iter.seek_to_first(),
                (None, true) => iter.seek_to_last(),
            }
            read_rows(&mut iter, read, scan.rows, scan.reverse)
        })
    }

    /// What the scans of [`Db::new_multi_scan`] look at, run by run, and what they read ahead. An
    /// error ends them here.
    /// # Errors
    /// As [`Db::explain_get`] and [`Db::new_multi_scan`].
    pub fn explain_multi_scan(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        args: &MultiScanArgs,
    ) -> Result<Explanation> {
        let ahead = new_ahead(args, &family.cf.icmp, options)?;
        let options = &within_ranges(options.clone(), args);
        self.explain_iter(("multiscan", options, family), Some(ahead.clone()), |mut iter, read| {
            for (number, (start, limit)) in args.ranges.iter().enumerate() {
                ahead.enter(number);
                let lower = if args.reverse { Some(start) } else { options.iterate_lower_bound.as_deref() };
                iter.set_bounds(lower, limit);
                match limit {
                    Some(limit) if args.reverse => iter.seek_for_prev(limit),
                    _ => iter.seek(start),
                }
                read_rows(&mut iter, read, u64::MAX, args.reverse)?;
            }
            read.ahead = Some(ahead.counts());
            Ok(())
        })
    }

    /// What `scan` does with an iterator.
    fn explain_iter(
        &self,
        (operation, options, family): (&'static str, &ReadOptions, &ColumnFamilyHandle),
        ahead: Option<Arc<ScansAhead>>,
        scan: impl FnOnce(DbIter, &mut ScanRead) -> Result<()>,
    ) -> Result<Explanation> {
        let start = self.begin_explaining(options, family)?;
        check_tier(options)?;
        let watch = Watch::new(self.engine().env.clock.clone());
        let (view, sequence) = self.inner.pinned_moment(&family.cf, options, None);
        let mut read = ScanRead::default();
        let before = PerfContext::current();
        let scanned = counting(|| {
            let iter = watched_iter(
                &family.cf,
                &view,
                options,
                sequence,
                (&(watch.clone() as Arc<dyn RunWatch>), ahead),
            )?;
            read.opening_nanos = self.now() - start;
            scan(iter, &mut read)
        });
        let nanos = self.now() - start;
        read.error = scanned.err().map(|e| e.to_string());
        let after = PerfContext::current();
        read.skipped_entries = after.internal_key_skipped_count - before.internal_key_skipped_count;
        read.skipped_deletions = after.internal_delete_skipped_count - before.internal_delete_skipped_count;
        read.tombstone_seeks = after.internal_range_del_reseek_count - before.internal_range_del_reseek_count;
        read.operands = after.internal_merge_count - before.internal_merge_count;
        (read.runs, read.left_out) = watch.told(&view);
        Ok(Explanation {
            operation,
            family: family.name().to_owned(),
            sequence,
            keys: Vec::new(),
            scan: Some(read),
            nanos,
        })
    }

    fn now(&self) -> u64 {
        self.engine().env.clock.monotonic_nanos()
    }

    fn begin_explaining(&self, options: &ReadOptions, family: &ColumnFamilyHandle) -> Result<u64> {
        if family.cf.icmp.timestamp_size() > 0 || options.timestamp.is_some() {
            return Err(Error::not_supported("explain: families with user-defined timestamps"));
        }
        self.inner.check_family(&family.cf)?;
        if let Some(snapshot) = &options.snapshot {
            self.inner.check_own(snapshot)?;
        }
        Ok(self.now())
    }

    fn explain_key(&self, view: &SuperVersion, context: &ReadContext<'_>, key: &LookupKey) -> KeyRead {
        let start = self.now();
        let mut lookup = Lookup { db: self, view, context, key, saver: Saver::new(), steps: Vec::new() };
        if !context.files_only {
            lookup.ask_memtables();
        }
        if !context.memtables_only {
            lookup.ask_files();
        }
        let finish = context.finish(view, key);
        let outcome = lookup.saver.finish(&finish);
        KeyRead {
            key: key.user_key().to_vec(),
            steps: lookup.steps,
            outcome: outcome.map(|v| v.map(|v| v.len() as u64)).map_err(|e| e.to_string()),
            nanos: self.now() - start,
        }
    }
}

/// Steps through rows from where the iterator stands until there are as many as `rows`.
fn read_rows(iter: &mut DbIter, read: &mut ScanRead, rows: u64, reverse: bool) -> Result<()> {
    while iter.valid() && read.rows < rows {
        read.rows += 1;
        read.row_bytes += (iter.key().len() + iter.value().len()) as u64;
        match &mut read.ends {
            Some((_, last)) => *last = iter.key().to_vec(),
            None => read.ends = Some((iter.key().to_vec(), iter.key().to_vec())),
        }
        if read.rows < rows {
            if reverse { iter.prev() } else { iter.next() }
        }
    }
    iter.status()
}

/// Calls `read` with this thread's counters on.
fn counting<R>(read: impl FnOnce() -> R) -> R {
    let level = perf_level();
    set_perf_level(level.max(PerfLevel::EnableCount));
    let result = read();
    set_perf_level(level);
    result
}

struct Lookup<'l> {
    db: &'l Db,
    view: &'l SuperVersion,
    context: &'l ReadContext<'l>,
    key: &'l LookupKey,
    saver: Saver,
    steps: Vec<Step>,
}

impl Lookup<'_> {
    fn ask_memtables(&mut self) {
        for mem in self.view.memtables() {
            if self.saver.is_done() {
                return;
            }
            let start = self.db.now();
            let mut tombstone = SequenceNumber::ZERO;
            if !self.context.ignore_range_deletions {
                tombstone = mem.max_covering_tombstone_seq(self.key.user_key(), self.key.sequence());
                self.saver.cover(tombstone);
            }
            let (saver, mut entries) = (&mut self.saver, Vec::new());
            let searched = mem.get(self.key, |value_type, sequence, value| {
                entries.push(SeenEntry { value_type, sequence, bytes: value.len() as u64 });
                saver.save(value_type, sequence, || value.pin())
            });
            if let Err(e) = &searched {
                self.saver.fail(e.clone());
            }
            let source = ReadSource::Memtable {
                id: mem.id(),
                is_immutable: mem.is_immutable(),
                entries: mem.num_entries(),
            };
            let nanos = self.db.now() - start;
            self.tell(source, Vec::new(), entries, tombstone, nanos, searched);
        }
    }

    fn ask_files(&mut self) {
        let view = self.view;
        let mut asked = Vec::new();
        for (level, file) in view.version.candidates(self.key.internal_key()) {
            if self.saver.is_done() {
                break;
            }
            asked.push(level);
            self.ask_file(level, file);
        }
        let last = if self.saver.is_done() { asked.last().copied() } else { None };
        for (number, level) in view.version.levels().iter().enumerate() {
            if level.files().is_empty() || asked.contains(&number) || last.is_some_and(|last| number > last) {
                continue;
            }
            let source = ReadSource::Level { level: number, files: level.files().len() };
            let why = "not asked: the key is not within the bounds of any file".to_owned();
            let step =
                Step { source, touched: Vec::new(), entries: Vec::new(), tombstone: None, why, nanos: 0 };
            let at = self.steps.iter().position(|step| level_of(step).is_some_and(|l| l > number));
            self.steps.insert(at.unwrap_or(self.steps.len()), step);
        }
    }

    fn ask_file(&mut self, level: usize, file: &FileMeta) {
        let (start, clock) = (self.db.now(), &*self.db.engine().env.clock);
        let (mut touched, mut entries, mut tombstone) = (Vec::new(), Vec::new(), SequenceNumber::ZERO);
        let read = open_for(self.context.tables, file, self.context.options).and_then(|reader| {
            if !self.context.ignore_range_deletions
                && let Some(tombstones) = reader.range_dels()
            {
                let icmp = self.view.version.icmp();
                tombstone = tombstones.max_covering_seq(self.key.user_key(), icmp, self.key.sequence());
                self.saver.cover(tombstone);
            }
            let saver = &mut self.saver;
            reader.explain(self.context.options, self.key, clock, &mut touched, &mut |entry, value| {
                let bytes = value.bytes().len() as u64;
                entries.push(SeenEntry { value_type: entry.value_type, sequence: entry.sequence, bytes });
                saver.save(entry.value_type, entry.sequence, || value.pin())
            })
        });
        let source = ReadSource::File { level, number: file.number, bytes: file.data().file_size };
        self.tell(source, touched, entries, tombstone, self.db.now() - start, read);
    }

    fn tell(
        &mut self,
        source: ReadSource,
        touched: Vec<esker_table::Touched>,
        entries: Vec<SeenEntry>,
        tombstone: SequenceNumber,
        nanos: u64,
        read: Result<()>,
    ) {
        let why = match &read {
            Err(e) => format!("it cannot be read: {e}"),
            Ok(()) if entries.is_empty() && touched.last().is_some_and(is_refusal) => {
                "the filter knows that the key is not there".to_owned()
            }
            Ok(()) if entries.is_empty() => "nothing of the key is here".to_owned(),
            Ok(()) if self.saver.is_done() && entries.last().is_some_and(|e| e.sequence < tombstone) => {
                "a range tombstone hides it: the search ends".to_owned()
            }
            Ok(()) if self.saver.is_done() => "this settles it: the search ends".to_owned(),
            Ok(()) => "merge operands: the search for what they go onto goes on".to_owned(),
        };
        if let Err(e) = read {
            self.saver.fail(e);
        }
        let tombstone = (tombstone > SequenceNumber::ZERO).then_some(tombstone);
        self.steps.push(Step { source, touched, entries, tombstone, why, nanos });
    }
}

fn is_refusal(touched: &esker_table::Touched) -> bool {
    matches!(touched.kind, esker_table::TouchedKind::Filter { passes: false })
}

fn level_of(step: &Step) -> Option<usize> {
    match step.source {
        ReadSource::Memtable { .. } => None,
        ReadSource::File { level, .. } | ReadSource::Level { level, .. } => Some(level),
    }
}

#[cfg(test)]
mod tests;
