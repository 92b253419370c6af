//! `esker shell`, as a script calls it.

use crate::run::{ProgramResult, esker, files, flip, ldb, sample, with_input};
use esker::merge_operator::MergeOperator;
use esker::{Db, Options, WriteBatch};
use esker_testkit::{TempDir, seed};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

/// Runs `esker shell DB …`.
fn shell(db: &Path, arguments: &[&str]) -> ProgramResult {
    esker(&[&["shell", db.to_str().unwrap()], arguments].concat())
}

/// As [`shell`], with `input` on standard input.
fn shell_with_input(db: &Path, arguments: &[&str], input: impl AsRef<[u8]>) -> ProgramResult {
    let command = [&["shell", db.to_str().unwrap()], arguments].concat();
    with_input(env!("CARGO_BIN_EXE_esker"), &command, input)
}

/// A new database with these commands run on it.
#[track_caller]
fn made(temp: &TempDir, commands: &str) -> std::path::PathBuf {
    let db = temp.join("db");
    shell(&db, &["--create", "-e", commands]).ok();
    db
}

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// Both families as the shell must show them.
type FamilyRows = [Rows; 2];

const FAMILIES: [&str; 2] = ["default", "odd \"name\""];

/// The state that the shell must have.
struct ModelOfShell {
    rows_of_all: FamilyRows,
    family: usize,
    /// The rows_of_all at the begin of the transaction, and at its savepoints.
    before: Option<(FamilyRows, Vec<(String, FamilyRows)>)>,
    snapshots: BTreeMap<u64, FamilyRows>,
    taken: u64,
    used: Option<u64>,
    random: fastrand::Rng,
    script: String,
    expected: String,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold("0x".to_owned(), |mut text, byte| {
        write!(text, "{byte:02X}").unwrap();
        text
    })
}

impl ModelOfShell {
    fn new(random: fastrand::Rng) -> ModelOfShell {
        let script = format!(".mode hex\ncreate_family {}\n", typed(FAMILIES[1].as_bytes()));
        ModelOfShell {
            rows_of_all: FamilyRows::default(),
            family: 0,
            before: None,
            snapshots: BTreeMap::new(),
            taken: 0,
            used: None,
            random,
            script,
            expected: String::new(),
        }
    }

    /// A key of few bytes, so that keys meet again and are prefixes of others.
    fn key(&mut self) -> Vec<u8> {
        let length = self.random.usize(0..4);
        std::iter::repeat_with(|| self.random.choice(b"ab\x00\xff 0x\"'\\\xc3;").unwrap())
            .copied()
            .take(length)
            .collect()
    }

    /// The bytes as a user may type them.
    fn word(&mut self, bytes: &[u8]) -> String {
        match self.random.u8(..3) {
            0 => hex(bytes),
            1 => typed(bytes),
            _ => bytes.iter().fold("\"\"".to_owned(), |mut text, byte| {
                write!(text, "\\x{byte:02x}").unwrap();
                text
            }),
        }
    }

    /// The rows that reads see. A transaction shows its own writes over any snapshot; so the
    /// script uses none meanwhile.
    fn seen(&self) -> &Rows {
        let rows_of_all = self.used.map_or(&self.rows_of_all, |number| &self.snapshots[&number]);
        &rows_of_all[self.family]
    }

    fn answer(&mut self, row: &str) {
        self.expected.push_str(row);
        self.expected.push('\n');
    }

    fn step(&mut self) {
        match self.random.u8(..100) {
            0..30 => self.write(),
            30..45 => self.get(),
            45..70 => self.scan(),
            70..75 => self.count(),
            75..90 => self.change_transaction(),
            90..96 => self.change_snapshot(),
            _ => self.change_place(),
        }
    }

