//! `esker info` as a part of an HTML page.
//!
//! In: the model. Out: sections without `<html>`, which `esker info --html` and `esker report`
//! frame.

use super::model::{ChangedOption, DatabaseInfo, FamilyInfo, LevelInfo};
use super::text::{family_facts, family_title, summary};
use crate::html::{self, escape, push};
use crate::units;

/// The sections of a database and of its `families_shown` largest families.
pub(crate) fn fragment(info: &DatabaseInfo, families_shown: usize) -> String {
    let mut page = String::new();
    push(&mut page, format_args!("<h1>{}</h1>", escape(&info.directory)));
    let families = units::counted(info.totals.families, "family");
    let encrypted = if info.encrypted { ", opened with encryption keys" } else { "" };
    let time = units::time(info.time);
    push(&mut page, format_args!("<p class=\"dim\">{families}{encrypted}; read at {time}</p>"));
    findings(&mut page, info);
    page.push_str("<section>");
    html::pairs(&mut page, summary(info));
    options(&mut page, "Options of the database that differ from the defaults of RocksDB 11", &info.options);
    page.push_str("</section>");
    let mut families: Vec<&FamilyInfo> = info.families.iter().collect();
    families.sort_by_key(|f| std::cmp::Reverse(f.table_bytes.saturating_add(f.blob_bytes)));
    for family in families.iter().take(families_shown) {
        self::family(&mut page, family);
    }
    if families.len() > families_shown {
        let more = units::counted((families.len() - families_shown) as u64, "smaller family");
        push(&mut page, format_args!("<p class=\"dim\">{more} are left out.</p>"));
    }
    largest(&mut page, info);
    page
}

fn findings(page: &mut String, info: &DatabaseInfo) {
    let list = |page: &mut String, class: &str, items: &[String]| {
        push(page, format_args!("<ul class=\"{class}\">"));
        items.iter().for_each(|item| push(page, format_args!("<li>{}</li>", escape(item))));
        page.push_str("</ul>");
    };
    page.push_str("<section>");
    match info.damage.len() {
        0 => page.push_str("<p>No damage in metadata."),
        damaged => push(page, format_args!("<p><strong>{damaged} damaged.</strong>")),
    }
    page.push_str(" <span class=\"dim\"><code>esker verify</code> checks every block and record.</span></p>");
    if !info.damage.is_empty() {
        list(page, "bad", &info.damage);
    }
    if !info.notes.is_empty() {
        list(page, "notes", &info.notes);
    }
    page.push_str("</section>");
}

fn family(page: &mut String, family: &FamilyInfo) {
    push(page, format_args!("<section><h2>{}</h2>", escape(&family_title(family))));
    bars(page, &family.levels);
    html::pairs(page, family_facts(family));
    options(page, "Options that differ from the defaults of RocksDB 11", &family.options);
    page.push_str("</section>");
}

/// A bar for each level, with a mark at its target.
fn bars(page: &mut String, levels: &[LevelInfo]) {
    let sizes = levels.iter().map(|level| level.bytes.max(level.target_bytes.unwrap_or(0)));
    let largest = sizes.max().unwrap_or(0).max(1) as f64;
    let percent = |bytes: u64| 100.0 * bytes as f64 / largest;
    page.push_str("<div class=\"bars\">");
    for level in levels {
        let colour = level.level.min(6);
        let number = level.level;
        push(page, format_args!("<div>L{number}</div><div class=\"track\">"));
        if level.bytes > 0 {
            let width = percent(level.bytes);
            push(page, format_args!("<div class=\"fill c{colour}\" style=\"width:{width:.2}%\"></div>"));
        }
        if let Some(target) = level.target_bytes {
            let left = percent(target);
            push(page, format_args!("<div class=\"goal\" style=\"left:calc({left:.2}% - 1px)\"></div>"));
        }
        push(page, format_args!("</div><div class=\"what\">{}</div>", escape(&describe(level))));
    }
    page.push_str("</div>");
}

fn describe(level: &LevelInfo) -> String {
    let mut parts = vec![
        units::bytes(level.bytes),
        units::counted(level.files, "file"),
        units::counted(level.sorted_runs, "sorted run"),
        format!("{} entries", units::count(level.entries)),
        format!("{} tombstones", units::share(level.tombstones, level.entries)),
    ];
    parts.extend(level.target_bytes.map(|target| format!("target {}", units::bytes(target))));
    if !level.compressions.is_empty() {
        parts.push(level.compressions.join(", "));
    }
    if let (Some(first), Some(last)) = (&level.smallest_key, &level.largest_key) {
        parts.push(format!("keys '{first}' to '{last}'"));
    }
    parts.join(" · ")
}

fn options(page: &mut String, title: &str, options: &[ChangedOption]) {
    if options.is_empty() {
        return;
    }
    push(page, format_args!("<details><summary>{} ({})</summary>", escape(title), options.len()));
    let rows: Vec<Vec<String>> =
        options.iter().map(|o| vec![o.name.clone(), o.value.clone(), o.default.clone()]).collect();
    html::table(page, &["option", "value", "default"], &rows);
    page.push_str("</details>");
}

fn largest(page: &mut String, info: &DatabaseInfo) {
    let largest = &info.largest;
    let mut rows = Vec::new();
    let mut row = |kind: &str, name: &str, bytes: u64, place: String| {
        rows.push(vec![kind.to_owned(), name.to_owned(), units::bytes(bytes), place]);
    };
    if largest.families.len() > 1 {
        largest.families.iter().for_each(|f| row("family", &f.name, f.bytes, String::new()));
    }
    for file in &largest.tables {
        row("table", &file.name, file.bytes, format!("L{} of '{}'", file.level, file.family));
    }
    for file in &largest.blob_files {
        let garbage = units::share(file.garbage_bytes, file.bytes);
        row("blob file", &file.name, file.bytes, format!("{garbage} garbage, of '{}'", file.family));
    }
    largest.wals.iter().for_each(|file| row("WAL", &file.name, file.bytes, String::new()));
    if !rows.is_empty() {
        page.push_str("<section><h2>Largest</h2>");
        html::table(page, &["kind", "name", ">size", "place"], &rows);
        page.push_str("</section>");
    }
}
