//! The engines by name.

#[cfg(feature = "bf-tree")]
pub(crate) mod bf_tree;
pub(crate) mod esker;
#[cfg(feature = "peers")]
pub(crate) mod fjall;
#[cfg(feature = "peers")]
pub(crate) mod lmdb;
pub(crate) mod memory;
#[cfg(feature = "peers")]
pub(crate) mod redb;
pub(crate) mod rocksdb;
#[cfg(feature = "surrealkv")]
pub(crate) mod surrealkv;
#[cfg(feature = "tidesdb")]
pub(crate) mod tidesdb;

use crate::engine::{Abilities, RivalEngine, RivalResult};
use crate::report::EngineInfo;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};

/// An engine on the command line.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EngineKind {
    /// This project.
    Esker,
    /// This project through RocksDB's C functions: the library `librocksdb.so.11` of crate `capi`,
    /// loaded at run time.
    #[serde(rename = "esker-c")]
    EskerC,
    /// RocksDB 11, loaded at run time.
    Rocksdb,
    /// fjall 3.
    Fjall,
    /// redb 4.
    Redb,
    /// LMDB, through the crate heed.
    Lmdb,
    /// SurrealKV 1.
    Surrealkv,
    /// TidesDB 10, through its crate.
    Tidesdb,
    /// Bf-Tree 0.5.
    #[serde(rename = "bf-tree")]
    BfTree,
    /// A BTreeMap: the speed of plain memory.
    Memory,
}

impl EngineKind {
    /// All engines, in the order of the table.
    pub(crate) const ALL: [EngineKind; 10] = [
        EngineKind::Esker,
        EngineKind::EskerC,
        EngineKind::Rocksdb,
        EngineKind::Fjall,
        EngineKind::Redb,
        EngineKind::Lmdb,
        EngineKind::Surrealkv,
        EngineKind::Tidesdb,
        EngineKind::BfTree,
        EngineKind::Memory,
    ];

    /// The engine's name in reports.
    pub(crate) fn title(self) -> &'static str {
        match self {
            EngineKind::Esker => "Esker",
            EngineKind::EskerC => "Esker (C ABI)",
            EngineKind::Rocksdb => "RocksDB",
            EngineKind::Fjall => "fjall",
            EngineKind::Redb => "redb",
            EngineKind::Lmdb => "LMDB",
            EngineKind::Surrealkv => "SurrealKV",
            EngineKind::Tidesdb => "TidesDB",
            EngineKind::BfTree => "Bf-Tree",
            EngineKind::Memory => "BTreeMap",
        }
    }

    /// The engine's name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            EngineKind::Esker => "esker",
            EngineKind::EskerC => "esker-c",
            EngineKind::Rocksdb => "rocksdb",
            EngineKind::Fjall => "fjall",
            EngineKind::Redb => "redb",
            EngineKind::Lmdb => "lmdb",
            EngineKind::Surrealkv => "surrealkv",
            EngineKind::Tidesdb => "tidesdb",
            EngineKind::BfTree => "bf-tree",
            EngineKind::Memory => "memory",
        }
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.title())
    }
}

/// The libraries with RocksDB's C functions, for the engines that load one.
#[derive(Clone, Debug)]
pub(crate) struct Libraries {
    /// Esker's `librocksdb.so.11`; `None` if there is none.
    pub(crate) esker: Option<PathBuf>,
    /// A build of RocksDB 11; `None` means the library of the tests.
    pub(crate) rocksdb: Option<PathBuf>,
}

impl Libraries {
    /// The libraries that the command line names. The default for Esker is the library beside this
    /// program.
    pub(crate) fn new(esker: Option<&Path>, rocksdb: Option<&Path>) -> Libraries {
        let beside = || std::env::current_exe().ok().map(|program| program.with_file_name(ESKER_LIBRARY));
        let esker = esker.map(Path::to_owned).or_else(|| beside().filter(|path| path.exists()));
        Libraries { esker, rocksdb: rocksdb.map(Path::to_owned) }
    }

    /// The library that `kind` loads; `None` for the library of the tests, and for an engine that
    /// loads none.
    pub(crate) fn of(&self, kind: EngineKind) -> Option<&Path> {
        match kind {
            EngineKind::EskerC => self.esker.as_deref(),
            EngineKind::Rocksdb => self.rocksdb.as_deref(),
            _ => None,
        }
    }
}

/// The file that `cargo build -p esker-capi` makes.
const ESKER_LIBRARY: &str = "libesker_capi.so";

/// Work with an engine whose type is known only at run time.
pub(crate) trait WithEngine {
    /// The result of the work.
    type Output;
    /// Does the work.
    fn run<E: RivalEngine>(self) -> RivalResult<Self::Output>;
}

