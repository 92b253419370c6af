//! A table's cursor decodes entries ahead, one run of a block at a time.

use super::TableIter;
use crate::index_walker::IndexWalker;
use crate::reader::pin;
use esker_base::Result;
use esker_format::block::cut_run;
use esker_format::cursor::{DecodeAhead, DecodedRun};

impl TableIter {
    /// Implements [`esker_format::cursor::ScanIterator::look_ahead`].
    pub(super) fn decode_ahead(&mut self, run: &mut DecodedRun, ahead: &DecodeAhead<'_>) {
        run.clear();
        // Bytes that form no block were refused when the cursor entered them.
        let Some(Ok(block)) = self.block.as_ref().map(|block| block.key_value()) else { return };
        if ahead.forward {
            self.cursor.decode_on(block, run);
        } else {
            self.cursor.decode_back(block, run);
        }
        self.offer(run, ahead);
    }

    /// Cuts the run down to the entries that the reader may see.
    fn offer(&mut self, run: &mut DecodedRun, ahead: &DecodeAhead<'_>) {
        let (Some(first), Some(last)) = (run.entries().first(), run.entries().last()) else { return };
        let Some(Ok(block)) = self.block.as_ref().map(|block| block.key_value()) else { return };
        let reaches_edge =
            if ahead.forward { block.ends_at(last.value_end) } else { block.starts_at(first.entry) };
        // A forward run needs no entry of the next block; looking there only saves time.
        let looks_ahead = reaches_edge && (!ahead.forward || run.goes_far());
        if looks_ahead {
            self.step_to_neighbour(ahead.forward);
        }
        let is_alone = reaches_edge && !ahead.forward && self.is_alone_at_edge(run.internal_key(0));
        cut_run(run, ahead, &self.reader.options.icmp, self.global_seqno, is_alone);
        if let Some(block) = &self.block
            && !run.is_empty()
            && !run.is_in(block.bytes())
        {
            run.set_block(pin(block.clone(), 0..block.bytes().len()));
        }
        if looks_ahead && run.goes_far() {
            self.prefetch_neighbours();
        }
    }

    /// Implements [`esker_format::cursor::ScanIterator::pass`] for forward runs.
    pub(super) fn pass_forward(&mut self, run: &mut DecodedRun, ahead: &DecodeAhead<'_>) -> Result<()> {
        self.cursor.stand_on_entry(run, run.end() - 1);
        let block = self.block.as_ref().and_then(|block| block.key_value().ok());
        if block.is_none_or(|block| self.cursor.is_last(block)) {
            // The next block replaces this one.
            run.release_block();
        }
        self.try_next()?;
        if self.cursor.valid() {
            self.decode_ahead(run, ahead);
        }
        Ok(())
    }

    /// Implements [`esker_format::cursor::ScanIterator::pass`] for backward runs.
    pub(super) fn pass_backward(&mut self, run: &mut DecodedRun, ahead: &DecodeAhead<'_>) -> Result<()> {
        if run.first() > 0 {
            // `cut_run` cut off the entry before the run. The cursor continues from that entry.
            self.cursor.stand_on_entry(run, run.first() - 1);
            self.decode_ahead(run, ahead);
            return Ok(());
        }
        run.release_block();
        self.cursor.reset();
        if !self.cross(false)? {
            self.walk(|w, r, o| w.prev(&r.source, o))?;
        }
        let Some(handle) = self.walker.as_ref().filter(|w| w.valid()).map(IndexWalker::handle) else {
            return Ok(());
        };
        if self.block.is_none() || self.loaded != handle {
            self.load(handle, super::EntryPosition::Last)?;
        }
        if let Some(block) = &self.block {
            let placed = block.key_value().and_then(|block| self.cursor.seek_to_last_and_decode(block, run));
            placed.map_err(|e| self.reader.source.at(e, handle))?;
        }
        if self.cursor.valid() {
            self.offer(run, ahead);
            return Ok(());
        }
        self.prev_block()
    }
}
