//! One database from its creation on: random operations, each answer compared.

use super::cursor::{Cursor, Shape, show};
use super::families::{FamilySpec, Merge};
use super::settings::Settings;
use super::state::State;
use super::{Parameters, Report};
use esker::internals::env::mem::MemFs;
use esker::options::BottommostLevelCompaction;
use esker::{
    ColumnFamilyHandle, CompactRangeOptions, Db, Env, FlushOptions, OpenMode, ReadOptions, Snapshot,
    WriteBatch, WriteOptions,
};
use std::collections::VecDeque;
use std::sync::Arc;

const PATH: &str = "/db";
const SNAPSHOTS: usize = 6;
const CURSORS: usize = 5;
/// Changes remembered for the report.
const REMEMBERED: usize = 20_000;
/// A merged value beyond this is put anew.
const LONGEST_MERGED: usize = 400;

/// Kinds of operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
#[expect(missing_docs, reason = "named as the calls they make")]
pub enum Kind {
    Put,
    Delete,
    Merge,
    DeleteRange,
    Batch,
    Get,
    MultiGet,
    Scan,
    Cursor,
    Snapshot,
    Flush,
    Compact,
    Verify,
    Reopen,
    DropFamily,
    Pause,
}

/// How often, of the sum.
const WEIGHTS: [(Kind, u32); 16] = [
    (Kind::Put, 24_000),
    (Kind::Delete, 8_000),
    (Kind::Merge, 9_000),
    (Kind::DeleteRange, 600),
    (Kind::Batch, 3_000),
    (Kind::Get, 24_000),
    (Kind::MultiGet, 1_500),
    (Kind::Scan, 2_000),
    (Kind::Cursor, 26_000),
    (Kind::Snapshot, 500),
    (Kind::Flush, 60),
    (Kind::Compact, 25),
    (Kind::Verify, 6),
    (Kind::Reopen, 8),
    (Kind::DropFamily, 2),
    (Kind::Pause, 10),
];

/// A write to one family.
#[derive(Clone, Debug)]
enum Write {
    Put(usize, Vec<u8>),
    Delete(usize),
    SingleDelete(usize),
    Merge(usize, Vec<u8>),
    DeleteRange(Vec<u8>, Vec<u8>),
}

/// Something that happened, for the report.
#[derive(Clone, Debug)]
enum Event {
    Write(usize, Write),
    Other(String),
}

struct TakenSnapshot {
    snapshot: Snapshot,
    /// `None` for a family that was dropped since.
    states: Vec<Option<State>>,
    taken_at: u64,
}

type Checked = Result<(), String>;

pub(super) struct Round {
    rng: fastrand::Rng,
    parameters: Parameters,
    specs: Vec<FamilySpec>,
    states: Vec<State>,
    weights: Vec<(Kind, u32)>,
    cursors: Vec<Cursor>,
    snapshots: Vec<TakenSnapshot>,
    handles: Vec<ColumnFamilyHandle>,
    db: Option<Db>,
    settings: Settings,
    env: Env,
    events: VecDeque<(u64, Event)>,
    /// Events so far.
    noted: u64,
    operation: u64,
    comparisons: u64,
    counts: Vec<u64>,
}

impl Round {
    pub(super) fn new(seed: u64, parameters: &Parameters) -> Round {
        let mut rng = fastrand::Rng::with_seed(seed);
        let keys = if parameters.keys > 0 { parameters.keys } else { [60, 300, 1000, 3000][rng.usize(..4)] };
        let specs = FamilySpec::all(&mut rng, keys);
        let env = Env::with_fs(Arc::new(MemFs::new()));
        let settings = Settings::random(&mut rng, &env, &specs);
        let states = specs.iter().map(|spec| State::empty(spec.keys.len())).collect();
        let weights: Vec<_> =
            WEIGHTS.iter().copied().filter(|(kind, _)| !parameters.without.contains(kind)).collect();
        Round {
            counts: vec![0; weights.len()],
            rng,
            parameters: parameters.clone(),
            specs,
            states,
            weights,
            cursors: Vec::new(),
            snapshots: Vec::new(),
            handles: Vec::new(),
            db: None,
            settings,
            env,
            events: VecDeque::new(),
            noted: 0,
            operation: 0,
            comparisons: 0,
        }
    }

