//! Completion and hints on a terminal.
//!
//! In: the line up to the cursor, and the open database. Out: commands, families, names, and keys.
//!
//! Cost: keys are looked up by at most [`MOST_SEEKS`] seeks and within [`PATIENCE`], whatever the
//! database holds. If many keys begin with the word, the candidates are the beginnings by which
//! they differ, like directories of a path.

use super::admin::{option_names, properties};
use super::database::DbShell;
use super::help::{self, COMMANDS};
use super::scan::successor;
use super::words::{ShellWord, key_text, words_to_cursor};
use crate::text::hex;
use esker::{ColumnFamilyHandle, Db, DbIterator, ReadOptions};
use rustyline::completion::{Completer, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::{Hint, Hinter, HistoryHinter};
use rustyline::validate::Validator;
use rustyline::{Context, Helper};
use std::borrow::Cow;
use std::time::Duration;

/// Keys that are listed.
const MOST_KEYS: usize = 20;
/// Seeks for the beginnings of keys, two for each.
const MOST_SEEKS: usize = 128;
/// Deleted and overwritten entries that a move steps over. If there are more, nothing is found: a
/// move looks at no clock meanwhile.
const MOST_SKIPPED: u64 = 10_000;
/// The longest time of a completion, after which it finds nothing more.
const PATIENCE: Duration = Duration::from_millis(200);

/// A hint behind the cursor.
pub(super) struct ShellHint {
    text: String,
    /// Whether the right arrow takes it into the line.
    is_history: bool,
}

impl Hint for ShellHint {
    fn display(&self) -> &str {
        &self.text
    }
    fn completion(&self) -> Option<&str> {
        self.is_history.then_some(self.text.as_str())
    }
}

/// The state of the shell, for completion and hints.
pub(super) struct ShellHelper {
    db: Db,
    family: ColumnFamilyHandle,
    has_byte_order: bool,
    snapshots: Vec<u64>,
    history: HistoryHinter,
}

/// The words that may stand at the cursor.
enum Wanted {
    Names(Vec<String>),
    Key,
    Nothing,
}

impl ShellHelper {
    pub(super) fn new(shell: &DbShell<'_>) -> ShellHelper {
        ShellHelper {
            db: shell.db.clone(),
            family: shell.family.clone(),
            has_byte_order: shell.has_byte_order(),
            snapshots: Vec::new(),
            history: HistoryHinter::new(),
        }
    }

    /// Takes the state of the shell before a line.
    pub(super) fn update(&mut self, shell: &DbShell<'_>) {
        self.family = shell.family.clone();
        self.has_byte_order = shell.has_byte_order();
        self.snapshots = shell.snapshots.keys().copied().collect();
    }

    fn wanted(&self, words: &[ShellWord]) -> Wanted {
        let names = |names: &[&str]| Wanted::Names(names.iter().map(|name| (*name).to_owned()).collect());
        let Some((first, arguments)) = words.split_first() else { return Wanted::Nothing };
        if arguments.is_empty() {
            return Wanted::Names(COMMANDS.iter().map(|command| command.name.to_owned()).collect());
        }
        let Some(command) = help::find(&first.text()) else { return Wanted::Nothing };
        let before = arguments.len().checked_sub(2).and_then(|at| arguments.get(at)).map(ShellWord::text);
        match (command.name, arguments.len()) {
            ("get" | "put" | "delete" | "merge", 1) | ("multi_get", _) | ("delete_range", 1 | 2) => {
                Wanted::Key
            }
            ("scan", _) => range_words(before.as_deref(), true),
            ("count" | "compact" | "more", _) => range_words(before.as_deref(), false),
            ("explain", 1) => names(&["get", "multi_get", "scan"]),
            ("explain", _) if arguments.first().is_some_and(|word| word.bytes == b"scan") => {
                range_words(before.as_deref().filter(|word| *word != "scan"), true)
            }
            ("explain", _) => Wanted::Key,
            ("use" | "drop_family", 1) => Wanted::Names(self.db.column_family_names()),
            ("begin", 1) => names(&["optimistic"]),
            ("snapshot", 1) => names(&["take", "list", "use", "release"]),
            ("snapshot", 2) => {
                let numbers = self.snapshots.iter().map(u64::to_string);
                Wanted::Names(numbers.chain(["latest".to_owned()]).collect())
            }
            ("property", 1) => names(&properties()),
            ("options", 1) => Wanted::Names(option_names()),
            ("help", 1) => Wanted::Names(COMMANDS.iter().map(|command| command.name.to_owned()).collect()),
            (".mode", 1) => names(&["table", "raw", "hex", "json"]),
            (".timer", 1) => names(&["on", "off"]),
            _ => Wanted::Nothing,
        }
    }

    /// Keys that begin with `start`, or the beginnings by which they differ. A candidate is whole
    /// if it is a key.
    fn keys(&self, start: &[u8]) -> esker::Result<Vec<(Vec<u8>, bool)>> {
        if !self.has_byte_order {
            return Ok(Vec::new());
        }
        let order = self.family.comparator();
        let clock = &self.db.env().clock;
        let deadline = Duration::from_micros(clock.now_micros()) + PATIENCE;
        let is_late = || Duration::from_micros(clock.now_micros()) > deadline;
        let options = ReadOptions {
            iterate_lower_bound: Some(start.to_vec()),
            iterate_upper_bound: successor(start),
            timestamp: (order.timestamp_size() > 0).then(|| order.max_timestamp()),
            total_order_seek: true,
            allow_unprepared_value: true,
            deadline: Some(deadline),
            max_skippable_internal_keys: MOST_SKIPPED,
            ..ReadOptions::default()
        };
        let mut iter = self.db.iter_opt(options, &self.family)?;
        iter.seek_to_first();
        let mut keys = Vec::new();
        while iter.valid() && keys.len() <= MOST_KEYS {
            keys.push((iter.key().to_vec(), true));
            if is_late() {
                return Ok(Vec::new());
            }
            iter.next();
        }
        match keys.len() > MOST_KEYS {
            true => beginnings(&mut iter, &is_late),
            false => iter.status().map(|()| keys),
        }
    }
}

/// The beginnings by which the keys of the cursor differ; none if it gets late: a part of them
/// would look like all.
fn beginnings(iter: &mut DbIterator, is_late: &dyn Fn() -> bool) -> esker::Result<Vec<(Vec<u8>, bool)>> {
    iter.seek_to_first();
    if !iter.valid() || is_late() {
        return iter.status().map(|()| Vec::new());
    }
    let first = iter.key().to_vec();
    iter.seek_to_last();
    if !iter.valid() {
        return iter.status().map(|()| Vec::new());
    }
    let common = common_length(&first, iter.key());
    let mut found = Vec::new();
    iter.seek_to_first();
    while iter.valid() && found.len() < MOST_SEEKS / 2 {
        if is_late() {
            return Ok(Vec::new());
        }
        let key = iter.key().to_vec();
        let branch = key.get(..=common).unwrap_or(&key).to_vec();
        let Some(behind) = successor(&branch).filter(|_| branch.len() > common) else {
            // The key is the beginning of all others, or the branch is the last one.
            found.push((branch, key.len() <= common));
            if key.len() > common {
                break;
            }
            iter.next();
            continue;
        };
        iter.seek_for_prev(&behind);
        if is_late() {
            return Ok(Vec::new());
        }
        if iter.valid() && iter.key() == behind.as_slice() {
            iter.prev();
        }
        if !iter.valid() {
            break;
        }
        let length = match common_length(&key, iter.key()) {
            // The branch ends within a character.
            length if length <= common => key.iter().zip(iter.key()).take_while(|(x, y)| x == y).count(),
            length => length,
        };
        found.push((key[..length].to_vec(), length == key.len() && iter.key() == key.as_slice()));
        iter.seek(&behind);
    }
    iter.status().map(|()| found)
}

/// The number of bytes with which both begin. It does not end within a character.
fn common_length(a: &[u8], b: &[u8]) -> usize {
    let common = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    if common == a.len() {
        return common;
    }
    match str::from_utf8(a) {
        Ok(text) => text.floor_char_boundary(common),
        Err(_) => common,
    }
}

fn range_words(before: Option<&str>, is_scan: bool) -> Wanted {
    let words: &[&str] = match before {
        Some("prefix" | "from" | "to") => return Wanted::Key,
        Some("limit") => return Wanted::Nothing,
        _ if is_scan => &["prefix", "from", "to", "limit", "reverse", "keys"],
        _ => &["prefix", "from", "to"],
    };
    Wanted::Names(words.iter().map(|word| (*word).to_owned()).collect())
}

impl Completer for ShellHelper {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let typed = line.get(..at).unwrap_or_default();
        let Some(words) = words_to_cursor(typed) else { return Ok((at, Vec::new())) };
        let Some(word) = words.last() else { return Ok((at, Vec::new())) };
        let whole = |text: String| Pair { replacement: format!("{text} "), display: text };
        let candidates = match self.wanted(&words) {
            Wanted::Nothing => Vec::new(),
            Wanted::Names(names) => {
                let names = names.into_iter().filter(|name| name.as_bytes().starts_with(&word.bytes));
                names.map(|name| whole(key_text(name.as_bytes()))).collect()
            }
            Wanted::Key => {
                let is_hex = typed.get(word.start..).is_some_and(|text| text.starts_with("0x"));
                let text = |key: &[u8]| if is_hex { format!("0x{}", hex(key)) } else { key_text(key) };
                let candidate = |(key, is_whole): (Vec<u8>, bool)| match text(&key) {
                    text if is_whole => whole(text),
                    // The quote stays open for the rest of the key.
                    text => {
                        let open = text.strip_suffix('"').unwrap_or(&text).to_owned();
                        Pair { display: format!("{open}…"), replacement: open }
                    }
                };
                let keys = self.keys(&word.bytes).unwrap_or_default();
                keys.into_iter().map(candidate).collect()
            }
        };
        Ok((word.start, candidates))
    }
}

