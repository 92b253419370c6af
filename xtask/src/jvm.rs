//! Java programs on Esker: `cargo xtask long jvm`.
//!
//! In: the jars of RocksJava, which Maven fetches, and `librocksdbjni.so`, which is built here.
//! Out: an error if `natives.txt` differs from the natives in the jars, or if the program
//! `Differential.java` prints other lines on Esker than on RocksDB's own library. From releases 8.8
//! and 8.10 on the programs are `Differential88.java` and `Differential810.java`, which do more.
//! `SamzaStores.java` runs Samza's own stores. Each library also reads the databases that the other
//! one has written. Work files lie in `target/jvm`.

use crate::commands::{Outcome, target_dir};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A release of RocksJava, by the version in `natives.txt`.
struct Jar {
    version: &'static str,
    artifact: &'static str,
    file: &'static str,
    /// The class that is run.
    program: &'static str,
}

/// The releases: that of Samza, of RheaKV, of Flink, of Kafka Streams, and the newest.
const JARS: [Jar; 5] = [
    Jar {
        version: "7.0.3",
        artifact: "org.rocksdb:rocksdbjni:7.0.3",
        file: "rocksdbjni-7.0.3.jar",
        program: "Differential",
    },
    Jar {
        version: "8.8.1",
        artifact: "org.rocksdb:rocksdbjni:8.8.1",
        file: "rocksdbjni-8.8.1.jar",
        program: "Differential88",
    },
    Jar {
        version: "8.10.0",
        artifact: "com.ververica:frocksdbjni:8.10.0-ververica-1.0",
        file: "frocksdbjni-8.10.0-ververica-1.0.jar",
        program: "Differential810",
    },
    Jar {
        version: "10.1.3",
        artifact: "org.rocksdb:rocksdbjni:10.1.3",
        file: "rocksdbjni-10.1.3.jar",
        program: "Differential810",
    },
    Jar {
        version: "11.8.1",
        artifact: "org.rocksdb:rocksdbjni:11.8.1",
        file: "rocksdbjni-11.8.1.jar",
        program: "Differential810",
    },
];

