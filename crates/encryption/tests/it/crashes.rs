//! Logs after a crash. A power loss keeps all synced content, and a kill keeps all flushed content.
//! After a power loss, lost content may read as bytes 0xFF.

use super::support::{encrypted, pattern, read};
use esker_env::{CrashChoices, CrashFs, FileSystem, WritableFile};
use std::path::Path;

const LOG: &str = "/000004.log";

/// A log that is being written, and the lengths that must survive a kill and a power loss.
struct LogInProgress {
    file: Box<dyn WritableFile>,
    content: Vec<u8>,
    /// The sizes after each append.
    ends: Vec<usize>,
    flushed: usize,
    synced: usize,
    /// Whether the log was truncated since the last sync. A power loss may then bring back the
    /// bytes that were cut off.
    has_unsynced_cut: bool,
    /// Whether an append survives a kill without a flush, until the log is truncated.
    in_place: bool,
}

impl LogInProgress {
    fn step(&mut self, rng: &mut fastrand::Rng) {
        match rng.u8(..10) {
            0..6 => {
                let piece = pattern(rng.usize(1..600), rng.u64(..)).iter().map(|b| b | 1).collect::<Vec<_>>();
                self.append(&piece);
            }
            6 => self.append(&vec![3; rng.usize(1..40_000)]),
            7 => self.sync(),
            8 => {
                // A truncation to the end of an append splits no frame, so it may also remove
                // synced content.
                let size = match rng.choice(&self.ends) {
                    Some(&end) if rng.bool() => end,
                    _ => rng.usize(self.synced..=self.content.len()),
                };
                self.ends.retain(|&end| end <= size);
                self.synced = self.synced.min(size);
                self.file.truncate(size as u64).unwrap();
                self.content.truncate(size);
                (self.flushed, self.in_place, self.has_unsynced_cut) = (size, false, true);
                if rng.bool() {
                    self.sync();
                }
            }
            _ => {
                self.file.flush().unwrap();
                self.flushed = self.content.len();
            }
        }
        assert_eq!(self.file.file_size(), self.content.len() as u64);
    }

    fn append(&mut self, piece: &[u8]) {
        self.file.append(piece).unwrap();
        self.content.extend_from_slice(piece);
        self.ends.push(self.content.len());
        if self.in_place {
            self.flushed = self.content.len();
        }
    }

    fn sync(&mut self) {
        self.file.sync().unwrap();
        (self.flushed, self.synced) = (self.content.len(), self.content.len());
        self.has_unsynced_cut = false;
    }
}

fn check(disk: CrashFs, written: &LogInProgress, is_kill: bool, seed: u64) {
    let fs = encrypted(disk);
    if !fs.file_exists(Path::new(LOG)).unwrap() {
        assert_eq!(written.synced, 0);
        return;
    }
    let there = read(&fs, Path::new(LOG)).unwrap();
    let least = if is_kill { written.flushed } else { written.synced };
    assert!(there.len() >= least, "seed {seed}: {}", there.len());
    assert!(there[..least] == written.content[..least], "seed {seed}");
    if is_kill || !written.has_unsynced_cut {
        assert!(there.len() <= written.content.len(), "seed {seed}: {}", there.len());
        let mut rest = there.iter().zip(&written.content).skip(least);
        assert!(rest.all(|(is, was)| is == was || *is == 0xFF && !is_kill), "seed {seed}");
    }
    assert_eq!(fs.file_size(Path::new(LOG)).unwrap(), there.len() as u64);
    // A writer continues behind the end.
    let mut file = fs.reopen_writable_file(Path::new(LOG)).unwrap();
    assert_eq!(file.file_size(), there.len() as u64);
    file.append(b"more").unwrap();
    file.sync().unwrap();
    drop(file);
    let more = read(&fs, Path::new(LOG)).unwrap();
    assert!(more.ends_with(b"more") && more.len() == there.len() + 4, "seed {seed}");
}

fn campaign(in_place: bool) {
    for seed in 0..300 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let disk = CrashFs::new();
        let mut file = encrypted(disk.clone()).new_writable_file(Path::new(LOG)).unwrap();
        disk.new_directory(Path::new("/")).unwrap().fsync().unwrap();
        if in_place {
            file.append_in_place(32 << 10).unwrap();
        }
        let mut written = LogInProgress {
            file,
            content: Vec::new(),
            ends: Vec::new(),
            flushed: 0,
            synced: 0,
            has_unsynced_cut: false,
            in_place,
        };
        for step in 0..rng.usize(1..40) {
            written.step(&mut rng);
            if rng.u8(..4) == 0 {
                let seed = seed * 1000 + step as u64;
                check(disk.crash_clone(&CrashChoices::random(seed)), &written, false, seed);
                check(disk.crash_clone(&CrashChoices::process_kill()), &written, true, seed);
            }
        }
    }
}

#[test]
fn a_log_keeps_its_synced_content() {
    campaign(false);
}

#[test]
fn a_log_appended_in_place_keeps_its_synced_content() {
    campaign(true);
}

/// A reader that follows a growing log sees each append, however the frames lie.
#[test]
fn a_growing_log_can_be_followed() {
    let fs = encrypted(CrashFs::new());
    let reader_before = {
        let mut file = fs.new_writable_file(Path::new(LOG)).unwrap();
        let reader = fs.new_random_access_file(Path::new(LOG)).unwrap();
        let (mut rng, mut at) = (fastrand::Rng::with_seed(3), 0);
        let mut content = Vec::new();
        for _ in 0..400 {
            let piece = pattern(rng.usize(1..3000), rng.u64(..));
            file.append(&piece).unwrap();
            file.flush().unwrap();
            content.extend_from_slice(&piece);
            let mut buf = vec![0; 5000];
            while at < content.len() {
                let n = reader.read_at(at as u64, &mut buf).unwrap();
                assert!(n > 0 && buf[..n] == content[at..at + n]);
                at += n;
            }
            assert_eq!(reader.read_at(at as u64, &mut buf).unwrap(), 0);
            let back = rng.usize(..content.len());
            let n = reader.read_at(back as u64, &mut buf).unwrap();
            assert!(buf[..n] == content[back..back + n] && n == (content.len() - back).min(5000));
        }
        reader
    };
    assert!(reader_before.size().unwrap() > 100_000);
}
