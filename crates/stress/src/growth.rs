//! Checks that the work of an operation grows with the requested amount only.
//!
//! In: sizes. Out: a [`GrowthReport`], or all cells of the table in `docs/growth.md` whose work
//! grows faster than the page allows. A cell combines an operation (`operations`) with an axis
//! (`axes`), which is a kind of thing such as files or snapshots. The operation runs on databases
//! with n, 2n and 4n of these things. Its work is counted without a clock (`work`).
//!
//! The program must install the counting allocator, as `esker-growth` does, and must run nothing
//! else meanwhile.

mod axes;
mod callgrind;
mod judge;
mod operations;
mod page;
mod subject;
mod work;

use axes::Axis;
use esker::internals::env::Env;
use judge::Finding;
use operations::Operation;
use page::{Allowed, Page};
use std::fmt;
use subject::GrowthSubject;
use work::Work;

/// Number of times that a cell is measured again if its work grows too fast.
const MORE_MEASUREMENTS: u32 = 2;

/// Parameters of a campaign.
#[derive(Clone, Debug)]
pub struct GrowthParameters {
    /// A factor for the smallest n of each axis; 1 in the short form.
    pub scale: u64,
    /// Number of sizes: n, 2n, 4n and so on.
    pub sizes: u32,
    /// Axes to take. An empty list means all axes.
    pub axes: Vec<String>,
    /// Operations to take. An empty list means all operations.
    pub operations: Vec<String>,
    /// Print every finding, not only findings above the limits.
    pub verbose: bool,
}

/// Counts of a campaign.
#[derive(Clone, Debug, Default)]
pub struct GrowthReport {
    /// Cells that were measured.
    pub cells: u64,
    /// Cells that the page marks as meaningless.
    pub senseless: u64,
}

impl fmt::Display for GrowthReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "growth: {} cells grow as docs/growth.md allows; {} have no meaning there",
            self.cells, self.senseless
        )
    }
}

/// Measures and judges every cell.
/// # Errors
/// An unknown axis or operation · the page does not fit the code · an operation failed · a cell
/// grows too fast.
pub fn run(parameters: &GrowthParameters) -> Result<GrowthReport, String> {
    let axes: Vec<&str> = axes::ALL.iter().map(|axis| axis.name).collect();
    let operations: Vec<&str> = operations::ALL.iter().map(|operation| operation.name).collect();
    check_names(&parameters.axes, &axes)?;
    check_names(&parameters.operations, &operations)?;
    let page = Page::load(&axes, &operations)?;
    let mut campaign = Campaign {
        parameters,
        page,
        env: Env::default(),
        report: GrowthReport::default(),
        wrong: Vec::new(),
    };
    axes::ALL
        .iter()
        .filter(|axis| is_chosen(&parameters.axes, axis.name))
        .for_each(|axis| campaign.run_axis(axis));
    if campaign.wrong.is_empty() { Ok(campaign.report) } else { Err(campaign.wrong.join("\n")) }
}

struct Campaign<'a> {
    parameters: &'a GrowthParameters,
    page: Page,
    /// The environment of all databases, which share its threads.
    env: Env,
    report: GrowthReport,
    /// Messages about failures, for the final report.
    wrong: Vec<String>,
}

