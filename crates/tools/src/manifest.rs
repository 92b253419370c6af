//! Reads a MANIFEST for `manifest_dump` and for `verify`: its edits in RocksDB's text form, and the
//! live files at its end.
//!
//! In: the edits, in order. Out: the levels of each family at the end. Unlike the engine's
//! recovery, this replay accepts unknown comparators and damaged databases.
//!
//! Source of the text form: the output of RocksDB 7.8.3's `ldb manifest_dump`.

use crate::text::{append_internal_key, hex, public_unique_id_text};
use esker::comparator::{self, ComparatorRef};
use esker::internals::env::{FileSystem, SequentialFile};
use esker::internals::format::log::{LogReader, LogSource, next_strict};
use esker::internals::format::version_edit::{BlobFileAddition, FileMetaData, VersionEdit};
use esker::{Error, FileNumber, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

/// A file as a source for the log reader.
pub(crate) struct ManifestFileSource(pub(crate) Box<dyn SequentialFile>);

impl LogSource for ManifestFileSource {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        self.0.read(buf)
    }
}

/// One family at the end of a MANIFEST.
#[derive(Debug, Default)]
pub(crate) struct ManifestFamily {
    pub(crate) name: String,
    pub(crate) comparator: Option<String>,
    pub(crate) log_number: u64,
    /// Files by level. `ManifestState::sort` sorts level 0 by age, newest first, and deeper levels
    /// by key.
    pub(crate) levels: BTreeMap<usize, Vec<FileMetaData>>,
    /// Live blob files.
    pub(crate) blob_files: BTreeMap<FileNumber, BlobState>,
}

/// One blob file at the end of a MANIFEST.
#[derive(Debug, Default)]
pub(crate) struct BlobState {
    pub(crate) addition: BlobFileAddition,
    garbage_count: u64,
    garbage_bytes: u64,
}

impl BlobState {
    /// Bytes of records that no table refers to any more.
    pub(crate) fn garbage_bytes(&self) -> u64 {
        self.garbage_bytes
    }
}

/// All families and counters at the end of a MANIFEST.
#[derive(Debug, Default)]
pub(crate) struct ManifestState {
    pub(crate) families: BTreeMap<u32, ManifestFamily>,
    pub(crate) db_id: Option<String>,
    pub(crate) next_file_number: u64,
    pub(crate) last_sequence: u64,
    pub(crate) prev_log_number: u64,
    pub(crate) max_column_family: u32,
    pub(crate) min_log_number_to_keep: u64,
    group: Vec<VersionEdit>,
}

impl ManifestState {
    /// Reads the MANIFEST at `path`; calls `see` with each edit.
    pub(crate) fn read(
        fs: &dyn FileSystem,
        path: &Path,
        see: &mut dyn FnMut(&VersionEdit) -> Result<()>,
    ) -> Result<ManifestState> {
        let mut log = LogReader::new(ManifestFileSource(fs.new_sequential_file(path)?), 0);
        let mut state = ManifestState::default();
        state.families.insert(0, ManifestFamily { name: "default".to_owned(), ..ManifestFamily::default() });
        let mut record = Vec::new();
        while next_strict(&mut log, &mut record, &path.display())? {
            let edit = VersionEdit::decode(&record).map_err(|e| e.at(path.display()))?;
            see(&edit)?;
            state.add(edit).map_err(|e| e.at(path.display()))?;
        }
        state.sort();
        Ok(state)
    }

    /// Adds an edit. The edits of an atomic group take effect together, at the last one.
    fn add(&mut self, edit: VersionEdit) -> Result<()> {
        let waiting = edit.remaining_in_atomic_group.unwrap_or(0) > 0;
        self.group.push(edit);
        if waiting {
            return Ok(());
        }
        std::mem::take(&mut self.group).iter().try_for_each(|edit| self.apply(edit))
    }