    fn write(&mut self) {
        let (a, b) = (self.key(), self.key());
        let (a_word, b_word) = (self.word(&a), self.word(&b));
        let rows = &mut self.rows_of_all[self.family];
        match self.random.u8(..6) {
            0 => {
                rows.remove(&a);
                writeln!(self.script, "delete {a_word}").unwrap();
            }
            1 if a <= b => {
                rows.retain(|key, _| *key < a || *key >= b);
                writeln!(self.script, "delete_range {a_word} {b_word}").unwrap();
            }
            _ => {
                rows.insert(a, b);
                writeln!(self.script, "put {a_word} {b_word}; # done").unwrap();
            }
        }
    }

    fn get(&mut self) {
        let keys = [self.key(), self.key()];
        let words = [self.word(&keys[0]), self.word(&keys[1])];
        let value = |key: &Vec<u8>, none: &str| self.seen().get(key).map_or(none.to_owned(), |v| hex(v));
        if self.script.len().is_multiple_of(2) {
            let value = value(&keys[0], "(not found)");
            writeln!(self.script, "get {}", words[0]).unwrap();
            return self.answer(&value);
        }
        let lines =
            keys.each_ref().map(|key| format!("{}  {}", hex(key), value(key, "")).trim_end().to_owned());
        writeln!(self.script, "multi_get {}", words.join(" ")).unwrap();
        lines.iter().for_each(|line| self.answer(line));
    }

    /// Words of a range, and whether a key lies in it.
    fn range(&mut self) -> (String, impl Fn(&[u8]) -> bool + use<>) {
        let mut any = |name: &str| {
            let key = self.key();
            let word = self.word(&key);
            let is_given = self.random.u8(..3) == 0;
            is_given.then(|| (format!(" {name} {word}"), key))
        };
        let (prefix, from, to) = (any("prefix"), any("from"), any("to"));
        let words = [&prefix, &from, &to].into_iter().flatten().map(|(word, _)| word.as_str()).collect();
        let holds = move |key: &[u8]| {
            prefix.as_ref().is_none_or(|(_, prefix)| key.starts_with(prefix))
                && from.as_ref().is_none_or(|(_, from)| key >= from.as_slice())
                && to.as_ref().is_none_or(|(_, to)| key < to.as_slice())
        };
        (words, holds)
    }

    fn scan(&mut self) {
        let (mut words, holds) = self.range();
        let (is_reverse, only_keys) = (self.random.bool(), self.random.u8(..4) == 0);
        let limit = self.random.bool().then(|| self.random.usize(1..6));
        words += if is_reverse { " reverse" } else { "" };
        words += if only_keys { " keys" } else { "" };
        words += &limit.map_or(String::new(), |limit| format!(" limit {limit}"));
        let mut lines: Vec<String> = (self.seen().iter().filter(|(key, _)| holds(key)))
            .map(|(key, value)| match only_keys {
                true => hex(key),
                false => format!("{}  {}", hex(key), hex(value)),
            })
            .collect();
        if is_reverse {
            lines.reverse();
        }
        writeln!(self.script, "scan{words}").unwrap();
        let first = lines.len().min(limit.unwrap_or(usize::MAX));
        lines[..first].iter().for_each(|line| self.answer(line));
        // The rest of a scan that was cut.
        if first < lines.len() {
            writeln!(self.script, "more limit 2").unwrap();
            lines[first..].iter().take(2).for_each(|line| self.answer(line));
        }
    }

    fn count(&mut self) {
        let (words, holds) = self.range();
        let count = self.seen().keys().filter(|key| holds(key)).count();
        writeln!(self.script, "count{words}").unwrap();
        self.answer(&count.to_string());
    }

