//! The conformance suite for each file system of this crate.

use super::conformance::{self as cases, with_all_cases, with_cases_of_files};
use super::temp_dir::TempDir;
use esker_env::{CrashFs, FaultFs, FileSystem, MemFs, PosixFileSystem};
use std::sync::Arc;

macro_rules! conformance {
    ($($case:ident),* $(,)?) => {
        mod posix {
            $(#[test] fn $case() {
                let dir = super::TempDir::new();
                super::cases::$case(&super::PosixFileSystem::new(), dir.path());
            })*
        }
        conformance!(@memory mem: super::MemFs::new(), $($case),*);
        conformance!(@memory crash: super::CrashFs::new(), $($case),*);
        conformance!(@memory fault_over_mem: super::FaultFs::new(super::Arc::new(super::MemFs::new())), $($case),*);
        conformance!(@memory fault_over_crash: super::FaultFs::new(super::Arc::new(super::CrashFs::new())), $($case),*);
        mod fault_over_posix {
            $(#[test] fn $case() {
                let dir = super::TempDir::new();
                super::cases::$case(&super::FaultFs::new(super::Arc::new(super::PosixFileSystem)), dir.path());
            })*
        }
    };
    (@memory $name:ident: $fs:expr, $($case:ident),*) => {
        mod $name {
            use super::FileSystem;
            $(#[test] fn $case() {
                let (fs, dir) = ($fs, std::path::Path::new("/some/dir"));
                fs.create_dir_if_missing(dir).unwrap();
                super::cases::$case(&fs, dir);
            })*
        }
    };
}

with_all_cases!(conformance);
