//! Planted bugs: does each campaign find what it is there for?
//!
//! In: `crates/stress/plants/*.plant`, each a bug as changes of the source, and the campaign that
//! must find it. Out: a table of what was found after how long, and an error if something was not.
//! All bugs are planted at once into a copy of the tree, each behind a name that the environment
//! picks, so that one build serves all; campaigns in the simulated machine (`sim…`), and the models
//! of each package, have builds of their own. Nothing here touches the tree itself.
//!
//! ```text
//! what the bug is, in a sentence
//! campaign: arguments of esker-stress; or "loom", a package and one of its models
//! file: path from the root
//! <<<<
//! what stands there, once
//! ====
//! what stands there instead; PLANTED is true if this bug is the one
//! >>>>
//! ```

use crate::commands::{Outcome, run};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const DIRECTORY: &str = "crates/stress/plants";
/// Which bug is there.
const VARIABLE: &str = "ESKER_PLANT";
/// How long a campaign runs without a bug, to show that it is the bug that it finds.
const CONTROL: Duration = Duration::from_secs(30);

/// The module of `base` by which the planted code asks which bug is there.
const SWITCH: &str = "\n/// Which bug is planted.\npub mod planted {\n    /// Whether it is this one.\n    \
     pub fn is(name: &str) -> bool {\n        \
     static PLANTED: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();\n        \
     PLANTED.get_or_init(|| std::env::var(\"ESKER_PLANT\").ok()).as_deref() == Some(name)\n    }\n}\n";

