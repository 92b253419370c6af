//! The conformance suite of file systems over encrypted files.

use super::conformance::{self as cases, with_all_cases, with_cases_of_files};
use super::support::{encrypted, pattern, read, write_pieces};
use super::temp_dir::TempDir;
use esker_encryption::{CtrFs, Rot13};
use esker_env::{CrashFs, FileSystem, MemFs, PosixFileSystem};
use std::sync::Arc;

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

/// A file system that encrypts files as RocksDB's `EncryptedEnv` does.
fn rocksdbs(inner: impl FileSystem + 'static) -> CtrFs {
    CtrFs::new(Arc::new(inner), Arc::new(Rot13 { block_bytes: 32 })).unwrap()
}

macro_rules! rocksdb_conformance {
    ($($case:ident),* $(,)?) => {
        mod rocksdb {
            $(#[test] fn $case() {
                let dir = super::TempDir::new();
                super::cases::$case(&super::rocksdbs(super::PosixFileSystem), dir.path());
            })*
        }
    };
}

with_all_cases!(rocksdb_conformance);

#[test]
fn times_of_encryption_are_counted() {
    use esker_base::perf_context::{PerfContext, PerfLevel, set_perf_level};
    let path = std::path::Path::new("/file");
    let systems: [Box<dyn FileSystem>; 2] =
        [Box::new(encrypted(MemFs::new())), Box::new(rocksdbs(MemFs::new()))];
    for fs in systems {
        set_perf_level(PerfLevel::EnableTimeExceptForMutex);
        PerfContext::reset();
        write_pieces(&*fs, path, &[&pattern(50_000, 1)]);
        let written = PerfContext::current();
        assert!(written.encrypt_data_nanos > 0, "{written}");
        assert_eq!(read(&*fs, path).unwrap(), pattern(50_000, 1));
        let both = PerfContext::current();
        assert!(both.decrypt_data_nanos > written.decrypt_data_nanos, "{both}");
        set_perf_level(PerfLevel::EnableCount);
        write_pieces(&*fs, path, &[b"piece"]);
        assert_eq!(PerfContext::current(), both);
    }
}
