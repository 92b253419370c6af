//! Reads the tables of this crate: which natives RocksJava has, and which of them are built.
//!
//! In: the texts of `natives.txt` and `built.txt`, and of `accessors.txt` of `capi`. Out: the
//! natives, and for each one the Rust expression that answers it.
//!
//! `natives.txt`: sections `[CLASS]` with lines `METHOD DESCRIPTOR RELEASES`.
//!
//! `built.txt`: a section begins with one line `[CLASS: TYPE < ACCESSORS]` for each of its classes.
//! TYPE is the Rust type behind the class's handles, `$T` in expressions; ACCESSORS is a section of
//! `accessors.txt`. Both may be missing. The other lines of a section are:
//!  * `METHOD = EXPRESSION`, or `METHOD DESCRIPTOR = EXPRESSION` for one overload. `e` is the
//!    environment, `this` the object or class. `a1`, `a2`, … are the converted arguments, and
//!    `r1`, `r2`, … the raw ones. If arguments are not used, the line ends with ` // unused:` and
//!    the names of these arguments.
//!  * `METHOD : PLACE`: getter `METHOD` and its setter access a field of TYPE.
//!  * `METHOD ~ DEFAULT`: getter and setter of a held value, which has no effect.
//!
//! A native that no line names is an accessor of the same name, or frees a TYPE, or is missing. The
//! suffix `Jni`, which release 10 gave to many natives, does not count.

use std::collections::BTreeMap;

/// A native method of a class below `org/rocksdb`.
pub(crate) struct Native {
    pub(crate) class: String,
    pub(crate) method: String,
    pub(crate) descriptor: String,
}

/// The place of an option.
#[derive(Clone)]
pub(crate) enum Place {
    /// The path of a field in the object behind the handle.
    Field(String),
    /// A held value and its default.
    Held(String),
}

/// A class in `built.txt`.
#[derive(Default)]
struct Class {
    rust_type: String,
    accessors: BTreeMap<String, Place>,
    /// By the method, or by the method and its descriptor.
    expressions: BTreeMap<String, String>,
    /// Keys of `expressions` and `accessors` that must name a native.
    named: Vec<String>,
}

/// The answers to natives.
pub(crate) struct Built(BTreeMap<String, Class>);

/// The natives in `text`.
pub(crate) fn natives(text: &str) -> Vec<Native> {
    let mut class = "";
    let mut natives = Vec::new();
    for line in lines(text) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            class = name;
            continue;
        }
        let words: Vec<&str> = line.split(' ').collect();
        let [method, descriptor, _releases] = words[..] else { panic!("natives.txt: '{line}'") };
        natives.push(Native {
            class: class.to_owned(),
            method: method.to_owned(),
            descriptor: descriptor.to_owned(),
        });
    }
    natives
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// `name` without the suffix that release 10 gave to many natives.
fn stem(name: &str) -> &str {
    name.strip_suffix("Jni").unwrap_or(name)
}

impl Native {
    /// The symbol by which the JVM finds the method. It has the descriptor of the arguments, so
    /// that a method with other arguments in another release has another symbol.
    pub(crate) fn symbol(&self) -> String {
        let arguments = self.descriptor[1..].split(')').next().unwrap_or_default();
        format!("Java_org_rocksdb_{}_{}__{}", mangled(&self.class), mangled(&self.method), mangled(arguments))
    }

    /// The types of the arguments, each by its first letter, and the type of the result.
    pub(crate) fn types(&self) -> (Vec<char>, char) {
        let (arguments, result) = self.descriptor[1..].split_once(')').expect("a method's descriptor");
        let mut types = Vec::new();
        let mut rest = arguments;
        while let Some(first) = rest.chars().next() {
            types.push(first);
            let element = rest.trim_start_matches('[');
            let end = if element.starts_with('L') { element.find(';').map_or(1, |at| at + 1) } else { 1 };
            rest = &element[end..];
        }
        (types, result.chars().next().expect("a result"))
    }
}

/// `text` as the JVM's specification writes it in symbols.
fn mangled(text: &str) -> String {
    let mut symbol = String::new();
    for c in text.chars() {
        match c {
            '/' => symbol.push('_'),
            '_' => symbol.push_str("_1"),
            ';' => symbol.push_str("_2"),
            '[' => symbol.push_str("_3"),
            c if c.is_ascii_alphanumeric() => symbol.push(c),
            c => symbol.push_str(&format!("_0{:04x}", u32::from(c))),
        }
    }
    symbol
}

/// The places in `accessors.txt` of `capi`, by section and name.
fn capi_accessors(text: &str) -> BTreeMap<String, BTreeMap<String, Place>> {
    let mut sections = BTreeMap::new();
    let mut section = String::new();
    for line in lines(text) {
        if let Some(head) = line.strip_prefix('[') {
            section = head.split([' ', ']']).next().unwrap_or_default().to_owned();
            continue;
        }
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        let place = match words[..] {
            [_, "=" | "?", place] => Place::Field(place.trim().to_owned()),
            [_, "~", default] => Place::Held(default.trim().to_owned()),
            _ => panic!("accessors.txt: '{line}'"),
        };
        sections.entry(section.clone()).or_insert_with(BTreeMap::new).insert(folded(words[0]), place);
    }
    sections
}

