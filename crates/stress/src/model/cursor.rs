//! An iterator of the database and its expected place.

use super::families::ModelFamilySpec;
use super::state::ModelState;
use esker::prefix::SliceTransformRef;
use esker::{ColumnFamilyId, DbIterator, Error, ReadOptions};

/// Limit of entries that a move may pass: more than exist, so that an endless move fails. Half of
/// the iterators have no limit, because an iterator with a limit shares no cursor with others.
pub(super) const MOST_SKIPPED: u64 = 1 << 20;

/// The options of an iterator, apart from its point in time.
#[derive(Clone, Debug, Default)]
pub(super) struct Shape {
    pub(super) lower: Option<Vec<u8>>,
    pub(super) upper: Option<Vec<u8>>,
    pub(super) prefix_same_as_start: bool,
    pub(super) total_order_seek: bool,
}

impl Shape {
    /// Random bounds or none, and sometimes a prefix scan.
    pub(super) fn random(rng: &mut fastrand::Rng, spec: &ModelFamilySpec, has_extractor: bool) -> Shape {
        let bound = |rng: &mut fastrand::Rng| (rng.u8(..3) == 0).then(|| spec.random_target(rng));
        let (lower, upper) = (bound(rng), bound(rng));
        let prefix_same_as_start = has_extractor && rng.u8(..3) == 0;
        Shape {
            lower,
            upper,
            prefix_same_as_start,
            total_order_seek: !prefix_same_as_start && rng.u8(..4) == 0,
        }
    }

    pub(super) fn read_options(&self, rng: &mut fastrand::Rng) -> ReadOptions {
        ReadOptions {
            iterate_lower_bound: self.lower.clone(),
            iterate_upper_bound: self.upper.clone(),
            prefix_same_as_start: self.prefix_same_as_start,
            total_order_seek: self.total_order_seek,
            verify_checksums: rng.bool(),
            fill_cache: rng.bool(),
            readahead_size: if rng.u8(..4) == 0 { 4096 } else { 0 },
            max_skippable_internal_keys: if rng.bool() { MOST_SKIPPED } else { 0 },
            ..ReadOptions::default()
        }
    }
}

/// A mistake of an iterator.
pub(super) struct WrongCursor {
    /// The index of the expected key.
    pub(super) index: Option<usize>,
    /// The description of the mistake.
    pub(super) what: String,
    /// The iterator's status, if that is the mistake.
    pub(super) error: Option<Error>,
}

/// An iterator, and its expected place.
pub(super) struct ModelCursor {
    pub(super) family: usize,
    /// Number of the family when the iterator was opened. A family that was created again has
    /// another.
    pub(super) id: ColumnFamilyId,
    pub(super) iter: DbIterator,
    pub(super) shape: Shape,
    /// The contents that it must show.
    pub(super) state: ModelState,
    /// Whether it was opened with a snapshot. A refresh drops the snapshot.
    pub(super) at_snapshot: bool,
    /// The timestamp of its reads, if keys have timestamps.
    pub(super) time: Option<u64>,
    pub(super) extractor: Option<SliceTransformRef>,
    /// Indexes of the keys within the bounds.
    range: std::ops::Range<usize>,
    prefix: Option<Vec<u8>>,
    at: Option<usize>,
    /// The last moves, for the report.
    moves: Vec<String>,
}

impl ModelCursor {
    pub(super) fn new(
        spec: &ModelFamilySpec,
        (family, id): (usize, ColumnFamilyId),
        iter: DbIterator,
        shape: Shape,
        state: ModelState,
        at_snapshot: bool,
        extractor: Option<SliceTransformRef>,
    ) -> ModelCursor {
        let low = shape.lower.as_ref().map_or(0, |key| spec.lower_bound(key));
        let high = shape.upper.as_ref().map_or(spec.keys.len(), |key| spec.lower_bound(key));
        let range = low..high.max(low);
        let extractor = extractor.filter(|_| shape.prefix_same_as_start);
        let (time, prefix, at, moves) = (None, None, None, Vec::new());
        ModelCursor { family, id, iter, shape, state, at_snapshot, time, extractor, range, prefix, at, moves }
    }

    pub(super) fn is_valid(&self) -> bool {
        self.at.is_some()
    }

    fn note(&mut self, text: impl FnOnce() -> String) {
        if self.moves.len() == 30 {
            self.moves.remove(0);
        }
        self.moves.push(text());
    }

    fn prefix_of(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.extractor.as_ref()?.transform(key).map(<[u8]>::to_vec)
    }

