//! The database of a run: options, files that fail, keys and values.

use super::flags::StressFlags;
use crate::metamorphic::stress_options;
use esker::internals::base::sync::atomic::{AtomicU64, Ordering};
use esker::internals::env::{FaultFs, FaultRule, OpKind, PosixFileSystem, system};
use esker::options::OptionStruct;
use esker::{ColumnFamilyDescriptor, ColumnFamilyOptions, Db, DbOptions, Env, Options, builtin, destroy_db};
use std::path::Path;
use std::sync::Arc;

/// The beginning of the line that a process writes to standard error before it ends itself.
pub(super) const KILLED: &str = "db_stress: ends here on purpose, before ";

/// Options and files of the database of a run.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) env: Env,
    /// The file system that fails, or kills, if there is one.
    faults: Option<FaultFs>,
    pub(super) families: Vec<String>,
    /// Limit of open files, for options that set none; `None` if no limit is needed.
    max_open_files: Option<i32>,
    max_key: u32,
    value_bytes: u32,
}

impl Setup {
    pub(super) fn new(flags: &StressFlags) -> Result<Setup, String> {
        if flags.max_key == 0 || flags.column_families == 0 || flags.threads == 0 {
            return Err("max_key, column_families and threads must be at least 1".to_owned());
        }
        let wants = flags.write_fault_one_in > 0 || flags.read_fault_one_in > 0 || flags.kill_random_test > 0;
        let faults = wants.then(|| FaultFs::with_seed(Arc::new(PosixFileSystem), flags.seed));
        let env = match &faults {
            Some(fs) => Env::with_fs(Arc::new(fs.clone())),
            None => Env::default(),
        };
        if let Some(fs) = faults.as_ref().filter(|_| flags.kill_random_test > 0) {
            kill_at_random(fs, flags);
        }
        let others = (1..flags.column_families).map(|n| format!("family{n}"));
        Ok(Setup {
            env,
            faults,
            families: std::iter::once("default".to_owned()).chain(others).collect(),
            max_open_files: system::raise_open_files_limit().and_then(|limit| {
                max_open_files(u64::from(flags.max_key) * u64::from(flags.column_families), limit)
            }),
            max_key: flags.max_key,
            value_bytes: flags.value_size_mult.max(1) * 16,
        })
    }

    /// Deletes the database and its expected values.
    #[expect(clippy::disallowed_methods, reason = "the expected values are no file of a database")]
    pub(super) fn destroy(&self, flags: &StressFlags) -> Result<(), String> {
        destroy_db(&DbOptions::default(), &flags.db).map_err(|e| e.to_string())?;
        match std::fs::remove_file(flags.expected_values_dir.join(super::expected::FILE)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(format!("expected values: {e}")),
            _ => Ok(()),
        }
    }

    pub(super) fn options(
        &self,
        flags: &StressFlags,
        phase: u64,
    ) -> Result<(DbOptions, ColumnFamilyOptions), String> {
        let (mut db, mut family) = if flags.options_seed > 0 {
            let number = flags.options_seed.wrapping_add(phase);
            let (mut db, family) = stress_options(flags.lasting_options_seed, number, &self.env);
            if !self.has_direct_io(Path::new(&flags.db)) {
                (db.use_direct_reads, db.use_direct_io_for_flush_and_compaction) = (false, false);
            }
            (db, family)
        } else {
            let family = ColumnFamilyOptions::default()
                .write_buffer_size(256 << 10)
                .target_file_size_base(256 << 10)
                .max_bytes_for_level_base(1 << 20);
            (DbOptions { env: self.env.clone(), keep_log_file_num: 5, ..DbOptions::default() }, family)
        };
        db.create_if_missing = true;
        db.create_missing_column_families = true;
        family.merge_operator = Some(builtin::put());
        if let Some(files) = self.max_open_files.filter(|_| db.max_open_files == -1) {
            db.max_open_files = files;
        }
        db.set_from_string(&flags.db_options).map_err(|e| e.to_string())?;
        if self.faults.is_some() {
            // The database does not resume by itself. After a failed write, a worker calls
            // `resume()` and compares its keys with the expected values.
            db.max_bgerror_resume_count = 0;
        }
        family.set_from_string(&flags.column_family_options).map_err(|e| e.to_string())?;
        Ok((db, family))
    }

    /// Whether files in this directory, which may be missing, can be opened past the page cache.
    fn has_direct_io(&self, dir: &Path) -> bool {
        let (fs, probe) = (&self.env.fs, dir.join("direct-io.dbtmp"));
        let made = fs.create_dir_if_missing(dir).and_then(|()| fs.new_direct_writable_file(&probe, 1));
        let is_possible = made.is_ok();
        drop(made);
        // The next open deletes a file that is left.
        is_possible && fs.delete_file(&probe).is_ok()
    }

    pub(super) fn open(&self, flags: &StressFlags, phase: u64) -> Result<Db, String> {
        let (db, family) = self.options(flags, phase)?;
        let descriptor = |name: &String| ColumnFamilyDescriptor::new(name.clone(), family.clone());
        Db::open_cf(&db, &flags.db, self.families.iter().map(descriptor))
            .map_err(|e| format!("the database does not open: {e}"))
    }

