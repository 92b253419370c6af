//! Runs suites of RocksDB's clients, unchanged: `cargo xtask long clients [rocksdb] [all|NAME…]`.
//!
//! In: the clients' packages, which cargo and go fetch, and `librocksdb.so.11`, which is built
//! here. With `rocksdb`, the suites run on the libraries of `.ci/fetch-peers`.
//! Out: for each suite the numbers of its tests and of the databases that it leaves. A failing
//! test is an error, unless it is a known one, which docs/compat/c-api.md explains. It is also an
//! error if the other library reads such a database differently. Work files lie in
//! `target/clients`.

mod callers;
mod handed_over;
mod memory_checks;
mod packages;

use crate::capi::{FORM_11_1, build_form, fetched, install_built, install_form, pkg_config};
use crate::commands::{Outcome, target_dir};
pub(crate) use callers::write_table;
use packages::PACKAGES;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A suite: its name, and how it runs. Its databases stay in the directory.
type Suite = (&'static str, fn(&Clients, &Path) -> Outcome);

/// The suites that are no crates.
const SUITES: [Suite; 7] = [
    ("ctypes", ctypes),
    ("semantics", semantics),
    ("c_test", c_test),
    ("grocksdb", grocksdb),
    ("valgrind", memory_checks::valgrind),
    ("grocksdb-asan", memory_checks::grocksdb_asan),
    ("rocksdb-0.25-valgrind", memory_checks::rocksdb_valgrind),
];

/// The suites that CI runs at each landing. Together they take about five minutes.
const DAILY: [&str; 7] =
    ["ctypes", "semantics", "c_test", "grocksdb", "rocksdb-0.25", "rocksdb-0.24", "kvdb-rocksdb"];

/// Number of phases of RocksDB 11.8.1's `c_test` that pass. The test stops at the first that fails.
const C_TEST_PHASES: usize = 96;

/// Tests of grocksdb 1.11.1 that fail on RocksDB 11.8.1. It is written for 11.1, and expects the
/// default compression of that release.
const GROCKSDB_DIFFERS: &[&str] = &["TestOptions"];

/// The library that the clients use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behind {
    Esker,
    RocksDb,
}

struct Clients {
    root: PathBuf,
    /// Directory in which copies of clients are built.
    dir: PathBuf,
    behind: Behind,
    /// Directory in which Esker's library and its header are installed.
    esker: PathBuf,
}

/// Runs the suites called `names`; those of CI, if there are none.
pub(crate) fn run(root: &Path, names: &[&str]) -> Outcome {
    let (behind, names) = match names {
        ["rocksdb", names @ ..] => (Behind::RocksDb, names),
        names => (Behind::Esker, names),
    };
    let known: Vec<&str> =
        SUITES.iter().map(|suite| suite.0).chain(PACKAGES.iter().map(|p| p.name)).collect();
    let names: &[&str] = match names {
        [] => &DAILY,
        ["all"] => &known,
        names => names,
    };
    if let Some(name) = names.iter().find(|name| !known.contains(name)) {
        return Err(format!("'{name}' is none of {}", known.join(", ")));
    }
    let dir = root.join("target/clients");
    let _lock = locked(&dir)?;
    let clients = Clients { root: root.to_owned(), behind, esker: dir.join("prefix"), dir };
    checked(Command::new("cargo").args(["build", "--quiet", "-p", "esker-capi"]).current_dir(root))?;
    install_built(root, &target_dir(root).join("debug"), &clients.esker)?;
    for name in names {
        println!("== {name}");
        let kept = fresh(&clients.dir.join(clients.title()).join(name))?;
        match SUITES.iter().find(|suite| suite.0 == *name) {
            Some((_, suite)) => suite(&clients, &kept)?,
            None => packages::run(&clients, packages::called(name), &kept)?,
        }
        // Examples in documentation destroy their databases, and `semantics` damages them.
        if !name.ends_with("-doc") && *name != "semantics" {
            handed_over::check(&clients, name, &kept)?;
        }
    }
    Ok(())
}

/// The environment in which the stock `librocksdb-sys` of version `sys` finds RocksDB's library.
pub(crate) fn rocksdb_environment(root: &Path, sys: &str) -> Result<[(&'static str, PathBuf); 4], String> {
    let dir = root.join("target/clients");
    let clients = Clients { root: root.to_owned(), behind: Behind::RocksDb, esker: dir.join("prefix"), dir };
    packages::stock_environment(&clients, sys)
}

/// Locks the directory of the suites, until the result is dropped.
/// # Errors
/// Another run has the lock: two runs at once would write to the same directories.
fn locked(dir: &Path) -> Result<fs::File, String> {
    let path = dir.join("lock");
    let error = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    fs::create_dir_all(dir).map_err(|e| error(&e))?;
    let file = fs::File::create(&path).map_err(|e| error(&e))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => {
            Err(error(&"another `long clients` runs in this tree; start this one when it has ended"))
        }
        Err(fs::TryLockError::Error(e)) => Err(error(&e)),
    }
}