/// An artifact in Maven's names: group, artifact, version.
pub(crate) type Artifact = (&'static str, &'static str, &'static str);

/// Samza's stores, which run on RocksJava 7.0.3.
const SAMZA: Artifact = ("org.apache.samza", "samza-kv-rocksdb_2.12", "1.8.0");

/// The head of `natives.txt`.
const HEAD: &str = "\
# The native methods of RocksJava, by class: name, descriptor, and the releases that have it.
# Releases: 7.0.3, 8.8.1, 10.1.3 and 11.8.1 of rocksdbjni, 8.10.0 of frocksdbjni; `all` means all.
# `cargo xtask long jvm` reads them out of the jars and compares.
";

/// Compares the natives and the programs' lines. With `record`, writes `natives.txt` instead.
pub(crate) fn run(root: &Path, record: bool) -> Outcome {
    let dir = root.join("target/jvm");
    let jars = dir.join("jars");
    fs::create_dir_all(&jars).map_err(|e| format!("{}: {e}", jars.display()))?;
    for jar in &JARS {
        fetch(&jars, jar)?;
    }
    let natives = natives_text(&dir, &jars)?;
    let path = root.join("crates/rocksdbjni/natives.txt");
    if record {
        return fs::write(&path, natives).map_err(|e| format!("{}: {e}", path.display()));
    }
    let recorded = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    if recorded != natives {
        return Err("natives.txt differs from the jars; `cargo xtask long jvm record` writes it".to_owned());
    }
    let library = library(root, &dir, false)?;
    for jar in &JARS {
        let program = Program {
            name: jar.version,
            class: jar.program,
            jars: jars.join(jar.file).display().to_string(),
        };
        compare(root, &dir, &program, &library)?;
    }
    let samza = dir.join("samza");
    fetch_with_needed(&dir, &samza, &[SAMZA])?;
    let jars = format!("{}/*", samza.display());
    compare(root, &dir, &Program { name: "Samza 1.8.0", class: "SamzaStores", jars }, &library)
}

/// Builds the library, and returns the directory for `java.library.path`, a new one below `dir`.
pub(crate) fn library(root: &Path, dir: &Path, release: bool) -> Result<PathBuf, String> {
    let (profile, built) = if release { ("release", "release") } else { ("dev", "debug") };
    let build = ["build", "--quiet", "-p", "esker-rocksdbjni", "--profile", profile];
    said(Command::new("cargo").args(build).current_dir(root))?;
    let library = dir.join("lib");
    fs::create_dir_all(&library).map_err(|e| format!("{}: {e}", library.display()))?;
    let built = target_dir(root).join(built).join("librocksdbjni.so");
    fs::copy(&built, library.join("librocksdbjni.so")).map_err(|e| format!("{}: {e}", built.display()))?;
    Ok(library)
}

/// Lets Maven copy a jar, unless it is there. It comes into its place whole: a copy that was cut
/// off leaves nothing that a later run would take for the jar.
fn fetch(jars: &Path, jar: &Jar) -> Outcome {
    let (path, new) = (jars.join(jar.file), jars.join("new"));
    if path.is_file() {
        return Ok(());
    }
    // Maven keeps a file that is there, also if it was cut off.
    fs::remove_dir_all(&new).ok();
    let goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy";
    let (artifact, output) =
        (format!("-Dartifact={}", jar.artifact), format!("-DoutputDirectory={}", new.display()));
    said(Command::new("mvn").args(["-q", "-B", goal, &artifact, &output]))?;
    fs::rename(new.join(jar.file), &path).map_err(|e| format!("{}: {e}", path.display()))
}

/// Lets Maven copy the jars and those that they need, unless it has copied the same ones before.
pub(crate) fn fetch_with_needed(dir: &Path, jar_dir: &Path, jars: &[Artifact]) -> Outcome {
    let mut pom = String::from(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\">\n<modelVersion>4.0.0</modelVersion>\n\
         <groupId>esker</groupId><artifactId>jars</artifactId><version>1</version>\n<dependencies>\n",
    );
    for (group, artifact, version) in jars {
        pom.push_str(&format!(
            "<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>\
             <version>{version}</version></dependency>\n"
        ));
    }
    pom.push_str("</dependencies>\n</project>\n");
    let (path, fetched) = (dir.join("pom.xml"), dir.join("fetched.xml"));
    if jar_dir.is_dir() && fs::read_to_string(&fetched).is_ok_and(|text| text == pom) {
        return Ok(());
    }
    fs::write(&path, pom).map_err(|e| format!("{}: {e}", path.display()))?;
    fs::remove_dir_all(jar_dir).ok();
    // While the directory is filled, it is not taken for a whole one.
    fs::remove_file(&fetched).ok();
    let goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies";
    let output = format!("-DoutputDirectory={}", jar_dir.display());
    said(Command::new("mvn").args(["-q", "-B", "-f"]).arg(&path).args([goal, &output]))?;
    fs::rename(&path, &fetched).map_err(|e| format!("{}: {e}", fetched.display()))
}

/// The text that `natives.txt` must have.
fn natives_text(dir: &Path, jars: &Path) -> Result<String, String> {
    let mut releases: BTreeMap<(String, String, String), Vec<&str>> = BTreeMap::new();
    for jar in &JARS {
        let classes = dir.join("classes").join(jar.version);
        fs::create_dir_all(&classes).map_err(|e| format!("{}: {e}", classes.display()))?;
        said(
            Command::new("jar").arg("xf").arg(jars.join(jar.file)).arg("org/rocksdb").current_dir(&classes),
        )?;
        let mut names = Vec::new();
        class_names(&classes.join("org/rocksdb"), "org.rocksdb", &mut names)?;
        let said =
            said(Command::new("javap").args(["-p", "-s", "-cp", "."]).args(&names).current_dir(&classes))?;
        for native in natives_of(&said) {
            releases.entry(native).or_default().push(jar.version);
        }
    }
    let mut text = HEAD.to_owned();
    let mut last = String::new();
    for ((class, method, descriptor), versions) in &releases {
        if *class != last {
            text.push_str(&format!("\n[{class}]\n"));
            last.clone_from(class);
        }
        let versions = if versions.len() == JARS.len() { "all".to_owned() } else { versions.join(",") };
        text.push_str(&format!("{method} {descriptor} {versions}\n"));
    }
    Ok(text)
}

/// Collects the names of the classes below `dir`.
fn class_names(dir: &Path, package: &str, names: &mut Vec<String>) -> Outcome {
    let error = |e| format!("{}: {e}", dir.display());
    for entry in fs::read_dir(dir).map_err(error)? {
        let path = entry.map_err(error)?.path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            class_names(&path, &format!("{package}.{stem}"), names)?;
        } else if path.extension().is_some_and(|extension| extension == "class") {
            names.push(format!("{package}.{stem}"));
        }
    }
    Ok(())
}

/// The natives in the output of `javap -p -s`: class below `org/rocksdb`, method, descriptor.
fn natives_of(output: &str) -> Vec<(String, String, String)> {
    let (mut class, mut method) = (String::new(), None);
    let mut natives = Vec::new();
    for line in output.lines() {
        if !line.starts_with(' ') && line.ends_with('{') {
            let mut words =
                line.split([' ', '<']).skip_while(|w| !["class", "interface", "enum"].contains(w));
            let name = words.nth(1).unwrap_or_default();
            class = name.strip_prefix("org.rocksdb.").unwrap_or(name).replace('.', "/");
        } else if let Some(descriptor) = line.trim().strip_prefix("descriptor: ") {
            if let Some(method) = method.take() {
                natives.push((class.clone(), method, descriptor.to_owned()));
            }
        } else if line.contains(" native ") {
            let head = line.split('(').next().unwrap_or_default();
            method = head.rsplit(' ').next().map(str::to_owned);
        }
    }
    natives
}

