"""Opening, families, options, maintenance, backups."""

import pickle
import shutil
import subprocess

import pytest

import esker


def test_options_have_rocksdbs_names_and_python_values(path):
    with esker.open(
        path,
        write_buffer_size=1 << 20,
        compression="kLZ4Compression",
        max_open_files=100,
        block_size=8192,
        filter_policy="bloomfilter:10:false",
        block_cache=esker.BlockCache(1 << 20),
        compaction_options_universal={"size_ratio": 5, "max_size_amplification_percent": 150},
        paranoid_checks=True,
    ) as db:
        options = db.options()
        assert options["write_buffer_size"] == "1048576" and options["compression"] == "kLZ4Compression"
        assert options["block_size"] == "8192" and "size_ratio=5" in options["compaction_options_universal"]
        assert db.db_options()["max_open_files"] == "100"
        db.set_options(write_buffer_size=2 << 20)
        assert db.options()["write_buffer_size"] == "2097152"
        db.set_db_options(max_background_jobs=3)
        with pytest.raises(esker.InvalidArgument, match="num_levels"):
            db.set_options(num_levels=3)
    with esker.open(path) as db:
        assert db.options()["write_buffer_size"] == "2097152"
    with esker.open(path, load_options=False) as db:
        assert db.options()["write_buffer_size"] == str(64 << 20)
    with esker.open(path, options="write_buffer_size=3m;max_open_files=50", load_options=False) as db:
        assert db.options()["write_buffer_size"] == str(3 << 20) and db.db_options()["max_open_files"] == "50"
    newest = max(path.glob("OPTIONS-*"))
    with esker.open(path.parent / "other", options_file=newest) as db:
        assert db.options()["write_buffer_size"] == str(3 << 20)


def test_wrong_options_name_themselves(path):
    for wrong, words in [
        ({"write_bufer_size": 1}, "write_buffer_size"),
        ({"write_buffer_size": "much"}, "write_buffer_size"),
        ({"compression": "kLZ5"}, "kLZ5"),
        ({"block_size": 0}, "block_size"),
        ({"a=b;c": 1}, "a=b;c"),
        ({"families": {"users": {"nonsense": 1}}}, "nonsense"),
    ]:
        with pytest.raises(esker.InvalidArgument, match=words):
            esker.open(path, **wrong)
    for wrong in (
        {"write_buffer_size": object()},
        {"merge_operator": len},
        {"comparator": 5},
        {"compaction_filter": object()},
        {"families": ["users"]},
        {"families": {"users": 1}},
        {"families": {1: {}}},
        {"mode": "secondary"},
        {"secondary_path": "x"},
        {"transaction_options": {}},
        {"transactions": "pessimistic", "transaction_options": {"x": 1}},
    ):
        with pytest.raises(TypeError):
            esker.open(path, **wrong)
    for wrong in ({"mode": "w"}, {"transactions": "yes"}, {"mode": "r", "transactions": "optimistic"}):
        with pytest.raises(ValueError):
            esker.open(path, **wrong)
    with pytest.raises(esker.InvalidArgument):
        esker.open(path, create_if_missing=False)
    with pytest.raises(TypeError):
        esker.open()
    with pytest.raises(TypeError):
        esker.open(None)


def test_families_open_by_themselves(path):
    with esker.open(path, families={"users": {"write_buffer_size": 1 << 20}}) as db:
        users = db.cf("users")
        users[b"ada"] = b"1815"
        db.create_cf("orders")[b"1"] = b"shovel"
        assert sorted(db.column_families()) == ["default", "orders", "users"] and list(db) == []
        with pytest.raises(esker.InvalidArgument):
            db.create_cf("users")
        with pytest.raises(esker.NotFound, match="nobody"):
            db.cf("nobody")
    assert sorted(esker.list_column_families(path)) == ["default", "orders", "users"]
    with esker.open(path) as db:
        assert db.cf("users")[b"ada"] == b"1815" and db.cf("users").options()["write_buffer_size"] == "1048576"
        orders = db.cf("orders")
        db.drop_cf("orders")
        with pytest.raises(esker.ColumnFamilyDropped):
            orders[b"2"] = b""
        with pytest.raises(esker.NotFound):
            db.cf("orders")


