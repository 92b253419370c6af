//! The program from its command line to its end.

use esker_testkit::TempDir;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs the demonstration; temporary files lie in `temp`.
fn demo(temp: &Path, flags: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_esker-demo"));
    command.args(flags).env("TMPDIR", temp).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn the_story_is_told_to_its_end() {
    let temp = TempDir::new("demo");
    let dir = temp.join("db");
    let done =
        demo(temp.path(), &["--dir", dir.to_str().unwrap(), "--records=5000", "--kills=1", "--threads=2"]);
    let out = text(&done.stdout);
    assert!(done.status.success(), "{done:?}");
    for line in ["load, random order", "scan backward", "there after 1 kill -9", "│ L0", "All verified"] {
        assert!(out.contains(line), "{line}: {out}");
    }
    assert!(text(&done.stderr).contains("Counting what survived"), "{done:?}");
    assert!(dir.join("CURRENT").exists(), "the user's directory stays");
}

#[test]
fn a_temporary_directory_is_removed_unless_it_is_to_be_kept() {
    let temp = TempDir::new("demo-temporary");
    for (flags, left) in [(&["--keep"][..], 1), (&[], 1)] {
        let done = demo(temp.path(), &[flags, &["--records=1000", "--kills=0"]].concat());
        assert!(done.status.success(), "{done:?}");
        assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), left, "{flags:?}");
    }
}

#[test]
fn a_directory_in_use_is_left_alone() {
    let temp = TempDir::new("demo-used");
    std::fs::write(temp.join("precious"), b"data").unwrap();
    let done = demo(temp.path(), &["--dir", temp.path().to_str().unwrap(), "--records=1000"]);
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    assert!(text(&done.stderr).contains("is not empty"), "{done:?}");
    assert_eq!(std::fs::read(temp.join("precious")).unwrap(), b"data");
}

#[test]
fn help_goes_to_standard_output_and_a_wrong_flag_ends_with_2() {
    let temp = TempDir::new("demo-flags");
    let help = demo(temp.path(), &["--help"]);
    assert!(help.status.success() && text(&help.stdout).contains("--value-size"), "{help:?}");
    for flags in [&["--records=1"][..], &["demo"], &["demo-victim"]] {
        let refused = demo(temp.path(), flags);
        assert_eq!(refused.status.code(), Some(2), "{flags:?}: {refused:?}");
        assert!(text(&refused.stderr).starts_with("error: "), "{refused:?}");
    }
}

#[test]
fn a_victim_ends_when_its_output_is_closed() {
    let temp = TempDir::new("demo-victim");
    let mut victim = Command::new(env!("CARGO_BIN_EXE_esker-demo"))
        .args(["demo-victim", "--round=0", "--dir", temp.join("db").to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    drop(victim.stdout.take());
    victim.wait().unwrap();
}
