"""Esker for asyncio: the same classes, whose calls run on threads.

The engine waits without Python's lock, so the event loop runs on meanwhile. ``open`` makes a pool
of threads for each database. Calls that may wait for a lock of a transaction have a second pool,
without a limit: a call that ends such a wait never queues behind it. Small reads from memory are
faster with the plain classes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from . import _esker
from ._errors import CONFLICTS
from ._transact import pause

T = TypeVar("T")
R = TypeVar("R", bound=_esker.Reader)

CHUNK = 256
"""Rows that one call of a thread reads for an iteration."""

MOST_WAITS = 1 << 20
"""Threads of the pool without a limit. The pool starts a thread only if all others are busy."""


class _Threads:
    """Threads for calls of a database."""

    def __init__(self, workers: int, waits: _Threads | None = None) -> None:
        self.pool = ThreadPoolExecutor(workers, thread_name_prefix="esker")
        self.is_closed = False
        self.waits = self if waits is None else waits
        """Threads for calls that may wait for locks, or end such waits."""

    def close(self) -> None:
        """Ends the threads after their calls."""
        self.is_closed = True
        self.pool.shutdown(wait=False)
        if self.waits is not self:
            self.waits.close()

    async def run(self, function: Callable[..., T], *args: Any, **keywords: Any) -> T:
        """Runs ``function`` on a thread. A cancelled caller still waits for its call's end."""
        if self.is_closed:
            # Calls of a closed database raise at once.
            return function(*args, **keywords)
        loop = asyncio.get_running_loop()
        call = loop.run_in_executor(self.pool, lambda: function(*args, **keywords))
        try:
            return await asyncio.shield(call)
        except asyncio.CancelledError:
            # The call cannot be stopped, and what it uses must outlive it.
            await asyncio.wait([call])
            raise


class AsyncReader(Generic[R]):
    """Reads of one column family."""

    def __init__(self, sync: R, threads: _Threads) -> None:
        self.sync = sync
        """The object without asyncio."""
        self._threads = threads

    async def get(self, key: bytes, default: Any = None) -> Any:
        """The value of ``key``, or ``default``."""
        return await self._threads.run(self.sync.get, key, default)

    async def multi_get(self, keys: Iterable[bytes]) -> list[bytes | None]:
        """The values of ``keys``, each ``None`` if absent."""
        return await self._threads.run(self.sync.multi_get, list(keys))

    async def contains(self, key: bytes) -> bool:
        """Whether ``key`` has a value."""
        return await self._threads.run(self.sync.__contains__, key)

    async def first(self) -> tuple[bytes, bytes] | None:
        """The first key and its value."""
        return await self._threads.run(self.sync.first)

    async def last(self) -> tuple[bytes, bytes] | None:
        """The last key and its value."""
        return await self._threads.run(self.sync.last)

    def items(
        self, start: bytes | None = None, end: bytes | None = None, **options: Any
    ) -> AsyncIterator[tuple[bytes, bytes]]:
        """Keys and values from ``start`` up to ``end``, exclusive."""
        return self._rows(self.sync.items, start, end, options)

    def keys(self, start: bytes | None = None, end: bytes | None = None, **options: Any) -> AsyncIterator[bytes]:
        """The keys of ``items``."""
        return self._rows(self.sync.keys, start, end, options)

    def values(self, start: bytes | None = None, end: bytes | None = None, **options: Any) -> AsyncIterator[bytes]:
        """The values of ``items``."""
        return self._rows(self.sync.values, start, end, options)

    async def _rows(
        self, entries: Callable[..., Any], start: bytes | None, end: bytes | None, options: dict[str, Any]
    ) -> AsyncIterator[Any]:
        iterator = await self._threads.run(entries, start, end, **options)
        try:
            rows = CHUNK
            while rows == CHUNK:
                chunk = await self._threads.run(iterator.take, CHUNK)
                rows = len(chunk)
                for row in chunk:
                    yield row
        finally:
            iterator.close()


W = TypeVar("W", bound=_esker.Writer)


class AsyncWriter(AsyncReader[W]):
    """Reads and writes of one column family."""

    async def put(self, key: bytes, value: bytes, **options: bool) -> None:
        """Stores ``value`` under ``key``."""
        await self._threads.waits.run(self.sync.put, key, value, **options)

    async def delete(self, key: bytes, **options: bool) -> None:
        """Removes ``key``, without a look whether it is there."""
        await self._threads.waits.run(self.sync.delete, key, **options)

    async def merge(self, key: bytes, operand: bytes, **options: bool) -> None:
        """Adds an operand for the merge operator to ``key``."""
        await self._threads.waits.run(self.sync.merge, key, operand, **options)

    async def delete_range(self, begin: bytes, end: bytes, **options: bool) -> None:
        """Removes all keys from ``begin`` up to ``end``, exclusive."""
        await self._threads.waits.run(self.sync.delete_range, begin, end, **options)

    async def pop(self, key: bytes, *default: Any) -> Any:
        """Removes ``key`` and returns its value, or the default."""
        return await self._threads.waits.run(self.sync.pop, key, *default)

    async def setdefault(self, key: bytes, default: bytes) -> bytes:
        """The value of ``key``, after ``default`` was stored there if there was none."""
        return await self._threads.waits.run(self.sync.setdefault, key, default)

    async def update(self, source: Any, **options: bool) -> None:
        """Stores all pairs of a mapping or of an iterable, in one write."""
        await self._threads.waits.run(self.sync.update, source, **options)