    pub(super) fn operation(&self) -> u64 {
        self.operation
    }

    pub(super) fn describe(&self) -> String {
        let there: usize = self.states.iter().map(State::len).sum();
        format!(
            "{} operations, {} answers, {} keys each, {there} there at the end",
            self.operation,
            self.comparisons,
            self.specs[0].keys.len()
        )
    }

    pub(super) fn run(&mut self, report: &mut Report) -> Checked {
        self.open()?;
        let total: u32 = self.weights.iter().map(|(_, weight)| weight).sum();
        while self.operation < self.parameters.operations {
            let mut roll = self.rng.u32(..total);
            let chosen = self.weights.iter().position(|(_, weight)| {
                let here = roll < *weight;
                roll = roll.saturating_sub(*weight);
                here
            });
            let chosen = chosen.expect("the roll is below the sum");
            self.counts[chosen] += 1;
            self.step(self.weights[chosen].0)?;
            if self.parameters.calm {
                self.db().wait_for_background_work().map_err(|e| format!("wait_for_background_work: {e}"))?;
            }
            self.operation += 1;
        }
        self.reopen()?;
        self.verify()?;
        self.close()?;
        self.add_to(report);
        Ok(())
    }

    fn add_to(&self, report: &mut Report) {
        report.operations += self.operation;
        report.comparisons += self.comparisons;
        for ((kind, _), count) in self.weights.iter().zip(&self.counts) {
            match report.by_kind.iter_mut().find(|(k, _)| k == kind) {
                Some((_, sum)) => *sum += count,
                None => report.by_kind.push((*kind, *count)),
            }
        }
    }

    fn step(&mut self, kind: Kind) -> Checked {
        match kind {
            Kind::Put | Kind::Delete | Kind::Merge | Kind::DeleteRange => self.write_one(kind),
            Kind::Batch => self.write_batch(),
            Kind::Get => self.get(),
            Kind::MultiGet => self.multi_get(),
            Kind::Scan => self.scan(),
            Kind::Cursor => self.use_cursor(),
            Kind::Snapshot => {
                self.take_or_release_snapshot();
                Ok(())
            }
            Kind::Flush => self.flush(),
            Kind::Compact => self.compact(),
            Kind::Verify => self.verify(),
            Kind::Reopen => self.reopen(),
            Kind::DropFamily => self.drop_family(),
            Kind::Pause => self.pause_and_read(),
        }
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("open between operations")
    }

    fn note(&mut self, event: Event) {
        if self.events.len() == REMEMBERED {
            self.events.pop_front();
        }
        self.events.push_back((self.operation, event));
        self.noted += 1;
    }

    fn family(&mut self) -> usize {
        self.rng.usize(..self.specs.len())
    }

    // ---- opening and closing

    fn open(&mut self) -> Checked {
        let descriptors = self.settings.descriptors(&self.specs);
        let db = Db::open_cf(&self.settings.db, PATH, descriptors).map_err(|e| format!("open: {e}"))?;
        self.handles = handles_of(&db, &self.specs);
        self.db = Some(db);
        Ok(())
    }

    fn close(&mut self) -> Checked {
        self.cursors.clear();
        self.snapshots.clear();
        self.handles.clear();
        let db = self.db.take().expect("open between operations");
        if self.rng.bool() {
            db.close().map_err(|e| format!("close: {e}"))?;
        }
        drop(db);
        Ok(())
    }

    fn reopen(&mut self) -> Checked {
        self.close()?;
        self.settings = Settings::random(&mut self.rng, &self.env, &self.specs);
        if self.rng.u8(..4) == 0 {
            let descriptors = self.settings.descriptors(&self.specs);
            let db = Db::open_with(&self.settings.db, PATH, descriptors, OpenMode::ReadOnly);
            let db = db.map_err(|e| format!("open for reading only: {e}"))?;
            self.handles = handles_of(&db, &self.specs);
            self.note(Event::Other("open for reading only".to_owned()));
            self.db = Some(db);
            self.verify()?;
            self.handles.clear();
            self.db = None;
        }
        let db = &self.settings.db;
        let text = format!(
            "reopen with atomic_flush {}, avoid_flush_during_recovery {}, recycle_log_file_num {}",
            db.atomic_flush, db.avoid_flush_during_recovery, db.recycle_log_file_num
        );
        self.note(Event::Other(text));
        self.open()?;
        if self.rng.u8(..4) == 0 { self.verify() } else { Ok(()) }
    }