    fn change_transaction(&mut self) {
        let Some((before, savepoints)) = &mut self.before else {
            let kind = if self.random.bool() { "begin" } else { "begin optimistic" };
            writeln!(self.script, "snapshot use latest\n{kind}").unwrap();
            self.used = None;
            self.before = Some((self.rows_of_all.clone(), Vec::new()));
            return;
        };
        match self.random.u8(..6) {
            0 => {
                self.script.push_str("commit\n");
                self.before = None;
            }
            1 => {
                self.script.push_str("rollback\n");
                self.rows_of_all = std::mem::take(before);
                self.before = None;
            }
            2..4 => {
                let name = format!("s{}", self.random.u8(..3));
                writeln!(self.script, "savepoint {name}").unwrap();
                savepoints.push((name, self.rows_of_all.clone()));
            }
            _ if savepoints.is_empty() => {}
            _ => {
                let at = self.random.usize(..savepoints.len());
                let name = savepoints[at].0.clone();
                let at = savepoints.iter().rposition(|(other, _)| *other == name).unwrap();
                self.rows_of_all = savepoints[at].1.clone();
                savepoints.truncate(at + 1);
                writeln!(self.script, "rollback_to {name}").unwrap();
            }
        }
    }

    fn change_snapshot(&mut self) {
        if self.before.is_some() {
            return;
        }
        match self.random.u8(..4) {
            0 | 1 => {
                self.script.push_str("snapshot take\n");
                self.taken += 1;
                self.snapshots.insert(self.taken, self.rows_of_all.clone());
            }
            2 => {
                let Some(number) = self.random.choice(self.snapshots.keys()).copied() else { return };
                writeln!(self.script, "snapshot use {number}").unwrap();
                self.used = Some(number);
            }
            _ => {
                let Some(number) = self.random.choice(self.snapshots.keys()).copied() else { return };
                writeln!(self.script, "snapshot release {number}").unwrap();
                self.snapshots.remove(&number);
                self.used = self.used.filter(|used| *used != number);
            }
        }
    }

    fn change_place(&mut self) {
        // The check of an optimistic transaction needs the memtables.
        if self.before.is_none() && self.random.bool() {
            let job = if self.random.bool() { "flush\n" } else { "compact\n" };
            return self.script.push_str(job);
        }
        self.family = self.random.usize(..FAMILIES.len());
        writeln!(self.script, "use {}", typed(FAMILIES[self.family].as_bytes())).unwrap();
    }
}

/// The bytes in double quotes.
fn typed(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for byte in bytes {
        match byte {
            b'"' | b'\\' => text.extend(['\\', char::from(*byte)]),
            b' '..=b'~' => text.push(char::from(*byte)),
            byte => write!(text, "\\x{byte:02x}").unwrap(),
        }
    }
    text + "\""
}

#[test]
fn random_commands_answer_as_maps_do() {
    seed::for_each_seed("tools-shell-model", 12, |_, random| {
        let temp = TempDir::new("tools-shell-model");
        let mut model = ModelOfShell::new(random);
        (0..400).for_each(|_| model.step());
        let done = shell_with_input(&temp.join("db"), &["--create"], &model.script);
        let (answers, expected) = (done.out.lines(), model.expected.lines());
        let wrong = answers.zip(expected).position(|(answer, expected)| answer != expected);
        assert_eq!((wrong, done.code), (None, Some(0)), "{}\n{}{}", model.script, done.out, done.err);
        assert_eq!(done.err.lines().count(), usize::from(done.err.contains("rolled back")), "{}", done.err);
        assert_eq!(done.out, model.expected);
        // Writes that were not committed are gone.
        let rows_of_all = model.before.map_or(model.rows_of_all, |(before, _)| before);
        for (rows, family) in rows_of_all.iter().zip(FAMILIES) {
            let flags = ["--column-family", family, "-e", "count", "--read-only"];
            assert_eq!(shell(&temp.join("db"), &flags).ok(), format!("{}\n", rows.len()));
        }
    });
}

