"""The face of a dict, and the types of arguments."""

import array

import pytest

import esker


def test_items_are_read_written_and_deleted_as_in_a_dict(db):
    db[b"a"] = b"1"
    assert db[b"a"] == b"1"
    assert b"a" in db and b"b" not in db
    assert db.get(b"b") is None and db.get(b"b", b"no") == b"no"
    with pytest.raises(KeyError, match="b'b'"):
        db[b"b"]
    with pytest.raises(KeyError):
        del db[b"b"]
    del db[b"a"]
    assert b"a" not in db


def test_pop_and_setdefault_do_as_in_a_dict(db):
    assert db.setdefault(b"a", b"1") == b"1"
    assert db.setdefault(b"a", b"2") == b"1"
    assert db.pop(b"a") == b"1"
    assert db.pop(b"a", None) is None
    assert db.pop(b"a", b"x") == b"x"
    with pytest.raises(KeyError):
        db.pop(b"a")
    with pytest.raises(TypeError):
        db.pop(b"a", 1, 2)
    with pytest.raises(TypeError):
        db.setdefault(b"a", None)


def test_update_takes_a_mapping_pairs_or_a_database(db, tmp_path):
    db.update({b"a": b"1"})
    db.update([(b"b", b"2"), (bytearray(b"c"), memoryview(b"3"))])
    with esker.open(tmp_path / "other") as other:
        other.update(db)
        assert dict(other.items()) == {b"a": b"1", b"b": b"2", b"c": b"3"}
    before = db.latest_sequence_number
    with pytest.raises(TypeError):
        db.update([(b"d", b"4"), (b"e", "5")])
    assert db.latest_sequence_number == before


def test_ranges_run_both_ways_and_ends_are_exclusive(db):
    keys = [b"%02d" % n for n in range(20)]
    db.update([(key, key * 2) for key in keys])
    assert list(db) == keys
    assert list(db.keys(reverse=True)) == keys[::-1]
    assert list(db.keys(b"05", b"10")) == keys[5:10]
    assert list(db.keys(b"05", b"10", reverse=True)) == keys[5:10][::-1]
    assert list(db[b"05":b"10"]) == [(key, key * 2) for key in keys[5:10]]
    assert list(db[b"18":]) == [(key, key * 2) for key in keys[18:]]
    assert list(db[:b"02"]) == [(key, key * 2) for key in keys[:2]]
    assert list(db[b"10":b"05"]) == []
    assert list(db.keys(prefix=b"1")) == keys[10:]
    assert list(db.keys(b"15", prefix=b"1", reverse=True)) == keys[15:][::-1]
    assert list(db.keys(end=b"12", prefix=b"1")) == keys[10:12]
    assert list(db.values(b"18")) == [b"1818", b"1919"]
    assert db.first() == (b"00", b"0000") and db.last() == (b"19", b"1919")
    del db[b"00":b"19"]
    assert list(db) == [b"19"]


def test_chunks_end_at_every_size(db):
    db.update([(b"%05d" % n, b"v") for n in range(3000)])
    for count in (0, 1, 7, 8, 9, 40, 41, 168, 2000, 3000):
        assert len(list(db.keys(end=b"%05d" % count))) == count
        assert len(db.items(end=b"%05d" % count).take(5000)) == count
    large = b"x" * 200_000
    db.update([(b"z%d" % n, large) for n in range(20)])
    assert [len(value) for value in db.values(prefix=b"z")] == [len(large)] * 20
    assert list(db.keys(prefix=b"z", reverse=True)) == sorted((b"z%d" % n for n in range(20)), reverse=True)


def test_an_iterator_shows_one_point_in_time(db):
    db.update([(b"%03d" % n, b"old") for n in range(100)])
    items = db.items()
    db[b"000"] = b"new"
    db[b"9999"] = b"new"
    assert set(value for _, value in items) == {b"old"}


