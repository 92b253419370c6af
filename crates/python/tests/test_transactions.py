"""Transactions, their conflicts, and range locks."""

import threading

import pytest

import esker


@pytest.fixture(params=["pessimistic", "optimistic"])
def kind(request):
    return request.param


def test_a_transaction_commits_at_its_end_and_rolls_back_after_an_exception(path, kind):
    with esker.open(path, transactions=kind) as db:
        with db.transaction() as transaction:
            transaction[b"a"] = b"1"
            assert transaction[b"a"] == b"1" and db.get(b"a") is None
        assert db[b"a"] == b"1" and transaction.is_over
        with pytest.raises(ZeroDivisionError):
            with db.transaction() as transaction:
                transaction[b"a"] = b"2"
                1 / 0
        assert db[b"a"] == b"1"
        for call in (transaction.commit, transaction.rollback, lambda: transaction[b"a"], lambda: list(transaction)):
            with pytest.raises(esker.InvalidArgument, match="over"):
                call()


def test_save_points_undo_a_part(path, kind):
    with esker.open(path, transactions=kind) as db, db.transaction() as transaction:
        transaction[b"a"] = b"1"
        transaction.set_save_point()
        transaction[b"b"] = b"2"
        transaction.rollback_to_save_point()
        assert dict(transaction.items()) == {b"a": b"1"}
        with pytest.raises(TypeError):
            transaction.put(b"a", b"", sync=True)
        with pytest.raises(TypeError):
            transaction.items(fill_cache=False)


def test_conflicts_are_busy_or_time_out(path, kind):
    with esker.open(path, transactions=kind) as db:
        first, second = db.transaction(), db.transaction(**({"lock_timeout": 5} if kind == "pessimistic" else {}))
        first[b"a"] = b"1"
        if kind == "pessimistic":
            with pytest.raises(esker.LockTimeout) as raised:
                second[b"a"] = b"2"
            assert raised.value.subcode == "LockTimeout"
            first.commit()
        else:
            second[b"a"] = b"2"
            first.commit()
            with pytest.raises(esker.CONFLICTS):
                second.commit()
            second.rollback()
        assert db[b"a"] == b"1"


def test_transact_counts_right_under_contention(path, kind):
    with esker.open(path, transactions=kind) as db:

        def increment(transaction):
            count = int(transaction.get_for_update(b"n", b"0"))
            transaction[b"n"] = b"%d" % (count + 1)
            return count + 1

        def work():
            for _ in range(50):
                db.transact(increment, attempts=1000)

        threads = [threading.Thread(target=work) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert db[b"n"] == b"200"
        assert db.transact(increment) == 201


def test_transact_gives_up_and_lets_other_exceptions_through(path, kind):
    with esker.open(path, transactions=kind) as db:
        calls = []

        def busy(transaction):
            calls.append(1)
            raise esker.Busy("mine")

        with pytest.raises(esker.Busy, match="mine"):
            db.transact(busy, attempts=3)
        assert len(calls) == 3
        with pytest.raises(KeyError):
            db.transact(lambda transaction: transaction[b"absent"])
        with pytest.raises(ValueError):
            db.transact(busy, attempts=0)
        with pytest.raises(TypeError):
            db.transact(5)


def test_pop_and_setdefault_lock_the_key_that_they_read(path, kind):
    with esker.open(path, transactions=kind) as db:
        for change in (lambda txn: txn.pop(b"a"), lambda txn: txn.setdefault(b"a", b"2"), lambda txn: txn.pop(b"b", None)):
            db[b"a"] = b"1"
            first = db.transaction()
            change(first)
            if kind == "pessimistic":
                with pytest.raises(esker.LockTimeout), db.transaction(lock_timeout=5) as second:
                    second[b"a"] = second[b"b"] = b"3"
                first.rollback()
            else:
                db.update({b"a": b"3", b"b": b"3"})
                with pytest.raises(esker.CONFLICTS):
                    first.commit()
                first.rollback()
                db.delete(b"b")


def test_deadlocks_are_found(path):
    with esker.open(path, transactions="pessimistic") as db:
        barrier, raised = threading.Barrier(2), []

        def work(keys):
            try:
                with db.transaction(deadlock_detect=True, lock_timeout=10_000) as transaction:
                    transaction[keys[0]] = b""
                    barrier.wait()
                    transaction[keys[1]] = b""
            except esker.Deadlock as error:
                raised.append(error)

        threads = [threading.Thread(target=work, args=([b"a", b"b"][:: 1 - 2 * n],)) for n in range(2)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert len(raised) == 1 and raised[0].subcode == "Deadlock"


def test_range_locks_keep_others_out_of_the_range(path):
    with esker.open(path, transactions="pessimistic") as db:
        with db.transaction() as first, db.transaction(lock_timeout=5) as second:
            first.lock_range(b"b", b"d")
            second[b"a"] = b"1"
            with pytest.raises(esker.LockTimeout):
                second[b"c"] = b"1"
            with pytest.raises(esker.LockTimeout):
                second.lock_range(b"d", b"e", exclusive=False)
    with esker.open(path, transactions="optimistic") as db, db.transaction() as transaction:
        with pytest.raises(esker.NotSupported):
            transaction.lock_range(b"a", b"b")


def test_serializable_transactions_find_phantoms(path):
    with esker.open(path, transactions="pessimistic") as db:
        db[b"a"] = b"1"
        with db.transaction(isolation="serializable") as first, db.transaction(lock_timeout=5) as second:
            assert list(first.keys(b"a", b"m")) == [b"a"]
            with pytest.raises(esker.LockTimeout):
                second[b"b"] = b"2"


def test_two_phases_survive_a_reopening(path):
    with esker.open(path, transactions="pessimistic") as db:
        transaction = db.transaction()
        transaction.set_name(b"transfer")
        transaction[b"a"] = b"1"
        transaction.prepare()
        assert b"a" not in db
        transaction.commit()
        assert db[b"a"] == b"1"


def test_plain_databases_refuse_transactions_by_name(db):
    with pytest.raises(esker.InvalidArgument, match="pessimistic"):
        db.transaction()


def test_unknown_options_of_transactions_are_type_errors(path, kind):
    with esker.open(path, transactions=kind) as db:
        with pytest.raises(TypeError, match="timeout"):
            db.transaction(timeout=5)
        with pytest.raises(ValueError, match="isolation"):
            db.transaction(isolation="none")


def test_one_transaction_serves_many_threads(path, kind):
    with esker.open(path, transactions=kind) as db, db.transaction() as transaction:

        def work(n):
            for i in range(100):
                transaction[b"%d-%d" % (n, i)] = b""
                transaction.get(b"%d-%d" % (n, i))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert len(list(transaction)) == 400
