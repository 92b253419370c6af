//! The C API. `capi-surface` records the declarations of RocksDB's headers. `install-capi` installs
//! the library, its headers and `rocksdb.pc` below a prefix.
//!
//! In: the headers of five releases, from the packages in [`SOURCES`]. Out: `surface.txt` and
//! `statistics.txt` of `crates/capi-surface`; files below the prefix. The C preprocessor is `cc`.

use esker_capi_surface::{Declaration, Item, RELEASES, c_header, parse_header, release, surface_text, union};
use esker_capi_surface::{StatisticKind, statistics_text};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crates that carry the sources of [`RELEASES`]: name and version.
const SOURCES: [(&str, &str); 5] = [
    ("librocksdb-sys", "0.11.0"),
    ("librocksdb-sys", "0.16.0"),
    ("librocksdb-sys", "0.17.3"),
    ("librocksdb-sys", "0.19.0"),
    ("rust-librocksdb-sys", "0.49.0"),
];

/// The library's SONAME, which clients of RocksDB 11 load.
const SONAME: &str = "librocksdb.so.11";

/// Records the declarations of all headers, and the numbers of statistics. With `check`, compares
/// them with the record instead.
pub(crate) fn surface(root: &Path, check: bool) -> Result<(), String> {
    let mut headers = Vec::new();
    let mut statistics = Vec::new();
    for (name, version) in SOURCES {
        let include = fetched(root, name, version)?.join("rocksdb/include/rocksdb");
        headers.push(declarations_of(&include.join("c.h"))?);
        statistics.push(statistics_of(&include.join("statistics.h"))?);
    }
    numbers(root, &statistics, check)?;
    let text = surface_text(&merged(&headers));
    let path = root.join("crates/capi-surface/surface.txt");
    if !check {
        return fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()));
    }
    let recorded = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    for (at, header) in headers.iter().enumerate() {
        let shapes = |items: &[Item]| {
            let mut shapes: Vec<Item> = items.iter().map(Item::shape).collect();
            shapes.sort_by(|a, b| a.name().cmp(b.name()));
            shapes
        };
        if shapes(&release(at)) != shapes(header) {
            return Err(format!("surface.txt differs from the c.h of RocksDB {}", RELEASES[at]));
        }
    }
    if recorded != text {
        return Err("surface.txt is not what capi-surface makes".to_string());
    }
    let functions = union().iter().filter_map(Item::function).count();
    println!("surface.txt has the declarations of {} headers, {functions} functions", headers.len());
    Ok(())
}

/// The directory of a package of the registry, which cargo fetches.
pub(crate) fn fetched(root: &Path, name: &str, version: &str) -> Result<PathBuf, String> {
    let dir = root.join("target/clients/fetch").join(format!("{name}-{version}"));
    fs::create_dir_all(dir.join("src")).map_err(|error| format!("{}: {error}", dir.display()))?;
    let manifest = format!(
        "[package]\nname = \"fetch\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[workspace]\n\n\
         [dependencies]\n{name} = {{ version = \"={version}\", default-features = false }}\n"
    );
    fs::write(dir.join("Cargo.toml"), manifest).map_err(|error| format!("{}: {error}", dir.display()))?;
    fs::write(dir.join("src/lib.rs"), "").map_err(|error| format!("{}: {error}", dir.display()))?;
    let output = Command::new("cargo").args(["metadata", "--format-version", "1"]).current_dir(&dir).output();
    let output = output.map_err(|error| format!("cargo metadata: {error}"))?;
    let metadata = String::from_utf8_lossy(&output.stdout);
    let package = format!("/{name}-{version}");
    let mut paths = metadata.split("\"manifest_path\":\"").skip(1).filter_map(|rest| rest.split('"').next());
    let manifest = paths.find(|path| path.contains(&package) && !Path::new(path).starts_with(&dir));
    let manifest = manifest.ok_or_else(|| {
        format!("cargo cannot fetch {name} {version}: {}", String::from_utf8_lossy(&output.stderr))
    })?;
    Ok(Path::new(manifest).parent().expect("a manifest lies in a directory").to_owned())
}

fn declarations_of(header: &Path) -> Result<Vec<Item>, String> {
    let text = preprocessed(header, &["-DROCKSDB_LIBRARY_API="])?;
    parse_header(&text).map_err(|error| error.to_string())
}