impl Hinter for ShellHelper {
    type Hint = ShellHint;

    /// The arguments that are missing, or else the rest of an earlier line.
    fn hint(&self, line: &str, at: usize, context: &Context<'_>) -> Option<ShellHint> {
        if at < line.len() || line.trim().is_empty() {
            return None;
        }
        let words = words_to_cursor(line)?;
        let (first, arguments) = words.split_first()?;
        if let (Some(command), true) = (help::find(&first.text()), line.ends_with(' ')) {
            let mut missing = command.arguments;
            for _ in 1..arguments.len() {
                missing = missing.split_once(' ').map_or("", |(_, rest)| rest);
            }
            let is_list = command.arguments.contains(['[', '|', '…']);
            if !missing.is_empty() && (!is_list || arguments.len() == 1) {
                return Some(ShellHint { text: missing.to_owned(), is_history: false });
            }
        }
        let text = self.history.hint(line, at, context)?;
        Some(ShellHint { text, is_history: true })
    }
}

impl Highlighter for ShellHelper {
    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Owned(console::Style::new().dim().force_styling(true).apply_to(hint).to_string())
    }
}

impl Validator for ShellHelper {}
impl Helper for ShellHelper {}

#[cfg(test)]
mod tests {
    use super::*;
    use esker::Options;
    use esker_testkit::TempDir;

