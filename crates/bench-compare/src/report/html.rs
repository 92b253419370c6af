//! The page: one file, without scripts or external parts, in light and dark.

use super::chart::{Line, escape, lines, rate_label, ratios};
use super::table::{bytes, micros, short};
use super::{EngineInfo, Report, SuiteReport, TableCell, TableRow};
use crate::engines::EngineKind;
use crate::measure::Sample;
use crate::suites::SuiteId;
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");

fn push(page: &mut String, text: std::fmt::Arguments<'_>) {
    page.write_fmt(text).expect("a write to a string cannot fail");
}

/// The page of a run.
pub(crate) fn render(report: &Report) -> String {
    let mut page = String::from("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    page.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    page.push_str("<title>Esker beside other engines</title><style>");
    page.push_str(STYLE);
    page.push_str("</style></head><body><main>");
    header(&mut page, report);
    summary(&mut page, report);
    legend(&mut page, report);
    for suite in &report.suites {
        section(&mut page, report, suite);
    }
    footer(&mut page, report);
    page.push_str("</main></body></html>\n");
    page
}

fn header(page: &mut String, report: &Report) {
    let machine = &report.machine;
    push(
        page,
        format_args!(
            "<header><h1>Esker beside other engines</h1><p class=\"lead\">The same keys in the same order, in one run: \
             {} rounds in turning order, medians of each round’s own ratios.</p><p class=\"facts\">{} · {} × {} · {} of \
             memory · Linux {} · files on {} · {} keys of 16 bytes, values of 100</p></header>",
            report.pairs,
            escape(&report.date),
            machine.cpus,
            escape(&machine.cpu),
            bytes(machine.memory_bytes as f64),
            escape(&machine.kernel),
            escape(&machine.file_system),
            grouped(report.plan.num)
        ),
    );
    if report.partial {
        push(page, format_args!("<p class=\"warning\">Partial: the run did not come to its end.</p>"));
    }
    if report.was_disturbed() {
        push(
            page,
            format_args!(
                "<p class=\"warning\">The machine had other work (load {} before, {} behind) on {} CPUs. Times in the \
                 tables are those of a busy machine; the charts and the sums compare CPU time instead, background work \
                 included.</p>",
                escape(&machine.load_before),
                escape(&machine.load_after),
                machine.cpus
            ),
        );
    }
}

/// `1 234 567`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{2009}');
        }
        text.push(digit);
    }
    text
}

/// A tile for each rival: the geometric mean of all ratios, and the number of those above one.
fn summary(page: &mut String, report: &Report) {
    let what = if report.was_disturbed() { "less CPU time than" } else { "as fast as" };
    page.push_str("<div class=\"tiles\">");
    for engine in report.engines.iter().filter(|e| !matches!(e.kind, EngineKind::Esker | EngineKind::Memory))
    {
        let rows = report.suites.iter().flat_map(|suite| &suite.rows);
        let all: Vec<f64> = rows.filter_map(|row| Some(report.ratio(row, engine.kind)?.median)).collect();
        if all.is_empty() {
            continue;
        }
        let mean = (all.iter().map(|ratio| ratio.ln()).sum::<f64>() / all.len() as f64).exp();
        let ahead = all.iter().filter(|ratio| **ratio >= 1.0).count();
        push(
            page,
            format_args!(
                "<div class=\"tile e-{}\"><span class=\"big\">×{}</span><span class=\"whom\">{what} {}</span>\
                 <span class=\"small\">geometric mean; ahead in {ahead} of {}</span></div>",
                engine.kind.name(),
                short(mean),
                escape(&engine.title),
                all.len()
            ),
        );
    }
    page.push_str("</div>");
}

fn legend(page: &mut String, report: &Report) {
    page.push_str("<ul class=\"legend\">");
    for engine in &report.engines {
        push(
            page,
            format_args!(
                "<li class=\"e-{}\"><i></i>{} <small>{}</small></li>",
                engine.kind.name(),
                escape(&engine.title),
                escape(&engine.version)
            ),
        );
    }
    page.push_str("</ul>");
}