class AsyncFamily(AsyncWriter[_esker.ColumnFamily]):
    """A column family."""

    async def flush(self, **options: bool) -> None:
        """Writes the memtable of the family as a table."""
        await self._threads.run(self.sync.flush, **options)

    async def compact_range(self, begin: bytes | None = None, end: bytes | None = None) -> None:
        """Compacts the keys from ``begin`` to ``end``."""
        await self._threads.run(self.sync.compact_range, begin, end)


class AsyncSnapshot(AsyncReader[_esker.Snapshot]):
    """A database as of one point in time."""

    def cf(self, name: str) -> AsyncSnapshot:
        """The same snapshot of another column family."""
        return AsyncSnapshot(self.sync.cf(name), self._threads)

    async def __aenter__(self) -> AsyncSnapshot:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        self.sync.release()


class AsyncTransaction(AsyncWriter[_esker.Transaction]):
    """A transaction. ``async with`` commits at its end, or rolls back after an exception."""

    def cf(self, name: str) -> AsyncTransaction:
        """The same transaction on another column family."""
        return AsyncTransaction(self.sync.cf(name), self._threads)

    async def get_for_update(self, key: bytes, default: Any = None, *, exclusive: bool = True) -> Any:
        """Reads ``key`` and locks it."""
        return await self._threads.run(self.sync.get_for_update, key, default, exclusive=exclusive)

    async def lock_range(
        self, start: bytes | None = None, end: bytes | None = None, *, exclusive: bool = True
    ) -> None:
        """Locks all keys from ``start`` to ``end``."""
        await self._threads.run(self.sync.lock_range, start, end, exclusive=exclusive)

    async def commit(self) -> None:
        """Makes the writes visible."""
        await self._threads.run(self.sync.commit)

    async def rollback(self) -> None:
        """Discards the writes and releases the locks."""
        await self._threads.run(self.sync.rollback)

    async def __aenter__(self) -> AsyncTransaction:
        return self

    async def __aexit__(self, *exception: Any) -> None:
        await self._threads.run(self.sync.__exit__, *exception)


class AsyncBatch:
    """A batch. ``async with`` writes it at its end. Its changes need no thread."""

    def __init__(self, sync: _esker.WriteBatch, threads: _Threads) -> None:
        self.sync = sync
        self._threads = threads

    async def __aenter__(self) -> _esker.WriteBatch:
        return self.sync

    async def __aexit__(self, *exception: Any) -> None:
        await self._threads.waits.run(self.sync.__exit__, *exception)


class AsyncDb(AsyncFamily):
    """An open database. ``async with`` closes it at its end."""

    sync: _esker.Db

    def cf(self, name: str) -> AsyncFamily:
        """The column family called ``name``."""
        return AsyncFamily(self.sync.cf(name), self._threads)

    async def create_cf(self, name: str, **options: Any) -> AsyncFamily:
        """Creates a column family."""
        return AsyncFamily(await self._threads.run(self.sync.create_cf, name, **options), self._threads)

    def snapshot(self) -> AsyncSnapshot:
        """The present state, readable until the snapshot is released."""
        return AsyncSnapshot(self.sync.snapshot(), self._threads)

    def batch(self, **options: bool) -> AsyncBatch:
        """An empty batch of changes."""
        return AsyncBatch(self.sync.batch(**options), self._threads)

    def transaction(self, **options: Any) -> AsyncTransaction:
        """Begins a transaction."""
        return AsyncTransaction(self.sync.transaction(**options), self._threads.waits)

    async def transact(
        self, function: Callable[[AsyncTransaction], Awaitable[T]], *, attempts: int = 20, **options: Any
    ) -> T:
        """Awaits ``function(transaction)`` and commits. After a conflict it runs again."""
        if attempts < 1:
            raise ValueError("attempts: at least one")
        for attempt in range(1, attempts + 1):
            try:
                async with self.transaction(**options) as transaction:
                    return await function(transaction)
            except CONFLICTS:
                if attempt == attempts:
                    raise
                await asyncio.sleep(pause(attempt))
        raise AssertionError("the last attempt returns or raises")

    async def checkpoint(self, directory: Any, **options: int) -> int:
        """Makes ``directory`` a database with the contents of this one."""
        return await self._threads.run(self.sync.checkpoint, directory, **options)

    async def close(self) -> None:
        """Ends background work and releases the directory. A second close does nothing."""
        try:
            await self._threads.run(self.sync.close)
        finally:
            self._threads.close()

    async def __aenter__(self) -> AsyncDb:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.close()


async def open(path: Any, *, workers: int = 8, **options: Any) -> AsyncDb:
    """Opens a database, as ``esker.open``, with ``workers`` threads for its calls.

    With ``transactions="pessimistic"`` writes and transactions have further threads, as many as
    calls at the same time.
    """
    waits = _Threads(MOST_WAITS) if options.get("transactions") == "pessimistic" else None
    threads = _Threads(workers, waits)
    return AsyncDb(await threads.run(_esker.Db, path, **options), threads)
