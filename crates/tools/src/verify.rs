//! `esker verify DIR`: checks every file of a database, by itself and against the MANIFEST.
//!
//! In: a database directory, of Esker or RocksDB. Out: lines for the MANIFEST, the levels, the WALs
//! and the OPTIONS file; notes and problems; a line of totals. The exit code is 1 if there is a
//! problem. The command opens files for reading only, takes no lock, writes no file, and works on
//! damaged databases.
//!
//! Checks:
//! * CURRENT names a readable MANIFEST.
//! * Tables exist. Their sizes, checksums, key order, counts and unique ids are right. Their point
//!   entries lie within the bounds of the MANIFEST. No sequence number is above the MANIFEST's.
//! * Levels below level 0 have no overlaps.
//! * Needed WALs are readable to their end, and their sequence numbers never fall.
//! * Blob files exist, have the right checksums, and hold as many readable records as the MANIFEST
//!   says.
//! * The newest OPTIONS file can be parsed.
//! * IDENTITY has the id of the MANIFEST. If it has another one or cannot be read, the output has a
//!   note.
//! * The engine accepts the MANIFEST. This check runs only if all comparators are known and there
//!   is no problem so far.
//!
//! Of the tables of a family whose comparator is unknown, only existence, sizes and checksums of
//! whole files are checked, and the output has a note.
//!
//! A check goes on after damage: each damaged block, record or part is a problem of its own. If the
//! MANIFEST cannot be read, each table, blob file and WAL is checked by itself. A table whose
//! comparator is unknown is then not checked, and the output has a note.
//!
//! For a file that a crash left over, or that the database's owner has deleted meanwhile, the
//! output has a note instead of a problem.

use crate::failure::{CommandOutcome, Failure};
use crate::host::Host;
use crate::manifest::{BlobState, ManifestFamily, ManifestFileSource, ManifestState};
use crate::progress::LongCommand;
use crate::text::append_internal_key;
use clap::Args;
use esker::internals::env::FileSystem;
use esker::internals::format::cursor::InternalIterator;
use esker::internals::format::file_name::{self, FileType, parse_file_name};
use esker::internals::format::footer::FOOTER_BYTES;
use esker::internals::format::key::InternalKeyComparator;
use esker::internals::format::log::{LogEvent, LogReader};
use esker::internals::format::version_edit::FileMetaData;
use esker::internals::format::write_batch::WriteBatchView;
use esker::internals::table::blob::{BlobFileReader, for_each_damage};
use esker::internals::table::salvage::{SalvageOptions, SalvageReport, TableSalvage};
use esker::internals::table::{TableReadOptions, TableReader, TableReaderOptions};
use esker::internals::version::read_beside_owner;
use esker::internals::version::read_current;
use esker::internals::version::{FamilyDescriptor, VersionSet, VersionSetOptions};
use esker::options::{
    FileChecksumGenContext, FileChecksumGenCrc32cFactory, FileChecksumGenFactory, latest_options_file,
    load_latest_options_from,
};
use esker::{Error, FileNumber, Result, comparator};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Args)]
pub(crate) struct VerifyOptions {
    /// Directory of the database
    dir: PathBuf,
    /// Directory of the WALs; default: the directory in the OPTIONS file, else DIR
    #[arg(long = "wal_dir", alias = "wal-dir")]
    wal_dir: Option<PathBuf>,
    /// Directory of db_paths or cf_paths; may be repeated
    #[arg(long = "path")]
    paths: Vec<PathBuf>,
    /// Print problems and notes only
    #[arg(long, short)]
    quiet: bool,
}

impl VerifyOptions {
    /// The files for the progress of the command.
    pub(crate) fn long_command(&self) -> Option<LongCommand> {
        let sources = [&self.dir].into_iter().chain(&self.wal_dir).chain(&self.paths);
        (!self.quiet).then(|| LongCommand::over("verifying", sources))
    }
}