    fn apply(&mut self, edit: &VersionEdit) -> Result<()> {
        let id = edit.column_family.0;
        if let Some(name) = &edit.column_family_add {
            self.families.insert(id, ManifestFamily { name: name.clone(), ..ManifestFamily::default() });
        }
        self.take_numbers(edit);
        if edit.column_family_drop {
            self.families.remove(&id);
        }
        // Edits of a dropped family have no effect.
        match self.families.get_mut(&id) {
            Some(family) => family.apply(edit),
            None => Ok(()),
        }
    }

    fn take_numbers(&mut self, edit: &VersionEdit) {
        let number = |n: Option<FileNumber>| n.map_or(0, |n| n.0);
        if edit.db_id.is_some() {
            self.db_id.clone_from(&edit.db_id);
        }
        self.next_file_number = self.next_file_number.max(number(edit.next_file_number));
        self.last_sequence = self.last_sequence.max(edit.last_sequence.map_or(0, |s| s.0));
        self.prev_log_number = edit.prev_log_number.map_or(self.prev_log_number, |n| n.0);
        self.max_column_family =
            self.max_column_family.max(edit.max_column_family.unwrap_or(0)).max(edit.column_family.0);
        self.min_log_number_to_keep = self.min_log_number_to_keep.max(number(edit.min_log_number_to_keep));
    }

    fn sort(&mut self) {
        for family in self.families.values_mut() {
            family.sort();
        }
    }

    /// The last lines of the output of `ldb manifest_dump`.
    pub(crate) fn to_text(&self, is_hex: bool) -> Vec<u8> {
        let mut out = Vec::new();
        for (index, (id, family)) in (0..).zip(&self.families) {
            // RocksDB numbers versions in the order in which it makes them: first an empty version
            // of each family, then the final versions.
            family.append_text(*id, self.families.len() + index, is_hex, &mut out);
        }
        let line = format!(
            "next_file_number {} last_sequence {}  prev_log_number {} max_column_family {} \
             min_log_number_to_keep {}\n",
            self.next_file_number + 1,
            self.last_sequence,
            self.prev_log_number,
            self.max_column_family,
            self.min_log_number_to_keep
        );
        out.extend_from_slice(line.as_bytes());
        out
    }
}

/// The number of levels that RocksDB prints for every database.
const DUMPED_LEVELS: usize = 64;

impl ManifestFamily {
    /// The comparator of the family, if it is built in.
    pub(crate) fn comparator(&self) -> Option<ComparatorRef> {
        comparator::by_name(self.comparator.as_deref().unwrap_or("leveldb.BytewiseComparator"))
    }

    fn apply(&mut self, edit: &VersionEdit) -> Result<()> {
        if edit.comparator.is_some() {
            self.comparator.clone_from(&edit.comparator);
        }
        self.log_number = self.log_number.max(edit.log_number.map_or(0, |n| n.0));
        for (level, number) in &edit.deleted_files {
            let files = self.levels.entry(*level).or_default();
            let before = files.len();
            files.retain(|f| f.number != *number);
            if files.len() == before {
                return Err(Error::corruption(format!(
                    "column family '{}': file #{number} is deleted from L{level}, where it is not",
                    self.name
                )));
            }
        }
        for (level, file) in &edit.new_files {
            self.levels.entry(*level).or_default().push(file.clone());
        }
        for addition in &edit.blob_file_additions {
            let blob = BlobState { addition: addition.clone(), ..BlobState::default() };
            self.blob_files.insert(addition.number, blob);
        }
        for garbage in &edit.blob_file_garbages {
            if let Some(blob) = self.blob_files.get_mut(&garbage.number) {
                blob.garbage_count = blob.garbage_count.saturating_add(garbage.garbage_blob_count);
                blob.garbage_bytes = blob.garbage_bytes.saturating_add(garbage.garbage_blob_bytes);
            }
        }
        Ok(())
    }

    /// Numbers of the tables whose oldest blob file is `blob`.
    fn linked_to(&self, blob: FileNumber) -> BTreeSet<FileNumber> {
        let tables = self.levels.values().flatten();
        tables.filter(|f| f.oldest_blob_file_number == Some(blob)).map(|f| f.number).collect()
    }

