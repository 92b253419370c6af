//! Suites of crates that use crate `rocksdb`: by a shim, or by the library behind the stock
//! `librocksdb-sys`.

use super::callers::{record, reporting};
use super::{Behind, Clients, copy_dir, fresh, read, replace_below, report, said, write};
use crate::capi::fetched;
use crate::commands::Outcome;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A crate from the registry with its tests.
pub(super) struct Package {
    /// The suite's name.
    pub(super) name: &'static str,
    pub(super) krate: &'static str,
    pub(super) version: &'static str,
    /// The version of `librocksdb-sys` under it.
    pub(super) sys: &'static str,
    /// The directory below `shims`; `None`: the stock crate takes the library.
    pub(super) shim: Option<&'static str>,
    /// Arguments of `cargo test`.
    pub(super) arguments: &'static [&'static str],
    /// Tests that do not run.
    pub(super) skipped: &'static [&'static str],
    /// Appended to its manifest.
    pub(super) manifest: &'static str,
    /// Whether its own lock file takes the shim without other updates.
    pub(super) is_locked: bool,
    /// Tests that fail: docs/compat/c-api.md says why.
    pub(super) fails: &'static [&'static str],
    /// More tests that fail on RocksDB's library.
    pub(super) fails_on_rocksdb: &'static [&'static str],
}

/// Crate `rocksdb`. Tests that must not compile start a cargo of their own, without the patch.
pub(super) const ROCKSDB: Package = Package {
    name: "rocksdb-0.25",
    krate: "rocksdb",
    version: "0.25.0",
    sys: "0.19.0",
    shim: Some("librocksdb-sys-0.19"),
    arguments: &["--lib", "--tests"],
    skipped: &["outlive", "open_with_multiple_refs"],
    manifest: "",
    is_locked: true,
    fails: &["set_column_family_metadata_test"],
    fails_on_rocksdb: &[],
};

const OTHER: Package = Package {
    name: "",
    krate: "",
    version: "",
    sys: "0.17.3",
    shim: Some("librocksdb-sys-0.17"),
    arguments: &["--lib", "--tests"],
    skipped: &[],
    manifest: "",
    is_locked: true,
    fails: &[],
    fails_on_rocksdb: &[],
};

/// The suites.
pub(super) const PACKAGES: [Package; 14] = [
    ROCKSDB,
    Package { name: "rocksdb-0.25-so", shim: None, ..ROCKSDB },
    Package {
        name: "rocksdb-0.25-mt",
        arguments: &["--lib", "--tests", "--features", "multi-threaded-cf"],
        ..ROCKSDB
    },
    Package {
        name: "rocksdb-0.25-mt-so",
        shim: None,
        arguments: &["--lib", "--tests", "--features", "multi-threaded-cf"],
        ..ROCKSDB
    },
    Package { name: "rocksdb-0.25-doc", arguments: &["--doc"], fails: &[], ..ROCKSDB },
    Package {
        name: "rocksdb-0.24",
        version: "0.24.0",
        sys: "0.17.3",
        shim: Some("librocksdb-sys-0.17"),
        ..ROCKSDB
    },
    Package {
        name: "rocksdb-0.22",
        version: "0.22.0",
        sys: "0.16.0",
        shim: Some("librocksdb-sys-0.16"),
        is_locked: false,
        fails_on_rocksdb: &["get_statistics_test"],
        ..ROCKSDB
    },
    Package {
        name: "rocksdb-0.21",
        version: "0.21.0",
        sys: "0.11.0",
        shim: Some("librocksdb-sys-0.11"),
        is_locked: false,
        fails_on_rocksdb: &["fifo_compaction_test", RACES[0], RACES[1]],
        ..ROCKSDB
    },
    Package {
        name: "openraft-rocksstore",
        krate: "openraft-rocksstore",
        version: "0.9.21",
        sys: "0.16.0",
        shim: Some("librocksdb-sys-0.16"),
        ..OTHER
    },
    Package {
        name: "fedimint-rocksdb",
        krate: "fedimint-rocksdb",
        version: "0.13.0",
        is_locked: false,
        ..OTHER
    },
    Package {
        name: "linera-views",
        krate: "linera-views",
        version: "0.15.23",
        // Its package lacks the dependency on itself that its unit tests need.
        arguments: &["--test", "*", "--features", "rocksdb,test"],
        ..OTHER
    },
    Package {
        name: "kvdb-rocksdb",
        krate: "kvdb-rocksdb",
        version: "0.21.0",
        arguments: &["--lib"],
        manifest: "\n[dev-dependencies.kvdb-shared-tests]\nversion = \"0.11\"\n",
        ..OTHER
    },
    Package {
        name: "indradb-lib",
        krate: "indradb-lib",
        version: "5.0.0",
        arguments: &["--lib", "--features", "rocksdb-datastore,test-suite"],
        is_locked: false,
        ..OTHER
    },
    Package {
        name: "oxigraph",
        krate: "oxigraph",
        version: "0.5.13",
        // It brings RocksDB 11.0.
        sys: "0.19.0",
        shim: Some("oxrocksdb-sys"),
        fails: &[],
        ..OTHER
    },
];