    /// Expects the key at `found`, if it has the right prefix.
    fn stand(&mut self, spec: &ModelFamilySpec, found: Option<usize>) {
        self.at = found.filter(|&i| self.prefix.is_none() || self.prefix_of(&spec.keys[i]) == self.prefix);
    }

    fn stand_at_end(&mut self, spec: &ModelFamilySpec, found: Option<usize>) {
        self.prefix = found.and_then(|i| self.prefix_of(&spec.keys[i]));
        self.at = found;
    }

    pub(super) fn seek_to_first(&mut self, spec: &ModelFamilySpec) {
        self.note(|| "seek_to_first".to_owned());
        self.iter.seek_to_first();
        let found = self.state.first_in(self.range.clone());
        self.stand_at_end(spec, found);
    }

    pub(super) fn seek_to_last(&mut self, spec: &ModelFamilySpec) {
        self.note(|| "seek_to_last".to_owned());
        self.iter.seek_to_last();
        let found = self.state.last_in(self.range.clone());
        self.stand_at_end(spec, found);
    }

    pub(super) fn seek(&mut self, spec: &ModelFamilySpec, target: &[u8]) {
        self.note(|| format!("seek({})", show(target)));
        self.iter.seek(target);
        self.prefix = self.prefix_of(target);
        let from = spec.lower_bound(target).max(self.range.start);
        let found = self.state.first_in(from..self.range.end);
        self.stand(spec, found);
    }

    pub(super) fn seek_for_prev(&mut self, spec: &ModelFamilySpec, target: &[u8]) {
        self.note(|| format!("seek_for_prev({})", show(target)));
        self.iter.seek_for_prev(target);
        self.prefix = self.prefix_of(target);
        let to = spec.upper_bound(target).min(self.range.end);
        let found = self.state.last_in(self.range.start..to);
        self.stand(spec, found);
    }

    /// Steps forwards. REQUIRES: valid.
    pub(super) fn next(&mut self, spec: &ModelFamilySpec) {
        self.note(|| "next".to_owned());
        self.iter.next();
        let at = self.at.expect("the caller checked that the cursor is valid");
        let found = self.state.first_in(at + 1..self.range.end);
        self.stand(spec, found);
    }

    /// Steps backwards. REQUIRES: valid.
    pub(super) fn prev(&mut self, spec: &ModelFamilySpec) {
        self.note(|| "prev".to_owned());
        self.iter.prev();
        let at = self.at.expect("the caller checked that the cursor is valid");
        let found = self.state.last_in(self.range.start..at);
        self.stand(spec, found);
    }

    /// Refreshes the iterator. From then on it must show `state`.
    pub(super) fn refresh(&mut self, state: ModelState) -> Result<(), Error> {
        self.note(|| "refresh".to_owned());
        self.iter.refresh()?;
        self.at_snapshot = false;
        self.at = None;
        self.state = state;
        Ok(())
    }

    /// Expects no position, because a move failed.
    pub(super) fn stand_nowhere(&mut self) {
        self.note(|| "an error".to_owned());
        self.at = None;
    }

    /// Compares the iterator's place with the expected one.
    pub(super) fn check(&self, spec: &ModelFamilySpec) -> Result<(), WrongCursor> {
        let wrong = |what: String, error: Option<Error>| {
            let Shape { lower, upper, .. } = &self.shape;
            let bound = |b: &Option<Vec<u8>>| b.as_ref().map_or("none".to_owned(), |key| show(key));
            let text = format!(
                "iterator over '{}' ({}; bounds {} to {}; prefix {:?}, extractor {:?}) after {}: {what}",
                spec.name,
                if self.at_snapshot { "at a snapshot" } else { "as of its opening" },
                bound(lower),
                bound(upper),
                self.prefix.as_ref().map(|p| show(p)),
                self.extractor.as_ref().map(|e| e.name().to_owned()),
                self.moves.join(", "),
            );
            Err(WrongCursor { index: self.at, what: text, error })
        };
        if let Err(error) = self.iter.status() {
            return wrong(format!("status {error}"), Some(error));
        }
        let expected = self.at.map(|i| (spec.keys[i].as_slice(), self.state.get(i).unwrap_or_default()));
        let found = self.iter.item();
        if expected != found {
            let text = |item: Option<(&[u8], &[u8])>| item.map(|(k, v)| format!("{} = {}", show(k), show(v)));
            return wrong(format!("expected {:?}, found {:?}", text(expected), text(found)), None);
        }
        Ok(())
    }
}

/// `bytes` as readable text.
pub(super) fn show(bytes: &[u8]) -> String {
    format!("\"{}\"", bytes.escape_ascii())
}
