//! Wrong arguments: NULL with a length for an array, a key or a value, and column families of
//! another database. The build script generates at least one call for each of these parameters.

use super::*;
use libc::{c_int, c_uchar, c_void};
use std::cell::UnsafeCell;
use std::ptr::{null, null_mut};

/// A call with a wrong argument in the place of `parameter`.
struct WrongCall {
    function: &'static str,
    parameter: &'static str,
    /// Whether the function reports errors.
    has_errors: bool,
    /// Makes the call. Returns whether the answer is empty ([`Answer`]).
    call: fn(&Fixture) -> bool,
}

/// Parameters that may be NULL with any length. In `c.h` their NULL means "none", or no buffer for
/// the answer.
const NULL_MEANS_NONE: [(&str, &str); 27] = [
    ("rocksdb_compact_range", "start_key"),
    ("rocksdb_compact_range", "limit_key"),
    ("rocksdb_compact_range_cf", "start_key"),
    ("rocksdb_compact_range_cf", "limit_key"),
    ("rocksdb_compact_range_opt", "start_key"),
    ("rocksdb_compact_range_opt", "limit_key"),
    ("rocksdb_compact_range_cf_opt", "start_key"),
    ("rocksdb_compact_range_cf_opt", "limit_key"),
    ("rocksdb_suggest_compact_range", "start_key"),
    ("rocksdb_suggest_compact_range", "limit_key"),
    ("rocksdb_suggest_compact_range_cf", "start_key"),
    ("rocksdb_suggest_compact_range_cf", "limit_key"),
    ("rocksdb_delete_file_in_range", "start_key"),
    ("rocksdb_delete_file_in_range", "limit_key"),
    ("rocksdb_delete_file_in_range_cf", "start_key"),
    ("rocksdb_delete_file_in_range_cf", "limit_key"),
    ("rocksdb_readoptions_set_iterate_upper_bound", "key"),
    ("rocksdb_readoptions_set_iterate_lower_bound", "key"),
    ("rocksdb_readoptions_set_timestamp", "ts"),
    ("rocksdb_readoptions_set_iter_start_ts", "ts"),
    ("rocksdb_compactoptions_set_full_history_ts_low", "ts"),
    ("rocksdb_key_may_exist", "timestamp"),
    ("rocksdb_key_may_exist_cf", "timestamp"),
    ("rocksdb_get_into_buffer", "buffer"),
    ("rocksdb_get_into_buffer_cf", "buffer"),
    ("rocksdb_column_family_metadata_options_set_start_key", "key"),
    ("rocksdb_column_family_metadata_options_set_end_key", "key"),
];

/// Functions that store the error in an object. A test below checks them.
const HAVE_TESTS: [&str; 3] =
    ["rocksdb_iter_seek", "rocksdb_iter_seek_for_prev", "rocksdb_batched_multi_get_pinned_cf"];

/// Whether a function accepts a family of any database. A write of the batch, or a replay, refuses
/// the family later.
fn knows_no_database(function: &str) -> bool {
    function.starts_with("rocksdb_column_family_handle_")
        || function.starts_with("rocksdb_writebatch_") && !function.contains("_and_db")
        || function == "rocksdb_new_default_replayer"
}

/// Whether a function makes an iterator, which carries the error.
fn makes_an_iterator(function: &str) -> bool {
    function.contains("create_iterator_cf")
}

/// Defines the objects that one function makes and another destroys.
macro_rules! objects {
    ($($field:ident: $ty:ident = $create:expr, $destroy:ident;)*) => {
        struct Objects {
            $($field: *mut $ty,)*
        }

        impl Objects {
            unsafe fn new() -> Objects {
                Objects { $($field: $create,)* }
            }

            unsafe fn destroy(self) {
                $($destroy(self.$field);)*
            }
        }
    };
}

