//! Generates the calls of `tests/nulls.rs`: each gives NULL in the place of one array or key.
//!
//! In: the declarations. Out: Rust text, an array of `NullCall`. The other arguments come from the
//! test's `Fixture`; every length and count among them is 2.

use esker_capi_surface::{Function, rust_type};

const TEXT: [&str; 2] = ["*const libc::c_char", "*mut libc::c_char"];
const TEXTS: &str = "*const *const libc::c_char";

/// The calls of `functions`.
pub(super) fn null_calls<'a>(functions: impl Iterator<Item = &'a Function>) -> String {
    let calls: String = functions.flat_map(calls_of).collect();
    format!("&[\n{calls}]")
}

fn calls_of(function: &Function) -> Vec<String> {
    let types: Vec<String> = function.parameters.iter().map(|it| rust_type(&it.ty)).collect();
    let names: Vec<&str> = function.parameters.iter().map(|it| it.name.as_str()).collect();
    let mut calls = Vec::new();
    for (at, ty) in types.iter().enumerate() {
        let next = types.get(at + 1).map_or("", String::as_str);
        let is_families = ty.starts_with("*const *") || ty.starts_with("*mut *");
        let is_families = is_families && ty.ends_with("rocksdb_column_family_handle_t");
        let places: &[(usize, &str)] = match ty.as_str() {
            ty if TEXT.contains(&ty) && next == "usize" => &[(0, "null")],
            TEXTS if next == "*const usize" => &[(0, "null"), (1, "null"), (0, "nulls")],
            TEXTS => &[(0, "null")],
            "*const rocksdb_slice_t" => &[(0, "null"), (0, "nulls")],
            "*const libc::c_int" | "*mut libc::c_int" if next == "usize" => &[(0, "null")],
            _ if is_families && ["column_families", "column_family"].contains(&names[at]) => &[(0, "null")],
            _ => &[],
        };
        calls.extend(places.iter().map(|(behind, argument)| call(function, &names, at + behind, argument)));
    }
    calls
}

/// The call with `f.{argument}()` in the place `at`.
fn call(function: &Function, names: &[&str], at: usize, argument: &str) -> String {
    let given = |(place, name): (usize, &&str)| match *name {
        _ if place == at => format!("f.{argument}()"),
        "errptr" | "errs" => "f.errors()".to_string(),
        _ => "f.argument()".to_string(),
    };
    let arguments: Vec<String> = names.iter().enumerate().map(given).collect();
    format!(
        "NullCall {{ function: \"{0}\", parameter: \"{1}\", has_errors: {2}, \
         call: |f| unsafe {{ {0}({3}).empty() }} }},\n",
        function.name,
        names[at],
        names.iter().any(|name| ["errptr", "errs"].contains(name)),
        arguments.join(", ")
    )
}
