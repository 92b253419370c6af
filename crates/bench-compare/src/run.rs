//! The parent process: rounds, turns, and their results.
//!
//! In a round, each set gives every engine a fresh process and directory. At each step the engines
//! take turns. Every other round reverses their order, so over two rounds each pair of engines runs
//! as ABBA. Ratios are computed within a round.
//!
//! Invariants
//!  1. Only one engine works at a time: a child answers after its background work.
//!  2. The JSON on disk is complete up to the last ended set. It says `partial` until the run has
//!     ended without error.
//!  3. A failed engine is named, and skips the rest of the set in this round and all later rounds.
//!     The others continue.

use crate::bench::{BenchPlan, StepInfo};
use crate::directory::WorkDirectory;
use crate::engine::{RivalResult, RivalSettings};
use crate::engines::{EngineKind, Libraries, availability};
use crate::report::{Report, SuiteReport, TableCell, TableRow, html, table};
use crate::suites::SuiteId;
use crate::worker::{EngineWorker, Task, clean};
use crate::{RunArguments, Selection, machine};
use indicatif::{ProgressBar, ProgressStyle};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Runs the command line.
/// # Errors
/// A wrong command line; no engine that can run; an unusable directory; the failure of an engine;
/// engines that read different values; a time limit (`--minutes`) that ends the run early. The
/// figures of ended sets are kept.
#[expect(clippy::print_stdout, reason = "a command-line tool")]
pub(crate) fn main(arguments: &RunArguments) -> RivalResult<()> {
    if let Some(json) = &arguments.render {
        return render_again(json, arguments.html.as_deref());
    }
    let plan = plan(arguments)?;
    let selection = Selection::new(&arguments.only, &plan)?;
    if arguments.list {
        for suite in SuiteId::ALL {
            println!("{}", suite.title());
            for step in suite.steps(&plan) {
                println!("  {:<28} {}", step.name, step.title);
            }
        }
        return Ok(());
    }
    let mut run = Run::new(arguments, plan, &selection)?;
    if let Err(why) = run.rounds(!arguments.no_warm_up) {
        run.fail(why);
    }
    run.finish()?;
    println!("{}", table::render(&run.report));
    let page = arguments.html.clone().unwrap_or_else(|| run.json.with_extension("html"));
    write_whole(&page, &html::render(&run.report))?;
    println!("figures: {} · page: {}", run.json.display(), page.display());
    if run.failed { Err("the figures are partial; the notes say why".to_owned()) } else { Ok(()) }
}

/// Makes the table and the page from the figures of an earlier run.
#[expect(clippy::print_stdout, reason = "a command-line tool")]
fn render_again(json: &Path, page: Option<&Path>) -> RivalResult<()> {
    let fail = |e: String| format!("--render {}: {e}", json.display());
    let text = std::fs::read_to_string(json).map_err(|e| fail(e.to_string()))?;
    let report: Report = serde_json::from_str(&text).map_err(|e| fail(e.to_string()))?;
    println!("{}", table::render(&report));
    write_whole(page.unwrap_or(&json.with_extension("html")), &html::render(&report))
}

/// The default of `--minutes` with `--quick`.
const QUICK_MINUTES: u64 = 10;
/// The smallest number of keys with which sets have all their steps.
const FULL: u64 = 1_000_000;

/// The sizes that the command line gives.
/// # Errors
/// Numbers out of range.
fn plan(arguments: &RunArguments) -> RivalResult<BenchPlan> {
    let num = arguments.num.unwrap_or(if arguments.quick { 200_000 } else { 2_000_000 });
    let data = usize::try_from(num).map_err(|e| format!("--num {num}: {e}"))?.saturating_mul(116);
    let step_seconds = arguments.step_seconds.unwrap_or(if arguments.quick { 0.5 } else { 30.0 });
    if !(step_seconds > 0.0 && step_seconds < 1e6) {
        return Err(format!("--step-seconds {step_seconds}: a positive number of seconds is needed"));
    }
    let settings = RivalSettings {
        // A quarter of the data, but at least 1 MiB, and at most RocksDB's default of 64 MiB.
        write_buffer_bytes: arguments.write_buffer_size.unwrap_or((data / 4).clamp(1 << 20, 64 << 20)),
        cache_bytes: arguments.cache_size.unwrap_or((data * 4).max(64 << 20)),
        bloom_bits: 10.0,
        map_bytes: data.saturating_mul(40).max(1 << 30),
        synced: false,
    };
    Ok(BenchPlan { num, full: num >= FULL, step_seconds, settings, in_memory: false })
}

