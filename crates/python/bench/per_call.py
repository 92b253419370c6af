"""Cost of calls, beside rocksdict (RocksDB inside): processor time of a million operations.

``python bench/per_call.py [PAIRS] [OPERATIONS]`` needs ``pip install rocksdict`` and a release build
of esker. It runs both in turn, each time in a process of its own, and prints medians: nanoseconds
of the calling thread, and of the whole process with its background threads.
"""

import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from typing import Any

VALUE = b"v" * 100


def esker_calls(path: str) -> dict[str, Callable[..., Any]]:
    import esker

    db = esker.open(path, compression="kNoCompression")

    def batch(keys: Iterable[bytes]) -> None:
        with db.batch() as batch:
            for key in keys:
                batch.put(key, VALUE)

    def pinned(keys: Iterable[bytes]) -> None:
        for key in keys:
            db.get_pinned(key)

    return {
        "put": db.put,
        "get": db.get,
        "batch": batch,
        "items": lambda: db.items(),
        "reverse": lambda: db.items(reverse=True),
        "keys": lambda: db.keys(),
        "multi_get": db.multi_get,
        "flush": db.flush,
        "close": db.close,
    }


def rocksdict_calls(path: str) -> dict[str, Callable[..., Any]]:
    import rocksdict

    options = rocksdict.Options(raw_mode=True)
    options.set_compression_type(rocksdict.DBCompressionType.none())
    db = rocksdict.Rdict(path, options)

    def batch(keys: Iterable[bytes]) -> None:
        batch = rocksdict.WriteBatch(raw_mode=True)
        for key in keys:
            batch.put(key, VALUE)
        db.write(batch)

    return {
        "put": db.put,
        "get": db.get,
        "batch": batch,
        "items": lambda: db.items(),
        "reverse": lambda: db.items(backwards=True),
        "keys": lambda: db.keys(),
        "multi_get": lambda keys: db[keys],
        "flush": db.flush,
        "close": db.close,
    }


def measure(engine: str, count: int) -> dict[str, tuple[float, float]]:
    directory = tempfile.mkdtemp()
    calls = {"esker": esker_calls, "rocksdict": rocksdict_calls}[engine](directory + "/db")
    keys = [b"%016d" % n for n in range(count)]
    shuffled = keys[:]
    random.Random(1).shuffle(shuffled)
    times: dict[str, tuple[float, float]] = {}

    def timed(name: str, work: Callable[[], None]) -> None:
        thread, process = time.thread_time(), time.process_time()
        work()
        spent = time.thread_time() - thread, time.process_time() - process
        times[name] = (spent[0] * 1e9 / count, spent[1] * 1e9 / count)

    def puts() -> None:
        put = calls["put"]
        for key in shuffled:
            put(key, VALUE)

    def gets() -> None:
        get = calls["get"]
        for key in shuffled:
            get(key)

    def scan(name: str) -> None:
        rows = sum(1 for _ in calls[name]())
        assert rows == count, (engine, name, rows)

    def in_batches(name: str) -> None:
        call = calls[name]
        for start in range(0, count, 1000):
            call(shuffled[start : start + 1000])

    timed("put", puts)
    calls["flush"]()
    timed("get", gets)
    timed("multi_get of 1000", lambda: in_batches("multi_get"))
    timed("items", lambda: scan("items"))
    timed("items in reverse", lambda: scan("reverse"))
    timed("keys", lambda: scan("keys"))
    timed("batch of 1000", lambda: in_batches("batch"))
    calls["close"]()
    shutil.rmtree(directory)
    return times


def main(pairs: int, count: int) -> None:
    runs: dict[str, list[dict[str, list[float]]]] = {"esker": [], "rocksdict": []}
    print("load before:", os.getloadavg())
    for _ in range(pairs):
        for engine, results in runs.items():
            command = [sys.executable, __file__, "--measure", engine, str(count)]
            results.append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
    print("load after: ", os.getloadavg())
    print(f"ns an operation, medians of {pairs}; thread, and (process)")
    for name in runs["esker"][0]:
        middle = {
            engine: [statistics.median(result[name][part] for result in results) for part in (0, 1)]
            for engine, results in runs.items()
        }
        ours, theirs = middle["esker"], middle["rocksdict"]
        print(
            f"{name:20} esker {ours[0]:7.0f} ({ours[1]:7.0f})   rocksdict {theirs[0]:7.0f} ({theirs[1]:7.0f})"
            f"   ratio {theirs[0] / ours[0]:.2f}"
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(sys.argv[2], int(sys.argv[3]))))
    else:
        main(*(int(argument) for argument in sys.argv[1:3] + ["5", "1000000"][len(sys.argv) - 1 :]))
