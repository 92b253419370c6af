//! Master keys and their sources.
//!
//! In: a file, an environment variable or a callback. Out: keys of 32 bytes, the current one first.
//! New files use the current key. A master key encrypts only the keys of files, so a new master key
//! changes only the headers of files.

use esker_base::sync::{Arc, Mutex, RwLock};
use esker_base::{Error, Result};
use esker_env::FileSystem;
use ring::hmac;
use std::fmt;
use std::path::{Path, PathBuf};

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;
/// Size of the largest key file, in bytes.
const MOST_FILE_BYTES: usize = 64 << 10;

/// A master key: 32 secret bytes. `Debug` prints the key's name, not the bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct MasterKey([u8; KEY_BYTES]);

/// The name of a master key. File headers store this name. A one-way function makes it from the
/// key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct MasterKeyId(pub [u8; 16]);

impl MasterKey {
    /// The key with these bytes.
    pub fn from_bytes(bytes: [u8; KEY_BYTES]) -> MasterKey {
        MasterKey(bytes)
    }

    /// Makes a random key.
    /// # Errors
    /// `IoError` if the system gives no random bytes.
    pub fn generate() -> Result<MasterKey> {
        let mut bytes = [0; KEY_BYTES];
        crate::file_key::fill_random(&mut bytes)?;
        Ok(MasterKey(bytes))
    }

    /// Reads a key from 64 hexadecimal digits.
    /// # Errors
    /// `InvalidArgument` if the text has another form. The error does not contain the text.
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

    /// Derives 32 bytes from the key, for this purpose only.
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

/// Provides master keys. A new file system calls the provider once. It calls the provider again
/// when a file names an unknown key.
pub trait KeyProvider: Send + Sync + fmt::Debug {
    /// Returns the keys. New files use the first key. Files under any of the keys can be read.
    /// # Errors
    /// Any error. Its message names the place.
    fn keys(&self) -> Result<Vec<MasterKey>>;
    /// The place of the keys, for messages: "key file /etc/keys/db".
    fn place(&self) -> String;
}

/// Reads keys from a text, one on each line or separated by commas. Skips empty lines, and lines
/// that begin with `#`.
fn parse(text: &str) -> Result<Vec<MasterKey>> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let words = lines.flat_map(|line| line.split(',')).map(str::trim).filter(|word| !word.is_empty());
    let keys: Vec<MasterKey> = words.map(MasterKey::from_hex).collect::<Result<_>>()?;
    if keys.is_empty() { Err(Error::invalid_argument("no master key")) } else { Ok(keys) }
}

/// Keys in a file: 64 hexadecimal digits on each line, the current key first. A file of more than
/// 64 KiB is an error.
#[derive(Debug)]
pub struct KeyFile {
    fs: Arc<dyn FileSystem>,
    path: PathBuf,
}

impl KeyFile {
    /// A provider of the keys in the file `path` of `fs`.
    pub fn new(fs: Arc<dyn FileSystem>, path: &Path) -> KeyFile {
        KeyFile { fs, path: path.to_owned() }
    }
}

impl KeyProvider for KeyFile {
    fn keys(&self) -> Result<Vec<MasterKey>> {
        let mut bytes = vec![0; MOST_FILE_BYTES + 1];
        let read = self.fs.new_sequential_file(&self.path)?.read(&mut bytes)?;
        if read > MOST_FILE_BYTES {
            let what = format!("{}: longer than the limit of {MOST_FILE_BYTES} bytes", self.place());
            return Err(Error::invalid_argument(what));
        }
        parse(&String::from_utf8_lossy(&bytes[..read])).map_err(|e| e.at(self.place()))
    }

    fn place(&self) -> String {
        format!("key file {}", self.path.display())
    }
}

/// Keys in an environment variable, separated by commas, the current key first.
#[derive(Debug)]
pub struct KeyVariable(String);

impl KeyVariable {
    /// A provider of the keys in the variable `name`.
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

/// The keys that a provider returned last.
pub(crate) struct Keyring {
    provider: Arc<dyn KeyProvider>,
    keys: RwLock<Vec<MasterKey>>,
    /// Held while the provider is asked and its answer is kept, so an older answer never replaces a
    /// newer one.
    loading: Mutex<()>,
    /// Read-locked while a header is made and written.
    headers: RwLock<()>,
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring").field("provider", &self.provider).finish_non_exhaustive()
    }
}

impl Keyring {
    pub(crate) fn new(provider: Arc<dyn KeyProvider>) -> Result<Keyring> {
        let ring = Keyring {
            provider,
            keys: RwLock::new(Vec::new()),
            loading: Mutex::new(()),
            headers: RwLock::new(()),
        };
        ring.reload()?;
        Ok(ring)
    }

    /// Calls the provider again, and keeps its keys.
    pub(crate) fn reload(&self) -> Result<()> {
        let _loading = self.loading.lock();
        let keys = self.provider.keys()?;
        if keys.is_empty() {
            return Err(Error::invalid_argument(format!("{} gives no master key", self.provider.place())));
        }
        *self.keys.write() = keys;
        Ok(())
    }

    /// The key for new files.
    pub(crate) fn current(&self) -> MasterKey {
        self.keys.read()[0].clone()
    }

    /// Calls `make`, which writes a header, with the key for new files.
    pub(crate) fn with_current<T>(&self, make: impl FnOnce(&MasterKey) -> T) -> T {
        let _making = self.headers.read();
        make(&self.current())
    }

    /// Waits until all headers under earlier keys are written.
    pub(crate) fn wait_for_headers(&self) {
        drop(self.headers.write());
    }

    /// The key of this name, if the provider has it.
    pub(crate) fn find(&self, id: MasterKeyId) -> Option<MasterKey> {
        let find = || self.keys.read().iter().find(|key| key.id() == id).cloned();
        // The provider may have a new key, so ask it once more.
        find().or_else(|| self.reload().ok().and_then(|()| find()))
    }

    /// The contents of a conversion's marker file, made from the current key.
    pub(crate) fn mark(&self) -> [u8; KEY_BYTES] {
        self.current().derive(CONVERSION)
    }

    /// Whether these are the contents of a marker file, made from one of the keys.
    pub(crate) fn has_mark(&self, contents: &[u8]) -> bool {
        self.keys.read().iter().any(|key| key.derive(CONVERSION) == *contents)
    }

    /// Describes the place and the names of the keys, such as "key file /k gives 0123…, 4567…".
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
