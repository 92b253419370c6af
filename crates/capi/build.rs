//! Generates the functions of the C API that are not written by hand.
//!
//! In: the declarations (`esker_capi_surface`), `accessors.txt`, and the sources, which show the
//! functions written by hand. Out: `accessors.rs`, a setter or getter for each line of the table;
//! `missing.rs`, a function that answers "Not implemented: NAME" for each other declared function;
//! `metrics.rs` and `older_statistics.rs`, tables of numbers. For the tests: `signatures.rs`,
//! `null_calls.rs` and `foreign_calls.rs`.
#![allow(clippy::disallowed_methods, reason = "cargo gives a build script the file system itself")]

#[path = "build/wrong_calls.rs"]
mod wrong_calls;

use esker_capi_surface::{Function, Item, RELEASES, Type, rust_bindings, rust_signature, rust_type, union};
use esker_capi_surface::{StatisticKind, statistics_numbers};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=accessors.txt");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,librocksdb.so.11");
    let items = union();
    let functions: BTreeMap<&str, &Function> =
        items.iter().filter_map(Item::function).map(|function| (function.name.as_str(), function)).collect();
    let callbacks = items.iter().filter(|item| matches!(item, Item::Callback(_)));
    let callbacks: BTreeSet<&str> = callbacks.map(Item::name).collect();
    let by_hand = written_by_hand();
    let table = fs::read_to_string("accessors.txt").expect("accessors.txt lies beside build.rs");
    let (accessors, generated) = accessors(&table, &functions, &by_hand);
    let is_there = |name: &String| by_hand.contains(name) || generated.contains(name);
    let absent: Vec<&&Function> = functions.values().filter(|function| !is_there(&function.name)).collect();
    let names: Vec<&str> = absent.iter().map(|function| function.name.as_str()).collect();
    let missing: String = absent.iter().map(|function| missing(function, &callbacks)).collect();
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    fs::write(Path::new(&out).join("accessors.rs"), accessors).expect("OUT_DIR can be written");
    fs::write(Path::new(&out).join("missing.rs"), missing).expect("OUT_DIR can be written");
    fs::write(Path::new(&out).join("missing_names.rs"), format!("&{names:?}"))
        .expect("OUT_DIR can be written");
    fs::write(Path::new(&out).join("metrics.rs"), metrics(&items)).expect("OUT_DIR can be written");
    fs::write(Path::new(&out).join("older_statistics.rs"), older_statistics())
        .expect("OUT_DIR can be written");
    let there: BTreeSet<&str> = by_hand.iter().chain(&generated).map(String::as_str).collect();
    let uses = |item: &&Item| {
        let parameters = there.iter().flat_map(|name| functions.get(name)).flat_map(|it| &it.parameters);
        let is_callback = matches!(item, Item::Callback(_));
        is_callback && parameters.map(|it| &it.ty).any(|ty| *ty == Type::Named(item.name().to_string()))
    };
    let callbacks: Vec<Item> = items.iter().filter(uses).cloned().collect();
    let signatures = signatures(&rust_bindings(&callbacks, |_| None), &functions, &there);
    fs::write(Path::new(&out).join("signatures.rs"), signatures).expect("OUT_DIR can be written");
    let called = || there.iter().filter_map(|name| functions.get(name)).copied();
    let (null_calls, foreign_calls) =
        (wrong_calls::null_calls(called()), wrong_calls::foreign_calls(called()));
    fs::write(Path::new(&out).join("null_calls.rs"), null_calls).expect("OUT_DIR can be written");
    fs::write(Path::new(&out).join("foreign_calls.rs"), foreign_calls).expect("OUT_DIR can be written");
}

/// The names of functions written by hand: each `fn rocksdb_…` in the sources, also in tables of
/// macros.
fn written_by_hand() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir("src").expect("the sources lie beside build.rs") {
        let path = entry.expect("a directory that can be listed").path();
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a source that can be read");
        for part in text.split("fn rocksdb_").skip(1) {
            let end = part.find(|c: char| c != '_' && !c.is_ascii_alphanumeric()).unwrap_or(part.len());
            names.insert(format!("rocksdb_{}", &part[..end]));
        }
    }
    names
}

