//! `esker demo` runs the demonstration of `esker-demo`.

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
fn the_demonstration_reads_its_own_flags() {
    assert!(esker(&["demo", "--help"]).ok().contains("--value-size"));
    let refused = esker(&["demo", "--records=1"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.err.contains("'--records'"), "{refused:?}");
}