pub(crate) fn run(options: &VerifyOptions, host: &Host) -> CommandOutcome {
    let mut out = host.output();
    let wal_dir = options.wal_dir.clone().or_else(|| host.wal_dir_of(&options.dir));
    let wal_dir = wal_dir.as_deref().unwrap_or(&options.dir);
    let mut verifier = Verifier::new(host, &options.dir, wal_dir, &options.paths);
    let outcome = verifier.verify();
    let findings = verifier.findings;
    if !options.quiet {
        for line in &findings.in_order {
            writeln!(out, "{line}")?;
        }
    }
    for note in &findings.notes {
        writeln!(out, "note: {note}")?;
    }
    for problem in &findings.problems {
        writeln!(out, "PROBLEM: {problem}")?;
    }
    outcome?;
    match findings.problems.len() {
        0 if options.quiet => Ok(()),
        0 => Ok(writeln!(out, "OK: {}", findings.sum())?),
        problems => Err(Failure::new(format_args!(
            "{}: {problems} problem(s); looked at {}",
            options.dir.display(),
            findings.sum()
        ))),
    }
}

/// The results of the checks.
#[derive(Debug, Default)]
struct Findings {
    in_order: Vec<String>,
    notes: Vec<String>,
    problems: Vec<String>,
    tables: u64,
    entries: u64,
    table_bytes: u64,
    wals: u64,
    wal_batches: u64,
}

impl Findings {
    fn sum(&self) -> String {
        format!(
            "{} table files ({} entries, {} bytes), {} WALs ({} batches)",
            self.tables, self.entries, self.table_bytes, self.wals, self.wal_batches
        )
    }

    fn problem(&mut self, what: impl Display) {
        self.problems.push(what.to_string());
    }
}

struct Verifier<'a> {
    host: &'a Host,
    fs: &'a dyn FileSystem,
    dir: &'a Path,
    wal_dir: &'a Path,
    /// Directories that may have tables and blob files, `dir` first.
    data_dirs: Vec<&'a Path>,
    findings: Findings,
}