/// One bug.
#[derive(Debug)]
struct Plant {
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

/// How a campaign ended.
enum End {
    Failed(Duration, String),
    Passed(Duration),
}

/// Plants each of the bugs called `names` (all, if none is named) and runs its campaign for so many
/// minutes at most.
pub(crate) fn run_all(root: &Path, names: &[&str], minutes: u64) -> Outcome {
    let plants = read_all(root)?;
    let unknown = names.iter().find(|name| plants.iter().all(|p| p.name != **name));
    unknown.map_or(Ok(()), |name| Err(format!("no {DIRECTORY}/{name}.plant")))?;
    plant_all(root, &plants)?;
    let chosen: Vec<_> =
        plants.iter().filter(|p| names.is_empty() || names.contains(&p.name.as_str())).collect();
    let mut campaigns: Vec<_> = chosen.iter().map(|p| &p.campaign).collect();
    campaigns.sort();
    campaigns.dedup();
    let machines: BTreeSet<_> = campaigns.iter().map(|campaign| Machine::of(campaign)).collect();
    machines.iter().try_for_each(|machine| machine.build(root))?;
    for campaign in campaigns {
        if let End::Failed(_, why) = run_campaign(root, "", campaign, CONTROL)? {
            return Err(format!("{} fails without any planted bug: {why}", campaign.join(" ")));
        }
    }
    println!("| bug | campaign | found after | said |\n|---|---|---|---|");
    let mut missed = Vec::new();
    for plant in chosen {
        let campaign = plant.campaign.join(" ");
        match run_campaign(root, &plant.name, &plant.campaign, Duration::from_secs(60 * minutes))? {
            End::Failed(after, why) => {
                println!("| {} | {campaign} | {:.1} s | {why} |", plant.what, after.as_secs_f64());
            }
            End::Passed(after) => {
                println!("| {} | {campaign} | **not** in {:.0} s | |", plant.what, after.as_secs_f64());
                missed.push(plant.name.as_str());
            }
        }
    }
    if missed.is_empty() { Ok(()) } else { Err(format!("not found: {}", missed.join(", "))) }
}

fn read_all(root: &Path) -> Result<Vec<Plant>, String> {
    let directory = root.join(DIRECTORY);
    let entries = std::fs::read_dir(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    let mut plants = Vec::new();
    for entry in entries {
        let path = entry.map_err(|e| format!("{DIRECTORY}: {e}"))?.path();
        if path.extension().is_some_and(|e| e == "plant") {
            let text = read(&path)?;
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            plants.push(parse(&name, &text).map_err(|why| format!("{}: {why}", path.display()))?);
        }
    }
    plants.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(plants)
}

fn parse(name: &str, text: &str) -> Result<Plant, String> {
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
    if edits.is_empty() || !rest.is_empty() {
        return Err(format!("expected 'file:', found '{}'", rest.lines().next().unwrap_or_default()));
    }
    let campaign = campaign.split_whitespace().map(str::to_owned).collect();
    Ok(Plant { name: name.to_owned(), what: what.to_owned(), campaign, edits })
}

/// What a campaign runs on.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Machine {
    /// Threads of the system.
    Real,
    /// Threads that follow a seed.
    Simulated,
    /// Models of this package.
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

    /// Where Cargo builds for it, and with which flags.
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

    /// What runs the campaign, once it is built.
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

/// Where the copy of the tree and what is built of it lie: in `target/plants` of the root.
fn place(root: &Path, name: &str) -> PathBuf {
    root.join("target/plants").join(name)
}

/// Copies the tree and plants all bugs.
fn plant_all(root: &Path, plants: &[Plant]) -> Outcome {
    let tree = place(root, "tree");
    for (name, text) in sources(root)? {
        let text = planted(&name, text, plants)?;
        let to = tree.join(name);
        // What did not change is not to be built again.
        if std::fs::read_to_string(&to).ok().as_ref() != Some(&text) {
            let directory = to.parent().expect("below the root");
            let written = std::fs::create_dir_all(directory).and_then(|()| std::fs::write(&to, text));
            written.map_err(|e| format!("{}: {e}", to.display()))?;
        }
    }
    Ok(())
}

/// Names and contents of what a build reads.
fn sources(root: &Path) -> Result<Vec<(String, String)>, String> {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root).output();
    let listed = listed.map_err(|e| format!("git: {e}"))?.stdout;
    let mut found = Vec::new();
    for name in String::from_utf8_lossy(&listed).split_terminator('\0') {
        // Pages, too: `include_str!` reads some.
        let is_source = [".rs", ".toml", ".lock", ".md"].iter().any(|end| name.ends_with(end));
        if is_source && root.join(name).is_file() {
            found.push((name.to_owned(), read(&root.join(name))?));
        }
    }
    Ok(found)
}

/// Whether every bug can still be planted: the code that it changes stands where it stood.
pub(crate) fn check(root: &Path) -> Outcome {
    let plants = read_all(root)?;
    let sources = sources(root)?;
    sources.into_iter().try_for_each(|(name, text)| planted(&name, text, &plants).map(drop))?;
    let is_gone = |edit: &&Edit| !root.join(&edit.file).is_file();
    match plants.iter().flat_map(|plant| &plant.edits).find(is_gone) {
        Some(edit) => Err(format!("{DIRECTORY}: there is no {}", edit.file)),
        None => Ok(()),
    }
}

/// A file with every bug in it that belongs there.
fn planted(name: &str, text: String, plants: &[Plant]) -> Result<String, String> {
    let mut text = text;
    let module = if name.starts_with("crates/base/") { "crate" } else { "esker_base" };
    for plant in plants {
        for edit in plant.edits.iter().filter(|edit| edit.file == name) {
            if text.matches(&edit.find).count() != 1 {
                let times = text.matches(&edit.find).count();
                let first = edit.find.trim().lines().next().unwrap_or_default();
                return Err(format!(
                    "{}.plant: '{first}' … is {times} times in {name}: the code has changed, bring the bug up to date",
                    plant.name
                ));
            }
            let condition = format!("{module}::planted::is(\"{}\")", plant.name);
            text = text.replace(&edit.find, &edit.replace.replace("PLANTED", &condition));
        }
    }
    if name == "crates/base/src/lib.rs" {
        text.push_str(SWITCH);
    }
    Ok(text)
}

fn run_campaign(root: &Path, plant: &str, campaign: &[String], limit: Duration) -> Result<End, String> {
    let log = place(root, "campaign.log");
    let file = std::fs::File::create(&log).map_err(|e| format!("{}: {e}", log.display()))?;
    let start = Instant::now();
    let mut command = Machine::of(campaign).command(root, campaign);
    let cannot = |e| format!("{}: {e}", campaign.join(" "));
    let child = command.env(VARIABLE, plant).stdout(Stdio::null()).stderr(file).spawn();
    let mut child = child.map_err(cannot)?;
    let status = loop {
        match child.try_wait().map_err(cannot)? {
            Some(status) => break status,
            None if start.elapsed() >= limit => {
                child.kill().and_then(|()| child.wait()).map_err(cannot)?;
                return Ok(End::Passed(start.elapsed()));
            }
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    if status.success() {
        return Ok(End::Passed(start.elapsed()));
    }
    let said = read(&log)?;
    // Progress comes first, the report after it.
    let is_report =
        |line: &&str| line.contains("SEED=") || line.contains("divergence") || line.contains("panicked");
    let why = said.lines().find(is_report).or(said.lines().last()).unwrap_or("nothing");
    let why: String = format!("{why} ({status})").chars().take(200).collect();
    Ok(End::Failed(start.elapsed(), why.replace('|', "/")))
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bug_is_well_formed() {
        let plants = read_all(&crate::root()).expect("the bugs are well-formed");
        assert!(plants.len() >= 20, "{} bugs", plants.len());
    }

    #[test]
    fn a_bug_is_planted_where_its_text_stands_once() {
        let text = "what\ncampaign: model\nfile: a.rs\n<<<<\nx\n====\nif PLANTED { y }\n>>>>\n";
        let plants = [parse("bug", text).expect("well-formed")];
        let planted = |text: &str| planted("a.rs", text.to_owned(), &plants);
        assert_eq!(planted("{x}"), Ok("{if esker_base::planted::is(\"bug\") { y }}".to_owned()));
        assert!(planted("").is_err() && planted("xx").is_err());
        assert!(parse("bug", "what\ncampaign: model\n").is_err());
    }
}