#[test]
fn keys_are_printed_as_they_can_be_typed() {
    let temp = TempDir::new("tools-shell-keys");
    let keys: [&[u8]; 9] =
        [b"", b"plain", b"a b", b"0x61", b"\xff\x00", b"#", b"a;", b"\"'\\", "é\u{200b}\n".as_bytes()];
    let puts: String = keys.iter().enumerate().map(|(i, key)| format!("put {} {i}\n", typed(key))).collect();
    let db = temp.join("db");
    shell_with_input(&db, &["--create"], puts).ok();
    let printed = shell(&db, &["-e", "scan keys"]).ok();
    assert_eq!(printed.lines().count(), keys.len(), "{printed}");
    let gets: String = printed.lines().map(|key| format!("get {key}\n")).collect();
    let values = shell_with_input(&db, &[], gets).ok();
    let mut sorted: Vec<_> = keys.iter().enumerate().collect();
    sorted.sort_by_key(|(_, key)| *key);
    let expected: String = sorted.iter().map(|(i, _)| format!("{i}\n")).collect();
    assert_eq!(values, expected);
}

#[test]
fn the_first_error_ends_a_script_unless_it_keeps_going() {
    let temp = TempDir::new("tools-shell-errors");
    let db = made(&temp, "put a 1");
    let failed = shell(&db, &["-e", "get a; nonsense; put b 2", "-e", "put c 3"]);
    assert_eq!((failed.code, &failed.out[..]), (Some(1), "1\n"));
    assert!(failed.err.contains("there is no command 'nonsense'"), "{failed:?}");
    assert_eq!(shell(&db, &["-e", "count"]).ok(), "1\n");
    let failed = shell_with_input(&db, &[], "get a\nget\nput b 2\n");
    assert_eq!((failed.code, &failed.out[..], &failed.err[..]), (Some(1), "1\n", "line 2: usage: get KEY\n"));
    let failed = shell_with_input(&db, &["--keep-going"], "get\nput 'b 2\nput b 2\nget\ncount\n");
    assert_eq!((failed.code, &failed.out[..]), (Some(1), "2\n"));
    for what in ["line 1: usage: get KEY", "line 2: a quote", "line 4: usage: get KEY", "3 lines failed"] {
        assert!(failed.err.contains(what), "{failed:?}");
    }
}

#[test]
fn a_script_that_has_lost_its_family_or_transaction_ends() {
    let temp = TempDir::new("tools-shell-lost-place");
    let db = made(&temp, "put a 1");
    for line in ["use none", "USE none", "get; use default", "use 'none", "begin; begin", "begin no"] {
        let failed = shell_with_input(&db, &["--keep-going"], format!("{line}\ndelete a\n"));
        assert_eq!(failed.code, Some(1), "{line}: {failed:?}");
        assert!(failed.err.contains("the script ends"), "{line}: {failed:?}");
        assert_eq!(shell(&db, &["-e", "get a"]).ok(), "1\n", "{line}");
    }
}

#[test]
fn nothing_runs_behind_quit() {
    let temp = TempDir::new("tools-shell-quit");
    let db = made(&temp, "put a 1; create_family x");
    let line = "get a; quit; drop_family x force; delete a";
    assert_eq!(shell(&db, &["-e", line, "-e", "delete a"]).ok(), "1\n");
    assert_eq!(shell_with_input(&db, &[], format!("{line}\ndelete a\n")).ok(), "1\n");
    assert_eq!(shell(&db, &["--column-family=x", "-e", "use default; get a"]).ok(), "1\n");
}

