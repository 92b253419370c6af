//! `cargo xtask long portability`: Esker on other systems and processors.
//!
//! In: the compilers that `.ci/fetch-cross` fetches. Out: a line for each target, or the first
//! failure. The compiler of this repository has the standard library of one target only. So the
//! builds here use Debian's compiler, and the standard library from its sources (`-Zbuild-std`,
//! which `RUSTC_BOOTSTRAP` lets a stable cargo accept), or for aarch64 from Debian.
//!
//! | target | what runs |
//! |---|---|
//! | `aarch64-unknown-linux-gnu` | all tests of the library crates, under qemu |
//! | `x86_64-unknown-linux-musl` | the same tests |
//! | `aarch64-apple-darwin` | a check of the engine without zstd, whose C code needs headers |
//! | `i686-unknown-linux-gnu` | a check that must fail with the reason |
//! | `wasm32-unknown-unknown` | the reader in node, on the databases in `fixtures` |

use crate::commands::{self, Outcome, run};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The library crates, from the bottom up.
const LIBRARIES: [&str; 10] = [
    "esker-base",
    "esker-env",
    "esker-format",
    "esker-cache",
    "esker-lock",
    "esker-memtable",
    "esker-table",
    "esker",
    "esker-wasm",
    "esker-encryption",
];

/// A test that cannot pass on a target.
struct Skipped {
    /// The test's path in its binary.
    test: &'static str,
    why: &'static str,
}

const NO_THREADS_AFTER_FORK: &str = "qemu 7.2 aborts when a forked child of many threads starts a thread";

/// Tests that qemu cannot run, mostly for calls of the kernel that it does not pass on.
const UNDER_QEMU: [Skipped; 9] = [
    Skipped {
        test: "sync::fork::tests::a_child_of_a_bare_clone_is_not_the_owner_but_has_owners_of_its_own",
        why: "qemu accepts MADV_WIPEONFORK and wipes nothing",
    },
    Skipped {
        test: "posix::mapped::tests::mapped_ends_take_little_memory_and_faults_read_nothing_ahead",
        why: "qemu accepts MADV_RANDOM and shows no such mapping",
    },
    Skipped {
        test: "refused::files_are_written_and_read_where_the_kernel_refuses_all_optional_calls",
        why: "qemu refuses filters of system calls",
    },
    Skipped {
        test: "statistics::batches_that_the_kernel_reads_together_are_counted",
        why: "qemu has no io_uring",
    },
    Skipped {
        test: "directories::a_database_whose_directory_was_emptied_stops_and_leaves_the_other_alone",
        why: NO_THREADS_AFTER_FORK,
    },
    Skipped {
        test: "directories::a_database_whose_directory_was_renamed_goes_on",
        why: NO_THREADS_AFTER_FORK,
    },
    Skipped {
        test: "directories::a_database_whose_directory_was_replaced_stops_and_leaves_the_other_alone",
        why: NO_THREADS_AFTER_FORK,
    },
    Skipped {
        test: "forks::a_daemon_that_used_the_default_environment_opens_a_database",
        why: NO_THREADS_AFTER_FORK,
    },
    Skipped { test: "forks::children_of_a_busy_parent_open_their_own_and_end", why: NO_THREADS_AFTER_FORK },
];

/// Tests that need the GNU C library.
const WITH_MUSL: [Skipped; 0] = [];

/// Words of the refusal in `crates/env/src/lib.rs`.
const REFUSAL: &str = "Esker's engine needs a 64-bit system";

/// The command that runs programs for aarch64; tests start their own children by it, too.
const EMULATOR: &str = "qemu-aarch64 -L /usr/aarch64-linux-gnu";

/// The flags of a build of the standard library.
const BUILD_STD: &str = "-Zbuild-std=std,panic_abort";

/// The check of a target. Its result is the rest of the target's line.
type Check = fn(&Cross) -> Result<String, String>;

