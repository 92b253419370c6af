"""Merge operators, compaction filters and comparators in Python, and their exceptions."""

import sys
import threading

import pytest

import esker
from test_process import run


def add(left: bytes, right: bytes) -> bytes:
    return b"%d" % (int(left) + int(right))


ADD = esker.MergeOperator.associative("add", add)


def test_a_merge_operator_merges_in_reads_and_compactions(path):
    with esker.open(path, merge_operator=ADD) as db:
        for n in range(100):
            db.merge(b"n", b"%d" % n)
        db.flush()
        db.merge(b"n", b"1000")
        assert db[b"n"] == b"5950"
        db.compact_range()
        assert db[b"n"] == b"5950" and list(db.items()) == [(b"n", b"5950")]
    with esker.open(path, merge_operator=ADD) as db:
        assert db[b"n"] == b"5950"


def test_an_exception_in_a_merge_operator_is_the_cause_of_the_reads(path):
    with esker.open(path, merge_operator=ADD) as db:
        db.merge(b"n", b"not a number")
        db.merge(b"n", b"1")
        db[b"m"] = b"2"
        for read in (lambda: db[b"n"], lambda: list(db.items()), lambda: db.multi_get([b"n"])):
            with pytest.raises(esker.Corruption) as raised:
                read()
            assert isinstance(raised.value.__cause__, ValueError)
            assert raised.value.subcode == "MergeOperatorFailed"
        assert db[b"m"] == b"2"


def test_wrong_results_of_callbacks_are_type_errors_as_cause(path):
    with esker.open(path, merge_operator=esker.MergeOperator("none", lambda *_: None)) as db:
        db.merge(b"n", b"1")
        with pytest.raises(esker.Corruption) as raised:
            db[b"n"]
        assert isinstance(raised.value.__cause__, TypeError)


def test_stock_merge_operators_go_by_name(path):
    with esker.open(path, merge_operator="stringappend") as db:
        db.merge(b"a", b"1")
        db.merge(b"a", b"2")
        assert db[b"a"] == b"1,2"


def test_a_compaction_filter_keeps_removes_changes_and_skips(path):
    def decide(level, key, value):
        match key[:1]:
            case b"r":
                return esker.REMOVE
            case b"c":
                return value.upper()
            case b"s":
                return esker.RemoveUntil(b"t")
        return None

    with esker.open(path, compaction_filter=esker.CompactionFilter("decide", decide)) as db:
        db.update({b"k": b"v", b"r": b"v", b"c": b"v", b"s1": b"v", b"s2": b"v", b"t": b"v"})
        db.flush()
        db.compact_range()
        assert dict(db.items()) == {b"k": b"v", b"c": b"V", b"t": b"v"}


def test_after_an_exception_of_a_filter_the_entry_stays_and_the_hook_hears_of_it(path, monkeypatch):
    heard = []
    monkeypatch.setattr(sys, "unraisablehook", lambda raised: heard.append(raised.exc_type))
    with esker.open(path, compaction_filter=esker.CompactionFilter("raise", lambda *_: 1 / 0)) as db:
        db[b"a"] = b"1"
        db.flush()
        db.compact_range()
        assert db[b"a"] == b"1"
    assert ZeroDivisionError in heard


def by_number(a: bytes, b: bytes) -> int:
    left, right = int(a or b"0"), int(b or b"0")
    return (left > right) - (left < right)


def test_a_comparator_orders_keys_and_its_name_is_checked(path):
    order = esker.Comparator("by number", by_number)
    with esker.open(path, comparator=order) as db:
        db.update([(b"%d" % n, b"") for n in range(200)])
        db.flush()
        db.update([(b"%d" % n, b"") for n in range(200, 300)])
        assert list(db.keys(b"98", b"102")) == [b"98", b"99", b"100", b"101"]
        assert [int(key) for key in db.keys(reverse=True)] == list(range(299, -1, -1))
        db.compact_range()
        assert db.last() == (b"299", b"")
        with pytest.raises(ValueError, match="prefix"):
            db.items(b"1", prefix=b"1")
    with pytest.raises(esker.InvalidArgument, match="by number"):
        esker.open(path)
    with esker.open(path, comparator=order) as db:
        assert db.first() == (b"0", b"")


def test_after_an_exception_of_a_comparator_the_database_refuses_calls(path):
    with esker.open(path, comparator=esker.Comparator("by number", by_number)) as db:
        db[b"1"] = b""
        try:
            db[b"x"] = b""
        except esker.Error:
            pass
        with pytest.raises(esker.Aborted, match="comparator"):
            db[b"1"]


