//! The `LOG` file: the engine's messages for human readers.
//!
//! In: lines with a level. Out: `2026/11/20-20:25:43.123456 THREAD [LEVEL] message`, with local
//! time and the kernel's thread id. Lines of level `Info` have no `[LEVEL]`. The log flushes each
//! line at once, so lines survive the process. Source: RocksDB `logging/env_logger.h`,
//! `logging/auto_roll_logger.cc` (names and line format).
//!
//! An open renames an existing `LOG` to `LOG.old.<microseconds>` and starts a new file. A `LOG`
//! that is too large or too old is replaced in the same way. The newest `keep_log_file_num` files
//! stay. Each new file begins with the headers.
//!
//! An error of the log never fails the engine: the line is lost and counted.

use crate::clock::Clock;
use crate::env::Env;
use crate::fs::{FileSystem, WritableFile};
use crate::system::{local_time, thread_id};
use esker_base::Result;
use esker_base::logger::{InfoLog, InfoLogLevel};
use esker_base::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use esker_base::sync::{Arc, Mutex};
use std::fmt::{self, Write};
use std::path::{Path, PathBuf};

/// Nanoseconds per second.
const NANOS: u64 = 1_000_000_000;

/// Limits of a log file and the number of files kept, with RocksDB's names and defaults.
#[derive(Clone, Copy, Debug)]
pub struct InfoLogOptions {
    /// Lines below this level are not written (`info_log_level`).
    pub level: InfoLogLevel,
    /// Bytes after which a new file starts; 0: never.
    pub max_log_file_size: u64,
    /// Seconds after which a new file starts; 0: never.
    pub log_file_time_to_roll: u64,
    /// Number of files that stay, the current one included.
    pub keep_log_file_num: usize,
}

impl Default for InfoLogOptions {
    fn default() -> InfoLogOptions {
        InfoLogOptions {
            level: InfoLogLevel::Info,
            max_log_file_size: 0,
            log_file_time_to_roll: 0,
            keep_log_file_num: 1000,
        }
    }
}

/// A rolling log file.
pub struct InfoLogFile {
    fs: Arc<dyn FileSystem>,
    clock: Arc<dyn Clock>,
    dir: PathBuf,
    name: String,
    options: InfoLogOptions,
    level: AtomicU8,
    lost_lines: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    file: Option<Box<dyn WritableFile>>,
    /// Monotonic time at which the file was opened.
    opened_nanos: u64,
    headers: Vec<String>,
    /// Bytes of the headers at the beginning of the file. They do not count for
    /// `max_log_file_size`.
    header_bytes: u64,
    line: String,
    /// The last second that was formatted, and its text.
    stamp: (u64, String),
}

impl InfoLogFile {
    /// Starts a new file `path` (normally `DB/LOG`) and makes its directory if it is missing.
    /// # Errors
    /// The file system's error if the new file cannot be made. A failed removal of an old file is
    /// no error.
    pub fn open(env: &Env, path: &Path, options: InfoLogOptions) -> Result<InfoLogFile> {
        let log = InfoLogFile {
            fs: Arc::clone(&env.fs),
            clock: Arc::clone(&env.clock),
            dir: path.parent().unwrap_or(Path::new("/")).to_owned(),
            name: path
                .file_name()
                .map_or_else(|| "LOG".to_owned(), |name| name.to_string_lossy().into_owned()),
            options,
            level: AtomicU8::new(options.level as u8),
            lost_lines: AtomicU64::new(0),
            state: Mutex::default(),
        };
        log.fs.create_dir_if_missing(&log.dir)?;
        log.start_file(&mut log.state.lock())?;
        Ok(log)
    }

    /// Sets the lowest level that the log accepts.
    pub fn set_level(&self, level: InfoLogLevel) {
        self.level.store(level as u8, Ordering::Relaxed);
    }

    /// Number of lines that could not be written.
    pub fn lost_lines(&self) -> u64 {
        self.lost_lines.load(Ordering::Relaxed)
    }

    /// Renames the current file, if there is one, to an old one, and starts a new one.
    fn start_file(&self, state: &mut State) -> Result<()> {
        let path = self.dir.join(&self.name);
        if self.fs.file_exists(&path)? {
            // Removals begin with the oldest time in a name. So the new name gets the newest time,
            // even if the clock went back.
            let old = self.old_files().unwrap_or_default();
            let after_newest = old.last().map_or(0, |micros| micros.saturating_add(1));
            self.fs.rename(&path, &self.old_path(self.clock.now_micros().max(after_newest)))?;
        }
        state.file = None;
        self.remove_old_files();
        let file = state.file.insert(self.fs.new_writable_file(&path)?);
        state.header_bytes = state.headers.iter().map(|header| header.len() as u64).sum();
        state.opened_nanos = self.clock.monotonic_nanos();
        // A file stays the current one even if its headers could not be written. Otherwise each
        // line on a full disk would start a new file, and the new files would displace all old
        // ones.
        state.headers.iter().try_for_each(|header| file.append(header.as_bytes()))?;
        file.flush()
    }

