//! The page of `esker report`.
//!
//! In: what the database holds now, and its history. Out: HTML.

use super::charts::{self, LaneBar, TimeLine, TimeSpan};
use super::history::{FamilyHistory, JobKind, JobRecord, LogHistory, ReasonSum};
use crate::html::{self, escape, push};
use crate::units;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Families with charts of their own.
const FAMILIES_DRAWN: usize = 6;
/// Reasons with a colour of their own.
const REASONS_COLOURED: usize = 7;
const LONGEST_SHOWN: usize = 12;

/// The sections about the past. `logs` are the files that were read, with their sizes.
pub(super) fn fragment(history: &LogHistory, logs: &[(String, u64)]) -> String {
    let mut page = String::new();
    let (Some(first), Some(last)) = (history.first, history.last) else {
        page.push_str("<section><h2>History</h2><p>The LOG files have no events.</p>");
        sources(&mut page, history, logs);
        page.push_str("</section>");
        return page;
    };
    let span = TimeSpan::new(first, last);
    let (from, to) = (units::time(first / 1_000_000), units::time(last / 1_000_000));
    let length = units::duration(span.seconds());
    push(&mut page, format_args!("<section><h2>History: {from} to {to}, {length}</h2>"));
    sources(&mut page, history, logs);
    page.push_str("</section>");
    section(&mut page, "Levels", |page| levels(page, history, span));
    section(&mut page, "Flushes and compactions", |page| jobs(page, history, span));
    section(&mut page, "Writes and stalls", |page| stalls(page, history, span));
    section(&mut page, "Block cache", |page| caches(page, history, span));
    page
}

/// A section, unless `draw` draws nothing.
fn section(page: &mut String, title: &str, draw: impl FnOnce(&mut String)) {
    let mut body = String::new();
    draw(&mut body);
    if !body.is_empty() {
        push(page, format_args!("<section><h2>{}</h2>{body}</section>", escape(title)));
    }
}

/// The files that were read, opens and failures.
fn sources(page: &mut String, history: &LogHistory, logs: &[(String, u64)]) {
    const MOST_NAMED: usize = 6;
    let bytes: u64 = logs.iter().map(|(_, bytes)| *bytes).sum();
    let names: Vec<&str> = logs.iter().rev().take(MOST_NAMED).map(|(name, _)| &name[..]).collect();
    let more = if logs.len() > MOST_NAMED { ", …" } else { "" };
    let files = units::counted(logs.len() as u64, "file");
    let mut rows = vec![("LOG", format!("{files}, {}: {}{more}", units::bytes(bytes), names.join(", ")))];
    let unreadable = match history.unreadable {
        0 => String::new(),
        n => format!("; {} cannot be read", units::counted(n, "event")),
    };
    rows.push(("lines", format!("{}{unreadable}", units::count(history.lines))));
    let opens: Vec<String> = history
        .opens
        .iter()
        .rev()
        .take(MOST_NAMED)
        .map(|(time, program)| format!("{} by {program}", units::time(time / 1_000_000)))
        .collect();
    if !opens.is_empty() {
        let more = if history.opens.len() > opens.len() { "; …" } else { "" };
        rows.push(("opened", format!("{}{more}", opens.join("; "))));
    }
    html::pairs(page, rows);
    if !history.failures.is_empty() {
        page.push_str("<p><strong>Failures</strong></p><ul class=\"bad\">");
        for (time, text) in history.failures.iter().rev() {
            let time = time.map_or_else(String::new, |time| units::time(time / 1_000_000) + ": ");
            push(page, format_args!("<li>{}{}</li>", time, escape(text)));
        }
        page.push_str("</ul>");
    }
}

/// Files and bytes of levels, of the families with the most points.
fn levels(page: &mut String, history: &LogHistory, span: TimeSpan) {
    let mut families: Vec<(&String, &FamilyHistory)> = history.families.iter().collect();
    families.sort_by_key(|(_, family)| Reverse(family.files.points().len() + family.bytes.points().len()));
    for (name, family) in families.iter().take(FAMILIES_DRAWN) {
        let (files, bytes) = (family.files.points(), family.bytes.points());
        if !files.is_empty() {
            let title = format!("'{name}': files in each level, after each flush and compaction");
            charts::levels(page, &title, span, &files, charts::count_label);
        }
        // A single dump is a rectangle without information.
        if bytes.len() > 1 {
            let title = format!("'{name}': bytes in each level, at each statistics dump");
            charts::levels(page, &title, span, &bytes, charts::size_label);
        }
    }
    if families.len() > FAMILIES_DRAWN {
        let more = units::counted((families.len() - FAMILIES_DRAWN) as u64, "family");
        push(page, format_args!("<p class=\"dim\">{more} with fewer events are left out.</p>"));
    }
}