objects! {
    options: rocksdb_options_t = rocksdb_options_create(), rocksdb_options_destroy;
    table: rocksdb_block_based_table_options_t = rocksdb_block_based_options_create(),
        rocksdb_block_based_options_destroy;
    reads: rocksdb_readoptions_t = rocksdb_readoptions_create(), rocksdb_readoptions_destroy;
    writes: rocksdb_writeoptions_t = rocksdb_writeoptions_create(), rocksdb_writeoptions_destroy;
    compaction: rocksdb_compactoptions_t = rocksdb_compactoptions_create(), rocksdb_compactoptions_destroy;
    sizes: rocksdb_size_approximation_options_t = rocksdb_size_approximation_options_create(),
        rocksdb_size_approximation_options_destroy;
    locking: rocksdb_transactiondb_options_t = rocksdb_transactiondb_options_create(),
        rocksdb_transactiondb_options_destroy;
    optimistic: rocksdb_optimistictransactiondb_options_t = rocksdb_optimistictransactiondb_options_create(),
        rocksdb_optimistictransactiondb_options_destroy;
    begin: rocksdb_transaction_options_t = rocksdb_transaction_options_create(),
        rocksdb_transaction_options_destroy;
    worker: rocksdb_open_and_compact_options_t = rocksdb_open_and_compact_options_create(),
        rocksdb_open_and_compact_options_destroy;
    overrides: rocksdb_compaction_service_options_override_t =
        rocksdb_compaction_service_options_override_create(),
        rocksdb_compaction_service_options_override_destroy;
    file: rocksdb_livefile_t = rocksdb_livefile_create(), rocksdb_livefile_destroy;
    metadata: rocksdb_column_family_metadata_options_t = rocksdb_column_family_metadata_options_create(),
        rocksdb_column_family_metadata_options_destroy;
    batch: rocksdb_writebatch_t = rocksdb_writebatch_create(), rocksdb_writebatch_destroy;
    indexed: rocksdb_writebatch_wi_t = rocksdb_writebatch_wi_create(0, 1), rocksdb_writebatch_wi_destroy;
    flush: rocksdb_flushoptions_t = rocksdb_flushoptions_create(), rocksdb_flushoptions_destroy;
    ingestion: rocksdb_ingestexternalfileoptions_t = rocksdb_ingestexternalfileoptions_create(),
        rocksdb_ingestexternalfileoptions_destroy;
    files: rocksdb_envoptions_t = rocksdb_envoptions_create(), rocksdb_envoptions_destroy;
}

/// Objects of each kind that the calls take.
struct Fixture {
    objects: Objects,
    db: *mut rocksdb_t,
    transactions: *mut rocksdb_transactiondb_t,
    transaction: *mut rocksdb_transaction_t,
    writer: *mut rocksdb_sstfilewriter_t,
    checkpoint: *mut rocksdb_checkpoint_t,
    other: *mut rocksdb_t,
    family: *mut rocksdb_column_family_handle_t,
    /// A family of `other`.
    foreign: [*mut rocksdb_column_family_handle_t; 2],
    families: [*mut rocksdb_column_family_handle_t; 2],
    options_of_families: [*const rocksdb_options_t; 2],
    /// Writable places for the answers of a call.
    places: UnsafeCell<[[usize; 2]; 2]>,
    errors: UnsafeCell<[*mut c_char; 2]>,
}

/// An array of texts. Two statics have this type: one array without NULL, and one with NULL.
struct Pointers([*const c_char; 2]);
// SAFETY: the texts are constants.
unsafe impl Sync for Pointers {}
struct Slices([rocksdb_slice_t; 2]);
// SAFETY: see `Pointers`.
unsafe impl Sync for Slices {}
static TEXTS: Pointers = Pointers([c"000007.sst".as_ptr(); 2]);
static TEXT_AND_NULL: Pointers = Pointers([c"000007.sst".as_ptr(), null()]);
static LENS: [usize; 2] = [2, 2];