    fn drop_family(&mut self) -> Checked {
        let family = self.rng.usize(1..self.specs.len());
        let name = self.specs[family].name;
        self.note(Event::Other(format!("drop '{name}' and create it again")));
        let db = self.db.as_ref().expect("open between operations");
        db.drop_column_family(&self.handles[family]).map_err(|e| format!("drop '{name}': {e}"))?;
        let created = db.create_column_family(name, &self.settings.families[family]);
        self.handles[family] = created.map_err(|e| format!("create '{name}': {e}"))?;
        self.states[family] = State::empty(self.specs[family].keys.len());
        for taken in &mut self.snapshots {
            taken.states[family] = None;
        }
        // Open cursors go on over what was there.
        Ok(())
    }

    // ---- writes

    fn random_value(&mut self, merge: Merge) -> Vec<u8> {
        if merge == Merge::Add {
            return self.rng.u64(..).to_le_bytes().to_vec();
        }
        let length = match self.rng.u8(..100) {
            0 => 0,
            1 => self.rng.usize(..3000),
            _ => self.rng.usize(4..80),
        };
        let mut value = format!("{}:", self.operation).into_bytes();
        let fill = b'a' + self.rng.u8(..26);
        value.resize(length, fill);
        value
    }

    fn random_operand(&mut self, merge: Merge) -> Vec<u8> {
        if merge == Merge::Add {
            return self.rng.u64(..1000).to_le_bytes().to_vec();
        }
        format!("{}", self.operation % 100_000).into_bytes()
    }

    fn random_write(&mut self, family: usize, kind: Kind) -> Write {
        let spec = &self.specs[family];
        let (index, merge) = (self.rng.usize(..spec.keys.len()), spec.merge);
        if kind == Kind::DeleteRange {
            return self.random_range(family);
        }
        let existing = self.states[family].get(index);
        if spec.is_single(index) {
            return if existing.is_some() {
                Write::SingleDelete(index)
            } else {
                Write::Put(index, self.random_value(merge))
            };
        }
        let room = existing.is_none_or(|value| value.len() < LONGEST_MERGED);
        match kind {
            Kind::Delete => Write::Delete(index),
            Kind::Merge if room => Write::Merge(index, self.random_operand(merge)),
            _ => Write::Put(index, self.random_value(merge)),
        }
    }

    fn random_range(&mut self, family: usize) -> Write {
        let spec = &self.specs[family];
        let rng = &mut self.rng;
        let mut begin = spec.random_target(rng);
        let mut end = if rng.u8(..12) == 0 {
            spec.random_target(rng)
        } else {
            let last = spec.keys.len() - 1;
            spec.keys[(spec.lower_bound(&begin) + rng.usize(..20)).min(last)].clone()
        };
        if spec.comparator.compare(&begin, &end).is_gt() {
            std::mem::swap(&mut begin, &mut end);
        }
        Write::DeleteRange(begin, end)
    }

    fn apply(&mut self, family: usize, write: &Write) {
        let (spec, state) = (&self.specs[family], &mut self.states[family]);
        match write {
            Write::Put(index, value) => state.put(*index, value),
            Write::Delete(index) | Write::SingleDelete(index) => state.delete(*index),
            Write::Merge(index, operand) => state.merge(*index, spec.merge, operand),
            Write::DeleteRange(begin, end) => {
                state.delete_range(spec.lower_bound(begin), spec.lower_bound(end));
            }
        }
        self.note(Event::Write(family, write.clone()));
    }

    fn write_options(&mut self) -> WriteOptions {
        let sync = self.rng.u8(..20) == 0;
        // What is only in memory is flushed at close, unless that was turned off.
        let db = &self.settings.db;
        let disable_wal = !sync && !db.avoid_flush_during_shutdown && self.rng.u8(..20) == 0;
        // Refused with recycled WALs.
        let disable_wal = disable_wal && db.recycle_log_file_num == 0;
        WriteOptions::default().sync(sync).disable_wal(disable_wal)
    }