def test_read_only_and_secondary_follow_a_writer(path, tmp_path):
    with esker.open(path) as db:
        db[b"a"] = b"1"
        with esker.open(path, mode="r") as reader:
            assert reader[b"a"] == b"1"
            with pytest.raises(esker.NotSupported):
                reader[b"b"] = b"2"
        with esker.open(path, mode="secondary", secondary_path=tmp_path / "second") as secondary:
            db[b"b"] = b"2"
            assert secondary.get(b"b") is None
            secondary.try_catch_up_with_primary()
            assert secondary[b"b"] == b"2"
        with pytest.raises(esker.IoError, match="LOCK"):
            esker.open(path)


def test_a_closed_database_gives_a_clear_error(path):
    db = esker.open(path, families={"users": {}})
    db.update([(b"%d" % n, b"v") for n in range(100)])
    users, snapshot, items, batch = db.cf("users"), db.snapshot(), db.items(), db.batch()
    next(items)
    batch[b"x"] = b"y"
    db.close()
    db.close()
    assert db.closed and "closed" in repr(db)
    for call in (
        lambda: db[b"1"],
        lambda: db.put(b"1", b""),
        lambda: db.items(),
        lambda: users.get(b"1"),
        lambda: snapshot[b"1"],
        lambda: snapshot.cf("users"),
        lambda: next(items),
        lambda: batch.write(),
        lambda: db.flush(),
        lambda: db.snapshot(),
        lambda: db.cf("users"),
        lambda: db.statistics(),
        lambda: db.multi_get([b"1"]),
        lambda: db.checkpoint("x"),
    ):
        with pytest.raises(esker.Closed, match="is closed") as raised:
            call()
        assert raised.value.code == "ShutdownInProgress" and isinstance(raised.value, esker.Error)
    snapshot.release()
    items.close()
    with esker.open(path) as again:
        assert again[b"1"] == b"v"


def test_a_released_snapshot_gives_a_clear_error(db):
    db[b"a"] = b"1"
    with db.snapshot() as snapshot:
        db[b"a"] = b"2"
        assert snapshot[b"a"] == b"1" and snapshot.sequence_number < db.latest_sequence_number
        assert snapshot.multi_get([b"a"]) == [b"1"]
        rest = snapshot.items()
    with pytest.raises(esker.Closed, match="snapshot"):
        snapshot[b"a"]
    assert list(rest) == [(b"a", b"1")]


def test_batches_are_written_or_discarded_as_a_whole(db):
    with pytest.raises(ZeroDivisionError):
        with db.batch() as batch:
            batch[b"a"] = b"1"
            1 / 0
    assert b"a" not in db and len(batch) == 0
    batch = db.batch(sync=True)
    batch.put(b"a", b"1")
    batch.set_save_point()
    batch.delete(b"a")
    batch.delete_range(b"x", b"z")
    batch.rollback_to_save_point()
    assert len(batch) == 1 and batch.data_size > 12
    batch.write()
    assert db[b"a"] == b"1" and len(batch) == 0
    batch.write()
    with pytest.raises(esker.NotFound):
        batch.rollback_to_save_point()
    with pytest.raises(TypeError, match="transaction"):
        b"a" in batch


def test_errors_carry_code_subcode_and_message(path):
    with pytest.raises(esker.Error) as raised:
        esker.open(path, mode="r")
    error = raised.value
    assert error.code == type(error).__name__ and str(path) in error.message
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), copy.code, copy.subcode, copy.message) == (
        type(error),
        error.code,
        error.subcode,
        error.message,
    )
    assert issubclass(esker.Deadlock, esker.Busy) and issubclass(esker.InvalidArgument, ValueError)


def test_damage_is_a_corruption_that_names_the_file(path):
    with esker.open(path, compression="kNoCompression") as db:
        db[b"a"] = b"x" * 10_000
        db.flush()
        name = db.live_files()[0]["name"].lstrip("/")
    table = path / name
    bytes_ = bytearray(table.read_bytes())
    bytes_[5000] ^= 1
    table.write_bytes(bytes_)
    with esker.open(path) as db:
        with pytest.raises(esker.Corruption, match=name):
            db[b"a"]
        with pytest.raises(esker.Corruption, match=name):
            list(db.items())
        with pytest.raises(esker.Corruption, match=name):
            db.verify_checksum()