impl Clients {
    /// The name of the library.
    fn title(&self) -> &'static str {
        match self.behind {
            Behind::Esker => "on-esker",
            Behind::RocksDb => "on-rocksdb",
        }
    }

    /// The directory of the library of RocksDB 11 and its header.
    fn prefix(&self) -> Result<PathBuf, String> {
        match self.behind {
            Behind::Esker => Ok(self.esker.clone()),
            Behind::RocksDb => self.rocksdb("0.19.0"),
        }
    }

    /// The directory of the library that grocksdb is written for, and of its header: RocksDB 11.1.
    /// In its place RocksDB itself runs as 11.8.1.
    fn prefix_of_11_1(&self) -> Result<PathBuf, String> {
        if self.behind == Behind::RocksDb {
            return self.prefix();
        }
        let prefix = self.dir.join("prefix-11.1");
        build_form(&self.root, FORM_11_1, &[])?;
        install_form(&self.root, &target_dir(&self.root).join("debug"), &prefix, FORM_11_1)?;
        Ok(prefix)
    }

    /// The directory of a RocksDB library and its headers: 11.8.1 or 10.4.2, the nearer to the
    /// version of `sys`.
    fn rocksdb(&self, sys: &str) -> Result<PathBuf, String> {
        let peers = std::env::var_os("ESKER_PEERS_DIR").map_or(self.root.join("target/peers"), PathBuf::from);
        let (peers, version) =
            if sys == "0.19.0" { (peers, "11.8.1") } else { (peers.join("10.4.2"), "10.4.2") };
        let library = peers.join("librocksdbjni-linux64.so");
        if !library.exists() {
            return Err(format!("{} is not there; run .ci/fetch-peers", library.display()));
        }
        let prefix = self.dir.join(format!("rocksdb-for-{sys}"));
        let link = |to: &Path, at: PathBuf| match std::os::unix::fs::symlink(to, &at) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                Err(format!("{}: {error}", at.display()))
            }
            _ => Ok(()),
        };
        fs::create_dir_all(prefix.join("lib/pkgconfig"))
            .map_err(|error| format!("{}: {error}", prefix.display()))?;
        link(&library, prefix.join("lib/librocksdb.so"))?;
        link(&library, prefix.join("lib/librocksdb.so.11"))?;
        let headers = fetched(&self.root, "librocksdb-sys", sys)?.join("rocksdb/include");
        link(&headers, prefix.join("include"))?;
        write(&prefix.join("lib/pkgconfig/rocksdb.pc"), &pkg_config(&prefix, version))?;
        Ok(prefix)
    }
}

/// A round trip from Python, without a compiler.
fn ctypes(clients: &Clients, kept: &Path) -> Outcome {
    let script = clients.root.join("crates/capi/tests/smoke.py");
    let library = clients.prefix()?.join("lib/librocksdb.so.11");
    let output = checked(Command::new("python3").arg(script).arg(library).arg(kept))?;
    print!("{}", String::from_utf8_lossy(&output.stdout));
    Ok(())
}