impl Fixture {
    unsafe fn new(dir: &esker_testkit::TempDir) -> Fixture {
        let path = |name| CString::new(dir.path().join(name).to_str().unwrap()).unwrap();
        let mut error = null_mut();
        let objects = Objects::new();
        let (options, writes) = (objects.options, objects.writes);
        rocksdb_options_set_create_if_missing(options, 1);
        let db = rocksdb_open(options, path("db").as_ptr(), &mut error);
        let other = rocksdb_open(options, path("other").as_ptr(), &mut error);
        let foreign = rocksdb_get_default_column_family_handle(other);
        rocksdb_put(db, writes, c"key".as_ptr(), 3, c"value".as_ptr(), 5, &mut error);
        let name = path("transactions");
        let transactions = rocksdb_transactiondb_open(options, objects.locking, name.as_ptr(), &mut error);
        let checkpoint = rocksdb_checkpoint_object_create(db, &mut error);
        assert!(error.is_null());
        rocksdb_options_set_create_if_missing(options, 0);
        let family = rocksdb_get_default_column_family_handle(db);
        Fixture {
            db,
            other,
            foreign: [foreign, foreign],
            transactions,
            transaction: rocksdb_transaction_begin(transactions, writes, objects.begin, null_mut()),
            checkpoint,
            writer: rocksdb_sstfilewriter_create(objects.files, options),
            family,
            families: [family, family],
            options_of_families: [options, options],
            objects,
            places: UnsafeCell::default(),
            errors: UnsafeCell::new([null_mut(); 2]),
        }
    }

    unsafe fn destroy(self) {
        rocksdb_sstfilewriter_destroy(self.writer);
        rocksdb_checkpoint_object_destroy(self.checkpoint);
        rocksdb_column_family_handle_destroy(self.family);
        rocksdb_transaction_destroy(self.transaction);
        rocksdb_transactiondb_close(self.transactions);
        rocksdb_column_family_handle_destroy(self.foreign[0]);
        rocksdb_close(self.other);
        rocksdb_close(self.db);
        self.objects.destroy();
    }

    fn null<T: Null>(&self) -> T {
        T::NULL
    }

    /// An array whose second element is NULL.
    fn nulls<T: FromFixture>(&self) -> T {
        T::with_null()
    }

    /// A family of another database, or an array of it.
    fn foreign<T: Families>(&self) -> T {
        T::of(&self.foreign)
    }

    fn argument<T: FromFixture>(&self) -> T {
        T::from(self)
    }

    fn errors(&self) -> *mut *mut c_char {
        self.errors.get().cast()
    }

    /// Frees and returns the messages of a call.
    unsafe fn taken_errors(&self) -> Vec<String> {
        let errors = std::mem::take(&mut *self.errors.get());
        let taken = errors.into_iter().filter(|error| !error.is_null()).map(|error| {
            let text = CStr::from_ptr(error).to_str().unwrap().to_owned();
            rocksdb_free(error.cast());
            text
        });
        taken.collect()
    }

    /// The state that a call may change, as text.
    unsafe fn state(&self) -> String {
        let entries = |db: &esker::Db| db.iter().unwrap().into_iter().count();
        let transactions = rocksdb_transactiondb_get_base_db(self.transactions);
        let entries = (entries(&(*self.db).db), entries(&(*transactions).db));
        rocksdb_transactiondb_close_base_db(transactions);
        let in_transaction = (*self.transaction).with_batch(|batch| batch.len());
        let o = &self.objects;
        let options = (&(*o.options).cf, &*o.table, &*o.reads, &*o.compaction);
        let others = (&*o.batch, &*o.file, &*o.metadata);
        let mut len = 0;
        let in_index = rocksdb_writebatch_wi_data(o.indexed, &mut len);
        let in_index = bytes(in_index, len);
        format!("{entries:?} {in_transaction} {in_index:?} {options:?} {others:?}")
    }
}

/// Types with a value NULL.
trait Null {
    const NULL: Self;
}

