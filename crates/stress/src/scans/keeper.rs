//! The keeper: makes new super versions.

use super::history::ScanChange;
use super::writer::value;
use super::{Outcome, Round, is_junk, rest};
use esker::internals::base::sync::atomic::Ordering;
use esker::options::BottommostLevelCompaction;
use esker::{
    CompactRangeOptions, FlushOptions, IngestExternalFileOptions, Options, SstFileWriter, WriteOptions,
};

pub(super) fn keep(round: &Round, number: usize, mut rng: fastrand::Rng) -> Outcome {
    let (mut files, mut left) = (0, round.size.maintenance);
    while left > 0 && !round.stopped() {
        left -= 1;
        let family = rng.usize(..round.specs.len());
        match rng.u8(..32) {
            0..10 => {
                let options =
                    FlushOptions { wait: rng.bool(), allow_write_stall: true, ..FlushOptions::default() };
                let flushed = round.db.flush_opt(&options, &[&round.handles[family]]);
                flushed.map_err(|e| format!("flush: {e}"))?;
            }
            10..24 => compact(round, family, &mut rng)?,
            24 => {
                files += 1;
                ingest(round, number, family, files, &mut rng)?;
            }
            _ => {
                let change = rng.usize(0..5).to_string();
                let changed = round
                    .db
                    .set_options(&round.handles[family], &[("max_sequential_skip_in_iterations", &change)]);
                changed.map_err(|e| format!("set_options: {e}"))?;
            }
        }
        round.maintenance.fetch_add(1, Ordering::Relaxed);
        rest(rng.u64(..1500));
    }
    Ok(())
}

fn compact(round: &Round, family: usize, rng: &mut fastrand::Rng) -> Outcome {
    let spec = &round.specs[family];
    let mut begin = rng.bool().then(|| spec.random_target(rng));
    let mut end = rng.bool().then(|| spec.random_target(rng));
    if let (Some(b), Some(e)) = (&begin, &end)
        && spec.comparator.compare(b, e).is_gt()
    {
        std::mem::swap(&mut begin, &mut end);
    }
    let bottommost = [BottommostLevelCompaction::IfHaveCompactionFilter, BottommostLevelCompaction::Force];
    let options = CompactRangeOptions {
        exclusive_manual_compaction: rng.bool(),
        bottommost_level_compaction: bottommost[rng.usize(..2)],
        max_subcompactions: rng.u32(..3),
        ..CompactRangeOptions::default()
    };
    let handle = &round.handles[family];
    round
        .db
        .compact_range_opt(&options, handle, begin.as_deref(), end.as_deref())
        .map_err(|e| format!("compact_range: {e}"))
}

/// Ingests a file with values and deletions of a stretch of keys. No other thread writes meanwhile,
/// so that its sequence number is known.
fn ingest(round: &Round, number: usize, family: usize, count: u32, rng: &mut fastrand::Rng) -> Outcome {
    let (spec, path) = (&round.specs[family], format!("/outside-{count}"));
    let mut options = Options { db: round.settings.db.clone(), ..Options::default() };
    options.cf = round.settings.families[family].clone();
    let begin = rng.usize(..spec.keys.len());
    let end = (begin + rng.usize(1..60)).min(spec.keys.len());
    let deletes = rng.bool();
    let mut changes = Vec::new();
    let mut fill = || -> esker::Result<()> {
        let mut writer = SstFileWriter::new(&options);
        writer.open(&path)?;
        for index in (begin..end).filter(|&index| !spec.is_single(index)) {
            if deletes || rng.bool() {
                writer.delete(&spec.keys[index])?;
                changes.push((index, ScanChange::Gone));
            } else {
                let what = if is_junk(index) { "" } else { "in:" };
                let value = value(rng, spec.merge, index, what);
                writer.put(&spec.keys[index], &value)?;
                changes.push((index, ScanChange::Value(value)));
            }
        }
        if changes.is_empty() { Ok(()) } else { writer.finish().map(drop) }
    };
    fill().map_err(|e| format!("a file to ingest: {e}"))?;
    if changes.is_empty() {
        return Ok(());
    }
    let _gate = round.whole_gate();
    round.busy[number].fetch_add(1, Ordering::SeqCst);
    // Earlier points in time have a lower number than the file, whatever number it gets.
    let marked = round.db.put_opt(&WriteOptions::default(), &round.handles[0], b"\xffmark", b"");
    let ingested = marked.and_then(|()| {
        let options = IngestExternalFileOptions::default();
        round.db.ingest_external_file_opt(&options, &round.handles[family], &[path])
    });
    let sequence = round.db.latest_sequence_number().0;
    if ingested.is_ok() {
        for (index, change) in changes {
            round.history.add(family, index, sequence, change);
        }
    }
    round.busy[number].fetch_add(1, Ordering::SeqCst);
    ingested.map_err(|e| format!("ingest: {e}"))
}
