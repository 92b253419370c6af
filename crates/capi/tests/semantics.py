"""What functions of the C API do where a client could see a difference, as lines to compare.

In: the path of a library, an empty directory. Out: one line for each case. The lines of Esker's
library and of RocksDB's are the same.
"""

import ctypes
import os
import re
import shutil
import sys

lib = ctypes.CDLL(sys.argv[1])
ROOT = sys.argv[2]
SURFACE = os.path.join(os.path.dirname(__file__), "../../capi-surface/surface.txt")
POINTER, SIZE = ctypes.c_void_p, ctypes.c_size_t
NUMBERS = {
    "bool": ctypes.c_bool,
    "double": ctypes.c_double,
    "int": ctypes.c_int,
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "size_t": SIZE,
    "uint32_t": ctypes.c_uint32,
    "uint64_t": ctypes.c_uint64,
    "unsigned char": ctypes.c_ubyte,
}
for name in (
    "options_create writeoptions_create readoptions_create flushoptions_create open "
    "open_column_families open_for_read_only_column_families list_column_families get_cf "
    "create_default_env cache_create_lru backup_engine_options_create backup_engine_open_opts "
    "create_backup_options_create restore_options_create backup_engine_get_backup_info "
    "optimistictransactiondb_open optimistictransactiondb_get_base_db "
    "optimistictransaction_options_create optimistictransaction_begin writebatch_create_from "
    "writebatch_data envoptions_create sstfilewriter_create block_based_options_create "
    "get_default_column_family_handle"
).split():
    getattr(lib, "rocksdb_" + name).restype = POINTER
EXCLUDE = ctypes.CFUNCTYPE(ctypes.c_ubyte, POINTER, POINTER, SIZE)


def call(name, *arguments):
    """Calls `rocksdb_NAME`, which takes `errptr` last."""
    error = POINTER()
    result = getattr(lib, "rocksdb_" + name)(*arguments, ctypes.byref(error))
    if error.value:
        message = ctypes.string_at(error.value).decode()
        lib.rocksdb_free(error)
        raise RuntimeError(message)
    return POINTER(result)


def outcome(function, *arguments):
    """`ok`, or the kind of the error."""
    try:
        function(*arguments)
        return "ok"
    except RuntimeError as error:
        return str(error).split(":")[0]


def made(name, *arguments):
    return POINTER(getattr(lib, "rocksdb_" + name)(*arguments))


def path(name):
    return os.path.join(ROOT, name)


def options(**values):
    made_options = made("options_create")
    for name, value in values.items():
        getattr(lib, "rocksdb_options_set_" + name)(made_options, value)
    return made_options


def open_families(name, db_options, names, read_only=False):
    """Opens a database. Returns it with the handles of its families."""
    count = len(names)
    texts = (ctypes.c_char_p * count)(*[text.encode() for text in names])
    each = (POINTER * count)(*[made("options_create") for _ in names])
    handles = (POINTER * count)()
    arguments = [db_options, name.encode(), count, texts, each, handles]
    if read_only:
        db = call("open_for_read_only_column_families", *arguments, 0)
    else:
        db = call("open_column_families", *arguments)
    return db, [POINTER(handle) for handle in handles]


def close(db, handles):
    for handle in handles:
        lib.rocksdb_column_family_handle_destroy(handle)
    lib.rocksdb_close(db)


def put(db, family, key, writes=None):
    size = SIZE(len(key))
    call("put_cf", db, writes or made("writeoptions_create"), family, key, size, key, size)


def has(db, family, key):
    length = SIZE()
    reads = made("readoptions_create")
    value = call("get_cf", db, reads, family, key, SIZE(len(key)), ctypes.byref(length))
    lib.rocksdb_free(value)
    return bool(value.value)


def families(name):
    count = SIZE()
    names = call("list_column_families", made("options_create"), name.encode(), ctypes.byref(count))
    texts = ctypes.cast(names, ctypes.POINTER(ctypes.c_char_p))
    return [texts[at].decode() for at in range(count.value)]