/// Runs the named targets, or all.
pub(crate) fn run_all(root: &Path, names: &[&str]) -> Outcome {
    run(root, &[], "bash", &[".ci/fetch-cross"])?;
    let cross = Cross::new(root);
    let targets: [(&str, Check); 5] = [
        ("i686-unknown-linux-gnu", Cross::refusal),
        ("aarch64-apple-darwin", Cross::macos),
        ("wasm32-unknown-unknown", Cross::wasm),
        ("x86_64-unknown-linux-musl", Cross::musl),
        ("aarch64-unknown-linux-gnu", Cross::aarch64),
    ];
    if let Some(unknown) = names.iter().find(|name| targets.iter().all(|(target, _)| target != *name)) {
        return Err(format!("no target '{unknown}'"));
    }
    let mut lines = Vec::new();
    for (target, check) in targets {
        if names.is_empty() || names.contains(&target) {
            lines.push(format!("{target:<28}{}", check(&cross)?));
        }
    }
    lines.iter().for_each(|line| println!("{line}"));
    Ok(())
}

/// The other compiler, and a place for its builds.
struct Cross {
    root: PathBuf,
    rustc: String,
    /// The directory of the unwinder for musl.
    unwinder: String,
    target_dir: String,
}

impl Cross {
    fn new(root: &Path) -> Cross {
        let cross =
            std::env::var_os("ESKER_CROSS_DIR").map_or_else(|| root.join("target/cross"), PathBuf::from);
        let target_dir = commands::target_dir(root).join("portability");
        let text = |path: &Path| path.to_string_lossy().into_owned();
        Cross {
            root: root.to_owned(),
            rustc: text(&cross.join("bin/rustc")),
            unwinder: text(&cross.join("musl")),
            target_dir: text(&target_dir),
        }
    }

    /// The environment of a build, with the settings of a target.
    fn env<'e>(&'e self, settings: &[(&'e str, &'e str)]) -> Vec<(&'e str, &'e str)> {
        let common: [(&str, &str); 4] = [
            ("RUSTC", &self.rustc),
            ("RUSTC_BOOTSTRAP", "1"),
            ("CARGO_TARGET_DIR", &self.target_dir),
            ("CARGO_INCREMENTAL", "0"),
        ];
        [&common, settings].concat()
    }

    fn aarch64(&self) -> Result<String, String> {
        let env = self.env(&[
            ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc"),
            ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", EMULATOR),
            ("ESKER_TEST_RUNNER", EMULATOR),
        ]);
        let flags = ["--target", "aarch64-unknown-linux-gnu", "--profile", "emulated"];
        self.tests(&env, &flags, &UNDER_QEMU)
    }

    fn musl(&self) -> Result<String, String> {
        // The specs of musl-gcc know no static programs that may lie at any address.
        let flags = format!("-Clink-self-contained=no -Crelocation-model=static -Lnative={}", self.unwinder);
        let env = self.env(&[
            ("CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_LINKER", "musl-gcc"),
            ("CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_RUSTFLAGS", &flags),
        ]);
        let flags = ["--target", "x86_64-unknown-linux-musl", "-Zbuild-std=std,panic_unwind,test"];
        self.tests(&env, &flags, &WITH_MUSL)
    }

    fn macos(&self) -> Result<String, String> {
        let flags = ["--no-default-features", "--features", "bzip2,zlib"];
        let target = ["check", "--target", "aarch64-apple-darwin", BUILD_STD, "-p", "esker"];
        run(&self.root, &self.env(&[]), "cargo", &[&target[..], &flags].concat())?;
        Ok("compiles".to_owned())
    }

    fn refusal(&self) -> Result<String, String> {
        let args = ["check", "--target", "i686-unknown-linux-gnu", BUILD_STD, "-p", "esker-env"];
        eprintln!("$ cargo {} (must fail)", args.join(" "));
        let output = Command::new("cargo")
            .args(args)
            .envs(self.env(&[]))
            .current_dir(&self.root)
            .output()
            .map_err(|e| format!("cargo: {e}"))?;
        let text = String::from_utf8_lossy(&output.stderr);
        match !output.status.success() && text.contains(REFUSAL) {
            true => Ok("refused, with the reason".to_owned()),
            false => Err(format!("{text}\nthe check must fail, and say: {REFUSAL}")),
        }
    }

    fn wasm(&self) -> Result<String, String> {
        let linker = rust_lld(&self.root)?;
        let env = self.env(&[("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", &linker)]);
        let target = ["rustc", "--target", "wasm32-unknown-unknown", BUILD_STD];
        let library = ["-p", "esker-wasm", "--lib", "--crate-type", "cdylib"];
        run(&self.root, &env, "cargo", &[&target[..], &library].concat())?;
        let module = format!("{}/wasm32-unknown-unknown/debug/esker_wasm.wasm", self.target_dir);
        let test = ["--test", "crates/wasm/js/"];
        run(&self.root, &[("ESKER_WASM", &module)], "node", &test)?;
        Ok("reads the databases in fixtures, in node".to_owned())
    }

    /// Runs the tests of the library crates. Returns lines with their numbers and times.
    fn tests(&self, env: &[(&str, &str)], flags: &[&str], skipped: &[Skipped]) -> Result<String, String> {
        let packages: Vec<&str> = LIBRARIES.iter().flat_map(|name| ["-p", name]).collect();
        let skips: Vec<&str> = skipped.iter().flat_map(|skipped| ["--skip", skipped.test]).collect();
        let tests = ["test", "--tests", "--no-fail-fast"];
        let args = [&tests, flags, &packages, &["--", "--exact"], &skips].concat();
        let suites = suites(&self.root, env, &args)?;
        report(&suites, skipped)
    }
}