impl<T> Null for *const T {
    const NULL: *const T = null();
}

impl<T> Null for *mut T {
    const NULL: *mut T = null_mut();
}

/// A family, or an array of families.
trait Families {
    fn of(families: &[*mut rocksdb_column_family_handle_t; 2]) -> Self;
}

impl Families for *mut rocksdb_column_family_handle_t {
    fn of(families: &[*mut rocksdb_column_family_handle_t; 2]) -> Self {
        families[0]
    }
}

impl Families for *mut *mut rocksdb_column_family_handle_t {
    fn of(families: &[*mut rocksdb_column_family_handle_t; 2]) -> Self {
        families.as_ptr().cast_mut()
    }
}

impl Families for *const *const rocksdb_column_family_handle_t {
    fn of(families: &[*mut rocksdb_column_family_handle_t; 2]) -> Self {
        families.as_ptr().cast()
    }
}

/// Types of parameters. The fixture has a good argument for each.
trait FromFixture: Sized {
    fn from(f: &Fixture) -> Self;

    fn with_null() -> Self {
        panic!("no array");
    }
}

macro_rules! arguments {
    ($($ty:ty: |$f:ident| $argument:expr;)*) => {$(
        impl FromFixture for $ty {
            fn from($f: &Fixture) -> $ty {
                $argument
            }
        }
    )*};
}

arguments! {
    *mut rocksdb_t: |f| f.db;
    *mut rocksdb_transactiondb_t: |f| f.transactions;
    *mut rocksdb_transaction_t: |f| f.transaction;
    *mut rocksdb_options_t: |f| f.objects.options;
    *const rocksdb_options_t: |f| f.objects.options;
    *const *const rocksdb_options_t: |f| f.options_of_families.as_ptr();
    *mut rocksdb_block_based_table_options_t: |f| f.objects.table;
    *mut rocksdb_readoptions_t: |f| f.objects.reads;
    *const rocksdb_readoptions_t: |f| f.objects.reads;
    *const rocksdb_writeoptions_t: |f| f.objects.writes;
    *mut rocksdb_compactoptions_t: |f| f.objects.compaction;
    *mut rocksdb_livefile_t: |f| f.objects.file;
    *mut rocksdb_column_family_metadata_options_t: |f| f.objects.metadata;
    *mut rocksdb_column_family_handle_t: |f| f.family;
    *mut *mut rocksdb_column_family_handle_t: |f| f.families.as_ptr().cast_mut();
    *const *const rocksdb_column_family_handle_t: |f| f.families.as_ptr().cast();
    *mut rocksdb_writebatch_t: |f| f.objects.batch;
    *mut rocksdb_writebatch_wi_t: |f| f.objects.indexed;
    *mut rocksdb_sstfilewriter_t: |f| f.writer;
    *mut rocksdb_checkpoint_t: |f| f.checkpoint;
    *const rocksdb_flushoptions_t: |f| f.objects.flush;
    *const rocksdb_ingestexternalfileoptions_t: |f| f.objects.ingestion;
    *const rocksdb_column_family_metadata_options_t: |f| f.objects.metadata;
    *const rocksdb_size_approximation_options_t: |f| f.objects.sizes;
    *const rocksdb_transactiondb_options_t: |f| f.objects.locking;
    *const rocksdb_optimistictransactiondb_options_t: |f| f.objects.optimistic;
    *const rocksdb_open_and_compact_options_t: |f| f.objects.worker;
    *const rocksdb_compaction_service_options_override_t: |f| f.objects.overrides;
    *const c_char: |_f| TEXTS.0[0];
    *mut c_char: |_f| TEXTS.0[0].cast_mut();
    *const usize: |_f| LENS.as_ptr();
    usize: |_f| 2;
    c_int: |_f| 2;
    c_uchar: |_f| 2;
    bool: |_f| true;
    *mut usize: |f| f.places.get().cast();
    *mut u64: |f| f.places.get().cast();
    *mut u32: |f| f.places.get().cast();
    *mut c_uchar: |f| f.places.get().cast();
    *mut *mut c_char: |f| f.places.get().cast();
    *mut *mut rocksdb_pinnableslice_t: |f| f.places.get().cast();
    *mut *mut rocksdb_iterator_t: |f| f.places.get().cast();
    *mut c_void: |_f| null_mut();
}