struct Run {
    report: Report,
    directory: WorkDirectory,
    json: PathBuf,
    libraries: Libraries,
    /// The steps of each set, and the engines that failed in it.
    sets: Vec<Set>,
    start: Instant,
    /// The time after which no set begins.
    end: Option<Instant>,
    progress: ProgressBar,
    failed: bool,
}

struct Set {
    suite: SuiteId,
    /// Steps, with their index in the set.
    steps: Vec<(usize, StepInfo)>,
    failed: Vec<EngineKind>,
}

/// Bytes of disk space that the files of one engine may need for each byte of keys and values.
const ROOM: u64 = 4;

impl Run {
    fn new(arguments: &RunArguments, mut plan: BenchPlan, selection: &Selection) -> RivalResult<Run> {
        let libraries =
            Libraries::new(arguments.esker_library.as_deref(), arguments.rocksdb_library.as_deref());
        let mut problems = Vec::new();
        let mut engines = Vec::new();
        let mut wanted = arguments.engines.clone();
        wanted.sort_unstable();
        wanted.dedup();
        for kind in wanted {
            match availability(kind, &libraries) {
                Ok(info) => engines.push(info),
                Err(why) => problems.push(format!("{kind} is left out: {why}")),
            }
        }
        if engines.is_empty() {
            return Err(format!("no engine can run: {}", problems.join("; ")));
        }
        let needed = plan.num * 116 * ROOM * engines.len() as u64;
        let directory = WorkDirectory::take(arguments.directory.as_deref(), needed)?;
        let machine = machine::describe(directory.path());
        plan.in_memory = ["tmpfs", "ramfs"].contains(&machine.file_system.as_str());
        let report = Report {
            date: machine::now().to_string(),
            command: std::env::args().collect::<Vec<_>>().join(" "),
            machine,
            plan,
            pairs: arguments.pairs.unwrap_or(5) as usize,
            partial: true,
            problems,
            engines,
            suites: Vec::new(),
            seconds: 0.0,
        };
        let start = Instant::now();
        let minutes = arguments.minutes.or(arguments.quick.then_some(QUICK_MINUTES));
        let mut run = Run {
            report,
            directory,
            json: arguments.json.clone(),
            libraries,
            sets: Vec::new(),
            start,
            end: minutes.map(|minutes| start + Duration::from_secs(minutes * 60)),
            progress: ProgressBar::hidden(),
            failed: false,
        };
        SuiteId::ALL.into_iter().for_each(|suite| run.add_set(suite, selection));
        Ok(run)
    }

    /// Adds the requested steps of a set, and the earlier steps whose database they use.
    fn add_set(&mut self, suite: SuiteId, selection: &Selection) {
        let plan = &self.report.plan;
        let steps = suite.steps(plan);
        let Some(last) = steps.iter().rposition(|step| selection.contains(&step.name)) else { return };
        let needed = |(index, step): &(usize, StepInfo)| {
            selection.contains(&step.name) || suite.prepares(plan, *index)
        };
        let steps: Vec<_> = steps.into_iter().enumerate().take(last + 1).filter(needed).collect();
        let rows = steps.iter().map(|(_, info)| TableRow { info: info.clone(), cells: self.empty_cells() });
        let rows = rows.collect();
        self.report.suites.push(SuiteReport { id: suite, title: suite.title().to_owned(), rows });
        self.sets.push(Set { suite, steps, failed: Vec::new() });
    }

    fn empty_cells(&self) -> Vec<TableCell> {
        let cell = |kind| TableCell { kind, samples: Vec::new(), missing: None };
        self.report.engines.iter().map(|engine| cell(engine.kind)).collect()
    }

