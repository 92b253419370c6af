//! `esker info` as text for a terminal.
//!
//! In: the model and a width. Out: lines of at most `width` columns, except for paths and sentences
//! about damage, which stay whole so that they can be copied.

use super::model::{ChangedOption, DatabaseInfo, FamilyInfo, LevelInfo};
use crate::units;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use std::fmt::Write;

/// Columns left of a bar.
const BEFORE_BAR: usize = 68;
const LONGEST_BAR: usize = 60;
const INDENT: &str = "  ";

pub(super) fn text(info: &DatabaseInfo, width: usize, families_shown: usize) -> String {
    let mut text = TextReport { out: String::new(), width };
    text.head(info);
    let mut families: Vec<&FamilyInfo> = info.families.iter().collect();
    if families.len() > families_shown {
        families.sort_by_key(|f| std::cmp::Reverse(f.table_bytes.saturating_add(f.blob_bytes)));
        families.truncate(families_shown);
    }
    for family in &families {
        text.family(family);
    }
    if families.len() < info.families.len() {
        let more = units::counted((info.families.len() - families.len()) as u64, "smaller family");
        text.line(format_args!("\n{more}: --all describes them, too"));
    }
    text.options("options of the database that differ from the defaults of RocksDB 11", &info.options);
    text.largest(info);
    text.findings(info);
    text.out
}

/// Lines of findings about the whole database, shared with the page.
pub(super) fn summary(info: &DatabaseInfo) -> Vec<(&'static str, String)> {
    let (totals, creator) = (&info.totals, &info.creator);
    let mut rows = vec![("tables", sized(totals.tables, "table", totals.table_bytes))];
    let shares = units::share(totals.tombstones, totals.entries);
    rows.push(("entries", format!("{}, {shares} of them tombstones", units::count(totals.entries))));
    if totals.blob_files > 0 {
        let garbage = units::share(totals.blob_garbage_bytes, totals.blob_bytes);
        let files = sized(totals.blob_files, "blob file", totals.blob_bytes);
        rows.push(("blob files", format!("{files}, {garbage} of it garbage")));
    }
    let mut wals = sized(totals.wals, "WAL", totals.wal_bytes);
    if totals.archived_wals > 0 {
        let archived = sized(totals.archived_wals, "WAL", totals.archived_wal_bytes);
        write!(wals, "; in the archive {archived}").expect("a write to a string cannot fail");
    }
    if info.wal_directory != info.directory {
        write!(wals, "; in {}", info.wal_directory).expect("a write to a string cannot fail");
    }
    rows.push(("WALs", wals));
    let unnamed = sized(totals.unnamed_files, "file", totals.unnamed_bytes);
    let other = units::bytes(totals.other_bytes);
    rows.push((
        "other files",
        match totals.unnamed_files {
            0 => other,
            _ => format!("{other}; {unnamed} that the MANIFEST does not name"),
        },
    ));
    rows.push(("open", lock(info)));
    rows.push(("written by", written_by(info)));
    let manifest = &info.manifest;
    let (size, sequence) = (units::bytes(manifest.bytes), units::count(manifest.last_sequence));
    rows.push(("MANIFEST", format!("{}, {size}, last sequence number {sequence}", manifest.name)));
    rows.extend(creator.db_id.clone().map(|id| ("id", id)));
    if !creator.hosts.is_empty() {
        rows.push(("hosts", creator.hosts.join(", ")));
    }
    if let Some(table) = &info.oldest_table
        && let Some(created) = table.created
    {
        let age = units::duration(info.time.saturating_sub(created) as f64);
        rows.push(("oldest table", format!("{} of {}, {age} old", table.name, units::time(created))));
    }
    rows
}

/// `3 tables, 1.2 MiB`.
fn sized(files: u64, noun: &str, bytes: u64) -> String {
    match files {
        0 => format!("no {noun}"),
        _ => format!("{}, {}", units::counted(files, noun), units::bytes(bytes)),
    }
}

fn lock(info: &DatabaseInfo) -> String {
    if !info.lock.is_known {
        return "unknown: the system does not tell who holds LOCK".to_owned();
    }
    let holders = info.lock.holders.iter().map(|holder| {
        let program = holder.program.as_deref().unwrap_or("an unknown program");
        format!("by {program}, process {}", holder.pid)
    });
    let holders: Vec<String> = holders.collect();
    if holders.is_empty() { "no, nobody holds LOCK".to_owned() } else { holders.join("; ") }
}

