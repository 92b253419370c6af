//! The merge operator over named functions: RocksDB's `AggMergeOperator`.
//!
//! In: operands, each with the name of a function and a payload. Out: the value that RocksDB's
//! operator would store: the name of the last function, and its result.
//!
//! | value | bytes |
//! |---|---|
//! | operand or value | `name:lp payload` |
//! | list | `(item:lp)*` |
//! | failed value | `kErrorFuncName:lp`, then a list: the value below, all operands |
//!
//! Operands with the empty name take the function of the operand that follows. If the function
//! changes from one operand to the next, the result of the former is the first payload of the
//! latter. The operator never fails: a bad operand damages the value of its own key only.
//!
//! Functions are registered for the whole process and stay. So a lookup takes no lock.
//!
//! Page: `docs/format/values.md`. Source: RocksDB `include/rocksdb/utilities/agg_merge.h`,
//! `utilities/agg_merge/agg_merge.cc`.

use esker_base::coding::{Decoder, put_length_prefixed};
use esker_base::merge_operator::{MergeOperator, MergeOperatorRef};
use esker_base::sync::{Arc, OnceLock};
use esker_base::{Error, Result};

/// The name of operands that take the function of the operand behind them. RocksDB:
/// `kUnnamedFuncName`.
pub const UNNAMED_FUNC_NAME: &[u8] = b"";

/// The name of values whose operands could not be aggregated. [`extract_list`] gives the operands.
/// RocksDB: `kErrorFuncName`.
pub const ERROR_FUNC_NAME: &[u8] = b"kErrorFuncName";

/// The name of the operator in table properties and OPTIONS files.
const OPERATOR_NAME: &str = "AggMergeOperator.v1";

/// A function that aggregates payloads. [`add_aggregator`] gives it a name.
pub trait Aggregator: Send + Sync {
    /// The aggregate of `values`, at least one, oldest first; `None` if they are invalid.
    ///
    /// If the function of the key changed, the first value is the former function's result.
    fn aggregate(&self, values: &[&[u8]]) -> Option<Vec<u8>>;

    /// Whether compactions aggregate operands without the value below them. Default true.
    fn do_partial_aggregate(&self) -> bool {
        true
    }
}

/// A registered function, and those that were registered later.
struct Registered {
    name: Vec<u8>,
    aggregator: Box<dyn Aggregator>,
    next: OnceLock<Box<Registered>>,
}

static FIRST: OnceLock<Box<Registered>> = OnceLock::new();

/// The function with this name.
fn aggregator(name: &[u8]) -> Option<&'static dyn Aggregator> {
    let mut place = &FIRST;
    while let Some(registered) = place.get() {
        if registered.name == name {
            return Some(&*registered.aggregator);
        }
        place = &registered.next;
    }
    None
}

/// Registers a function for all databases of this process. The first function with a name stays;
/// later ones are dropped without an error, as in RocksDB. May be called at any time, from any
/// thread.
///
/// ```
/// use esker_format::agg_merge::{Aggregator, add_aggregator};
///
/// struct Longest;
///
/// impl Aggregator for Longest {
///     fn aggregate(&self, values: &[&[u8]]) -> Option<Vec<u8>> {
///         values.iter().max_by_key(|value| value.len()).map(|value| value.to_vec())
///     }
/// }
///
/// add_aggregator("longest", Box::new(Longest))?;
/// assert!(add_aggregator("kErrorFuncName", Box::new(Longest)).is_err());
/// # Ok::<_, esker_base::Error>(())
/// ```
/// # Errors
/// `InvalidArgument` if the name is [`ERROR_FUNC_NAME`].
pub fn add_aggregator(function_name: impl AsRef<[u8]>, aggregator: Box<dyn Aggregator>) -> Result<()> {
    let name = function_name.as_ref().to_vec();
    if name == ERROR_FUNC_NAME {
        return Err(Error::invalid_argument("Cannot register function name kErrorFuncName"));
    }
    let mut new = Box::new(Registered { name, aggregator, next: OnceLock::new() });
    let mut place = &FIRST;
    loop {
        // The place may have been filled by another thread: then the search goes on behind it.
        match place.set(new) {
            Ok(()) => return Ok(()),
            Err(refused) => new = refused,
        }
        match place.get() {
            Some(registered) if registered.name == new.name => return Ok(()),
            Some(registered) => place = &registered.next,
            None => {}
        }
    }
}

/// The merge operator: RocksDB's `GetAggMergeOperator`. All calls return the same one.
///
/// ```
/// use esker_format::agg_merge::{
///     Aggregator, UNNAMED_FUNC_NAME, add_aggregator, agg_merge_operator,
///     encode_agg_func_and_payload, extract_agg_func_and_value,
/// };
///
/// struct Sum;
///
/// impl Aggregator for Sum {
///     fn aggregate(&self, values: &[&[u8]]) -> Option<Vec<u8>> {
///         let number = |text: &&[u8]| std::str::from_utf8(text).ok()?.parse::<i64>().ok();
///         let sum = values.iter().map(number).sum::<Option<i64>>()?;
///         Some(sum.to_string().into_bytes())
///     }
/// }
///
/// add_aggregator("sum", Box::new(Sum))?;
/// let stored = encode_agg_func_and_payload(UNNAMED_FUNC_NAME, "200")?;
/// let operand = encode_agg_func_and_payload("sum", "300")?;
/// let merged = agg_merge_operator().full_merge(b"key", Some(&stored), &[&operand]).unwrap();
/// assert_eq!(extract_agg_func_and_value(&merged), Some((&b"sum"[..], &b"500"[..])));
/// # Ok::<_, esker_base::Error>(())
/// ```
pub fn agg_merge_operator() -> MergeOperatorRef {
    static OPERATOR: OnceLock<MergeOperatorRef> = OnceLock::new();
    Arc::clone(OPERATOR.get_or_init(|| Arc::new(AggMerge)))
}