impl EngineKind {
    /// Does `work` with this engine.
    /// # Errors
    /// Errors of the work, or the engine is not built in.
    pub(crate) fn with<W: WithEngine>(self, work: W) -> RivalResult<W::Output> {
        match self {
            EngineKind::Esker => work.run::<esker::Esker>(),
            EngineKind::EskerC | EngineKind::Rocksdb => work.run::<rocksdb::RocksDbEngine>(),
            EngineKind::Memory => work.run::<memory::Memory>(),
            #[cfg(feature = "peers")]
            EngineKind::Fjall => work.run::<fjall::Fjall>(),
            #[cfg(feature = "peers")]
            EngineKind::Redb => work.run::<redb::Redb>(),
            #[cfg(feature = "peers")]
            EngineKind::Lmdb => work.run::<lmdb::Lmdb>(),
            #[cfg(feature = "surrealkv")]
            EngineKind::Surrealkv => work.run::<surrealkv::SurrealKv>(),
            #[cfg(feature = "tidesdb")]
            EngineKind::Tidesdb => work.run::<tidesdb::Tides>(),
            #[cfg(feature = "bf-tree")]
            EngineKind::BfTree => work.run::<bf_tree::BfTreeEngine>(),
            #[cfg(not(all(
                feature = "peers",
                feature = "surrealkv",
                feature = "tidesdb",
                feature = "bf-tree"
            )))]
            _ => Err(format!("it is not built in: --features {} builds it", self.feature())),
        }
    }

    /// The feature of this package that builds the engine in.
    #[cfg(not(all(feature = "peers", feature = "surrealkv", feature = "tidesdb", feature = "bf-tree")))]
    fn feature(self) -> &'static str {
        match self {
            EngineKind::Fjall | EngineKind::Redb | EngineKind::Lmdb => "peers",
            _ => self.name(),
        }
    }

    /// The engine's abilities.
    /// # Errors
    /// The engine is not built in.
    pub(crate) fn abilities(self) -> RivalResult<Abilities> {
        struct Ask;
        impl WithEngine for Ask {
            type Output = Abilities;
            fn run<E: RivalEngine>(self) -> RivalResult<Abilities> {
                Ok(E::ABILITIES)
            }
        }
        self.with(Ask)
    }
}

/// The version of an engine, and the differences of its settings from those of other engines.
/// # Errors
/// The engine cannot run here. The text says why, or how to get the engine.
pub(crate) fn availability(kind: EngineKind, libraries: &Libraries) -> RivalResult<EngineInfo> {
    let info = |version: String, notes: &[&str]| EngineInfo {
        kind,
        title: kind.title().to_owned(),
        version,
        notes: notes.iter().map(|note| (*note).to_owned()).collect(),
    };
    match kind {
        EngineKind::Esker => Ok(info(env!("CARGO_PKG_VERSION").to_owned(), &[])),
        EngineKind::Memory => {
            Ok(info("std".to_owned(), &["no log, no files, no versions: what memory allows"]))
        }
        EngineKind::EskerC => match &libraries.esker {
            Some(path) if path.exists() => Ok(info(env!("CARGO_PKG_VERSION").to_owned(), &[])),
            Some(path) => Err(format!("{} is not there", path.display())),
            None => Err("cargo build --release -p esker-capi builds its library".to_owned()),
        },
        EngineKind::Rocksdb => match &libraries.rocksdb {
            Some(path) if !path.exists() => Err(format!("{} is not there", path.display())),
            // Shows only the library's file name, because the page may be published.
            Some(path) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                Ok(info(format!("11, {name}"), &[]))
            }
            None if esker_peer::default_library().exists() => Ok(info(
                "11.8.1, library of rocksdbjni".to_owned(),
                &[
                    "built for any x86-64: its CRC32C is software, which costs it 5–10% wherever it writes a log",
                ],
            )),
            None => Err("its library is not installed; .ci/fetch-peers gets it".to_owned()),
        },
        #[cfg(feature = "peers")]
        EngineKind::Fjall => Ok(info("3.1".to_owned(), fjall::NOTES)),
        #[cfg(feature = "peers")]
        EngineKind::Redb => Ok(info("4".to_owned(), redb::NOTES)),
        #[cfg(feature = "peers")]
        EngineKind::Lmdb => Ok(info("0.9, by heed 0.23".to_owned(), lmdb::NOTES)),
        #[cfg(feature = "surrealkv")]
        EngineKind::Surrealkv => Ok(info("1.2".to_owned(), surrealkv::NOTES)),
        #[cfg(feature = "tidesdb")]
        EngineKind::Tidesdb => Ok(info("10.2, by crate tidesdb 1.0".to_owned(), tidesdb::NOTES)),
        #[cfg(feature = "bf-tree")]
        EngineKind::BfTree => Ok(info("0.5".to_owned(), bf_tree::NOTES)),
        #[cfg(not(all(feature = "peers", feature = "surrealkv", feature = "tidesdb", feature = "bf-tree")))]
        _ => Err(kind.abilities().map_or_else(|why| why, |_| String::new())),
    }
}

#[cfg(test)]
mod tests;
