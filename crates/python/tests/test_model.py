"""A database against a dict: writes, batches, snapshots, transactions, reopenings."""

import shutil
import tempfile

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

import esker

keys = st.binary(max_size=3) | st.sampled_from([b"a", b"b", b"ab", b"\xff", b"\xff\xff", b""])
values = st.binary(max_size=20) | st.just(b"v" * 5000)
families = st.sampled_from(["default", "other"])


def concatenate(left: bytes, right: bytes) -> bytes:
    return left + b"," + right


CONCATENATE = esker.MergeOperator.associative("concatenate", concatenate)


def below(model, start, end):
    return sorted((k, v) for k, v in model.items() if (start is None or k >= start) and (end is None or k < end))


class Machine(RuleBasedStateMachine):
    """The rules. Subclasses say which kind of transactions the database has."""

    transactions: str | None = None
    snapshots = Bundle("snapshots")

    @initialize()
    def begin(self):
        self.dir = tempfile.mkdtemp()
        self.model = {"default": {}, "other": {}}
        self.open()

    def open(self):
        self.db = esker.open(
            self.dir + "/db",
            families={"other": {}},
            transactions=self.transactions,
            merge_operator=CONCATENATE,
            write_buffer_size=64 << 10,
            load_options=False,
        )

    def family(self, name):
        return self.db.cf(name)

    @rule(family=families, key=keys, value=values)
    def put(self, family, key, value):
        self.family(family)[key] = value
        self.model[family][key] = value

    @rule(family=families, key=keys)
    def delete(self, family, key):
        self.family(family).delete(key)
        self.model[family].pop(key, None)

    @rule(family=families, key=keys, value=values)
    def merge(self, family, key, value):
        self.family(family).merge(key, value)
        model = self.model[family]
        model[key] = concatenate(model[key], value) if key in model else value

    @rule(family=families, key=keys, value=values)
    def setdefault(self, family, key, value):
        assert self.family(family).setdefault(key, value) == self.model[family].setdefault(key, value)

    @rule(family=families, key=keys)
    def pop(self, family, key):
        assert self.family(family).pop(key, None) == self.model[family].pop(key, None)

    @rule(family=families, begin=keys, end=keys)
    def delete_range(self, family, begin, end):
        begin, end = min(begin, end), max(begin, end)
        self.family(family).delete_range(begin, end)
        for key, _ in below(self.model[family], begin, end):
            del self.model[family][key]

    @rule(family=families, pairs=st.dictionaries(keys, values, max_size=20))
    def update(self, family, pairs):
        self.family(family).update(pairs)
        self.model[family].update(pairs)

    @rule(changes=st.lists(st.tuples(families, keys, st.none() | values), max_size=10), fails=st.booleans())
    def batch(self, changes, fails):
        class Stop(Exception):
            pass

        try:
            with self.db.batch() as batch:
                for family, key, value in changes:
                    if value is None:
                        del batch.cf(family)[key]
                    else:
                        batch.cf(family)[key] = value
                assert len(batch) == len(changes)
                if fails:
                    raise Stop
        except Stop:
            return
        self.apply(changes)

    @rule(changes=st.lists(st.tuples(families, keys, st.none() | values), max_size=10), fails=st.booleans())
    def transact(self, changes, fails):
        if self.transactions is None:
            return
        kept = {name: dict(model) for name, model in self.model.items()}
        with self.db.transaction() as transaction:
            for family, key, value in changes:
                if value is None:
                    transaction.cf(family).delete(key)
                else:
                    transaction.cf(family)[key] = value
            self.apply(changes)
            for name, model in self.model.items():
                assert list(transaction.cf(name).items()) == sorted(model.items())
                assert list(transaction.cf(name).keys(reverse=True)) == sorted(model, reverse=True)
                assert dict(self.family(name).items()) == kept[name]
            if fails:
                transaction.rollback()
                self.model = kept

    def apply(self, changes):
        for family, key, value in changes:
            if value is None:
                self.model[family].pop(key, None)
            else:
                self.model[family][key] = value

    @rule(target=snapshots)
    def snapshot(self):
        return self.db.snapshot(), {name: dict(model) for name, model in self.model.items()}

    @rule(pair=snapshots, family=families, start=st.none() | keys, end=st.none() | keys, key=keys)
    def read_snapshot(self, pair, family, start, end, key):
        snapshot, model = pair
        try:
            reader = snapshot.cf(family)
            assert list(reader.items(start, end)) == below(model[family], start, end)
            assert reader.get(key) == model[family].get(key)
        except esker.Closed:
            # The database was closed since.
            pass

    @rule(pair=consumes(snapshots))
    def release(self, pair):
        pair[0].release()

    @rule()
    def flush(self):
        self.db.flush()

    @rule(family=families)
    def compact(self, family):
        self.family(family).compact_range()

    @rule()
    def reopen(self):
        self.db.close()
        self.open()

    @rule(family=families, start=st.none() | keys, end=st.none() | keys, reverse=st.booleans(), pinned=st.booleans())
    def scan(self, family, start, end, reverse, pinned):
        found = self.family(family).items(start, end, reverse=reverse, pinned=pinned)
        rows = [(key, bytes(value)) for key, value in found]
        assert (rows[::-1] if reverse else rows) == below(self.model[family], start, end)

    @rule(family=families, prefix=keys, start=st.none() | keys, end=st.none() | keys)
    def scan_prefix(self, family, prefix, start, end):
        found = list(self.family(family).items(start, end, prefix=prefix))
        assert found == [row for row in below(self.model[family], start, end) if row[0].startswith(prefix)]

    @rule(family=families, wanted=st.lists(keys, max_size=10))
    def multi_get(self, family, wanted):
        assert self.family(family).multi_get(wanted) == [self.model[family].get(key) for key in wanted]

    @invariant()
    def ends_agree(self):
        for name, model in self.model.items():
            rows = sorted(model.items())
            assert self.family(name).first() == (rows[0] if rows else None)
            assert self.family(name).last() == (rows[-1] if rows else None)

    def teardown(self):
        if hasattr(self, "db"):
            self.db.close()
            shutil.rmtree(self.dir)


class PessimisticMachine(Machine):
    transactions = "pessimistic"


class OptimisticMachine(Machine):
    transactions = "optimistic"


TestPlain = Machine.TestCase
TestPessimistic = PessimisticMachine.TestCase
TestOptimistic = OptimisticMachine.TestCase
