//! The screen of `esker top`: sections of lines, in one column or two.
//!
//! In: snapshots, keys, a size. Out: cells of a buffer, or text. The same sections make both.
//!
//! Invariant: colours add nothing that words do not say, so that a screen without them says all.

use super::rates::{ThroughputRates, rates};
use crate::units::{bytes, count, duration, share};
use esker_monitor::{FamilyStatistics, RunningJob, StallKind, StatisticsSnapshot};
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Widget};
use std::sync::Arc;

/// Columns from which on there are two columns of sections.
const WIDE: u16 = 120;
/// Jobs and families that a screen lists.
const MOST_ROWS: usize = 12;
/// Histograms with a line of their own.
const LATENCIES: [(&str, &str); 6] = [
    ("get", "rocksdb.db.get.micros"),
    ("multi-get", "rocksdb.db.multiget.micros"),
    ("seek", "rocksdb.db.seek.micros"),
    ("write", "rocksdb.db.write.micros"),
    ("write stall", "rocksdb.db.write.stall"),
    ("WAL sync", "rocksdb.wal.file.sync.micros"),
];

/// The state between two drawings.
pub(super) struct Screen {
    target: String,
    has_colours: bool,
    now: Arc<StatisticsSnapshot>,
    before: Option<Arc<StatisticsSnapshot>>,
    /// Index of the family whose levels are shown; one past the last named one for the others.
    selected: usize,
    is_paused: bool,
    trouble: Option<String>,
}

/// A title and its lines.
struct Section {
    title: String,
    lines: Vec<Line<'static>>,
}

#[derive(Clone, Copy)]
enum Tone {
    Plain,
    Dim,
    Warning,
    Bad,
    Bar(usize),
}

impl Screen {
    pub(super) fn new(target: &str, has_colours: bool) -> Screen {
        Screen {
            target: target.to_owned(),
            has_colours,
            now: Arc::default(),
            before: None,
            selected: 0,
            is_paused: false,
            trouble: None,
        }
    }

    /// Shows this snapshot from now on.
    pub(super) fn update(&mut self, snapshot: Arc<StatisticsSnapshot>) {
        self.trouble = None;
        // Within the server's interval there is no newer one, and no rate.
        if self.now.taken_at_micros == snapshot.taken_at_micros && self.now.process == snapshot.process {
            return;
        }
        self.before = Some(std::mem::replace(&mut self.now, snapshot));
        self.selected = self.selected.min(self.families().len().saturating_sub(1));
    }

    /// Shows that there is no new snapshot.
    pub(super) fn lose(&mut self, why: &str) {
        self.trouble = Some(why.to_owned());
    }

    pub(super) fn is_paused(&self) -> bool {
        self.is_paused
    }

    pub(super) fn press(&mut self, key: KeyCode) {
        let last = self.families().len().saturating_sub(1);
        match key {
            KeyCode::Char('p') => self.is_paused = !self.is_paused,
            KeyCode::Left | KeyCode::Up => self.selected = self.selected.saturating_sub(1),
            KeyCode::Right | KeyCode::Down => self.selected = (self.selected + 1).min(last),
            _ => {}
        }
    }

    /// The named families, and the sum of the others behind them.
    fn families(&self) -> Vec<&FamilyStatistics> {
        self.now.families.iter().chain(&self.now.other_families).collect()
    }

    fn style(&self, tone: Tone) -> Style {
        const BARS: [Color; 6] =
            [Color::Red, Color::Yellow, Color::Green, Color::Cyan, Color::Blue, Color::Magenta];
        if !self.has_colours {
            return Style::new();
        }
        match tone {
            Tone::Plain => Style::new(),
            Tone::Dim => Style::new().add_modifier(Modifier::DIM),
            Tone::Warning => Style::new().fg(Color::Yellow),
            Tone::Bad => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
            Tone::Bar(level) => Style::new().fg(BARS[level % BARS.len()]),
        }
    }