#[test]
fn a_shell_beside_the_owner_says_what_to_do() {
    let temp = TempDir::new("tools-shell-owner");
    let dir = temp.join("db");
    let db = Db::open(&Options::new().create_if_missing(true), &dir).unwrap();
    db.put("a", "1").unwrap();
    let refused = shell(&dir, &["-e", "get a"]).failed();
    assert!(refused.contains("--read-only") && refused.contains("--secondary"), "{refused}");
    #[cfg(target_os = "linux")]
    assert!(refused.contains(&format!("process {}", std::process::id())), "{refused}");
    assert_eq!(shell(&dir, &["--read-only", "-e", "get a"]).ok(), "1\n");
    let secondary = temp.join("secondary");
    let flags = ["--secondary", secondary.to_str().unwrap(), "-e", "get a"];
    assert_eq!(shell(&dir, &flags).ok(), "1\n");
    for write in ["put a 2", "begin", "create_family x", "flush"] {
        let refused = shell(&dir, &["--read-only", "-e", write]);
        assert_eq!(refused.code, Some(1), "{write}: {refused:?}");
    }
    assert_eq!(db.get("a").unwrap().unwrap(), b"1");
    let missing = shell(&temp.join("none"), &["-e", "count"]).failed();
    assert!(missing.contains("--create"), "{missing}");
}

struct Concatenate;

impl MergeOperator for Concatenate {
    fn name(&self) -> &str {
        "its.owner.Concatenate"
    }
    fn full_merge(&self, _key: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        Some([existing.unwrap_or_default(), &operands.concat()].concat())
    }
}

#[test]
fn values_of_an_unknown_operator_are_shown_with_a_warning() {
    let temp = TempDir::new("tools-shell-operator");
    let dir = temp.join("db");
    let mut options = Options::new().create_if_missing(true);
    options.cf.merge_operator = Some(Arc::new(Concatenate));
    let db = Db::open(&options, &dir).unwrap();
    db.put("plain", "1").unwrap();
    for operand in ["a", "b"] {
        let mut batch = WriteBatch::new();
        batch.merge_cf(db.default_column_family().id(), b"key", operand.as_bytes()).unwrap();
        db.write(&mut batch).unwrap();
    }
    let secondary = temp.join("secondary");
    for how in [&["--read-only"][..], &["--secondary", secondary.to_str().unwrap()]] {
        let plain = shell(&dir, &[how, &["-e", "get plain"]].concat());
        assert_eq!((&plain.out[..], &plain.err[..]), ("1\n", ""), "{how:?}");
        let joined = shell(&dir, &[how, &["-e", "get key; scan", "-e", "get key"]].concat());
        assert_eq!(joined.out, "a:b\nkey    a:b\nplain  1\na:b\n", "{how:?}");
        assert_eq!(joined.err.matches("operator of the family default is unknown").count(), 1, "{joined:?}");
    }
}