/// Cases in which a client could see a difference, on both libraries.
/// # Errors
/// The first line that differs.
fn semantics(clients: &Clients, kept: &Path) -> Outcome {
    let script = clients.root.join("crates/capi/tests/semantics.py");
    let lines = |library: PathBuf, name: &str| {
        let dir = fresh(&kept.join(name))?;
        let output = checked(Command::new("python3").arg(&script).arg(library).arg(dir))?;
        Ok::<_, String>(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let esker = lines(clients.esker.join("lib/librocksdb.so.11"), "esker")?;
    let rocksdb = lines(clients.rocksdb("0.19.0")?.join("lib/librocksdb.so"), "rocksdb")?;
    match esker.lines().zip(rocksdb.lines()).find(|(ours, theirs)| ours != theirs) {
        Some((ours, theirs)) => Err(format!("semantics:\n  Esker    {ours}\n  RocksDB  {theirs}")),
        None if esker.lines().count() != rocksdb.lines().count() => {
            Err("semantics: the libraries give different numbers of lines".to_owned())
        }
        None => {
            println!("semantics: {} lines are the same on both libraries", esker.lines().count());
            Ok(())
        }
    }
}

/// Compiles RocksDB's own test of the C API as `name`, with `flags` and the header that
/// `install-capi` writes. Returns the program, and its source.
fn c_test_binary(clients: &Clients, name: &str, flags: &[&str]) -> Result<(PathBuf, PathBuf), String> {
    let rocksdb = fetched(&clients.root, "librocksdb-sys", "0.19.0")?.join("rocksdb");
    let source = rocksdb.join("db/c_test.c");
    let prefix = clients.prefix()?;
    let (binary, lib) = (clients.dir.join(name), prefix.join("lib"));
    checked(
        Command::new("cc")
            .args(["-w", "-O0", "-g"])
            .args(flags)
            .arg("-I")
            .arg(prefix.join("include"))
            .arg("-I")
            .arg(&rocksdb)
            .arg(&source)
            .arg("-o")
            .arg(&binary)
            .arg(format!("-L{}", lib.display()))
            .arg(format!("-Wl,-rpath,{}", lib.display()))
            .args(["-lrocksdb", "-lpthread"]),
    )?;
    Ok((binary, source))
}

/// Runs RocksDB's own test of the C API.
fn c_test(clients: &Clients, kept: &Path) -> Outcome {
    let (binary, source) = c_test_binary(clients, "c_test", &[])?;
    let [runner, arguments @ ..] = callers::reporting(clients, "c_test")?;
    let output = Command::new(runner).args(arguments).arg(&binary).env("TEST_TMPDIR", kept).output();
    let output = output.map_err(|error| format!("{}: {error}", binary.display()))?;
    callers::record(clients, "c_test")?;
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

/// The `go test` of grocksdb's suite, with the library. Its databases lie in directories that stay.
fn grocksdb_test(clients: &Clients, kept: &Path) -> Result<Command, String> {
    const MODULE: &str = "github.com/linxGnu/grocksdb@v1.11.1";
    const KEPT: &str = "package grocksdb\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\n\
        func keptDir(t *testing.T) string {\n\tdir, err := os.MkdirTemp(\"\", t.Name())\n\
        \tif err != nil {\n\t\tt.Fatal(err)\n\t}\n\treturn dir\n}\n";
    let go = |args: &[&str]| {
        let output = checked(Command::new("go").args(args).current_dir(&clients.dir))?;
        Ok::<_, String>(String::from_utf8_lossy(&output.stdout).trim().to_string())
    };
    go(&["mod", "download", MODULE])?;
    let cache = PathBuf::from(go(&["env", "GOMODCACHE"])?);
    let copy = fresh(&clients.dir.join("grocksdb"))?;
    copy_dir(&cache.join("github.com/linx!gnu/grocksdb@v1.11.1"), &copy)?;
    replace_below(&copy, "_test.go", "t.TempDir()", "keptDir(t)")?;
    fs::write(copy.join("kept_test.go"), KEPT).map_err(|error| error.to_string())?;
    let prefix = clients.prefix_of_11_1()?;
    let ld_flags = format!("-L{0} -lrocksdb -Wl,-rpath,{0}", prefix.join("lib").display());
    let mut test = Command::new("go");
    test.args(["test", "-count=1", "-v", "-tags", "grocksdb_no_link"])
        .current_dir(&copy)
        .env("CGO_CFLAGS", format!("-I{}", prefix.join("include").display()))
        .env("CGO_LDFLAGS", ld_flags)
        .env("TMPDIR", kept);
    Ok(test)
}

/// Runs grocksdb's suite.
fn grocksdb(clients: &Clients, kept: &Path) -> Outcome {
    let runner = callers::reporting(clients, "grocksdb")?.join(" ");
    let output = grocksdb_test(clients, kept)?.args(["-exec", &runner, "."]).output();
    let text = said(&output.map_err(|error| format!("go test: {error}"))?);
    callers::record(clients, "grocksdb")?;
    let verdicts = |verdict: &str| -> Vec<String> {
        let names = text.lines().filter_map(|line| line.strip_prefix(verdict)?.split(' ').next());
        names.map(str::to_string).collect()
    };
    let known = if clients.behind == Behind::RocksDb { GROCKSDB_DIFFERS } else { &[] };
    report("grocksdb 1.11.1", &verdicts("--- PASS: "), &verdicts("--- FAIL: "), known, &text)
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

/// Both streams of a command, errors first: test harnesses print failures to the other.
fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}

fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Outcome {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
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

/// Files below `dir`.
fn files_below(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let error = |error: std::io::Error| format!("{}: {error}", dir.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).map_err(error)? {
        let entry = entry.map_err(error)?;
        if entry.file_type().map_err(error)?.is_dir() {
            files.extend(files_below(&entry.path())?);
        } else {
            files.push(entry.path());
        }
    }
    Ok(files)
}

/// Copies the files of `from`, which may be read-only, below `to`.
pub(crate) fn copy_dir(from: &Path, to: &Path) -> Outcome {
    for file in files_below(from)? {
        let target = to.join(file.strip_prefix(from).expect("the file is below the directory"));
        let error = |error: std::io::Error| format!("{}: {error}", target.display());
        fs::create_dir_all(target.parent().expect("the file is below the directory")).map_err(error)?;
        fs::write(&target, fs::read(&file).map_err(error)?).map_err(error)?;
    }
    Ok(())
}

/// Puts `new` in place of `old` in the files below `dir` whose names end in `suffix`.
/// # Errors
/// `old` is nowhere.
fn replace_below(dir: &Path, suffix: &str, old: &str, new: &str) -> Outcome {
    let mut found = false;
    for path in files_below(dir)?.iter().filter(|path| path.to_string_lossy().ends_with(suffix)) {
        let text = read(path)?;
        if text.contains(old) {
            found = true;
            write(path, &text.replace(old, new))?;
        }
    }
    if found { Ok(()) } else { Err(format!("no file {suffix} below {} has '{old}'", dir.display())) }
}
