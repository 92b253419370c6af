//! `esker demo`, small: it tells its story to the end, and cleans up.

use crate::run::esker;
use esker_testkit::TempDir;

#[test]
fn the_story_is_told_to_its_end() {
    let temp = TempDir::new("demo");
    let dir = temp.join("db");
    let done = esker(&["demo", "--dir", dir.to_str().unwrap(), "--records=5000", "--kills=1"]);
    let out = done.clone().ok();
    for line in
        ["load, random order", "scan backward", "acknowledged writes there after 1 kill -9", "All verified"]
    {
        assert!(out.contains(line), "{done:?}");
    }
    esker(&["verify", dir.to_str().unwrap()]).ok();
}

#[test]
fn a_directory_in_use_is_left_alone() {
    let temp = TempDir::new("demo-used");
    std::fs::write(temp.join("precious"), b"data").unwrap();
    let told = esker(&["demo", "--dir", temp.path().to_str().unwrap(), "--records=1000"]).failed();
    assert!(told.contains("is not empty"), "{told}");
    assert_eq!(std::fs::read(temp.join("precious")).unwrap(), b"data");
}

#[test]
fn a_victim_whose_reader_is_gone_ends() {
    use std::process::{Command, Stdio};
    let temp = TempDir::new("demo-victim");
    let mut victim = Command::new(env!("CARGO_BIN_EXE_esker"))
        .args(["demo-victim", "--round=0", "--dir", temp.join("db").to_str().unwrap()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(victim.stdout.take());
    victim.wait().unwrap();
}
