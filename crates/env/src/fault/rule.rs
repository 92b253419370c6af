//! Rules: when an operation fails, and how.

use super::op::OpKind;
use esker_base::sync::Arc;
use esker_base::{Error, ErrorKind};
use std::fmt;
use std::path::Path;

type PathFilter = Arc<dyn Fn(&Path) -> bool + Send + Sync>;

#[derive(Clone, Debug)]
pub(super) enum Action {
    Fail,
    /// This many bytes reach the file; `None` for a random number.
    ShortWrite(Option<usize>),
    BitFlip,
    Skip,
}

/// A rule that injects faults into operations of certain kinds on certain files, from the n-th on.
/// By default it hits the first operation, once, on any file, with `IoError` (EIO), not retryable.
#[derive(Clone)]
pub struct FaultRule {
    kinds: u32,
    path: Option<PathFilter>,
    /// Number of operations that pass first.
    pass: u64,
    /// Number of operations that the rule hits after the first `pass`.
    times: u64,
    errno: i32,
    kind: Option<ErrorKind>,
    retryable: Option<bool>,
    pub(super) action: Action,
}

impl FaultRule {
    fn new(kinds: &[OpKind], action: Action) -> FaultRule {
        FaultRule {
            kinds: kinds.iter().fold(0, |set, kind| set | kind.bit()),
            path: None,
            pass: 0,
            times: 1,
            errno: libc::EIO,
            kind: None,
            retryable: None,
            action,
        }
    }

    /// Operations of these kinds fail without effect.
    pub fn fail(kinds: &[OpKind]) -> FaultRule {
        FaultRule::new(kinds, Action::Fail)
    }

    /// Any operation fails without effect.
    pub fn fail_any() -> FaultRule {
        FaultRule::new(&OpKind::ALL, Action::Fail)
    }

    /// An append writes `keep` of its bytes (`None`: a random number, not all) into the file and
    /// fails.
    pub fn short_write(keep: Option<usize>) -> FaultRule {
        FaultRule::new(&[OpKind::Append], Action::ShortWrite(keep))
    }

    /// A read succeeds with one bit of its bytes flipped.
    pub fn bit_flip() -> FaultRule {
        FaultRule::new(&[OpKind::Read], Action::BitFlip)
    }

    /// Operations of these kinds do nothing and succeed, like a disk that lies about syncs. An
    /// operation that returns a result fails with `InvalidArgument` instead.
    pub fn skip(kinds: &[OpKind]) -> FaultRule {
        FaultRule::new(kinds, Action::Skip)
    }

    /// Starts with the `n`-th operation, counted from 0 when the rule is added.
    #[must_use]
    pub fn nth(self, n: u64) -> FaultRule {
        FaultRule { pass: n, ..self }
    }

    /// Hits `times` operations in a row.
    #[must_use]
    pub fn times(self, times: u64) -> FaultRule {
        FaultRule { times, ..self }
    }

    /// Hits all later operations.
    #[must_use]
    pub fn forever(self) -> FaultRule {
        self.times(u64::MAX)
    }

    /// Restricts the rule to paths that `accept` accepts.
    #[must_use]
    pub fn on(self, accept: impl Fn(&Path) -> bool + Send + Sync + 'static) -> FaultRule {
        FaultRule { path: Some(Arc::new(accept)), ..self }
    }

    /// Restricts the rule to files whose name contains `part`: "MANIFEST", ".sst".
    #[must_use]
    pub fn on_name(self, part: &str) -> FaultRule {
        let part = part.to_owned();
        self.on(move |path| path.file_name().is_some_and(|name| name.to_string_lossy().contains(&part)))
    }

    /// Uses the error of a full disk (sub-code `NoSpace`, retryable).
    #[must_use]
    pub fn no_space(self) -> FaultRule {
        FaultRule { errno: libc::ENOSPC, ..self }
    }

    /// Uses an error of another kind, not from the operating system.
    #[must_use]
    pub fn error_kind(self, kind: ErrorKind) -> FaultRule {
        FaultRule { kind: Some(kind), ..self }
    }

    /// Marks the error as retryable or not.
    #[must_use]
    pub fn retryable(self, retryable: bool) -> FaultRule {
        FaultRule { retryable: Some(retryable), ..self }
    }

    /// Counts this operation if the rule applies to it. Returns whether to hit it.
    pub(super) fn counts(&mut self, kind: OpKind, path: &Path) -> bool {
        if self.kinds & kind.bit() == 0 || self.path.as_ref().is_some_and(|accept| !accept(path)) {
            return false;
        }
        if self.pass > 0 {
            self.pass -= 1;
            return false;
        }
        let hit = self.times > 0;
        self.times = self.times.saturating_sub(u64::from(hit && self.times != u64::MAX));
        hit
    }

    pub(super) fn error(&self, index: u64, kind: OpKind, path: &Path, offset: Option<u64>) -> Error {
        let error = match self.kind {
            None => injected(index, kind, path, offset, self.errno),
            Some(k) => Error::new(k, format!("injected in operation {index}, {kind}: {}", path.display())),
        };
        match self.retryable {
            Some(retryable) => error.with_retryable(retryable),
            None => error,
        }
    }
}

impl fmt::Debug for FaultRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<_> = OpKind::ALL.into_iter().filter(|k| self.kinds & k.bit() != 0).collect();
        f.debug_struct("FaultRule")
            .field("kinds", &kinds)
            .field("pass", &self.pass)
            .field("times", &self.times)
            .field("action", &self.action)
            .finish_non_exhaustive()
    }
}

/// The error of the real file system, with the operation's number.
pub(super) fn injected(index: u64, kind: OpKind, path: &Path, offset: Option<u64>, errno: i32) -> Error {
    let place = offset.map_or(String::new(), |offset| format!(" at offset {offset}"));
    let what = format!("injected in operation {index}, While {kind}: {}{place}", path.display());
    Error::io_with(what, std::io::Error::from_raw_os_error(errno))
}