def test_wrong_types_are_type_errors_that_say_what_to_pass(db):
    for wrong in ("text", 1, None, 1.5, [1, 2], object()):
        for call in (
            lambda: db[wrong],
            lambda: wrong in db,
            lambda: db.put(wrong, b""),
            lambda: db.put(b"", wrong),
            lambda: db.delete(wrong),
            lambda: db.pop(wrong),
            lambda: db.multi_get([wrong]),
            lambda: db.get_pinned(wrong),
            lambda: db.merge(b"", wrong),
        ):
            with pytest.raises(TypeError):
                call()
    with pytest.raises(TypeError, match="encode"):
        db["text"] = b""
    with pytest.raises(TypeError, match="step"):
        db[::-1]
    with pytest.raises(TypeError):
        db[1:2]
    with pytest.raises(TypeError, match="estimate_num_keys"):
        len(db)
    with pytest.raises(TypeError):
        del db[b"a":]
    assert bool(db)
    assert list(db) == []


def test_buffers_of_all_kinds_are_keys_and_values(db):
    db[bytearray(b"k")] = memoryview(b"value")[1:3]
    assert db[memoryview(b"k")] == b"al"
    with pytest.raises((TypeError, BufferError)):
        db[memoryview(b"abcdef")[::2].cast] = b""
    db[memoryview(b"abcdef")[::2]] = b"strided"
    assert db[b"ace"] == b"strided"
    db[b""] = b""
    assert db[b""] == b"" and b"" in db


def test_pinned_values_are_read_where_they_lie(db):
    db[b"k"] = b"value" * 1000
    db.flush()
    pinned = db.get_pinned(b"k")
    view = memoryview(pinned)
    assert view.readonly and view[:5] == b"value" and len(pinned) == 5000
    assert bytes(pinned) == b"value" * 1000 and pinned == b"value" * 1000
    assert hash(pinned) == hash(b"value" * 1000)
    del pinned
    db.close()
    assert view[4995:] == b"value"
    with pytest.raises(TypeError):
        view[0] = 1


def test_pinned_iteration_gives_the_same_bytes(db):
    db.update([(b"%04d" % n, b"%d" % n) for n in range(500)])
    assert [(k, bytes(v)) for k, v in db.items(pinned=True)] == list(db.items())
    assert [bytes(v) for v in db.values(pinned=True, reverse=True)] == list(db.values(reverse=True))
    assert db.get_pinned(b"absent") is None


def test_multi_get_keeps_the_order_of_its_keys(db):
    db.update({b"a": b"1", b"b": b"2"})
    assert db.multi_get([b"b", b"x", b"a", b"b"]) == [b"2", None, b"1", b"2"]
    assert db.multi_get(iter([b"a"])) == [b"1"]
    assert db.multi_get([]) == []


def test_codecs_store_objects(db):
    users = esker.Coded(db, key="str", value="json")
    users["ada"] = {"born": 1815}
    users.update({"grace": {"born": 1906}})
    assert users["ada"] == {"born": 1815} and "grace" in users and users.get("x") is None
    assert list(users.items("b")) == [("grace", {"born": 1906})]
    assert users.setdefault("ada", {}) == {"born": 1815}
    assert users.pop("ada") == {"born": 1815} and users.pop("ada", 0) == 0
    with pytest.raises(KeyError, match="ada"):
        users["ada"]
    assert db[b"grace"] == b'{"born":1906}'
    counts = esker.Coded(db, key="uint64", value="pickle")
    counts[2] = (1, "x")
    counts[10] = None
    assert list(counts.keys(0, 100)) == [2, 10] and counts[10] is None and counts.multi_get([2, 3]) == [(1, "x"), None]
    with pytest.raises(ValueError, match="codec"):
        esker.Coded(db, key="utf7")
    with db.batch() as batch:
        users.over(batch).put("mary", {"born": 1780})
    assert users["mary"] == {"born": 1780}


def test_keys_and_values_are_buffers_of_any_items(db):
    numbers = array.array("I", [1, 2])
    grid = memoryview(bytes(range(6))).cast("B", (2, 3))
    for buffer in (numbers, memoryview(b"abc").cast("b"), memoryview(numbers), memoryview(b"abcd")[::2], grid):
        db[buffer] = buffer
        expected = memoryview(buffer).tobytes()
        assert db[expected] == expected and db.get(buffer) == expected
    released = memoryview(b"a")
    released.release()
    with pytest.raises(ValueError, match="released"):
        db[released]
    for wrong in (1, None, [b"a"]):
        with pytest.raises(TypeError, match="bytes-like"):
            db[wrong] = b""