/// The tests of one binary.
#[derive(PartialEq, Debug)]
struct Suite {
    package: String,
    kind: &'static str,
    passed: u64,
    skipped: u64,
    seconds: f64,
}

/// Runs cargo, shows what it prints, and returns the suites that passed.
fn suites(root: &Path, env: &[(&str, &str)], args: &[&str]) -> Result<Vec<Suite>, String> {
    eprintln!("$ cargo {}", args.join(" "));
    let failed = |e| format!("cargo: {e}");
    // One pipe for both streams: cargo names a binary on one, and its tests report on the other.
    let (output, input) = std::io::pipe().map_err(failed)?;
    let mut command = Command::new("cargo");
    command.args(args).envs(env.iter().copied()).current_dir(root);
    command.env("CARGO_TERM_COLOR", "never").stdout(input.try_clone().map_err(failed)?).stderr(input);
    let mut child = command.spawn().map_err(failed)?;
    // The command has copies of the pipe's end, which would keep the pipe open.
    drop(command);
    let mut suites: Vec<Suite> = Vec::new();
    let (mut package, mut kind) = (String::new(), "");
    for line in BufReader::new(output).lines() {
        let line = line.map_err(failed)?;
        if !line.ends_with(" ... ok") {
            println!("{line}");
        }
        if let Some(binary) = binary_of(&line) {
            kind = if binary == "it" { "integration" } else { "unit" };
            if kind == "unit" {
                package = binary.replace('_', "-");
            }
        }
        if let Some((passed, skipped, seconds)) = result_in(&line) {
            suites.push(Suite { package: package.clone(), kind, passed, skipped, seconds });
        }
    }
    let status = child.wait().map_err(failed)?;
    if status.success() { Ok(suites) } else { Err(format!("failed: cargo {}", args.join(" "))) }
}

