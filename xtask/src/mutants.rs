//! Mutants: checks that each campaign finds the bugs that it must find.
//!
//! In: `crates/stress/mutants/*.mutant`. Each file has a bug, as changes of the source, and names
//! the campaign that must find the bug. Out: a table with the time until each bug was found; an
//! error if a bug was not found. All bugs are inserted at once into a copy of the tree. An
//! environment variable enables one bug by its name, so one build serves all bugs. Campaigns in the
//! simulated machine (`sim…`), and the models of each package, have builds of their own. The tree
//! itself is not changed.
//!
//! ```text
//! the bug in one sentence
//! campaign: arguments of esker-stress; or "loom", a package and one of its models
//! file: path from the root
//! <<<<
//! the old text, which occurs once and has no comment
//! ====
//! the new text, in which MUTATED is true if this bug is picked
//! >>>>
//! ```

use crate::commands::{Outcome, run};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const DIRECTORY: &str = "crates/stress/mutants";
/// The environment variable that names the bug.
const VARIABLE: &str = "ESKER_MUTANT";
/// Duration of the control run: each campaign runs first without a bug and must pass. A failure
/// with a bug is then due to the bug.
const CONTROL: Duration = Duration::from_secs(30);

/// The module of `base` from which mutated code reads the chosen bug.
const SWITCH: &str = "\n/// Which bug is mutated.\npub mod mutated {\n    /// Whether it is this one.\n    \
     pub fn is(name: &str) -> bool {\n        \
     static MUTATED: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();\n        \
     MUTATED.get_or_init(|| std::env::var(\"ESKER_MUTANT\").ok()).as_deref() == Some(name)\n    }\n}\n";

/// One bug.
#[derive(Debug)]
struct Mutant {
    name: String,
    what: String,
    campaign: Vec<String>,
    edits: Vec<Edit>,
}

#[derive(Debug)]
struct Edit {
    file: String,
    find: String,
    replace: String,
}

/// The outcome of a campaign.
enum CampaignOutcome {
    Failed(Duration, String),
    Passed(Duration),
}

/// Runs the campaign of each bug in `names` for at most `minutes`. Without names, takes all bugs.
pub(crate) fn run_all(root: &Path, names: &[&str], minutes: u64) -> Outcome {
    let mutants = read_all(root)?;
    let unknown = names.iter().find(|name| mutants.iter().all(|p| p.name != **name));
    unknown.map_or(Ok(()), |name| Err(format!("no {DIRECTORY}/{name}.mutant")))?;
    insert_all(root, &mutants)?;
    let chosen: Vec<_> =
        mutants.iter().filter(|p| names.is_empty() || names.contains(&p.name.as_str())).collect();
    let mut campaigns: Vec<_> = chosen.iter().map(|p| &p.campaign).collect();
    campaigns.sort();
    campaigns.dedup();
    let machines: BTreeSet<_> = campaigns.iter().map(|campaign| Machine::of(campaign)).collect();
    machines.iter().try_for_each(|machine| machine.build(root))?;
    for campaign in campaigns {
        if let CampaignOutcome::Failed(_, why) = run_campaign(root, "", campaign, CONTROL)? {
            return Err(format!("{} fails without any mutant: {why}", campaign.join(" ")));
        }
    }
    println!("| bug | campaign | found after | said |\n|---|---|---|---|");
    let mut missed = Vec::new();
    for mutant in chosen {
        let campaign = mutant.campaign.join(" ");
        match run_campaign(root, &mutant.name, &mutant.campaign, Duration::from_secs(60 * minutes))? {
            CampaignOutcome::Failed(after, why) => {
                println!("| {} | {campaign} | {:.1} s | {why} |", mutant.what, after.as_secs_f64());
            }
            CampaignOutcome::Passed(after) => {
                println!("| {} | {campaign} | **not** in {:.0} s | |", mutant.what, after.as_secs_f64());
                missed.push(mutant.name.as_str());
            }
        }
    }
    if missed.is_empty() { Ok(()) } else { Err(format!("not found: {}", missed.join(", "))) }
}

