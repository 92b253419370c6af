//! Commands that run other tools.

use crate::{campaigns, instructions, mutants, tidy};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

pub(crate) type Outcome = Result<(), String>;

/// Number of seeds of each property test in `long`; `test` runs fewer.
const LONG_ROUNDS: &str = "2000";

/// Runs a tool in `root`. Its output goes to the streams of this process.
pub(crate) fn run(root: &Path, env: &[(&str, &str)], program: &str, args: &[&str]) -> Outcome {
    let setting: String = env.iter().map(|(key, value)| format!("{key}='{value}' ")).collect();
    let line = format!("{setting}{program} {}", args.join(" "));
    eprintln!("$ {line}");
    let status = Command::new(program)
        .args(args)
        .envs(env.iter().copied())
        .current_dir(root)
        .status()
        .map_err(|e| format!("{line}: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("failed: {line}")) }
}

fn cargo(root: &Path, args: &[&str]) -> Outcome {
    run(root, &[], "cargo", args)
}

/// The directory of cargo's builds.
pub(crate) fn target_dir(root: &Path) -> PathBuf {
    root.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// Runs format, tidy, clippy and tests: for changed packages, or for all packages with `all`.
pub(crate) fn check(root: &Path, all: bool) -> Outcome {
    cargo(root, &["fmt", "--check"])?;
    tidy::run(root)?;
    let touched = if all { None } else { touched_packages(root)? };
    let selection = match &touched {
        None => vec!["--workspace".to_owned()],
        Some(packages) if packages.is_empty() => return Ok(()),
        Some(packages) => packages.iter().flat_map(|p| ["-p".to_owned(), p.clone()]).collect(),
    };
    let selection: Vec<&str> = selection.iter().map(String::as_str).collect();
    let clippy = [&["clippy", "--all-targets"][..], &selection, &["--", "-D", "warnings"]].concat();
    cargo(root, &clippy)?;
    cargo(root, &[&["test"][..], &selection].concat())
}

/// Builds the guide, docs/guide, as a book in `target/guide`. Installs mdBook in `target/tools` if
/// mdBook is not there.
pub(crate) fn guide(root: &Path) -> Outcome {
    let tools = root.join("target/tools");
    let mdbook = tools.join("bin/mdbook");
    if !mdbook.exists() {
        let tools = tools.to_string_lossy();
        cargo(
            root,
            &[
                "install",
                "--quiet",
                "--locked",
                "--no-default-features",
                "--version",
                "0.5.4",
                "--root",
                &tools,
                "mdbook",
            ],
        )?;
    }
    run(root, &[], &mdbook.to_string_lossy(), &["build", "docs/guide"])
}

/// Packages with files that differ from `main` or are not committed. `None` if a file outside all
/// packages has changed.
fn touched_packages(root: &Path) -> Result<Option<BTreeSet<String>>, String> {
    let git = |args: &[&str]| -> Result<String, String> {
        let output =
            Command::new("git").args(args).current_dir(root).output().map_err(|e| format!("git: {e}"))?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let base = git(&["merge-base", "HEAD", "main"])?;
    let base = if base.trim().is_empty() { "HEAD" } else { base.trim() };
    let mut files = git(&["diff", "--name-only", base])?;
    files.push_str(&git(&["ls-files", "--others", "--exclude-standard"])?);
    let mut packages = BTreeSet::new();
    for file in files.lines() {
        let mut parts = file.split('/');
        match (parts.next(), parts.next()) {
            // A workspace of its own, with a command of its own.
            (Some("crates"), Some("python")) => continue,
            (Some("crates"), Some(dir)) => packages.insert(package_name(dir)),
            (Some("xtask"), _) => packages.insert("xtask".to_owned()),
            (Some("docs" | "fixtures" | "fuzz"), _) => continue,
            (Some(name), None) if name.ends_with(".md") => continue,
            _ => return Ok(None),
        };
    }
    // A removed package cannot be tested.
    packages.retain(|name| name == "xtask" || root.join("crates").join(directory_name(name)).is_dir());
    Ok(Some(packages))
}

/// The package in `crates/<dir>`: the directory's name with a prefix, except for `esker`.
fn package_name(dir: &str) -> String {
    if dir == "esker" { dir.to_owned() } else { format!("esker-{dir}") }
}

fn directory_name(package: &str) -> &str {
    package.strip_prefix("esker-").unwrap_or(package)
}

/// Runs every fast test.
pub(crate) fn test(root: &Path) -> Outcome {
    cargo(root, &["test", "--workspace"])
}

/// Compares Esker with other engines, in a release build. Also runs Esker through the C functions
/// of its library.
pub(crate) fn compare(root: &Path, flags: &[&str]) -> Outcome {
    cargo(root, &["build", "--release", "--package", "esker-capi"])?;
    let cargo_args = ["run", "--release", "--package", "esker-bench-compare", "--features", "peers", "--"];
    cargo(root, &[&cargo_args, flags].concat())
}

/// Runs the tests of lock-free and blocking code: with loom in all interleavings that loom
/// distinguishes, with shuttle in many random interleavings.
pub(crate) fn models(root: &Path) -> Outcome {
    for model in modelled(root)? {
        let which: &[&str] = match model.tool {
            "loom" => &["--lib", "-p", &model.package, "--", "--nocapture", "loom"],
            _ => &["-p", &model.package, "--", "shuttle"],
        };
        run(root, &model.env(), "cargo", &[&["test", "--profile", "stress"], which].concat())?;
    }
    Ok(())
}

/// Checks that the code for loom and shuttle compiles. Builds without their flags leave it out.
pub(crate) fn check_models(root: &Path) -> Outcome {
    for model in modelled(root)? {
        let which = if model.tool == "loom" { "--lib" } else { "--all-targets" };
        run(root, &model.env(), "cargo", &["check", "--profile", "test", which, "-p", &model.package])?;
    }
    Ok(())
}

/// A package with tests for loom or shuttle, and the settings of their build.
struct Modelled {
    package: String,
    tool: &'static str,
    flags: &'static str,
    target: &'static str,
}

impl Modelled {
    fn env(&self) -> [(&'static str, &'static str); 2] {
        [("RUSTFLAGS", self.flags), ("CARGO_TARGET_DIR", self.target)]
    }
}

fn modelled(root: &Path) -> Result<Vec<Modelled>, String> {
    let of = |tool, prefix| {
        let model = move |dir: String| {
            let (flags, target) = match (tool, dir.as_str()) {
                // The tests of epochs need crossbeam's epochs, built for loom.
                ("loom", "base") => ("--cfg loom --cfg crossbeam_loom", "target/loom-epochs"),
                ("loom", _) => ("--cfg loom", "target/loom"),
                _ => ("--cfg shuttle", "target/shuttle"),
            };
            Modelled { package: package_name(&dir), tool, flags, target }
        };
        packages_with_tests_named(root, prefix).map(|dirs| dirs.into_iter().map(model))
    };
    Ok(of("loom", "loom_")?.chain(of("shuttle", "shuttle_")?).collect())
}

/// Runs the engine's tests on each kind of block cache, on a small cache, and on a small cache with
/// a secondary cache.
pub(crate) fn caches(root: &Path) -> Outcome {
    const CACHES: [&str; 5] = [
        "{id=lru_cache;capacity=32M}",
        "{id=fixed_hyper_clock_cache;capacity=32M;estimated_entry_charge=4096}",
        "{id=auto_hyper_clock_cache;capacity=32M}",
        "{id=auto_hyper_clock_cache;capacity=64k}",
        "{id=lru_cache;capacity=64k;num_shard_bits=0;compressed_secondary_cache={capacity=256k}}",
    ];
    for cache in CACHES {
        println!("on {cache}");
        let env = [
            ("RUSTFLAGS", "--cfg esker_test_cache"),
            ("CARGO_TARGET_DIR", "target/caches"),
            ("ESKER_TEST_BLOCK_CACHE", cache),
        ];
        run(root, &env, "cargo", &["test", "--lib", "--tests", "-p", "esker"])?;
    }
    Ok(())
}

/// A part of the long run.
struct Step {
    name: &'static str,
    /// The part's weight when the remaining time is divided among this part and later parts. 0
    /// means that the part runs as long as it needs.
    share: u32,
    run: fn(&Path, u32) -> Outcome,
}

const STEPS: [Step; 18] = [
    Step { name: "instructions", share: 0, run: |root, _| instructions::check(root, false) },
    Step { name: "loom", share: 0, run: |root, _| models(root) },
    Step { name: "many seeds", share: 0, run: |root, _| many_seeds(root) },
    Step { name: "caches", share: 0, run: |root, _| caches(root) },
    Step { name: "model", share: 0, run: |root, _| campaigns::model(root) },
    Step { name: "durability", share: 0, run: |root, _| campaigns::durability(root) },
    Step { name: "hostile", share: 0, run: |root, _| campaigns::hostile(root) },
    Step { name: "growth", share: 0, run: |root, _| campaigns::growth(root) },
    Step { name: "mutants", share: 0, run: |root, _| mutants::run_all(root, &[], 10) },
    Step { name: "metamorphic", share: 1, run: campaigns::metamorphic },
    Step { name: "sim", share: 3, run: campaigns::sim },
    Step { name: "threads", share: 1, run: campaigns::threads },
    Step { name: "scans", share: 1, run: campaigns::scans },
    Step { name: "locks", share: 1, run: campaigns::locks },
    Step { name: "crash_test", share: 3, run: campaigns::crash_test },
    Step { name: "sanitizers", share: 1, run: campaigns::sanitizers },
    Step { name: "compat", share: 0, run: |root, _| campaigns::compat(root) },
    Step { name: "fuzz", share: 6, run: fuzz },
];

/// Runs the campaigns of a night, `minutes` in all: model checks of lock-free code, many seeds, the
/// campaigns, mutants, every fuzz target. Campaigns without a fixed length share the remaining
/// time.
/// # Errors
/// The first failure, or the campaigns that did not begin because the time was over.
pub(crate) fn long(root: &Path, minutes: u32) -> Outcome {
    let begin = Instant::now();
    let mut not_run = Vec::new();
    for (at, step) in STEPS.iter().enumerate() {
        let spent = u32::try_from(begin.elapsed().as_secs() / 60).unwrap_or(u32::MAX);
        let left = minutes.saturating_sub(spent);
        if left == 0 {
            not_run.push(step.name);
            continue;
        }
        let shares: u32 = STEPS[at..].iter().map(|s| s.share).sum();
        eprintln!("== {} ({left} of {minutes} minutes left)", step.name);
        (step.run)(root, share_of(left, step.share, shares))?;
    }
    if not_run.is_empty() { Ok(()) } else { Err(format!("no time was left for: {}", not_run.join(", "))) }
}

/// Minutes for a step: at least one.
fn share_of(left: u32, share: u32, shares: u32) -> u32 {
    (left * share / shares.max(1)).max(1)
}

fn many_seeds(root: &Path) -> Outcome {
    let many = [("ROUNDS", LONG_ROUNDS)];
    run(root, &many, "cargo", &["test", "--profile", "stress", "--workspace", "--", "--include-ignored"])
}

/// Directories below `crates` with tests for a model checker. The names of these tests start with
/// `prefix`.
fn packages_with_tests_named(root: &Path, prefix: &str) -> Result<BTreeSet<String>, String> {
    let (files, test) = (tidy::sources(root)?, format!("fn {prefix}"));
    let with_tests = files.iter().filter(|f| f.text.contains("#[test]") && f.text.contains(&test));
    Ok(with_tests
        .filter_map(|f| f.path.strip_prefix("crates/")?.split('/').next().map(str::to_owned))
        .collect())
}

/// Runs every fuzz target, all together for `minutes`. The sanitizer needs unstable flags.
/// `RUSTC_BOOTSTRAP` lets a stable compiler accept these.
fn fuzz(root: &Path, minutes: u32) -> Outcome {
    let targets = tidy::fuzz_targets(root)?;
    let each = (u64::from(minutes) * 60 / targets.len().max(1) as u64).max(60);
    let seconds = format!("-max_total_time={each}");
    // The program that calls RocksDB is built without the fuzzer's instrumentation.
    cargo(root, &["build", "--package", "esker-fuzz", "--bins"])?;
    let oracle = target_dir(root).join("debug/esker-fuzz-oracle").to_string_lossy().into_owned();
    let env = [("RUSTC_BOOTSTRAP", "1"), ("ESKER_FUZZ_ORACLE", oracle.as_str())];
    for target in targets {
        let args = ["fuzz", "run", &target, "--", &seconds, "-rss_limit_mb=2048", "-timeout=30"];
        run(root, &env, "cargo", &args)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_the_time_add_up_to_it() {
        let mut left = 160;
        for (at, step) in STEPS.iter().enumerate().filter(|(_, step)| step.share > 0) {
            let shares = STEPS[at..].iter().map(|s| s.share).sum();
            left -= share_of(left, step.share, shares);
        }
        assert_eq!(left, 0);
        assert_eq!(share_of(0, 1, 0), 1);
    }
}
