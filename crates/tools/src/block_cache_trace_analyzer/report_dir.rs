//! The directory of the report files.

use crate::failure::CommandOutcome;
use esker::internals::env::{FileSystem, WritableFile};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Bytes of a report that are kept before they are written.
const BUFFER_BYTES: usize = 64 << 10;

/// An existing directory for reports.
#[derive(Clone, Copy)]
pub(super) struct ReportDir<'a> {
    pub(super) fs: &'a dyn FileSystem,
    pub(super) path: &'a Path,
}

/// A report file under way.
struct ReportFile(Box<dyn WritableFile>);

impl Write for ReportFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.append(bytes).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl ReportDir<'_> {
    /// Makes a report. `write` writes its text, piece by piece.
    pub(super) fn make(
        self,
        name: &str,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> CommandOutcome {
        // The name of a column family may be part of the file's.
        let file = self.fs.new_writable_file(&self.path.join(name.replace('/', "_")))?;
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, ReportFile(file));
        write(&mut out)?;
        out.flush()?;
        Ok(out.get_mut().0.close()?)
    }

    /// Makes a report with this text.
    pub(super) fn text(self, name: &str, text: &str) -> CommandOutcome {
        self.make(name, |out| out.write_all(text.as_bytes()))
    }
}
