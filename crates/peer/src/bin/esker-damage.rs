//! Damages every golden database in every way: `esker-damage STEP [REPAIR_STEP [PREFIX]]`. Of the
//! bytes of each file one in STEP is flipped; of the cases one in REPAIR_STEP is repaired.

use esker_peer::damage::{DamageTally, campaign};
use esker_peer::{fixture, note};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, otherwise: u64| {
        arguments.get(at).map_or(Some(otherwise), |text| text.parse().ok().filter(|n| *n > 0))
    };
    let (Some(step), Some(repair_step)) = (number(0, 1), number(1, 1)) else {
        note("usage: esker-damage STEP [REPAIR_STEP [PREFIX]]: numbers above 0");
        return ExitCode::from(2);
    };
    let prefix = arguments.get(2).map_or("v", String::as_str);
    // A panic is a finding and is reported with its case.
    std::panic::set_hook(Box::new(|panic| note(&format!("{panic}"))));
    let mut all = DamageTally::default();
    for fixture in fixture::all(&[prefix]).iter().filter(|f| f.is_database()) {
        let tally = campaign(fixture, usize::try_from(step).unwrap_or(usize::MAX), repair_step);
        for finding in tally.findings.iter().take(20) {
            note(&format!("FINDING: {finding}"));
        }
        all.add(tally);
    }
    note(&format!(
        "{} cases: {} errors that name the file, {} whole, {} earlier states; {} repaired; {} findings",
        all.cases,
        all.errors,
        all.whole,
        all.earlier,
        all.repaired,
        all.findings.len()
    ));
    if all.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
