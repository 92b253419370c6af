"""Exceptions: one class for each code of RocksDB's ``Status``."""

from __future__ import annotations


class Error(Exception):
    """An error of the engine.

    ``code`` is RocksDB's status code and ``subcode`` its sub-code or ``""``. ``message`` names the
    file and offset, or the option. ``retryable`` says whether the same call may succeed later.
    """

    code: str = ""

    def __init__(
        self,
        message: str = "",
        *,
        code: str = "",
        subcode: str = "",
        severity: str = "NoError",
        retryable: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).__name__
        self.subcode = subcode
        self.severity = severity
        self.retryable = retryable

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.code, self.subcode, self.severity, self.retryable))


def _rebuild(
    kind: type[Error], message: str, code: str, subcode: str, severity: str, retryable: bool
) -> Error:
    return kind(message, code=code, subcode=subcode, severity=severity, retryable=retryable)


class NotFound(Error):
    """A file or column family does not exist."""


class Corruption(Error):
    """Stored bytes are damaged or inconsistent."""


class NotSupported(Error):
    """The request is valid, but this version cannot serve it."""


class InvalidArgument(Error, ValueError):
    """The caller must change the call or an option."""


class IoError(Error):
    """A call of the operating system failed."""


class NoSpace(IoError):
    """The disk is full."""


class MergeInProgress(Error):
    """A merge could not be finished."""


class Incomplete(Error):
    """The answer needs I/O that the call forbids, or a write would have to wait."""


class ShutdownInProgress(Error):
    """The database is closing."""


class Closed(ShutdownInProgress):
    """The database, or the snapshot, is closed."""


class TimedOut(Error):
    """A wait took longer than allowed."""


class LockTimeout(TimedOut):
    """Another transaction holds the lock."""


class Aborted(Error):
    """The operation was given up."""


class Busy(Error):
    """Another holder has the resource, or another has written the key."""


class Deadlock(Busy):
    """Waiting would close a cycle of waiting transactions."""


class Expired(Error):
    """The transaction or lock has expired."""


class TryAgain(Error):
    """Try again; nothing was done."""


class CompactionTooLarge(Error):
    """A compaction would be too large."""


class ColumnFamilyDropped(Error):
    """The column family was dropped."""


CONFLICTS = (Busy, LockTimeout, TryAgain, Expired)
"""Exceptions after which a transaction may run again."""

_BY_SUBCODE: dict[tuple[str, str], type[Error]] = {
    ("ShutdownInProgress", ""): Closed,
    ("IoError", "NoSpace"): NoSpace,
    ("TimedOut", "LockTimeout"): LockTimeout,
    ("Busy", "Deadlock"): Deadlock,
}


def make(code: str, subcode: str, message: str, severity: str, retryable: bool) -> Error:
    """The exception for an error of the engine."""
    kind = _BY_SUBCODE.get((code, subcode)) or globals().get(code, Error)
    return _rebuild(kind, message, code, subcode, severity, retryable)