/// `header` after the C preprocessor.
fn preprocessed(header: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("cc").args(["-E", "-P", "-w"]).args(arguments).arg(header).output();
    let output = output.map_err(|error| format!("cc: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Records the numbers of statistics; with `check`, compares them with the record instead.
fn numbers(root: &Path, statistics: &[[Vec<String>; 2]], check: bool) -> Result<(), String> {
    let path = root.join("crates/capi-surface/statistics.txt");
    let text = statistics_text(statistics);
    if !check {
        return fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()));
    }
    let recorded = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    if recorded != text {
        return Err("statistics.txt differs from the headers' statistics.h".to_string());
    }
    Ok(())
}

/// The names of the tickers and of the histograms, in order. The header marks some names as
/// misspelled or deprecated; their numbers are valid all the same.
fn statistics_of(header: &Path) -> Result<[Vec<String>; 2], String> {
    // This run of the preprocessor removes comments and includes nothing.
    let text = preprocessed(header, &["-fpreprocessed"])?;
    let names = |kind: StatisticKind| {
        let start = format!("enum {} : uint32_t {{", kind.name());
        let body = text.split(&start).nth(1).and_then(|rest| rest.split('}').next());
        let body = body.ok_or_else(|| format!("{}: no '{start}'", header.display()))?;
        let names = body.split(',').filter_map(|name| name.split('=').next()).map(str::trim);
        let names = names.map(|name| name.trim_end_matches("_MISSPELLED").trim_end_matches("_DEPRECATED"));
        let names = names.filter(|name| !name.is_empty() && !name.ends_with("_ENUM_MAX"));
        Ok::<_, String>(names.map(str::to_owned).collect())
    };
    Ok([names(StatisticKind::Tickers)?, names(StatisticKind::Histograms)?])
}

/// All declarations. A declaration has the place that its oldest header gives it, and the parameter
/// names of its newest header.
fn merged(headers: &[Vec<Item>]) -> Vec<Declaration> {
    let mut surface: Vec<Declaration> = Vec::new();
    for (at, items) in headers.iter().enumerate() {
        // A new declaration comes behind the declaration that precedes it in this header.
        let mut place = 0;
        for item in items {
            let shape = item.shape();
            let known = surface.iter().position(|declared| declared.item.shape() == shape);
            match known {
                Some(known) => {
                    surface[known].last = at;
                    surface[known].item = item.clone();
                    place = known + 1;
                }
                None => {
                    surface.insert(place, Declaration { first: at, last: at, item: item.clone() });
                    place += 1;
                }
            }
        }
    }
    surface
}

/// A form of the library: the release of RocksDB whose defaults new options have.
#[derive(Clone, Copy)]
pub(crate) struct CapiForm {
    version: &'static str,
    /// The features of `esker-capi`, separated by commas.
    features: &'static str,
}

/// The form without features, which `cargo build` makes.
pub(crate) const FORM_11_8: CapiForm = CapiForm { version: "11.8.1", features: "" };
pub(crate) const FORM_11_1: CapiForm = CapiForm { version: "11.1.2", features: "defaults-of-11-1" };

/// Builds the library in the form for `release`, and installs it below `prefix`: the library with
/// its version in its name and two links to it in `lib`, `c.h` and `version.h` in
/// `include/rocksdb`, and `lib/pkgconfig/rocksdb.pc`.
pub(crate) fn install(root: &Path, prefix: &Path, release: &str) -> Result<(), String> {
    let forms = [("11.1", FORM_11_1), ("11.8", FORM_11_8)];
    let form = forms.into_iter().find(|form| form.0 == release);
    let (_, form) = form.ok_or_else(|| format!("'{release}' is none of 11.1, 11.8"))?;
    build_form(root, form, &["--release"])?;
    install_form(root, &root.join("target/release"), prefix, form)
}

/// Builds the library in this form.
pub(crate) fn build_form(root: &Path, form: CapiForm, profile: &[&str]) -> Result<(), String> {
    let status = Command::new("cargo")
        .args(["build", "-p", "esker-capi", "--quiet", "--features", form.features])
        .args(profile)
        .current_dir(root)
        .status()
        .map_err(|error| format!("cargo build: {error}"))?;
    if status.success() { Ok(()) } else { Err("the library does not build".to_string()) }
}

/// Installs the library, which was built without features, from the directory `built`.
pub(crate) fn install_built(root: &Path, built: &Path, prefix: &Path) -> Result<(), String> {
    install_form(root, built, prefix, FORM_11_8)
}

/// Installs the library from the directory `built`, in which it was built in this form.
pub(crate) fn install_form(root: &Path, built: &Path, prefix: &Path, form: CapiForm) -> Result<(), String> {
    let error = |error: std::io::Error| format!("{}: {error}", prefix.display());
    let lib = prefix.join("lib");
    let include = prefix.join("include/rocksdb");
    fs::create_dir_all(lib.join("pkgconfig")).map_err(error)?;
    fs::create_dir_all(&include).map_err(error)?;
    let file = format!("librocksdb.so.{}", form.version);
    // Copies to a new file and renames it, because a program may have the old file mapped.
    fs::copy(built.join("libesker_capi.so"), lib.join("new")).map_err(error)?;
    fs::rename(lib.join("new"), lib.join(&file)).map_err(error)?;
    for link in ["librocksdb.so", SONAME].map(|link| lib.join(link)) {
        if link.symlink_metadata().is_ok() {
            fs::remove_file(&link).map_err(error)?;
        }
        std::os::unix::fs::symlink(&file, &link).map_err(error)?;
    }
    fs::write(include.join("c.h"), c_header(&union())).map_err(error)?;
    fs::write(include.join("version.h"), version_h(form.version)).map_err(error)?;
    fs::write(lib.join("pkgconfig/rocksdb.pc"), pkg_config(prefix, form.version)).map_err(error)?;
    println!("installed {} below {} (from {})", file, prefix.display(), root.display());
    Ok(())
}

/// The text of `rocksdb/version.h`.
fn version_h(version: &str) -> String {
    let names = ["MAJOR", "MINOR", "PATCH"].into_iter().zip(version.split('.'));
    let lines = names.map(|(name, number)| format!("#define ROCKSDB_{name} {number}\n"));
    format!("#pragma once\n{}", lines.collect::<String>())
}

/// The text of `rocksdb.pc` for RocksDB's C interface below `prefix`.
pub(crate) fn pkg_config(prefix: &Path, version: &str) -> String {
    format!(
        "prefix={}\nlibdir=${{prefix}}/lib\nincludedir=${{prefix}}/include\n\nName: rocksdb\n\
         Description: RocksDB's C interface\nVersion: {version}\n\
         Libs: -L${{libdir}} -lrocksdb\nCflags: -I${{includedir}}\n",
        prefix.display()
    )
}
