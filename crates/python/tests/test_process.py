"""Processes: forks, the interpreter's exit, threads, garbage."""

import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
import weakref

import pytest

import esker


def run(program: str, *args: object, timeout: float = 120) -> str:
    """Runs a program in a process of its own, so that a hang is a failure."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(program), *map(str, args)],
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def test_a_forked_child_is_refused_and_the_parent_goes_on(path):
    output = run(
        """
        import esker, os, sys
        db = esker.open(sys.argv[1], transactions="pessimistic")
        db.update([(b"%d" % n, b"v") for n in range(100)])
        txn, snapshot, items, batch = db.transaction(), db.snapshot(), db.items(), db.batch()
        txn[b"a"] = b"1"
        next(items)
        child = os.fork()
        if child == 0:
            for call in (lambda: db[b"1"], lambda: db.put(b"1", b""), lambda: txn.commit(), lambda: txn[b"a"],
                         lambda: snapshot[b"1"], lambda: next(items), lambda: db.items(), lambda: batch.write(),
                         lambda: db.close(), lambda: db.flush(), lambda: batch.put(b"", b""),
                         lambda: snapshot.release(), lambda: items.close(), lambda: batch.clear(),
                         lambda: len(batch), lambda: batch.data_size):
                try:
                    call()
                    os._exit(1)
                except esker.NotSupported as refused:
                    assert "fork" in str(refused)
            del txn, snapshot, items, batch, db
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        txn.commit()
        assert db[b"a"] == b"1" and len(list(db)) == 101
        db.close()
        print("parent ended")
        """,
        path,
    )
    assert output == "parent ended\n"


def test_a_child_may_open_what_the_parent_has_closed(path):
    output = run(
        """
        import esker, multiprocessing, sys
        def child(path):
            with esker.open(path) as db:
                db[b"child"] = b"1"
        with esker.open(sys.argv[1]) as db:
            db[b"parent"] = b"1"
        process = multiprocessing.get_context("fork").Process(target=child, args=(sys.argv[1],))
        process.start(); process.join()
        with esker.open(sys.argv[1]) as db:
            print(sorted(db), process.exitcode)
        """,
        path,
    )
    assert output == "[b'child', b'parent'] 0\n"


def test_the_interpreter_exits_with_open_databases_iterators_and_callbacks(path):
    output = run(
        """
        import esker, sys
        add = esker.MergeOperator.associative("add", lambda a, b: b"%d" % (int(a) + int(b)))
        keep = esker.CompactionFilter("keep", lambda level, key, value: None)
        db = esker.open(sys.argv[1], merge_operator=add, compaction_filter=keep, write_buffer_size=64 << 10)
        for n in range(20_000):
            db.merge(b"%d" % (n % 3), b"1")
        items, snapshot, batch, pinned = db.items(), db.snapshot(), db.batch(), db.get_pinned(b"1")
        db.put(b"unlogged", b"1", disable_wal=True)
        next(items)
        view = memoryview(pinned)
        """,
        path,
    )
    assert output == ""
    add = esker.MergeOperator.associative("add", lambda a, b: b"%d" % (int(a) + int(b)))
    with esker.open(path, merge_operator=add) as db:
        assert db[b"unlogged"] == b"1"
        assert sum(int(db[b"%d" % n]) for n in range(3)) == 20_000


def test_the_interpreter_exits_while_threads_use_the_database(path):
    output = run(
        """
        import esker, sys, threading, time
        db = esker.open(sys.argv[1])
        def work():
            try:
                while True:
                    db[b"a"] = b"1"
                    list(db.items())
            except esker.Closed:
                pass
        for _ in range(4):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(0.3)
        """,
        path,
    )
    assert output == ""


def test_dropped_databases_close(path):
    db = esker.open(path)
    db[b"a"] = b"1"
    items = db.items()
    gone = weakref.ref(db)
    del db
    assert gone() is None
    assert next(items) == (b"a", b"1")
    del items
    with esker.open(path) as db:
        assert db[b"a"] == b"1"


def test_the_collector_closes_a_database_in_a_cycle(path):
    class App:
        def __init__(self):
            operator = esker.MergeOperator("app", self.merge)
            keep = esker.CompactionFilter("app", self.keep)
            self.db = esker.open(path, merge_operator=operator, compaction_filter=keep)

        def merge(self, key, existing, operands):
            return b"".join(operands)

        def keep(self, level, key, value):
            return None

    app = App()
    app.db.merge(b"a", b"1")
    items = app.db.items()
    gone = weakref.ref(app)
    del app
    gc.collect()
    # The iterator still reads the database.
    assert gone() is not None and list(items) == [(b"a", b"1")]
    del items
    gc.collect()
    assert gone() is None
    app = App()
    assert app.db[b"a"] == b"1"
    app.db.close()


def test_calls_run_without_the_gil(path):
    with esker.open(path, transactions="pessimistic") as db:
        holder = db.transaction()
        holder[b"a"] = b""
        ticks, stop = [], threading.Event()

        def tick():
            while not stop.is_set():
                ticks.append(time.monotonic())
                time.sleep(0.005)

        thread = threading.Thread(target=tick)
        thread.start()
        with pytest.raises(esker.LockTimeout):
            with db.transaction(lock_timeout=2000) as waiter:
                waiter[b"a"] = b""
        stop.set()
        thread.join()
        assert len(ticks) > 10


def test_readers_and_writers_of_many_threads_agree(path):
    with esker.open(path, write_buffer_size=64 << 10) as db:
        failures = []

        def write(n):
            for i in range(300):
                with db.batch() as batch:
                    batch[b"left-%d" % n] = b"%d" % i
                    batch[b"right-%d" % n] = b"%d" % i

        def read():
            for _ in range(300):
                rows = dict(db.items())
                for n in range(2):
                    if rows.get(b"left-%d" % n) != rows.get(b"right-%d" % n):
                        failures.append(rows)

        threads = [threading.Thread(target=write, args=(n,)) for n in range(2)]
        threads += [threading.Thread(target=read) for _ in range(2)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert not failures


def test_one_iterator_serves_many_threads_each_row_once(db):
    db.update([(b"%06d" % n, b"") for n in range(20_000)])
    keys, taken = db.keys(), [[] for _ in range(4)]
    threads = [threading.Thread(target=lambda mine=mine: mine.extend(keys)) for mine in taken]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert sorted(sum(taken, [])) == [b"%06d" % n for n in range(20_000)]


def test_threads_that_fail_on_one_batch_end(path):
    output = run(
        """
        import esker, sys, threading
        sys.setswitchinterval(1e-6)
        db = esker.open(sys.argv[1])
        batch = db.batch()
        def work():
            for _ in range(20_000):
                batch.put(b"a", b"1")
                try:
                    batch.rollback_to_save_point()
                except esker.NotFound:
                    pass
        threads = [threading.Thread(target=work) for _ in range(2)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        print(len(batch))
        """,
        path,
        timeout=60,
    )
    assert output == "40000\n"


def test_finalizers_may_use_the_iterator_and_the_batch_of_the_call_in_which_they_run(path):
    output = run(
        """
        import esker, gc, sys
        class Dead:
            def __init__(self):
                self.me = self
            def __del__(self):
                try:
                    ended.append(use())
                except (RuntimeError, esker.Corruption) as refused:
                    ended.append(refused)
        def raises(key, existing, operands):
            raise ValueError
        operator = esker.MergeOperator("raises", raises)
        db = esker.open(sys.argv[1], merge_operator=operator)
        db.update([(b"%06d" % n, b"") for n in range(3000)])
        db.merge(b"1", b"")
        ended, batch = [], db.batch()
        gc.set_threshold(1)
        for pinned in (False, True):
            items = db.items(pinned=pinned)
            use = lambda: next(items, None)
            try:
                while next(items, None):
                    Dead()
            except esker.Corruption:
                pass
            print(len(ended) > 100)
            use = lambda: len(batch)
            for _ in range(1000):
                Dead()
                try:
                    batch.rollback_to_save_point()
                except esker.NotFound:
                    pass
            ended.clear()
        """,
        path,
        timeout=60,
    )
    assert output == "True\nTrue\n"


def test_a_collection_in_a_callback_closes_the_database_of_the_callback_later(path):
    output = run(
        """
        import esker, gc, sys, threading, time
        gc.disable()
        entered, go = threading.Event(), threading.Event()
        class App:
            pass
        def keep(level, key, value):
            if not go.is_set():
                entered.set()
                go.wait()
                gc.collect()
            return None
        def merge(key, existing, operands):
            return b"".join(operands)
        app = App()
        app.me = app
        app.db = esker.open(sys.argv[1], compaction_filter=esker.CompactionFilter("keep", keep),
                            merge_operator=esker.MergeOperator("merge", merge),
                            level0_file_num_compaction_trigger=2)
        for value in (b"1", b"2"):
            app.db.update([(b"%d" % n, value) for n in range(100)])
            app.db.flush()
        app.db.put(b"unlogged", b"1", disable_wal=True)
        assert entered.wait(30)
        del app
        go.set()
        while True:
            try:
                db = esker.open(sys.argv[1], merge_operator=esker.MergeOperator("merge", merge))
                break
            except esker.IoError:
                time.sleep(0.01)
        print(len(list(db)), db[b"1"], db[b"unlogged"])
        """,
        path,
        timeout=60,
    )
    assert output == "101 b'2' b'1'\n"


def test_the_exit_waits_for_a_database_that_a_callback_has_dropped(path):
    output = run(
        """
        import esker, sys, threading
        entered, go, box = threading.Event(), threading.Event(), []
        def keep(level, key, value):
            if box:
                entered.set()
                go.wait()
                box.clear()
            return None
        db = esker.open(sys.argv[1], compaction_filter=esker.CompactionFilter("keep", keep),
                        level0_file_num_compaction_trigger=2)
        box.append(db)
        for value in (b"1", b"2"):
            db.update([(b"%d" % n, value) for n in range(100)])
            db.flush()
        # The close writes a table of these, which takes longer than an exit.
        for n in range(300):
            db.put(b"unlogged-%d" % n, bytes(100_000), disable_wal=True)
        assert entered.wait(30)
        del db
        go.set()
        while box:
            pass
        """,
        path,
        timeout=60,
    )
    assert output == ""
    with esker.open(path) as db:
        assert len(list(db.keys())) == 400


def test_the_collector_closes_a_database_in_a_cycle_through_its_comparator(path):
    class App:
        def __init__(self):
            self.db = esker.open(path, comparator=esker.Comparator("app", self.compare))

        def compare(self, a, b):
            return (a > b) - (a < b)

    app = App()
    app.db.update([(b"%d" % n, b"") for n in range(100)])
    gone = weakref.ref(app)
    del app
    gc.collect()
    assert gone() is None
    app = App()
    assert len(list(app.db)) == 100
    app.db.close()