/// Colours of reasons: the reasons with the longest jobs get one of their own.
fn colours(history: &LogHistory) -> BTreeMap<&(JobKind, String), &'static str> {
    let mut reasons: Vec<(&(JobKind, String), &ReasonSum)> = history.reasons.iter().collect();
    reasons.sort_by_key(|(_, sum)| Reverse(sum.micros));
    reasons
        .iter()
        .enumerate()
        .map(|(i, (key, _))| (*key, charts::class_of(i.min(REASONS_COLOURED))))
        .collect()
}

fn jobs(page: &mut String, history: &LogHistory, span: TimeSpan) {
    if history.jobs.is_empty() {
        return;
    }
    let colours = colours(history);
    let lane_of = |job: &JobRecord| match job.kind {
        JobKind::Flush => 0,
        JobKind::Compaction | JobKind::Move => job.level + 1,
    };
    let mut used: Vec<usize> = history.jobs.iter().map(lane_of).collect();
    used.sort_unstable();
    used.dedup();
    let name = |lane: &usize| if *lane == 0 { "flush".to_owned() } else { format!("to L{}", lane - 1) };
    let names: Vec<String> = used.iter().map(name).collect();
    let bar = |job: &JobRecord| LaneBar {
        lane: used.binary_search(&lane_of(job)).unwrap_or(0),
        begin: job.begin,
        end: job.end,
        class: colours.get(&(job.kind, job.reason.clone())).copied().unwrap_or("c7"),
        title: describe(job),
    };
    let bars: Vec<LaneBar> = history.jobs.iter().map(bar).collect();
    let mut legend: Vec<(&str, String)> = colours
        .iter()
        .filter(|(_, class)| **class != "c7")
        .map(|((_, reason), class)| (*class, reason.clone()))
        .collect();
    legend.sort();
    if colours.len() > legend.len() {
        legend.push(("c7", "other reasons".to_owned()));
    }
    charts::lanes(page, "Jobs by level of their output, coloured by reason", span, &names, &bars, &legend);
    if history.left_out > 0 {
        let text = units::counted(history.left_out, "shorter job");
        push(page, format_args!("<p class=\"dim\">{text} are not drawn; the sums count them.</p>"));
    }
    let sums =
        history.written.buckets().map(|(begin, sum)| (begin, sum.flushed as f64, sum.compacted as f64));
    let sums: Vec<(u64, f64, f64)> = sums.collect();
    let width = history.written.width();
    let title = format!("Bytes written by jobs that ended within {}", units::duration(width as f64 / 1e6));
    let legend = [("c4", "flushes"), ("c0", "compactions")];
    charts::bars(page, &title, span, (width, &sums), legend, charts::size_label);
    reasons(page, history);
    longest(page, history);
}

/// A job in a sentence.
fn describe(job: &JobRecord) -> String {
    let what = match job.kind {
        JobKind::Flush => "flush".to_owned(),
        JobKind::Compaction => format!("compaction to L{}", job.level),
        JobKind::Move => format!("move to L{}", job.level),
    };
    let read = match job.bytes_read {
        0 => String::new(),
        bytes => format!("{} read, ", units::bytes(bytes)),
    };
    format!(
        "{what} of '{}': {}; {read}{} written, {}, {}",
        job.family,
        job.reason,
        units::bytes(job.bytes_written),
        units::duration((job.end - job.begin) as f64 / 1e6),
        units::time(job.begin / 1_000_000)
    )
}

fn kind_name(kind: JobKind) -> &'static str {
    match kind {
        JobKind::Flush => "flush",
        JobKind::Compaction => "compaction",
        JobKind::Move => "move",
    }
}