/// Gives NULL for objects that a call does not read before it checks its arrays.
macro_rules! not_needed {
    ($($ty:ty,)*) => {$(
        impl FromFixture for $ty {
            fn from(_f: &Fixture) -> $ty {
                <$ty>::NULL
            }
        }
    )*};
}

not_needed! {
    *mut *mut *mut c_char,
    *mut rocksdb_backup_engine_t,
    *const rocksdb_create_backup_options_t,
    *const rocksdb_compaction_options_t,
    *mut rocksdb_compactionjobinfo_t,
    *const rocksdb_compactionjobinfo_t,
    *mut rocksdb_iterator_t,
    *mut rocksdb_env_t,
    *const rocksdb_envoptions_t,
    *const c_int,
}

impl<T> FromFixture for Option<T> {
    fn from(_f: &Fixture) -> Option<T> {
        None
    }
}

impl FromFixture for *const rocksdb_slice_t {
    fn from(_f: &Fixture) -> *const rocksdb_slice_t {
        static SLICES: Slices = Slices(slices(&TEXTS));
        SLICES.0.as_ptr()
    }

    fn with_null() -> *const rocksdb_slice_t {
        static SLICES: Slices = Slices(slices(&TEXT_AND_NULL));
        SLICES.0.as_ptr()
    }
}

const fn slices(texts: &Pointers) -> [rocksdb_slice_t; 2] {
    let [first, second] = texts.0;
    [rocksdb_slice_t { data: first, size: 2 }, rocksdb_slice_t { data: second, size: 2 }]
}

impl FromFixture for *const *const c_char {
    fn from(_f: &Fixture) -> *const *const c_char {
        TEXTS.0.as_ptr()
    }

    fn with_null() -> *const *const c_char {
        TEXT_AND_NULL.0.as_ptr()
    }
}

/// Results of calls. An empty result is NULL, 0 or nothing; for `c_int` it is -1.
trait Answer {
    fn empty(self) -> bool;
}

impl Answer for () {
    fn empty(self) -> bool {
        true
    }
}

impl Answer for c_uchar {
    fn empty(self) -> bool {
        self == 0
    }
}

impl Answer for u32 {
    fn empty(self) -> bool {
        self == 0
    }
}

/// The answer of `rocksdb_property_int_cf`: -1 without a value.
impl Answer for c_int {
    fn empty(self) -> bool {
        self == -1
    }
}

impl<T> Answer for *mut T {
    fn empty(self) -> bool {
        self.is_null()
    }
}

impl<T> Answer for *const T {
    fn empty(self) -> bool {
        self.is_null()
    }
}

/// Makes the calls that are not left out. Returns the calls that are not refused: their result is
/// not empty, their error is missing or does not match `message`, or they change something.
unsafe fn not_refused(
    f: &Fixture,
    calls: &[WrongCall],
    is_left_out: impl Fn(&WrongCall) -> bool,
    message: impl Fn(&str) -> bool,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for call in calls.iter().filter(|call| !is_left_out(call)) {
        let before = f.state();
        let is_empty = (call.call)(f);
        let errors = f.taken_errors();
        let is_refused = errors.iter().all(|text| message(text)) && errors.is_empty() != call.has_errors;
        if !is_empty || !is_refused || f.state() != before {
            wrong.push(format!("{}: {}: {errors:?}", call.function, call.parameter));
        }
    }
    wrong
}

