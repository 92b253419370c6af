//! Rules of this repository that no compiler checks.
//!
//! In: the tree. Out: nothing, or every violation with its file and line. An exception is a line of
//! `xtask/exceptions.txt` with its reason. An exception that is not needed is a violation, too. A
//! mutant of `crates/stress/mutants` that cannot be inserted is an error.

mod compat;
mod counted;
mod decoders;
mod exceptions;
mod first_lines;
mod functions;
mod names;
mod order;
mod pages;
mod parts;
mod prose;
mod public_names;
mod text;
mod words;

use std::path::Path;

/// The path and the text of a file.
#[derive(Clone, Debug)]
pub(crate) struct SourceFile {
    /// Path from the root, with slashes.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// A violation of one rule at one place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Violation {
    /// The rule's name, which exceptions use, too.
    pub(crate) rule: &'static str,
    /// The file, mostly with the line. Exceptions name the file.
    pub(crate) path: String,
    /// The mistake and its remedy.
    pub(crate) message: String,
}

/// Checks the tree.
/// # Errors
/// All violations as text, or the path that could not be read.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let files = sources(root)?;
    let mut violations = order::check(&files);
    violations.extend(text::check(&files));
    violations.extend(decoders::check(&files));
    violations.extend(compat::check(&files));
    violations.extend(counted::check(&files));
    violations.extend(public_names::check(&files));
    violations.extend(words::check(&files));
    violations.extend(names::check(&files));
    violations.extend(prose::check(&files));
    violations.extend(first_lines::check(&files));
    violations.extend(functions::check(&files));
    violations.extend(prose::check_subjects(root));
    violations.extend(pages::check(&files, &|path| root.join(path).exists()));
    let exceptions = files.iter().find(|f| f.path == exceptions::FILE).map_or("", |f| &f.text);
    let violations = exceptions::apply(violations, exceptions);
    if violations.is_empty() {
        return crate::mutants::check(root);
    }
    let lines: Vec<String> =
        violations.iter().map(|v| format!("{}: {} [{}]", v.path, v.message, v.rule)).collect();
    Err(format!("{}\ntidy: {} violations", lines.join("\n"), lines.len()))
}

/// Every text file that people wrote, sorted by path.
pub(crate) fn sources(root: &Path) -> Result<Vec<SourceFile>, String> {
    const EXTENSIONS: &[&str] = &["rs", "toml", "md", "txt", "sh", "yml", "yaml"];
    const SKIPPED: &[&str] = &["fixtures", ".git", "corpus", "artifacts"];
    let mut files = Vec::new();
    let mut pending = vec![root.to_owned()];
    while let Some(dir) = pending.pop() {
        let entries = std::fs::read_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        for entry in entries {
            let path = entry.map_err(|e| format!("{}: {e}", dir.display()))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                // Beside a Cargo.toml, `target` is Cargo's output. Elsewhere it may be a module.
                let is_built = name == "target" && dir.join("Cargo.toml").exists();
                if !is_built && !SKIPPED.contains(&name.as_str()) {
                    pending.push(path);
                }
            } else if EXTENSIONS.iter().any(|e| path.extension().is_some_and(|x| x == *e))
                || dir.ends_with(".ci")
            {
                let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
                let relative = path.strip_prefix(root).expect("every path was found below the root");
                files.push(SourceFile { path: relative.to_string_lossy().replace('\\', "/"), text });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// Names of the fuzz targets.
pub(crate) fn fuzz_targets(root: &Path) -> Result<Vec<String>, String> {
    let files = sources(root)?;
    Ok(files.iter().filter_map(|f| decoders::fuzz_target(&f.path)).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    /// Every test run does the checks of `cargo xtask tidy`.
    #[test]
    fn the_tree_is_tidy() {
        if let Err(violations) = super::run(&crate::root()) {
            panic!("{violations}");
        }
    }
}