/// Tests of crate `rocksdb` that expect an automatic compaction to have ended, and do not wait for
/// it. On a busy machine they also fail on RocksDB.
const RACES: [&str; 2] = ["get_with_cache_and_bulkload_test", "get_with_cache_and_bulkload_and_blobs_test"];

/// The package whose suite has this name.
pub(super) fn called(name: &str) -> &'static Package {
    PACKAGES.iter().find(|package| package.name == name).expect("names are checked before")
}

/// Runs a suite; its databases stay below `kept`.
pub(super) fn run(clients: &Clients, package: &Package, kept: &Path) -> Outcome {
    let mut test = command(clients, package, kept)?;
    let is_recorded = package.name == "rocksdb-0.25-so";
    if is_recorded {
        test.env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", reporting(clients, package.name)?.join(" "));
    }
    let output = test.output().map_err(|error| format!("cargo test: {error}"))?;
    if is_recorded {
        record(clients, package.name)?;
    }
    let mut text = said(&output);
    for name in RACES {
        let failed = format!("test {name} ... FAILED");
        if text.contains(&failed) && passes_again(clients, package, kept, name)? {
            println!("{}: {name} failed once, and passed when it ran again", package.name);
            text = text.replace(&failed, &format!("test {name} ... ok"));
        }
    }
    verdict(package, clients.behind, &text)
}