/// The lines about suites that passed.
fn report(suites: &[Suite], skipped: &[Skipped]) -> Result<String, String> {
    let sum = |number: fn(&Suite) -> u64| suites.iter().map(number).sum::<u64>();
    let (passed, left_out) = (sum(|suite| suite.passed), sum(|suite| suite.skipped));
    if left_out != skipped.len() as u64 {
        return Err(format!("{left_out} tests were skipped, and the list names {}", skipped.len()));
    }
    let seconds: f64 = suites.iter().map(|suite| suite.seconds).sum();
    let mut text = format!("{passed} tests passed, {left_out} skipped, in {seconds:.0} s");
    for Suite { package, kind, passed, seconds, .. } in suites {
        text.push_str(&format!("\n{:28}{package:<16}{passed:>4} {kind} tests in {seconds:.1} s", ""));
    }
    for Skipped { test, why } in skipped {
        text.push_str(&format!("\n{:28}skipped {test}: {why}", ""));
    }
    Ok(text)
}

/// The name of the binary in cargo's line "Running tests/it/main.rs (target/debug/deps/it-0c1f)".
fn binary_of(line: &str) -> Option<&str> {
    let (_, path) = line.trim_start().strip_prefix("Running ")?.strip_suffix(')')?.rsplit_once('(')?;
    let file = path.rsplit('/').next()?;
    file.rsplit_once('-').map(|(name, _)| name)
}

/// The numbers of passed and of skipped tests, and the seconds, in a line such as "test result: ok.
/// 12 passed; 0 failed; 0 ignored; 0 measured; 1 filtered out; finished in 0.75s".
fn result_in(line: &str) -> Option<(u64, u64, f64)> {
    let parts: Vec<&str> = line.strip_prefix("test result: ok. ")?.split("; ").collect();
    let number = |words: &str| parts.iter().find_map(|part| part.strip_suffix(words)?.parse().ok());
    let seconds = parts.iter().find_map(|part| part.strip_prefix("finished in ")?.strip_suffix('s'));
    Some((number(" passed")?, number(" filtered out")?, seconds?.parse().ok()?))
}

/// The linker for WebAssembly, which comes with the compiler of this repository.
fn rust_lld(root: &Path) -> Result<String, String> {
    let output = Command::new("rustc")
        .args(["--print", "sysroot"])
        .current_dir(root)
        .output()
        .map_err(|e| format!("rustc: {e}"))?;
    let sysroot = String::from_utf8_lossy(&output.stdout);
    Ok(format!("{}/lib/rustlib/x86_64-unknown-linux-gnu/bin/rust-lld", sysroot.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_tests_are_counted() {
        let line =
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.75s";
        assert_eq!(result_in(line), Some((12, 3, 0.75)));
        assert_eq!(result_in(&line.replace("ok", "FAILED")), None);
        assert_eq!(result_in("test a::b ... ok"), None);
        let line = "     Running unittests src/lib.rs (target/debug/deps/esker_base-0c1f)";
        assert_eq!(binary_of(line), Some("esker_base"));
        assert_eq!(binary_of("     Running tests/it/main.rs (target/debug/deps/it-0c1f)"), Some("it"));
        assert_eq!(binary_of("   Compiling esker-base v0.1.0 (crates/base)"), None);
    }

    #[test]
    fn a_list_of_skipped_tests_that_fits_no_test_is_a_failure() {
        let suite = |skipped| {
            let package = "esker-base".to_owned();
            Suite { package, kind: "unit", passed: 12, skipped, seconds: 0.75 }
        };
        let list = [Skipped { test: "a::b", why: "no a here" }];
        assert!(report(&[suite(1)], &list).unwrap().contains("12 tests passed, 1 skipped, in 1 s"));
        assert!(report(&[suite(0)], &list).is_err() && report(&[suite(1)], &[]).is_err());
    }

    #[test]
    fn the_engine_refuses_32_bits_in_these_words() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace");
        let source =
            std::fs::read_to_string(root.join("crates/env/src/lib.rs")).expect("the source is there");
        assert!(source.contains(REFUSAL));
    }
}
