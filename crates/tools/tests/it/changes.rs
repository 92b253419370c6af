//! `esker changes`, as a user calls it.

use crate::run::{esker, ldb};
use esker_testkit::TempDir;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// A database whose WAL has three batches: the numbers 3 to 6.
fn sample(temp: &TempDir) -> String {
    let db = temp.join("db");
    ldb(&db, &["--create_if_missing", "create_column_family", "users"]).ok();
    // Each command flushes what the one before has left in the WAL.
    ldb(&db, &["batchput", "a", "1", "b", "2"]).ok();
    let options = esker::options::load_latest_options(&db).unwrap();
    let open = esker::Db::open_cf(&options.db, &db, options.families).unwrap();
    let users = open.column_family("users").unwrap();
    open.put_cf(&users, "ada", "\u{1}").unwrap();
    let mut batch = esker::WriteBatch::new();
    batch.delete("a").unwrap();
    batch.put_cf(&users, "grace", "x").unwrap();
    open.write(batch).unwrap();
    open.put("c", "3").unwrap();
    db.to_str().unwrap().to_owned()
}

#[test]
fn batches_are_lines_and_the_last_line_is_where_the_next_run_begins() {
    let temp = TempDir::new("tools-changes");
    let dir = sample(&temp);
    let changes = |arguments: &[&str]| esker(&[&["changes", &dir], arguments].concat());
    let text = "3 put users \"ada\" \"\\\\x01\"\n4 delete default \"a\", put users \"grace\" \"x\"\n6 put default \"c\" \"3\"\nposition 7\n";
    assert_eq!(changes(&[]).ok(), text);
    assert_eq!(changes(&["--from", "7"]).ok(), "position 7\n");
    assert_eq!(changes(&["--from", "4", "--limit", "1", "--no-values"]).ok(), {
        "4 delete default \"a\", put users \"grace\"\nposition 6\n"
    });
    let users = changes(&["--family", "users", "--json", "--hex"]).ok();
    let lines: Vec<serde_json::Value> = users.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(lines.len(), 3, "{users}");
    assert_eq!(lines[0]["operations"][0]["value"], "0x01");
    assert_eq!((&lines[1]["sequence"], &lines[1]["next"]), (&4.into(), &"6".into()));
    assert_eq!(lines[1]["operations"][0]["sequence"], 5);
    assert_eq!(lines[2]["position"], "7");
    // A gap: the first two writes are in a table.
    let gap = changes(&["--from", "1"]);
    assert_eq!(gap.out, "position 1\n");
    let told = gap.failed();
    assert!(told.contains("no WAL has the sequence numbers 1 to 2") && told.contains("checkpoint"), "{told}");
    assert_eq!(changes(&["--from", "x"]).code, Some(2));
}

#[test]
fn the_name_of_a_family_forges_no_line() {
    let temp = TempDir::new("tools-changes-name");
    let dir = sample(&temp);
    let options = esker::options::load_latest_options(&dir).unwrap();
    let open = esker::Db::open_cf(&options.db, &dir, options.families).unwrap();
    let forged = open.create_column_family("a\nposition 99", &Default::default()).unwrap();
    open.put_cf(&forged, "k", "v").unwrap();
    drop((forged, open));
    let text = esker(&["changes", &dir]).ok();
    assert!(text.contains(" put a\\nposition 99 \"k\" \"v\"\n"), "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("position ")).count(), 1, "{text}");
}

#[test]
fn a_follower_prints_what_another_process_writes_until_it_is_interrupted() {
    let temp = TempDir::new("tools-changes-follow");
    let dir = sample(&temp);
    let options = esker::options::load_latest_options(&dir).unwrap();
    let owner = esker::Db::open_cf(&options.db, &dir, options.families).unwrap();
    let mut following = Command::new(env!("CARGO_BIN_EXE_esker"))
        .args(["changes", &dir, "--follow"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut before: Vec<String> = Vec::new();
    owner.put("d", "4").unwrap();
    // The open of the owner may have moved the first batches into tables.
    for line in lines.by_ref() {
        before.push(line);
        if before.last().is_some_and(|line| line.ends_with("put default \"d\" \"4\"")) {
            break;
        }
    }
    owner.put("e", "5").unwrap();
    assert_eq!(lines.next().unwrap(), "8 put default \"e\" \"5\"");
    let interrupt = Command::new("kill").args(["-INT", &following.id().to_string()]).status().unwrap();
    assert!(interrupt.success());
    assert_eq!(lines.next().unwrap(), "position 9");
    assert!(following.wait().unwrap().success());
}
