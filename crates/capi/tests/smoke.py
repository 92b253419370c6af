"""A round trip through the C API from Python: open, write, read, iterate, reopen.

In: the path of the library, a directory that keeps the database. Out: one line; an exception if an answer is wrong.
"""

import ctypes
import sys

lib = ctypes.CDLL(sys.argv[1])
POINTER = ctypes.c_void_p
for name in (
    "options_create writeoptions_create readoptions_create open create_iterator writebatch_create "
    "iter_key iter_value get"
).split():
    getattr(lib, "rocksdb_" + name).restype = POINTER
lib.rocksdb_iter_valid.restype = ctypes.c_ubyte


def call(name, *arguments):
    """Calls a function that takes `errptr` last."""
    error = ctypes.c_void_p()
    result = getattr(lib, name)(*arguments, ctypes.byref(error))
    if error.value:
        message = ctypes.string_at(error.value).decode()
        lib.rocksdb_free(error)
        raise RuntimeError(message)
    return result


def pointer(value):
    return POINTER(value)


def text(function, iterator):
    length = ctypes.c_size_t()
    data = function(pointer(iterator), ctypes.byref(length))
    return ctypes.string_at(data, length.value)


path = sys.argv[2]
options = lib.rocksdb_options_create()
lib.rocksdb_options_set_create_if_missing(pointer(options), 1)
writes, reads = lib.rocksdb_writeoptions_create(), lib.rocksdb_readoptions_create()
db = call("rocksdb_open", pointer(options), path.encode())
for key in range(1000):
    name = b"%04d" % key
    size = ctypes.c_size_t(len(name))
    call("rocksdb_put", pointer(db), pointer(writes), name, size, name, size)
lib.rocksdb_close(pointer(db))

db = call("rocksdb_open", pointer(options), path.encode())
length = ctypes.c_size_t()
value = call(
    "rocksdb_get", pointer(db), pointer(reads), b"0042", ctypes.c_size_t(4), ctypes.byref(length)
)
assert ctypes.string_at(value, length.value) == b"0042"
lib.rocksdb_free(pointer(value))
iterator = lib.rocksdb_create_iterator(pointer(db), pointer(reads))
lib.rocksdb_iter_seek_to_first(pointer(iterator))
seen = 0
while lib.rocksdb_iter_valid(pointer(iterator)):
    assert text(lib.rocksdb_iter_key, iterator) == b"%04d" % seen
    seen += 1
    lib.rocksdb_iter_next(pointer(iterator))
assert seen == 1000, seen
lib.rocksdb_iter_destroy(pointer(iterator))
lib.rocksdb_close(pointer(db))
try:
    call("rocksdb_open", pointer(options), b"/proc/no/such/place")
    raise AssertionError("a database was opened below /proc")
except RuntimeError as error:
    assert "IO error" in str(error), error
lib.rocksdb_readoptions_destroy(pointer(reads))
lib.rocksdb_writeoptions_destroy(pointer(writes))
lib.rocksdb_options_destroy(pointer(options))
print("ctypes: 1000 entries written, reopened, read")
