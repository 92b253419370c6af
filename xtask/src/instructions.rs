//! Compares instructions per operation with the record in the tree: a guard that needs no clock.
//!
//! In: the output of `cargo bench -p esker-bench --bench instructions`, and
//! `crates/bench/instructions.txt`. Out: a table; failure if a scenario takes over 3% more than
//! recorded, or if only the output or only the record has it. A commit that raises a count on
//! purpose records the new count and says why. Lower counts are recorded from time to time, so that
//! they cannot rise again.

use crate::commands::{Outcome, run};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

const RECORD: &str = "crates/bench/instructions.txt";
/// Largest tolerated rise, in thousandths of the recorded count.
const TOLERATED_PER_MILLE: u64 = 30;

/// Instructions per operation, by scenario.
type Counts = BTreeMap<String, u64>;

/// Counts instructions, and compares them with the record or writes the record.
pub(crate) fn check(root: &Path, record: bool) -> Outcome {
    run(root, &[], "bash", &[".ci/fetch-valgrind"])?;
    let counted = count(root)?;
    let path = root.join(RECORD);
    if record {
        let text = format!("{}{}", head(root)?, lines(&counted));
        return std::fs::write(&path, text).map_err(|e| format!("{RECORD}: {e}"));
    }
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{RECORD}: {e}"))?;
    let recorded = parse(&text).map_err(|e| format!("{RECORD}: {e}"))?;
    let (table, failures) = compare(&recorded, &counted);
    print!("{table}");
    if failures.is_empty() {
        return Ok(());
    }
    let circumstances = text.lines().find(|line| line.starts_with("# Recorded with")).unwrap_or_default();
    Err(format!(
        "{}\nAbout the record: {circumstances}\nIf the change is intended: cargo xtask instructions --record, and say why in the commit.",
        failures.join("\n")
    ))
}

fn count(root: &Path) -> Result<Counts, String> {
    let args = ["bench", "-p", "esker-bench", "--bench", "instructions"];
    eprintln!("$ cargo {}", args.join(" "));
    let output = Command::new("cargo")
        .args(args)
        .current_dir(root)
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|e| format!("cargo: {e}"))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    if output.status.success() { parse(&printed) } else { Err(format!("the scenarios failed:\n{printed}")) }
}

/// The head of the record: the versions of tools on which the counts depend.
fn head(root: &Path) -> Result<String, String> {
    let version = |program: &str| {
        let output = Command::new(program).arg("--version").current_dir(root).output();
        let output = output.map_err(|e| format!("{program}: {e}"))?;
        Ok::<_, String>(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    Ok(format!(
        "# Instructions per operation: name, count. Checked and written by `cargo xtask instructions [--record]`.\n\
         # Recorded with {}; {}; {}\n",
        version("rustc")?,
        version("valgrind")?,
        std::env::consts::ARCH,
    ))
}

fn lines(counts: &Counts) -> String {
    counts.iter().map(|(name, count)| format!("{name:<28}{count:>8}\n")).collect()
}

fn parse(text: &str) -> Result<Counts, String> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    lines
        .map(|line| {
            let (name, count) =
                line.split_once(char::is_whitespace).ok_or_else(|| format!("no count: {line}"))?;
            let count = count.trim().parse().map_err(|_| format!("no count: {line}"))?;
            Ok((name.to_owned(), count))
        })
        .collect()
}

/// A table of the scenarios that are recorded and counted, and a sentence for each failed scenario.
fn compare(recorded: &Counts, counted: &Counts) -> (String, Vec<String>) {
    let (mut table, mut failures) = (String::new(), Vec::new());
    for (name, &now) in counted {
        let Some(&then) = recorded.get(name) else {
            failures.push(format!("{name}: {now} instructions, none recorded"));
            continue;
        };
        let change = (now as f64 - then as f64) / then as f64 * 100.0;
        writeln!(table, "{name:<28}{then:>8} -> {now:>8}  {change:>+7.2}%").expect("a String takes it");
        if now * 1000 > then * (1000 + TOLERATED_PER_MILLE) {
            failures.push(format!("{name}: {now} instructions, {change:.1}% more than the {then} recorded"));
        }
    }
    let gone = recorded.keys().filter(|name| !counted.contains_key(*name));
    failures.extend(gone.map(|name| format!("{name}: recorded, but there is no such scenario any more")));
    (table, failures)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(pairs: &[(&str, u64)]) -> Counts {
        pairs.iter().map(|&(name, count)| (name.to_owned(), count)).collect()
    }

    fn failures(recorded: &[(&str, u64)], counted: &[(&str, u64)]) -> Vec<String> {
        compare(&counts(recorded), &counts(counted)).1
    }

    #[test]
    fn recorded_counts_are_read_back() {
        let written = counts(&[("get", 1500), ("a_scenario_with_a_rather_long_name", 7)]);
        assert_eq!(parse(&format!("# head\n\n{}", lines(&written))), Ok(written));
        assert!(parse("get\n").is_err());
        assert!(parse("get many\n").is_err());
    }

    #[test]
    fn three_percent_more_passes_and_the_next_instruction_fails() {
        assert!(failures(&[("get", 1000)], &[("get", 1030)]).is_empty());
        assert!(failures(&[("get", 1000)], &[("get", 500)]).is_empty());
        let failed = failures(&[("get", 1000), ("put", 10)], &[("get", 1031), ("put", 10)]);
        assert_eq!(failed, ["get: 1031 instructions, 3.1% more than the 1000 recorded"]);
    }

    #[test]
    fn every_scenario_is_recorded_and_every_record_has_a_scenario() {
        assert_eq!(failures(&[], &[("get", 1)]), ["get: 1 instructions, none recorded"]);
        assert_eq!(failures(&[("get", 1)], &[]), ["get: recorded, but there is no such scenario any more"]);
    }
}