/// An operand, or a value: the function's name and a payload.
/// # Errors
/// `InvalidArgument` if the name is [`ERROR_FUNC_NAME`], or is neither registered nor
/// [`UNNAMED_FUNC_NAME`].
pub fn encode_agg_func_and_payload(
    function_name: impl AsRef<[u8]>,
    payload: impl AsRef<[u8]>,
) -> Result<Vec<u8>> {
    let name = function_name.as_ref();
    if name == ERROR_FUNC_NAME {
        return Err(Error::invalid_argument("Cannot use error function name"));
    }
    if name != UNNAMED_FUNC_NAME && aggregator(name).is_none() {
        return Err(Error::invalid_argument("Function name not registered"));
    }
    Ok(encode(name, payload.as_ref()))
}

fn encode(name: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(name.len() + payload.len() + 5);
    put_length_prefixed(&mut encoded, name);
    encoded.extend_from_slice(payload);
    encoded
}

/// Function name and payload of an operand or a value. `None` if the bytes are cut off.
pub fn extract_agg_func_and_value(encoded: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut decoder = Decoder::new(encoded);
    let name = decoder.length_prefixed().ok()?;
    Some((name, decoder.rest()))
}

/// The items of a list. The payload of a value with the name [`ERROR_FUNC_NAME`] is one: the value
/// below the operands, if there was one, and the operands, oldest first. `None` if the bytes are
/// cut off. As in RocksDB, a length at the very end, without any byte of its item, counts as
/// nothing.
pub fn extract_list(encoded: &[u8]) -> Option<Vec<&[u8]>> {
    let (mut decoder, mut items) = (Decoder::new(encoded), Vec::new());
    while !decoder.is_empty() {
        let length = decoder.varint32().ok()?;
        match decoder.bytes(length as usize) {
            Ok(item) => items.push(item),
            Err(_) if decoder.is_empty() => break,
            Err(_) => return None,
        }
    }
    Some(items)
}

/// The payloads of one key, aggregated as far as necessary.
#[derive(Default)]
struct Accumulator<'a> {
    /// The function, once an operand has named one.
    function: Option<&'a [u8]>,
    /// The result of a former function. It is the first of the values.
    former: Option<Vec<u8>>,
    values: Vec<&'a [u8]>,
    /// Whether a bad operand was met. Operands behind it are ignored.
    is_done: bool,
}

impl<'a> Accumulator<'a> {
    /// Adds an operand. Returns false if a partial merge is not possible.
    fn add(&mut self, operand: &'a [u8], is_partial: bool) -> bool {
        if self.is_done {
            return true;
        }
        let Some((name, value)) = extract_agg_func_and_value(operand) else {
            self.is_done = true;
            return true;
        };
        if is_partial
            && !name.is_empty()
            && !aggregator(name).is_some_and(|aggregator| aggregator.do_partial_aggregate())
        {
            return false;
        }
        match self.function {
            None if name == UNNAMED_FUNC_NAME => {}
            None => self.function = Some(name),
            Some(function) if function == name => {}
            Some(_) if is_partial => return false,
            Some(function) => {
                let Some(result) = self.aggregate(function) else {
                    (self.function, self.is_done) = (None, true);
                    return true;
                };
                self.former = Some(result);
                self.values.clear();
                self.function = Some(name);
            }
        }
        self.values.push(value);
        true
    }

    fn aggregate(&self, function: &[u8]) -> Option<Vec<u8>> {
        let aggregator = aggregator(function)?;
        match &self.former {
            None => aggregator.aggregate(&self.values),
            Some(former) => {
                let former = std::iter::once(former.as_slice());
                aggregator.aggregate(&former.chain(self.values.iter().copied()).collect::<Vec<_>>())
            }
        }
    }

    fn finish(&self) -> Option<Vec<u8>> {
        let function = self.function?;
        Some(encode(function, &self.aggregate(function)?))
    }
}

struct AggMerge;

impl MergeOperator for AggMerge {
    fn name(&self) -> &str {
        OPERATOR_NAME
    }
    fn full_merge(&self, _key: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let all = || existing.into_iter().chain(operands.iter().copied());
        let mut accumulator = Accumulator::default();
        all().for_each(|operand| _ = accumulator.add(operand, false));
        Some(accumulator.finish().unwrap_or_else(|| {
            let mut packed = Vec::new();
            put_length_prefixed(&mut packed, ERROR_FUNC_NAME);
            all().for_each(|operand| put_length_prefixed(&mut packed, operand));
            packed
        }))
    }
    fn partial_merge(&self, _key: &[u8], left: &[u8], right: &[u8]) -> Option<Vec<u8>> {
        let mut accumulator = Accumulator::default();
        let goes_on = accumulator.add(left, true) && accumulator.add(right, true);
        goes_on.then(|| accumulator.finish()).flatten()
    }
    fn allow_single_operand(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
