//! `cargo xtask check|test|long|cluster|compare|instructions|guide|python|tidy`: daily commands.
//!
//! In: a command and its flags. Out: the output of the tools that the command runs; exit code 1 if
//! a tool failed.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a developer's tool: it reads the tree itself and talks to a terminal"
)]

mod campaigns;
mod capi;
mod clients;
mod cluster;
mod commands;
mod instructions;
mod jvm;
mod mutants;
mod portability;
mod python;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask check [--all]      format, tidy, clippy and tests of the crates touched since the branch left main
cargo xtask test               every fast test of every crate
cargo xtask long [MINUTES]     all of what follows, mutants and fuzzing, in so many minutes in all (600 if not said)
cargo xtask long slice         nine campaigns, half a minute each, as debug builds; models compile: seven minutes
cargo xtask long crash_test    db_stress in processes that are killed, on a real directory, twenty minutes
cargo xtask long loom          the memtable, the write queue and the super version's swap in all interleavings
cargo xtask long caches        the engine's tests on each kind of block cache, one of 64 KiB, and above a tier
cargo xtask long model         ten million random operations against a model
cargo xtask long metamorphic   the same operations under many sets of options, ten minutes
cargo xtask long sim           crashes in a simulated machine: threads, clock and disk under one seed, ten minutes
cargo xtask long durability    ten thousand crash points, every file operation failing, kill -9
cargo xtask long threads       writers and readers at once, five minutes
cargo xtask long scans         scans in both directions beside writers against a model, fifteen minutes
cargo xtask long locks         the lock manager against a reference, and half an hour of everything at once
cargo xtask long hostile       real processes under limits, on full disks, in directories that are moved, twenty minutes
cargo xtask long growth        how work grows with what lies in a database, against docs/growth.md, ten minutes
cargo xtask long clients [NAME]suites of RocksDB's clients, unchanged, on the C API ('all', or 'rocksdb' before names)
cargo xtask long clusters      distributed engines of others on Esker, with kills and full disks, twenty-five minutes
cargo xtask long python        the Python package with many examples of each property, and as a wheel
cargo xtask long jvm           a Java program on Esker and on RocksDB's library, for five releases of RocksJava, and Samza's stores
cargo xtask long portability [TARGET]   aarch64, musl, macOS, 32 bits and WebAssembly, as far as each goes from here
cargo xtask long mutants [NAME]mutants, one after the other: each campaign finds its own within ten minutes
cargo xtask long compat        500 mixtures and 50 chains between Esker and RocksDB, every fixture damaged in every way
cargo xtask long sanitizers    the same under AddressSanitizer and ThreadSanitizer, five minutes each
cargo xtask cluster ENGINE     distributed engines of others: cometbft, openraft, kafka-streams, flink, rheakv (--help: flags)
cargo xtask compare [FLAGS]    Esker beside RocksDB, fjall, redb and LMDB (--quick: ten minutes; --help: all flags)
cargo xtask instructions       instructions per operation; fails on over 3% more than recorded (--record writes them)
cargo xtask guide              the guide as a book in target/guide (installs mdBook into target/tools once)
cargo xtask capi-callers       writes which suites call the functions of the C API into its page
cargo xtask capi-surface       records the declarations of RocksDB's headers (--check: compares them)
cargo xtask install-capi DIR [11.1]   librocksdb.so.11, its header and rocksdb.pc below DIR, for
                               RocksDB 11.8 or with the defaults of 11.1
cargo xtask python [build|wheel]
                               the Python package: builds it, checks its types, runs its tests (build: only builds it;
                               wheel: makes one)
cargo xtask tidy               rules that no compiler knows";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let root = root();
    let result = match args.as_slice() {
        ["check"] => commands::check(&root, false),
        ["check", "--all"] => commands::check(&root, true),
        ["test"] => commands::test(&root),
        ["long"] => commands::long(&root, 600),
        ["long", "slice"] => campaigns::slice(&root),
        ["long", "crash_test"] => campaigns::crash_test(&root, 20),
        ["long", "loom"] => commands::models(&root),
        ["long", "caches"] => commands::caches(&root),
        ["long", "model"] => campaigns::model(&root),
        ["long", "metamorphic"] => campaigns::metamorphic(&root, 10),
        ["long", "sim"] => campaigns::sim(&root, 10),
        ["long", "durability"] => campaigns::durability(&root),
        ["long", "threads"] => campaigns::threads(&root, 5),
        ["long", "scans"] => campaigns::scans(&root, 15),
        ["long", "locks"] => campaigns::locks(&root, 30),
        ["long", "compat"] => campaigns::compat(&root),
        ["long", "hostile"] => campaigns::hostile(&root),
        ["long", "growth"] => campaigns::growth(&root),
        ["long", "sanitizers"] => campaigns::sanitizers(&root, 5),
        ["long", "python"] => python::long(&root),
        ["long", "clients", names @ ..] => clients::run(&root, names),
        ["long", "clusters"] => cluster::long(&root),
        ["long", "jvm"] => jvm::run(&root, false),
        ["long", "jvm", "record"] => jvm::run(&root, true),
        ["long", "portability", names @ ..] => portability::run_all(&root, names),
        ["long", "mutants", names @ ..] => mutants::run_all(&root, names, 10),
        ["long", minutes] => match minutes.parse() {
            Ok(minutes) => commands::long(&root, minutes),
            Err(_) => Err(format!("'{minutes}' is not a number of minutes")),
        },
        ["cluster", args @ ..] => cluster::run(&root, args),
        ["compare", flags @ ..] => commands::compare(&root, flags),
        ["instructions"] => instructions::check(&root, false),
        ["instructions", "--record"] => instructions::check(&root, true),
        ["guide"] => commands::guide(&root),
        ["capi-surface"] => capi::surface(&root, false),
        ["capi-surface", "--check"] => capi::surface(&root, true),
        ["capi-callers"] => clients::write_table(&root),
        ["install-capi", prefix] => capi::install(&root, Path::new(prefix), "11.8"),
        ["install-capi", prefix, release] => capi::install(&root, Path::new(prefix), release),
        ["python"] => python::test(&root, 25),
        ["python", "build"] => python::build(&root),
        ["python", "wheel"] => python::wheel(&root),
        ["tidy"] => tidy::run(&root),
        _ => Err(USAGE.to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the workspace: this package lies directly below it.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace").to_owned()
}