/// The functions of `table`, and their names.
///
/// A section begins with `[TYPE PREFIX…]`: the Rust type behind the pointer, and the first parts of
/// the functions' names. A line `NAME = PLACE` gives the field that the functions PREFIX + NAME
/// access. A line `NAME ~ DEFAULT` gives a held value, which has no effect. A line `NAME ? PLACE`
/// gives a hint. A number that the hint's enumeration lacks becomes a held value.
fn accessors(
    table: &str,
    functions: &BTreeMap<&str, &Function>,
    by_hand: &BTreeSet<String>,
) -> (String, BTreeSet<String>) {
    let mut text = String::new();
    let mut names = BTreeSet::new();
    let (mut object, mut prefixes) = ("", Vec::new());
    for line in table.lines().map(|line| line.split('#').next().unwrap_or_default().trim()) {
        if let Some(section) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            let mut words = section.split_whitespace();
            object = words.next().expect("a section names its type");
            prefixes = words.collect();
            continue;
        }
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        let (name, place) = match words[..] {
            [name, "=", place] => (name, Place::Field(place.trim())),
            [name, "~", default] => (name, Place::Held(default.trim())),
            [name, "?", place] => (name, Place::Hint(place.trim())),
            _ if line.is_empty() => continue,
            _ => panic!("accessors.txt: '{line}' is neither a section, a field nor a held value"),
        };
        let mut found = false;
        for prefix in &prefixes {
            let full = format!("{prefix}{name}");
            let Some(function) = functions.get(full.as_str()) else { continue };
            found = true;
            if !by_hand.contains(&full) && names.insert(full) {
                text.push_str(&accessor(function, object, name, &place));
            }
        }
        assert!(found, "accessors.txt: no function of {prefixes:?} ends in {name}");
    }
    (text, names)
}