    /// Sorts tables. Removes blob files that have only garbage and are no table's oldest blob file.
    fn sort(&mut self) {
        let kept: BTreeSet<FileNumber> =
            self.blob_files.keys().copied().filter(|number| !self.linked_to(*number).is_empty()).collect();
        self.blob_files
            .retain(|number, b| b.garbage_count < b.addition.total_blob_count || kept.contains(number));
        let order = self.comparator().map(esker::internals::format::key::InternalKeyComparator::new);
        for (level, files) in &mut self.levels {
            match (level, &order) {
                (0, _) => files.sort_by_key(|f| std::cmp::Reverse(age(f))),
                (_, Some(icmp)) => files.sort_by(|a, b| icmp.compare(&a.smallest, &b.smallest)),
                (_, None) => files.sort_by(|a, b| a.smallest.cmp(&b.smallest)),
            }
        }
    }

    fn append_text(&self, id: u32, version: usize, is_hex: bool, out: &mut Vec<u8>) {
        let comparator = self.comparator.as_deref().unwrap_or("<NO COMPARATOR>");
        let head = format!(
            "--------------- Column family \"{}\"  (ID {id}) --------------\nlog number: {}\ncomparator: {comparator}\n",
            self.name, self.log_number
        );
        out.extend_from_slice(head.as_bytes());
        let deepest = self.levels.keys().next_back().map_or(0, |l| l + 1);
        for level in 0..DUMPED_LEVELS.max(deepest) {
            out.extend_from_slice(format!("--- level {level} --- version# {version} ---\n").as_bytes());
            for file in self.levels.get(&level).into_iter().flatten() {
                let FileMetaData { number, file_size, smallest_seqno, largest_seqno, .. } = file;
                let head = format!(" {number}:{file_size}[{smallest_seqno} .. {largest_seqno}][");
                out.extend_from_slice(head.as_bytes());
                append_range(file, is_hex, out);
                out.push(b']');
                if let Some(blob) = file.oldest_blob_file_number {
                    out.extend_from_slice(format!(" blob_file:{blob}").as_bytes());
                }
                out.push(b'\n');
            }
        }
        if !self.blob_files.is_empty() {
            out.extend_from_slice(format!("--- blob files --- version# {version} ---\n").as_bytes());
        }
        for (number, blob) in &self.blob_files {
            let linked: String = self.linked_to(*number).iter().map(|table| format!("{table} ")).collect();
            let line = format!(
                "{} linked_ssts: {{ {linked}}} garbage_blob_count: {} garbage_blob_bytes: {}\n",
                blob_text(&blob.addition),
                blob.garbage_count,
                blob.garbage_bytes
            );
            out.extend_from_slice(line.as_bytes());
        }
    }
}

/// A sort key of level-0 files. Newer files have larger values.
fn age(f: &FileMetaData) -> (u64, u64, u64, u64) {
    (f.epoch_number, f.largest_seqno.0, f.smallest_seqno.0, f.number.0)
}

fn append_range(file: &FileMetaData, is_hex: bool, out: &mut Vec<u8>) {
    append_internal_key(&file.smallest, is_hex, out);
    out.extend_from_slice(b" .. ");
    append_internal_key(&file.largest, is_hex, out);
}