    /// The beginnings of the keys, each with a mark behind it if it is a whole key.
    fn beginnings_of(keys: &[String], is_late: bool) -> Vec<String> {
        let temp = TempDir::new("tools-shell-beginnings");
        let db = Db::open(&Options::new().create_if_missing(true), temp.join("db")).unwrap();
        keys.iter().for_each(|key| db.put(key, "").unwrap());
        let mut iter = db.iter_opt(ReadOptions::default(), &db.default_column_family()).unwrap();
        let found = beginnings(&mut iter, &|| is_late).unwrap();
        let text = |(key, is_whole): (Vec<u8>, bool)| {
            String::from_utf8(key).unwrap() + if is_whole { "." } else { "" }
        };
        found.into_iter().map(text).collect()
    }

    #[test]
    fn beginnings_are_those_by_which_keys_differ() {
        let mut keys: Vec<String> = (0..30).map(|i| format!("user/{i:02}")).collect();
        keys.extend((0..30).map(|i| format!("item/{i:02}")));
        keys.push("solo".to_owned());
        assert_eq!(beginnings_of(&keys, false), ["item/", "solo.", "user/"]);
        assert!(beginnings_of(&keys, true).is_empty());
        // A key that begins all others, and a beginning that ends with a whole character.
        let keys = ["k", "ké1", "ké2", "kz"].map(str::to_owned);
        assert_eq!(beginnings_of(&keys, false), ["k.", "kz.", "ké"]);
        assert!(beginnings_of(&[], false).is_empty());
        assert_eq!(beginnings_of(&["one".to_owned()], false), ["one."]);
    }
}
