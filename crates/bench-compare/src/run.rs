//! The parent: rounds, turns, and what is kept of them.
//!
//! A round gives every engine a fresh process and directory. At each step the engines take turns; every other round turns
//! the order around, so that over two rounds each two engines ran as ABBA. Ratios are taken within a round.
//!
//! Invariants
//!  1. Only one engine works at a time: a child answers when its background work is done, too.
//!  2. The JSON on disk is complete up to the last round that ended, and says `partial` until the run has ended well.
//!  3. An engine that fails is out for the rest of the set, and named; the others go on.

use crate::bench::{Plan, StepInfo};
use crate::directory::WorkDirectory;
use crate::engine::{Result, Settings};
use crate::engines::{Kind, availability};
use crate::report::{Cell, Report, Row, SuiteReport, html, table};
use crate::suites::SuiteId;
use crate::worker::{Task, Worker, clean};
use crate::{RunArguments, Selection, machine};
use indicatif::{ProgressBar, ProgressStyle};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Does what the command line says.
/// # Errors
/// Nonsense on the command line · no engine can run · a directory that cannot be used · any engine's failure; what has
/// been measured is kept.
#[expect(clippy::print_stdout, reason = "a command-line tool")]
pub(crate) fn main(arguments: &RunArguments) -> Result<()> {
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
    let pairs = arguments.pairs.unwrap_or(5) as usize;
    let mut run = Run::new(arguments, plan, pairs)?;
    let start = Instant::now();
    for suite in SuiteId::ALL {
        let steps = run.steps(suite, &selection);
        if !steps.is_empty() {
            run.suite(suite, &steps, !arguments.no_warm_up)?;
        }
    }
    run.progress.finish_and_clear();
    run.report.seconds = start.elapsed().as_secs_f64();
    run.report.machine.load_after = machine::load();
    run.report.partial = run.failed;
    run.save()?;
    println!("{}", table::render(&run.report));
    let page = arguments.html.clone().unwrap_or_else(|| run.json.with_extension("html"));
    write_whole(&page, &html::render(&run.report))?;
    println!("figures: {} · page: {}", run.json.display(), page.display());
    if run.failed { Err("some engines failed: the figures are partial".to_owned()) } else { Ok(()) }
}

/// Makes the table and the page of an earlier run's figures.
#[expect(clippy::print_stdout, reason = "a command-line tool")]
fn render_again(json: &Path, page: Option<&Path>) -> Result<()> {
    let fail = |e: String| format!("--render {}: {e}", json.display());
    let text = std::fs::read_to_string(json).map_err(|e| fail(e.to_string()))?;
    let report: Report = serde_json::from_str(&text).map_err(|e| fail(e.to_string()))?;
    println!("{}", table::render(&report));
    write_whole(page.unwrap_or(&json.with_extension("html")), &html::render(&report))
}

/// Keys from which on sets have all their steps.
const FULL: u64 = 1_000_000;

/// The sizes that the command line asks for.
/// # Errors
/// Numbers that cannot be.
fn plan(arguments: &RunArguments) -> Result<Plan> {
    let num = arguments.num.unwrap_or(if arguments.quick { 200_000 } else { 2_000_000 });
    let data = usize::try_from(num).map_err(|e| format!("--num {num}: {e}"))?.saturating_mul(116);
    let step_seconds = arguments.step_seconds.unwrap_or(if arguments.quick { 1.5 } else { 30.0 });
    if !(step_seconds > 0.0 && step_seconds < 1e6) {
        return Err(format!("--step-seconds {step_seconds}: a positive number of seconds is needed"));
    }
    let settings = Settings {
        // RocksDB's default for its default size; the same proportion below.
        write_buffer_bytes: arguments.write_buffer_size.unwrap_or((data / 4).clamp(1 << 20, 64 << 20)),
        cache_bytes: arguments.cache_size.unwrap_or((data * 4).max(64 << 20)),
        bloom_bits: 10.0,
        map_bytes: data.saturating_mul(40).max(1 << 30),
    };
    Ok(Plan { num, full: num >= FULL, step_seconds, settings })
}

struct Run {
    report: Report,
    directory: WorkDirectory,
    json: PathBuf,
    rocksdb_library: Option<PathBuf>,
    progress: ProgressBar,
    failed: bool,
}

/// Bytes a run may take on disk for each byte of keys and values, with every engine's files at once.
const ROOM: u64 = 4;