fn written_by(info: &DatabaseInfo) -> String {
    let creator = &info.creator;
    let mut parts = Vec::new();
    if let Some(version) = &creator.log_version {
        parts.push(version.replace(" version:", "") + " (LOG)");
    }
    if let Some(file) = &creator.options_file {
        let version = creator.options_version.as_deref().unwrap_or("?");
        parts.push(format!("for RocksDB {version} ({file})"));
    }
    let (ours, others) = (creator.tables_of_esker, creator.tables_of_others);
    if ours > 0 {
        parts.push(format!("{} by Esker", units::counted(ours, "table")));
    }
    if others > 0 {
        parts.push(format!("{} by RocksDB or unknown", units::counted(others, "table")));
    }
    if parts.is_empty() { "unknown".to_owned() } else { parts.join(", ") }
}

/// The title of a family, shared with the page.
pub(super) fn family_title(family: &FamilyInfo) -> String {
    let tables = sized(family.tables, "table", family.table_bytes);
    let share = units::share(family.tombstones, family.entries);
    let entries = units::count(family.entries);
    format!("family '{}' (id {}): {tables}, {entries} entries, {share} tombstones", family.name, family.id)
}

/// Facts about a family, shared with the page.
pub(super) fn family_facts(family: &FamilyInfo) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    let runs = units::counted(family.read_amplification, "sorted run");
    rows.push(("read amplification", format!("a read looks into {runs} at most")));
    if let Some(space) = family.space_amplification {
        rows.push(("space amplification", format!("{space:.2} times the last level")));
    }
    if family.blob_files > 0 {
        let garbage = units::share(family.blob_garbage_bytes, family.blob_bytes);
        let files = sized(family.blob_files, "blob file", family.blob_bytes);
        rows.push(("blob files", format!("{files}, {garbage} garbage")));
    }
    let operators = &family.operators;
    let unknown = if operators.comparator_is_known { "" } else { " (not built into this program)" };
    rows.push(("comparator", format!("{}{unknown}", operators.comparator)));
    let named = |name: &Option<String>| name.clone().unwrap_or_else(|| "none".to_owned());
    rows.push(("merge operator", named(&operators.merge_operator)));
    rows.push(("prefix extractor", named(&operators.prefix_extractor)));
    let mut filter = named(&operators.filter_policy);
    if !operators.table_filters.is_empty() {
        filter = format!("{filter}; in tables: {}", operators.table_filters.join(", "));
    }
    rows.push(("filter policy", filter));
    rows.extend(operators.compaction_style.clone().map(|style| ("compaction", style)));
    rows.extend(operators.compression_by_level.clone().map(|text| ("compression", text)));
    if !operators.format_versions.is_empty() {
        let versions: Vec<String> = operators.format_versions.iter().map(u32::to_string).collect();
        rows.push(("table format", format!("version {}", versions.join(", "))));
    }
    rows
}

/// `text` in at most `width` characters.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

struct TextReport {
    out: String,
    width: usize,
}