    fn write_one(&mut self, kind: Kind) -> Checked {
        let family = self.family();
        let write = self.random_write(family, kind);
        let options = self.write_options();
        let (db, handle, keys) = (self.db(), &self.handles[family], &self.specs[family].keys);
        let done = match &write {
            Write::Put(index, value) => db.put_opt(&options, handle, &keys[*index], value),
            Write::Delete(index) => db.delete_opt(&options, handle, &keys[*index]),
            Write::SingleDelete(index) => db.single_delete_opt(&options, handle, &keys[*index]),
            Write::Merge(index, operand) => db.merge_opt(&options, handle, &keys[*index], operand),
            Write::DeleteRange(begin, end) => db.delete_range_opt(&options, handle, begin, end),
        };
        done.map_err(|e| format!("{write:?} in '{}': {e}", self.specs[family].name))?;
        self.apply(family, &write);
        Ok(())
    }

    fn write_batch(&mut self) -> Checked {
        let mut batch = WriteBatch::new();
        let mut saved = None;
        for _ in 0..self.rng.usize(..12) {
            match self.rng.u8(..12) {
                0 => {
                    batch.set_save_point();
                    saved = Some((self.states.clone(), self.noted));
                }
                1 => {
                    if let Some((states, noted)) = saved.take() {
                        batch.rollback_to_save_point().map_err(|e| format!("rollback_to_save_point: {e}"))?;
                        self.states = states;
                        while self.noted > noted {
                            self.events.pop_back();
                            self.noted -= 1;
                        }
                    }
                }
                _ => self.add_to_batch(&mut batch)?,
            }
        }
        let options = self.write_options();
        self.db().write(&options, &mut batch).map_err(|e| format!("write of a batch: {e}"))
    }

    fn add_to_batch(&mut self, batch: &mut WriteBatch) -> Checked {
        let kind = [Kind::Put, Kind::Delete, Kind::Merge, Kind::Put, Kind::DeleteRange][self.rng.usize(..5)];
        if self.parameters.without.contains(&kind) || (kind == Kind::DeleteRange && self.rng.u8(..10) > 0) {
            return Ok(());
        }
        let family = self.family();
        let write = self.random_write(family, kind);
        let (id, keys) = (self.handles[family].id(), &self.specs[family].keys);
        let done = match &write {
            Write::Put(index, value) => batch.put(id, &keys[*index], value),
            Write::Delete(index) => batch.delete(id, &keys[*index]),
            Write::SingleDelete(index) => batch.single_delete(id, &keys[*index]),
            Write::Merge(index, operand) => batch.merge(id, &keys[*index], operand),
            Write::DeleteRange(begin, end) => batch.delete_range(id, begin, end),
        };
        done.map_err(|e| format!("{write:?} into a batch: {e}"))?;
        self.apply(family, &write);
        Ok(())
    }

    // ---- reads

    fn compare(
        &mut self,
        family: usize,
        index: usize,
        call: &str,
        expected: Option<&[u8]>,
        found: esker::Result<Option<&[u8]>>,
    ) -> Checked {
        self.comparisons += 1;
        let found = match found {
            Ok(found) if found == expected => return Ok(()),
            Ok(found) => found.map_or("nothing".to_owned(), show),
            Err(error) => error.to_string(),
        };
        let expected = expected.map_or("nothing".to_owned(), show);
        Err(self.blame(family, Some(index), &format!("{call}: expected {expected}, found {found}")))
    }

