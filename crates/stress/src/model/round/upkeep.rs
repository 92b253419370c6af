//! Operations on a database as a whole, beside reads and writes: families are exported and
//! imported, files are compacted, options change. `copies` makes and compares copies.
//!
//! In: calls with random arguments, while snapshots and iterators are open. Out: contents that are
//! the model's.
//!
//! Invariant: a call that is refused has changed nothing.

use super::{Done, Event, Opened, OperationKind, PATH, Round, RoundStop, refused};
use esker::options::{OptionStruct, load_latest_options_from};
use esker::{CompactionOptions, DbOptions, Error, ErrorKind, FileNumber, ImportColumnFamilyOptions, Options};
use std::path::{Path, PathBuf};

/// Options of an open family to change, each with two values.
const FAMILY_CHANGES: [(&str, [&str; 2]); 7] = [
    ("write_buffer_size", ["65536", "262144"]),
    ("level0_file_num_compaction_trigger", ["2", "6"]),
    ("target_file_size_base", ["8192", "65536"]),
    ("max_successive_merges", ["0", "3"]),
    ("enable_blob_files", ["true", "false"]),
    ("min_blob_size", ["0", "60"]),
    ("compression", ["kNoCompression", "kLZ4Compression"]),
];
/// Options of the open database to change, each with two values.
const DB_CHANGES: [(&str, [&str; 2]); 3] = [
    ("max_background_jobs", ["1", "4"]),
    ("max_total_wal_size", ["0", "262144"]),
    ("bytes_per_sync", ["0", "65536"]),
];

impl Round {
    pub(super) fn keep_up(&mut self, kind: OperationKind) -> Done {
        match kind {
            OperationKind::Ingest if !self.is_in_trouble() && self.rng.u8(..6) == 0 => {
                self.ingest_into_empty()
            }
            OperationKind::Ingest => self.ingest(),
            OperationKind::Import => self.import(),
            OperationKind::CompactFiles => self.compact_files(),
            OperationKind::SetOptions => self.set_options(),
            OperationKind::Resume => self.resume(),
            OperationKind::Beside => self.read_beside(),
            _ => self.copy(kind),
        }
    }

    /// A path that no file has had yet.
    pub(super) fn fresh_path(&self, what: &str) -> PathBuf {
        PathBuf::from(format!("/{what}-{}", self.operation))
    }

    /// Options of the database and one family, for copies and external files.
    pub(super) fn options_beside(&self, family: usize) -> Options {
        let db = DbOptions { statistics: None, create_if_missing: false, ..self.settings.db.clone() };
        Options { db, cf: self.settings.families[family].clone() }
    }

    // ---- families are exported and imported

    /// Exports a family and imports it under its name.
    fn import(&mut self) -> Done {
        let family = self.rng.usize(1..self.specs.len());
        let (name, path) = (self.specs[family].name, self.fresh_path("export"));
        let export = match self.db().export_column_family(&self.handles[family], &path) {
            // A family with values in blob files cannot be exported.
            Err(error) if error.kind() == ErrorKind::NotSupported => return Ok(()),
            done => done.map_err(refused(format!("export of '{name}'")))?,
        };
        let options = ImportColumnFamilyOptions { move_files: self.rng.bool() };
        self.note(Event::Other(format!("export '{name}', drop it, and import it with {options:?}")));
        let Opened::Plain(db) = self.db.as_ref().expect("the database is open between operations") else {
            return Err(RoundStop::Wrong("import into a database with transactions".to_owned()));
        };
        db.drop_column_family(&self.handles[family]).map_err(refused(format!("drop '{name}'")))?;
        let family_options = &self.settings.families[family];
        let imported = db.create_column_family_with_import(&options, name, family_options, &export);
        self.handles[family] = imported.map_err(refused(format!("import of '{name}'")))?;
        self.snapshots.iter_mut().for_each(|taken| taken.states[family] = None);
        self.verify_scan(family, false, None)
    }

    // ---- files and options change

