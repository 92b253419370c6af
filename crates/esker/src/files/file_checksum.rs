//! Checksums of whole files, made while they are written, or from their present content.
//!
//! In: the factory of `DbOptions::file_checksum_gen_factory`. Out: checksum and function name for
//! the MANIFEST.
//!
//! Source: RocksDB `file/writable_file_writer.cc`, `file/file_util.cc` (`GenerateOneFileChecksum`).

use crate::options::{DbOptions, FileChecksumGenContext, FileChecksumGenFactoryRef, FileChecksumGenerator};
use esker_base::stats::Histogram;
use esker_base::sync::{Arc, Mutex};
use esker_base::{Error, Result};
use esker_env::{FileSystem, IoWatch, ReadCounter, WritableFile, WriteLifeTimeHint};
use std::path::Path;

/// Bytes that are read in one step.
const CHUNK_BYTES: usize = 1 << 20;

/// A checksum and the name of its function.
pub(crate) type FileChecksum = (Vec<u8>, String);

/// A file that is being written. All its bytes go into a checksum.
struct ChecksummedFile {
    inner: Box<dyn WritableFile>,
    generator: Arc<Mutex<Box<dyn FileChecksumGenerator>>>,
}

/// The checksum of a file that is being written, available when the file is complete.
pub(crate) struct PendingChecksum(Arc<Mutex<Box<dyn FileChecksumGenerator>>>);

impl PendingChecksum {
    /// The checksum of the whole file. The caller appends no more bytes.
    pub(crate) fn finish(self) -> FileChecksum {
        let mut generator = self.0.lock();
        (generator.finalize(), generator.name().to_owned())
    }
}

/// Wraps `file`, and returns the pending checksum, if the factory makes one.
pub(crate) fn checksummed(
    factory: Option<&FileChecksumGenFactoryRef>,
    path: &Path,
    file: Box<dyn WritableFile>,
) -> (Box<dyn WritableFile>, Option<PendingChecksum>) {
    let Some(generator) = factory.and_then(|factory| generator(factory, path, "")) else {
        return (file, None);
    };
    let generator = Arc::new(Mutex::new(generator));
    let pending = PendingChecksum(generator.clone());
    (Box::new(ChecksummedFile { inner: file, generator }), Some(pending))
}

/// Reads whole files for their checksums.
pub(crate) struct ChecksumReads<'a> {
    factory: &'a FileChecksumGenFactoryRef,
    fs: &'a dyn FileSystem,
    is_direct: bool,
    counter: Option<ReadCounter>,
}

impl<'a> ChecksumReads<'a> {
    /// Reads files of `fs` as the options of the database say, and counts the reads.
    pub(crate) fn new(
        factory: &'a FileChecksumGenFactoryRef,
        fs: &'a dyn FileSystem,
        options: &DbOptions,
    ) -> ChecksumReads<'a> {
        let counter = options.statistics.clone().map(|statistics| ReadCounter {
            statistics,
            clock: options.env.clock.clone(),
            histogram: Histogram::SstReadMicros,
            is_last_level: false,
            latencies: None,
            temperature: 0,
        });
        ChecksumReads { factory, fs, is_direct: options.use_direct_reads, counter }
    }
}

/// The checksum of the file at `path` by the named function. An empty name means the factory's own
/// function.
/// # Errors
/// `InvalidArgument` if the factory lacks the function · `IoError`.
pub(crate) fn checksum_of_file(
    reads: &ChecksumReads<'_>,
    path: &Path,
    function: &str,
) -> Result<FileChecksum> {
    let ChecksumReads { factory, fs, is_direct, counter } = reads;
    let Some(mut generator) = generator(factory, path, function) else {
        let what = format!(
            "Cannot get the file checksum generator based on the requested checksum function name: {function} from \
             checksum factory: {}",
            factory.name()
        );
        return Err(Error::invalid_argument(what).at(path.display()));
    };
    let mut file = fs.open_sequential(path, *is_direct)?;
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        let watch = counter.as_ref().map(ReadCounter::watch);
        let read = file.read(&mut buffer)?;
        if read == 0 {
            watch.into_iter().for_each(IoWatch::cancel);
            break;
        }
        drop(watch);
        counter.iter().for_each(|counter| counter.count(read));
        generator.update(&buffer[..read]);
    }
    Ok((generator.finalize(), generator.name().to_owned()))
}

/// Compares a file with its recorded checksum; does nothing without one.
/// # Errors
/// `Corruption` if they differ · `InvalidArgument` if the factory lacks the function · `IoError`.
pub(crate) fn verify_file_checksum(
    reads: &ChecksumReads<'_>,
    path: &Path,
    (expected, function): (&[u8], &str),
) -> Result<()> {
    if expected.is_empty() {
        return Ok(());
    }
    let (actual, _) = checksum_of_file(reads, path, function)?;
    if actual == expected {
        return Ok(());
    }
    let what = format!("file checksum mismatch, expecting {}, but actual {}", hex(expected), hex(&actual));
    Err(Error::corruption(what).at(path.display()))
}

fn generator(
    factory: &FileChecksumGenFactoryRef,
    path: &Path,
    requested_checksum_func_name: &str,
) -> Option<Box<dyn FileChecksumGenerator>> {
    let file_name = path.to_string_lossy();
    let context = FileChecksumGenContext { file_name: &file_name, requested_checksum_func_name };
    let made = factory.create_file_checksum_generator(&context);
    made.filter(|generator| {
        requested_checksum_func_name.is_empty() || generator.name() == requested_checksum_func_name
    })
}

/// Hexadecimal text with upper-case digits, as RocksDB prints checksums.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

impl WritableFile for ChecksummedFile {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.inner.append(data)?;
        self.generator.lock().update(data);
        Ok(())
    }
    fn flush(&mut self) -> Result<()> {
        self.inner.flush()
    }
    fn sync(&mut self) -> Result<()> {
        self.inner.sync()
    }
    fn fsync(&mut self) -> Result<()> {
        self.inner.fsync()
    }
    fn range_sync(&mut self, offset: u64, bytes: u64) -> Result<()> {
        self.inner.range_sync(offset, bytes)
    }
    fn preallocate(&mut self, offset: u64, bytes: u64) -> Result<()> {
        self.inner.preallocate(offset, bytes)
    }
    fn set_write_life_time_hint(&mut self, hint: WriteLifeTimeHint) {
        self.inner.set_write_life_time_hint(hint);
    }
    fn truncate(&mut self, _size: u64) -> Result<()> {
        Err(Error::not_supported("cutting a file that a checksum is made of"))
    }
    fn close(&mut self) -> Result<()> {
        self.inner.close()
    }
    fn file_size(&self) -> u64 {
        self.inner.file_size()
    }
}
