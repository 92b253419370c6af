//! Runs any command line of `esker` on intact or damaged databases in memory.
//!
//! Laws: each command ends with a documented exit code. A command that only reads changes nothing.
//! A command writes only below paths that its arguments name.
//!
//! For commands that load the machine (benchmarks, stress tests, the demonstration), the target
//! only parses the arguments.

use crate::scene::{Files, damage, databases, files_below, lay};
use esker::Env;
use esker::internals::env::{FileSystem, MemFs};
use esker_tools::{CommandLine, Host};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::sync::Arc;

/// Words that a fuzzer need not spell. In an argument, a byte with the value 128 + i stands for
/// word i. Any other byte stands for itself.
const WORDS: &[&str] = &[
    "ldb", "sst_dump", "verify", "compat", "explain", "compare", "db_bench", "cache_bench", "lock_bench",
    "db_stress", "db_crashtest", "demo", "get", "put", "batchput", "delete", "deleterange", "scan", "dump",
    "idump", "dump_wal", "manifest_dump", "file_checksum_dump", "load", "write_extern_sst",
    "ingest_extern_sst", "list_column_families", "create_column_family", "drop_column_family",
    "checkconsistency", "compact", "approxsize", "get_property", "list_live_files_metadata", "backup",
    "restore", "downgrade", "repair", "checkpoint", "multiget", "seek", "--db=", "--hex", "--key_hex",
    "--value_hex", "--column_family=", "--column-family=", "--try_load_options=false",
    "--ignore_unknown_options", "--create_if_missing", "--bloom_bits=", "--compression_type=",
    "--block_size=", "--write_buffer_size=", "--file_size=", "--ttl", "--enable_blob_files",
    "--min_blob_size=", "--blob_file_size=", "--blob_compression_type=", "--enable_blob_garbage_collection",
    "--from=", "--to=", "--prefix=", "--max_keys=", "--count_only", "--no_value", "--walfile=", "--header",
    "--print_value", "--path=", "--verbose", "--backup_dir=", "--checkpoint_dir=", "--file=", "--command=",
    "--output_hex", "--input_key_hex", "--read_num=", "--show_properties", "--show_summary", "--wal-dir=",
    "--json", "--quiet", "--warm", "--rows=", "--reverse", "--benchmarks=", "--num=", "--help", "--version",
    "/db", "/copy", "/out", "default", "second", "key0007", "key0040", "value", "0x", "0x6b657930303037",
    "zstd", "raw", "7.8", "10.x", "000", ".sst", ".log", "/MANIFEST-", "rocksdb.stats",
    "rocksdb.levelstats", "rocksdb.", "18446744073709551615", "-1", "0.5", "query",
    "reduce_levels", "change_compaction_style", "update_manifest", "dump_live_files",
    "unsafe_remove_sst_file", "blob_dump", "--timestamp", "--start_time=", "--bucket=", "--new_levels=",
    "--count_delim=", "--update_temperatures",
];

/// The exit codes that `esker-tools` documents.
const CODES: [u8; 3] = [0, 1, 2];

fn argument(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    for &byte in bytes {
        match byte.checked_sub(128).and_then(|at| WORDS.get(usize::from(at))) {
            Some(word) => text.extend_from_slice(word.as_bytes()),
            None => text.push(byte),
        }
    }
    text
}

/// Whether an argument names the path or a directory above it. Relative paths begin at the root.
/// `MemFs` replaces bytes of a path that are not UTF-8. The caller has replaced these bytes in
/// `arguments` too.
fn is_pointed_at(path: &Path, arguments: &[Vec<u8>]) -> bool {
    path.ancestors().any(|above| match above.as_os_str().as_encoded_bytes() {
        // The root is above every path. Only an argument that ends in `/`, or in an empty path
        // behind `=`, names the root.
        b"/" | b"" => arguments.iter().any(|argument| argument.ends_with(b"/") || argument.ends_with(b"=")),
        above => arguments.iter().any(|argument| argument.windows(above.len() - 1).any(|part| part == &above[1..])),
    })
}

fn check_changes(before: &Files, after: &Files, only_reads: bool, arguments: &[Vec<u8>]) {
    let shown = || -> Vec<_> { arguments.iter().map(|a| a.escape_ascii().to_string()).collect() };
    let changed = |a: &Files, b: &Files| -> Vec<_> {
        a.iter().filter(|file| b.binary_search(file).is_err()).map(|file| file.0.clone()).collect()
    };
    for path in [changed(before, after), changed(after, before)].concat() {
        assert!(!only_reads, "{:?} has changed {}", shown(), path.display());
        assert!(is_pointed_at(&path, arguments), "{:?} has changed {}", shown(), path.display());
    }
}

/// Parses the flags of a benchmark, which clap does not parse.
fn benchmark(arguments: &[Vec<u8>]) {
    let flags = arguments.iter().skip(1).map(|a| String::from_utf8_lossy(a).into_owned());
    drop(esker_bench::flags::parse(&flags.collect::<Vec<_>>()));
}

/// Runs one input. The first byte selects the database, and whether to damage it. The second byte
/// is the number of arguments, modulo 16. Eight bytes for the damage follow, if there is damage.
/// Then come the arguments, one on each line, and standard input.
pub fn run(data: &[u8]) {
    let Some((&[place, count], mut rest)) = data.split_first_chunk() else { return };
    let made = databases();
    // One value in four selects an empty directory.
    let mut files = made.get(usize::from(place % 4)).cloned().unwrap_or_default();
    let copy = files.iter().map(|(path, bytes)| {
        (Path::new("/copy").join(path.file_name().unwrap()), bytes.clone())
    });
    let copy: Files = copy.collect();
    if let (true, Some((change, behind))) = (place & 4 != 0, rest.split_first_chunk::<8>()) {
        damage(&mut files, change);
        rest = behind;
    }
    let mut parts = rest.splitn(usize::from(count % 16) + 1, |byte| *byte == b'\n');
    let arguments: Vec<Vec<u8>> = parts.by_ref().take(usize::from(count % 16)).map(argument).collect();
    let input = parts.next().unwrap_or_default().to_vec();
    let os_arguments = arguments.iter().cloned().map(OsString::from_vec);
    let Ok(line) = CommandLine::parse(std::iter::once(OsString::from("esker")).chain(os_arguments)) else { return };
    if !line.keeps_to_its_host() {
        return benchmark(&arguments);
    }
    let fs = MemFs::new();
    for dir in ["/db", "/copy"] {
        fs.create_dir_if_missing(Path::new(dir)).unwrap();
    }
    lay(&fs, &files);
    lay(&fs, &copy);
    let root = Path::new("/");
    let before = files_below(&fs, root);
    let code = line.run(&Host::unheard(Env::with_fs(Arc::new(fs.clone())), input));
    assert!(CODES.contains(&code), "exit code {code}");
    let as_text = arguments.iter().map(|a| String::from_utf8_lossy(a).into_owned().into_bytes());
    check_changes(&before, &files_below(&fs, root), line.only_reads(), &as_text.collect::<Vec<_>>());
}