    /// Runs a warm-up round at a tenth of the size, but with at least 1,000 keys, and then the
    /// counted rounds. Each round runs all sets, so that a lack of time costs rounds and not sets.
    fn rounds(&mut self, warm_up: bool) -> RivalResult<()> {
        let rounds = self.report.pairs + usize::from(warm_up);
        let steps: usize = self.sets.iter().map(|set| set.steps.len()).sum();
        self.progress = progress_bar((rounds * steps * self.report.engines.len()) as u64);
        for round in 0..rounds {
            for set in 0..self.sets.len() {
                if self.end.is_some_and(|end| Instant::now() > end) {
                    let counted = round.saturating_sub(usize::from(warm_up));
                    return Err(format!(
                        "the time was over in round {} of {}",
                        counted + 1,
                        self.report.pairs
                    ));
                }
                self.round(set, round, warm_up && round == 0)?;
                self.save()?;
            }
        }
        Ok(())
    }

    fn fail(&mut self, why: String) {
        self.failed = true;
        self.report.problems.push(why);
    }

    /// Records the end of a run, and saves the figures.
    fn finish(&mut self) -> RivalResult<()> {
        self.progress.finish_and_clear();
        let disagreements: Vec<String> =
            self.report.suites.iter().flat_map(SuiteReport::disagreements).collect();
        disagreements.into_iter().for_each(|why| self.fail(why));
        self.report.seconds = self.start.elapsed().as_secs_f64();
        self.report.machine.load_after = machine::load();
        self.report.partial = self.failed;
        self.save()
    }

    /// Runs a set once on every engine.
    fn round(&mut self, set: usize, round: usize, is_warm_up: bool) -> RivalResult<()> {
        let Set { suite, steps, .. } = &self.sets[set];
        let (suite, steps) = (*suite, steps.clone());
        let mut plan = self.report.plan.clone();
        if is_warm_up {
            plan.num = (plan.num / 10).max(1000);
        }
        let mut kinds: Vec<EngineKind> = self.report.engines.iter().map(|engine| engine.kind).collect();
        if round % 2 == 1 {
            kinds.reverse();
        }
        let root = self.directory.path().join(format!("round-{round}"));
        let mut workers = Vec::new();
        for kind in kinds.into_iter().filter(|kind| !self.sets[set].failed.contains(kind)) {
            let task = Task {
                engine: kind,
                suite,
                plan: plan.clone(),
                directory: root.join(kind.name()),
                library: self.libraries.of(kind).map(Path::to_owned),
            };
            workers.push((kind, EngineWorker::start(&task)?));
        }
        for (row, (index, info)) in steps.iter().enumerate() {
            for (kind, worker) in &mut workers {
                self.progress.inc(1);
                if self.sets[set].failed.contains(kind) {
                    continue;
                }
                self.progress.set_message(format!("{} · {kind}", info.title));
                let cell = CellAt { suite, row, kind: *kind };
                if let Some(why) = suite.missing(&plan, *index, &kind.abilities()?) {
                    self.cell(cell).missing = Some(why.to_owned());
                    continue;
                }
                match worker.run(*index) {
                    Ok(_) if is_warm_up => {}
                    Ok(sample) => self.cell(cell).samples.push(sample),
                    Err(why) => {
                        self.sets[set].failed.push(*kind);
                        self.fail(format!("{kind} stopped at '{}': {why}", info.name));
                    }
                }
            }
        }
        drop(workers);
        clean(&root)
    }

    fn cell(&mut self, at: CellAt) -> &mut TableCell {
        let suite =
            self.report.suites.iter_mut().find(|s| s.id == at.suite).expect("pushed before its rounds");
        let cells = &mut suite.rows[at.row].cells;
        cells.iter_mut().find(|cell| cell.kind == at.kind).expect("the row has a cell for every engine")
    }

    fn save(&self) -> RivalResult<()> {
        let text = serde_json::to_string_pretty(&self.report).expect("reports are plain data");
        write_whole(&self.json, &text)
    }
}

struct CellAt {
    suite: SuiteId,
    row: usize,
    kind: EngineKind,
}

/// Replaces a file atomically: a crash leaves the old text or the new one.
fn write_whole(path: &Path, text: &str) -> RivalResult<()> {
    let fail = |e: std::io::Error| format!("{}: {e}", path.display());
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent).map_err(fail)?;
    }
    let new = path.with_extension("new");
    std::fs::write(&new, text).map_err(fail)?;
    std::fs::rename(&new, path).map_err(fail)
}

fn progress_bar(steps: u64) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    let style = ProgressStyle::with_template("{elapsed:>4} [{bar:32}] {pos}/{len} {msg}");
    bar.set_style(style.expect("the template is a valid literal"));
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}
