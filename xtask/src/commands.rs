//! The commands that run other tools.

use crate::{campaigns, instructions, tidy};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

pub(crate) type Outcome = Result<(), String>;

/// Seeds that `long` gives to each property test, where `test` gives a handful.
const LONG_ROUNDS: &str = "2000";

/// Runs a tool in `root`, its output going where ours goes.
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

/// Format, tidy, clippy and tests, of what was touched or of everything.
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

/// Packages with files that differ from `main` or are not committed; `None` if a file outside of all packages does.
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
            (Some("crates"), Some(dir)) => packages.insert(package_name(dir)),
            (Some("xtask"), _) => packages.insert("xtask".to_owned()),
            (Some("docs" | "fixtures" | "fuzz"), _) => continue,
            (Some(name), None) if name.ends_with(".md") => continue,
            _ => return Ok(None),
        };
    }
    // A package that was removed cannot be tested.
    packages.retain(|name| name == "xtask" || root.join("crates").join(directory_name(name)).is_dir());
    Ok(Some(packages))
}

/// The package in `crates/<dir>`: `esker` itself, else with its prefix.
fn package_name(dir: &str) -> String {
    if dir == "esker" { dir.to_owned() } else { format!("esker-{dir}") }
}

fn directory_name(package: &str) -> &str {
    package.strip_prefix("esker-").unwrap_or(package)
}

/// Every fast test.
pub(crate) fn test(root: &Path) -> Outcome {
    cargo(root, &["test", "--workspace"])
}

/// Esker beside other engines, in a release build.
pub(crate) fn compare(root: &Path, flags: &[&str]) -> Outcome {
    let cargo_args = ["run", "--release", "--package", "esker-bench-compare", "--features", "peers", "--"];
    cargo(root, &[&cargo_args, flags].concat())
}

/// Lock-free and waiting code in all interleavings that loom tells apart; in many random ones where it uses shuttle.
pub(crate) fn models(root: &Path) -> Outcome {
    for dir in packages_with_tests_named(root, "loom_")? {
        let package = package_name(&dir);
        // Where epochs themselves are checked, crossbeam's are built for loom too.
        let (flags, target) = match dir.as_str() {
            "base" => ("--cfg loom --cfg crossbeam_loom", "target/loom-epochs"),
            _ => ("--cfg loom", "target/loom"),
        };
        let args = ["test", "--profile", "stress", "--lib", "-p", &package, "--", "--nocapture", "loom"];
        run(root, &[("RUSTFLAGS", flags), ("CARGO_TARGET_DIR", target)], "cargo", &args)?;
    }
    for dir in packages_with_tests_named(root, "shuttle_")? {
        let package = package_name(&dir);
        let args = ["test", "--profile", "stress", "-p", &package, "--", "shuttle"];
        run(root, &[("RUSTFLAGS", "--cfg shuttle"), ("CARGO_TARGET_DIR", "target/shuttle")], "cargo", &args)?;
    }
    Ok(())
}

/// The engine's tests on each kind of block cache, with little room, and above a tier.
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

/// What takes a night: model checks of lock-free code, many seeds, the campaigns, every fuzz target.
pub(crate) fn long(root: &Path, minutes: u32) -> Outcome {
    instructions::check(root, false)?;
    models(root)?;
    let many = [("ROUNDS", LONG_ROUNDS)];
    run(root, &many, "cargo", &["test", "--profile", "stress", "--workspace", "--", "--include-ignored"])?;
    caches(root)?;
    campaigns::model(root)?;
    campaigns::metamorphic(root, minutes)?;
    campaigns::sim(root, minutes)?;
    campaigns::threads(root, minutes)?;
    campaigns::locks(root, minutes)?;
    campaigns::durability(root)?;
    campaigns::door(root)?;
    campaigns::sanitizers(root, minutes)?;
    fuzz(root, minutes)
}

/// Directories below `crates` with a test whose name starts with `prefix`: the checkers' tests are told by their names.
fn packages_with_tests_named(root: &Path, prefix: &str) -> Result<BTreeSet<String>, String> {
    let (files, test) = (tidy::sources(root)?, format!("fn {prefix}"));
    let with_tests = files.iter().filter(|f| f.text.contains("#[test]") && f.text.contains(&test));
    Ok(with_tests
        .filter_map(|f| f.path.strip_prefix("crates/")?.split('/').next().map(str::to_owned))
        .collect())
}

/// Runs every fuzz target. The sanitizer needs unstable flags, which a stable compiler takes when it is told so.
fn fuzz(root: &Path, minutes: u32) -> Outcome {
    let seconds = format!("-max_total_time={}", u64::from(minutes) * 60);
    for target in tidy::fuzz_targets(root)? {
        let args = ["fuzz", "run", &target, "--", &seconds, "-rss_limit_mb=2048", "-timeout=30"];
        run(root, &[("RUSTC_BOOTSTRAP", "1")], "cargo", &args)?;
    }
    Ok(())
}
