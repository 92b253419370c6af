//! Limits of the process: no threads, few descriptors, no permissions. Limits hold for a whole
//! process, so each scene runs in a child: this test binary, started again.

#![allow(
    clippy::disallowed_methods,
    reason = "a process that waits for another, and files of the real file system"
)]

mod descriptors;
mod permissions;
mod threads;

use esker_testkit::TempDir;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

const DIRECTORY: &str = "ESKER_TEST_LIMITS_DIR";
/// Time after which a scene counts as hung.
const PATIENCE: Duration = Duration::from_secs(600);
/// The user of the children: for root, the limit on threads does not hold.
const NOBODY: u32 = 61_234;

/// The directory of the scene, in the child.
fn directory() -> Option<PathBuf> {
    std::env::var_os(DIRECTORY).map(PathBuf::from)
}

/// Runs `scene`, a test of this binary, in a child with a directory of its own, as an unprivileged
/// user.
fn run_in_child(scene: &str) {
    let dir = TempDir::new("limits");
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o777)).unwrap();
    // The other user may lack access to the directory of this binary.
    let program = dir.path().join("program");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let mut command = esker_testkit::command(&program);
    command.args(["--exact", scene, "--nocapture", "--test-threads=1"]).env(DIRECTORY, dir.path().join("db"));
    let output = dir.path().join("output");
    let file = std::fs::File::create(&output).unwrap();
    command.stdout(Stdio::from(file.try_clone().unwrap())).stderr(Stdio::from(file));
    if rustix::process::getuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let mut child = command.spawn().unwrap();
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        if begin.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            break None;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let text = std::fs::read_to_string(&output).unwrap();
    assert!(status.is_some_and(|status| status.success()), "{scene}: {status:?}\n{text}");
    assert!(text.contains("1 passed"), "{scene} has run\n{text}");
}

/// Threads of this process, as the system counts them.
fn threads() -> usize {
    std::fs::read_dir(Path::new("/proc/self/task")).unwrap().count()
}