impl<'a> Verifier<'a> {
    fn new(host: &'a Host, dir: &'a Path, wal_dir: &'a Path, paths: &'a [PathBuf]) -> Verifier<'a> {
        let mut data_dirs = vec![dir];
        data_dirs.extend(paths.iter().map(PathBuf::as_path).filter(|path| *path != dir));
        Verifier { host, fs: host.fs(), dir, wal_dir, data_dirs, findings: Findings::default() }
    }

    /// Checks the database and records each finding.
    /// # Errors
    /// CURRENT or its MANIFEST cannot be read: each file is then checked by itself. · A directory
    /// cannot be listed.
    fn verify(&mut self) -> CommandOutcome {
        let (number, state) = match self.read_manifest() {
            Ok(read) => read,
            Err(error) => {
                self.verify_without_manifest()?;
                return Err(error.into());
            }
        };
        self.findings.in_order.push(format!(
            "MANIFEST-{number}: {} column families, last sequence {}",
            state.families.len(),
            state.last_sequence
        ));
        for family in state.families.values() {
            self.verify_family(family);
        }
        self.verify_wals(&state)?;
        self.verify_directory(&state, number)?;
        self.verify_options();
        self.verify_identity(&state);
        if self.findings.problems.is_empty() {
            self.verify_recovery(&state);
        }
        Ok(())
    }

    /// The number and state of the current MANIFEST. The database's owner may replace the MANIFEST
    /// meanwhile.
    fn read_manifest(&self) -> Result<(FileNumber, ManifestState)> {
        read_beside_owner(self.fs, self.host.env().clock.as_ref(), self.dir, || {
            let number = read_current(self.fs, self.dir)?;
            let path = file_name::descriptor_file_name(self.dir, number);
            Ok((number, ManifestState::read(self.fs, &path, &mut |_| Ok(()))?))
        })
    }

    /// Records a problem with a file, or only a note if the database's owner has deleted the file
    /// during the check.
    fn problem_with(
        &mut self,
        number: FileNumber,
        is_needed: fn(&ManifestState, FileNumber) -> bool,
        what: impl Display,
    ) {
        if !self.was_deleted(number, is_needed) {
            self.findings.problem(what);
        }
    }

    /// Whether the database's owner has deleted the file during the check. If so, records a note.
    fn was_deleted(&mut self, number: FileNumber, is_needed: fn(&ManifestState, FileNumber) -> bool) -> bool {
        let is_gone = self.read_manifest().is_ok_and(|(_, now)| !is_needed(&now, number));
        if is_gone {
            let note =
                format!("file #{number} was deleted by the database's owner meanwhile, and is not checked");
            self.findings.notes.push(note);
        }
        is_gone
    }

    /// Checks that the engine accepts the MANIFEST: all required numbers and the ends of atomic
    /// groups are there.
    fn verify_recovery(&mut self, state: &ManifestState) {
        let describe = |family: &ManifestFamily| {
            let deepest = family.levels.keys().next_back().map_or(0, |level| level + 1);
            let described = FamilyDescriptor::new(family.name.clone());
            Some(FamilyDescriptor {
                comparator: family.comparator()?,
                num_levels: described.num_levels.max(deepest),
                ..described
            })
        };
        let described: Option<Vec<_>> = state.families.values().map(describe).collect();
        // Families with unknown comparators already have a note.
        let Some(families) = described else { return };
        let options = VersionSetOptions {
            read_only: true,
            paranoid_checks: false,
            ..VersionSetOptions::new(self.host.env().fs, self.dir)
        };
        if let Err(error) = VersionSet::recover(options, &families) {
            self.findings.problem(error);
        }
    }

    fn verify_family(&mut self, family: &ManifestFamily) {
        let Some(order) = family.comparator() else {
            return self.verify_files_only(family);
        };
        let icmp = InternalKeyComparator::new(order);
        for (level, files) in &family.levels {
            let mut bytes = 0;
            for file in files {
                bytes += file.file_size;
                if let Err(error) = self.verify_table(&icmp, *level, file) {
                    let place = format!("column family '{}', L{level}: ", family.name);
                    self.problems_of_table(&icmp, &place, file, error);
                }
            }
            if *level > 0 {
                self.verify_disjoint(&icmp, family, *level, files);
            }
            if !files.is_empty() {
                self.findings.in_order.push(format!(
                    "column family '{}', L{level}: {} files, {bytes} bytes",
                    family.name,
                    files.len()
                ));
            }
        }
    }

    /// Checks the family's tables from outside, because its comparator is unknown.
    fn verify_files_only(&mut self, family: &ManifestFamily) {
        self.findings.notes.push(format!(
            "column family '{}': its comparator {} is not known here; of its tables only \
             existence, size and file checksum are checked",
            family.name,
            family.comparator.as_deref().unwrap_or_default()
        ));
        for (level, file) in
            family.levels.iter().flat_map(|(level, files)| files.iter().map(move |f| (level, f)))
        {
            let checked = self.sized_table(file).and_then(|(path, _)| self.verify_table_file(&path, file));
            if let Err(error) = checked {
                let place = format_args!("column family '{}', L{level}: {error}", family.name);
                self.problem_with(file.number, names_table, place);
            }
        }
    }

    /// Records all damage of a table whose check has ended with `error`. Records `error` itself if
    /// the reader for repairs finds no damage or cannot read the table, or if `error` names a
    /// difference from the MANIFEST. Records only a note if the database's owner has deleted the
    /// table.
    fn problems_of_table(
        &mut self,
        icmp: &InternalKeyComparator,
        place: &str,
        file: &FileMetaData,
        error: Error,
    ) {
        let with = SalvageOptions {
            icmp: icmp.clone(),
            largest_seqno: Some(file.largest_seqno),
            only_seqno: None,
            bounds: (!file.user_defined_timestamps_not_persisted)
                .then(|| (file.smallest.clone(), file.largest.clone())),
            lacks_timestamps: file.user_defined_timestamps_not_persisted,
        };
        let report = self.table_path(file).and_then(|path| self.salvageable(&path, &with));
        match report {
            Ok(report) if report.damage_count() > 0 => {
                if !self.was_deleted(file.number, names_table) {
                    if error.message().contains("the MANIFEST says") {
                        self.findings.problem(format_args!("{place}{error}"));
                    }
                    let damage = damage_of(&report).into_iter().map(|part| format!("{place}{part}"));
                    self.findings.problems.extend(damage);
                }
            }
            _ => self.problem_with(file.number, names_table, format_args!("{place}{error}")),
        }
    }

    /// Reads a damaged table with the reader for repairs.
    fn salvageable(&self, path: &Path, with: &SalvageOptions) -> Result<SalvageReport> {
        let size = self.fs.file_size(path)?;
        let table = TableSalvage::open(self.fs.new_random_access_file(path)?, size)?;
        table.read(with, &mut |_, _| Ok(()))
    }

    /// Checks every table, blob file and WAL in the directories by itself, because no MANIFEST
    /// names the needed files.
    fn verify_without_manifest(&mut self) -> CommandOutcome {
        let note = "without a MANIFEST, each file in the directory is checked by itself";
        self.findings.notes.push(note.to_owned());
        for dir in self.data_dirs.clone() {
            for number in self.numbers(dir, FileType::Table)? {
                let path = self.table_in(dir, number)?;
                self.verify_lone_table(&path.unwrap_or_else(|| file_name::table_file_name(dir, number)));
            }
            for number in self.numbers(dir, FileType::Blob)? {
                let path = file_name::blob_file_name(dir, number);
                if let Err(error) = self.read_blob_file(&path) {
                    let damage = self.damage_of_blob_file(&path, error);
                    self.findings.problems.extend(damage.iter().map(ToString::to_string));
                }
            }
        }
        let mut last_sequence = 0;
        for number in self.numbers(self.wal_dir, FileType::Wal)? {
            match self.verify_wal(number, &mut last_sequence) {
                Ok(damage) => self.findings.problems.extend(damage.iter().map(ToString::to_string)),
                Err(error) => self.findings.problem(error),
            }
        }
        Ok(())
    }

    fn verify_lone_table(&mut self, path: &Path) {
        let mut icmp = InternalKeyComparator::default();
        let checked = self.fs.file_size(path).and_then(|size| {
            let file = self.fs.new_random_access_file(path)?;
            let properties = TableReader::properties_of(file.clone(), size)?;
            let Some(order) = comparator::by_name(&properties.comparator_name) else { return Ok(None) };
            icmp = InternalKeyComparator::new(order);
            let options = TableReaderOptions::new(icmp.clone(), Arc::default(), size);
            let reader = TableReader::open(file, options)?;
            reader.verify(&mut |_| true)?;
            Ok(Some((properties.num_entries, size)))
        });
        match checked {
            Ok(Some((entries, size))) => {
                self.findings.tables += 1;
                self.findings.entries += entries;
                self.findings.table_bytes += size;
            }
            Ok(None) => {
                let note = format!("{}: its comparator is not known here; it is not checked", path.display());
                self.findings.notes.push(note);
            }
            Err(error) => {
                let with = SalvageOptions {
                    icmp,
                    largest_seqno: None,
                    only_seqno: None,
                    bounds: None,
                    lacks_timestamps: false,
                };
                match self.salvageable(path, &with) {
                    Ok(report) if report.damage_count() > 0 => {
                        self.findings.problems.extend(damage_of(&report));
                    }
                    _ => self.findings.problem(error),
                }
            }
        }
    }

    fn verify_disjoint(
        &mut self,
        icmp: &InternalKeyComparator,
        family: &ManifestFamily,
        level: usize,
        files: &[FileMetaData],
    ) {
        for pair in files.windows(2) {
            if icmp.compare(&pair[0].largest, &pair[1].smallest).is_ge() {
                self.findings.problem(format_args!(
                    "column family '{}', L{level}: files #{} and #{} overlap: {} is not before {}",
                    family.name,
                    pair[0].number,
                    pair[1].number,
                    key_text(&pair[0].largest),
                    key_text(&pair[1].smallest)
                ));
            }
        }
    }

    fn verify_table(
        &mut self,
        icmp: &InternalKeyComparator,
        level: usize,
        file: &FileMetaData,
    ) -> Result<()> {
        let (path, size) = self.sized_table(file)?;
        let mut options = TableReaderOptions::new(icmp.clone(), Arc::default(), size);
        options.level = Some(level);
        options.file_number = file.number;
        options.largest_seqno = Some(file.largest_seqno);
        options.expected_unique_id = file.unique_id;
        let reader = TableReader::open(self.fs.new_random_access_file(&path)?, options)?;
        reader.verify(&mut |_| true)?;
        self.verify_table_file(&path, file)?;
        verify_bounds(&reader, icmp, file).map_err(|e| e.at(path.display()))?;
        verify_footer(&reader, size).map_err(|e| e.at(path.display()))?;
        self.findings.tables += 1;
        self.findings.entries += reader.properties().num_entries;
        self.findings.table_bytes += size;
        Ok(())
    }

    /// The path and size of a table, if the size is the MANIFEST's.
    fn sized_table(&self, file: &FileMetaData) -> Result<(PathBuf, u64)> {
        let path = self.table_path(file)?;
        let size = self.fs.file_size(&path)?;
        if size != file.file_size {
            let (path, expected) = (path.display(), file.file_size);
            return Err(Error::corruption(format!("{path}: {size} bytes, the MANIFEST says {expected}")));
        }
        Ok((path, size))
    }

    /// Compares the checksum of a whole table with the MANIFEST, if it has one.
    fn verify_table_file(&self, path: &Path, file: &FileMetaData) -> Result<()> {
        let Some((expected, function)) = &file.file_checksum else { return Ok(()) };
        self.verify_file_checksum(path, expected, function)
    }

    /// Compares the checksum of the whole file with the MANIFEST, if the checksum's function is
    /// known.
    fn verify_file_checksum(&self, path: &Path, expected: &[u8], function: &str) -> Result<()> {
        let context = FileChecksumGenContext { requested_checksum_func_name: function, ..Default::default() };
        let Some(mut generator) = FileChecksumGenCrc32cFactory.create_file_checksum_generator(&context)
        else {
            return Ok(());
        };
        let mut source = self.fs.new_sequential_file(path)?;
        let mut buffer = vec![0; 1 << 20];
        loop {
            match source.read(&mut buffer)? {
                0 => break,
                read => generator.update(&buffer[..read]),
            }
        }
        if generator.finalize() == expected {
            return Ok(());
        }
        Err(Error::corruption("the file has another checksum than the MANIFEST says").at(path.display()))
    }

    /// The path of a table in `dir`, if it is there: `.sst`, or LevelDB's `.ldb`.
    fn table_in(&self, dir: &Path, number: FileNumber) -> Result<Option<PathBuf>> {
        for name_in in [file_name::table_file_name, file_name::leveldb_table_file_name] {
            let path = name_in(dir, number);
            if self.fs.file_exists(&path)? {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }

    /// The path of a table in one of the directories. No two tables have the same number.
    fn table_path(&self, file: &FileMetaData) -> Result<PathBuf> {
        for dir in &self.data_dirs {
            if let Some(path) = self.table_in(dir, file.number)? {
                return Ok(path);
            }
        }
        let path = file_name::table_file_name(self.dir, file.number);
        let hint = match file.path_id {
            0 => String::new(),
            id => format!("; it is in path {id} of db_paths or cf_paths: give that with --path"),
        };
        Err(Error::corruption(format!("{} is missing{hint}", path.display())))
    }

    /// Numbers of the files of a kind in all `data_dirs`.
    fn data_numbers(&self, kind: FileType) -> CommandOutcome<BTreeSet<FileNumber>> {
        let mut numbers = BTreeSet::new();
        for dir in &self.data_dirs {
            numbers.extend(self.numbers(dir, kind)?);
        }
        Ok(numbers)
    }

    /// Checks that each needed WAL is readable to its end. A torn end is no problem, because a
    /// killed process leaves such an end.
    fn verify_wals(&mut self, state: &ManifestState) -> CommandOutcome {
        let mut last_sequence = 0;
        for number in self.numbers(self.wal_dir, FileType::Wal)? {
            if !needs_wal(state, number) {
                self.findings.notes.push(format!("{number:06}.log is not needed any more"));
                continue;
            }
            match self.verify_wal(number, &mut last_sequence) {
                Ok(damage) => damage.iter().for_each(|e| self.problem_with(number, needs_wal, e)),
                Err(error) => self.problem_with(number, needs_wal, error),
            }
        }
        Ok(())
    }

    /// Reads a WAL to its end. Returns an error for each damaged place.
    /// # Errors
    /// `IoError`.
    fn verify_wal(&mut self, number: FileNumber, last_sequence: &mut u64) -> Result<Vec<Error>> {
        let mut damage = Vec::new();
        let path = file_name::wal_file_name(self.wal_dir, number);
        let mut log = LogReader::new(ManifestFileSource(self.fs.new_sequential_file(&path)?), number.0);
        let mut record = Vec::new();
        let mut batches = 0;
        loop {
            match log.next_record(&mut record)? {
                LogEvent::Record { offset } => {
                    let at = |e: Error| e.at(format_args!("{}: offset {offset}", path.display()));
                    let batch = match WriteBatchView::parse(&record) {
                        Ok(batch) => batch,
                        Err(e) => {
                            damage.push(at(e));
                            continue;
                        }
                    };
                    if batch.sequence().0 < *last_sequence {
                        damage.push(at(Error::corruption(format!(
                            "sequence number {} follows {last_sequence}",
                            batch.sequence()
                        ))));
                    }
                    *last_sequence = batch.sequence().0;
                    batches += 1;
                }
                LogEvent::End => break,
                event @ LogEvent::Truncated { .. } => {
                    self.findings.notes.push(format!("{}: {event}", path.display()));
                }
                event if log.is_recycled() => {
                    self.findings.notes.push(format!("{}: {event}", path.display()));
                    break;
                }
                event => damage.extend(event.to_error(&path.display())),
            }
        }
        self.findings.wals += 1;
        self.findings.wal_batches += batches;
        self.findings.in_order.push(format!("{number:06}.log: {batches} batches"));
        Ok(damage)
    }

    /// Records a note for each file that the MANIFEST does not name. Checks the blob files that the
    /// MANIFEST names.
    fn verify_directory(&mut self, state: &ManifestState, manifest: FileNumber) -> CommandOutcome {
        let live: BTreeSet<FileNumber> =
            state.families.values().flat_map(|f| f.levels.values().flatten().map(|f| f.number)).collect();
        for number in self.data_numbers(FileType::Table)? {
            if !live.contains(&number) {
                self.findings.notes.push(format!("table file #{number} is not in the MANIFEST"));
            }
        }
        for number in self.numbers(self.dir, FileType::Descriptor)? {
            if number != manifest {
                self.findings.notes.push(format!("MANIFEST-{number:06} is not the current one"));
            }
        }
        let blobs: BTreeSet<FileNumber> =
            state.families.values().flat_map(|f| f.blob_files.keys().copied()).collect();
        let found = self.data_numbers(FileType::Blob)?;
        for number in blobs.difference(&found) {
            self.problem_with(*number, names_blob_file, format_args!("blob file #{number} is missing"));
        }
        for (number, blob) in state.families.values().flat_map(|f| &f.blob_files) {
            if found.contains(number)
                && let Err(error) = self.verify_blob_file(*number, blob)
            {
                let damage = self.damage_of_blob_file(&self.blob_path(*number), error);
                damage.iter().for_each(|e| self.problem_with(*number, names_blob_file, e));
            }
        }
        for number in found.difference(&blobs) {
            self.findings.notes.push(format!("blob file #{number} is not in the MANIFEST"));
        }
        Ok(())
    }

    fn blob_path(&self, number: FileNumber) -> PathBuf {
        let paths = self.data_dirs.iter().map(|dir| file_name::blob_file_name(dir, number));
        let is_there = |path: &PathBuf| self.fs.file_exists(path).unwrap_or(false);
        let missing = || file_name::blob_file_name(self.dir, number);
        paths.into_iter().find(is_there).unwrap_or_else(missing)
    }

    fn read_blob_file(&self, path: &Path) -> Result<BlobFileReader> {
        let reader = BlobFileReader::open(self.fs.new_random_access_file(path)?)?;
        reader.for_each_record(&mut |record| reader.decompress(record).map(drop))?;
        Ok(reader)
    }

    /// All damage of a blob file whose check has ended with `error`; `error` itself if the search
    /// finds no damage, or cannot read the file.
    fn damage_of_blob_file(&self, path: &Path, error: Error) -> Vec<Error> {
        let mut damage = Vec::new();
        let read = self
            .fs
            .new_random_access_file(path)
            .and_then(|file| for_each_damage(file.as_ref(), &mut |e| damage.push(e)));
        if read.is_err() || damage.is_empty() {
            damage = vec![error];
        }
        damage
    }

    fn verify_blob_file(&self, number: FileNumber, blob: &BlobState) -> Result<()> {
        let path = self.blob_path(number);
        let reader = self.read_blob_file(&path)?;
        let recorded = &blob.addition;
        if reader.blob_count() != recorded.total_blob_count {
            let found = reader.blob_count();
            let what = format!("{found} values, the MANIFEST says {}", recorded.total_blob_count);
            return Err(Error::corruption(what).at(path.display()));
        }
        if recorded.checksum_method.is_empty() {
            return Ok(());
        }
        self.verify_file_checksum(&path, &recorded.checksum_value, &recorded.checksum_method)
    }

    fn verify_options(&mut self) {
        match latest_options_file(self.fs, self.dir) {
            Ok(None) => self.findings.notes.push("there is no OPTIONS file".to_owned()),
            Ok(Some(number)) => match load_latest_options_from(self.fs, self.dir) {
                Ok(_) => self.findings.in_order.push(format!("OPTIONS-{number:06}")),
                Err(error) => self.findings.problem(error),
            },
            Err(error) => self.findings.problem(error),
        }
    }

    /// Compares IDENTITY with the MANIFEST.
    fn verify_identity(&mut self, state: &ManifestState) {
        let Some(db_id) = &state.db_id else { return };
        match self.read_identity() {
            Ok(identity) if identity == *db_id => {}
            Ok(identity) => {
                self.findings.notes.push(format!("IDENTITY says {identity}, the MANIFEST says {db_id}"));
            }
            Err(error) => self.findings.notes.push(error.to_string()),
        }
    }

    fn read_identity(&self) -> Result<String> {
        let mut file = self.fs.new_sequential_file(&file_name::identity_file_name(self.dir))?;
        let mut contents = [0; 256];
        let filled = file.read(&mut contents)?;
        Ok(String::from_utf8_lossy(&contents[..filled]).trim_end().to_owned())
    }

    /// Numbers of the files of a kind in a directory.
    fn numbers(&self, dir: &Path, kind: FileType) -> CommandOutcome<BTreeSet<FileNumber>> {
        let names = self.fs.children(dir)?;
        let of_kind = names.iter().filter_map(|name| parse_file_name(name)).filter(|(k, _)| *k == kind);
        Ok(of_kind.map(|(_, number)| number).collect())
    }
}

/// A line for each damaged part of a table.
fn damage_of(report: &SalvageReport) -> Vec<String> {
    let text = |key: &Option<Vec<u8>>, none: &str| match key {
        Some(key) => format!("'{}'", key.escape_ascii()),
        None => none.to_owned(),
    };
    let lost = report.lost.iter().map(|lost| {
        let (from, to) = (text(&lost.keys.from, "the first"), text(&lost.keys.to, "the last"));
        let bad = if lost.blocks == 1 {
            "a block is bad".to_owned()
        } else {
            format!("{} blocks are bad", lost.blocks)
        };
        format!("{}; {bad}, with keys from {from} to {to}", lost.error)
    });
    let other = report.damaged.iter().map(|part| {
        let mended = if part.is_mended { "; one bit is flipped" } else { "" };
        format!("{} ({}{mended})", part.error, part.name)
    });
    lost.chain(other).collect()
}

fn names_table(state: &ManifestState, number: FileNumber) -> bool {
    state.families.values().any(|f| f.levels.values().flatten().any(|file| file.number == number))
}

fn names_blob_file(state: &ManifestState, number: FileNumber) -> bool {
    state.families.values().any(|f| f.blob_files.contains_key(&number))
}

fn needs_wal(state: &ManifestState, number: FileNumber) -> bool {
    let by_families = state.families.values().map(|f| f.log_number).min().unwrap_or(0);
    // An older WAL is needed if the MANIFEST says that the WAL holds prepared transactions.
    let oldest = match state.min_log_number_to_keep {
        0 => by_families,
        min_log => min_log.min(by_families),
    };
    number.0 >= oldest
}

/// Checks that the table's point entries lie within the bounds of its MANIFEST entry.
fn verify_bounds(reader: &Arc<TableReader>, icmp: &InternalKeyComparator, file: &FileMetaData) -> Result<()> {
    let mut iter = reader.iter(TableReadOptions { fill_cache: false, ..TableReadOptions::default() });
    iter.seek_to_first();
    if iter.valid() && icmp.compare(iter.key(), &file.smallest).is_lt() {
        return Err(out_of_bounds(iter.key(), "before the smallest key", &file.smallest));
    }
    iter.seek_to_last();
    if iter.valid() && icmp.compare(iter.key(), &file.largest).is_gt() {
        return Err(out_of_bounds(iter.key(), "behind the largest key", &file.largest));
    }
    iter.status()
}

/// Checks that the footer's bytes equal the encoding of its values. Footers before format version 6
/// have no checksum. Footers of version 0 are not checked.
fn verify_footer(reader: &TableReader, file_size: u64) -> Result<()> {
    let footer = reader.footer();
    let Some(offset) = file_size.checked_sub(FOOTER_BYTES as u64).filter(|_| footer.format_version > 0)
    else {
        return Ok(());
    };
    let mut stored = [0; FOOTER_BYTES];
    let filled = reader.file().read_at(offset, &mut stored)?;
    if filled == FOOTER_BYTES && footer.encode(offset) == stored {
        return Ok(());
    }
    Err(Error::corruption(format!("the footer at offset {offset} has bytes that no writer puts there")))
}

fn out_of_bounds(key: &[u8], how: &str, bound: &[u8]) -> Error {
    Error::corruption(format!("{} is {how} in the MANIFEST, {}", key_text(key), key_text(bound)))
}

fn key_text(key: &[u8]) -> String {
    let mut text = Vec::new();
    append_internal_key(key, false, &mut text);
    text.escape_ascii().to_string()
}
