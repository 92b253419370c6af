//! Prints declarations: as `surface.txt`, as a C header, as Rust declarations.
//!
//! In: declarations. Out: text in their order. The Rust types are those of bindgen with
//! `ctypes_prefix("libc")` and `size_t_is_usize(true)`, so that crates written for bindgen's output
//! compile.

use crate::{Declaration, Function, Item, Parameter, RELEASES, Type};

/// `surface` as the text of `surface.txt`.
pub fn surface_text(surface: &[Declaration]) -> String {
    let mut text = String::from(
        "# The declarations of RocksDB's c.h, each behind the releases that have it. Made by\n\
         # `cargo xtask capi-surface` from the headers; do not edit.\n",
    );
    for Declaration { first, last, item } in surface {
        let last = if *last == RELEASES.len() - 1 { "" } else { RELEASES[*last] };
        text.push_str(&format!("{}-{last} {}\n", RELEASES[*first], c_item(item)));
    }
    text
}

/// A header that declares `items`, for C and C++.
pub fn c_header(items: &[Item]) -> String {
    let mut text = String::from(
        "/* The C interface of RocksDB, as Esker provides it. Made from Esker's record of RocksDB's\n\
         \u{20}  declarations, see docs/compat/c-api.md. */\n\n#pragma once\n\n#include <stdbool.h>\n\
         #include <stddef.h>\n#include <stdint.h>\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n",
    );
    for item in items {
        text.push_str(&c_item(item));
        text.push('\n');
    }
    text.push_str("\n#ifdef __cplusplus\n}\n#endif\n");
    text
}

/// Rust declarations of `items`. `symbol` returns the name under which to link a function; `None`
/// means the function's own name.
pub fn rust_bindings(items: &[Item], symbol: impl Fn(&str) -> Option<String>) -> String {
    let mut text = String::new();
    let mut functions = String::new();
    for item in items {
        match item {
            Item::Function(function) => {
                if let Some(symbol) = symbol(&function.name) {
                    functions.push_str(&format!("    #[link_name = \"{symbol}\"]\n"));
                }
                functions.push_str(&format!("    pub fn {}{};\n", function.name, rust_signature(function)));
            }
            other => text.push_str(&rust_item(other)),
        }
    }
    if !functions.is_empty() {
        text.push_str(&format!("unsafe extern \"C\" {{\n{functions}}}\n"));
    }
    text
}

/// The Rust form of a type or constant.
fn rust_item(item: &Item) -> String {
    match item {
        Item::Opaque(name) => {
            format!("#[repr(C)]\n#[derive(Copy, Clone)]\npub struct {name} {{\n    _unused: [u8; 0],\n}}\n")
        }
        Item::Struct(name, fields) => {
            let field = |field: &Parameter| {
                format!("    pub {}: {},\n", rust_name(&field.name), rust_type(&field.ty))
            };
            let fields: String = fields.iter().map(field).collect();
            format!("#[repr(C)]\n#[derive(Copy, Clone)]\npub struct {name} {{\n{fields}}}\n")
        }
        Item::Callback(function) => {
            format!("pub type {} = {};\n", function.name, rust_function_type(function))
        }
        Item::Constant(name, value) => {
            let ty = if *value < 0 { "libc::c_int" } else { "libc::c_uint" };
            format!("pub const {name}: {ty} = {value};\n")
        }
        Item::Function(function) => format!("pub fn {}{};\n", function.name, rust_signature(function)),
    }
}

/// Parameters and result of `function`, as `(name: type, …) -> type`.
pub fn rust_signature(function: &Function) -> String {
    let parameters: Vec<String> = function.parameters.iter().enumerate().map(rust_parameter).collect();
    format!("({}){}", parameters.join(", "), rust_result(&function.result))
}

/// The Rust form of `ty`.
pub fn rust_type(ty: &Type) -> String {
    match ty {
        Type::Named(name) => match name.as_str() {
            "void" => "libc::c_void",
            "char" => "libc::c_char",
            "signed char" => "libc::c_schar",
            "unsigned char" => "libc::c_uchar",
            "int" => "libc::c_int",
            "unsigned" | "unsigned int" => "libc::c_uint",
            "long" => "libc::c_long",
            "unsigned long" => "libc::c_ulong",
            "unsigned long long" => "libc::c_ulonglong",
            "int32_t" => "i32",
            "uint8_t" => "u8",
            "uint32_t" => "u32",
            "int64_t" => "i64",
            "uint64_t" => "u64",
            "size_t" => "usize",
            "float" => "f32",
            "double" => "f64",
            other => other,
        }
        .to_string(),
        Type::Pointer(true, to) => format!("*const {}", rust_type(to)),
        Type::Pointer(false, to) => format!("*mut {}", rust_type(to)),
        Type::Function(function) => rust_function_type(function),
    }
}

fn rust_function_type(function: &Function) -> String {
    format!("Option<unsafe extern \"C\" fn{}>", rust_signature(function))
}

fn rust_parameter((at, parameter): (usize, &Parameter)) -> String {
    let name = if parameter.name.is_empty() { format!("arg{}", at + 1) } else { rust_name(&parameter.name) };
    format!("{name}: {}", rust_type(&parameter.ty))
}

fn rust_result(result: &Type) -> String {
    match result {
        Type::Named(name) if name == "void" => String::new(),
        ty => format!(" -> {}", rust_type(ty)),
    }
}

/// `name`, with `_` appended if `name` is a Rust keyword.
fn rust_name(name: &str) -> String {
    match name {
        "type" | "in" | "fn" | "ref" | "move" | "use" | "box" | "final" | "priv" | "async" => {
            format!("{name}_")
        }
        _ => name.to_string(),
    }
}

/// The declaration in C, on one line.
fn c_item(item: &Item) -> String {
    match item {
        Item::Opaque(name) => format!("typedef struct {name} {name};"),
        Item::Struct(name, fields) => {
            let fields: String = fields.iter().map(|field| format!(" {};", c_parameter(field))).collect();
            format!("typedef struct {name} {{{fields} }} {name};")
        }
        Item::Callback(function) => format!("typedef {};", c_function_pointer(function)),
        Item::Constant(name, value) => format!("enum {{ {name} = {value} }};"),
        Item::Function(function) => {
            format!("{} {}({});", c_type(&function.result), function.name, c_parameters(function))
        }
    }
}

fn c_parameters(function: &Function) -> String {
    if function.parameters.is_empty() {
        return "void".to_string();
    }
    function.parameters.iter().map(c_parameter).collect::<Vec<_>>().join(", ")
}

fn c_parameter(parameter: &Parameter) -> String {
    match &parameter.ty {
        Type::Function(function) => c_function_pointer(function),
        ty if parameter.name.is_empty() => c_type(ty),
        ty => format!("{} {}", c_type(ty), parameter.name),
    }
}

fn c_function_pointer(function: &Function) -> String {
    format!("{} (*{})({})", c_type(&function.result), function.name, c_parameters(function))
}

fn c_type(ty: &Type) -> String {
    match ty {
        Type::Named(name) => name.clone(),
        Type::Pointer(true, to) => match to.as_ref() {
            Type::Named(name) => format!("const {name}*"),
            to => format!("{} const*", c_type(to)),
        },
        Type::Pointer(false, to) => format!("{}*", c_type(to)),
        Type::Function(function) => c_function_pointer(function),
    }
}
