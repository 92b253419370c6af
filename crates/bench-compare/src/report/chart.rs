//! Charts as SVG, drawn without a library. Colours are CSS variables of the page, so that they
//! follow its light and dark theme.
//!
//! In: rows of figures. Out: an `<svg>` element that scales with its container and has its numbers
//! in `<title>`s.

use super::stats::Spread;
use super::table::short;
use super::{Report, SuiteReport};
use crate::engines::EngineKind;
use std::fmt::Write;

/// Width of the drawing in its own units; the page scales it.
const WIDTH: f64 = 960.0;
/// Start of the axis, right of the names. Its end lies left of the numbers.
const LEFT: f64 = 290.0;
const RIGHT: f64 = 868.0;
const ROW: f64 = 34.0;
const TOP: f64 = 34.0;
/// End of the axis, in powers of two. A ratio beyond it appears as an arrow at the end.
const MOST: f64 = 5.0;

/// `text`, escaped for HTML.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The engines other than Esker that have figures.
fn rivals(report: &Report) -> Vec<EngineKind> {
    report.engines.iter().map(|engine| engine.kind).filter(|kind| *kind != EngineKind::Esker).collect()
}

/// The place of a ratio on an axis from `low` to `high` powers of two.
fn x_of(ratio: f64, low: f64, high: f64) -> f64 {
    let place = (ratio.log2().clamp(low, high) - low) / (high - low);
    LEFT + place * (RIGHT - LEFT)
}

/// Esker's speed as a multiple of each rival's, for each step, on a logarithmic axis.
pub(super) fn ratios(report: &Report, suite: &SuiteReport) -> String {
    let rivals = rivals(report);
    let all: Vec<Spread> = suite
        .rows
        .iter()
        .flat_map(|row| rivals.iter().filter_map(|&rival| report.ratio(row, rival)))
        .collect();
    if all.is_empty() {
        return String::new();
    }
    let ends = |end: fn(f64, f64) -> f64| all.iter().map(|s| s.median.log2()).fold(0.0, end);
    let low = (ends(f64::min) - 0.3).floor().clamp(-MOST, -1.0);
    let high = (ends(f64::max) + 0.3).ceil().clamp(1.0, MOST);
    let height = TOP + ROW * suite.rows.len() as f64 + 12.0;
    let mut svg = format!(
        "<svg class=\"ratios\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}: how many times as \
         fast Esker is\">",
        escape(&suite.title)
    );
    axis(&mut svg, low, high, height);
    for (index, row) in suite.rows.iter().enumerate() {
        let y = TOP + ROW * (index as f64 + 0.5);
        push(
            &mut svg,
            format_args!(
                "<g><text class=\"name\" x=\"0\" y=\"{:.1}\">{}</text>",
                y + 4.0,
                escape(&row.info.title)
            ),
        );
        if index > 0 {
            let line = y - ROW / 2.0;
            push(
                &mut svg,
                format_args!("<line class=\"rule\" x1=\"0\" x2=\"{WIDTH}\" y1=\"{line}\" y2=\"{line}\"/>"),
            );
        }
        for (place, &rival) in rivals.iter().enumerate() {
            if let Some(ratio) = report.ratio(row, rival) {
                let gap = (ROW / rivals.len() as f64).min(5.6);
                let offset = (place as f64 - (rivals.len() as f64 - 1.0) / 2.0) * gap;
                dot(&mut svg, rival, ratio, y + offset, (low, high));
            }
        }
        if let Some(ratio) = report.ratio(row, EngineKind::Rocksdb) {
            let class = if ratio.median >= 1.0 { "ahead" } else { "behind" };
            push(
                &mut svg,
                format_args!(
                    "<text class=\"figure {class}\" x=\"{WIDTH}\" y=\"{:.1}\">×{}</text>",
                    y + 4.0,
                    short(ratio.median)
                ),
            );
        }
        svg.push_str("</g>");
    }
    svg.push_str("</svg>");
    svg
}

fn push(svg: &mut String, text: std::fmt::Arguments<'_>) {
    svg.write_fmt(text).expect("a write to a string cannot fail");
}

/// The background: a tint on the side where Esker is ahead, lines at the powers of two, and a label
/// at each end.
fn axis(svg: &mut String, low: f64, high: f64, height: f64) {
    let one = x_of(1.0, low, high);
    let (top, tall) = (TOP - 4.0, height - TOP - 4.0);
    push(
        svg,
        format_args!(
            "<rect class=\"tint\" x=\"{one:.1}\" y=\"{top}\" width=\"{:.1}\" height=\"{tall}\"/>",
            RIGHT - one
        ),
    );
    let mut power = low;
    while power <= high {
        let ratio = power.exp2();
        let x = x_of(ratio, low, high);
        let class = if power == 0.0 { "one" } else { "grid" };
        let label = if ratio >= 1.0 { format!("×{ratio}") } else { format!("×1/{}", 1.0 / ratio) };
        push(
            svg,
            format_args!(
                "<line class=\"{class}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top}\" y2=\"{:.1}\"/>\
                 <text class=\"tick\" x=\"{x:.1}\" y=\"20\">{label}</text>",
                top + tall
            ),
        );
        power += 1.0;
    }
    push(svg, format_args!("<text class=\"head\" x=\"{WIDTH}\" y=\"20\">RocksDB</text>"));
}