    fn line(&self, tone: Tone, text: impl Into<String>) -> Line<'static> {
        Line::styled(text.into(), self.style(tone))
    }

    /// Draws all that has room.
    pub(super) fn draw(&self, area: Rect, buffer: &mut Buffer) {
        let rows = self.rows(area.width);
        Paragraph::new(rows).render(area, buffer);
    }

    /// All rows as text, without spaces at their ends.
    pub(super) fn text(&self, width: u16) -> String {
        let rows = self.rows(width);
        let height = u16::try_from(rows.len()).unwrap_or(u16::MAX);
        let area = Rect::new(0, 0, width, height);
        let mut buffer = Buffer::empty(area);
        Paragraph::new(rows).render(area, &mut buffer);
        let mut text = String::new();
        for y in 0..height {
            let row: String = (0..width).map(|x| buffer[(x, y)].symbol()).collect();
            text.push_str(row.trim_end());
            text.push('\n');
        }
        text
    }

    fn rows(&self, width: u16) -> Vec<Line<'static>> {
        let width = usize::from(width);
        let mut rows = self.head(width);
        let is_wide = width >= usize::from(WIDE);
        let column = if is_wide { (width - 2) / 2 } else { width };
        let rate = rates(&self.now, self.before.as_deref());
        let left = [self.throughput(&rate), self.latency(), self.writers(), self.memory(column)];
        let right = [self.jobs(column), self.levels(column), self.list(column)];
        let (left, right) = (self.stack(left), self.stack(right));
        if !is_wide {
            rows.extend(left.into_iter().chain(right));
            return rows;
        }
        let mut sides = (left.into_iter(), right.into_iter());
        loop {
            match (sides.0.next(), sides.1.next()) {
                (None, None) => return rows,
                (left, right) => {
                    let left = left.unwrap_or_default();
                    let gap = (column + 2).saturating_sub(left.width());
                    let mut spans = left.spans;
                    // A line's style is not its spans'.
                    spans.iter_mut().for_each(|span| span.style = left.style.patch(span.style));
                    spans.push(Span::raw(" ".repeat(gap)));
                    let right = right.unwrap_or_default();
                    let styled = right
                        .spans
                        .into_iter()
                        .map(|span| Span { style: right.style.patch(span.style), ..span });
                    spans.extend(styled);
                    rows.push(Line::from(spans));
                }
            }
        }
    }

    fn stack<const N: usize>(&self, sections: [Section; N]) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        for section in sections.into_iter().filter(|section| !section.lines.is_empty()) {
            lines.push(Line::default());
            let style =
                if self.has_colours { Style::new().add_modifier(Modifier::BOLD) } else { Style::new() };
            lines.push(Line::styled(section.title, style));
            lines.extend(section.lines);
        }
        lines
    }

    fn head(&self, width: usize) -> Vec<Line<'static>> {
        let now = &self.now;
        let state = match (&self.trouble, self.is_paused) {
            (_, true) => "paused",
            (Some(_), _) => "no answer",
            _ => "",
        };
        let path = shown(&now.process.path, width.saturating_sub(state.len() + 1));
        let gap = width.saturating_sub(path.chars().count() + state.len());
        let facts = format!(
            "process {}, Esker {}, open for {}, {}",
            now.process.pid,
            now.process.version,
            duration(now.uptime_seconds),
            crate::units::counted(now.family_count as u64, "family")
        );
        let keys = "q quits, arrows choose a family, p pauses";
        let room = width.saturating_sub(facts.chars().count());
        let facts = if room > keys.len() + 2 {
            format!("{facts}{}{keys}", " ".repeat(room - keys.len()))
        } else {
            facts
        };
        let mut rows = vec![
            self.line(Tone::Plain, format!("{path}{}{state}", " ".repeat(gap))),
            self.line(Tone::Dim, facts),
        ];
        if let Some(why) = &self.trouble {
            rows.push(self.line(Tone::Bad, shown(&format!("{}: {why}", self.target), width)));
        }
        rows
    }

    fn throughput(&self, rate: &ThroughputRates) -> Section {
        let per_second = |number: f64| format!("{}/s", count(number.round() as u64));
        let bytes_per_second = |number: f64| format!("{}/s", bytes(number.round() as u64));
        let mut lines = vec![self.line(
            Tone::Plain,
            format!(
                "written {:>12} {:>14}   WAL {:>14}",
                per_second(rate.keys_written),
                bytes_per_second(rate.bytes_written),
                bytes_per_second(rate.wal)
            ),
        )];
        if self.now.has_statistics {
            let hits = rate.cache_hits.map_or("-".to_owned(), |hits| format!("{:.1}%", hits * 100.0));
            let reads = per_second(rate.keys_read);
            lines.push(self.line(
                Tone::Plain,
                format!("read    {reads:>12}   seeks {:>12}   cache hits {hits}", per_second(rate.seeks)),
            ));
            let (flushed, compacted) = (bytes_per_second(rate.flushed), bytes_per_second(rate.compacted));
            lines.push(self.line(Tone::Plain, format!("flushed {flushed:>12}   compacted {compacted:>12}")));
        } else {
            lines.push(self.line(Tone::Dim, "the database has no Statistics: no reads, no latencies"));
        }
        Section { title: "Throughput".to_owned(), lines }
    }

    fn latency(&self) -> Section {
        let mut lines = Vec::new();
        for (label, name) in LATENCIES {
            let Some(h) = self.now.histograms.get(name) else { continue };
            lines.push(self.line(
                Tone::Plain,
                format!(
                    "{label:<11} {:>9} {:>9} {:>9} {:>14}",
                    latency(h.p50),
                    latency(h.p99),
                    latency(h.max),
                    count(h.count)
                ),
            ));
        }
        let title =
            format!("{:<11} {:>9} {:>9} {:>9} {:>14}", "Latency", "p50", "p99", "max", "since the open");
        Section { title, lines }
    }

    fn writers(&self) -> Section {
        let stall = &self.now.stall;
        let tone = match stall.state {
            StallKind::Normal => Tone::Plain,
            StallKind::Delayed => Tone::Warning,
            StallKind::Stopped => Tone::Bad,
        };
        let waited = duration(stall.stalled_micros as f64 / 1e6);
        let text = match stall.state {
            StallKind::Normal => format!("not held back; {waited} waited since the open"),
            StallKind::Delayed => {
                format!("delayed to {}/s; {waited} waited since the open", bytes(stall.write_rate))
            }
            StallKind::Stopped => format!("stopped; {waited} waited since the open"),
        };
        let mut lines = vec![self.line(tone, text)];
        let held = self.now.families.iter().filter(|family| family.stall != StallKind::Normal);
        for family in held.take(MOST_ROWS) {
            let state = family.stall.as_str();
            lines.push(self.line(tone, format!("{}: {state}, {}", shown(&family.name, 24), cause(family))));
        }
        if let Some(error) = &self.now.background.error {
            lines.push(self.line(Tone::Bad, format!("background error: {error}")));
        }
        if self.now.background.errors > 0 {
            let errors = count(self.now.background.errors);
            lines.push(self.line(Tone::Warning, format!("failed jobs since the open: {errors}")));
        }
        Section { title: "Writers".to_owned(), lines }
    }

    fn memory(&self, width: usize) -> Section {
        let now = &self.now;
        let sum = |of: fn(&FamilyStatistics) -> u64| self.families().into_iter().map(of).sum::<u64>();
        let memtables = bytes(sum(|family| family.memtables.all_bytes));
        let tables = bytes(sum(|family| family.table_reader_bytes));
        let process = bytes(now.process.resident_bytes);
        let text = format!("process {process}, memtables {memtables}, open tables {tables}");
        let mut lines = vec![self.line(Tone::Plain, text)];
        for cache in now.block_caches.iter().take(3) {
            let text = format!(
                "block cache {} of {} ({}), pinned {}",
                bytes(cache.usage),
                bytes(cache.capacity),
                share(cache.usage, cache.capacity),
                bytes(cache.pinned)
            );
            let room = width.saturating_sub(text.chars().count() + 2).min(20);
            let filled = part(room, cache.usage, cache.capacity.max(1));
            let bar = if room >= 8 { format!("  {}", bar(filled, room)) } else { String::new() };
            lines.push(Line::from(vec![Span::raw(text), Span::styled(bar, self.style(Tone::Bar(3)))]));
        }
        let snapshots = match now.live_snapshots.count {
            0 => "no snapshots".to_owned(),
            number => {
                let age = duration(now.live_snapshots.oldest_age_seconds as f64);
                format!("{}, the oldest {age} old", crate::units::counted(number, "snapshot"))
            }
        };
        let wal = bytes(now.wal.current_bytes);
        let syncs = count(now.wal.syncs);
        lines.push(self.line(Tone::Plain, format!("WAL {wal}, {syncs} syncs; {snapshots}")));
        Section { title: "Memory".to_owned(), lines }
    }

    fn jobs(&self, width: usize) -> Section {
        let jobs = &self.now.jobs;
        let mut lines: Vec<_> =
            jobs.iter().take(MOST_ROWS).map(|job| self.line(Tone::Plain, job_text(job, width))).collect();
        if jobs.len() > MOST_ROWS {
            lines.push(self.line(Tone::Dim, format!("and {} more", jobs.len() - MOST_ROWS)));
        }
        if jobs.is_empty() {
            let (flushes, compactions) = (self.now.running_flushes, self.now.running_compactions);
            let text = match flushes + compactions {
                0 => "none runs".to_owned(),
                _ => format!("{flushes} flushes and {compactions} compactions run, unlisted"),
            };
            lines.push(self.line(Tone::Dim, text));
        }
        Section { title: "Flushes and compactions".to_owned(), lines }
    }

    fn levels(&self, width: usize) -> Section {
        let families = self.families();
        let Some(family) = families.get(self.selected) else {
            return Section { title: String::new(), lines: Vec::new() };
        };
        let name = match self.selected < self.now.families.len() {
            true => format!("'{}'", shown(&family.name, 30)),
            false => "the other families".to_owned(),
        };
        let title = format!("Levels of {name} ({} of {})", self.selected + 1, families.len());
        let most = family.levels.iter().map(|level| level.bytes).max().unwrap_or(0).max(1);
        let mut lines = Vec::new();
        for (number, level) in family.levels.iter().enumerate() {
            if level.files == 0 && level.written_bytes == 0 {
                continue;
            }
            let score = if level.score > 0.0 { format!("score {:.2}", level.score) } else { String::new() };
            let busy = match level.compacting_files {
                0 => String::new(),
                files => format!(" {files} busy"),
            };
            let text =
                format!("L{number} {:>6} files {:>9} {score:<11}{busy}", level.files, bytes(level.bytes));
            let room = width.saturating_sub(text.chars().count() + 1).min(40);
            lines.push(Line::from(vec![
                Span::raw(text),
                Span::raw(" "),
                Span::styled(bar(part(room, level.bytes, most), 0), self.style(Tone::Bar(number))),
            ]));
        }
        let memtables = &family.memtables;
        lines.push(self.line(
            Tone::Dim,
            format!(
                "memtables {} + {} to flush; pending compaction {}",
                bytes(memtables.active_bytes),
                memtables.immutable,
                bytes(family.pending_compaction_bytes)
            ),
        ));
        if family.blob_files > 0 {
            let (size, garbage) = (bytes(family.blob_bytes), bytes(family.blob_garbage_bytes));
            lines.push(self.line(
                Tone::Dim,
                format!("{} blob files, {size}, garbage {garbage}", count(family.blob_files)),
            ));
        }
        Section { title, lines }
    }

    /// The families, if there are several, around the chosen one.
    fn list(&self, width: usize) -> Section {
        let families = self.families();
        let mut lines = Vec::new();
        if families.len() > 1 {
            let first =
                self.selected.saturating_sub(MOST_ROWS / 2).min(families.len().saturating_sub(MOST_ROWS));
            for (index, family) in families.iter().enumerate().skip(first).take(MOST_ROWS) {
                let mark = if index == self.selected { '>' } else { ' ' };
                let name =
                    if index < self.now.families.len() { family.name.as_str() } else { "(the others)" };
                let name = shown(name, width.saturating_sub(44));
                let text = format!(
                    "{mark} {name:<24} {:>7} tables {:>9}  {}",
                    count(family.table_files()),
                    bytes(family.table_bytes()),
                    family.stall.as_str()
                );
                lines.push(self.line(Tone::Plain, text));
            }
        }
        Section { title: "Families".to_owned(), lines }
    }
}

