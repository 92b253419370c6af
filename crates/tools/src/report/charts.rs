//! Charts over time as SVG, drawn without a library. Colours are CSS classes of the page.
//!
//! In: points with times in microseconds. Out: a `<figure>`. The drawing stretches with the page;
//! its labels are HTML beside it and keep their size, so a chart is readable at any width.
//!
//! Invariant: names reach the page through `escape` only.

use crate::html::{escape, push};
use crate::units;
use std::fmt::Write;

/// Width of a drawing in its own units.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 180.0;
const LANE: f64 = 26.0;

/// The time that all charts of a page show.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeSpan {
    first: u64,
    last: u64,
}

impl TimeSpan {
    /// From `first` to `last`, at least a millisecond.
    pub(super) fn new(first: u64, last: u64) -> TimeSpan {
        let first = first.min(u64::MAX - 1000);
        TimeSpan { first, last: last.max(first + 1000) }
    }

    pub(super) fn seconds(self) -> f64 {
        (self.last - self.first) as f64 / 1e6
    }

    fn x(self, time: u64) -> f64 {
        let at = time.clamp(self.first, self.last) - self.first;
        WIDTH * at as f64 / (self.last - self.first) as f64
    }

    /// Times of labels and their places in percent.
    fn ticks(self) -> Vec<(f64, String)> {
        const STEPS: [u64; 18] =
            [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400];
        const MOST_TICKS: u64 = 6;
        let (from, to) = (self.first.div_ceil(1_000_000), self.last / 1_000_000);
        let wanted = to.saturating_sub(from) / MOST_TICKS + 1;
        let day = STEPS[STEPS.len() - 1];
        let step = STEPS.iter().copied().find(|step| *step >= wanted).unwrap_or(wanted.div_ceil(day) * day);
        let mut ticks = Vec::new();
        let mut second = from.div_ceil(step).saturating_mul(step);
        while second <= to && ticks.len() <= MOST_TICKS as usize + 1 {
            let text = units::time(second);
            let is_long = self.seconds() > 2.0 * day as f64;
            let shown = if is_long { text.get(..10) } else { text.get(11..) };
            ticks.push((self.x(second * 1_000_000) / WIDTH * 100.0, shown.unwrap_or(&text).to_owned()));
            second = second.saturating_add(step);
        }
        ticks
    }
}

