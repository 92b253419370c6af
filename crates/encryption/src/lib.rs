//! Encryption at rest: a file system that encrypts and authenticates the files of another one.
//!
//! In: a file system, master keys, and the calls of an engine. Out: the same files, encrypted with
//! AES-256-GCM. Each file has a key of its own. A master key encrypts that key, and the file's
//! header stores the result. Names, sizes and times of files stay visible. Layout:
//! `docs/format/encryption.md`. Threats, keys and costs: `docs/guide/src/encryption.md`.
//!
//! Reading order: [`keys`] (master keys and their sources), `file_key` (the key of a file),
//! [`policy`] (selects the files to encrypt), `writer`, `reader`, [`fs`], [`convert`] (encrypts,
//! decrypts and rekeys directories). [`ctr`] reads RocksDB's encrypted files.
//!
//! Invariants
//!  1. A *frame* is the unit of encryption. Frames of one file have different nonces if their
//!     contents differ.
//!  2. Synced bytes stay readable: a written frame never changes.
//!  3. A read returns authenticated bytes, or an error. In place of a damaged part of a file of
//!     kind `Log`, a read returns bytes 0xFF. A reader of logs never takes them for a record.
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

/// The name of the marker file. A directory has this file while a conversion encrypts or decrypts
/// its files.
pub const CONVERSION_MARKER: &str = "ENCRYPTION-CONVERSION";

pub use convert::{ConversionReport, decrypt_directories, encrypt_directories, rekey_directories};
pub use ctr::{BlockCipher, CtrFs, Rot13};
pub use fs::EncryptedFs;
pub use keys::{KeyCallback, KeyFile, KeyProvider, KeyVariable, MasterKey, MasterKeyId};
pub use policy::EncryptionPolicy;
