//! Plug-ins of the client: comparators, merge operators, compaction filters and prefix extractors.
//! Also built-in prefix extractors and filter policies.
//!
//! In: functions of the client and their state. Out: Esker's traits. The destructor of a state runs
//! once, when its last owner is gone. Owners are the C object, options and open databases. As `c.h`
//! says, any thread may call the functions. A C comparator cannot shorten index keys.

use crate::memory::{bytes, destroy, give, text_or_none};
use esker::compaction_filter::{
    CompactionFilter, CompactionFilterContext, CompactionFilterFactory, CompactionFilterFactoryRef,
    FilterDecision,
};
use esker::comparator::{Comparator, ComparatorRef};
use esker::merge_operator::{MergeOperator, MergeOperatorRef};
use esker::options::{CompactionFilterRef, FilterPolicy};
use esker::prefix::{SliceTransform, SliceTransformRef};
use libc::{c_char, c_int, c_uchar, c_void};
use std::cmp::Ordering;
use std::sync::Arc;

type Destructor = Option<unsafe extern "C" fn(*mut c_void)>;
type Name = Option<unsafe extern "C" fn(*mut c_void) -> *const c_char>;

/// The client's state, and the destructor of the state.
pub(crate) struct ClientState {
    pub(crate) state: *mut c_void,
    destructor: Destructor,
}

// SAFETY: by contract the client's functions may be called from any thread.
unsafe impl Send for ClientState {}
unsafe impl Sync for ClientState {}

impl ClientState {
    pub(crate) fn new(state: *mut c_void, destructor: Destructor) -> ClientState {
        ClientState { state, destructor }
    }

    /// The state, the first argument of each of the client's functions.
    pub(crate) fn get(&self) -> *mut c_void {
        self.state
    }

    pub(crate) unsafe fn name(&self, name: Name) -> String {
        name.map_or(String::new(), |name| text_or_none(name(self.state)).unwrap_or_default().into_owned())
    }
}

impl Drop for ClientState {
    fn drop(&mut self) {
        if let Some(destructor) = self.destructor {
            unsafe { destructor(self.state) };
        }
    }
}

fn data(bytes: &[u8]) -> *const c_char {
    bytes.as_ptr().cast()
}

/// An order of keys.
#[derive(Debug)]
pub struct rocksdb_comparator_t {
    /// The comparator.
    pub(crate) comparator: ComparatorRef,
}

type Compare = unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> c_int;
type CompareWithoutTs =
    unsafe extern "C" fn(*mut c_void, *const c_char, usize, c_uchar, *const c_char, usize, c_uchar) -> c_int;

struct ClientComparator {
    name: String,
    compare: Compare,
    timestamps: Option<Timestamps>,
    state: Arc<ClientState>,
}

#[derive(Clone, Copy)]
struct Timestamps {
    compare_ts: Compare,
    compare_without_ts: CompareWithoutTs,
    size: usize,
}

impl Comparator for ClientComparator {
    fn name(&self) -> &str {
        &self.name
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let order = unsafe { (self.compare)(self.state.state, data(a), a.len(), data(b), b.len()) };
        order.cmp(&0)
    }

    fn timestamp_size(&self) -> usize {
        self.timestamps.map_or(0, |timestamps| timestamps.size)
    }

    fn without_timestamp(&self) -> Option<ComparatorRef> {
        let timestamps = self.timestamps?;
        Some(Arc::new(WithoutTimestamp { name: self.name.clone(), timestamps, state: self.state.clone() }))
    }

    fn compare_timestamp(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self.timestamps {
            Some(timestamps) => {
                let state = self.state.state;
                let order = unsafe { (timestamps.compare_ts)(state, data(a), a.len(), data(b), b.len()) };
                order.cmp(&0)
            }
            None => Ordering::Equal,
        }
    }
}

/// The client's order, for keys without timestamps.
struct WithoutTimestamp {
    name: String,
    timestamps: Timestamps,
    state: Arc<ClientState>,
}