impl TextReport {
    /// Appends a line. Replaces control characters: a forged name must not send them to a terminal.
    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        let shown = |c: char| if c.is_control() && c != '\n' { '\u{FFFD}' } else { c };
        self.out.extend(line.to_string().chars().map(shown));
        self.out.push('\n');
    }

    /// An indented table without borders, whose cells wrap.
    fn table(&mut self, mut table: Table) {
        let width = (self.width - INDENT.len()).try_into().unwrap_or(u16::MAX);
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(width);
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        for line in table.lines() {
            self.line(format_args!("{INDENT}{}", line.trim_end()));
        }
    }

    fn pairs(&mut self, rows: Vec<(&'static str, String)>) {
        let mut table = Table::new();
        for (name, value) in rows {
            table.add_row([name.to_owned(), value]);
        }
        self.table(table);
    }

    fn head(&mut self, info: &DatabaseInfo) {
        let families = units::counted(info.totals.families, "family");
        let encrypted = if info.encrypted { ", opened with encryption keys" } else { "" };
        self.line(format_args!("{}: {families}{encrypted}", info.directory));
        self.pairs(summary(info));
    }

    fn family(&mut self, family: &FamilyInfo) {
        self.line(format_args!("\n{}", family_title(family)));
        if !family.levels.is_empty() {
            self.line(format_args!(
                "{INDENT}{:<5} {:>7} {:>10} {:>10} {:>5} {:>15} {:>6}",
                "level", "files", "size", "target", "runs", "entries", "tomb."
            ));
        }
        let largest = family.levels.iter().map(|level| level.bytes).max().unwrap_or(0);
        for level in &family.levels {
            self.level(level, largest);
        }
        self.key_ranges(&family.levels);
        self.pairs(family_facts(family));
        self.options("options that differ from the defaults of RocksDB 11", &family.options);
    }

    fn level(&mut self, level: &LevelInfo, largest: u64) {
        let columns = self.width.saturating_sub(BEFORE_BAR).min(LONGEST_BAR);
        let target = level.target_bytes.map_or_else(|| "–".to_owned(), units::bytes);
        let line = format!(
            "{INDENT}{:<5} {:>7} {:>10} {target:>10} {:>5} {:>15} {:>6}  {}",
            format!("L{}", level.level),
            units::count(level.files),
            units::bytes(level.bytes),
            level.sorted_runs,
            units::count(level.entries),
            units::share(level.tombstones, level.entries),
            bar(level.bytes, largest, columns)
        );
        self.line(format_args!("{}", line.trim_end()));
    }

    fn key_ranges(&mut self, levels: &[LevelInfo]) {
        let each = self.width.saturating_sub(19) / 2;
        let mut title = "keys";
        for level in levels {
            let (Some(first), Some(last)) = (&level.smallest_key, &level.largest_key) else { continue };
            let (first, last) = (cut(first, each), cut(last, each));
            self.line(format_args!(
                "{INDENT}{title:<5} {:<4}'{first}' to '{last}'",
                format!("L{}", level.level)
            ));
            title = "";
        }
    }

    /// One option a line, or two lines for a long one.
    fn options(&mut self, title: &str, options: &[ChangedOption]) {
        if options.is_empty() {
            return;
        }
        self.line(format_args!("\n{INDENT}{title}"));
        let shown = |text: &str| if text.is_empty() { "(empty)".to_owned() } else { text.to_owned() };
        for option in options {
            let setting = format!("{INDENT}{INDENT}{} = {}", option.name, shown(&option.value));
            let default = format!("default {}", shown(&option.default));
            if setting.chars().count() + default.chars().count() + 2 <= self.width {
                self.line(format_args!("{setting}  {default}"));
            } else {
                self.wrapped(&setting);
                self.wrapped(&format!("{INDENT}{INDENT}{INDENT}{default}"));
            }
        }
    }

    /// A line, cut into lines of `width` columns.
    fn wrapped(&mut self, line: &str) {
        let mut rest = line;
        while let Some((at, _)) = rest.char_indices().nth(self.width) {
            let (first, more) = rest.split_at(at);
            self.line(format_args!("{first}"));
            rest = more;
        }
        self.line(format_args!("{rest}"));
    }

    fn largest(&mut self, info: &DatabaseInfo) {
        let largest = &info.largest;
        self.line(format_args!("\nlargest"));
        let mut table = Table::new();
        let few = 5;
        if largest.families.len() > 1 {
            for family in largest.families.iter().take(few) {
                table.add_row([
                    "family".to_owned(),
                    family.name.clone(),
                    units::bytes(family.bytes),
                    String::new(),
                ]);
            }
        }
        for file in largest.tables.iter().take(few) {
            let place = format!("L{} of '{}'", file.level, file.family);
            table.add_row(["table".to_owned(), file.name.clone(), units::bytes(file.bytes), place]);
        }
        for file in largest.blob_files.iter().take(few) {
            let garbage = units::share(file.garbage_bytes, file.bytes);
            let place = format!("{garbage} garbage, of '{}'", file.family);
            table.add_row(["blob file".to_owned(), file.name.clone(), units::bytes(file.bytes), place]);
        }
        for file in largest.wals.iter().take(few) {
            table.add_row(["WAL".to_owned(), file.name.clone(), units::bytes(file.bytes), String::new()]);
        }
        if let Some(column) = table.column_mut(2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        self.table(table);
    }

    fn findings(&mut self, info: &DatabaseInfo) {
        if !info.notes.is_empty() {
            self.line(format_args!(""));
        }
        for note in &info.notes {
            self.line(format_args!("note: {note}"));
        }
        self.line(format_args!(""));
        for damage in &info.damage {
            self.line(format_args!("DAMAGE: {damage}"));
        }
        let found = match info.damage.len() {
            0 => "no damage in metadata".to_owned(),
            damaged => format!("{damaged} damaged"),
        };
        self.line(format_args!("{found}; `esker verify` checks every block and record"));
    }
}

/// A bar of `columns` characters for `largest`, in eighths of a character.
fn bar(bytes: u64, largest: u64, columns: usize) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    if bytes == 0 || largest == 0 {
        return String::new();
    }
    let eighths = (bytes as f64 / largest as f64 * (8 * columns) as f64).round().max(1.0) as usize;
    "█".repeat(eighths / 8) + PARTS[eighths % 8]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_share() {
        assert_eq!(bar(10, 10, 4), "████");
        assert_eq!(bar(5, 10, 5), "██▌");
        assert_eq!(bar(1, 1_000_000, 5), "▏");
        assert_eq!(bar(0, 10, 5), "");
    }

    #[test]
    fn long_keys_are_cut_at_the_width() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "ab…");
    }
}
