//! Generates the calls of `tests/wrong_arguments.rs`: each has one wrong argument, NULL with a
//! length or a column family of another database.
//!
//! In: the declarations. Out: Rust text, two arrays of `WrongCall`. The other arguments come from
//! the test's `Fixture`; every length and count among them is 2.

use esker_capi_surface::{Function, rust_type};

const TEXT: [&str; 2] = ["*const libc::c_char", "*mut libc::c_char"];
const TEXTS: &str = "*const *const libc::c_char";

/// The calls with NULL.
pub(super) fn null_calls<'a>(functions: impl Iterator<Item = &'a Function>) -> String {
    calls(functions, |name, ty, next| {
        let is_families = is_family(ty) && ty != "*mut rocksdb_column_family_handle_t" && is_input(name);
        match ty {
            ty if TEXT.contains(&ty) && next == "usize" => &[(0, "null")],
            TEXTS if next == "*const usize" => &[(0, "null"), (1, "null"), (0, "nulls")],
            TEXTS => &[(0, "null")],
            "*const rocksdb_slice_t" => &[(0, "null"), (0, "nulls")],
            "*const libc::c_int" | "*mut libc::c_int" if next == "usize" => &[(0, "null")],
            _ if is_families => &[(0, "null")],
            _ => &[],
        }
    })
}

/// The calls with families of another database.
pub(super) fn foreign_calls<'a>(functions: impl Iterator<Item = &'a Function>) -> String {
    calls(functions, |name, ty, _| if is_family(ty) && is_input(name) { &[(0, "foreign")] } else { &[] })
}

fn is_family(ty: &str) -> bool {
    ty.ends_with("rocksdb_column_family_handle_t")
}

/// Whether the family or the families of this name are not places for new handles.
fn is_input(name: &str) -> bool {
    ["column_family", "column_families", "handle", "cf"].contains(&name)
}

/// The calls of `functions`. `wrong` tells for a parameter's name, type, and the next type which
/// arguments are wrong: how far behind the parameter, and the method of the fixture that makes it.
fn calls<'a>(
    functions: impl Iterator<Item = &'a Function>,
    wrong: fn(&str, &str, &str) -> &'static [(usize, &'static str)],
) -> String {
    let mut text = "&[\n".to_string();
    for function in functions {
        let types: Vec<String> = function.parameters.iter().map(|it| rust_type(&it.ty)).collect();
        let names: Vec<&str> = function.parameters.iter().map(|it| it.name.as_str()).collect();
        for (at, ty) in types.iter().enumerate() {
            let next = types.get(at + 1).map_or("", String::as_str);
            for (behind, argument) in wrong(names[at], ty, next) {
                text.push_str(&call(function, &names, at + behind, argument));
            }
        }
    }
    text + "]"
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
        "WrongCall {{ function: \"{0}\", parameter: \"{1}\", has_errors: {2}, \
         call: |f| unsafe {{ {0}({3}).empty() }} }},\n",
        function.name,
        names[at],
        names.iter().any(|name| ["errptr", "errs"].contains(name)),
        arguments.join(", ")
    )
}