fn section(page: &mut String, report: &Report, suite: &SuiteReport) {
    push(page, format_args!("<section><h2>{}</h2>", escape(&suite.title)));
    if report.suites.first().is_some_and(|first| first.id == suite.id) {
        let what = if report.was_disturbed() {
            "How many times as much CPU time an operation costs the other"
        } else {
            "How many times as fast Esker is"
        };
        push(
            page,
            format_args!(
                "<p class=\"hint\">{what}: right of the line Esker is ahead, left of it the other. The dot is the median, the \
                 bar goes from the least round to the greatest.</p>"
            ),
        );
    }
    page.push_str(&ratios(report, suite));
    page.push_str(&curves(report, suite));
    rates(page, report, suite);
    costs(page, report, suite);
    limits(page, suite);
    page.push_str("</section>");
}

/// Line charts for sets that are curves: names like `cache/50-16` are x and series.
fn curves(report: &Report, suite: &SuiteReport) -> String {
    let x_title = match suite.id {
        SuiteId::Cache => "cache, % of the data",
        SuiteId::Tombstones => "range tombstones in the memtable",
        _ => return String::new(),
    };
    let parts = |row: &TableRow| {
        let rest = row.info.name.split_once('/').map_or("", |(_, rest)| rest);
        rest.split_once('-').map(|(x, threads)| (x.to_owned(), threads.to_owned()))
    };
    let mut threads: Vec<String> = suite.rows.iter().filter_map(|row| Some(parts(row)?.1)).collect();
    threads.sort_by_key(|count| count.parse::<u64>().unwrap_or(0));
    threads.dedup();
    let mut html = String::from("<div class=\"charts\">");
    for count in threads {
        let rows: Vec<(String, &TableRow)> = suite
            .rows
            .iter()
            .filter_map(|row| parts(row).filter(|(_, threads)| *threads == count).map(|(x, _)| (x, row)))
            .collect();
        let labels: Vec<String> = rows.iter().map(|(x, _)| x.clone()).collect();
        let engines = report.engines.iter().map(|engine| engine.kind);
        let all: Vec<Line> = engines
            .map(|kind| Line { kind, values: rows.iter().map(|(_, row)| row.rate(kind)).collect() })
            .filter(|line| line.values.iter().any(Option::is_some))
            .collect();
        let plural = if count == "1" { "thread" } else { "threads" };
        html.push_str(&lines(&format!("reads a second, {count} {plural}"), x_title, &labels, &all));
    }
    html.push_str("</div>");
    html
}

fn table_head(page: &mut String, engines: &[&EngineInfo], first: &str) {
    push(page, format_args!("<div class=\"wide\"><table><thead><tr><th>{first}</th>"));
    for engine in engines {
        push(
            page,
            format_args!("<th class=\"e-{}\"><i></i>{}</th>", engine.kind.name(), escape(&engine.title)),
        );
    }
    page.push_str("</tr></thead><tbody>");
}

fn rates(page: &mut String, report: &Report, suite: &SuiteReport) {
    let engines = report.engines_of(suite);
    table_head(page, &engines, "µs an operation");
    for row in &suite.rows {
        push(
            page,
            format_args!(
                "<tr><th>{} <small>{}</small></th>",
                escape(&row.info.title),
                escape(&row.info.unit)
            ),
        );
        let best = engines.iter().filter(|e| e.kind != EngineKind::Memory).filter_map(|e| row.rate(e.kind));
        let best = best.map(|rate| rate.median).fold(0.0, f64::max);
        for engine in &engines {
            rate_cell(page, row, engine.kind, best);
        }
        page.push_str("</tr>");
    }
    page.push_str("</tbody></table></div>");
}

fn rate_cell(page: &mut String, row: &TableRow, kind: EngineKind, best: f64) {
    let Some(rate) = row.rate(kind) else {
        let why = row.cell(kind).and_then(|cell| cell.missing.clone()).unwrap_or_default();
        push(page, format_args!("<td class=\"none\" title=\"{}\">–</td>", escape(&why)));
        return;
    };
    let is_cut = row.cell(kind).is_some_and(|cell| cell.samples.iter().any(|s| s.cut));
    let class = if rate.median >= best && kind != EngineKind::Memory { "best" } else { "" };
    push(
        page,
        format_args!(
            "<td class=\"{class}\" title=\"{} a second\">{}{}",
            rate_label(rate.median),
            short(micros(rate.median)),
            if is_cut { "<sup>*</sup>" } else { "" }
        ),
    );
    if let Some(ratio) = row.ratio(EngineKind::Esker, kind).filter(|_| kind != EngineKind::Esker) {
        let class = if ratio.median >= 1.0 { "ahead" } else { "behind" };
        push(page, format_args!(" <small class=\"{class}\">×{}</small>", short(ratio.median)));
    }
    page.push_str("</td>");
}