    /// Opens a checkpoint, whose files do not fail. A family that was being cleared when the
    /// checkpoint was made may be missing.
    pub(super) fn open_copy(&self, directory: &Path) -> Result<Db, String> {
        let family = ColumnFamilyOptions::default().merge_operator(Some(builtin::put()));
        let descriptor = |name: &String| ColumnFamilyDescriptor::new(name.clone(), family.clone());
        // Several threads may have a checkpoint open, each of thousands of small tables.
        let max_open_files = 100;
        let db = DbOptions { create_missing_column_families: true, max_open_files, ..DbOptions::default() };
        Db::open_cf(&db, directory, self.families.iter().map(descriptor))
            .map_err(|e| format!("the checkpoint does not open: {e}"))
    }

    /// Options for files that are to be ingested.
    pub(super) fn writer_options(&self) -> Options {
        let mut options = Options::default();
        options.db.env = self.env.clone();
        options
    }

    /// Begins to let files fail, if the flags request it.
    pub(super) fn begin_faults(&self, flags: &StressFlags, phase: u64) {
        let mut rng = fastrand::Rng::with_seed(flags.seed ^ phase << 32);
        self.add_faults(flags, &mut rng);
    }

    /// Replaces the faults. Each kind with a flag fails one operation, at a random later time.
    pub(super) fn add_faults(&self, flags: &StressFlags, rng: &mut fastrand::Rng) {
        let Some(fs) = &self.faults else { return };
        fs.clear_rules();
        let mut add = |one_in: u32, kinds: &[OpKind]| {
            if one_in > 0 {
                let rule = FaultRule::fail(kinds).nth(rng.u64(..2 * u64::from(one_in)));
                let rule =
                    rule.on(|path| !path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("LOG")));
                fs.add_rule(if rng.bool() { rule.retryable(true) } else { rule.no_space() });
            }
        };
        add(flags.write_fault_one_in, &[OpKind::Create, OpKind::Append, OpKind::Sync, OpKind::Rename]);
        add(flags.read_fault_one_in, &[OpKind::Read, OpKind::Open]);
    }

    pub(super) fn end_faults(&self) {
        if let Some(fs) = &self.faults {
            fs.clear_rules();
        }
    }

    /// Number of file operations that have failed on purpose.
    pub(super) fn faults(&self) -> u64 {
        self.faults.as_ref().map_or(0, FaultFs::fault_count)
    }

    /// The key of this number. Keys are spread over the whole space, so that prefixes differ.
    pub(super) fn key(&self, number: u32) -> [u8; 8] {
        (u64::from(number) * self.step()).to_be_bytes()
    }

    /// The number of a key; `None` if no number has this key.
    pub(super) fn number(&self, key: &[u8]) -> Option<u32> {
        let place = u64::from_be_bytes(key.try_into().ok()?);
        let number = u32::try_from(place / self.step()).ok()?;
        (place % self.step() == 0 && number < self.max_key).then_some(number)
    }

    fn step(&self) -> u64 {
        u64::MAX / u64::from(self.max_key)
    }

    /// The `number`th value of a key: the number in four bytes, then random bytes. Family, key and
    /// number determine them.
    pub(super) fn value(&self, family: usize, key: u32, number: u32) -> Vec<u8> {
        let seed = (family as u64) << 58 ^ u64::from(key) << 32 ^ u64::from(number);
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut value = vec![0; 4 + rng.u32(..self.value_bytes) as usize];
        rng.fill(&mut value[4..]);
        value[..4].copy_from_slice(&number.to_le_bytes());
        value
    }

    /// The number of this value of the key.
    /// # Errors
    /// The key never had this value.
    pub(super) fn number_of(&self, family: usize, key: u32, value: &[u8]) -> Result<u32, String> {
        let number = value.first_chunk().map(|b| u32::from_le_bytes(*b));
        match number.filter(|number| value == self.value(family, key, *number)) {
            Some(number) => Ok(number),
            None => Err(format!(
                "{}, key {key}: a value that was never written: {} bytes, {}…",
                self.families[family],
                value.len(),
                value[..value.len().min(16)].escape_ascii()
            )),
        }
    }
}

/// The limit of open files; `None` if every file may stay open. With `blob_file_size=1k` or
/// `target_file_size_base=2k` each value may have a file of its own, or two until compactions have
/// merged its versions. A comparison of all values then has all these files open. Half of the
/// process's limit is left to files that no option limits, such as tables under iterators, and
/// checkpoints.
fn max_open_files(keys: u64, limit: u64) -> Option<i32> {
    (2 * keys > limit / 2).then(|| i32::try_from(limit / 2).unwrap_or(i32::MAX))
}

/// Ends the process at random operations that change files, wherever its threads are then.
fn kill_at_random(fs: &FaultFs, flags: &StressFlags) {
    let (one_in, rolls) = (u64::from(flags.kill_random_test), AtomicU64::new(flags.seed));
    fs.on_op(move |op| {
        if OpKind::CHANGES.contains(&op.kind) {
            let roll = fastrand::Rng::with_seed(rolls.fetch_add(1, Ordering::Relaxed)).u64(..one_in);
            if roll == 0 {
                end(&op.to_string());
            }
        }
    });
}

#[expect(clippy::print_stderr, reason = "the last word, for whoever started it")]
fn end(before: &str) -> ! {
    eprintln!("{KILLED}{before}");
    std::process::abort()
}

#[cfg(test)]
mod tests {
    use super::max_open_files;

    #[test]
    fn files_that_may_be_too_many_do_not_all_stay_open() {
        assert_eq!(max_open_files(5_000, 20_000), None);
        assert_eq!(max_open_files(5 * 25_000, 20_000), Some(10_000));
        assert_eq!(max_open_files(5 * 25_000, 1 << 20), None);
    }
}