def missing_families():
    """Families that an open names and that do not exist."""
    for exists in (False, True):
        for if_missing in (0, 1):
            for missing in (0, 1):
                name = path(f"missing-{int(exists)}{if_missing}{missing}")
                if exists:
                    close(call("open", options(create_if_missing=1), name.encode()), [])
                set_options = options(create_if_missing=if_missing, create_missing_column_families=missing)
                opened = outcome(lambda: close(*open_families(name, set_options, ["default", "other"])))
                print(f"missing family: exists {exists}, {if_missing}, {missing}: {opened}")
                if opened == "ok":
                    print("  families", families(name))


def load(name, ignore):
    """Loads the options of a database. Returns the kind of the error, and what is given."""
    db_options, count, names, each = POINTER(1), SIZE(7), POINTER(1), POINTER(1)
    references = [ctypes.byref(place) for place in (db_options, count, names, each)]
    loaded = outcome(
        lambda: call(
            "load_latest_options",
            name.encode(),
            made("create_default_env"),
            ctypes.c_bool(ignore),
            made("cache_create_lru", SIZE(1 << 20)),
            *references,
        )
    )
    given = [bool(place.value) for place in (db_options, names, each)]
    return loaded, given, count.value


def unknown_options():
    """OPTIONS files with names that no release knows, and with former names."""
    name = path("options")
    close(call("open", options(create_if_missing=1), name.encode()), [])
    file = max(file for file in os.listdir(name) if file.startswith("OPTIONS-"))
    file = os.path.join(name, file)
    text = open(file).read()
    cases = {
        "nothing": (r"$^", ""),
        "database": (r"\[DBOptions\]", r"\g<0>\n  from_the_future=1"),
        "family": (r'\[CFOptions "default"\]', r"\g<0>\n  from_the_future=1"),
        "table": (r'\[TableOptions/BlockBasedTable "default"\]', r"\g<0>\n  from_the_future=1"),
        "field": (
            r'\[CFOptions "default"\]',
            r"\g<0>\n  compaction_options_fifo={max_table_files_size=9;from_the_future=1;}",
        ),
        "former": (r'\[CFOptions "default"\]', r"\g<0>\n  purge_redundant_kvs_while_flush=true"),
    }
    for case, (pattern, replacement) in cases.items():
        for release in ("7.8.3", "11.8.1", "11.8.2", "12.0.0"):
            changed = re.sub(r"rocksdb_version=.*", "rocksdb_version=" + release, text)
            if case == "field":
                changed = re.sub(r"\n *compaction_options_fifo=.*", "", changed)
            with open(file, "w") as target:
                target.write(re.sub(pattern, replacement, changed))
            for ignore in (False, True):
                print(f"unknown option: {case}, {release}, ignore {ignore}: {load(name, ignore)}")


def survivors(name, begin):
    """The families that have their key, after a crash at each byte of the MANIFEST from `begin` on."""
    manifest = max(file for file in os.listdir(name) if file.startswith("MANIFEST-"))
    crashed, seen = path("crashed"), set()
    for end in range(begin, os.path.getsize(os.path.join(name, manifest)) + 1):
        shutil.rmtree(crashed, ignore_errors=True)
        shutil.copytree(name, crashed)
        os.truncate(os.path.join(crashed, manifest), end)
        db, handles = open_families(crashed, options(), ["default", "other"], read_only=True)
        seen.add(tuple(has(db, handle, b"key") for handle in handles))
        close(db, handles)
    shutil.rmtree(crashed)
    return sorted(seen)


def atomic_flushes():
    """Which of two families are flushed if the process dies during a flush of both."""
    for forced in (0, 1):
        name = path(f"flush-{forced}")
        set_options = options(create_if_missing=1, create_missing_column_families=1)
        db, handles = open_families(name, set_options, ["default", "other"])
        manifest = max(file for file in os.listdir(name) if file.startswith("MANIFEST-"))
        begin = os.path.getsize(os.path.join(name, manifest))
        unlogged = made("writeoptions_create")
        lib.rocksdb_writeoptions_disable_WAL(unlogged, 1)
        for handle in handles:
            put(db, handle, b"key", unlogged)
        how = made("flushoptions_create")
        lib.rocksdb_flushoptions_set_force_atomic_flush(how, forced)
        print("flush: forced", lib.rocksdb_flushoptions_get_force_atomic_flush(how))
        call("flush_cfs", db, how, (POINTER * 2)(*handles), 2)
        print("  survivors", survivors(name, begin))
        close(db, handles)