def test_a_callback_must_not_call_the_database(path):
    db = None

    def merge(key, existing, operands):
        return db.get(b"other", b"none")

    with esker.open(path, merge_operator=esker.MergeOperator("reads", merge)) as db:
        db.merge(b"a", b"1")
        with pytest.raises(esker.Corruption) as raised:
            db[b"a"]
        assert isinstance(raised.value.__cause__, RuntimeError)
        assert "must not call" in str(raised.value.__cause__)


def test_interrupts_and_exits_go_through_a_callback_to_the_caller(path):
    for kind in (KeyboardInterrupt, SystemExit):

        def stop(*_):
            raise kind

        with esker.open(path, merge_operator=esker.MergeOperator("stop", stop)) as db:
            db.merge(b"a", b"1")
            with pytest.raises(kind):
                db[b"a"]


def test_an_exception_of_a_call_that_succeeds_goes_to_the_hook_and_to_no_later_error(path, monkeypatch):
    heard = []
    monkeypatch.setattr(sys, "unraisablehook", lambda raised: heard.append(raised.exc_type))
    with esker.open(path, comparator=esker.Comparator("raises", lambda *_: 1 / 0)) as db:
        db[b"a"] = b""
        db[b"b"] = b""
    assert heard == [ZeroDivisionError]
    with esker.open(path.parent / "other") as db, pytest.raises(esker.NotFound) as raised:
        db.cf("nobody")
    assert raised.value.__cause__ is None


def test_names_that_an_options_file_cannot_hold_are_refused(path):
    for name in ("", "nullptr", " a", "a\n", "a;b", "{a}", "a=b", "a\\b", "#a", 'a"b'):
        with pytest.raises(ValueError, match="OPTIONS"):
            esker.open(path, merge_operator=esker.MergeOperator(name, lambda *_: b""))
    for name in ("a.b c-d_e", "Zähler", "a:b,c(d)[e]"):
        order = esker.Comparator(name, lambda a, b: (a > b) - (a < b))
        add = esker.MergeOperator(name, lambda *_: b"")
        for _ in range(2):
            with esker.open(path / name, comparator=order, merge_operator=add) as db:
                db.merge(b"a", b"1")
                db.flush()


def test_callbacks_and_calls_of_many_threads_end(path):
    with esker.open(path, merge_operator=ADD, comparator=esker.Comparator("by number", by_number), write_buffer_size=64 << 10) as db:

        def work(seed):
            for n in range(200):
                db.merge(b"%d" % (n % 7), b"1")
                db.get(b"%d" % (n % 5))
                if n % 50 == seed:
                    db.flush()
                if n % 20 == 0:
                    with db.snapshot() as snapshot:
                        next(iter(snapshot.items()), None)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        [thread.start() for thread in threads]
        [thread.join(120) for thread in threads]
        assert not any(thread.is_alive() for thread in threads)
        assert sum(int(value) for value in db.values()) == 800


def test_a_callback_must_not_end_what_its_call_uses(path):
    program = """
        import esker, sys
        refused, used = [], []
        def merge(key, existing, operands):
            for use in used:
                try:
                    use()
                except RuntimeError as error:
                    refused.append(str(error))
            return b""
        db = esker.open(sys.argv[1], merge_operator=esker.MergeOperator("ends", merge))
        db.merge(b"a", b"1")
        items, snapshot, batch = db.items(), db.snapshot(), db.batch()
        used += [items.close, snapshot.release, batch.clear, lambda: len(batch), lambda: batch.data_size]
        print(list(items), len(refused), set(refused))
        """
    output = run(program, path, timeout=60)
    assert output.startswith("[(b'a', b'')] 5 {") and "must not call" in output


def test_comparators_return_numbers_of_any_kind(path, monkeypatch):
    number = {
        "float": lambda a, b: float(a or 0) - float(b or 0),
        "int": lambda a, b: int(a or 0) - int(b or 0),
        "bool": lambda a, b: int(a or 0) > int(b or 0) or -(int(a or 0) < int(b or 0)),
    }
    keys = [b"0.5", b"1", b"1.25", b"20000000000000000000"]
    for kind, compare in number.items():
        mine = keys if kind == "float" else keys[1::2]
        with esker.open(path / kind, comparator=esker.Comparator(kind, compare)) as db:
            for key in reversed(mine):
                db[key] = b""
            assert list(db) == mine
    heard = []
    monkeypatch.setattr(sys, "unraisablehook", lambda raised: heard.append(raised.exc_type))
    for answer in (float("nan"), None, "1"):
        with esker.open(path / repr(answer), comparator=esker.Comparator("no", lambda *_: answer)) as db:
            db[b"1"] = b""
            db[b"2"] = b""
            with pytest.raises(esker.Aborted):
                db[b"1"]
    assert heard == [TypeError] * 3