fn reasons(page: &mut String, history: &LogHistory) {
    let mut reasons: Vec<(&(JobKind, String), &ReasonSum)> = history.reasons.iter().collect();
    reasons.sort_by_key(|(_, sum)| Reverse(sum.micros));
    let row = |((kind, reason), sum): &(&(JobKind, String), &ReasonSum)| {
        let bytes = |bytes: u64| if bytes == 0 { "–".to_owned() } else { units::bytes(bytes) };
        vec![
            kind_name(*kind).to_owned(),
            reason.clone(),
            units::count(sum.jobs),
            if *kind == JobKind::Move { "–".to_owned() } else { units::duration(sum.micros as f64 / 1e6) },
            bytes(sum.bytes_read),
            bytes(sum.bytes_written),
        ]
    };
    page.push_str("<h3>Reasons</h3>");
    let rows: Vec<Vec<String>> = reasons.iter().map(row).collect();
    html::table(page, &["job", "reason", ">jobs", ">time", ">read", ">written"], &rows);
}

fn longest(page: &mut String, history: &LogHistory) {
    let mut jobs: Vec<&JobRecord> = history.jobs.iter().filter(|job| job.kind != JobKind::Move).collect();
    jobs.sort_by_key(|job| Reverse(job.end - job.begin));
    let row = |job: &&JobRecord| {
        let entries = match job.entries_read {
            0 => "–".to_owned(),
            read => format!("{} to {}", units::count(read), units::count(job.entries_written)),
        };
        vec![
            units::time(job.begin / 1_000_000),
            units::duration((job.end - job.begin) as f64 / 1e6),
            kind_name(job.kind).to_owned(),
            job.family.clone(),
            format!("L{}", job.level),
            job.reason.clone(),
            units::bytes(job.bytes_written),
            entries,
        ]
    };
    let rows: Vec<Vec<String>> = jobs.iter().take(LONGEST_SHOWN).map(row).collect();
    page.push_str("<details><summary>The longest jobs</summary>");
    let heads = ["begin", ">time", "job", "family", "to", "reason", ">written", ">entries"];
    html::table(page, &heads, &rows);
    page.push_str("</details>");
}

fn stalls(page: &mut String, history: &LogHistory, span: TimeSpan) {
    let (stalled, ingested) = (history.stalled.points(), history.ingested.points());
    if ingested.len() > 1 {
        let line = TimeLine { name: "written by users", class: "c3", points: ingested };
        let label = |value: f64| format!("{value:.1} MB/s");
        charts::lines(page, "Written by users, at each statistics dump", span, &[line], None, label);
    }
    if stalled.len() > 1 {
        let line = TimeLine { name: "writers waited", class: "bad", points: stalled };
        let title = "Share of the time in which writers waited, at each statistics dump";
        charts::lines(page, title, span, &[line], Some(100.0), charts::percent_label);
    }
    let sums = history.stalls.buckets().map(|(begin, sum)| (begin, sum.slowed as f64, sum.stopped as f64));
    let sums: Vec<(u64, f64, f64)> = sums.collect();
    if !sums.is_empty() {
        let legend = [("warn", "slowed down"), ("bad", "stopped")];
        let width = history.stalls.width();
        let title = format!("Stalls that began within {}", units::duration(width as f64 / 1e6));
        charts::bars(page, &title, span, (width, &sums), legend, charts::count_label);
    }
    let causes = history.stalls_by_cause();
    if !causes.is_empty() {
        let row = |(cause, sum): &(&str, super::history::StallSum)| {
            vec![(*cause).to_owned(), units::count(sum.slowed), units::count(sum.stopped)]
        };
        let rows: Vec<Vec<String>> = causes.iter().map(row).collect();
        page.push_str("<h3>Causes of stalls</h3>");
        html::table(page, &["cause", ">slowed down", ">stopped"], &rows);
    } else if history.stalled.points().len() > 1 {
        page.push_str("<p class=\"dim\">The LOG names no stall.</p>");
    }
}

fn caches(page: &mut String, history: &LogHistory, span: TimeSpan) {
    let cache = history.cache.points();
    if cache.len() > 1 {
        let part = |of: fn(&(f64, f64)) -> f64| cache.iter().map(|(time, pair)| (*time, of(pair))).collect();
        let used = TimeLine { name: "used", class: "c4", points: part(|pair| pair.0) };
        let capacity = TimeLine { name: "capacity", class: "c7", points: part(|pair| pair.1) };
        let title = "The largest block cache, at each statistics dump";
        charts::lines(page, title, span, &[capacity, used], None, charts::size_label);
    }
    let hits = history.hits.points();
    if hits.len() > 1 {
        let line = TimeLine { name: "found", class: "c3", points: hits };
        let title = "Lookups in block caches that found their block, at each statistics dump";
        charts::lines(page, title, span, &[line], Some(100.0), charts::percent_label);
    }
}
