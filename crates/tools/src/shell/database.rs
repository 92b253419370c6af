//! The state of a shell: an open database and the settings of the user.
//!
//! Invariant: all reads of a command see one state: that of the snapshot in use, or the newest one,
//! with the writes of an open transaction.

use super::command::{chooses_place, may_choose_place, reads_database};
use super::print::{RowForm, RowPrinter};
use super::scan::ScanWish;
use super::stop::StopFlag;
use super::transaction::ShellTransaction;
use super::words::{ShellWord, commands, key_text, message_text};
use super::{Out, ShellOptions, terminal_width};
use crate::failure::{CommandOutcome, Failure};
use crate::host::Host;
use crate::ldb::OpenedWith;
use crate::units;
use esker::internals::base::sync::atomic::{AtomicBool, Ordering};
use esker::{ColumnFamilyHandle, ColumnFamilyOptions, Db, ReadOptions, Snapshot, TransactionDb};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

/// Rows of a scan without a limit, on a terminal.
const DEFAULT_LIMIT: u64 = 100;

/// The word for a database that follows its writer.
const SECONDARY: &str = "secondary";

/// A shell with an open database.
pub(super) struct DbShell<'a> {
    pub(super) host: &'a Host,
    pub(super) db: Db,
    pub(super) family: ColumnFamilyHandle,
    pub(super) new_family: ColumnFamilyOptions,
    /// The families of which no warning was given yet, and whether reads have joined operands of
    /// an unknown merge operator in them.
    pub(super) joined: Vec<(String, Arc<AtomicBool>)>,
    /// The word for the prompt, if the database is not open for writing.
    pub(super) limits: Option<&'static str>,
    /// The locks of the database, from the first transaction on.
    pub(super) locking: Option<TransactionDb>,
    pub(super) transaction: Option<ShellTransaction>,
    /// By number.
    pub(super) snapshots: BTreeMap<u64, Snapshot>,
    /// Snapshots that were taken.
    pub(super) taken: u64,
    /// The number of the snapshot that reads see.
    pub(super) used: Option<u64>,
    pub(super) printer: RowPrinter,
    pub(super) has_timer: bool,
    pub(super) limit: Option<u64>,
    /// The rest of the last scan that was cut.
    pub(super) rest: Option<ScanWish>,
    pub(super) stop: StopFlag,
    pub(super) shows_progress: bool,
    pub(super) is_interactive: bool,
    pub(super) is_over: bool,
    /// Whether a `use` or a `begin` has failed, or did not run since one before it failed: later
    /// commands of a script would write elsewhere than it says.
    pub(super) has_lost_place: bool,
}

impl<'a> DbShell<'a> {
    pub(super) fn new(
        opened: OpenedWith,
        options: &ShellOptions,
        is_interactive: bool,
        host: &'a Host,
    ) -> CommandOutcome<DbShell<'a>> {
        let OpenedWith { db, new_family, joined } = opened;
        let name = &options.column_family;
        let family = db.column_family(name).ok_or_else(|| no_family(name, &db))?;
        let width = terminal_width(host);
        let form = if options.json { RowForm::Json } else { options.mode };
        let limits = match &options.secondary {
            Some(_) => Some(SECONDARY),
            None => options.read_only.then_some("read-only"),
        };
        #[cfg(feature = "shell")]
        let stop = if is_interactive { StopFlag::of_signals() } else { StopFlag::default() };
        #[cfg(not(feature = "shell"))]
        let stop = StopFlag::default();
        Ok(DbShell {
            host,
            db,
            family,
            new_family,
            joined,
            limits,
            locking: None,
            transaction: None,
            snapshots: BTreeMap::new(),
            taken: 0,
            used: None,
            printer: RowPrinter { form, width, only_keys: false },
            has_timer: false,
            limit: width.map(|_| DEFAULT_LIMIT),
            rest: None,
            stop,
            shows_progress: false,
            is_interactive,
            is_over: false,
            has_lost_place: false,
        })
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// The first line on a terminal.
    #[cfg_attr(not(feature = "shell"), expect(dead_code, reason = "for terminals"))]
    pub(super) fn banner(&self) -> String {
        let families = units::counted(self.db.column_family_names().len() as u64, "column family");
        let how = match self.limits {
            None => "open for writing",
            Some(SECONDARY) => "follows its writer",
            Some(_) => "read-only, as it is now",
        };
        let dir = message_text(&self.db.path().display().to_string());
        format!("{dir}: {families}, {how}. Type help for the commands, ctrl-D to end.")
    }

