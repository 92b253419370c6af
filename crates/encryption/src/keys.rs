//! Master keys: which ones there are, and which one new files use.
//!
//! In: a file, an environment variable or a callback. Out: keys of 32 bytes, the current one first.
//! A master key encrypts only the keys of files, so it can be replaced without rewriting them.

use esker_base::sync::{Arc, RwLock};
use esker_base::{Error, Result};
use esker_env::FileSystem;
use ring::hmac;
use std::fmt;
use std::path::{Path, PathBuf};

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;
/// The most bytes of a key file.
const MOST_FILE_BYTES: usize = 64 << 10;

/// A master key: 32 secret bytes. `Debug` prints its name, not its bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct MasterKey([u8; KEY_BYTES]);

/// The name of a master key, which file headers hold. Made from the key by a one-way function.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct MasterKeyId(pub [u8; 16]);

impl MasterKey {
    /// The key with these bytes.
    pub fn from_bytes(bytes: [u8; KEY_BYTES]) -> MasterKey {
        MasterKey(bytes)
    }

    /// A new random key.
    /// # Errors
    /// `IoError` if the system gives no random bytes.
    pub fn generate() -> Result<MasterKey> {
        let mut bytes = [0; KEY_BYTES];
        crate::file_key::fill_random(&mut bytes)?;
        Ok(MasterKey(bytes))
    }

    /// The key written as 64 hexadecimal digits.
    /// # Errors
    /// `InvalidArgument`, without the text.
    pub fn from_hex(text: &str) -> Result<MasterKey> {
        let digits: Option<Vec<u8>> =
            text.chars().map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok())).collect();
        let bytes = digits.and_then(|digits| {
            let bytes: Vec<u8> = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
            (digits.len() == 2 * KEY_BYTES).then_some(bytes)?.try_into().ok()
        });
        bytes.map(MasterKey).ok_or_else(|| Error::invalid_argument("a master key is 64 hexadecimal digits"))
    }

    /// The key as 64 hexadecimal digits.
    pub fn to_hex(&self) -> String {
        hex(&self.0)
    }

    /// The key's name.
    pub fn id(&self) -> MasterKeyId {
        let digest = self.derive(b"esker master key name");
        let mut id = [0; 16];
        id.copy_from_slice(&digest[..16]);
        MasterKeyId(id)
    }

    /// 32 bytes made from the key for this purpose.
    pub(crate) fn derive(&self, purpose: &[u8]) -> [u8; KEY_BYTES] {
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &self.0), purpose);
        let mut bytes = [0; KEY_BYTES];
        bytes.copy_from_slice(tag.as_ref());
        bytes
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MasterKey({})", self.id())
    }
}

impl fmt::Display for MasterKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

const CONVERSION: &[u8] = b"esker conversion of a directory";

/// Provides master keys. Called when a file system is made, and when a file names an unknown key.
pub trait KeyProvider: Send + Sync + fmt::Debug {
    /// The keys. New files use the first; files under any of them can be read.
    /// # Errors
    /// Any; the message names the place.
    fn keys(&self) -> Result<Vec<MasterKey>>;
    /// The place of the keys, for messages: "key file /etc/keys/db".
    fn place(&self) -> String;
}

/// Keys of a text: one a line or between commas. Empty lines and lines with `#` in front are
/// skipped.
fn parse(text: &str) -> Result<Vec<MasterKey>> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let words = lines.flat_map(|line| line.split(',')).map(str::trim).filter(|word| !word.is_empty());
    let keys: Vec<MasterKey> = words.map(MasterKey::from_hex).collect::<Result<_>>()?;
    if keys.is_empty() { Err(Error::invalid_argument("no master key")) } else { Ok(keys) }
}

/// Keys in a file, one a line as 64 hexadecimal digits, the current one first.
#[derive(Debug)]
pub struct KeyFile {
    fs: Arc<dyn FileSystem>,
    path: PathBuf,
}

impl KeyFile {
    /// The keys in the file `path` of `fs`.
    pub fn new(fs: Arc<dyn FileSystem>, path: &Path) -> KeyFile {
        KeyFile { fs, path: path.to_owned() }
    }
}

impl KeyProvider for KeyFile {
    fn keys(&self) -> Result<Vec<MasterKey>> {
        let mut bytes = vec![0; MOST_FILE_BYTES];
        let read = self.fs.new_sequential_file(&self.path)?.read(&mut bytes)?;
        parse(&String::from_utf8_lossy(&bytes[..read])).map_err(|e| e.at(self.place()))
    }