    /// `what`, and what happened to the key lately.
    fn blame(&self, family: usize, index: Option<usize>, what: &str) -> String {
        let spec = &self.specs[family];
        let mut text = format!("family '{}': {what}", spec.name);
        let Some(index) = index else { return text };
        text += &format!("\nkey {} (index {index}); what happened to it:", show(&spec.keys[index]));
        let concerns = |event: &Event| match event {
            Event::Other(_) => true,
            Event::Write(of, _) if *of != family => false,
            Event::Write(
                _,
                Write::Put(i, _) | Write::Delete(i) | Write::SingleDelete(i) | Write::Merge(i, _),
            ) => *i == index,
            Event::Write(_, Write::DeleteRange(begin, end)) => {
                (spec.lower_bound(begin)..spec.lower_bound(end)).contains(&index)
            }
        };
        let lines: Vec<String> = self
            .events
            .iter()
            .rev()
            .filter(|(_, event)| concerns(event))
            .take(60)
            .map(|(operation, event)| match event {
                Event::Other(what) => format!("\n  {operation}: {what}"),
                Event::Write(_, Write::DeleteRange(b, e)) => {
                    format!("\n  {operation}: DeleteRange {} to {}", show(b), show(e))
                }
                Event::Write(_, Write::Put(_, v)) => format!("\n  {operation}: Put {}", show(v)),
                Event::Write(_, Write::Merge(_, v)) => format!("\n  {operation}: Merge {}", show(v)),
                Event::Write(_, Write::Delete(_)) => format!("\n  {operation}: Delete"),
                Event::Write(_, Write::SingleDelete(_)) => format!("\n  {operation}: SingleDelete"),
            })
            .collect();
        lines.into_iter().rev().for_each(|line| text += &line);
        for taken in &self.snapshots {
            text += &format!(
                "\nsnapshot of operation {}, sequence {:?}",
                taken.taken_at,
                taken.snapshot.sequence()
            );
        }
        text
    }

    /// A moment to read at: read options, and what each family must show.
    fn random_moment(&mut self, family: usize) -> (ReadOptions, State, Option<usize>) {
        let mut options = ReadOptions::default();
        if !self.snapshots.is_empty() && self.rng.u8(..3) == 0 {
            let chosen = self.rng.usize(..self.snapshots.len());
            let taken = &self.snapshots[chosen];
            if let Some(state) = &taken.states[family] {
                options.snapshot = Some(taken.snapshot.clone());
                return (options, state.clone(), Some(chosen));
            }
        }
        (options, self.states[family].clone(), None)
    }

    fn get(&mut self) -> Checked {
        let family = self.family();
        let index = self.rng.usize(..self.specs[family].keys.len());
        let (options, state, at) = self.random_moment(family);
        let (key, handle) = (&self.specs[family].keys[index], &self.handles[family]);
        if at.is_none() && self.rng.u8(..16) == 0 {
            let may = self.db().key_may_exist(handle, key);
            if state.get(index).is_some() && !may {
                return Err(self.blame(family, Some(index), "key_may_exist: false"));
            }
            return Ok(());
        }
        let found = self.db().get_pinned_opt(&options, handle, key);
        let found = found.as_ref().map(|v| v.as_deref()).map_err(Clone::clone);
        let call = if at.is_some() { "get at a snapshot" } else { "get" };
        self.compare(family, index, call, state.get(index), found)
    }

    fn multi_get(&mut self) -> Checked {
        let snapshot =
            (!self.snapshots.is_empty() && self.rng.bool()).then(|| self.rng.usize(..self.snapshots.len()));
        let mut wanted = Vec::new();
        for _ in 0..self.rng.usize(1..20) {
            let family = self.family();
            let there = snapshot.is_none_or(|s| self.snapshots[s].states[family].is_some());
            if there {
                wanted.push((family, self.rng.usize(..self.specs[family].keys.len())));
            }
        }
        let pairs: Vec<(&ColumnFamilyHandle, &[u8])> =
            wanted.iter().map(|(f, i)| (&self.handles[*f], self.specs[*f].keys[*i].as_slice())).collect();
        let options = ReadOptions {
            snapshot: snapshot.map(|s| self.snapshots[s].snapshot.clone()),
            ..ReadOptions::default()
        };
        let found = self.db().multi_get_cf(&options, &pairs);
        for ((family, index), value) in wanted.into_iter().zip(found) {
            let state = match snapshot {
                Some(s) => self.snapshots[s].states[family].clone().expect("chosen for that"),
                None => self.states[family].clone(),
            };
            let value = value.as_ref().map(|v| v.as_deref()).map_err(Clone::clone);
            self.compare(family, index, "multi_get", state.get(index), value)?;
        }
        Ok(())
    }

    fn new_cursor(&mut self) -> Result<Cursor, String> {
        let family = self.family();
        let extractor = self.settings.families[family].prefix_extractor.clone();
        let shape = Shape::random(&mut self.rng, &self.specs[family], extractor.is_some());
        self.cursor_with(family, shape)
    }