def restore(engine, backup, target):
    name = path(target).encode()
    restored = outcome(
        lambda: call(
            "backup_engine_restore_db_from_backup", engine, name, name, made("restore_options_create"), backup
        )
    )
    if restored != "ok":
        return restored
    db, handles = open_families(path(target), options(), ["default"])
    found = [has(db, handles[0], key) for key in (b"key0", b"key1")]
    close(db, handles)
    return found


def excluded_files():
    """Backups that leave out tables, and their restores."""
    name = path("backed-up")
    db, handles = open_families(name, options(create_if_missing=1), ["default"])
    how = made("create_backup_options_create")
    lib.rocksdb_create_backup_options_set_flush_before_backup(how, 1)
    asked = []

    def exclude(_state, text, length):
        asked.append(ctypes.string_at(text, length).decode())
        return 1

    callback = EXCLUDE(exclude)
    for schema in (0, 1, 2, 3):
        backups = path(f"backups-{schema}")
        engine_options = made("backup_engine_options_create", backups.encode())
        lib.rocksdb_backup_engine_options_set_schema_version(engine_options, schema)
        engine = call("backup_engine_open_opts", engine_options, made("create_default_env"))
        put(db, handles[0], b"key0")
        call("flush_cf", db, made("flushoptions_create"), handles[0])
        for excludes in (True, False, True):
            lib.rocksdb_create_backup_options_set_exclude_files_callback(
                how, None, callback if excludes else EXCLUDE()
            )
            asked.clear()
            backup = ctypes.c_uint32()
            create = ["backup_engine_create_new_backup_with_options", engine, db, how, ctypes.byref(backup)]
            created = outcome(call, *create)
            print(f"backup: schema {schema}, excludes {excludes}: {created}")
            if created == "ok":
                print("  asked", sorted(re.sub(r"/\d+_s\w+_\d+", "/N_S_B", text) for text in asked))
            info = made("backup_engine_get_backup_info", engine)
            for at in range(lib.rocksdb_backup_engine_info_count(info)):
                files = lib.rocksdb_backup_engine_info_number_files(info, at)
                target = f"restored-{schema}-{excludes}-{at}"
                print(f"  backup {at} of {files} files, restored", restore(engine, at + 1, target))
            lib.rocksdb_backup_engine_info_destroy(info)
        lib.rocksdb_backup_engine_close(engine)
    put(db, handles[0], b"key1")
    close(db, handles)


def transactions_used_again():
    """Optimistic transactions that are used after a commit, a conflict and a rollback."""
    name = path("optimistic").encode()
    db = call("optimistictransactiondb_open", options(create_if_missing=1), name)
    base = made("optimistictransactiondb_get_base_db", db)
    family = made("get_default_column_family_handle", base)
    how = made("optimistictransaction_options_create")
    begin = ["optimistictransaction_begin", db, made("writeoptions_create"), how, None]
    txn, other = made(*begin), made(*begin)

    def put_in(which, key):
        return outcome(call, "transaction_put", which, key, SIZE(len(key)), b"v", SIZE(1))

    def end(which, how_it_ends):
        return outcome(call, "transaction_" + how_it_ends, which)

    for key in (b"a", b"b"):
        print("transaction: put, commit", put_in(txn, key), end(txn, "commit"), has(base, family, key))
    print("transaction: rollback", end(txn, "rollback"), put_in(txn, b"c"), put_in(other, b"c"))
    print("transaction: conflict", end(other, "commit"), end(txn, "commit"), end(txn, "commit"))
    print("transaction: rollback", end(txn, "rollback"), put_in(txn, b"d"), end(txn, "commit"))
    print("  found", [key for key in (b"a", b"b", b"c", b"d") if has(base, family, key)])
    for which in (txn, other):
        lib.rocksdb_transaction_destroy(which)
    lib.rocksdb_column_family_handle_destroy(family)
    lib.rocksdb_optimistictransactiondb_close_base_db(base)
    lib.rocksdb_optimistictransactiondb_close(db)


