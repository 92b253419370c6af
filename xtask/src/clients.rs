//! Runs suites of RocksDB's clients, unchanged, on Esker: `cargo xtask long clients [NAME…]`.
//!
//! In: the clients' packages, which cargo and go fetch, and `librocksdb.so.11`, which is built
//! here.
//! Out: the numbers of each suite's tests. A failing test is an error, unless it is a known
//! difference, which docs/compat/c-api.md explains. Work files lie in `target/clients`.

use crate::capi::{fetched, install_built};
use crate::commands::Outcome;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A suite: its name, and how it runs.
type Suite = (&'static str, fn(&Clients) -> Outcome);

/// The suites, in the order in which they run.
const SUITES: [Suite; 4] =
    [("ctypes", ctypes), ("c_test", c_test), ("rust-rocksdb", rust_rocksdb), ("grocksdb", grocksdb)];

/// Number of phases of RocksDB 11.8.1's `c_test` that pass. The test stops at the first that fails.
const C_TEST_PHASES: usize = 40;

/// Tests of crate `rocksdb` 0.25.0 that fail. The first also fails on RocksDB itself; the second
/// fails by a difference that docs/compat/c-api.md explains.
const RUST_ROCKSDB_DIFFERS: &[&str] = &["set_column_family_metadata_test", "test_full_iterator"];

/// Tests of grocksdb 1.11.1 that fail. They also fail on RocksDB 11.8.1.
const GROCKSDB_DIFFERS: &[&str] = &["TestOptions"];

struct Clients {
    root: PathBuf,
    /// Directory in which copies of clients are built.
    dir: PathBuf,
    /// Directory in which the library and its header are installed.
    prefix: PathBuf,
}

/// Runs the suites called `names`, or all.
pub(crate) fn run(root: &Path, names: &[&str]) -> Outcome {
    if let Some(name) = names.iter().find(|name| !SUITES.iter().any(|(suite, _)| suite == *name)) {
        let suites: Vec<&str> = SUITES.iter().map(|(suite, _)| *suite).collect();
        return Err(format!("'{name}' is none of {}", suites.join(", ")));
    }
    let dir = root.join("target/clients");
    let clients = Clients { root: root.to_owned(), prefix: dir.join("prefix"), dir };
    checked(Command::new("cargo").args(["build", "--quiet", "-p", "esker-capi"]).current_dir(root))?;
    install_built(root, &root.join("target/debug"), &clients.prefix)?;
    for (name, suite) in SUITES.iter().filter(|(name, _)| names.is_empty() || names.contains(name)) {
        println!("== {name}");
        suite(&clients)?;
    }
    Ok(())
}

/// A round trip from Python, without a compiler.
fn ctypes(clients: &Clients) -> Outcome {
    let script = clients.root.join("crates/capi/tests/smoke.py");
    let library = clients.prefix.join("lib/librocksdb.so.11");
    let output = checked(Command::new("python3").arg(script).arg(library))?;
    print!("{}", String::from_utf8_lossy(&output.stdout));
    Ok(())
}

/// RocksDB's own test of the C API, compiled with the header that `install-capi` writes.
fn c_test(clients: &Clients) -> Outcome {
    let rocksdb = fetched(&clients.root, "librocksdb-sys", "0.19.0")?.join("rocksdb");
    let source = rocksdb.join("db/c_test.c");
    let (binary, lib) = (clients.dir.join("c_test"), clients.prefix.join("lib"));
    let work = fresh(&clients.dir.join("c_test.tmp"))?;
    checked(
        Command::new("cc")
            .args(["-w", "-O0", "-g"])
            .arg("-I")
            .arg(clients.prefix.join("include"))
            .arg("-I")
            .arg(&rocksdb)
            .arg(&source)
            .arg("-o")
            .arg(&binary)
            .arg(format!("-L{}", lib.display()))
            .arg(format!("-Wl,-rpath,{}", lib.display()))
            .args(["-lrocksdb", "-lpthread"]),
    )?;
    let output = Command::new(&binary).env("TEST_TMPDIR", &work).output();
    let output = output.map_err(|error| format!("{}: {error}", binary.display()))?;
    let text = said(&output);
    let begun = text.matches("=== Test").count();
    let phases = read(&source)?.matches("StartPhase(\"").count();
    let passed = if output.status.success() { begun } else { begun.saturating_sub(1) };
    println!("c_test: {passed} of {phases} phases passed");
    if passed < C_TEST_PHASES {
        return Err(format!("{C_TEST_PHASES} phases of c_test passed before:\n{}", tail(&text, 20)));
    }
    Ok(())
}

/// The suite of crate `rocksdb`, by the shim.
fn rust_rocksdb(clients: &Clients) -> Outcome {
    let package = fetched(&clients.root, "rocksdb", "0.25.0")?;
    let copy = fresh(&clients.dir.join("rocksdb-0.25.0"))?;
    copy_dir(&package, &copy)?;
    // The copy becomes a workspace of its own, and this project's compiler builds it.
    fs::remove_file(copy.join("rust-toolchain.toml")).map_err(|error| error.to_string())?;
    let manifest = read(&copy.join("Cargo.toml"))? + "\n[workspace]\n\n[profile.dev]\ndebug = false\n";
    fs::write(copy.join("Cargo.toml"), manifest).map_err(|error| error.to_string())?;
    let shim = clients.root.join("shims/librocksdb-sys-0.19");
    let patch = format!("patch.crates-io.librocksdb-sys.path=\"{}\"", shim.display());
    // These tests check that code does not compile. They start a cargo that does not know the
    // patch.
    let skipped = ["--skip", "outlive", "--skip", "open_with_multiple_refs"];
    let output = Command::new("cargo")
        .args(["test", "--no-fail-fast", "--lib", "--tests", "--config", &patch, "--"])
        .args(skipped)
        .current_dir(&copy)
        .env("CARGO_TARGET_DIR", clients.dir.join("target"))
        .env("RUSTUP_TOOLCHAIN", "stable")
        .output();
    let text = said(&output.map_err(|error| format!("cargo test: {error}"))?);
    let verdicts = |verdict: &str| -> Vec<String> {
        let lines = text.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(verdict));
        lines.map(|name| name.trim().to_string()).collect()
    };
    report("rocksdb 0.25.0", &verdicts("... ok"), &verdicts("... FAILED"), RUST_ROCKSDB_DIFFERS, &text)
}

