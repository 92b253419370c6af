//! Instructions per operation, as valgrind counts them: a measure that a busy machine does not
//! change.
//!
//! `cargo bench -p esker-bench --bench instructions` runs every scenario under callgrind and prints
//! a line for each: its name, a tab, instructions per operation. Names behind `--` choose
//! scenarios. `cargo xtask instructions` compares the lines with `crates/bench/instructions.txt`.
//! The profiles stay in `tmp/instructions` of the target directory, for `callgrind_annotate`.
//! Without cargo's `--bench`, as a test, each scenario runs once and nothing is counted.
//!
//! Invariants
//!  1. Callgrind counts the instructions below `counted_by_callgrind`. By then all other threads
//!     are idle.
//!  2. Keys follow from fixed numbers, files are in memory, and each kind of operation ran before
//!     it is counted.
//!  3. Every answer is checked: no scenario measures a mistake.
#![expect(clippy::print_stdout, reason = "that is what it is for")]
#![expect(clippy::disallowed_methods, reason = "profiles go to the real disk")]

mod scenarios;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Pattern of the function whose instructions callgrind counts, whatever the symbol's decoration.
const COUNTED: &str = "*counted_by_callgrind*";

type Result<T> = std::result::Result<T, String>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let names: Vec<&str> = args.iter().map(String::as_str).filter(|a| !a.starts_with('-')).collect();
    let result = if args.iter().any(|a| a == "--run") {
        names.iter().try_for_each(|name| run(name, scenarios::COUNTED_OPERATIONS))
    } else if args.iter().any(|a| a == "--bench") {
        chosen(&names).and_then(|names| names.into_iter().try_for_each(count_and_print))
    } else {
        scenarios::ALL.iter().try_for_each(|(name, _)| run(name, scenarios::TESTED_OPERATIONS))
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            println!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The scenarios with these names, or all.
fn chosen(names: &[&str]) -> Result<Vec<&'static str>> {
    if let Some(unknown) = names.iter().find(|name| !scenarios::ALL.iter().any(|(known, _)| known == *name)) {
        let known: Vec<&str> = scenarios::ALL.iter().map(|(name, _)| *name).collect();
        return Err(format!("there is no scenario '{unknown}'; there are: {}", known.join(", ")));
    }
    let all = scenarios::ALL.iter().map(|(name, _)| *name);
    Ok(all.filter(|name| names.is_empty() || names.contains(name)).collect())
}

fn run(name: &str, operations: u64) -> Result<()> {
    let scenario = scenarios::ALL.iter().find(|(known, _)| *known == name);
    let (_, scenario) = scenario.ok_or_else(|| format!("there is no scenario '{name}'"))?;
    scenario(operations).map_err(|e| format!("{name}: {e}"))
}

fn count_and_print(name: &str) -> Result<()> {
    let instructions = count(name)?;
    println!("{name}\t{}", instructions.div_ceil(scenarios::COUNTED_OPERATIONS));
    Ok(())
}

/// Instructions of all counted operations of a scenario. The scenario runs in a process of its own.
/// Its environment has `LC_ALL` only.
fn count(name: &str) -> Result<u64> {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("instructions");
    std::fs::create_dir_all(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    let profile = directory.join(format!("{name}.callgrind"));
    let this: PathBuf = std::env::current_exe().map_err(|e| format!("this program's path: {e}"))?;
    let output = Command::new(valgrind()?)
        .args(["--tool=callgrind", "--collect-atstart=no"])
        .arg(format!("--toggle-collect={COUNTED}"))
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .arg(this)
        .args(["--run", name])
        .env_clear()
        .env("LC_ALL", "C")
        .output()
        .map_err(|e| format!("valgrind: {e}; .ci/fetch-valgrind installs it"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!(
            "{name} under valgrind: {}\n{errors}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout)
        ));
    }
    let collected = errors.lines().filter_map(|line| line.split_once("Collected :")).next_back();
    let collected = collected.and_then(|(_, count)| count.trim().parse().ok()).filter(|&count| count > 0);
    collected.ok_or_else(|| format!("{name}: callgrind counted nothing; it said\n{errors}"))
}

/// The path of valgrind. Looked up here, because the child gets no `PATH`.
fn valgrind() -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join("valgrind")).find(|file| file.is_file());
    found.ok_or_else(|| "valgrind is missing; .ci/fetch-valgrind installs it".to_owned())
}