def bytes_of_batches():
    """Batches that are made from bytes, each written to a database of its own."""
    head = bytes(8)
    cases = {
        "none": b"",
        "a short head": bytes(11),
        "a head": bytes(12),
        "a count without a change": head + b"\1\0\0\0",
        "a put": head + b"\1\0\0\0\1\1k\1v",
        "a put cut short": head + b"\1\0\0\0\1\1k\1",
        "two puts counted as one": head + b"\1\0\0\0\1\1k\1v\1\1k\1w",
        "an unknown tag": head + b"\1\0\0\0\x77\1k\1v",
        "a count of minus one": head + b"\xff\xff\xff\xff\1\1k\1v",
    }
    for at, (case, rep) in enumerate(cases.items()):
        db, handles = open_families(path(f"batch-{at}"), options(create_if_missing=1), ["default"])
        batch = made("writebatch_create_from", rep, SIZE(len(rep)))
        size = SIZE()
        data = made("writebatch_data", batch, ctypes.byref(size))
        kept = ctypes.string_at(data, size.value) == rep
        count = lib.rocksdb_writebatch_count(batch) if len(rep) >= 12 else None
        written = outcome(call, "write", db, made("writeoptions_create"), batch)
        print(f"batch: {case}: kept {kept}, count {count}, {written}, has {has(db, handles[0], b'k')}")
        lib.rocksdb_writebatch_destroy(batch)
        close(db, handles)


def timestamps_of_tables():
    """Tables for ingestion whose keys have no timestamps."""
    writer = made("sstfilewriter_create", made("envoptions_create"), options())
    call("sstfilewriter_open", writer, path("table.sst").encode())
    for key, timestamp in ((b"a", b""), (b"b", b"tst"), (b"c", b"tstststs")):
        arguments = [key, SIZE(1), timestamp, SIZE(len(timestamp)), b"v", SIZE(1)]
        print("table: timestamp", timestamp, outcome(call, "sstfilewriter_put_with_ts", writer, *arguments))
        print("  without", outcome(call, "sstfilewriter_put", writer, key + b"0", SIZE(2), b"v", SIZE(1)))
    lib.rocksdb_sstfilewriter_destroy(writer)


def places_without_options():
    """Options of directories that are missing, empty, no directories, or cannot be listed."""
    os.mkdir(path("empty"))
    open(path("file"), "w").close()
    os.symlink("loop", path("loop"))
    for place in ("missing", "empty", "file", "loop", "long" * 100):
        print("options of what is", place, load(path(place), False))


def defaults():
    """The numbers that getters give of new objects. Threads of an environment are left out."""
    pattern = r"^(?:8\.1|8\.10|10\.4|11\.8)-(?:11\.8)? (.+?) (rocksdb_\w+)\((.*)\);$"
    declared = re.findall(pattern, open(SURFACE).read(), re.MULTILINE)
    objects = {
        result.rstrip("*"): name
        for result, name, parameters in declared
        if result.endswith("_t*") and name.endswith("_create") and parameters in ("", "void")
    }
    for result, getter, parameters in declared:
        kind = re.fullmatch(r"(?:const )?(rocksdb_\w+_t)\*(?: const)?(?: \w+)?", parameters)
        if result in NUMBERS and kind and kind[1] in objects and re.search("_(get|is|has)_", getter):
            create, get = getattr(lib, objects[kind[1]]), getattr(lib, getter)
            create.restype, get.restype = POINTER, NUMBERS[result]
            print("default:", getter, get(POINTER(create())))


def least_numbers():
    """Numbers below the least that an option of tables can have."""
    for option in ("block_size", "block_restart_interval", "index_block_restart_interval", "format_version"):
        name = path("least-" + option)
        table, db_options = made("block_based_options_create"), options(create_if_missing=1)
        value = SIZE(0) if option == "block_size" else 0
        getattr(lib, "rocksdb_block_based_options_set_" + option)(table, value)
        lib.rocksdb_options_set_block_based_table_factory(db_options, table)
        opened = outcome(lambda: close(call("open", db_options, name.encode()), []))
        print("least:", option, opened)


missing_families()
transactions_used_again()
bytes_of_batches()
timestamps_of_tables()
places_without_options()
defaults()
least_numbers()
unknown_options()
atomic_flushes()
excluded_files()
