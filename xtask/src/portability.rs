//! `cargo xtask long portability`: Esker on other systems and processors.
//!
//! In: the compilers that `.ci/fetch-cross` fetches. Out: a line for each target, or the first
//! failure. The compiler of this repository has the standard library of one target only. So the
//! builds here use Debian's compiler, and the standard library from its sources (`-Zbuild-std`,
//! which `RUSTC_BOOTSTRAP` lets a stable cargo accept), or for aarch64 from Debian.
//!
//! | target | what runs |
//! |---|---|
//! | `aarch64-unknown-linux-gnu` | unit tests of the library crates, under qemu |
//! | `x86_64-unknown-linux-musl` | the same tests |
//! | `aarch64-apple-darwin` | a check of the engine without zstd, whose C code needs headers |
//! | `i686-unknown-linux-gnu` | a check that must fail with the reason |
//! | `wasm32-unknown-unknown` | the reader in node, on the databases in `fixtures` |

use crate::commands::{self, Outcome, run};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The library crates, from the bottom up.
const LIBRARIES: [&str; 9] = [
    "esker-base",
    "esker-env",
    "esker-format",
    "esker-cache",
    "esker-lock",
    "esker-memtable",
    "esker-table",
    "esker",
    "esker-wasm",
];

/// A test that cannot pass on a target.
struct Skipped {
    test: &'static str,
    why: &'static str,
}

/// Tests that need calls of the kernel that qemu does not pass on.
const UNDER_QEMU: [Skipped; 1] = [Skipped {
    test: "a_child_of_a_bare_clone_is_not_the_owner_but_has_owners_of_its_own",
    why: "qemu has no MADV_WIPEONFORK",
}];

/// Tests that need the GNU C library.
const WITH_MUSL: [Skipped; 2] = [
    Skipped {
        test: "the_nth_operation_of_a_kind_fails_a_given_number_of_times",
        why: "musl has other words for EIO",
    },
    Skipped { test: "errors_name_operation_path_and_offset", why: "musl has other words for EIO" },
];

/// Words of the refusal in `crates/env/src/lib.rs`.
const REFUSAL: &str = "Esker's engine needs a 64-bit system";

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
            ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", "qemu-aarch64 -L /usr/aarch64-linux-gnu"),
        ]);
        self.tests(&env, &["--target", "aarch64-unknown-linux-gnu"], &UNDER_QEMU)
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

    /// Runs the unit tests of the library crates. Returns a line with their number.
    fn tests(&self, env: &[(&str, &str)], flags: &[&str], skipped: &[Skipped]) -> Result<String, String> {
        let packages: Vec<&str> = LIBRARIES.iter().flat_map(|name| ["-p", name]).collect();
        let skips: Vec<&str> = skipped.iter().flat_map(|skipped| ["--skip", skipped.test]).collect();
        let args = [&["test", "--lib", "--no-fail-fast"], flags, &packages, &["--"], &skips].concat();
        let passed = counted(&self.root, env, &args)?;
        let mut line = format!("{passed} unit tests passed, {} skipped", skipped.len());
        for Skipped { test, why } in skipped {
            line.push_str(&format!("\n{:28}skipped {test}: {why}", ""));
        }
        Ok(line)
    }
}

/// Runs cargo, shows what it prints, and returns the number of tests that passed.
fn counted(root: &Path, env: &[(&str, &str)], args: &[&str]) -> Result<u64, String> {
    eprintln!("$ cargo {}", args.join(" "));
    let mut command = Command::new("cargo");
    command.args(args).envs(env.iter().copied()).current_dir(root).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|e| format!("cargo: {e}"))?;
    let output = child.stdout.take().expect("the output is a pipe");
    let mut passed = 0;
    for line in BufReader::new(output).lines() {
        let line = line.map_err(|e| format!("cargo: {e}"))?;
        passed += passed_in(&line);
        if !line.ends_with(" ... ok") {
            println!("{line}");
        }
    }
    let status = child.wait().map_err(|e| format!("cargo: {e}"))?;
    if status.success() { Ok(passed) } else { Err(format!("failed: cargo {}", args.join(" "))) }
}

/// The number in a line such as "test result: ok. 12 passed; 0 failed; …".
fn passed_in(line: &str) -> u64 {
    let rest = line.strip_prefix("test result: ok. ").and_then(|rest| rest.split_once(" passed;"));
    rest.and_then(|(number, _)| number.parse().ok()).unwrap_or(0)
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
        assert_eq!(passed_in("test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured"), 12);
        assert_eq!(passed_in("test result: FAILED. 12 passed; 1 failed"), 0);
        assert_eq!(passed_in("test a::b ... ok"), 0);
    }

    #[test]
    fn the_engine_refuses_32_bits_in_these_words() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace");
        let source =
            std::fs::read_to_string(root.join("crates/env/src/lib.rs")).expect("the source is there");
        assert!(source.contains(REFUSAL));
    }
}