/// An edit in RocksDB's text form.
pub(crate) fn edit_text(edit: &VersionEdit, is_hex: bool) -> Vec<u8> {
    let mut out = b"VersionEdit {".to_vec();
    let mut line = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            out.extend_from_slice(format!("\n  {name}: {value}").as_bytes());
        }
    };
    line("DbId", edit.db_id.clone());
    line("Comparator", edit.comparator.clone());
    line("LogNumber", edit.log_number.map(|n| n.0.to_string()));
    line("PrevLogNumber", edit.prev_log_number.map(|n| n.0.to_string()));
    line("NextFileNumber", edit.next_file_number.map(|n| n.0.to_string()));
    line("MaxColumnFamily", edit.max_column_family.map(|n| n.to_string()));
    line("MinLogNumberToKeep", edit.min_log_number_to_keep.map(|n| n.0.to_string()));
    line("LastSeq", edit.last_sequence.map(|s| s.0.to_string()));
    for (level, key) in &edit.compact_cursors {
        out.extend_from_slice(format!("\n  CompactCursor: {level} ").as_bytes());
        append_internal_key(key, is_hex, &mut out);
    }
    for (level, number) in &edit.deleted_files {
        out.extend_from_slice(format!("\n  DeleteFile: {level} {number}").as_bytes());
    }
    for (level, file) in &edit.new_files {
        append_new_file(*level, file, is_hex, &mut out);
    }
    append_others(edit, &mut out);
    out.extend_from_slice(b"\n}\n");
    out
}

fn append_new_file(level: usize, file: &FileMetaData, is_hex: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("\n  AddFile: {level} {} {} ", file.number, file.file_size).as_bytes());
    append_range(file, is_hex, out);
    let mut text = String::new();
    let mut write =
        |part: std::fmt::Arguments<'_>| text.write_fmt(part).expect("a write to a string cannot fail");
    if let Some(blob) = file.oldest_blob_file_number {
        write(format_args!(" blob_file:{blob}"));
    }
    write(format_args!(" oldest_ancester_time:{}", file.oldest_ancestor_time));
    write(format_args!(" file_creation_time:{}", file.file_creation_time));
    let (checksum, function) = match &file.file_checksum {
        Some((bytes, name)) => (hex(bytes), name.as_str()),
        None => (String::new(), "Unknown"),
    };
    write(format_args!(" file_checksum:{checksum} file_checksum_func_name: {function}"));
    if file.temperature != 0 {
        write(format_args!(" temperature: {}", file.temperature));
    }
    if let Some([low, high]) = file.unique_id {
        write(format_args!(" unique_id(internal): {{{low},{high}}}"));
        write(format_args!(" public_unique_id: {}", public_unique_id_text([low, high])));
    }
    out.extend_from_slice(text.as_bytes());
}

fn blob_text(b: &BlobFileAddition) -> String {
    format!(
        "blob_file_number: {} total_blob_count: {} total_blob_bytes: {} checksum_method: {} checksum_value: {}",
        b.number,
        b.total_blob_count,
        b.total_blob_bytes,
        b.checksum_method,
        hex(&b.checksum_value)
    )
}

fn append_others(edit: &VersionEdit, out: &mut Vec<u8>) {
    let mut line = |text: String| out.extend_from_slice(format!("\n  {text}").as_bytes());
    for b in &edit.blob_file_additions {
        line(format!("BlobFileAddition: {}", blob_text(b)));
    }
    for g in &edit.blob_file_garbages {
        line(format!(
            "BlobFileGarbage: blob_file_number: {} garbage_blob_count: {} garbage_blob_bytes: {}",
            g.number, g.garbage_blob_count, g.garbage_blob_bytes
        ));
    }
    for (number, size) in &edit.wal_additions {
        let size = size.map_or("unknown".to_owned(), |s| s.to_string());
        line(format!("WalAddition: log_number: {number} synced_size_in_bytes: {size}"));
    }
    if let Some(number) = edit.wal_deletion {
        line(format!("WalDeletion: log_number: {number}"));
    }
    line(format!("ColumnFamily: {}", edit.column_family));
    if let Some(name) = &edit.column_family_add {
        line(format!("ColumnFamilyAdd: {name}"));
    }
    if edit.column_family_drop {
        line("ColumnFamilyDrop".to_owned());
    }
    if let Some(remaining) = edit.remaining_in_atomic_group {
        line(format!("AtomicGroup: {remaining} entries remains"));
    }
    if let Some(low) = &edit.full_history_ts_low {
        line(format!("FullHistoryTsLow: {}", hex(low)));
    }
}