/// `name` in a form that Java's and C's spellings share: no underscores, no capitals.
fn folded(name: &str) -> String {
    name.replace('_', "").to_lowercase()
}

impl Built {
    /// The answers in `built.txt`; `capi` is the text of `accessors.txt`.
    pub(crate) fn read(text: &str, capi: &str) -> Built {
        let capi = capi_accessors(capi);
        let mut classes: BTreeMap<String, Class> = BTreeMap::new();
        let (mut current, mut in_head) = (Vec::new(), false);
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
            if line.is_empty() {
                in_head = false;
                continue;
            }
            if let Some(head) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                if !in_head {
                    current.clear();
                }
                in_head = true;
                let (head, accessors) = head.split_once(" < ").unwrap_or((head, ""));
                let (name, rust_type) = head.split_once(": ").unwrap_or((head, ""));
                let class = classes.entry(name.trim().to_owned()).or_default();
                class.rust_type = rust_type.trim().to_owned();
                if !accessors.is_empty() {
                    class.accessors.extend(capi[accessors.trim()].clone());
                }
                current.push(name.trim().to_owned());
                continue;
            }
            in_head = false;
            for name in &current {
                classes.get_mut(name).expect("a class of the section").read_line(line, name);
            }
        }
        Built(classes)
    }

    /// The Rust expression that answers `native`; `None` if the native is missing.
    pub(crate) fn answer(&self, native: &Native) -> Option<String> {
        let class = self.0.get(&native.class)?;
        let method = stem(&native.method);
        let overload = format!("{method} {}", native.descriptor);
        let given = class.expressions.get(&overload).or_else(|| class.expressions.get(method));
        if let Some(expression) = given {
            return Some(expression.replace("$T", &class.rust_type));
        }
        if class.rust_type.is_empty() {
            return None;
        }
        if method == "disposeInternal" {
            return Some(format!("crate::handle::dispose::<{}>(a1)", class.rust_type));
        }
        class.accessor(method, native)
    }

    /// Lines of `built.txt` that name no native.
    pub(crate) fn unused<'a>(&'a self, natives: &[Native]) -> Vec<String> {
        let is_used = |class: &str, key: &str| {
            natives.iter().filter(|native| native.class == class).any(|native| {
                let method = stem(&native.method);
                key == method
                    || key == format!("{method} {}", native.descriptor)
                    || names_of(method).contains(&key.to_owned())
            })
        };
        let unused = |(name, class): (&'a String, &'a Class)| {
            let keys = class.named.iter().filter(|key| !is_used(name, key));
            keys.map(|key| format!("{name}.{key}")).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(unused).collect()
    }
}

/// The names, folded, under which an accessor `method` may stand in a table.
fn names_of(method: &str) -> Vec<String> {
    let prefixes = ["", "set", "get", "is"];
    prefixes.iter().filter_map(|prefix| method.strip_prefix(prefix)).map(folded).collect()
}

impl Class {
    fn read_line(&mut self, line: &str, class: &str) {
        // An expression may have these signs, too: the first one counts.
        let sign = [" = ", " : ", " ~ "].into_iter().filter_map(|sign| Some((line.find(sign)?, sign))).min();
        let Some((at, sign)) = sign else { panic!("built.txt: '{line}' of {class} says nothing") };
        let (key, value) = (line[..at].trim(), line[at + 3..].trim().to_owned());
        if sign == " = " {
            self.named.push(key.to_owned());
            self.expressions.insert(key.to_owned(), value);
            return;
        }
        let place = if sign == " : " { Place::Field(value) } else { Place::Held(value) };
        self.named.push(folded(key));
        self.accessors.insert(folded(key), place);
    }

    /// The expression of a getter or setter, if `method` is one.
    fn accessor(&self, method: &str, native: &Native) -> Option<String> {
        let (arguments, result) = native.types();
        let names = names_of(method);
        let (name, place) = names.iter().find_map(|name| self.accessors.get_key_value(name))?;
        let rust_type = &self.rust_type;
        let scalar = |c: char| "JIZBD".contains(c);
        match (&arguments[..], result, place) {
            (['J', value], 'V', Place::Field(place)) if scalar(*value) => Some(format!(
                "crate::field::set(a1, \"{method}\", r2, |object: &mut {rust_type}| &mut object.{place})"
            )),
            (['J'], value, Place::Field(place)) if scalar(value) => {
                Some(format!("crate::field::get(a1, |object: &{rust_type}| &object.{place})"))
            }
            (['J', value], 'V', Place::Held(_)) if scalar(*value) => Some(format!(
                "crate::field::hold(a1, \"{name}\", r2, |object: &mut {rust_type}| &mut object.held)"
            )),
            (['J'], value, Place::Held(default)) if scalar(value) => Some(format!(
                "crate::field::held(a1, \"{name}\", {default}_f64, |object: &{rust_type}| &object.held)"
            )),
            _ => None,
        }
    }
}