    fn cursor_with(&mut self, family: usize, shape: Shape) -> Result<Cursor, String> {
        let (moment, state, at) = self.random_moment(family);
        let extractor = self.settings.families[family].prefix_extractor.clone();
        let options = ReadOptions { snapshot: moment.snapshot, ..shape.read_options(&mut self.rng) };
        let iter =
            self.db().iter_opt(options, &self.handles[family]).map_err(|e| format!("iter_opt: {e}"))?;
        let family = (family, self.handles[family].id());
        Ok(Cursor::new(&self.specs[family.0], family, iter, shape, state, at.is_some(), extractor))
    }

    fn check_cursor(&mut self, cursor: &Cursor) -> Checked {
        self.comparisons += 1;
        cursor
            .check(&self.specs[cursor.family])
            .map_err(|(index, what)| self.blame(cursor.family, index, &what))
    }

    /// One move at random.
    fn move_cursor(&mut self, cursor: &mut Cursor) -> Checked {
        let spec = &self.specs[cursor.family];
        let roll = if cursor.is_valid() { self.rng.u8(..20) } else { self.rng.u8(..6) };
        match roll {
            0 => cursor.seek_to_first(spec),
            1 => cursor.seek_to_last(spec),
            2 | 3 => {
                let target = spec.random_target(&mut self.rng);
                cursor.seek(spec, &target);
            }
            4 | 5 => {
                let target = spec.random_target(&mut self.rng);
                cursor.seek_for_prev(spec, &target);
            }
            6..=13 => cursor.next(spec),
            _ => cursor.prev(spec),
        }
        self.check_cursor(cursor)
    }

    /// A new iterator, a seek, some steps one way, perhaps some back.
    fn scan(&mut self) -> Checked {
        let mut cursor = self.new_cursor()?;
        self.move_cursor(&mut cursor)?;
        let mut forward = self.rng.bool();
        for _ in 0..self.rng.usize(..40) {
            if !cursor.is_valid() {
                break;
            }
            let spec = &self.specs[cursor.family];
            if forward {
                cursor.next(spec)
            } else {
                cursor.prev(spec)
            }
            self.check_cursor(&cursor)?;
            if self.rng.u8(..10) == 0 {
                forward = !forward;
            }
        }
        Ok(())
    }

    /// A step of an iterator that lives on through writes, flushes and compactions.
    fn use_cursor(&mut self) -> Checked {
        if self.cursors.len() < CURSORS && self.rng.u8(..20) == 0 || self.cursors.is_empty() {
            let cursor = self.new_cursor()?;
            self.cursors.push(cursor);
        }
        let chosen = self.rng.usize(..self.cursors.len());
        let mut cursor = self.cursors.swap_remove(chosen);
        match self.rng.u16(..400) {
            0 => return Ok(()),
            1 | 2 => {
                let family = cursor.family;
                if cursor.id == self.handles[family].id() {
                    let state =
                        if cursor.at_snapshot { cursor.state.clone() } else { self.states[family].clone() };
                    cursor.refresh(state)?;
                }
            }
            _ => {}
        }
        let checked = self.move_cursor(&mut cursor);
        self.cursors.push(cursor);
        checked
    }

    fn take_or_release_snapshot(&mut self) {
        if self.snapshots.len() < SNAPSHOTS && self.rng.bool() {
            let snapshot = self.db().snapshot();
            let states = self.states.iter().cloned().map(Some).collect();
            self.snapshots.push(TakenSnapshot { snapshot, states, taken_at: self.operation });
            self.note(Event::Other("take a snapshot".to_owned()));
        } else if !self.snapshots.is_empty() {
            let chosen = self.rng.usize(..self.snapshots.len());
            let taken = self.snapshots.swap_remove(chosen).taken_at;
            self.note(Event::Other(format!("release the snapshot of operation {taken}")));
        }
    }

    // ---- background work

    fn flush(&mut self) -> Checked {
        let wait = self.rng.u8(..4) > 0;
        let chosen: Vec<usize> = (0..self.specs.len()).filter(|_| self.rng.bool()).collect();
        self.note(Event::Other(format!("flush {chosen:?}, wait {wait}")));
        let handles: Vec<&ColumnFamilyHandle> = chosen.iter().map(|&f| &self.handles[f]).collect();
        let options = FlushOptions { wait, allow_write_stall: true };
        self.db().flush_opt(&options, &handles).map_err(|e| format!("flush: {e}"))
    }