    fn place(&self) -> String {
        format!("key file {}", self.path.display())
    }
}

/// Keys in an environment variable, between commas, the current one first.
#[derive(Debug)]
pub struct KeyVariable(String);

impl KeyVariable {
    /// The keys in the variable `name`.
    pub fn new(name: &str) -> KeyVariable {
        KeyVariable(name.to_owned())
    }
}

impl KeyProvider for KeyVariable {
    fn keys(&self) -> Result<Vec<MasterKey>> {
        let text = std::env::var(&self.0)
            .map_err(|_| Error::invalid_argument(format!("{} is not set", self.place())))?;
        parse(&text).map_err(|e| e.at(self.place()))
    }

    fn place(&self) -> String {
        format!("environment variable {}", self.0)
    }
}

/// Keys that a function returns, for example from a key management service.
pub struct KeyCallback<F>(pub F);

impl<F> fmt::Debug for KeyCallback<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyCallback")
    }
}

impl<F: Fn() -> Result<Vec<MasterKey>> + Send + Sync> KeyProvider for KeyCallback<F> {
    fn keys(&self) -> Result<Vec<MasterKey>> {
        (self.0)()
    }

    fn place(&self) -> String {
        "key callback".to_owned()
    }
}

/// The keys that a provider gave last.
pub(crate) struct Keyring {
    provider: Arc<dyn KeyProvider>,
    keys: RwLock<Vec<MasterKey>>,
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring").field("provider", &self.provider).finish_non_exhaustive()
    }
}

impl Keyring {
    pub(crate) fn new(provider: Arc<dyn KeyProvider>) -> Result<Keyring> {
        let ring = Keyring { provider, keys: RwLock::new(Vec::new()) };
        ring.reload()?;
        Ok(ring)
    }

    /// Loads the keys from the provider again.
    pub(crate) fn reload(&self) -> Result<()> {
        let keys = self.provider.keys()?;
        if keys.is_empty() {
            return Err(Error::invalid_argument(format!("{} gives no master key", self.provider.place())));
        }
        *self.keys.write() = keys;
        Ok(())
    }

    /// The key of new files.
    pub(crate) fn current(&self) -> MasterKey {
        self.keys.read()[0].clone()
    }

    /// The key of this name, if the provider has it.
    pub(crate) fn find(&self, id: MasterKeyId) -> Option<MasterKey> {
        let find = || self.keys.read().iter().find(|key| key.id() == id).cloned();
        // The provider may have a new key.
        find().or_else(|| self.reload().ok().and_then(|()| find()))
    }

    /// The contents of a conversion's marker under the current key.
    pub(crate) fn mark(&self) -> [u8; KEY_BYTES] {
        self.current().derive(CONVERSION)
    }

    /// Whether this is the marker of a conversion under one of the keys.
    pub(crate) fn has_mark(&self, contents: &[u8]) -> bool {
        self.keys.read().iter().any(|key| key.derive(CONVERSION) == *contents)
    }

    /// The place and the names of the keys, such as "key file /k gives 0123…, 4567…".
    pub(crate) fn describe(&self) -> String {
        let names: Vec<String> = self.keys.read().iter().map(|key| key.id().to_string()).collect();
        format!("{} gives {}", self.provider.place(), names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_hexadecimal_and_stay_secret() {
        let key = MasterKey::from_bytes([0xAB; 32]);
        assert_eq!(MasterKey::from_hex(&key.to_hex()).unwrap(), key);
        assert!(!format!("{key:?}").contains("abab"));
        for bad in ["", "ab", &"zz".repeat(32), &"ab".repeat(33)] {
            let e = MasterKey::from_hex(bad).unwrap_err().to_string();
            assert_eq!(e, "Invalid argument: a master key is 64 hexadecimal digits");
        }
    }

    #[test]
    fn a_text_has_the_current_key_first() {
        let (one, two) = (MasterKey::from_bytes([1; 32]), MasterKey::from_bytes([2; 32]));
        let text = format!("# of November\n{}\n\n {} \n", two.to_hex(), one.to_hex());
        assert_eq!(parse(&text).unwrap(), [two.clone(), one.clone()]);
        assert_eq!(parse(&format!("{},{}", one.to_hex(), two.to_hex())).unwrap(), [one, two]);
        assert!(parse("# nothing\n").is_err());
    }
}
