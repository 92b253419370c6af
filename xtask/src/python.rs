//! The Python package in `crates/python`: `cargo xtask python [build|wheel]`, `cargo xtask long
//! python`.
//!
//! In: a Python of at least 3.11 with `venv`: `$PYTHON`, or `python3`. pip fetches the tools of
//! `crates/python/requirements.txt` into a virtual environment, `target/python/venv`. Out: the
//! package, built there, its stubs checked and its tests run; or a wheel in `target/python/wheels`
//! that works in an empty virtual environment.

use crate::commands::{Outcome, run};
use std::fs;
use std::path::{Path, PathBuf};

/// Oldest version of Python that the package supports, as `sys.version_info` has it.
const OLDEST: &str = "(3, 11)";

/// A program that a fresh installation must run.
const SMOKE: &str = "import esker, tempfile\n\
    with esker.open(tempfile.mkdtemp() + '/db') as db:\n    \
        db[b'esker'] = b'gravel'\n    \
        assert dict(db.items()) == {b'esker': b'gravel'}\n\
    print('esker works:', esker.__file__)";

struct Package {
    root: PathBuf,
    /// `crates/python`.
    dir: PathBuf,
    /// Directory for everything that is built.
    target: PathBuf,
}

impl Package {
    fn new(root: &Path) -> Package {
        Package { root: root.to_owned(), dir: root.join("crates/python"), target: root.join("target/python") }
    }

    /// A program of the virtual environment.
    fn tool(&self, name: &str) -> String {
        self.target.join("venv/bin").join(name).to_string_lossy().into_owned()
    }

    /// Runs a program of the virtual environment. Its working directory is `crates/python`.
    fn run_tool(&self, name: &str, args: &[&str], more: &[(&str, &str)]) -> Outcome {
        let venv = self.target.join("venv").to_string_lossy().into_owned();
        let target = self.target.to_string_lossy().into_owned();
        let env = [&[("VIRTUAL_ENV", &*venv), ("CARGO_TARGET_DIR", &*target)], more].concat();
        run(&self.dir, &env, &self.tool(name), args)
    }

    /// Makes the virtual environment with the tools, unless it has them.
    fn make_venv(&self) -> Outcome {
        let wanted = fs::read_to_string(self.dir.join("requirements.txt")).map_err(|e| e.to_string())?;
        let stamp = self.target.join("venv/requirements.txt");
        if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
            return Ok(());
        }
        let venv = self.target.join("venv").to_string_lossy().into_owned();
        new_venv(&self.root, &venv)?;
        let args =
            ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", "requirements.txt"];
        self.run_tool("python", &args, &[])?;
        fs::write(&stamp, wanted).map_err(|e| format!("{}: {e}", stamp.display()))
    }

    /// Builds the package into the virtual environment.
    fn develop(&self) -> Outcome {
        self.make_venv()?;
        self.run_tool("maturin", &["develop", "--quiet", "--locked"], &[])
    }
}

/// Makes an empty virtual environment in `dir`.
/// # Errors
/// Python is not there, or too old.
fn new_venv(root: &Path, dir: &str) -> Outcome {
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let check = format!("import sys; sys.exit(sys.version_info < {OLDEST})");
    run(root, &[], &python, &["-c", &check]).map_err(|e| {
        format!("{e}\nthe Python package needs Python >= 3.11 with venv; set PYTHON to one, or run .ci/fetch-python")
    })?;
    run(root, &[], &python, &["-m", "venv", "--clear", dir])
}

/// Builds the package into the virtual environment, for a later `test`.
pub(crate) fn build(root: &Path) -> Outcome {
    Package::new(root).develop()
}

/// Checks the format of the native module, builds the package, checks its types and runs its tests.
/// `examples` is the number of examples of each property test.
pub(crate) fn test(root: &Path, examples: u32) -> Outcome {
    let package = Package::new(root);
    run(&package.dir, &[], "cargo", &["fmt", "--check"])?;
    package.develop()?;
    package.run_tool("mypy", &["python/esker", "examples"], &[])?;
    let stubtest = ["-m", "mypy.stubtest", "esker", "--allowlist", "stubtest-allowlist.txt"];
    package.run_tool("python", &stubtest, &[])?;
    let examples = examples.to_string();
    package.run_tool("python", &["-m", "pytest"], &[("ESKER_EXAMPLES", &examples)])
}

/// Runs the lints of the native module, and the tests with many examples. Builds and tries a wheel.
pub(crate) fn long(root: &Path) -> Outcome {
    let package = Package::new(root);
    let target = package.target.to_string_lossy().into_owned();
    let lints = ["clippy", "--all-targets", "--quiet", "--", "-D", "warnings"];
    run(&package.dir, &[("CARGO_TARGET_DIR", &*target)], "cargo", &lints)?;
    test(root, 1000)?;
    wheel(root)
}

/// Builds a wheel in a release build, and tries it in an empty virtual environment.
pub(crate) fn wheel(root: &Path) -> Outcome {
    let package = Package::new(root);
    package.make_venv()?;
    let wheels = package.target.join("wheels");
    if wheels.exists() {
        fs::remove_dir_all(&wheels).map_err(|e| format!("{}: {e}", wheels.display()))?;
    }
    let out = wheels.to_string_lossy().into_owned();
    package.run_tool("maturin", &["build", "--release", "--locked", "--out", &out], &[])?;
    let empty = package.target.join("empty-venv").to_string_lossy().into_owned();
    new_venv(root, &empty)?;
    let python = format!("{empty}/bin/python");
    let install = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-index",
        "--find-links",
        &out,
        "esker",
    ];
    run(root, &[], &python, &install)?;
    run(root, &[], &python, &["-c", SMOKE])
}