/// Whether a test passes in one of five further runs.
fn passes_again(clients: &Clients, package: &Package, kept: &Path, name: &str) -> Result<bool, String> {
    let passed = format!("test {name} ... ok");
    for _ in 0..5 {
        let output = command(clients, package, kept)?.arg(name).output();
        if said(&output.map_err(|error| format!("cargo test: {error}"))?).contains(&passed) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The `cargo test` of a suite.
pub(super) fn command(clients: &Clients, package: &Package, kept: &Path) -> Result<Command, String> {
    let shim = package.shim.filter(|_| clients.behind == Behind::Esker);
    let copy = copied(clients, package)?;
    let cargo = |arguments: &[&str], patches: &[String]| {
        let mut cargo = Command::new("cargo");
        cargo.args(arguments).current_dir(&copy).env("RUSTUP_TOOLCHAIN", "stable");
        cargo.args(patches.iter().flat_map(|patch| ["--config", patch]));
        cargo
    };
    let mut patches = Vec::new();
    if let Some(shim) = shim {
        let sys = if shim == "oxrocksdb-sys" { shim } else { "librocksdb-sys" };
        patches.push(patch(sys, &clients.root.join("shims").join(shim)));
        if package.is_locked {
            let output = super::checked(&mut cargo(&["update", "-p", sys], &patches))?;
            all_patches_are_used(package, &said(&output))?;
        }
    }
    // With Esker's versions of crates, all suites share one build of Esker.
    write(&copy.join("Cargo.lock"), &read(&clients.root.join("Cargo.lock"))?)?;
    patches.push(patch("tempfile", &keeping_tempfile(clients)?));
    let mut test = cargo(&["test", "--no-fail-fast"], &patches);
    test.args(package.arguments);
    if clients.behind == Behind::RocksDb && package.krate == "oxigraph" {
        test.args(["--features", "rocksdb-pkg-config"]);
    }
    test.arg("--").args(package.skipped.iter().flat_map(|name| ["--skip", name]));
    if shim.is_none() {
        test.envs(stock_environment(clients, package.sys)?);
    }
    test.env("CARGO_TARGET_DIR", clients.dir.join(if shim.is_some() { "target" } else { "target-stock" }))
        .envs([("CARGO_PROFILE_DEV_DEBUG", "false"), ("CARGO_PROFILE_TEST_DEBUG", "false")])
        .envs([("CARGO_INCREMENTAL", "0"), ("CARGO_TERM_COLOR", "never")])
        .env("TMPDIR", kept);
    Ok(test)
}

/// The environment in which the stock `librocksdb-sys` of version `sys` finds the library.
pub(super) fn stock_environment(
    clients: &Clients,
    sys: &str,
) -> Result<[(&'static str, PathBuf); 4], String> {
    super::checked(Command::new("bash").arg(".ci/fetch-libclang").current_dir(&clients.root))?;
    let prefix = match clients.behind {
        Behind::Esker => clients.esker.clone(),
        Behind::RocksDb => clients.rocksdb(sys)?,
    };
    Ok([
        ("ROCKSDB_LIB_DIR", prefix.join("lib")),
        ("LD_LIBRARY_PATH", prefix.join("lib")),
        ("ROCKSDB_INCLUDE_DIR", prefix.join("include")),
        // Oxigraph finds the library by pkg-config.
        ("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")),
    ])
}

/// Checks that cargo does not ignore a patch.
/// # Errors
/// The line of `text`, cargo's output, that says so.
fn all_patches_are_used(package: &Package, text: &str) -> Outcome {
    match text.lines().find(|line| line.contains("was not used in the crate graph")) {
        Some(line) => Err(format!("{}: {line}", package.name)),
        None => Ok(()),
    }
}

/// Judges the output of `cargo test`.
pub(super) fn verdict(package: &Package, behind: Behind, text: &str) -> Outcome {
    let verdicts = |verdict: &str| -> Vec<String> {
        let lines = text.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(verdict));
        lines.map(|name| name.trim().to_string()).collect()
    };
    all_patches_are_used(package, text)?;
    if let Some(line) = text.lines().find(|line| line.contains("(signal: ")) {
        let end = super::tail(text, 60);
        return Err(format!("{}: a test died: {line}\n{end}", package.name));
    }
    let title = format!("{} {}", package.krate, package.version);
    let more = if behind == Behind::RocksDb { package.fails_on_rocksdb } else { &[] };
    let known = [package.fails, more].concat();
    report(&title, &verdicts("... ok"), &verdicts("... FAILED"), &known, text)
}

/// A copy of the package, as a workspace of its own.
fn copied(clients: &Clients, package: &Package) -> Result<PathBuf, String> {
    let from = fetched(&clients.root, package.krate, package.version)?;
    let copy = fresh(&clients.dir.join(format!("{}-{}", package.krate, package.version)))?;
    copy_dir(&from, &copy)?;
    let toolchain = copy.join("rust-toolchain.toml");
    if toolchain.exists() {
        std::fs::remove_file(&toolchain).map_err(|error| format!("{}: {error}", toolchain.display()))?;
    }
    let manifest = read(&copy.join("Cargo.toml"))? + package.manifest + "\n[workspace]\n";
    write(&copy.join("Cargo.toml"), &manifest)?;
    if package.krate == "rocksdb" {
        // Its tests destroy their databases: a copy stays.
        let kept = "fn drop(&mut self) {\n        let kept = self.dir.path().join(\"kept\");\n        \
                    let _ = std::process::Command::new(\"cp\").arg(\"-r\").arg(&self.path).arg(kept).output();\n";
        replace_below(&copy, "tests/util/mod.rs", "fn drop(&mut self) {\n", kept)?;
    }
    Ok(copy)
}

/// Crate `tempfile`, whose directories stay, in the version of Esker's lock file.
fn keeping_tempfile(clients: &Clients) -> Result<PathBuf, String> {
    const VERSION: &str = "3.27.0";
    let from = fetched(&clients.root, "tempfile", VERSION)?;
    let copy = clients.dir.join(format!("tempfile-{VERSION}"));
    if !copy.exists() {
        copy_dir(&from, &copy)?;
        replace_below(&copy, "src/dir/mod.rs", "if !self.disable_cleanup {", "if false {")?;
    }
    Ok(copy)
}

fn patch(krate: &str, path: &Path) -> String {
    format!("patch.crates-io.{krate}.path=\"{}\"", path.display())
}