    /// Family, snapshot and transaction.
    #[cfg_attr(not(feature = "shell"), expect(dead_code, reason = "for terminals"))]
    pub(super) fn prompt(&self) -> String {
        let mut prompt = key_text(self.family.name().as_bytes());
        if let Some(limits) = self.limits {
            prompt.push_str(&format!(" ({limits})"));
        }
        if let Some(number) = self.used {
            prompt.push_str(&format!(" @snapshot {number}"));
        }
        if let Some(transaction) = &self.transaction {
            prompt.push_str(&format!(" [{}]", self.describe(transaction)));
        }
        prompt + "> "
    }

    /// Runs the commands of a line, up to the first that fails or ends the shell.
    pub(super) fn run_line(&mut self, line: &[u8], out: &mut Out) -> CommandOutcome {
        let commands = commands(line).inspect_err(|_| self.has_lost_place |= may_choose_place(line))?;
        for (at, words) in commands.iter().enumerate() {
            if let Err(why) = self.run_timed(words, out) {
                // Those behind it do not run, either.
                self.has_lost_place |= commands.iter().skip(at).any(|words| chooses_place(words));
                return Err(why);
            }
            if self.is_over {
                break;
            }
        }
        Ok(())
    }

    fn run_timed(&mut self, words: &[ShellWord], out: &mut Out) -> CommandOutcome {
        self.stop.clear();
        self.printer.width = terminal_width(self.host);
        if self.limits == Some(SECONDARY) && reads_database(words) {
            self.db.try_catch_up_with_primary()?;
        }
        let clock = self.host.env().clock;
        let start = clock.monotonic_micros();
        let done = self.run_command(words, out);
        let seconds = clock.monotonic_micros().saturating_sub(start) as f64 / 1e6;
        out.flush()?;
        self.warn_of_joins()?;
        if self.has_timer {
            writeln!(self.host.errors(), "time: {}", units::duration(seconds))?;
        }
        done
    }

    /// Says once of a family that its values are guesses.
    fn warn_of_joins(&mut self) -> CommandOutcome {
        let (told, quiet) = std::mem::take(&mut self.joined)
            .into_iter()
            .partition(|(_, has_joined)| has_joined.load(Ordering::Relaxed));
        self.joined = quiet;
        let told: Vec<(String, Arc<AtomicBool>)> = told;
        for (family, _) in told {
            let family = key_text(family.as_bytes());
            writeln!(
                self.host.errors(),
                "Warning: the merge operator of the family {family} is unknown here: its operands \
                 are shown joined by ':', which its own process may read as another value"
            )?;
        }
        Ok(())
    }

    /// Prints an error.
    pub(super) fn complain(&self, why: &Failure) {
        writeln!(self.host.errors(), "Error: {}", message_text(&why.to_string())).ok();
    }

    /// Says that a write is done, to a user who waits for it.
    pub(super) fn say_ok(&self, out: &mut Out) -> CommandOutcome {
        if self.is_interactive {
            writeln!(out, "OK")?;
        }
        Ok(())
    }

    /// Prints a sentence that is no result: on standard error, unless a user reads along.
    pub(super) fn say(&self, what: &str, out: &mut Out) -> CommandOutcome {
        if self.is_interactive {
            return Ok(writeln!(out, "{what}")?);
        }
        out.flush()?;
        Ok(writeln!(self.host.errors(), "{what}")?)
    }

    /// The options of reads: the snapshot in use, and the newest timestamp.
    pub(super) fn read_options(&self) -> ReadOptions {
        let order = self.family.comparator();
        ReadOptions {
            snapshot: self.used.and_then(|number| self.snapshots.get(&number).cloned()),
            timestamp: (order.timestamp_size() > 0).then(|| order.max_timestamp()),
            total_order_seek: true,
            ..ReadOptions::default()
        }
    }

    /// Whether keys are in the order of their bytes, so that a prefix is a range.
    pub(super) fn has_byte_order(&self) -> bool {
        self.family.comparator().name().starts_with("leveldb.BytewiseComparator")
    }

    /// Closes the database. An open transaction is rolled back.
    pub(super) fn close(mut self) -> CommandOutcome {
        if let Some(transaction) = self.transaction.take() {
            let writes = transaction.writes();
            if writes > 0 {
                let writes = units::counted(writes, "write");
                writeln!(self.host.errors(), "the open transaction is rolled back: {writes}")?;
            }
        }
        self.snapshots.clear();
        self.locking = None;
        Ok(self.db.close()?)
    }
}

/// There is no family of this name.
pub(super) fn no_family(name: &str, db: &Db) -> Failure {
    let names = db.column_family_names();
    let names: Vec<_> = names.iter().map(|name| key_text(name.as_bytes())).collect();
    Failure::new(format_args!("there is no column family '{name}'; there are: {}", names.join(", ")))
}