def test_checkpoints_and_backups_open_as_databases(db, tmp_path):
    db[b"a"] = b"1"
    assert db.checkpoint(tmp_path / "copy") > 0
    with pytest.raises(esker.InvalidArgument):
        db.checkpoint(tmp_path / "copy")
    with esker.open(tmp_path / "copy") as copy:
        assert copy[b"a"] == b"1"
    backups = esker.BackupEngine(tmp_path / "backups")
    first = backups.create(db, metadata=b"first")
    db[b"a"] = b"2"
    second = backups.create(db, flush=True)
    assert [info["backup_id"] for info in backups.infos()] == [first, second]
    assert backups.infos()[0]["metadata"] == b"first"
    backups.verify(second, checksums=True)
    backups.restore(tmp_path / "restored")
    backups.restore(tmp_path / "older", backup_id=first)
    with esker.open(tmp_path / "restored") as restored, esker.open(tmp_path / "older") as older:
        assert restored[b"a"] == b"2" and older[b"a"] == b"1"
    backups.purge_old(1)
    with pytest.raises(esker.NotFound):
        backups.verify(first)
    with pytest.raises(TypeError):
        backups.create("db")


def test_explanations_statistics_and_properties_are_data(path):
    with esker.open(path, statistics=True) as db:
        db.update([(b"%03d" % n, b"v" * 100) for n in range(500)])
        db.flush()
        explained = db.explain_get(b"100")
        assert explained["operation"] == "get" and explained["keys"][0]["steps"]
        assert "100" in explained["text"]
        scan = db.explain_scan(b"100", rows=5)
        assert scan["scan"]["rows"] == 5
        statistics = db.statistics()
        assert statistics["rocksdb.number.keys.written"] == 500
        assert isinstance(db.property("rocksdb.stats"), str) and db.property("rocksdb.nonsense") is None
        assert db.int_property("rocksdb.estimate-num-keys") == 500 == db.estimate_num_keys()
        assert isinstance(db.map_property("rocksdb.cfstats"), dict)
        assert db.live_files()[0]["smallest_key"] == b"000"
        assert db.approximate_size(b"000", b"999") > 0


def test_directories_are_listed_repaired_and_destroyed(path):
    with esker.open(path) as db:
        db[b"a"] = b"1"
        db.flush()
        with pytest.raises(esker.IoError):
            esker.destroy(path)
    for manifest in path.glob("MANIFEST-*"):
        manifest.unlink()
    with pytest.raises(esker.Error):
        esker.open(path)
    esker.repair(path)
    with esker.open(path) as db:
        assert db[b"a"] == b"1"
    esker.destroy(path)
    # The repair's directory of replaced files is not the database's.
    assert {left.name for left in path.glob("*")} <= {"lost"}


@pytest.mark.skipif(shutil.which("ldb") is None, reason="the real RocksDB's ldb is not installed (.ci/fetch-peers)")
def test_the_real_ldb_reads_what_python_wrote_and_the_other_way_round(path):
    def ldb(*args):
        done = subprocess.run(["ldb", f"--db={path}", *args], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    with esker.open(path, families={"users": {}}) as db:
        db.update([(b"key%03d" % n, b"value%d" % n) for n in range(200)])
        db.cf("users")[b"ada"] = b"1815"
        db.flush()
        db[b"unflushed"] = b"in the WAL"
    assert ldb("get", "key007").strip() == "value7"
    assert ldb("get", "unflushed").strip() == "in the WAL"
    assert ldb("--column_family=users", "get", "ada").strip() == "1815"
    ldb("put", "from", "ldb")
    ldb("--column_family=users", "put", "grace", "1906")
    with esker.open(path) as db:
        assert db[b"from"] == b"ldb" and db.cf("users")[b"grace"] == b"1906"
        assert db.estimate_num_keys() >= 200 and len(list(db)) == 202


def test_options_as_text_are_for_every_family_at_every_open(path):
    def sizes(db):
        return [family.options()["write_buffer_size"] for family in (db, db.cf("names"), db.cf("own"))]

    with esker.open(path, families={"names": {}, "own": {"write_buffer_size": 3 << 20}}) as db:
        assert sizes(db) == [str(64 << 20), str(64 << 20), str(3 << 20)]
    for _ in range(2):
        families = {"own": {"write_buffer_size": 3 << 20}}
        with esker.open(path, options="write_buffer_size=1048576;max_open_files=100", families=families) as db:
            assert sizes(db) == [str(1 << 20), str(1 << 20), str(3 << 20)]
            assert db.db_options()["max_open_files"] == "100"
    with esker.open(path, options="write_buffer_size=1048576", write_buffer_size=2 << 20) as db:
        assert sizes(db) == [str(2 << 20)] * 3