/// Draws a ratio with its spread, or an arrow for a ratio beyond the axis.
fn dot(svg: &mut String, rival: EngineKind, ratio: Spread, y: f64, (low, high): (f64, f64)) {
    let name = rival.name();
    let x = x_of(ratio.median, low, high);
    let (from, to) = (x_of(ratio.min, low, high), x_of(ratio.max, low, high));
    let title =
        format!("{}: ×{} ({} to {})", rival.title(), short(ratio.median), short(ratio.min), short(ratio.max));
    push(
        svg,
        format_args!(
            "<g class=\"e-{name}\"><title>{title}</title><line class=\"spread\" x1=\"{from:.1}\" x2=\"{to:.1}\" \
             y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
        ),
    );
    let power = ratio.median.log2();
    if power > high || power < low {
        let tip = if power > high { x + 9.0 } else { x - 9.0 };
        push(
            svg,
            format_args!(
                "<path class=\"mark\" d=\"M{x:.1} {:.1} L{tip:.1} {y:.1} L{x:.1} {:.1} Z\"/>",
                y - 4.5,
                y + 4.5
            ),
        );
    } else {
        push(svg, format_args!("<circle class=\"mark\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.6\"/>"));
    }
    svg.push_str("</g>");
}

/// One line of a line chart.
pub(super) struct Line {
    pub(super) kind: EngineKind,
    pub(super) values: Vec<Option<Spread>>,
}

const CHART_HEIGHT: f64 = 260.0;
const CHART_WIDTH: f64 = 470.0;
const MARGIN: f64 = 46.0;

/// Rates over a series of settings; the y axis begins at zero.
pub(super) fn lines(title: &str, x_title: &str, labels: &[String], lines: &[Line]) -> String {
    let values = lines.iter().flat_map(|line| line.values.iter().flatten().map(|v| v.median));
    let most = nice(values.fold(0.0, f64::max));
    let (bottom, right) = (CHART_HEIGHT - MARGIN, CHART_WIDTH - 14.0);
    let x = |index: usize| MARGIN + (index as f64 + 0.5) * (right - MARGIN) / labels.len().max(1) as f64;
    let y = |value: f64| bottom - value / most * (bottom - 34.0);
    let mut svg = format!(
        "<svg class=\"lines\" viewBox=\"0 0 {CHART_WIDTH} {CHART_HEIGHT}\" role=\"img\" aria-label=\"{0}\">\
         <text class=\"chart-title\" x=\"0\" y=\"14\">{0}</text>",
        escape(title)
    );
    for step in 0..=4 {
        let value = most * f64::from(step) / 4.0;
        push(
            &mut svg,
            format_args!(
                "<line class=\"grid\" x1=\"{MARGIN}\" x2=\"{right}\" y1=\"{0:.1}\" y2=\"{0:.1}\"/>\
                 <text class=\"y-tick\" x=\"{1}\" y=\"{2:.1}\">{3}</text>",
                y(value),
                MARGIN - 6.0,
                y(value) + 4.0,
                rate_label(value)
            ),
        );
    }
    for (index, label) in labels.iter().enumerate() {
        push(
            &mut svg,
            format_args!(
                "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                x(index),
                bottom + 17.0,
                escape(label)
            ),
        );
    }
    push(
        &mut svg,
        format_args!(
            "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            f64::midpoint(MARGIN, right),
            bottom + 36.0,
            escape(x_title)
        ),
    );
    for line in lines.iter().rev() {
        polyline(&mut svg, line, labels, &x, &y);
    }
    svg.push_str("</svg>");
    svg
}

fn polyline(
    svg: &mut String,
    line: &Line,
    labels: &[String],
    x: &impl Fn(usize) -> f64,
    y: &impl Fn(f64) -> f64,
) {
    let points: Vec<(usize, Spread)> =
        line.values.iter().enumerate().filter_map(|(i, value)| Some((i, (*value)?))).collect();
    let path: Vec<String> = points.iter().map(|(i, v)| format!("{:.1},{:.1}", x(*i), y(v.median))).collect();
    push(
        svg,
        format_args!(
            "<g class=\"e-{}\"><polyline class=\"line\" points=\"{}\"/>",
            line.kind.name(),
            path.join(" ")
        ),
    );
    for (i, value) in points {
        push(
            svg,
            format_args!(
                "<g><title>{}, {}: {} a second</title><circle class=\"mark\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.6\"/></g>",
                line.kind.title(),
                escape(&labels[i]),
                rate_label(value.median),
                x(i),
                y(value.median)
            ),
        );
    }
    svg.push_str("</g>");
}

/// The next round number at or above `value`.
fn nice(value: f64) -> f64 {
    let power = 10f64.powf(value.max(1.0).log10().floor());
    let steps = [1.0, 1.2, 1.6, 2.0, 2.4, 3.2, 4.0, 6.0, 8.0, 10.0];
    steps.iter().map(|step| step * power).find(|&round| round >= value).unwrap_or(10.0 * power)
}

/// A rate as text, such as `1.2 M`.
pub(super) fn rate_label(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{} M", trim(v / 1e6)),
        v if v >= 1e3 => format!("{} k", trim(v / 1e3)),
        v => trim(v),
    }
}

fn trim(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests;