    fn old_path(&self, micros: u64) -> PathBuf {
        self.dir.join(format!("{}.old.{micros}", self.name))
    }

    /// The times in the names of old files, oldest first.
    fn old_files(&self) -> Result<Vec<u64>> {
        let (names, prefix) = (self.fs.children(&self.dir)?, format!("{}.old.", self.name));
        let mut ages: Vec<u64> = names.iter().filter_map(|n| n.strip_prefix(&prefix)?.parse().ok()).collect();
        ages.sort_unstable();
        Ok(ages)
    }

    /// Removes old files until there is room for the current one. A later call repeats failed
    /// removals.
    fn remove_old_files(&self) {
        let Ok(ages) = self.old_files() else { return };
        let surplus = (ages.len() + 1).saturating_sub(self.options.keep_log_file_num.max(1));
        for &micros in &ages[..surplus] {
            if self.fs.delete_file(&self.old_path(micros)).is_err() {
                return;
            }
        }
    }

    fn is_full(&self, state: &State) -> bool {
        let (size, age) = (self.options.max_log_file_size, self.options.log_file_time_to_roll);
        let Some(file) = &state.file else { return true };
        (size > 0 && file.file_size().saturating_sub(state.header_bytes) >= size)
            || (age > 0 && self.clock.monotonic_nanos() - state.opened_nanos >= age.saturating_mul(NANOS))
    }

    /// Clears the buffer of lines, lets `format` fill it, and writes it to the file.
    fn write(&self, level: InfoLogLevel, format: impl FnOnce(&mut State, u64)) -> Result<()> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        state.line.clear();
        format(state, self.clock.now_micros());
        if self.is_full(state)
            && let Err(e) = self.start_file(state)
            && state.file.is_none()
        {
            return Err(e);
        }
        if level == InfoLogLevel::Header {
            state.header_bytes += state.line.len() as u64;
            state.headers.push(state.line.clone());
        }
        let file = state.file.as_mut().expect("a missing file was started above");
        file.append(state.line.as_bytes())?;
        file.flush()
    }
}

impl State {
    fn format_line(&mut self, now_micros: u64, level: InfoLogLevel, args: fmt::Arguments<'_>) {
        let (second, micros) = (now_micros / 1_000_000, now_micros % 1_000_000);
        if self.stamp.0 != second || self.stamp.1.is_empty() {
            self.stamp = (second, local_time(second).to_string());
        }
        let line = &mut self.line;
        let level = match level {
            InfoLogLevel::Info | InfoLogLevel::Header => String::new(),
            level => format!("[{}] ", level.as_str()),
        };
        write!(line, "{}.{micros:06} {} {level}{args}", self.stamp.1, thread_id())
            .expect("a String takes everything; a Display that fails is a mistake of the caller");
        if !line.ends_with('\n') {
            line.push('\n');
        }
    }
}

impl InfoLog for InfoLogFile {
    fn log(&self, level: InfoLogLevel, args: fmt::Arguments<'_>) {
        if (level as u8) < self.level.load(Ordering::Relaxed) {
            return;
        }
        if self.write(level, |state, now| state.format_line(now, level, args)).is_err() {
            self.lost_lines.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn log_all(&self, level: InfoLogLevel, lines: &[String]) {
        if (level as u8) < self.level.load(Ordering::Relaxed) {
            return;
        }
        let format = |state: &mut State, now| {
            lines.iter().for_each(|line| state.format_line(now, level, format_args!("{line}")));
        };
        if self.write(level, format).is_err() {
            self.lost_lines.fetch_add(lines.len() as u64, Ordering::Relaxed);
        }
    }

    fn level(&self) -> InfoLogLevel {
        const LEVELS: [InfoLogLevel; 6] = [
            InfoLogLevel::Debug,
            InfoLogLevel::Info,
            InfoLogLevel::Warn,
            InfoLogLevel::Error,
            InfoLogLevel::Fatal,
            InfoLogLevel::Header,
        ];
        LEVELS[usize::from(self.level.load(Ordering::Relaxed))]
    }
}

impl fmt::Debug for InfoLogFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InfoLogFile({})", self.dir.join(&self.name).display())
    }
}

#[cfg(test)]
mod tests;