#[test]
fn null_with_a_length_is_refused_and_changes_nothing() {
    #[expect(clippy::unit_arg, reason = "the calls are generated")]
    const CALLS: &[WrongCall] = include!(concat!(env!("OUT_DIR"), "/null_calls.rs"));
    let dir = esker_testkit::TempDir::new("capi-nulls");
    // SAFETY: the objects are created in `new`, and destroyed once.
    unsafe {
        let f = Fixture::new(&dir);
        let means_none = |call: &WrongCall| NULL_MEANS_NONE.contains(&(call.function, call.parameter));
        let is_left_out = |call: &WrongCall| means_none(call) || HAVE_TESTS.contains(&call.function);
        let wrong = not_refused(&f, CALLS, is_left_out, |text| {
            text == "Invalid argument: NULL is given with the length 2"
        });
        f.destroy();
        assert!(wrong.is_empty(), "{} of {} calls:\n{}", wrong.len(), CALLS.len(), wrong.join("\n"));
    }
}

#[test]
fn a_family_of_another_database_is_refused_and_changes_nothing() {
    #[expect(clippy::unit_arg, reason = "the calls are generated")]
    const CALLS: &[WrongCall] = include!(concat!(env!("OUT_DIR"), "/foreign_calls.rs"));
    let dir = esker_testkit::TempDir::new("capi-foreign");
    // SAFETY: the objects are created in `new`, and destroyed once.
    unsafe {
        let f = Fixture::new(&dir);
        let is_left_out = |call: &WrongCall| {
            let function = call.function;
            knows_no_database(function) || makes_an_iterator(function) || HAVE_TESTS.contains(&function)
        };
        // Some calls refuse the family for its missing timestamps or merge operator before they
        // compare the databases.
        let messages = ["is one of another database", "imestamp", "has no merge_operator"];
        let wrong = not_refused(&f, CALLS, is_left_out, |text| messages.iter().any(|it| text.contains(it)));
        f.destroy();
        assert!(wrong.is_empty(), "{} of {} calls:\n{}", wrong.len(), CALLS.len(), wrong.join("\n"));
    }
}

#[test]
fn an_iterator_and_a_pinned_multi_get_keep_the_error_of_null_with_a_length() {
    let dir = esker_testkit::TempDir::new("capi-null-objects");
    // SAFETY: the objects are created here and destroyed once.
    unsafe {
        let f = Fixture::new(&dir);
        for seek in [rocksdb_iter_seek, rocksdb_iter_seek_for_prev] {
            let iterator = rocksdb_create_iterator(f.db, f.argument());
            seek(iterator, null(), 2);
            assert_eq!(rocksdb_iter_valid(iterator), 0);
            rocksdb_iter_get_error(iterator, f.errors());
            assert_eq!(f.taken_errors(), ["Invalid argument: NULL is given with the length 2"]);
            rocksdb_iter_destroy(iterator);

            let iterator = rocksdb_create_iterator(f.db, f.argument());
            seek(iterator, null(), 0);
            rocksdb_iter_get_error(iterator, f.errors());
            assert!(f.taken_errors().is_empty(), "NULL without a length is the empty key");
            rocksdb_iter_destroy(iterator);
        }
        for keys in [null(), FromFixture::with_null()] {
            let found = rocksdb_batched_multi_get_pinned_cf(f.db, f.argument(), f.family, 2, keys, 0);
            assert_eq!(rocksdb_pinnable_multi_get_count(found), 2);
            for at in 0..2 {
                let (mut value, mut error, mut lens) = (null(), null(), [0, 0]);
                let [value_len, error_len] = &mut lens;
                let result = rocksdb_pinnable_multi_get_result(
                    found, at, &mut value, value_len, &mut error, error_len,
                );
                assert_eq!((result, value.is_null()), (2, true), "a NULL array with a length is an error");
                let text = bytes(error, lens[1]).unwrap();
                assert_eq!(text, b"Invalid argument: NULL is given with the length 2");
            }
            rocksdb_pinnable_multi_get_destroy(found);
        }
        f.destroy();
    }
}