enum Place<'a> {
    Field(&'a str),
    Held(&'a str),
    Hint(&'a str),
}

fn accessor(function: &Function, object: &str, name: &str, place: &Place<'_>) -> String {
    let types: Vec<String> = function.parameters.iter().map(|parameter| rust_type(&parameter.ty)).collect();
    let pointer = if types[0].starts_with("*const") { "*const" } else { "*mut" };
    let result = rust_type(&function.result);
    let head = |parameters: &str, result: &str| {
        format!(
            "#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn {}(object: {pointer} {object}{parameters}){result} {{\n    ",
            function.name
        )
    };
    let types: Vec<&str> = types.iter().map(String::as_str).collect();
    let mut text = match (&types[1..], result.as_str(), place) {
        ([value], "libc::c_void", Place::Field(place)) => {
            head(&format!(", value: {value}"), "")
                + &format!("crate::field::set(object, \"{name}\", value, |object| &mut object.{place})")
        }
        ([value], "libc::c_void", Place::Held(_)) => {
            head(&format!(", value: {value}"), "") + &format!("crate::field::hold(object, \"{name}\", value)")
        }
        ([value], "libc::c_void", Place::Hint(place)) => {
            head(&format!(", value: {value}"), "")
                + &format!("crate::field::set_hint(object, \"{name}\", value, |object| &mut object.{place})")
        }
        ([], result, Place::Hint(place)) => {
            head("", &format!(" -> {result}"))
                + &format!("crate::field::hint(object, \"{name}\", |object| &object.{place})")
        }
        ([], result, Place::Field(place)) => {
            head("", &format!(" -> {result}"))
                + &format!("crate::field::get(object, |object| &object.{place})")
        }
        ([], result, Place::Held(default)) => {
            head("", &format!(" -> {result}")) + &format!("crate::field::held(object, \"{name}\", {default})")
        }
        (["*mut usize"], "*const libc::c_char", Place::Field(place)) => {
            head(", len: *mut usize", " -> *const libc::c_char")
                + &format!("crate::field::get_text(object, len, |object| &object.{place})")
        }
        (["*const libc::c_char", "usize"], "libc::c_void", Place::Field(place)) => {
            head(", text: *const libc::c_char, len: usize", "")
                + &format!("crate::field::set_text(object, text, len, |object| &mut object.{place})")
        }
        _ => panic!("accessors.txt: no accessor can be generated for the signature of {}", function.name),
    };
    text.push_str("\n}\n");
    text
}

/// A function that reports that it is not implemented. It reports by `errptr` if it has one.
/// Otherwise it prints to stderr and ends the process.
fn missing(function: &Function, callbacks: &BTreeSet<&str>) -> String {
    let mut text = String::new();
    let signature = opaque(function, callbacks);
    let by_errptr = function.parameters.last().is_some_and(|last| last.name == "errptr");
    let call = if by_errptr {
        let name = &function.name;
        match rust_type(&function.result).as_str() {
            "libc::c_void" => format!("crate::memory::missing(errptr, \"{name}\")"),
            result if result.starts_with('*') => {
                let null = if result.starts_with("*const") { "null" } else { "null_mut" };
                format!("crate::memory::missing(errptr, \"{name}\");\n    std::ptr::{null}()")
            }
            _ => format!("crate::memory::missing(errptr, \"{name}\");\n    Default::default()"),
        }
    } else {
        format!("crate::memory::missing_without_errptr(\"{}\")", function.name)
    };
    text.push_str(&format!(
        "#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn {}{signature} {{\n    {call}\n}}\n",
        function.name
    ));
    text
}

/// The signature of `function`, with `c_void` for RocksDB's own types.
fn opaque(function: &Function, callbacks: &BTreeSet<&str>) -> String {
    let mut function = function.clone();
    for ty in function.parameters.iter_mut().map(|parameter| &mut parameter.ty).chain([&mut function.result])
    {
        make_opaque(ty, callbacks);
    }
    rust_signature(&function)
}

fn make_opaque(ty: &mut Type, callbacks: &BTreeSet<&str>) {
    let pointer = || Type::Pointer(false, Box::new(Type::Named("void".to_string())));
    match ty {
        Type::Named(name) if callbacks.contains(name.as_str()) => *ty = pointer(),
        Type::Named(name) if name.starts_with("rocksdb_") => *name = "void".to_string(),
        Type::Named(_) => {}
        Type::Pointer(_, to) => make_opaque(to, callbacks),
        Type::Function(_) => *ty = pointer(),
    }
}

/// The names of the performance context's numbers, in the order of `c.h`.
fn metrics(items: &[Item]) -> String {
    let place = |name: &str| items.iter().position(|item| item.name() == name);
    let first = place("rocksdb_user_key_comparison_count").expect("c.h has the numbers");
    let end = place("rocksdb_total_metric_count").expect("c.h has their count");
    let names: Vec<&str> =
        items[first..end].iter().filter_map(|item| item.name().strip_prefix("rocksdb_")).collect();
    format!("&{names:?}")
}

/// Tables that translate the numbers of statistics in older releases to those of the newest.
fn older_statistics() -> String {
    let mut text = String::new();
    for (table, release, kind) in [
        ("TICKERS_OF_8", "8.10", StatisticKind::Tickers),
        ("HISTOGRAMS_OF_8", "8.10", StatisticKind::Histograms),
        ("TICKERS_OF_10", "10.4", StatisticKind::Tickers),
    ] {
        let release = RELEASES.iter().position(|known| *known == release).expect("a recorded release");
        let numbers = statistics_numbers(release, kind);
        text.push_str(&format!("static {table}: &[Option<u32>] = &{numbers:?};\n"));
    }
    text
}

/// Statements that compile only if each function of `there` has its declared signature.
fn signatures(types: &str, functions: &BTreeMap<&str, &Function>, there: &BTreeSet<&str>) -> String {
    let mut text = types.replace("pub type", "type");
    for function in functions.values().filter(|function| there.contains(function.name.as_str())) {
        let parameters: Vec<String> =
            function.parameters.iter().map(|parameter| rust_type(&parameter.ty)).collect();
        let result = match rust_type(&function.result).as_str() {
            "libc::c_void" => String::new(),
            result => format!(" -> {result}"),
        };
        text.push_str(&format!(
            "let _: unsafe extern \"C\" fn({}){result} = {};\n",
            parameters.join(", "),
            function.name
        ));
    }
    format!("{{\n{text}}}")
}
