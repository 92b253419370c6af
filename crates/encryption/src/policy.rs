//! Selects the files to encrypt, by their names.

use esker_format::encryption::EncryptedKind;
use std::path::Path;

/// Options that select files to encrypt. Files with users' data are always encrypted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct EncryptionPolicy {
    /// Whether OPTIONS files are encrypted. They contain no keys or values of users.
    pub encrypt_options: bool,
    /// Whether the info log (`LOG`) is encrypted.
    pub encrypt_info_log: bool,
    /// Whether readers accept files that are not encrypted. A directory with the marker file of a
    /// conversion does not need this option. The option lets an attacker replace an encrypted file
    /// with an unencrypted one.
    pub accept_plaintext: bool,
}

/// Whether and how a file is encrypted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    /// Not encrypted.
    Clear,
    /// Encrypted by the rules of this kind.
    Encrypted(EncryptedKind),
}

impl EncryptionPolicy {
    /// The class of a new file with this name.
    pub(crate) fn class(&self, path: &Path) -> Class {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_info_log = name == "LOG"
            || name.starts_with("LOG.old.")
            || name.ends_with("_LOG")
            || name.contains("_LOG.old.");
        let is_clear = matches!(&*name, "CURRENT" | "IDENTITY" | "LOCK")
            || name.starts_with("OPTIONS-") && !self.encrypt_options
            || name.ends_with(".dbtmp") && !name.starts_with("OPTIONS-")
            || is_info_log && !self.encrypt_info_log;
        if is_clear {
            Class::Clear
        } else if is_wal(path) || is_info_log {
            Class::Encrypted(EncryptedKind::Log)
        } else if name.starts_with("MANIFEST-") {
            Class::Encrypted(EncryptedKind::StrictLog)
        } else {
            Class::Encrypted(EncryptedKind::Whole)
        }
    }
}

/// Whether this is the path of a write-ahead log.
pub(crate) fn is_wal(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "log")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_selects_the_class() {
        const WHOLE: Class = Class::Encrypted(EncryptedKind::Whole);
        const LOG: Class = Class::Encrypted(EncryptedKind::Log);
        const STRICT: Class = Class::Encrypted(EncryptedKind::StrictLog);
        let policy = EncryptionPolicy::default();
        let all = EncryptionPolicy { encrypt_options: true, encrypt_info_log: true, accept_plaintext: false };
        for (name, some, most) in [
            ("CURRENT", Class::Clear, Class::Clear),
            ("IDENTITY", Class::Clear, Class::Clear),
            ("000005.dbtmp", Class::Clear, Class::Clear),
            ("OPTIONS-000007", Class::Clear, WHOLE),
            ("OPTIONS-000007.dbtmp", Class::Clear, WHOLE),
            ("LOG", Class::Clear, LOG),
            ("LOG.old.1234", Class::Clear, LOG),
            ("data_db_LOG", Class::Clear, LOG),
            ("MANIFEST-000005", STRICT, STRICT),
            ("000004.log", LOG, LOG),
            ("000012.sst", WHOLE, WHOLE),
            ("000012.blob", WHOLE, WHOLE),
            ("trace", WHOLE, WHOLE),
        ] {
            assert_eq!((policy.class(Path::new(name)), all.class(Path::new(name))), (some, most), "{name}");
        }
    }
}
