//! The table for the terminal.

use super::stats::Spread;
use super::{EngineInfo, Report, SuiteReport, TableRow};
use crate::engines::EngineKind;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// A number with about three significant digits.
pub(crate) fn short(number: f64) -> String {
    let digits = match number.abs() {
        n if n >= 99.95 => 0,
        n if n >= 9.995 => 1,
        n if n >= 0.9995 => 2,
        _ => 3,
    };
    format!("{number:.digits$}")
}

/// `12.3 MB`.
pub(crate) fn bytes(number: f64) -> String {
    match number {
        n if n >= 1e9 => format!("{} GB", short(n / 1e9)),
        n if n >= 1e6 => format!("{} MB", short(n / 1e6)),
        n => format!("{} kB", short(n / 1e3)),
    }
}

/// Microseconds an operation.
pub(crate) fn micros(rate: f64) -> f64 {
    1e6 / rate
}

/// A multiple of the rival's speed, with its spread.
fn times(ratio: Option<Spread>) -> String {
    ratio.map_or(String::new(), |r| format!("×{} ({}–{})", short(r.median), short(r.min), short(r.max)))
}

/// The tables of all sets, for a terminal of this width.
pub(crate) fn render(report: &Report) -> String {
    let mut text = String::new();
    for suite in &report.suites {
        text.push_str(&format!("\n{}\n", suite.title));
        text.push_str(
            "µs an operation; × is how many times as fast Esker is, median of the rounds (least–most)\n",
        );
        text.push_str(&rates(report, suite).to_string());
        text.push('\n');
        text.push_str(
            "\nCPU µs an operation, background work included, and how many times as much as Esker · peak memory · on disk · \
             bytes written for each byte stored (medians)\n",
        );
        text.push_str(&costs(report, suite).to_string());
        text.push('\n');
    }
    if !report.problems.is_empty() {
        text.push_str(if report.partial { "\nPARTIAL:\n" } else { "\nNotes:\n" });
        for problem in &report.problems {
            text.push_str(&format!("  {problem}\n"));
        }
    }
    text
}

fn new_table(engines: &[&EngineInfo]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Disabled);
    let mut header = vec![String::new()];
    header.extend(engines.iter().map(|engine| engine.title.clone()));
    table.set_header(header);
    for index in 1..=engines.len() {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn rates(report: &Report, suite: &SuiteReport) -> Table {
    let engines = report.engines_of(suite);
    let mut table = new_table(&engines);
    for row in &suite.rows {
        let mut cells = vec![row.info.title.clone()];
        cells.extend(engines.iter().map(|engine| rate(row, engine.kind)));
        table.add_row(cells);
    }
    table
}

fn rate(row: &TableRow, kind: EngineKind) -> String {
    let Some(rate) = row.rate(kind) else { return "–".to_owned() };
    let cut = row.cell(kind).is_some_and(|cell| cell.samples.iter().any(|s| s.cut));
    let mut text = format!("{}{}", short(micros(rate.median)), if cut { "*" } else { "" });
    if kind != EngineKind::Esker {
        let times = times(row.ratio(EngineKind::Esker, kind));
        if !times.is_empty() {
            text.push_str(&format!("  {times}"));
        }
    }
    text
}

fn costs(report: &Report, suite: &SuiteReport) -> Table {
    let engines = report.engines_of(suite);
    let mut table = new_table(&engines);
    for row in &suite.rows {
        let mut cells = vec![row.info.title.clone()];
        cells.extend(engines.iter().map(|engine| cost(row, engine.kind)));
        table.add_row(cells);
    }
    table
}

fn cost(row: &TableRow, kind: EngineKind) -> String {
    let Some(cell) = row.cell(kind).filter(|cell| !cell.samples.is_empty()) else { return "–".to_owned() };
    let median =
        |figure: &dyn Fn(&crate::measure::Sample) -> f64| cell.spread(figure).map_or(0.0, |s| s.median);
    let memory = bytes(median(&|s| s.peak_memory_bytes as f64));
    let disk = bytes(median(&|s| s.disk_bytes as f64));
    let cpu = short(1e6 * median(&|s| s.cpu_seconds / s.operations.max(1) as f64));
    let more = row.cpu_ratio(EngineKind::Esker, kind).filter(|_| kind != EngineKind::Esker);
    let more = more.map_or(String::new(), |more| format!(" ×{}", short(more.median)));
    let amplification = median(&|s| s.written_bytes as f64 / (s.user_bytes as f64).max(1.0));
    let stored = cell.samples.iter().any(|s| s.user_bytes > 0);
    let amplification = if stored { format!("{}×", short(amplification)) } else { "–".to_owned() };
    format!("{cpu}{more} · {memory} · {disk} · {amplification}")
}
