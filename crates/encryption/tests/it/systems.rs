//! The conformance suite of file systems over encrypted files.

use super::conformance::{self as cases, with_all_cases, with_cases_of_files};
use super::support::encrypted;
use super::temp_dir::TempDir;
use esker_env::{CrashFs, FileSystem, MemFs, PosixFileSystem};

macro_rules! conformance {
    ($($case:ident),* $(,)?) => {
        mod posix {
            $(#[test] fn $case() {
                let dir = super::TempDir::new();
                super::cases::$case(&super::encrypted(super::PosixFileSystem), dir.path());
            })*
        }
        conformance!(@memory mem: super::MemFs::new(), $($case),*);
        conformance!(@memory crash: super::CrashFs::new(), $($case),*);
    };
    (@memory $name:ident: $fs:expr, $($case:ident),*) => {
        mod $name {
            use super::FileSystem;
            $(#[test] fn $case() {
                let (fs, dir) = (super::encrypted($fs), std::path::Path::new("/some/dir"));
                fs.create_dir_if_missing(dir).unwrap();
                super::cases::$case(&fs, dir);
            })*
        }
    };
}

with_all_cases!(conformance);
