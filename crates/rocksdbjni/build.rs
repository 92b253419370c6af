//! Generates the natives of RocksJava: a function for each line of `natives.txt`.
//!
//! In: `natives.txt`, `built.txt`, and `accessors.txt` of `capi` (`build/tables.rs`). Out:
//! `natives.rs`, the functions that the JVM looks up, and `table.rs`, for the tests. A native that
//! is not built throws "Not implemented: NAME".
#![allow(clippy::disallowed_methods, reason = "cargo gives a build script the file system itself")]

#[path = "build/tables.rs"]
mod tables;

use std::path::Path;
use std::{env, fs};
use tables::{Built, Native, natives};

fn main() {
    let read = |path: &str| {
        println!("cargo::rerun-if-changed={path}");
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,librocksdbjni.so");
    // Hides the functions of the C API: a program may also have RocksDB's.
    println!("cargo::rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
    let natives = natives(&read("natives.txt"));
    let built = Built::read(&read("built.txt"), &read("../capi/accessors.txt"));
    let unused = built.unused(&natives);
    assert!(unused.is_empty(), "built.txt: no native has these names: {unused:?}");
    let (mut functions, mut table) = (String::new(), String::from("[\n"));
    let mut wrong = Vec::new();
    for (number, native) in natives.iter().enumerate() {
        let name = format!("{}.{}", native.class, native.method);
        let given = built.answer(native);
        let answer = given.as_deref().map(|given| {
            let (expression, unused) = given.split_once(" // unused:").unwrap_or((given, ""));
            wrong.extend(undeclared(native, &name, expression, unused));
            expression
        });
        table.push_str(&format!(
            "(\"{name}{}\", \"{}\", {}),\n",
            native.descriptor,
            native.symbol(),
            answer.is_some()
        ));
        functions.push_str(&function(number, native, &name, answer));
    }
    assert!(wrong.is_empty(), "built.txt: arguments neither used nor declared unused, or both: {wrong:#?}");
    table.push(']');
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    fs::write(Path::new(&out).join("natives.rs"), functions).expect("OUT_DIR can be written");
    fs::write(Path::new(&out).join("table.rs"), table).expect("OUT_DIR can be written");
}

/// The Rust type of references.
const OBJECT: &str = "jni_sys::jobject";

/// The Rust type of a Java value.
fn rust_type(java: char) -> &'static str {
    match java {
        'Z' => "bool",
        'B' => "i8",
        'C' => "u16",
        'S' => "i16",
        'I' => "i32",
        'J' => "i64",
        'F' => "f32",
        'D' => "f64",
        'V' => "()",
        _ => OBJECT,
    }
}

/// The function that the JVM calls.
fn function(number: usize, native: &Native, name: &str, answer: Option<&str>) -> String {
    let (arguments, result) = native.types();
    let (mut parameters, mut conversions) = (String::new(), String::new());
    for (number, java) in (1..).zip(&arguments) {
        let names = |prefix: &str| answer.is_some_and(|it| has_word(it, &format!("{prefix}{number}")));
        let unused = if names("a") || names("r") { "" } else { "_" };
        parameters.push_str(&format!(", {unused}r{number}: {}", rust_type(*java)));
        if names("a") {
            conversions.push_str(&format!(
                "        // SAFETY: RocksJava's class passes what built.txt says of argument {number}.\n        \
                 let a{number} = unsafe {{ crate::border::from_java(r{number}) }};\n"
            ));
        }
    }
    let this = if answer.is_some_and(|answer| has_word(answer, "this")) { "this" } else { "_this" };
    if this == "this" {
        conversions.push_str(
            "        // SAFETY: the JVM passes the object or the class of the method.\n        \
             let this = unsafe { crate::border::from_java(this) };\n",
        );
    }
    let body = match answer {
        Some(answer) => {
            let typed = if rust_type(result) == OBJECT { "crate::jni::Reference" } else { rust_type(result) };
            format!("crate::border::call::<{typed}>(&e, || {{\n{conversions}        {answer}\n    }})")
        }
        None => format!("crate::border::missing(&e, \"{name}\")"),
    };
    let returned = if result == 'V' { String::new() } else { format!(" -> {}", rust_type(result)) };
    format!(
        "#[unsafe(export_name = \"{}\")]\nunsafe extern \"system\" fn native_{number}(env: *mut jni_sys::JNIEnv, \
         {this}: jni_sys::jobject{parameters}){returned} {{\n    \
         // SAFETY: the JVM passes the environment of this thread.\n    \
         let e = unsafe {{ crate::jni::JavaEnv::new(env) }};\n    {body}\n}}\n",
        native.symbol()
    )
}

/// The arguments of `native` that `expression` uses although they are `unused`, or the reverse.
fn undeclared(native: &Native, name: &str, expression: &str, unused: &str) -> Vec<String> {
    let uses = |number: usize| ["a", "r"].iter().any(|it| has_word(expression, &format!("{it}{number}")));
    let arguments = 1..=native.types().0.len();
    arguments
        .filter(|number| uses(*number) == has_word(unused, &format!("a{number}")))
        .map(|number| format!("{name}{}: a{number}", native.descriptor))
        .collect()
}

/// Whether `text` has the identifier `word`.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(is_part) && !text[at + word.len()..].starts_with(is_part))
}