fn read_all(root: &Path) -> Result<Vec<Mutant>, String> {
    let directory = root.join(DIRECTORY);
    let entries = std::fs::read_dir(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    let mut mutants = Vec::new();
    for entry in entries {
        let path = entry.map_err(|e| format!("{DIRECTORY}: {e}"))?.path();
        if path.extension().is_some_and(|e| e == "mutant") {
            let text = read(&path)?;
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            mutants.push(parse(&name, &text).map_err(|why| format!("{}: {why}", path.display()))?);
        }
    }
    mutants.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(mutants)
}

fn parse(name: &str, text: &str) -> Result<Mutant, String> {
    let (what, rest) = text.split_once('\n').ok_or("it is empty")?;
    let (campaign, mut rest) = rest.split_once('\n').ok_or("no campaign")?;
    let campaign = campaign.strip_prefix("campaign: ").ok_or("the second line names no campaign")?;
    let mut edits = Vec::new();
    while let Some(edit) = rest.strip_prefix("file: ") {
        let (file, edit) = edit.split_once("\n<<<<\n").ok_or("no <<<< behind a file")?;
        let (find, edit) = edit.split_once("\n====\n").ok_or("no ==== behind <<<<")?;
        let (replace, left) = edit.split_once("\n>>>>\n").ok_or("no >>>> behind ====")?;
        edits.push(Edit { file: file.to_owned(), find: find.to_owned(), replace: replace.to_owned() });
        rest = left;
    }
    let is_comment = |line: &&str| line.trim_start().starts_with("//");
    if let Some(line) = edits.iter().flat_map(|edit: &Edit| edit.find.lines()).find(is_comment) {
        return Err(format!("it quotes a comment, and would break when the comment changes: '{line}'"));
    }
    if edits.is_empty() || !rest.is_empty() {
        return Err(format!("expected 'file:', found '{}'", rest.lines().next().unwrap_or_default()));
    }
    let campaign = campaign.split_whitespace().map(str::to_owned).collect();
    Ok(Mutant { name: name.to_owned(), what: what.to_owned(), campaign, edits })
}

/// The kind of build that a campaign needs.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Machine {
    /// Threads of the operating system.
    Real,
    /// Simulated threads, whose order follows a seed.
    Simulated,
    /// loom's models of this package.
    Loom(String),
}

impl Machine {
    fn of(campaign: &[String]) -> Machine {
        match campaign {
            [loom, package, ..] if loom == "loom" => Machine::Loom(package.clone()),
            [name, ..] if name.starts_with("sim") => Machine::Simulated,
            _ => Machine::Real,
        }
    }

    /// Target directory and flags of this kind of build.
    fn env(&self, root: &Path) -> [(&'static str, String); 2] {
        let (name, flags) = match self {
            Machine::Real => ("build", ""),
            Machine::Simulated => ("build-simulated", "--cfg shuttle"),
            Machine::Loom(_) => ("build-loom", "--cfg loom"),
        };
        let directory = place(root, name).to_string_lossy().into_owned();
        [("CARGO_TARGET_DIR", directory), ("RUSTFLAGS", flags.to_owned())]
    }

    fn build(&self, root: &Path) -> Outcome {
        let cargo: &[&str] = match self {
            Machine::Loom(package) => &["test", "--profile", "stress", "--lib", "--no-run", "-p", package],
            _ => &["build", "--profile", "stress", "-p", "esker-stress"],
        };
        let env = self.env(root);
        let env = env.each_ref().map(|(key, value)| (*key, value.as_str()));
        run(&place(root, "tree"), &env, "cargo", cargo)
    }

    /// The command that runs the built campaign.
    fn command(&self, root: &Path, campaign: &[String]) -> Command {
        let env = self.env(root);
        match self {
            Machine::Loom(package) => {
                let mut command = Command::new("cargo");
                command.args(["test", "--profile", "stress", "--lib", "-p", package, "--", "--nocapture"]);
                command.args(&campaign[2..]).envs(env).current_dir(place(root, "tree"));
                command
            }
            _ => {
                let mut command = Command::new(Path::new(&env[0].1).join("stress/esker-stress"));
                command.args(campaign);
                command
            }
        }
    }
}

/// A directory in `target/mutants`: the copy of the tree, or a target of its builds.
fn place(root: &Path, name: &str) -> PathBuf {
    root.join("target/mutants").join(name)
}

/// Copies the tree and inserts all mutants.
fn insert_all(root: &Path, mutants: &[Mutant]) -> Outcome {
    let tree = place(root, "tree");
    for (name, text) in sources(root)? {
        let text = mutated(&name, text, mutants)?;
        let to = tree.join(name);
        // Unchanged files keep their times, so that Cargo does not build them again.
        if std::fs::read_to_string(&to).ok().as_ref() != Some(&text) {
            let directory = to.parent().expect("the target is below the root");
            let written = std::fs::create_dir_all(directory).and_then(|()| std::fs::write(&to, text));
            written.map_err(|e| format!("{}: {e}", to.display()))?;
        }
    }
    Ok(())
}

/// Names and contents of the files that a build reads.
fn sources(root: &Path) -> Result<Vec<(String, String)>, String> {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root).output();
    let listed = listed.map_err(|e| format!("git: {e}"))?.stdout;
    let mut found = Vec::new();
    for name in String::from_utf8_lossy(&listed).split_terminator('\0') {
        // Pages are sources, too, because `include_str!` reads some pages.
        let is_source = [".rs", ".toml", ".lock", ".md"].iter().any(|end| name.ends_with(end));
        if is_source && root.join(name).is_file() {
            found.push((name.to_owned(), read(&root.join(name))?));
        }
    }
    Ok(found)
}