    fn compact_files(&mut self) -> Done {
        let family = self.family();
        let name = self.specs[family].name;
        let files = self.db().live_files();
        let of_family = files.iter().filter(|file| file.column_family_name == name);
        let chosen: Vec<FileNumber> =
            of_family.filter(|_| self.rng.u8(..3) == 0).map(|file| file.file.file_number).collect();
        let level = self.rng.usize(..7);
        match self.rng.u8(..16) {
            0 | 1 => return self.promote_l0(family, level),
            2 | 3 => {
                // Running work is cancelled, and due work begins anew.
                self.db().abort_all_compactions();
                self.db().resume_all_compactions();
            }
            _ => {}
        }
        let options = CompactionOptions { max_subcompactions: self.rng.u32(..3), ..Default::default() };
        let done = self.db().compact_files(&options, &self.handles[family], &chosen, level);
        self.note(Event::Other(format!("compact {chosen:?} of '{name}' into level {level}: {done:?}")));
        match done {
            Err(error) if is_refusal(&error) => Ok(()),
            done => done.map(drop).map_err(refused(format!("compact_files of '{name}'"))),
        }
    }

    /// Moves the files of level 0 down, if they and the levels below allow it.
    fn promote_l0(&mut self, family: usize, level: usize) -> Done {
        let name = self.specs[family].name;
        let done = self.db().promote_l0(&self.handles[family], level as i32);
        self.note(Event::Other(format!("promote level 0 of '{name}' to {level}: {done:?}")));
        match done {
            Err(error) if is_refusal(&error) => Ok(()),
            done => done.map_err(refused(format!("promote_l0 of '{name}'"))),
        }
    }

    fn set_options(&mut self) -> Done {
        let family = self.family();
        let changes = self.random_changes();
        let name = self.specs[family].name;
        self.note(Event::Other(format!("set {changes:?} of '{name}'")));
        let before = self.db().options_cf(&self.handles[family]);
        let changed = self.db().set_options(&self.handles[family], &changes);
        changed.map_err(refused(format!("set_options {changes:?}")))?;
        self.check_options(family, &changes)?;
        let bad = [changes[0], ("write_buffer_size", "many")];
        if before.text_of(changes[0].0).as_deref() != Some(changes[0].1) && self.rng.bool() {
            // Sets the option back, then checks that a call with a bad value sets nothing.
            let text = before.text_of(changes[0].0).expect("the option has a text form");
            let back = [(changes[0].0, text.as_str())];
            let done = self.db().set_options(&self.handles[family], &back);
            done.map_err(refused(format!("set_options {back:?}")))?;
            if self.db().set_options(&self.handles[family], &bad).is_ok() {
                return Err(RoundStop::Wrong(format!("set_options {bad:?} of '{name}' was taken")));
            }
            self.check_options(family, &back)?;
        }
        let (name, values) = DB_CHANGES[self.rng.usize(..DB_CHANGES.len())];
        let change = [(name, values[self.rng.usize(..2)])];
        self.note(Event::Other(format!("set {change:?}")));
        self.db().set_db_options(&change).map_err(refused(format!("set_db_options {change:?}")))
    }

    /// Draws one or two options to set at once.
    fn random_changes(&mut self) -> Vec<(&'static str, &'static str)> {
        let first = self.rng.usize(..FAMILY_CHANGES.len());
        let second = self.rng.usize(first..FAMILY_CHANGES.len());
        let mut chosen = vec![first, second];
        chosen.dedup();
        let change = |at: usize| (FAMILY_CHANGES[at].0, FAMILY_CHANGES[at].1[self.rng.usize(..2)]);
        chosen.into_iter().map(change).collect()
    }

    /// Checks that these options are in force, and that the newest OPTIONS file has the first.
    fn check_options(&mut self, family: usize, expected: &[(&str, &str)]) -> Done {
        let name = self.specs[family].name;
        let in_force = self.db().options_cf(&self.handles[family]);
        let fs = self.env.fs.as_ref();
        let file =
            load_latest_options_from(fs, Path::new(PATH)).map_err(refused("load_latest_options_from"))?;
        let in_file = file.family(name).map(|options| options.text_of(expected[0].0));
        for (option, value) in expected {
            self.comparisons += 1;
            let found = in_force.text_of(option);
            if found.as_deref() != Some(value) {
                let what = format!("option {option} of '{name}' is {found:?}, and was set to {value}");
                return Err(RoundStop::Wrong(what));
            }
        }
        if in_file.as_ref().is_none_or(|text| text.as_deref() != Some(expected[0].1)) {
            let (option, value) = expected[0];
            let what = format!("OPTIONS file: {option} of '{name}' is {in_file:?}, and was set to {value}");
            return Err(RoundStop::Wrong(what));
        }
        Ok(())
    }
}

pub(super) fn is_refusal(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::InvalidArgument | ErrorKind::Aborted | ErrorKind::TryAgain)
}
