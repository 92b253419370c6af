//! The LOG of an opening, and its head: versions, files and options, in RocksDB's lines.
//!
//! In: options made consistent, directories, the families to open. Out: lines for the LOG, which
//! repeats them at the head of each file that follows. Source: RocksDB `db/db_impl/db_impl.cc`
//! (`DumpRocksDBBuildVersion`, `DumpSupportInfo`), `db/db_info_dumper.cc`.

use super::descriptor::ColumnFamilyDescriptor;
use super::opening::OpenMode;
use crate::options::{ColumnFamilyOptions, CompressionType, DbOptions};
use esker_base::Result;
use esker_base::logger::InfoLog;
use esker_base::sync::Arc;
use esker_env::FileSystem;
use esker_env::info_log::{InfoLogFile, InfoLogOptions};
use esker_env::system::hostname;
use esker_format::file_name::{self, FileType, parse_file_name};
use std::path::Path;

/// Options of this many families are written, as by RocksDB.
pub(super) const FAMILIES_SHOWN: usize = 10;
/// Tables named in the summary, as by RocksDB.
const TABLES_NAMED: usize = 9;

/// The lines of an opening. Costs one listing of each directory, and about 300 lines with the
/// options of one family.
pub(super) fn header(
    options: &DbOptions,
    (path, wal_dir): (&Path, &Path),
    families: &[ColumnFamilyDescriptor],
    session_id: &str,
) -> Vec<String> {
    let mut lines = vec![
        format!("Esker version: {}", env!("CARGO_PKG_VERSION")),
        format!("Compatible with RocksDB version: {}", options.compatible_with.name()),
        "DB SUMMARY".to_owned(),
        format!("Host name (Env):  {}", hostname()),
        format!("DB Session ID:  {session_id}"),
    ];
    summarize(options.env.fs.as_ref(), path, wal_dir, &mut lines);
    lines.extend(options.log_lines());
    lines.extend(supported());
    for family in families.iter().take(FAMILIES_SHOWN) {
        lines.extend(family_lines(&family.name, &family.options));
    }
    if families.len() > FAMILIES_SHOWN {
        lines.push("\t(skipping printing options)".to_owned());
    }
    lines
}

/// The lines of one family.
pub(super) fn family_lines(name: &str, options: &ColumnFamilyOptions) -> Vec<String> {
    let title = format!("--------------- Options for column family [{name}]:");
    std::iter::once(title).chain(options.log_lines()).collect()
}

/// The files that an opening finds. Unreadable directories and sizes are left out.
fn summarize(fs: &dyn FileSystem, path: &Path, wal_dir: &Path, lines: &mut Vec<String>) {
    let files_in = |dir: &Path| {
        let mut names = fs.children(dir).unwrap_or_default();
        names.sort_unstable();
        names.into_iter().filter_map(|name| parse_file_name(&name).map(|(kind, _)| (kind, name)))
    };
    let size = |dir: &Path, name: &str| fs.file_size(&dir.join(name)).unwrap_or(0);
    let (mut tables, mut wals) = (Vec::new(), String::new());
    for (kind, name) in files_in(path) {
        match kind {
            FileType::Current => lines.push(format!("CURRENT file:  {name}")),
            FileType::Identity => lines.push(format!("IDENTITY file:  {name}")),
            FileType::Descriptor => {
                lines.push(format!("MANIFEST file:  {name} size: {} Bytes", size(path, &name)))
            }
            FileType::Table => tables.push(name),
            _ => {}
        }
    }
    let dir = path.display();
    let named: String = tables.iter().take(TABLES_NAMED).map(|name| format!("{name} ")).collect();
    lines.push(format!("SST files in {dir} dir, Total Num: {}, files: {named}", tables.len()));
    for (kind, name) in files_in(wal_dir) {
        if kind == FileType::Wal {
            wals.push_str(&format!("{name} size: {} ; ", size(wal_dir, &name)));
        }
    }
    lines.push(format!("Write Ahead Log file in {}: {wals}", wal_dir.display()));
}

/// The abilities of this build.
fn supported() -> Vec<String> {
    let mut lines = vec!["Compression algorithms supported:".to_owned()];
    let kinds = CompressionType::ALL.into_iter().filter(|kind| *kind != CompressionType::DisableOption);
    lines.extend(
        kinds.map(|kind| format!("\t{} supported: {}", kind.option_name(), u8::from(kind.is_built_in()))),
    );
    // RocksDB prints which instructions the compiler may use. It prints an unknown architecture as
    // x86.
    let (arm, x86) =
        (cfg!(all(target_arch = "aarch64", target_feature = "crc")), cfg!(target_feature = "sse4.2"));
    let fast = match (arm, x86) {
        (true, _) => "Supported on Arm64",
        (_, true) => "Supported on x86",
        _ => "Not supported on x86",
    };
    lines.push(format!("Fast CRC32 supported: {fast}"));
    lines.push("Fast CRC32 is chosen at run time, where the processor has it".to_owned());
    lines.push("Jemalloc supported: 0".to_owned());
    lines
}

/// Opens the LOG. The options may give one; otherwise it is in the database's directory or, for a
/// secondary, in the secondary's own. A read-only database has none.
/// # Errors
/// `IoError`.
pub(super) fn open_info_log(
    options: &DbOptions,
    path: &Path,
    mode: OpenMode,
    secondary: Option<&Path>,
) -> Result<Arc<dyn InfoLog>> {
    if let Some(log) = &options.info_log {
        return Ok(log.clone());
    }
    if let Some(dir) = secondary {
        options.env.fs.create_dir_if_missing(dir)?;
    } else if mode == OpenMode::ReadOnly {
        return Ok(Arc::new(esker_base::logger::NoInfoLog));
    }
    let path = secondary.unwrap_or(path);
    let file = match &options.db_log_dir {
        Some(dir) => dir.join(file_name::info_log_name_elsewhere(path)),
        None => file_name::info_log_file_name(path),
    };
    let file_options = InfoLogOptions {
        level: options.info_log_level,
        max_log_file_size: options.max_log_file_size as u64,
        log_file_time_to_roll: options.log_file_time_to_roll as u64,
        keep_log_file_num: options.keep_log_file_num,
    };
    Ok(Arc::new(InfoLogFile::open(&options.env, &file, file_options)?))
}