#[test]
fn null_without_a_length_is_the_empty_key_and_value() {
    let dir = esker_testkit::TempDir::new("capi-null-empty");
    // SAFETY: the objects are created here and destroyed once.
    unsafe {
        let f = Fixture::new(&dir);
        rocksdb_put(f.db, f.argument(), null(), 0, null(), 0, f.errors());
        let mut len = 9;
        let value = rocksdb_get(f.db, f.argument(), null(), 0, &mut len, f.errors());
        assert!(!value.is_null() && len == 0 && f.taken_errors().is_empty());
        rocksdb_free(value.cast());
        f.destroy();
    }
}

#[test]
fn an_iterator_over_a_family_of_another_database_is_not_valid_and_has_the_error() {
    let dir = esker_testkit::TempDir::new("capi-foreign-iterator");
    // SAFETY: the objects are created here and destroyed once.
    unsafe {
        let f = Fixture::new(&dir);
        for iterator in [
            rocksdb_create_iterator_cf(f.db, f.argument(), f.foreign()),
            rocksdb_transactiondb_create_iterator_cf(f.transactions, f.argument(), f.foreign()),
            rocksdb_transaction_create_iterator_cf(f.transaction, f.argument(), f.foreign()),
        ] {
            rocksdb_iter_seek_to_first(iterator);
            assert_eq!(rocksdb_iter_valid(iterator), 0);
            rocksdb_iter_get_error(iterator, f.errors());
            let errors = f.taken_errors();
            assert!(errors[0].contains("'default' is one of another database"), "{errors:?}");
            rocksdb_iter_destroy(iterator);
        }
        f.destroy();
    }
}

#[test]
fn a_batch_with_families_of_another_database_is_refused_when_it_is_written() {
    let dir = esker_testkit::TempDir::new("capi-foreign-batch");
    // SAFETY: the objects are created here and destroyed once.
    unsafe {
        let f = Fixture::new(&dir);
        let (batch, indexed) = (f.objects.batch, f.objects.indexed);
        let refused = |what: &str| {
            let errors = f.taken_errors();
            let expected = "Invalid argument: the batch names column families of another database";
            assert_eq!(errors, [expected], "{what}");
        };
        let before = rocksdb_get_latest_sequence_number(f.db);
        for families in [[f.foreign[0]; 2], [f.family, f.foreign[0]]] {
            for family in families {
                rocksdb_writebatch_put_cf(batch, family, f.argument(), 2, f.argument(), 2);
                rocksdb_writebatch_wi_put_cf(indexed, family, f.argument(), 2, f.argument(), 2);
            }
            rocksdb_write(f.db, f.objects.writes, batch, f.errors());
            refused("write");
            rocksdb_write_writebatch_wi(f.db, f.objects.writes, indexed, f.errors());
            refused("write of a batch with an index");
            rocksdb_transactiondb_write(f.transactions, f.objects.writes, batch, f.errors());
            refused("write with locks");
            rocksdb_transaction_rebuild_from_writebatch(f.transaction, batch, f.errors());
            refused("rebuild");
            rocksdb_transaction_rebuild_from_writebatch_wi(f.transaction, indexed, f.errors());
            refused("rebuild from a batch with an index");
            rocksdb_writebatch_clear(batch);
            rocksdb_writebatch_wi_clear(indexed);
        }
        let of_transaction = rocksdb_transaction_get_writebatch_wi(f.transaction);
        rocksdb_write_writebatch_wi(f.db, f.objects.writes, of_transaction, f.errors());
        refused("a transaction of another database");
        rocksdb_free(of_transaction.cast());
        assert_eq!(rocksdb_get_latest_sequence_number(f.db), before);

        rocksdb_writebatch_put_cf(batch, f.family, f.argument(), 2, f.argument(), 2);
        rocksdb_write(f.db, f.objects.writes, batch, f.errors());
        assert!(f.taken_errors().is_empty(), "its own families");
        f.destroy();
    }
}