impl Campaign<'_> {
    fn run_axis(&mut self, axis: &Axis) {
        let chosen = operations::ALL.iter().filter(|op| is_chosen(&self.parameters.operations, op.name));
        let (chosen, senseless): (Vec<_>, Vec<_>) =
            chosen.partition(|op| self.page.allowed(axis.name, op.name) != &Allowed::Senseless);
        self.report.senseless += senseless.len() as u64;
        let mut works = vec![Vec::new(); chosen.len()];
        for doubling in 0..self.parameters.sizes {
            self.measure_at(axis, (axis.unit * self.parameters.scale) << doubling, &chosen, &mut works);
        }
        for (operation, works) in chosen.iter().zip(works) {
            if works.len() == self.parameters.sizes as usize {
                self.report.cells += 1;
                let works = self.without_chance(axis, operation, works);
                self.report_findings(axis, operation, &works);
            }
        }
    }

    /// Measures a cell again if some of its work grows too fast. Returns the least work that was
    /// counted for each size: a thread that gets no processor makes others wait, retry and count
    /// more, never less.
    fn without_chance(&mut self, axis: &Axis, operation: &Operation, works: Vec<Work>) -> Vec<Work> {
        let allowed = self.page.allowed(axis.name, operation.name).clone();
        let grows_too_fast = |works: &[Work]| judge::judge(&allowed, works).iter().any(|f| f.is_too_much);
        let mut least = works;
        for _ in 0..MORE_MEASUREMENTS {
            if !grows_too_fast(&least) {
                break;
            }
            let mut again = [Vec::new()];
            for doubling in 0..self.parameters.sizes {
                let n = (axis.unit * self.parameters.scale) << doubling;
                self.measure_at(axis, n, &[operation], &mut again);
            }
            let [again] = again;
            if again.len() == least.len() {
                least = least.iter().zip(&again).map(|(one, other)| one.least(other)).collect();
            }
        }
        least
    }

    /// Adds the work of each of `operations` at `n` to `works`. A failed operation is reported and
    /// adds nothing.
    fn measure_at(&mut self, axis: &Axis, n: u64, operations: &[&Operation], works: &mut [Vec<Work>]) {
        let mut shared = None;
        for (operation, works) in operations.iter().zip(works) {
            let work = if operation.alone {
                grown(&self.env, axis, operation.options, n).and_then(|mut s| measure(&mut s, operation))
            } else {
                let subject = match shared.take() {
                    Some(subject) => Ok(subject),
                    None => grown(&self.env, axis, |_| (), n),
                };
                subject.and_then(|subject| measure(shared.insert(subject), operation))
            };
            match work {
                Ok(work) => works.push(work),
                Err(e) => {
                    self.wrong.push(format!("  FAILED  {} × {} at {n}: {e}", operation.name, axis.name))
                }
            }
        }
    }

    fn report_findings(&mut self, axis: &Axis, operation: &Operation, works: &[Work]) {
        for finding in judge::judge(self.page.allowed(axis.name, operation.name), works) {
            let text = describe(axis, operation, &finding);
            if finding.is_too_much {
                self.wrong.push(text);
            } else if self.parameters.verbose {
                say(&text);
            }
        }
    }
}

/// Runs this program again with `args` under callgrind, so that instructions are counted, too.
/// # Errors
/// valgrind is missing, or the program failed.
pub fn run_under_callgrind(directory: &std::path::Path, args: &[String]) -> Result<(), String> {
    callgrind::run_again(directory, args)
}

fn is_chosen(chosen: &[String], name: &str) -> bool {
    chosen.is_empty() || chosen.iter().any(|one| one == name)
}

fn check_names(chosen: &[String], known: &[&str]) -> Result<(), String> {
    match chosen.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(format!("there is no '{name}'; there are: {}", known.join(", "))),
        None => Ok(()),
    }
}

#[expect(clippy::print_stderr, reason = "what a campaign finds out")]
fn say(text: &str) {
    eprintln!("{text}");
}

fn describe(axis: &Axis, operation: &Operation, finding: &Finding) -> String {
    let exponent = finding.exponent.map_or("flat".to_owned(), |e| format!("n^{e:.1}"));
    let verdict = if finding.is_too_much { "TOO MUCH" } else { "ok" };
    let amounts: Vec<String> = finding.amounts.iter().map(u64::to_string).collect();
    format!(
        "{verdict:>8}  {} × {}: {} {} ({exponent}; allowed {})",
        operation.name,
        axis.name,
        finding.measure.name(),
        amounts.join(" → "),
        finding.allowed.name()
    )
}

fn measure(subject: &mut GrowthSubject, operation: &Operation) -> esker::Result<Work> {
    subject.settle()?;
    let act = (operation.prepare)(subject)?;
    work::measure(subject, act)
}

/// A database with `n` of the things that the axis makes.
fn grown(env: &Env, axis: &Axis, options: fn(&mut esker::Options), n: u64) -> esker::Result<GrowthSubject> {
    let mut subject = GrowthSubject::new(env);
    (axis.options)(&mut subject.options, n);
    subject.write_policy = axis.write_policy;
    options(&mut subject.options);
    subject.open()?;
    subject.fill_sides()?;
    (axis.grow)(&mut subject, n)?;
    subject.open_tables();
    Ok(subject)
}
