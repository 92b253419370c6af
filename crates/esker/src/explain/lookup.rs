//! A lookup that records its steps: a twin of `get/search.rs` and of the tables' `get`.
//!
//! In: a super version and a key. Out: each source that the read searches, and the reason why the
//! search ends.
//!
//! Invariant: the sources, their order and the outcome are those of `get/search.rs`.

use crate::cf::SuperVersion;
use crate::files::open_table::open_for;
use crate::get::saver::Saver;
use crate::get::search::ReadContext;
use crate::observe::{KeyRead, ReadSource, ReadStep, SeenEntry};
use crate::version::FileMeta;
use esker_base::{Result, SequenceNumber};
use esker_env::Clock;
use esker_format::key::LookupKey;

/// The search for one key in a super version.
pub(super) struct ExplainedLookup<'l> {
    clock: &'l dyn Clock,
    super_version: &'l SuperVersion,
    context: &'l ReadContext<'l>,
    key: &'l LookupKey,
    saver: Saver,
    steps: Vec<ReadStep>,
}

impl<'l> ExplainedLookup<'l> {
    pub(super) fn new(
        clock: &'l dyn Clock,
        super_version: &'l SuperVersion,
        context: &'l ReadContext<'l>,
        key: &'l LookupKey,
    ) -> ExplainedLookup<'l> {
        ExplainedLookup { clock, super_version, context, key, saver: Saver::new(), steps: Vec::new() }
    }

    /// Searches, and returns the sources and the outcome.
    pub(super) fn run(mut self) -> KeyRead {
        let start = self.clock.monotonic_nanos();
        if !self.context.files_only {
            self.ask_memtables();
        }
        if !self.context.memtables_only {
            self.ask_files();
        }
        let outcome = self.saver.finish(&self.context.finish(self.super_version, self.key));
        KeyRead {
            key: self.key.user_key().to_vec(),
            steps: self.steps,
            outcome: outcome.map(|v| v.map(|v| v.len() as u64)).map_err(|e| e.to_string()),
            nanos: self.clock.monotonic_nanos() - start,
        }
    }

    fn ask_memtables(&mut self) {
        for mem in self.super_version.memtables() {
            if self.saver.is_done() {
                return;
            }
            let start = self.clock.monotonic_nanos();
            let mut tombstone = SequenceNumber::ZERO;
            if !self.context.ignore_range_deletions {
                tombstone = mem.max_covering_tombstone_seq(self.key.user_key(), self.key.sequence());
                self.saver.cover(tombstone);
            }
            let operator = self.super_version.options.merge_operator.as_ref();
            let (saver, mut entries) = (&mut self.saver, Vec::new());
            let searched = mem.get(self.key, |value_type, sequence, value| {
                entries.push(SeenEntry { value_type, sequence, bytes: value.len() as u64 });
                saver.save(value_type, sequence, || value.pin()) && saver.needs_older(operator)
            });
            if let Err(e) = &searched {
                self.saver.fail(e.clone());
            }
            let source = ReadSource::Memtable {
                id: mem.id(),
                is_immutable: mem.is_immutable(),
                entries: mem.num_entries(),
            };
            let nanos = self.clock.monotonic_nanos() - start;
            self.add_step(source, Vec::new(), entries, tombstone, nanos, searched);
        }
    }

    fn ask_files(&mut self) {
        let super_version = self.super_version;
        let mut asked = Vec::new();
        for (level, file) in super_version.version.candidates(self.key.internal_key()) {
            if self.saver.is_done() {
                break;
            }
            asked.push(level);
            self.ask_file(level, file);
        }
        let last = if self.saver.is_done() { asked.last().copied() } else { None };
        for (number, level) in super_version.version.levels().iter().enumerate() {
            if level.files().is_empty() || asked.contains(&number) || last.is_some_and(|last| number > last) {
                continue;
            }
            let source = ReadSource::Level { level: number, files: level.files().len() };
            let why = "not asked: the key is not within the bounds of any file".to_owned();
            let step =
                ReadStep { source, touched: Vec::new(), entries: Vec::new(), tombstone: None, why, nanos: 0 };
            let at = self.steps.iter().position(|step| level_of(step).is_some_and(|l| l > number));
            self.steps.insert(at.unwrap_or(self.steps.len()), step);
        }
    }

    fn ask_file(&mut self, level: usize, file: &FileMeta) {
        let (start, clock) = (self.clock.monotonic_nanos(), self.clock);
        let (mut touched, mut entries, mut tombstone) = (Vec::new(), Vec::new(), SequenceNumber::ZERO);
        let read = open_for(self.context.tables, file, self.context.options).and_then(|reader| {
            if !self.context.ignore_range_deletions
                && let Some(tombstones) = reader.range_dels()
            {
                let icmp = self.super_version.version.icmp();
                tombstone = tombstones.max_covering_seq(self.key.user_key(), icmp, self.key.sequence());
                self.saver.cover(tombstone);
            }
            let (saver, operator) = (&mut self.saver, self.super_version.options.merge_operator.as_ref());
            reader.explain(self.context.options, self.key, clock, &mut touched, &mut |entry, value| {
                let bytes = value.bytes().len() as u64;
                entries.push(SeenEntry { value_type: entry.value_type, sequence: entry.sequence, bytes });
                saver.save(entry.value_type, entry.sequence, || value.pin()) && saver.needs_older(operator)
            })
        });
        let source = ReadSource::File { level, number: file.number, bytes: file.data().file_size };
        self.add_step(source, touched, entries, tombstone, self.clock.monotonic_nanos() - start, read);
    }

    fn add_step(
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
        self.steps.push(ReadStep { source, touched, entries, tombstone, why, nanos });
    }
}

fn is_refusal(touched: &esker_table::Touched) -> bool {
    matches!(touched.kind, esker_table::TouchedKind::Filter { passes: false })
}

fn level_of(step: &ReadStep) -> Option<usize> {
    match step.source {
        ReadSource::Memtable { .. } => None,
        ReadSource::File { level, .. } | ReadSource::Level { level, .. } => Some(level),
    }
}
