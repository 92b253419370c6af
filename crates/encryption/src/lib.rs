//! Encryption at rest: a file system that encrypts and authenticates the files of another one.
//!
//! In: a file system, master keys, and the calls of an engine. Out: the same files, encrypted with
//! AES-256-GCM. Each file has a key of its own, which its header holds wrapped under a master key.
//! Names, sizes and times stay visible. Layout: `docs/format/encryption.md`. Threats, keys and
//! costs: `docs/guide/src/encryption.md`.
//!
//! Reading order: [`keys`] (master keys and where they come from), `file_key` (the key of a file),
//! [`policy`] (which files are encrypted), `writer`, `reader`, [`fs`], [`convert`] (directories
//! that change their keys).
//!
//! Invariants
//!  1. No two frames of a file have the same nonce, unless they have the same content.
//!  2. Bytes that were synced stay readable: a frame that was written is never written again.
//!  3. A read returns authenticated bytes, or an error. A damaged part of a log reads as bytes
//!     0xFF, which no reader of logs takes for a record.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod convert;
pub mod ctr;
mod file_key;
pub mod fs;
pub mod keys;
mod names;
pub mod policy;
mod reader;
mod writer;

/// The name of a file in a directory whose files are being encrypted or decrypted.
pub const CONVERSION_MARKER: &str = "ENCRYPTION-CONVERSION";

pub use convert::{ConversionReport, decrypt_directories, encrypt_directories, rekey_directories};
pub use ctr::{BlockCipher, CtrFs, Rot13};
pub use fs::EncryptedFs;
pub use keys::{KeyCallback, KeyFile, KeyProvider, KeyVariable, MasterKey, MasterKeyId};
pub use policy::EncryptionPolicy;
