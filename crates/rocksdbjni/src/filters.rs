//! Compaction filters: RocksJava's own, that of Flink, and those of factories written in Java.
//!
//! In: the arguments of their constructors. Out: Esker's filters, which run on threads of the
//! engine, and factories. Flink's filter removes expired entries of state with a time to live. It
//! asks Java for the time, and for the first element of a list that has not expired. As in
//! `callbacks.rs`, an exception of Java is printed and forgotten: then the entry stays.
//!
//! Source of Flink's rules: classes `FlinkCompactionFilter` of frocksdbjni and
//! `RocksDbTtlCompactFiltersManager` of Flink; `flink_compaction_filter.cc` of frocksdb.

use crate::border::NativeResult;
use crate::callbacks::ask;
use crate::handle::{NativeHandle, give};
use crate::jni::{Global, JavaEnv, Method, Reference, boolean, long, reference};
use crate::objects::{CompactionFilterFactoryObject, CompactionFilterObject};
use esker::compaction_filter::{
    CompactionFilter, CompactionFilterContext, CompactionFilterFactory, FilterDecision,
};
use esker::options::CompactionFilterRef;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};

/// A Java object and one of its methods.
struct Callee {
    object: Global,
    method: Method,
}

impl Callee {
    fn new(env: &JavaEnv<'_>, object: Reference, name: &str, descriptor: &str) -> NativeResult<Callee> {
        let method = env.method(env.class_of(object)?, name, descriptor)?;
        Ok(Callee { object: env.global(object)?, method })
    }
}

/// `RemoveEmptyValueCompactionFilter`.
struct RemoveEmpty;

impl CompactionFilter for RemoveEmpty {
    fn name(&self) -> &str {
        "RemoveEmptyValueCompactionFilter"
    }

    fn filter(&self, _level: usize, _key: &[u8], value: &[u8]) -> FilterDecision {
        if value.is_empty() { FilterDecision::Remove } else { FilterDecision::Keep }
    }
}

pub(crate) fn new_remove_empty() -> NativeResult<i64> {
    Ok(give(CompactionFilterObject(Arc::new(RemoveEmpty))))
}

/// An `AbstractCompactionFilterFactory`.
struct JavaFactory {
    name: String,
    create: Callee,
}

/// A filter that a factory in Java has made. No class of RocksJava filters entities or blobs.
struct FilterOfFactory(CompactionFilterRef);

impl CompactionFilter for FilterOfFactory {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn filter(&self, level: usize, key: &[u8], value: &[u8]) -> FilterDecision {
        self.0.filter(level, key, value)
    }

    fn filter_merge_operand(&self, level: usize, key: &[u8], operand: &[u8]) -> FilterDecision {
        self.0.filter_merge_operand(level, key, operand)
    }
}

impl CompactionFilterFactory for JavaFactory {
    fn name(&self) -> &str {
        &self.name
    }

    /// The Java method gives its filter away.
    fn create(&self, context: &CompactionFilterContext) -> Option<Box<dyn CompactionFilter>> {
        let arguments = [boolean(context.is_full_compaction), boolean(context.is_manual_compaction)];
        let Callee { object, method } = &self.create;
        let filter =
            ask(|env| env.call_handle::<CompactionFilterObject>(object.get(), *method, &arguments)?.take())?;
        Some(Box::new(FilterOfFactory(filter.0)))
    }
}

/// `AbstractCompactionFilterFactory.createNewCompactionFilterFactory0`.
pub(crate) fn new_factory(env: &JavaEnv<'_>, object: Reference) -> NativeResult<i64> {
    let name = env.method(env.class_of(object)?, "name", "()Ljava/lang/String;")?;
    let name = env.text(env.call_object(object, name, &[])?)?;
    // The method is private, so the class of the object does not have it.
    let class = env.class("org/rocksdb/AbstractCompactionFilterFactory")?;
    let method = env.method(class, "createCompactionFilter", "(ZZ)J")?;
    let create = Callee { object: env.global(object)?, method };
    Ok(give(CompactionFilterFactoryObject(Arc::new(JavaFactory { name, create }))))
}

