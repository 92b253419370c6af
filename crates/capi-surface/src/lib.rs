//! The declarations of RocksDB's C API by release: functions, types and constants.
//!
//! In: `surface.txt` and `statistics.txt`, which `cargo xtask capi-surface` makes from the headers
//! of five releases. Out: declarations as values, a C header ([`c_header`]), and Rust declarations
//! in bindgen's form ([`rust_bindings`]). The build scripts of `esker-capi` and of the shims use
//! them.
//!
//! Invariant: each line of `surface.txt` has a range of releases and a declaration in C. A
//! declaration that changed has one line for each form.
#![warn(missing_docs)]

mod parse;
mod print;
mod statistics;

pub use parse::{ParseError, parse_header, parse_surface};
pub use print::{c_header, rust_bindings, rust_signature, rust_type, surface_text};
pub use statistics::{StatisticKind, statistics_numbers, statistics_text};

/// The releases whose `c.h` is recorded, oldest first, each as major and minor number.
pub const RELEASES: [&str; 5] = ["8.1", "8.10", "10.4", "11.8", "11.12"];

/// Functions that make options whose defaults changed in RocksDB 11. The defaults decide the format
/// of written files.
const DEFAULTS_CHANGED_IN_11: [&str; 2] = ["rocksdb_options_create", "rocksdb_block_based_options_create"];

/// The text of the recorded surface.
pub const SURFACE: &str = include_str!("../surface.txt");

/// A declaration and the releases that have it, as indexes into [`RELEASES`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// The first release.
    pub first: usize,
    /// The last release, inclusive.
    pub last: usize,
    /// The declaration.
    pub item: Item,
}

/// One declaration of the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A type without visible fields. Clients have only pointers to the type.
    Opaque(String),
    /// A type with visible fields.
    Struct(String, Vec<Parameter>),
    /// A named function type, for functions that clients pass.
    Callback(Function),
    /// A constant of an enumeration.
    Constant(String, i64),
    /// A function.
    Function(Function),
}

impl Item {
    /// The declared name.
    pub fn name(&self) -> &str {
        match self {
            Item::Opaque(name) | Item::Struct(name, _) | Item::Constant(name, _) => name,
            Item::Callback(function) | Item::Function(function) => &function.name,
        }
    }

    /// The declaration without the names of parameters, which do not matter to the ABI.
    pub fn shape(&self) -> Item {
        match self {
            Item::Function(function) => Item::Function(function.shape()),
            Item::Callback(function) => Item::Callback(function.shape()),
            other => other.clone(),
        }
    }

    /// The function, if the item is a function.
    pub fn function(&self) -> Option<&Function> {
        match self {
            Item::Function(function) => Some(function),
            _ => None,
        }
    }
}

/// A function, or a function type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// The function's name.
    pub name: String,
    /// The type of the result.
    pub result: Type,
    /// The parameters, in order.
    pub parameters: Vec<Parameter>,
}

impl Function {
    fn shape(&self) -> Function {
        let unnamed = |ty: &Type| match ty {
            Type::Function(function) => {
                Type::Function(Box::new(Function { name: String::new(), ..function.shape() }))
            }
            other => other.clone(),
        };
        let parameters = self.parameters.iter().map(|parameter| &parameter.ty).map(unnamed);
        let parameters = parameters.map(|ty| Parameter { name: String::new(), ty }).collect();
        Function { name: self.name.clone(), result: self.result.clone(), parameters }
    }
}

/// A parameter of a function, or a field of a struct. The name may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The name.
    pub name: String,
    /// The type.
    pub ty: Type,
}

/// A C type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// A named type, or `void`.
    Named(String),
    /// A pointer. The flag says whether the target is constant.
    Pointer(bool, Box<Type>),
    /// A pointer to an unnamed function type.
    Function(Box<Function>),
}

/// The recorded declarations of `release`, an index into [`RELEASES`].
pub fn release(release: usize) -> Vec<Item> {
    let surface = parse_surface(SURFACE).expect("surface.txt is checked by a test");
    let held = |declared: &Declaration| declared.first <= release && release <= declared.last;
    surface.into_iter().filter(held).map(|declared| declared.item).collect()
}

/// The newest form of each recorded declaration: the union of all releases.
pub fn union() -> Vec<Item> {
    let surface = parse_surface(SURFACE).expect("surface.txt is checked by a test");
    let is_newest = |declared: &&Declaration| {
        let name = declared.item.name();
        let mut others = surface.iter().filter(|other| other.item.name() == name);
        others.all(|other| other.last <= declared.last)
    };
    surface.iter().filter(is_newest).map(|declared| declared.item.clone()).collect()
}

