//! `db_bench`'s command line.
//!
//! In: arguments in gflags' forms. `-flag` sets a boolean flag to true, `-noflag` to false, and
//! `-flag=value` to `value`. `-flag=value` and `-flag value` set a flag of another type. Two dashes
//! mean the same as one. Out: [`Flags`], or an error for the first argument that is not supported.
//!
//! Invariants
//!  1. No argument is ignored. An unknown, unsupported or misplaced argument is an error. A word
//!     that belongs to no flag is an error, too; gflags would drop it.
//!  2. A flag is in one table only: `supported` or `known`.

mod known;
mod supported;
pub(crate) mod value;

pub use supported::Flags;

use known::KNOWN;
use std::fmt::Write;
use supported::{Flag, TABLE};
use value::FlagKind;

/// The request of a command line.
#[derive(Clone, Debug, PartialEq)]
pub enum BenchCommandLine {
    /// A run of benchmarks.
    Run(Box<Flags>),
    /// The text of `--help`.
    Help(String),
    /// `--version`.
    Version,
}

/// The entry of a flag in one of the tables.
#[derive(Clone, Copy)]
enum ParsedFlag {
    Supported(&'static Flag),
    /// Name, type, default.
    Known(&'static str, FlagKind, &'static str),
}

impl ParsedFlag {
    fn by_name(name: &str) -> Option<ParsedFlag> {
        if let Some(flag) = TABLE.iter().find(|flag| flag.name == name) {
            return Some(ParsedFlag::Supported(flag));
        }
        KNOWN
            .iter()
            .find(|(n, ..)| *n == name)
            .map(|&(name, kind, default)| ParsedFlag::Known(name, kind, default))
    }

    fn kind(self) -> FlagKind {
        match self {
            ParsedFlag::Supported(flag) => flag.kind,
            ParsedFlag::Known(_, kind, _) => kind,
        }
    }

    fn set(self, flags: &mut Flags, value: &str) -> Result<(), String> {
        match self {
            ParsedFlag::Supported(flag) => {
                (flag.set)(flags, value).map_err(|why| format!("--{}: {why}", flag.name))
            }
            ParsedFlag::Known(name, kind, default) => match kind.same(value, default) {
                Ok(true) => Ok(()),
                Ok(false) => Err(format!(
                    "--{name}: RocksDB's db_bench has this flag, but it is not supported yet; only its default, {}, is",
                    if default.is_empty() { "the empty text" } else { default }
                )),
                Err(why) => Err(format!("--{name}: {why}")),
            },
        }
    }
}

/// Reads the arguments behind the program's name.
/// # Errors
/// One sentence for the first argument that is unknown (with the nearest known flag), unsupported,
/// malformed or misplaced.
pub fn parse(arguments: &[String]) -> Result<BenchCommandLine, String> {
    let mut flags = Flags::default();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let Some(text) = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-')) else {
            return Err(stray(argument));
        };
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        // gflags replaces dashes by underscores.
        let name = name.replace('-', "_");
        match name.as_str() {
            "help" | "helpfull" | "h" => return Ok(BenchCommandLine::Help(help())),
            "version" => return Ok(BenchCommandLine::Version),
            "" => return Err(stray(argument)),
            _ => {}
        }
        if let Some(found) = ParsedFlag::by_name(&name) {
            match value {
                Some(value) => found.set(&mut flags, value)?,
                None if found.kind() == FlagKind::Bool => found.set(&mut flags, "true")?,
                None => {
                    let value = arguments.next().ok_or_else(|| format!("--{name}: its value is missing"))?;
                    found.set(&mut flags, value)?;
                }
            }
            continue;
        }
        match name.strip_prefix("no").and_then(ParsedFlag::by_name).filter(|f| f.kind() == FlagKind::Bool) {
            Some(found) if value.is_none() => found.set(&mut flags, "false")?,
            Some(_) => return Err(format!("--{name}: takes no value")),
            None => return Err(unknown(&name)),
        }
    }
    Ok(BenchCommandLine::Run(Box::new(flags)))
}

fn stray(argument: &str) -> String {
    format!(
        "'{argument}' belongs to no flag; flags begin with a dash, and those that are true or false take their value \
         after '=' only (-sync=false or -nosync)"
    )
}

fn unknown(name: &str) -> String {
    let all = TABLE.iter().map(|f| f.name).chain(KNOWN.iter().map(|(n, ..)| *n));
    let likeness = |candidate: &str| strsim::jaro_winkler(name, candidate);
    let nearest =
        all.max_by(|a, b| likeness(a).total_cmp(&likeness(b))).expect("the list of flags is not empty");
    format!("--{name}: there is no such flag; did you mean --{nearest}? `esker db_bench --help` lists all")
}

/// All flags, in the form of gflags' list.
fn help() -> String {
    let mut text = String::from(
        "esker db_bench: RocksDB's benchmark tool for Esker\n\nUSAGE:\nesker db_bench [OPTIONS]...\n\nFlags:\n",
    );
    let defaults = Flags::default();
    let mut add = |name: &str, kind: FlagKind, default: &str, help: &str| {
        let quote = if kind == FlagKind::String { "\"" } else { "" };
        let kind = kind.as_str();
        writeln!(text, "    -{name} ({help}) type: {kind} default: {quote}{default}{quote}")
            .expect("a write to a String cannot fail");
    };
    for flag in TABLE {
        add(flag.name, flag.kind, &(flag.text)(&defaults), flag.help.trim());
    }
    for &(name, kind, default) in KNOWN {
        add(name, kind, default, "RocksDB's; not supported yet, only the default is");
    }
    text
}

#[cfg(test)]
mod tests;
