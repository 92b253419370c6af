//! The release of RocksJava that loaded this library, by the natives that its class `RocksDB` has.
//!
//! The Java program expects the defaults of its release, and files that the RocksDB of this release
//! can read.

use crate::border::NativeResult;
use crate::jni::JavaEnv;
use esker::options::TargetVersion;
use std::sync::OnceLock;

/// The releases whose natives this library has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum JavaRelease {
    V7_0,
    V8_8,
    V8_10,
    V10_1,
    V11_8,
}

static RELEASE: OnceLock<JavaRelease> = OnceLock::new();

impl JavaRelease {
    /// The release of the classes that call.
    pub(crate) fn of_caller(env: &JavaEnv<'_>) -> NativeResult<JavaRelease> {
        if let Some(release) = RELEASE.get() {
            return Ok(*release);
        }
        let class = env.class("org/rocksdb/RocksDB")?;
        let has = |name, descriptor| {
            env.find_static(class, name, descriptor).is_some()
                || env.find_method(class, name, descriptor).is_some()
        };
        let release = if has("abortAllCompactions", "(J)V") {
            JavaRelease::V11_8
        } else if !has("deleteFile", "(JLjava/lang/String;)V") {
            JavaRelease::V10_1
        } else if has("clipColumnFamily", "(JJ[BII[BII)V") {
            JavaRelease::V8_10
        } else if has("keyExists", "(JJJ[BII)Z") {
            JavaRelease::V8_8
        } else {
            JavaRelease::V7_0
        };
        Ok(*RELEASE.get_or_init(|| release))
    }

    /// The version as `RocksDB.version` encodes it: major, minor and patch, 8 bits each.
    pub(crate) fn number(self) -> i32 {
        let (major, minor, patch) = match self {
            JavaRelease::V7_0 => (7, 0, 3),
            JavaRelease::V8_8 => (8, 8, 1),
            JavaRelease::V8_10 => (8, 10, 0),
            JavaRelease::V10_1 => (10, 1, 3),
            JavaRelease::V11_8 => (11, 8, 1),
        };
        major << 16 | minor << 8 | patch
    }

    /// The oldest RocksDB that must be able to read this program's files; for 7.0 the oldest that
    /// there is.
    pub(crate) fn target(self) -> TargetVersion {
        match self {
            JavaRelease::V7_0 => TargetVersion::V7_8,
            JavaRelease::V8_8 | JavaRelease::V8_10 => TargetVersion::V8,
            JavaRelease::V10_1 => TargetVersion::V10,
            JavaRelease::V11_8 => TargetVersion::V11,
        }
    }

    /// The release's default `format_version` of tables.
    pub(crate) fn format_version(self) -> u32 {
        match self {
            JavaRelease::V7_0 | JavaRelease::V8_8 | JavaRelease::V8_10 => 5,
            JavaRelease::V10_1 => 6,
            JavaRelease::V11_8 => 7,
        }
    }
}

/// `RocksDB.version`.
pub(crate) fn version(env: &JavaEnv<'_>) -> NativeResult<i32> {
    Ok(JavaRelease::of_caller(env)?.number())
}