impl Run {
    fn new(arguments: &RunArguments, plan: Plan, pairs: usize) -> Result<Run> {
        let library = arguments.rocksdb_library.clone();
        let mut problems = Vec::new();
        let mut engines = Vec::new();
        let mut wanted = arguments.engines.clone();
        wanted.sort_unstable();
        wanted.dedup();
        for kind in wanted {
            match availability(kind, library.as_deref()) {
                Ok(info) => engines.push(info),
                Err(why) => problems.push(format!("{kind} is left out: {why}")),
            }
        }
        if engines.is_empty() {
            return Err(format!("no engine can run: {}", problems.join("; ")));
        }
        let needed = plan.num * 116 * ROOM * engines.len() as u64;
        let directory = WorkDirectory::take(arguments.directory.as_deref(), needed)?;
        let report = Report {
            date: machine::now().to_string(),
            command: std::env::args().collect::<Vec<_>>().join(" "),
            machine: machine::describe(directory.path()),
            plan,
            pairs,
            partial: true,
            problems,
            engines,
            suites: Vec::new(),
            seconds: 0.0,
        };
        let json = arguments.json.clone();
        Ok(Run {
            report,
            directory,
            json,
            rocksdb_library: library,
            progress: ProgressBar::hidden(),
            failed: false,
        })
    }

    /// The steps of a set that must run: those asked for, and those they work on.
    fn steps(&self, suite: SuiteId, selection: &Selection) -> Vec<(usize, StepInfo)> {
        let plan = &self.report.plan;
        let steps = suite.steps(plan);
        let Some(last) = steps.iter().rposition(|step| selection.contains(&step.name)) else {
            return Vec::new();
        };
        let needed = |(index, step): &(usize, StepInfo)| {
            selection.contains(&step.name) || suite.prepares(plan, *index)
        };
        steps.into_iter().enumerate().take(last + 1).filter(needed).collect()
    }

    /// Runs a set: a round that warms up, at a tenth of the size, and the rounds that count.
    fn suite(&mut self, suite: SuiteId, steps: &[(usize, StepInfo)], warm_up: bool) -> Result<()> {
        let rows = steps.iter().map(|(_, info)| Row { info: info.clone(), cells: self.empty_cells() });
        self.report.suites.push(SuiteReport {
            id: suite,
            title: suite.title().to_owned(),
            rows: rows.collect(),
        });
        let rounds = self.report.pairs + usize::from(warm_up);
        self.progress = progress_bar((rounds * steps.len() * self.report.engines.len()) as u64);
        let mut failed = Vec::new();
        for round in 0..rounds {
            let is_warm_up = warm_up && round == 0;
            self.round(suite, steps, round, is_warm_up, &mut failed)?;
            self.save()?;
        }
        self.progress.finish_and_clear();
        let disagreements = self.report.suites.last().expect("pushed above").disagreements();
        self.failed |= !disagreements.is_empty();
        self.report.problems.extend(disagreements);
        Ok(())
    }

    fn empty_cells(&self) -> Vec<Cell> {
        let cell = |kind| Cell { kind, samples: Vec::new(), missing: None };
        self.report.engines.iter().map(|engine| cell(engine.kind)).collect()
    }

    fn round(
        &mut self,
        suite: SuiteId,
        steps: &[(usize, StepInfo)],
        round: usize,
        is_warm_up: bool,
        failed: &mut Vec<Kind>,
    ) -> Result<()> {
        let mut plan = self.report.plan.clone();
        if is_warm_up {
            plan.num = (plan.num / 10).max(1000);
        }
        let mut kinds: Vec<Kind> = self.report.engines.iter().map(|engine| engine.kind).collect();
        if round % 2 == 1 {
            kinds.reverse();
        }
        let root = self.directory.path().join(format!("round-{round}"));
        let mut workers = Vec::new();
        for kind in kinds.into_iter().filter(|kind| !failed.contains(kind)) {
            let task = Task {
                engine: kind,
                suite,
                plan: plan.clone(),
                directory: root.join(kind.name()),
                rocksdb_library: self.rocksdb_library.clone(),
            };
            workers.push((kind, Worker::start(&task)?));
        }
        for (row, (index, info)) in steps.iter().enumerate() {
            for (kind, worker) in &mut workers {
                self.progress.inc(1);
                if failed.contains(kind) {
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
                        self.failed = true;
                        failed.push(*kind);
                        self.report.problems.push(format!("{} stopped at '{}': {why}", kind, info.name));
                    }
                }
            }
        }
        drop(workers);
        clean(&root)
    }

    fn cell(&mut self, at: CellAt) -> &mut Cell {
        let suite =
            self.report.suites.iter_mut().find(|s| s.id == at.suite).expect("pushed before its rounds");
        let cells = &mut suite.rows[at.row].cells;
        cells.iter_mut().find(|cell| cell.kind == at.kind).expect("made for every engine")
    }

    fn save(&self) -> Result<()> {
        let text = serde_json::to_string_pretty(&self.report).expect("reports are plain data");
        write_whole(&self.json, &text)
    }
}

struct CellAt {
    suite: SuiteId,
    row: usize,
    kind: Kind,
}

/// Puts a file in place in one piece: a reader, or a run that dies, never leaves half of one.
fn write_whole(path: &Path, text: &str) -> Result<()> {
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
    bar.set_style(style.expect("a literal"));
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}