#[test]
fn names_with_control_characters_are_printed_escaped() {
    let temp = TempDir::new("tools-shell-control");
    let db = made(&temp, r#"create_family "a\x1b[2J\xc2\x9bm""#);
    let facts = shell(&db, &["--keep-going", "-e", "get\nstats\nexplain get a\ndrop_family none"]);
    let own = shell(&db, &["--column-family", "a\x1b[2J\u{9b}m", "-e", "stats; explain get a"]);
    let json = shell(&db, &["--column-family", "none", "--json", "-e", "families"]);
    let listed = shell(&db, &["--json", "-e", "families"]);
    let unknown = shell(&db, &["-e", "use \"a\\x1b\""]);
    for done in [&facts, &own, &json, &listed, &unknown] {
        for text in [&done.out, &done.err] {
            assert!(!text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t')), "{done:?}");
        }
    }
    assert!(own.out.contains("a\\x1b[2J"), "{own:?}");
    assert!(listed.out.contains("a\\u001b[2J\\u009bm"), "{listed:?}");
}

#[test]
fn damage_is_named_and_the_next_command_runs() {
    let temp = TempDir::new("tools-shell-damage");
    let db = sample(&temp);
    files(&db, ".sst").iter().for_each(|table| flip(table, 10));
    let done = shell(&db, &["--keep-going", "-e", "scan\nget c1\nfamilies"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.err.contains("Corruption: ") && done.err.contains(".sst"), "{done:?}");
    assert!(done.out.contains("* default") && done.out.contains("cf1"), "{done:?}");
}

#[test]
fn transactions_show_their_locks_and_savepoints() {
    let temp = TempDir::new("tools-shell-transactions");
    let db = made(&temp, "put a 1");
    let locked = "begin; put a 2; delete 'b c'; delete_range x z; locks; get a; rollback; get a";
    let expected = "default  exclusive  a\ndefault  exclusive  \"b c\"\ndefault  exclusive  x to z\n2\n1\n";
    assert_eq!(shell(&db, &["-e", locked]).ok(), expected);
    for (commands, what) in [
        ("commit", "no transaction is open"),
        ("begin; begin", "a transaction is open"),
        ("begin; rollback_to", "there is no savepoint"),
        ("begin; savepoint s; rollback_to t", "there are: s"),
        ("begin; create_family x", "no part of a transaction"),
    ] {
        let failed = shell(&db, &["-e", commands]).failed();
        assert!(failed.contains(what), "{commands}: {failed}");
    }
    let left = shell(&db, &["-e", "begin; put a 3"]);
    assert_eq!((left.code, &left.err[..]), (Some(0), "the open transaction is rolled back: 1 write\n"));
    assert_eq!(shell(&db, &["-e", "get a; begin optimistic; put a 4; commit; get a"]).ok(), "1\n4\n");
}

#[test]
fn a_family_without_an_operator_takes_no_operands() {
    let temp = TempDir::new("tools-shell-merge");
    let db = made(&temp, "put a 1");
    for before in ["", "begin; ", "begin optimistic; "] {
        let failed = shell(&db, &["-e", &format!("{before}merge a 2")]);
        assert!(failed.err.contains("the family default has no merge operator"), "{failed:?}");
        assert!(!failed.err.contains("1 write"), "{failed:?}");
        assert_eq!((failed.code, shell(&db, &["-e", "get a"]).ok()), (Some(1), "1\n".to_owned()));
    }
}

#[test]
fn families_are_made_and_dropped_with_a_confirmation() {
    let temp = TempDir::new("tools-shell-families");
    let db = made(&temp, "create_family x; use x; put a 1");
    assert_eq!(shell(&db, &["--column-family=x", "-e", "get a"]).ok(), "1\n");
    assert!(shell(&db, &["-e", "drop_family x"]).failed().contains("drop_family x force"));
    // After a transaction with locks, too.
    let commands =
        "begin; rollback; create_family y; use y; begin; put b 2; commit; get b; drop_family y force";
    assert_eq!(shell(&db, &["-e", commands]).ok(), "2\n");
    let listed = shell(&db, &["-e", "use x; drop_family x force; families"]).ok();
    assert_eq!(listed, "* default  about 0 keys, 0 B in tables\n");
}

#[test]
fn rows_have_four_forms_and_json_is_json() {
    let temp = TempDir::new("tools-shell-forms");
    let db = made(&temp, "put k 'a b'; put 0xff 0x00");
    ldb(&db, &["put_entity", "e", "n:v"]).ok();
    let json = shell(&db, &["--json", "-e", "scan; get none; count"]).ok();
    let rows: Vec<serde_json::Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows[0]["columns"][0]["value"], "v", "{json}");
    assert_eq!((&rows[1]["value"], &rows[2]["key_hex"]), (&"a b".into(), &"0xFF".into()));
    assert!(rows[3]["value"].is_null() && rows[4]["count"] == 3, "{json}");
    let table = shell(&db, &["-e", "scan from k; .mode raw; scan from k to l; .mode hex; get k"]).ok();
    assert_eq!(table, "k       a b\n\"\\xff\"  \"\\x00\"\nk\ta b\n0x612062\n");
}

#[test]
fn reads_are_explained_and_facts_printed() {
    let temp = TempDir::new("tools-shell-facts");
    let db = made(&temp, "put a 1; put b 2; flush");
    let explained = shell(&db, &["-e", "explain get a; explain scan prefix a"]).ok();
    assert!(
        explained.contains("key \"a\": found, 1 B, ") && explained.contains("1 rows, 2 B"),
        "{explained}"
    );
    let facts =
        shell(&db, &["-e", "property estimate-num-keys; options write_buffer_size; options block_size"]);
    assert_eq!(facts.ok(), "2\n67108864\n4096\n");
    assert!(shell(&db, &["-e", "stats"]).ok().contains("** DB Stats **"));
    assert!(shell(&db, &["-e", "options nothing_like_it"]).failed().contains("no option"));
    let timed = shell(&db, &["-e", ".timer on; get a"]);
    assert!(timed.err.starts_with("time: ") && timed.out == "1\n", "{timed:?}");
    assert_eq!(shell(&db, &["-e", ".limit 1; scan"]).err, "1 row, not all: `scan … limit N` prints N\n");
}

#[test]
fn each_command_has_help_and_a_usage() {
    let temp = TempDir::new("tools-shell-help");
    let db = made(&temp, "put a 1");
    let list = shell(&db, &["-e", "help"]).ok();
    let names: Vec<&str> = (list.split("\n\n").next().unwrap().lines())
        .filter(|line| !line.starts_with(' '))
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    assert!(names.contains(&"rollback_to") && names.len() > 25, "{names:?}");
    for name in names {
        assert!(shell(&db, &["-e", &format!("help {name}")]).ok().starts_with(name));
    }
}

/// A call of each command with arguments that it takes, in an order in which they succeed.
const CALLS: &[&str] = &[
    "help get",
    ".mode raw",
    ".timer off",
    ".limit off",
    "get a",
    "multi_get a b",
    "scan limit 1",
    "more",
    "count",
    "explain get a",
    "put b 2",
    "delete b",
    "delete_range b c",
    "merge a b",
    "families",
    "create_family x",
    "use x",
    "use default",
    "drop_family x force",
    "begin",
    "savepoint s",
    "rollback_to s",
    "locks",
    "commit",
    "begin optimistic",
    "rollback",
    "snapshot take",
    "stats",
    "property",
    "options block_size",
    "flush",
    "compact",
    "quit",
];

#[test]
fn each_command_of_the_help_runs() {
    let temp = TempDir::new("tools-shell-calls");
    let db = made(&temp, "put a 1; put b 1");
    let list = shell(&db, &["-e", "help"]).ok();
    let names: BTreeSet<&str> = (list.split("\n\n").next().unwrap().lines())
        .filter(|line| !line.starts_with(' '))
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    let called: BTreeSet<&str> = CALLS.iter().map(|call| call.split(' ').next().unwrap()).collect();
    assert_eq!(names, called);
    // A command that only the help has would print its usage.
    let done = shell_with_input(&db, &["--keep-going"], CALLS.join("\n"));
    let errors: Vec<&str> = done.err.lines().filter(|line| line.starts_with("Error")).collect();
    assert!(matches!(errors[..], [merge] if merge.contains("no merge operator")), "{done:?}");
}

#[test]
fn long_commands_print_no_progress_without_a_terminal() {
    let temp = TempDir::new("tools-progress");
    let db = sample(&temp);
    let (dir, flag) = (db.to_str().unwrap(), format!("--db={}", db.display()));
    let backups = format!("--backup_dir={}", temp.join("backups").display());
    let restored = format!("--db={}", temp.join("restored").display());
    for command in [
        &["verify", dir][..],
        &["compat", dir],
        &["compare", dir, dir],
        &["ldb", &flag, "compact"],
        &["ldb", &flag, "dump"],
        &["ldb", &flag, "backup", &backups],
        &["ldb", &restored, "restore", &backups],
        &["ldb", &restored, "repair"],
        &["shell", dir, "-e", "count; compact"],
    ] {
        let done = esker(command);
        assert_eq!((done.code, &done.err[..]), (Some(0), ""), "{command:?}");
    }
}