fn costs(page: &mut String, report: &Report, suite: &SuiteReport) {
    page.push_str("<details><summary>CPU, memory, disk, bytes written</summary>");
    page.push_str(
        "<p class=\"hint\">CPU µs an operation with all background work (×: of Esker’s) · peak of resident memory · bytes on \
         disk · bytes written for each byte stored</p>",
    );
    let engines = report.engines_of(suite);
    table_head(page, &engines, "");
    for row in &suite.rows {
        push(page, format_args!("<tr><th>{}</th>", escape(&row.info.title)));
        for engine in &engines {
            let cell = row.cell(engine.kind).filter(|cell| !cell.samples.is_empty());
            match cell {
                Some(cell) => push(page, format_args!("<td>{}</td>", cost(row, cell))),
                None => page.push_str("<td class=\"none\">–</td>"),
            }
        }
        page.push_str("</tr>");
    }
    page.push_str("</tbody></table></div></details>");
}

fn cost(row: &TableRow, cell: &TableCell) -> String {
    let median = |figure: fn(&Sample) -> f64| cell.spread(figure).map_or(0.0, |spread| spread.median);
    let cpu = 1e6 * median(|s| s.cpu_seconds / s.operations.max(1) as f64);
    let more = row.cpu_ratio(EngineKind::Esker, cell.kind).filter(|_| cell.kind != EngineKind::Esker);
    let more = more.map_or(String::new(), |m| format!(" <small>×{}</small>", short(m.median)));
    let mut text = format!(
        "{}{more}<br><small>{} · {}",
        short(cpu),
        bytes(median(|s| s.peak_memory_bytes as f64)),
        bytes(median(|s| s.disk_bytes as f64))
    );
    if cell.samples.iter().any(|s| s.user_bytes > 0) {
        let written = median(|s| s.written_bytes as f64 / s.user_bytes.max(1) as f64);
        push(&mut text, format_args!(" · {}×", short(written)));
    }
    text.push_str("</small>");
    text
}

fn limits(page: &mut String, suite: &SuiteReport) {
    page.push_str("<details><summary>What no engine can avoid</summary><dl>");
    for row in &suite.rows {
        push(page, format_args!("<dt>{}</dt><dd>{}</dd>", escape(&row.info.title), escape(&row.info.limit)));
    }
    page.push_str("</dl></details>");
}

fn footer(page: &mut String, report: &Report) {
    page.push_str("<footer><h2>How it was measured</h2>");
    push(
        page,
        format_args!(
            "<p>Each engine in a process of its own, fresh directories in every round, turns at every step, a round to warm \
             up that does not count. Memtables of {}, block caches of {}, Bloom filters of {} bits a key, no compression, the \
             log not synced. A star marks a step that was cut after {} s. The run took {} minutes.</p><p><code>{}</code></p>",
            bytes(report.plan.settings.write_buffer_bytes as f64),
            bytes(report.plan.settings.cache_bytes as f64),
            report.plan.settings.bloom_bits,
            report.plan.step_seconds,
            short(report.seconds / 60.0),
            escape(&report.command)
        ),
    );
    page.push_str("<dl>");
    for engine in report.engines.iter().filter(|engine| !engine.notes.is_empty()) {
        push(
            page,
            format_args!("<dt>{}</dt><dd>{}</dd>", escape(&engine.title), escape(&engine.notes.join("; "))),
        );
    }
    page.push_str("</dl>");
    if !report.problems.is_empty() {
        page.push_str("<h2>What went wrong or was left out</h2><ul>");
        for problem in &report.problems {
            push(page, format_args!("<li>{}</li>", escape(problem)));
        }
        page.push_str("</ul>");
    }
    page.push_str("</footer>");
}
