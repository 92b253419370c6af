"""Merge operators, compaction filters and comparators in Python.

The engine stores the name of a merge operator and of a comparator in the directory. A directory
opens only under the names that it was written with. Functions run on background threads, too. They
must not call the database.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

FullMerge = Callable[[bytes, "bytes | None", list[bytes]], bytes]
PartialMerge = Callable[[bytes, bytes, bytes], "bytes | None"]


@dataclass(frozen=True)
class MergeOperator:
    """Combines a value and its operands.

    ``full_merge(key, existing, operands)`` returns the new value; ``existing`` is ``None`` without
    a value. ``partial_merge(key, left, right)`` may join two operands into one; ``None`` keeps
    both. An exception makes the read or the compaction fail.
    """

    name: str
    full_merge: FullMerge
    partial_merge: PartialMerge | None = None

    @classmethod
    def associative(cls, name: str, merge: Callable[[bytes, bytes], bytes]) -> MergeOperator:
        """An operator whose operands are values: ``merge(left, right)``."""

        def full(_key: bytes, existing: bytes | None, operands: list[bytes]) -> bytes:
            left = operands[0] if existing is None else merge(existing, operands[0])
            for right in operands[1:]:
                left = merge(left, right)
            return left

        return cls(name, full, lambda _key, left, right: merge(left, right))


class _Remove:
    """The type of ``REMOVE``."""

    def __repr__(self) -> str:
        return "esker.REMOVE"


REMOVE: Final = _Remove()
"""A compaction filter's decision: the entry goes."""


@dataclass(frozen=True)
class RemoveUntil:
    """A compaction filter's decision: this entry goes, and all entries before ``key``."""

    key: bytes


Decision = bytes | _Remove | RemoveUntil | None


@dataclass(frozen=True)
class CompactionFilter:
    """Decides about entries that a compaction writes.

    ``filter(level, key, value)`` returns ``None`` (the entry stays), ``esker.REMOVE``,
    ``esker.RemoveUntil(key)``, or the new value. After an exception the entry stays.
    """

    name: str
    filter: Callable[[int, bytes, bytes], Decision]


@dataclass(frozen=True)
class Comparator:
    """An order of keys.

    ``compare(a, b)`` returns a negative number, zero or a positive number: a float, or an int of
    any size. It must order any bytes: as in RocksDB, scans also compare with the empty key. After
    an exception the database refuses further calls: the order in memory may be wrong.
    """

    name: str
    compare: Callable[[bytes, bytes], float]