    fn compact(&mut self) -> Checked {
        let family = self.family();
        let spec = &self.specs[family];
        let rng = &mut self.rng;
        let mut begin = rng.bool().then(|| spec.random_target(rng));
        let mut end = rng.bool().then(|| spec.random_target(rng));
        if let (Some(b), Some(e)) = (&begin, &end)
            && spec.comparator.compare(b, e).is_gt()
        {
            std::mem::swap(&mut begin, &mut end);
        }
        let bottommost = [
            BottommostLevelCompaction::Skip,
            BottommostLevelCompaction::IfHaveCompactionFilter,
            BottommostLevelCompaction::Force,
            BottommostLevelCompaction::ForceOptimized,
        ];
        let options = CompactRangeOptions {
            exclusive_manual_compaction: rng.bool(),
            change_level: rng.u32(..4) == 0,
            bottommost_level_compaction: bottommost[rng.usize(..4)],
            max_subcompactions: rng.u32(..3),
            ..CompactRangeOptions::default()
        };
        let name = spec.name;
        let text = |key: &Option<Vec<u8>>| key.as_ref().map_or("open".to_owned(), |k| show(k));
        self.note(Event::Other(format!("compact '{name}' {} to {}", text(&begin), text(&end))));
        let (db, handle) = (self.db(), &self.handles[family]);
        db.compact_range_opt(&options, handle, begin.as_deref(), end.as_deref())
            .map_err(|e| format!("compact_range of '{name}': {e}"))
    }

    /// Background work stands still while there are reads.
    fn pause_and_read(&mut self) -> Checked {
        self.db().pause_background_work();
        let read = (0..30).try_for_each(|_| self.use_cursor().and_then(|()| self.get()));
        let continued = self.db().continue_background_work();
        read.and(continued.map_err(|e| format!("continue_background_work: {e}")))
    }

    /// Everything, in both directions, and every key by itself; and each snapshot.
    fn verify(&mut self) -> Checked {
        for family in 0..self.specs.len() {
            for backward in [false, true] {
                self.verify_scan(family, backward, None)?;
            }
            for index in 0..self.specs[family].keys.len() {
                let found = self.db().get_pinned_opt(
                    &ReadOptions::default(),
                    &self.handles[family],
                    &self.specs[family].keys[index],
                );
                let found = found.as_ref().map(|v| v.as_deref()).map_err(Clone::clone);
                let state = self.states[family].clone();
                self.compare(family, index, "get of every key", state.get(index), found)?;
            }
            for snapshot in 0..self.snapshots.len() {
                let backward = self.rng.bool();
                self.verify_scan(family, backward, Some(snapshot))?;
            }
        }
        Ok(())
    }

    fn verify_scan(&mut self, family: usize, backward: bool, snapshot: Option<usize>) -> Checked {
        let mut options = ReadOptions::default();
        let mut state = self.states[family].clone();
        if let Some(snapshot) = snapshot {
            let taken = &self.snapshots[snapshot];
            let Some(of_snapshot) = &taken.states[family] else { return Ok(()) };
            (options.snapshot, state) = (Some(taken.snapshot.clone()), of_snapshot.clone());
        }
        let iter =
            self.db().iter_opt(options, &self.handles[family]).map_err(|e| format!("iter_opt: {e}"))?;
        let shape = Shape::default();
        let spec = &self.specs[family];
        let id = self.handles[family].id();
        let mut cursor = Cursor::new(spec, (family, id), iter, shape, state, snapshot.is_some(), None);
        if backward {
            cursor.seek_to_last(spec)
        } else {
            cursor.seek_to_first(spec)
        }
        self.check_cursor(&cursor)?;
        while cursor.is_valid() {
            let spec = &self.specs[family];
            if backward {
                cursor.prev(spec)
            } else {
                cursor.next(spec)
            }
            self.check_cursor(&cursor)?;
        }
        Ok(())
    }
}

fn handles_of(db: &Db, specs: &[FamilySpec]) -> Vec<ColumnFamilyHandle> {
    let handle = |spec: &FamilySpec| db.column_family(spec.name).expect("it was opened with all families");
    specs.iter().map(handle).collect()
}