/// A label of the legend: a colour's class and a text.
pub(super) type Legend<'a> = &'a [(&'a str, String)];

/// The frame of a chart around `drawing`, with labels of the y axis as (percent from above, text).
fn figure(
    page: &mut String,
    title: &str,
    legend: Legend<'_>,
    span: TimeSpan,
    (height, y_labels): (f64, &[(f64, String)]),
    drawing: &str,
) {
    push(page, format_args!("<figure><figcaption>{}</figcaption>", escape(title)));
    if !legend.is_empty() {
        page.push_str("<div class=\"legend\">");
        for (class, text) in legend {
            push(page, format_args!("<span><i class=\"{class}\"></i>{}</span>", escape(text)));
        }
        page.push_str("</div>");
    }
    push(
        page,
        format_args!(
            "<div class=\"plot\"><svg viewBox=\"0 0 {WIDTH} {height}\" preserveAspectRatio=\"none\" \
             style=\"height:{height}px\" role=\"img\" aria-label=\"{}\">{drawing}</svg>",
            escape(title)
        ),
    );
    for (percent, text) in y_labels {
        push(page, format_args!("<span class=\"y\" style=\"top:{percent:.1}%\">{}</span>", escape(text)));
    }
    let ticks = span.ticks();
    for (index, (percent, text)) in ticks.iter().enumerate() {
        let parity = if index % 2 == 1 { " odd" } else { "" };
        let end = match *percent {
            p if p < 4.0 => " first",
            p if p > 96.0 => " last",
            _ => "",
        };
        push(
            page,
            format_args!(
                "<span class=\"x{parity}{end}\" style=\"left:{percent:.1}%\">{}</span>",
                escape(text)
            ),
        );
    }
    page.push_str("</div></figure>");
}

/// Lines at the bottom, in the middle and at the top, and their labels.
fn grid(drawing: &mut String, most: f64, label: impl Fn(f64) -> String) -> Vec<(f64, String)> {
    let mut labels = Vec::new();
    for part in [0.0, 0.5, 1.0] {
        let y = HEIGHT * (1.0 - part);
        push(drawing, format_args!("<line class=\"grid\" x1=\"0\" x2=\"{WIDTH}\" y1=\"{y}\" y2=\"{y}\"/>"));
        labels.push((100.0 * (1.0 - part), label(most * part)));
    }
    labels
}

/// The next number at or above `value` that is 1, 1.25, 1.5 or 1.75 times a power of two.
fn nice(value: f64) -> f64 {
    let power = value.max(1.0).log2().floor().exp2();
    [1.0, 1.25, 1.5, 1.75, 2.0].iter().map(|part| part * power).find(|top| *top >= value).unwrap_or(value)
}

/// A label of sizes.
pub(super) fn size_label(value: f64) -> String {
    units::bytes(value as u64)
}

/// A label of counts.
pub(super) fn count_label(value: f64) -> String {
    if value.fract() == 0.0 { units::count(value as u64) } else { format!("{value:.1}") }
}

/// A label of shares.
pub(super) fn percent_label(value: f64) -> String {
    format!("{value:.0}%")
}

/// Values of levels, one on the other. A value lasts until the next point.
pub(super) fn levels(
    page: &mut String,
    title: &str,
    span: TimeSpan,
    points: &[(u64, Vec<f64>)],
    label: impl Fn(f64) -> String,
) {
    let count = points.iter().map(|(_, values)| values.len()).max().unwrap_or(0);
    let sums = points.iter().map(|(_, values)| values.iter().sum::<f64>());
    let most = nice(sums.fold(0.0, f64::max));
    let mut drawing = String::new();
    let labels = grid(&mut drawing, most, &label);
    let mut legend = Vec::new();
    let mut below = vec![0.0; points.len()];
    // The deepest level lies at the bottom, as the large one.
    for level in (0..count).rev() {
        let value = |values: &Vec<f64>| values.get(level).copied().unwrap_or(0.0);
        if points.iter().all(|(_, values)| value(values) == 0.0) {
            continue;
        }
        let above: Vec<f64> = points.iter().zip(&below).map(|((_, v), base)| base + value(v)).collect();
        let class = class_of(level);
        push(&mut drawing, format_args!("<path class=\"area {class}\" d=\""));
        outline(&mut drawing, span, points, &above, most, false);
        outline(&mut drawing, span, points, &below, most, true);
        let newest = points.last().map_or(0.0, |(_, values)| value(values));
        push(&mut drawing, format_args!("Z\"><title>L{level}: {} at the end</title></path>", label(newest)));
        legend.push((class, format!("L{level}")));
        below = above;
    }
    legend.reverse();
    figure(page, title, &legend, span, (HEIGHT, &labels), &drawing);
}

/// The upper or, backwards, the lower edge of an area, as steps.
fn outline<T>(
    drawing: &mut String,
    span: TimeSpan,
    points: &[(u64, T)],
    values: &[f64],
    most: f64,
    is_backward: bool,
) {
    let mut corners = Vec::with_capacity(2 * points.len());
    for (index, ((time, _), value)) in points.iter().zip(values).enumerate() {
        let end = points.get(index + 1).map_or(span.last, |(next, _)| *next);
        let y = HEIGHT * (1.0 - value / most);
        corners.extend([(span.x(*time), y), (span.x(end), y)]);
    }
    if is_backward {
        corners.reverse();
    }
    for (index, (x, y)) in corners.into_iter().enumerate() {
        let command = if index == 0 && !is_backward { 'M' } else { 'L' };
        push(drawing, format_args!("{command}{x:.1} {y:.1}"));
    }
}

/// A colour for a level or another number.
pub(super) fn class_of(number: usize) -> &'static str {
    const CLASSES: [&str; 8] = ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"];
    CLASSES[number.min(CLASSES.len() - 1)]
}

/// One line of a line chart.
pub(super) struct TimeLine<'a> {
    pub(super) name: &'a str,
    pub(super) class: &'static str,
    pub(super) points: Vec<(u64, f64)>,
}