/// `FlinkCompactionFilter.ConfigHolder`: rules for all filters of a state, set once.
#[derive(Default)]
pub(crate) struct FlinkHolder(Arc<OnceLock<FlinkRules>>);

/// Arguments of `configureFlinkCompactionFilter`.
#[derive(Debug)]
pub(crate) struct FlinkConfig {
    /// Place of the enumeration `StateType`: disabled, value, list.
    pub(crate) state_type: i32,
    pub(crate) timestamp_offset: i32,
    /// Milliseconds that an entry lives.
    pub(crate) ttl: i64,
    pub(crate) query_time_after_num_entries: i64,
    /// Bytes of an element of a list with its delimiter; 0 if they differ.
    pub(crate) fixed_element_length: i32,
}

/// The kind of the state that a filter sees.
pub(crate) enum FlinkState {
    Disabled,
    Value,
    /// A list, whose values and merge operands are elements, one behind the other. The function
    /// finds the first element that has not expired. Without one, the first element decides.
    List(Option<FlinkElements>),
}

/// The way to the elements of a list.
pub(crate) enum FlinkElements {
    /// Elements of this many bytes, each with its timestamp first.
    Fixed(usize),
    /// Elements that a `ListElementFilter` knows. Its factory makes one for each filter.
    Java(FlinkFactory),
}

/// A `ListElementFilterFactory`.
pub(crate) struct FlinkFactory(Callee);

/// The rules of a state.
pub(crate) struct FlinkRules {
    pub(crate) state: FlinkState,
    pub(crate) timestamp_offset: usize,
    pub(crate) ttl: i64,
    /// Entries after which the time is asked for again.
    query_time_after: i64,
}

impl FlinkRules {
    pub(crate) fn new(config: &FlinkConfig, factory: Option<FlinkFactory>) -> FlinkRules {
        let fixed = usize::try_from(config.fixed_element_length).ok().filter(|len| *len > 0);
        let elements = fixed.map(FlinkElements::Fixed).or(factory.map(FlinkElements::Java));
        let state = match config.state_type {
            1 => FlinkState::Value,
            2 => FlinkState::List(elements),
            _ => FlinkState::Disabled,
        };
        FlinkRules {
            state,
            timestamp_offset: usize::try_from(config.timestamp_offset).unwrap_or(0),
            ttl: config.ttl,
            query_time_after: config.query_time_after_num_entries,
        }
    }

    /// Whether the timestamp at `at` has expired at `now`; `None` if `bytes` end before it does.
    fn has_expired(&self, bytes: &[u8], at: usize, now: i64) -> Option<bool> {
        let timestamp = bytes.get(at..)?.first_chunk()?;
        Some(i64::from_be_bytes(*timestamp).saturating_add(self.ttl) <= now)
    }

    /// The place of the first element of `size` bytes that has not expired. A shorter rest counts
    /// as such an element.
    fn first_unexpired(&self, list: &[u8], size: usize, now: i64) -> usize {
        let mut offset = 0;
        while self.has_expired(list, offset, now) == Some(true) {
            offset += size;
        }
        offset
    }

    /// Decides about a value or a merge operand. `ask_java` finds the first element that has not
    /// expired, in a list that only Java can read.
    pub(crate) fn decide(
        &self,
        bytes: &[u8],
        is_operand: bool,
        now: i64,
        ask_java: impl FnOnce(&FlinkFactory) -> Option<usize>,
    ) -> FilterDecision {
        let is_expired = self.has_expired(bytes, self.timestamp_offset, now) == Some(true);
        let elements = match &self.state {
            FlinkState::Value if is_expired && !is_operand => return FilterDecision::Remove,
            FlinkState::List(None) if is_expired => return FilterDecision::Remove,
            FlinkState::List(Some(elements)) if is_expired => elements,
            _ => return FilterDecision::Keep,
        };
        let offset = match elements {
            FlinkElements::Fixed(size) => Some(self.first_unexpired(bytes, *size, now)),
            FlinkElements::Java(factory) => ask_java(factory),
        };
        match offset {
            None | Some(0) => FilterDecision::Keep,
            Some(offset) => match bytes.get(offset..) {
                None | Some([]) => FilterDecision::Remove,
                Some(rest) => FilterDecision::ChangeValue(rest.to_vec()),
            },
        }
    }
}

