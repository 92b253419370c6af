"""Keys and values that are objects: ``Coded``."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

if TYPE_CHECKING:
    from ._esker import Reader, Writer

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")


@dataclass(frozen=True)
class Codec(Generic[V]):
    """Objects as bytes, and back."""

    encode: Callable[[V], bytes]
    decode: Callable[[bytes], V]


def _json_text(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


_UINT64 = 8

CODECS: dict[str, Codec[Any]] = {
    "raw": Codec(bytes, bytes),
    "str": Codec(lambda text: text.encode(), lambda text: text.decode()),
    # Big endian: the order of the bytes is the order of the numbers.
    "uint64": Codec(lambda n: n.to_bytes(_UINT64, "big"), lambda n: int.from_bytes(n, "big")),
    "json": Codec(_json_text, json.loads),
    "pickle": Codec(lambda value: pickle.dumps(value, pickle.HIGHEST_PROTOCOL), pickle.loads),
}
"""Codecs by name. ``pickle`` runs code that the bytes name: use it for data of your own only."""


def _codec(named: str | Codec[Any]) -> Codec[Any]:
    if isinstance(named, Codec):
        return named
    if named not in CODECS:
        raise ValueError(f"no codec is called {named!r}; there are {', '.join(CODECS)}")
    return CODECS[named]


class Coded(Generic[K, V]):
    """A database, family, snapshot, transaction or batch, with objects for bytes.

    Ranges follow the order of the encoded keys. ``str`` and ``uint64`` keep the order of the
    objects; ``json`` and ``pickle`` do not.
    """

    def __init__(
        self,
        reader: Reader | Writer,
        *,
        key: str | Codec[K] = "raw",
        value: str | Codec[V] = "raw",
    ) -> None:
        self.reader: Any = reader
        self._key: Codec[K] = _codec(key)
        self._value: Codec[V] = _codec(value)

    def over(self, reader: Reader | Writer) -> Coded[K, V]:
        """The same codecs over another reader: a snapshot, a transaction."""
        return Coded(reader, key=self._key, value=self._value)

    def __getitem__(self, key: K) -> V:
        found = self.reader.get(self._key.encode(key))
        if found is None:
            raise KeyError(key)
        return self._value.decode(found)

    def __setitem__(self, key: K, value: V) -> None:
        self.reader[self._key.encode(key)] = self._value.encode(value)

    def __delitem__(self, key: K) -> None:
        del self.reader[self._key.encode(key)]

    def __contains__(self, key: K) -> bool:
        return self._key.encode(key) in self.reader

    @overload
    def get(self, key: K) -> V | None: ...
    @overload
    def get(self, key: K, default: D) -> V | D: ...
    def get(self, key: K, default: Any = None) -> Any:
        """The value of ``key``, or ``default``."""
        found = self.reader.get(self._key.encode(key))
        return default if found is None else self._value.decode(found)

    def multi_get(self, keys: Iterable[K]) -> list[V | None]:
        """The values of ``keys``, each ``None`` if absent."""
        found = self.reader.multi_get([self._key.encode(key) for key in keys])
        return [None if value is None else self._value.decode(value) for value in found]

    def put(self, key: K, value: V, **options: bool) -> None:
        """Stores ``value`` under ``key``."""
        self.reader.put(self._key.encode(key), self._value.encode(value), **options)

    def delete(self, key: K, **options: bool) -> None:
        """Removes ``key``, without a look whether it is there."""
        self.reader.delete(self._key.encode(key), **options)

    def pop(self, key: K, *default: Any) -> Any:
        """Removes ``key`` and returns its value, or the default."""
        if not default:
            try:
                return self._value.decode(self.reader.pop(self._key.encode(key)))
            except KeyError:
                raise KeyError(key) from None
        found = self.reader.pop(self._key.encode(key), None)
        return default[0] if found is None else self._value.decode(found)

    def setdefault(self, key: K, default: V) -> V:
        """The value of ``key``, after ``default`` was stored there if there was none."""
        return self._value.decode(self.reader.setdefault(self._key.encode(key), self._value.encode(default)))

    def update(self, source: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        """Stores all pairs in one write."""
        pairs = source.items() if isinstance(source, Mapping) else source
        self.reader.update([(self._key.encode(key), self._value.encode(value)) for key, value in pairs])

    def items(
        self, start: K | None = None, end: K | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[K, V]]:
        """Keys and values from ``start`` up to ``end``, exclusive."""
        for key, value in self.reader.items(self._end(start), self._end(end), reverse=reverse):
            yield self._key.decode(key), self._value.decode(value)

    def keys(self, start: K | None = None, end: K | None = None, *, reverse: bool = False) -> Iterator[K]:
        """The keys of ``items``."""
        for key in self.reader.keys(self._end(start), self._end(end), reverse=reverse):
            yield self._key.decode(key)

    def values(self, start: K | None = None, end: K | None = None, *, reverse: bool = False) -> Iterator[V]:
        """The values of ``items``."""
        for value in self.reader.values(self._end(start), self._end(end), reverse=reverse):
            yield self._value.decode(value)

    def __iter__(self) -> Iterator[K]:
        return self.keys()

    def _end(self, end: K | None) -> bytes | None:
        return None if end is None else self._key.encode(end)