/// A time of two digits or more, such as `1.5 µs`.
fn latency(micros: f64) -> String {
    let (value, unit) = match micros {
        m if m < 999.5 => (m, "µs"),
        m if m < 999_500.0 => (m / 1e3, "ms"),
        m => (m / 1e6, "s"),
    };
    format!("{value:.*} {unit}", usize::from(value < 9.95))
}

/// The limits that hold a family's writers back.
fn cause(family: &FamilyStatistics) -> String {
    let reached = family.pressures.iter().filter(|pressure| pressure.state() != StallKind::Normal);
    let texts: Vec<String> = reached
        .map(|pressure| {
            let limit = match pressure.state() {
                StallKind::Stopped => pressure.stop_at,
                _ => pressure.delay_at,
            };
            let number = |value| match pressure.cause.as_str() {
                "pending-compaction-bytes" => bytes(value),
                _ => count(value),
            };
            format!("{} {} of {}", pressure.cause, number(pressure.value), number(limit))
        })
        .collect();
    if texts.is_empty() { "the cause has just gone".to_owned() } else { texts.join("; ") }
}

fn job_text(job: &RunningJob, width: usize) -> String {
    let levels = match job.input_level {
        Some(level) => format!("L{level} to L{}", job.output_level),
        None => format!("to L{}", job.output_level),
    };
    let read = match (job.read_bytes, job.input_bytes) {
        (Some(read), all) => format!(", read {} of {}", bytes(read), bytes(all)),
        (None, 0) => String::new(),
        (None, all) => format!(", reads {}", bytes(all)),
    };
    let time = duration(job.elapsed_micros as f64 / 1e6);
    let text = format!(
        "{} {} {} {levels}: {}{read}, wrote {}, {time}",
        job.kind.as_str(),
        job.job_id,
        shown(&job.family, 20),
        job.reason,
        bytes(job.written_bytes)
    );
    shown(&text, width)
}

/// `text` in at most `width` characters.
fn shown(text: &str, width: usize) -> String {
    let clean = || text.chars().map(|c| if c.is_control() { ' ' } else { c });
    if clean().count() <= width {
        return clean().collect();
    }
    clean().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// Cells of `room` for `value` of `whole`; one at least if there is a value.
fn part(room: usize, value: u64, whole: u64) -> usize {
    let cells = (room as f64 * value as f64 / whole as f64).round() as usize;
    cells.clamp(usize::from(value > 0), room.max(1))
}

/// A bar of `filled` cells in a track of `room`.
fn bar(filled: usize, room: usize) -> String {
    "█".repeat(filled) + &"░".repeat(room.saturating_sub(filled))
}

#[cfg(test)]
mod tests;