/// A `FlinkCompactionFilter`, for one compaction.
struct FlinkFilter {
    rules: Arc<OnceLock<FlinkRules>>,
    /// `TimeProvider.currentTimestamp`.
    time: Callee,
    /// The time in milliseconds at the last query.
    now: AtomicI64,
    /// Entries since the last query.
    entries: AtomicI64,
    /// `ListElementFilter.nextUnexpiredOffset`.
    elements: OnceLock<Option<Callee>>,
}

impl FlinkFilter {
    /// The time; if Java does not know it, a time at which nothing has expired.
    fn now(&self, rules: &FlinkRules) -> i64 {
        // One thread runs a filter, so nothing comes between these loads and stores.
        let entries = self.entries.load(Ordering::Relaxed);
        if entries < rules.query_time_after {
            self.entries.store(entries + 1, Ordering::Relaxed);
            return self.now.load(Ordering::Relaxed);
        }
        let now = ask(|env| env.call_long(self.time.object.get(), self.time.method, &[])).unwrap_or(i64::MIN);
        self.now.store(now, Ordering::Relaxed);
        self.entries.store(1, Ordering::Relaxed);
        now
    }

    /// The place of the first element of `list` that has not expired; `None` if Java fails.
    fn ask_java(&self, factory: &FlinkFactory, list: &[u8], ttl: i64, now: i64) -> Option<usize> {
        let make = || {
            ask(|env| {
                let filter = env.call_object(factory.0.object.get(), factory.0.method, &[])?;
                Callee::new(env, filter, "nextUnexpiredOffset", "([BJJ)I")
            })
        };
        let elements = self.elements.get_or_init(make).as_ref()?;
        let offset = ask(|env| {
            let arguments = [reference(env.new_bytes(list)?), long(ttl), long(now)];
            env.call_int(elements.object.get(), elements.method, &arguments)
        });
        offset.and_then(|offset| usize::try_from(offset).ok())
    }

    fn decide(&self, bytes: &[u8], is_operand: bool) -> FilterDecision {
        let Some(rules) = self.rules.get() else { return FilterDecision::Keep };
        let now = self.now(rules);
        rules.decide(bytes, is_operand, now, |factory| self.ask_java(factory, bytes, rules.ttl, now))
    }
}

impl CompactionFilter for FlinkFilter {
    fn name(&self) -> &str {
        "FlinkCompactionFilter"
    }

    fn filter(&self, _level: usize, _key: &[u8], value: &[u8]) -> FilterDecision {
        self.decide(value, false)
    }

    fn filter_merge_operand(&self, _level: usize, _key: &[u8], operand: &[u8]) -> FilterDecision {
        self.decide(operand, true)
    }
}

pub(crate) fn new_flink_holder() -> NativeResult<i64> {
    Ok(give(FlinkHolder::default()))
}

/// `FlinkCompactionFilter.createNewFlinkCompactionFilter0`.
pub(crate) fn new_flink_filter(
    env: &JavaEnv<'_>,
    holder: NativeHandle<FlinkHolder>,
    time_provider: Reference,
) -> NativeResult<i64> {
    let filter = FlinkFilter {
        rules: holder.get()?.0.clone(),
        time: Callee::new(env, time_provider, "currentTimestamp", "()J")?,
        now: AtomicI64::new(i64::MIN),
        entries: AtomicI64::new(i64::MAX),
        elements: OnceLock::new(),
    };
    Ok(give(CompactionFilterObject(Arc::new(filter))))
}

/// `FlinkCompactionFilter.configureFlinkCompactionFilter`: whether the holder had no rules.
pub(crate) fn configure_flink(
    env: &JavaEnv<'_>,
    holder: NativeHandle<FlinkHolder>,
    config: &FlinkConfig,
    factory: Reference,
) -> NativeResult<bool> {
    let factory = if factory.is_null() {
        None
    } else {
        let descriptor = "()Lorg/rocksdb/FlinkCompactionFilter$ListElementFilter;";
        Some(FlinkFactory(Callee::new(env, factory, "createListElementFilter", descriptor)?))
    };
    Ok(holder.get()?.0.set(FlinkRules::new(config, factory)).is_ok())
}