/// Lines over time. The y axis begins at zero and ends at `most`, or at the largest value.
pub(super) fn lines(
    page: &mut String,
    title: &str,
    span: TimeSpan,
    lines: &[TimeLine<'_>],
    most: Option<f64>,
    label: impl Fn(f64) -> String,
) {
    let largest = lines.iter().flat_map(|line| &line.points).map(|(_, value)| *value).fold(0.0, f64::max);
    let most = most.unwrap_or_else(|| nice(largest));
    let mut drawing = String::new();
    let labels = grid(&mut drawing, most, &label);
    let mut legend = Vec::new();
    for line in lines {
        let corners: Vec<String> = line
            .points
            .iter()
            .map(|(time, value)| {
                format!("{:.1},{:.1}", span.x(*time), HEIGHT * (1.0 - (value / most).min(1.0)))
            })
            .collect();
        let newest = line.points.last().map_or(0.0, |(_, value)| *value);
        push(
            &mut drawing,
            format_args!(
                "<polyline class=\"line {}\" points=\"{}\"><title>{}: {} at the end</title></polyline>",
                line.class,
                corners.join(" "),
                escape(line.name),
                label(newest)
            ),
        );
        legend.push((line.class, line.name.to_owned()));
    }
    figure(page, title, &legend, span, (HEIGHT, &labels), &drawing);
}

/// Bars over time, two values one on the other: `(begin, lower, upper)`.
pub(super) fn bars(
    page: &mut String,
    title: &str,
    span: TimeSpan,
    (width, values): (u64, &[(u64, f64, f64)]),
    legend: [(&'static str, &'static str); 2],
    label: impl Fn(f64) -> String,
) {
    let most = nice(values.iter().map(|(_, lower, upper)| lower + upper).fold(0.0, f64::max));
    let mut drawing = String::new();
    let labels = grid(&mut drawing, most, &label);
    for (begin, lower, upper) in values {
        let (from, to) = (span.x(*begin), span.x(begin.saturating_add(width)));
        let wide = (to - from - 0.6).max(0.8);
        let mut y = HEIGHT;
        for (value, (class, name)) in [(lower, legend[0]), (upper, legend[1])] {
            if *value > 0.0 {
                let tall = (HEIGHT * value / most).max(0.7);
                y -= tall;
                let time = units::time(begin / 1_000_000);
                push(
                    &mut drawing,
                    format_args!(
                        "<rect class=\"area {class}\" x=\"{from:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" \
                         height=\"{tall:.1}\"><title>{time}: {name}, {}</title></rect>",
                        label(*value)
                    ),
                );
            }
        }
    }
    let legend = legend.map(|(class, name)| (class, name.to_owned()));
    figure(page, title, &legend, span, (HEIGHT, &labels), &drawing);
}

/// A job as a bar in a lane.
pub(super) struct LaneBar {
    pub(super) lane: usize,
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) class: &'static str,
    pub(super) title: String,
}

/// Jobs over time, each in the lane of its kind. Jobs at the same time lie over each other.
pub(super) fn lanes(
    page: &mut String,
    title: &str,
    span: TimeSpan,
    names: &[String],
    bars: &[LaneBar],
    legend: Legend<'_>,
) {
    let height = LANE * names.len().max(1) as f64;
    let mut drawing = String::new();
    let mut labels = Vec::new();
    for (lane, name) in names.iter().enumerate() {
        let y = LANE * (lane + 1) as f64;
        push(
            &mut drawing,
            format_args!("<line class=\"grid\" x1=\"0\" x2=\"{WIDTH}\" y1=\"{y}\" y2=\"{y}\"/>"),
        );
        labels.push((100.0 * (lane as f64 + 0.5) / names.len() as f64, name.clone()));
    }
    for bar in bars {
        let (x, end) = (span.x(bar.begin), span.x(bar.end));
        let y = LANE * bar.lane as f64 + 4.0;
        write!(
            drawing,
            "<rect class=\"job {}\" x=\"{x:.1}\" y=\"{y}\" width=\"{:.1}\" height=\"{}\"><title>{}</title></rect>",
            bar.class,
            (end - x).max(1.0),
            LANE - 8.0,
            escape(&bar.title)
        )
        .expect("a write to a string cannot fail");
    }
    figure(page, title, legend, span, (height, &labels), &drawing);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_span_has_few_ticks() {
        for seconds in [0, 1, 7, 60, 3000, 90_000, 1 << 25, 1 << 40] {
            let first = 1_700_000_000_123_456;
            let ticks = TimeSpan::new(first, first + seconds * 1_000_000).ticks();
            assert!(ticks.len() <= 8, "{seconds}: {ticks:?}");
            assert!(ticks.iter().all(|(percent, _)| (0.0..=100.0).contains(percent)), "{seconds}: {ticks:?}");
        }
        assert!(TimeSpan::new(u64::MAX, 0).ticks().len() <= 8);
    }

    #[test]
    fn axes_end_at_the_largest_value_or_a_little_above() {
        for value in [0.0, 1.0, 3.1, 100.0, 1e9, 1.9e19] {
            assert!(
                nice(value) >= value && nice(value) <= (1.5 * value).max(1.0),
                "{value}: {}",
                nice(value)
            );
        }
    }
}