impl Comparator for WithoutTimestamp {
    fn name(&self) -> &str {
        &self.name
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let compare = self.timestamps.compare_without_ts;
        let order = unsafe { compare(self.state.state, data(a), a.len(), 0, data(b), b.len(), 0) };
        order.cmp(&0)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_comparator_create(
    state: *mut c_void,
    destructor: Destructor,
    compare: Option<Compare>,
    name: Name,
) -> *mut rocksdb_comparator_t {
    let state = ClientState::new(state, destructor);
    let Some(compare) = compare else { return std::ptr::null_mut() };
    let name = state.name(name);
    let comparator = ClientComparator { name, compare, timestamps: None, state: Arc::new(state) };
    give(rocksdb_comparator_t { comparator: Arc::new(comparator) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_comparator_with_ts_create(
    state: *mut c_void,
    destructor: Destructor,
    compare: Option<Compare>,
    compare_ts: Option<Compare>,
    compare_without_ts: Option<CompareWithoutTs>,
    name: Name,
    timestamp_size: usize,
) -> *mut rocksdb_comparator_t {
    let state = ClientState::new(state, destructor);
    let (Some(compare), Some(compare_ts), Some(compare_without_ts)) =
        (compare, compare_ts, compare_without_ts)
    else {
        return std::ptr::null_mut();
    };
    let name = state.name(name);
    let timestamps = Some(Timestamps { compare_ts, compare_without_ts, size: timestamp_size });
    let comparator = ClientComparator { name, compare, timestamps, state: Arc::new(state) };
    give(rocksdb_comparator_t { comparator: Arc::new(comparator) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_comparator_destroy(comparator: *mut rocksdb_comparator_t) {
    destroy(comparator);
}

/// A merge operator.
#[derive(Debug)]
pub struct rocksdb_mergeoperator_t {
    /// The operator.
    pub(crate) operator: MergeOperatorRef,
}

type FullMerge = unsafe extern "C" fn(
    *mut c_void,
    *const c_char,
    usize,
    *const c_char,
    usize,
    *const *const c_char,
    *const usize,
    c_int,
    *mut c_uchar,
    *mut usize,
) -> *mut c_char;
type PartialMerge = unsafe extern "C" fn(
    *mut c_void,
    *const c_char,
    usize,
    *const *const c_char,
    *const usize,
    c_int,
    *mut c_uchar,
    *mut usize,
) -> *mut c_char;
type DeleteValue = Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize)>;

struct ClientMergeOperator {
    name: String,
    full_merge: FullMerge,
    partial_merge: PartialMerge,
    delete_value: DeleteValue,
    state: ClientState,
}

impl ClientMergeOperator {
    /// Copies the result of a merge function, and lets the client free the buffer. A merge function
    /// that fails may leave `success` and the length unset, so the caller initializes both.
    unsafe fn take(&self, value: *mut c_char, success: c_uchar, len: usize) -> Option<Vec<u8>> {
        let merged = if success != 0 { bytes(value, len).ok().map(<[u8]>::to_vec) } else { None };
        match self.delete_value {
            Some(delete_value) => delete_value(self.state.state, value, len),
            None => libc::free(value.cast()),
        }
        merged
    }
}

impl MergeOperator for ClientMergeOperator {
    fn name(&self) -> &str {
        &self.name
    }

    fn full_merge(&self, key: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let values: Vec<*const c_char> = operands.iter().map(|operand| data(operand)).collect();
        let lens: Vec<usize> = operands.iter().map(|operand| operand.len()).collect();
        let (mut success, mut len) = (0, 0);
        let (old, old_len) = existing.map_or((std::ptr::null(), 0), |value| (data(value), value.len()));
        unsafe {
            let value = (self.full_merge)(
                self.state.state,
                data(key),
                key.len(),
                old,
                old_len,
                values.as_ptr(),
                lens.as_ptr(),
                c_int::try_from(operands.len()).ok()?,
                &mut success,
                &mut len,
            );
            self.take(value, success, len)
        }
    }

    fn partial_merge(&self, key: &[u8], left: &[u8], right: &[u8]) -> Option<Vec<u8>> {
        let values = [data(left), data(right)];
        let lens = [left.len(), right.len()];
        let (mut success, mut len) = (0, 0);
        unsafe {
            let value = (self.partial_merge)(
                self.state.state,
                data(key),
                key.len(),
                values.as_ptr(),
                lens.as_ptr(),
                2,
                &mut success,
                &mut len,
            );
            self.take(value, success, len)
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_mergeoperator_create(
    state: *mut c_void,
    destructor: Destructor,
    full_merge: Option<FullMerge>,
    partial_merge: Option<PartialMerge>,
    delete_value: DeleteValue,
    name: Name,
) -> *mut rocksdb_mergeoperator_t {
    let state = ClientState::new(state, destructor);
    let (Some(full_merge), Some(partial_merge)) = (full_merge, partial_merge) else {
        return std::ptr::null_mut();
    };
    let name = state.name(name);
    let operator = ClientMergeOperator { name, full_merge, partial_merge, delete_value, state };
    give(rocksdb_mergeoperator_t { operator: Arc::new(operator) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_mergeoperator_destroy(operator: *mut rocksdb_mergeoperator_t) {
    destroy(operator);
}

type Filter = unsafe extern "C" fn(
    *mut c_void,
    c_int,
    *const c_char,
    usize,
    *const c_char,
    usize,
    *mut *mut c_char,
    *mut usize,
    *mut c_uchar,
) -> c_uchar;

/// A compaction filter.
pub struct rocksdb_compactionfilter_t {
    filter: Arc<ClientFilter>,
}

impl rocksdb_compactionfilter_t {
    pub(crate) fn filter(&self) -> CompactionFilterRef {
        self.filter.clone()
    }
}

struct ClientFilter {
    name: String,
    filter: Filter,
    state: ClientState,
}

impl CompactionFilter for ClientFilter {
    fn name(&self) -> &str {
        &self.name
    }

    fn filter(&self, level: usize, key: &[u8], value: &[u8]) -> FilterDecision {
        let (mut new_value, mut new_len, mut changed) = (std::ptr::null_mut(), 0, 0);
        unsafe {
            let level = c_int::try_from(level).unwrap_or(c_int::MAX);
            let removes = (self.filter)(
                self.state.state,
                level,
                data(key),
                key.len(),
                data(value),
                value.len(),
                &mut new_value,
                &mut new_len,
                &mut changed,
            );
            // The client owns the buffer, so the value is copied at once, as in RocksDB.
            match (removes, changed) {
                (0, 0) => FilterDecision::Keep,
                (0, _) => bytes(new_value, new_len)
                    .map_or(FilterDecision::Keep, |value| FilterDecision::ChangeValue(value.to_vec())),
                _ => FilterDecision::Remove,
            }
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compactionfilter_create(
    state: *mut c_void,
    destructor: Destructor,
    filter: Option<Filter>,
    name: Name,
) -> *mut rocksdb_compactionfilter_t {
    let state = ClientState::new(state, destructor);
    let Some(filter) = filter else { return std::ptr::null_mut() };
    let name = state.name(name);
    give(rocksdb_compactionfilter_t { filter: Arc::new(ClientFilter { name, filter, state }) })
}

/// Has no effect: a filter always sees only entries that no snapshot needs. In RocksDB, compactions
/// with this filter fail after a call with 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compactionfilter_set_ignore_snapshots(
    _filter: *mut rocksdb_compactionfilter_t,
    _ignores: c_uchar,
) {
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compactionfilter_destroy(filter: *mut rocksdb_compactionfilter_t) {
    destroy(filter);
}

/// Facts about a compaction, valid during the call that gets them.
#[derive(Debug)]
pub struct rocksdb_compactionfiltercontext_t {
    context: CompactionFilterContext,
}

type CreateFilter = unsafe extern "C" fn(
    *mut c_void,
    *mut rocksdb_compactionfiltercontext_t,
) -> *mut rocksdb_compactionfilter_t;

/// Makes a filter for each compaction.
#[derive(Debug)]
pub struct rocksdb_compactionfilterfactory_t {
    /// The factory.
    pub(crate) factory: CompactionFilterFactoryRef,
}

struct ClientFilterFactory {
    name: String,
    create: CreateFilter,
    state: ClientState,
}

/// A filter that a factory made. This library destroys it.
struct MadeFilter(Arc<ClientFilter>);

impl CompactionFilter for MadeFilter {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn filter(&self, level: usize, key: &[u8], value: &[u8]) -> FilterDecision {
        self.0.filter(level, key, value)
    }
}

impl CompactionFilterFactory for ClientFilterFactory {
    fn name(&self) -> &str {
        &self.name
    }

    fn create(&self, context: &CompactionFilterContext) -> Option<Box<dyn CompactionFilter>> {
        let mut context = rocksdb_compactionfiltercontext_t { context: context.clone() };
        let filter = unsafe { (self.create)(self.state.state, &mut context) };
        if filter.is_null() {
            return None;
        }
        let filter = unsafe { Box::from_raw(filter) };
        Some(Box::new(MadeFilter(filter.filter)))
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compactionfilterfactory_create(
    state: *mut c_void,
    destructor: Destructor,
    create: Option<CreateFilter>,
    name: Name,
) -> *mut rocksdb_compactionfilterfactory_t {
    let state = ClientState::new(state, destructor);
    let Some(create) = create else { return std::ptr::null_mut() };
    let name = state.name(name);
    give(rocksdb_compactionfilterfactory_t { factory: Arc::new(ClientFilterFactory { name, create, state }) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compactionfilterfactory_destroy(
    factory: *mut rocksdb_compactionfilterfactory_t,
) {
    destroy(factory);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compactionfiltercontext_is_full_compaction(
    context: *mut rocksdb_compactionfiltercontext_t,
) -> c_uchar {
    context.as_ref().is_some_and(|context| context.context.is_full_compaction).into()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compactionfiltercontext_is_manual_compaction(
    context: *mut rocksdb_compactionfiltercontext_t,
) -> c_uchar {
    context.as_ref().is_some_and(|context| context.context.is_manual_compaction).into()
}

/// A prefix extractor. With `None`, the prefix of a key is the whole key.
#[derive(Debug)]
pub struct rocksdb_slicetransform_t {
    /// The extractor.
    pub(crate) transform: Option<SliceTransformRef>,
}

type Transform = unsafe extern "C" fn(*mut c_void, *const c_char, usize, *mut usize) -> *mut c_char;
type InDomain = unsafe extern "C" fn(*mut c_void, *const c_char, usize) -> c_uchar;

struct ClientTransform {
    name: String,
    transform: Transform,
    in_domain: InDomain,
    state: ClientState,
}

impl SliceTransform for ClientTransform {
    fn name(&self) -> &str {
        &self.name
    }

    fn transform<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
        let mut len = 0;
        unsafe {
            if (self.in_domain)(self.state.state, data(key), key.len()) == 0 {
                return None;
            }
            let prefix = (self.transform)(self.state.state, data(key), key.len(), &mut len);
            // By contract the function returns a part of the key.
            bytes(prefix, len).ok()
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_slicetransform_create(
    state: *mut c_void,
    destructor: Destructor,
    transform: Option<Transform>,
    in_domain: Option<InDomain>,
    name: Name,
) -> *mut rocksdb_slicetransform_t {
    let state = ClientState::new(state, destructor);
    let (Some(transform), Some(in_domain)) = (transform, in_domain) else { return std::ptr::null_mut() };
    let name = state.name(name);
    let transform: SliceTransformRef = Arc::new(ClientTransform { name, transform, in_domain, state });
    give(rocksdb_slicetransform_t { transform: Some(transform) })
}

/// `rocksdb_slicetransform_create` as RocksDB 8 to 10 declare it, under the name that the shim of
/// RocksDB 10 links. Never calls `in_range`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_v10_rocksdb_slicetransform_create(
    state: *mut c_void,
    destructor: Destructor,
    transform: Option<Transform>,
    in_domain: Option<InDomain>,
    _in_range: Option<InDomain>,
    name: Name,
) -> *mut rocksdb_slicetransform_t {
    rocksdb_slicetransform_create(state, destructor, transform, in_domain, name)
}

/// [`esker_v10_rocksdb_slicetransform_create`] under the name that the shims of RocksDB 8 link.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_v8_rocksdb_slicetransform_create(
    state: *mut c_void,
    destructor: Destructor,
    transform: Option<Transform>,
    in_domain: Option<InDomain>,
    _in_range: Option<InDomain>,
    name: Name,
) -> *mut rocksdb_slicetransform_t {
    rocksdb_slicetransform_create(state, destructor, transform, in_domain, name)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_slicetransform_create_fixed_prefix(
    bytes: usize,
) -> *mut rocksdb_slicetransform_t {
    give(rocksdb_slicetransform_t { transform: Some(esker::prefix::fixed(bytes)) })
}

/// Makes an extractor that takes the whole key as its prefix.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_slicetransform_create_noop() -> *mut rocksdb_slicetransform_t {
    struct Noop;
    impl SliceTransform for Noop {
        fn name(&self) -> &str {
            "rocksdb.Noop"
        }
        fn transform<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
            Some(key)
        }
    }
    give(rocksdb_slicetransform_t { transform: Some(Arc::new(Noop)) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_slicetransform_destroy(transform: *mut rocksdb_slicetransform_t) {
    destroy(transform);
}

/// A policy for Bloom or Ribbon filters.
#[derive(Clone, Debug)]
pub struct rocksdb_filterpolicy_t {
    /// The policy.
    pub(crate) policy: FilterPolicy,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_filterpolicy_create_bloom(bits_per_key: f64) -> *mut rocksdb_filterpolicy_t {
    give(rocksdb_filterpolicy_t { policy: FilterPolicy::bloom(bits_per_key) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_filterpolicy_create_bloom_full(
    bits_per_key: f64,
) -> *mut rocksdb_filterpolicy_t {
    rocksdb_filterpolicy_create_bloom(bits_per_key)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_filterpolicy_create_ribbon(
    bits_per_key: f64,
) -> *mut rocksdb_filterpolicy_t {
    give(rocksdb_filterpolicy_t { policy: FilterPolicy::ribbon(bits_per_key, -1) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_filterpolicy_create_ribbon_hybrid(
    bits_per_key: f64,
    bloom_before_level: c_int,
) -> *mut rocksdb_filterpolicy_t {
    give(rocksdb_filterpolicy_t { policy: FilterPolicy::ribbon(bits_per_key, bloom_before_level) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_filterpolicy_destroy(policy: *mut rocksdb_filterpolicy_t) {
    destroy(policy);
}
