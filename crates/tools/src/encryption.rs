//! The keys of encrypted databases, as flags of all commands.

use crate::host::Host;
use clap::Args;
use esker::Result;
use esker::encryption::{EncryptedFs, EncryptionPolicy, KeyFile, KeyProvider, KeyVariable};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct KeyFlags {
    /// File with the master keys of encrypted databases, one a line as 64 hexadecimal digits, the
    /// current one first
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "encryption_key_env")]
    encryption_key_file: Option<PathBuf>,
    /// Environment variable with the master keys, between commas
    #[arg(long, global = true, value_name = "NAME")]
    encryption_key_env: Option<String>,
    /// Encrypt OPTIONS files and the LOG too
    #[arg(long, global = true)]
    encrypt_all: bool,
}

impl KeyFlags {
    /// `host` with encrypted files, if the flags name keys.
    /// # Errors
    /// The provider's error.
    pub(crate) fn host(&self, host: &Host) -> Result<Option<Host>> {
        let fs = host.env().fs;
        let provider: Arc<dyn KeyProvider> = match (&self.encryption_key_file, &self.encryption_key_env) {
            (Some(path), _) => Arc::new(KeyFile::new(fs.clone(), path)),
            (None, Some(name)) => Arc::new(KeyVariable::new(name)),
            (None, None) => return Ok(None),
        };
        let mut policy = EncryptionPolicy::default();
        (policy.encrypt_options, policy.encrypt_info_log) = (self.encrypt_all, self.encrypt_all);
        Ok(Some(host.with_encrypted(EncryptedFs::new(fs, provider, policy)?)))
    }
}