/// The suite of grocksdb, with the library.
fn grocksdb(clients: &Clients) -> Outcome {
    const MODULE: &str = "github.com/linxGnu/grocksdb@v1.11.1";
    let go = |args: &[&str]| {
        let output = checked(Command::new("go").args(args).current_dir(&clients.dir))?;
        Ok::<_, String>(String::from_utf8_lossy(&output.stdout).trim().to_string())
    };
    go(&["mod", "download", MODULE])?;
    let cache = PathBuf::from(go(&["env", "GOMODCACHE"])?);
    let copy = fresh(&clients.dir.join("grocksdb"))?;
    copy_dir(&cache.join("github.com/linx!gnu/grocksdb@v1.11.1"), &copy)?;
    let lib = clients.prefix.join("lib");
    let ld_flags = format!("-L{0} -lrocksdb -Wl,-rpath,{0}", lib.display());
    let output = Command::new("go")
        .args(["test", "-count=1", "-v", "-tags", "grocksdb_no_link", "."])
        .current_dir(&copy)
        .env("CGO_CFLAGS", format!("-I{}", clients.prefix.join("include").display()))
        .env("CGO_LDFLAGS", ld_flags)
        .output();
    let text = said(&output.map_err(|error| format!("go test: {error}"))?);
    let verdicts = |verdict: &str| -> Vec<String> {
        let names = text.lines().filter_map(|line| line.strip_prefix(verdict)?.split(' ').next());
        names.map(str::to_string).collect()
    };
    report("grocksdb 1.11.1", &verdicts("--- PASS: "), &verdicts("--- FAIL: "), GROCKSDB_DIFFERS, &text)
}

/// Prints the numbers of a suite.
/// # Errors
/// A test failed that is not among `known`, or none passed.
fn report(suite: &str, passed: &[String], failed: &[String], known: &[&str], text: &str) -> Outcome {
    println!("{suite}: {} passed, {} failed {failed:?}", passed.len(), failed.len());
    let news: Vec<&String> = failed.iter().filter(|name| !known.contains(&name.as_str())).collect();
    if !news.is_empty() || passed.is_empty() {
        return Err(format!("{suite}: {news:?} failed:\n{}", tail(text, 80)));
    }
    Ok(())
}

fn checked(command: &mut Command) -> Result<Output, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() { Ok(output) } else { Err(format!("{command:?}:\n{}", said(&output))) }
}

/// The text of both output streams of a command.
fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// An empty directory at `dir`.
fn fresh(dir: &Path) -> Result<PathBuf, String> {
    let error = |error: std::io::Error| format!("{}: {error}", dir.display());
    if dir.exists() {
        fs::remove_dir_all(dir).map_err(error)?;
    }
    fs::create_dir_all(dir).map_err(error)?;
    Ok(dir.to_owned())
}

/// Copies the files of `from`, which may be read-only, below `to`.
fn copy_dir(from: &Path, to: &Path) -> Outcome {
    let error = |error: std::io::Error| format!("{}: {error}", from.display());
    fs::create_dir_all(to).map_err(error)?;
    for entry in fs::read_dir(from).map_err(error)? {
        let entry = entry.map_err(error)?;
        let target = to.join(entry.file_name());
        if entry.file_type().map_err(error)?.is_dir() {
            copy_dir(&entry.path(), &target)?;
        } else {
            fs::write(&target, fs::read(entry.path()).map_err(error)?).map_err(error)?;
        }
    }
    Ok(())
}