/// A class of `crates/rocksdbjni/java`, and the class path of its jars.
struct Program<'a> {
    name: &'a str,
    class: &'a str,
    jars: String,
}

/// Runs the program on both libraries, and compares.
fn compare(root: &Path, dir: &Path, program: &Program<'_>, library: &Path) -> Outcome {
    let here = dir.join("runs").join(program.name);
    fs::remove_dir_all(&here).ok();
    let (classes, real, esker) = (here.join("classes"), here.join("rocksdb"), here.join("esker"));
    // RocksDB's library is unpacked into `temp`, and stays there if the JVM is killed.
    let temp = here.join("temp");
    for made in [&classes, &real, &esker, &temp] {
        fs::create_dir_all(made).map_err(|e| format!("{}: {e}", made.display()))?;
    }
    let sources = root.join("crates/rocksdbjni/java");
    let mut javac = Command::new("javac");
    javac.arg("-nowarn").arg("-d").arg(&classes).arg("-cp").arg(&program.jars);
    said(javac.arg("-sourcepath").arg(&sources).arg(sources.join(format!("{}.java", program.class))))?;
    let path = format!("{}:{}", program.jars, classes.display());
    let java = |on_esker: bool, command: &str, databases: &Path| {
        let mut java = Command::new("timeout");
        java.args(["600", "java"]).arg(format!("-Djava.io.tmpdir={}", temp.display())).current_dir(&here);
        if on_esker {
            java.arg("-Xcheck:jni").arg(format!("-Djava.library.path={}", library.display()));
        }
        said(java.args(["-cp", &path, program.class, command]).arg(databases)).and_then(|said| lines(&said))
    };
    let (wanted, found) = (java(false, "write", &real)?, java(true, "write", &esker)?);
    same(program.name, "write", &wanted, &found)?;
    let wanted_read = java(false, "read", &real)?;
    same(program.name, "read, on Esker, what RocksDB wrote", &wanted_read, &java(true, "read", &real)?)?;
    same(program.name, "read, on RocksDB, what Esker wrote", &wanted_read, &java(false, "read", &esker)?)?;
    println!("{}: {} lines are the same", program.name, wanted.len() + 2 * wanted_read.len());
    Ok(())
}

/// The program's own lines: `-Xcheck:jni` prints others between them.
/// # Errors
/// One of these lines warns that a native keeps more local references than it asked for.
fn lines(output: &str) -> Result<Vec<String>, String> {
    if let Some(warning) = output.lines().find(|line| line.contains("JNI local refs")) {
        return Err(format!("a native does not free its local references: {warning}"));
    }
    let own = |line: &&str| !line.starts_with("WARNING") && !line.starts_with('\t');
    Ok(output.lines().filter(own).map(str::to_owned).collect())
}

fn same(name: &str, what: &str, wanted: &[String], found: &[String]) -> Outcome {
    let differs = (0..wanted.len().max(found.len())).find(|at| wanted.get(*at) != found.get(*at));
    let Some(at) = differs else { return Ok(()) };
    let (before, missing) = (at.saturating_sub(3), "(no line)".to_owned());
    Err(format!(
        "{name}, {what}: line {} differs. RocksDB: {}; Esker: {}; before it:\n{}",
        at + 1,
        wanted.get(at).unwrap_or(&missing),
        found.get(at).unwrap_or(&missing),
        wanted[before..at.min(wanted.len())].join("\n")
    ))
}

/// Runs a command and returns what it prints.
pub(crate) fn said(command: &mut Command) -> Result<String, String> {
    let line = format!("{command:?}");
    let output = command.output().map_err(|e| format!("{line}: {e}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Err(format!("failed: {line}\n{out}\n{err}"))
}

#[cfg(test)]
mod tests {
    use super::natives_of;

    #[test]
    fn natives_are_found_with_class_and_descriptor() {
        let output = "\
Compiled from \"Cache.java\"
public abstract class org.rocksdb.Cache extends org.rocksdb.RocksObject {
  public long getUsage();
    descriptor: ()J

  private static native long getUsage(long);
    descriptor: (J)J
}
public abstract class org.rocksdb.WriteBatch$Handler extends org.rocksdb.RocksCallbackObject {
  private native long createNewHandler0() throws org.rocksdb.RocksDBException;
    descriptor: ()J
}
";
        let named = |class: &str, method: &str, descriptor: &str| {
            (class.to_owned(), method.to_owned(), descriptor.to_owned())
        };
        let wanted =
            [named("Cache", "getUsage", "(J)J"), named("WriteBatch$Handler", "createNewHandler0", "()J")];
        assert_eq!(natives_of(output), wanted);
    }
}