/// Checks that every bug can still be inserted: its file has the old text once.
pub(crate) fn check(root: &Path) -> Outcome {
    let mutants = read_all(root)?;
    let sources = sources(root)?;
    sources.into_iter().try_for_each(|(name, text)| mutated(&name, text, &mutants).map(drop))?;
    let is_gone = |edit: &&Edit| !root.join(&edit.file).is_file();
    match mutants.iter().flat_map(|mutant| &mutant.edits).find(is_gone) {
        Some(edit) => Err(format!("{DIRECTORY}: there is no {}", edit.file)),
        None => Ok(()),
    }
}

/// Checks that every bug compiles.
pub(crate) fn check_compiles(root: &Path) -> Outcome {
    insert_all(root, &read_all(root)?)?;
    let directory = place(root, "check").to_string_lossy().into_owned();
    let env = [("CARGO_TARGET_DIR", directory.as_str())];
    run(&place(root, "tree"), &env, "cargo", &["check", "--profile", "test", "-p", "esker-stress"])
}

/// The text of a file with all its bugs inserted.
fn mutated(name: &str, text: String, mutants: &[Mutant]) -> Result<String, String> {
    let mut text = text;
    let module = if name.starts_with("crates/base/") { "crate" } else { "esker_base" };
    for mutant in mutants {
        for edit in mutant.edits.iter().filter(|edit| edit.file == name) {
            if text.matches(&edit.find).count() != 1 {
                let times = text.matches(&edit.find).count();
                let first = edit.find.trim().lines().next().unwrap_or_default();
                return Err(format!(
                    "{}.mutant: '{first}' … is {times} times in {name}: the code has changed, bring the bug up to date",
                    mutant.name
                ));
            }
            let condition = format!("{module}::mutated::is(\"{}\")", mutant.name);
            text = text.replace(&edit.find, &edit.replace.replace("MUTATED", &condition));
        }
    }
    if name == "crates/base/src/lib.rs" {
        text.push_str(SWITCH);
    }
    Ok(text)
}

fn run_campaign(
    root: &Path,
    mutant: &str,
    campaign: &[String],
    limit: Duration,
) -> Result<CampaignOutcome, String> {
    let log = place(root, "campaign.log");
    let file = std::fs::File::create(&log).map_err(|e| format!("{}: {e}", log.display()))?;
    let start = Instant::now();
    let mut command = Machine::of(campaign).command(root, campaign);
    let cannot = |e| format!("{}: {e}", campaign.join(" "));
    let child = command.env(VARIABLE, mutant).stdout(Stdio::null()).stderr(file).spawn();
    let mut child = child.map_err(cannot)?;
    let status = loop {
        match child.try_wait().map_err(cannot)? {
            Some(status) => break status,
            None if start.elapsed() >= limit => {
                child.kill().and_then(|()| child.wait()).map_err(cannot)?;
                return Ok(CampaignOutcome::Passed(start.elapsed()));
            }
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    if status.success() {
        return Ok(CampaignOutcome::Passed(start.elapsed()));
    }
    let log_text = read(&log)?;
    // A campaign prints its progress before its report.
    let is_report =
        |line: &&str| line.contains("SEED=") || line.contains("divergence") || line.contains("panicked");
    let why = log_text.lines().find(is_report).or(log_text.lines().last()).unwrap_or("nothing");
    let why: String = format!("{why} ({status})").chars().take(200).collect();
    Ok(CampaignOutcome::Failed(start.elapsed(), why.replace('|', "/")))
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bug_is_well_formed() {
        let mutants = read_all(&crate::root()).expect("the bugs are well-formed");
        assert!(mutants.len() >= 20, "{} bugs", mutants.len());
    }

    #[test]
    fn a_mutant_is_inserted_where_its_text_stands_once() {
        let text = "what\ncampaign: model\nfile: a.rs\n<<<<\nx\n====\nif MUTATED { y }\n>>>>\n";
        let mutants = [parse("bug", text).expect("well-formed")];
        let mutated = |text: &str| mutated("a.rs", text.to_owned(), &mutants);
        assert_eq!(mutated("{x}"), Ok("{if esker_base::mutated::is(\"bug\") { y }}".to_owned()));
        assert!(mutated("").is_err() && mutated("xx").is_err());
        assert!(parse("bug", "what\ncampaign: model\n").is_err());
    }

    #[test]
    fn a_mutant_may_not_quote_a_comment() {
        let with = |old: &str| {
            parse("bug", &format!("what\ncampaign: model\nfile: a.rs\n<<<<\n{old}\n====\ny\n>>>>\n"))
        };
        assert!(with("let x = 1;").is_ok());
        let error = with("    // Why.\n    let x = 1;").expect_err("it quotes a comment");
        assert!(error.contains("// Why."), "{error}");
    }
}