/// The Rust declarations of the release `at`, an index into [`RELEASES`], for the shim of that
/// release's `librocksdb-sys`.
///
/// A function that has changed since that release is linked as `esker_vN_NAME`. N is the release's
/// major number. For `rocksdb_options_create` of 8.1, N is `8_1`, because its defaults differ from
/// those of 8.10. A function has changed if its declaration, the numbers of its statistics, or the
/// defaults of its options have changed.
pub fn shim_bindings(at: usize) -> String {
    let newest = union();
    let items = release(at);
    let major = RELEASES[at].split('.').next().expect("a release has a major number");
    let has_changed = |name: &str| {
        let of = |items: &[Item]| items.iter().find(|item| item.name() == name).map(Item::shape);
        let (old, new) = (of(&items), of(&newest));
        !matches!((old, new), (Some(Item::Function(old)), Some(Item::Function(new))) if is_same_call(&old, &new))
    };
    let numbers_changed = |name: &str| {
        let kind = StatisticKind::ALL.into_iter().find(|kind| kind.function() == name);
        kind.is_some_and(|kind| !statistics::has_newest_numbers(at, kind))
    };
    let is_before_11 = major.parse::<u32>().is_ok_and(|major| major < 11);
    let defaults_changed = |name: &str| is_before_11 && DEFAULTS_CHANGED_IN_11.contains(&name);
    let symbol = |name: &str| {
        let changed = has_changed(name) || numbers_changed(name) || defaults_changed(name);
        // 8.1 has its own default of level_compaction_dynamic_level_bytes.
        let of_8_1 = at == 0 && name == "rocksdb_options_create";
        let form = if of_8_1 { "8_1" } else { major };
        changed.then(|| format!("esker_v{form}_{name}"))
    };
    rust_bindings(&items, symbol)
}

/// Whether a caller of the old form can call the new form instead. Constness does not matter.
fn is_same_call(old: &Function, new: &Function) -> bool {
    let call = |function: &Function| rust_signature(function).replace("*const", "*mut");
    call(old) == call(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surface_text_reads_back_as_it_is() {
        let surface = parse_surface(SURFACE).unwrap();
        assert_eq!(surface_text(&surface), SURFACE);
        assert!(union().iter().filter_map(Item::function).count() > 1750);
    }

    #[test]
    fn a_declaration_that_changed_has_its_form_of_each_release() {
        let parameters = |at: usize| {
            let items = release(at);
            let found = items.iter().filter_map(Item::function);
            let mut found = found.filter(|function| function.name == "rocksdb_slicetransform_create");
            found.next().unwrap().parameters.len()
        };
        assert_eq!((parameters(0), parameters(2), parameters(3)), (6, 6, 5));
    }

    #[test]
    fn the_union_has_the_newest_form_of_each_declaration_once() {
        let union = union();
        let mut names: Vec<&str> = union.iter().map(Item::name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        let newest = release(RELEASES.len() - 1);
        assert!(newest.iter().all(|item| union.contains(item)));
    }

    #[test]
    fn a_shim_links_a_changed_function_to_its_old_form() {
        let changed = |at: usize| {
            let bindings = shim_bindings(at);
            let names = bindings.lines().filter_map(|line| line.trim().strip_prefix("#[link_name = \""));
            names.map(|name| name.trim_end_matches("\"]").to_string()).collect::<Vec<_>>()
        };
        assert_eq!(
            changed(0),
            [
                "esker_v8_rocksdb_enable_file_deletions",
                "esker_v8_rocksdb_block_based_options_create",
                "esker_v8_1_rocksdb_options_create",
                "esker_v8_rocksdb_options_set_plain_table_factory",
                "esker_v8_rocksdb_slicetransform_create"
            ]
        );
        assert_eq!(
            changed(1),
            [
                "esker_v8_rocksdb_enable_file_deletions",
                "esker_v8_rocksdb_block_based_options_create",
                "esker_v8_rocksdb_options_create",
                "esker_v8_rocksdb_options_statistics_get_ticker_count",
                "esker_v8_rocksdb_options_statistics_get_histogram_data",
                "esker_v8_rocksdb_slicetransform_create"
            ]
        );
        assert_eq!(
            changed(2),
            [
                "esker_v10_rocksdb_block_based_options_create",
                "esker_v10_rocksdb_options_create",
                "esker_v10_rocksdb_options_statistics_get_ticker_count",
                "esker_v10_rocksdb_slicetransform_create"
            ]
        );
        assert!(changed(3).is_empty());
    }

    #[test]
    fn a_header_made_from_the_surface_declares_the_surface() {
        for at in 0..RELEASES.len() {
            assert_eq!(parse_header(&c_header(&release(at))).unwrap(), release(at));
        }
    }

    #[test]
    fn damaged_declarations_are_errors() {
        for text in ["8.1- int f(", "9.9- int f();", "8.1- typedef struct a", "11.8-8.1 int f();", "int f();"]
        {
            assert!(parse_surface(text).is_err(), "{text}");
        }
    }
}
