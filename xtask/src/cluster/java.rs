//! Java programs of a cluster: jars that Maven fetches, a program of this tree, and the library.
//!
//! In: names of jars, a class of `crates/rocksdbjni/java`, and flags. Out: processes of the class,
//! which load `librocksdbjni.so` as it is built here, or the library in RocksJava's jar.

use super::build_dir;
use super::process::ClusterProcess;
use crate::clients::Behind;
use crate::commands::Outcome;
pub(super) use crate::jvm::Artifact as Jar;
use crate::jvm::{fetch_with_needed, library, said};
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

/// A program of this tree with its class path, and the directory of the library.
#[derive(Clone)]
pub(super) struct JavaBuild {
    class: &'static str,
    class_path: String,
    /// The directory of Esker's library. `None`: the library in the jar.
    library: Option<PathBuf>,
    _lock: Rc<fs::File>,
}

impl JavaBuild {
    /// Fetches the jars, and builds the class and the library.
    /// # Errors
    /// The flags are none of `--release` and `--rocksdb` · a build fails.
    pub(super) fn new(
        root: &Path,
        engine: &str,
        class: &'static str,
        jars: &[Jar],
        flags: &[&str],
    ) -> Result<JavaBuild, String> {
        let release = match flags {
            [] => Some(false),
            ["--release"] => Some(true),
            ["--rocksdb"] => None,
            _ => return Err(format!("cargo xtask cluster {engine} {USAGE}")),
        };
        let (dir, lock) = build_dir(root)?;
        let dir = dir.join(engine);
        let (jar_dir, classes) = (dir.join("jars"), dir.join("classes"));
        fs::create_dir_all(&classes).map_err(|e| format!("{}: {e}", classes.display()))?;
        fetch_with_needed(&dir, &jar_dir, jars)?;
        let all_jars = format!("{}/*", jar_dir.display());
        let source = root.join(format!("crates/rocksdbjni/java/{class}.java"));
        said(Command::new("javac").arg("-d").arg(&classes).arg("-cp").arg(&all_jars).arg(&source))?;
        let library = release.map(|release| library(root, &dir, release)).transpose()?;
        let class_path = format!("{all_jars}:{}", classes.display());
        Ok(JavaBuild { class, class_path, library, _lock: Rc::new(lock) })
    }

    /// The same program on the library in the jar, or still on Esker's.
    pub(super) fn on(&self, behind: Behind) -> JavaBuild {
        let library = self.library.clone().filter(|_| behind == Behind::Esker);
        JavaBuild { library, ..self.clone() }
    }

    /// Starts the class on the library. `options` are the JVM's.
    pub(super) fn start(
        &self,
        name: &str,
        options: &[&str],
        args: &[&str],
        log: &Path,
    ) -> Result<ClusterProcess, String> {
        let path = self.library.as_ref().map(|library| format!("-Djava.library.path={}", library.display()));
        let options: Vec<&str> = path.iter().map(String::as_str).chain(options.iter().copied()).collect();
        self.start_class(name, self.class, &options, args, log)
    }

    /// Starts a class of the jars.
    pub(super) fn start_class(
        &self,
        name: &str,
        class: &str,
        options: &[&str],
        args: &[&str],
        log: &Path,
    ) -> Result<ClusterProcess, String> {
        // A JVM that is killed leaves no file, and one that crashes writes its report to its log.
        let always = ["-XX:-UsePerfData", "-XX:+ErrorFileToStderr"];
        let words = [&always, options, &["-cp", &self.class_path, class], args].concat();
        let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        ClusterProcess::start(name, Path::new("java"), &words, &[], log)
    }

    /// Runs a class for four minutes at most, and returns what it prints.
    pub(super) fn said(&self, class: &str, args: &[&str]) -> Result<String, String> {
        said(
            Command::new("timeout")
                .args(["240", "java", "-Xmx192m", "-cp", &self.class_path, class])
                .args(args),
        )
    }

    /// Checks that the processes have loaded the library that is built here, if they should.
    pub(super) fn check_loaded(&self, processes: &[ClusterProcess]) -> Outcome {
        let Some(library) = &self.library else { return Ok(()) };
        for process in processes {
            if !process.has_mapped(&library.join("librocksdbjni.so"))? {
                return Err(format!("a process has not loaded Esker's library:\n{}", process.end_of_log()));
            }
        }
        println!("Esker's library is loaded");
        Ok(())
    }
}

const USAGE: &str = "[--release | --rocksdb | --compare [PAIRS]]
(a build with optimizations; RocksDB's own library; both in turn, without faults)";

/// A port of loopback that is free now.
pub(super) fn free_port() -> Result<u16, String> {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    Ok(port.map_err(|error| format!("no port of loopback is free: {error}"))?.port())
}
