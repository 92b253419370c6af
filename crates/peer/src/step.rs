//! A step of a peer process as text: the task, and the contents of the database before and after
//! it.
//!
//!   key value…    one line for each field; bytes are hex digits, a dot stands for no bytes

use crate::contents::{Contents, hex, unhex};
use crate::library::FamilySpec;
use crate::model_ops::PeerOp;
use esker::options::TargetVersion;
use std::fmt::Write as _;
use std::path::PathBuf;

/// The engine of a step.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum PeerEngine {
    /// Esker. Writes files that this version of RocksDB can read.
    Esker(TargetVersion),
    /// RocksDB, loaded from this library.
    Library(PathBuf),
}

/// The action after the writes of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepFinish {
    /// Nothing.
    Nothing,
    /// Flush all families.
    Flush,
    /// Compact all families.
    Compact,
}

/// One write of a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WriteStep {
    /// A batch.
    Write(Vec<PeerOp>),
    /// An ingestion of a file with operations from
    /// [`ModelOps::ingest_ops`](crate::ModelOps::ingest_ops).
    Ingest(Vec<PeerOp>),
    /// A flush of all families.
    Flush,
}

/// A step: the task of a peer process with one database.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerStep {
    /// The engine that takes the step.
    pub engine: PeerEngine,
    /// The directory of the database.
    pub dir: PathBuf,
    /// Whether the database is opened for reading only.
    pub read_only: bool,
    /// Options of the database, in the form `name=value;…`.
    pub db_options: String,
    /// The families of the database and their options.
    pub families: Vec<FamilySpec>,
    /// The writes, in order.
    pub steps: Vec<WriteStep>,
    /// The action after the writes.
    pub finish: StepFinish,
    /// Whether the parent kills the process while the database is open. Otherwise the process
    /// closes the database.
    pub killed: bool,
}

/// The contents of each family before and after a step.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct StepContents {
    /// Contents after the open.
    pub before: Vec<Contents>,
    /// Contents at the end of the step.
    pub after: Vec<Contents>,
}

impl PeerStep {
    pub(crate) fn print(&self) -> String {
        let mut out = String::new();
        let mut line = |parts: &[&str]| writeln!(out, "{}", parts.join(" ")).expect("a String");
        match &self.engine {
            PeerEngine::Esker(target) => line(&["esker", target.name()]),
            PeerEngine::Library(path) => line(&["library", &bytes_text(path.to_string_lossy().as_bytes())]),
        }
        line(&["dir", &bytes_text(self.dir.to_string_lossy().as_bytes())]);
        line(&["options", &bytes_text(self.db_options.as_bytes())]);
        for family in &self.families {
            line(&["family", &bytes_text(family.name.as_bytes()), &bytes_text(family.options.as_bytes())]);
        }
        for step in &self.steps {
            let (name, ops) = match step {
                WriteStep::Write(ops) => ("batch", &ops[..]),
                WriteStep::Ingest(ops) => ("ingest", &ops[..]),
                WriteStep::Flush => ("flush", &[][..]),
            };
            line(&[name]);
            for op in ops {
                let (kind, a, b) = op_parts(op);
                line(&["op", kind, &bytes_text(op.family().as_bytes()), &bytes_text(a), &bytes_text(b)]);
            }
        }
        line(&["finish", &format!("{:?}", self.finish)]);
        line(&["end", if self.killed { "killed" } else { "closed" }]);
        line(&["mode", if self.read_only { "read" } else { "write" }]);
        out
    }

    pub(crate) fn parse(text: &str) -> Option<PeerStep> {
        let mut step = PeerStep {
            engine: PeerEngine::Esker(TargetVersion::V7_8),
            dir: PathBuf::new(),
            read_only: false,
            db_options: String::new(),
            families: Vec::new(),
            steps: Vec::new(),
            finish: StepFinish::Nothing,
            killed: false,
        };
        for line in text.lines() {
            let parts: Vec<&str> = line.split(' ').collect();
            match *parts {
                ["esker", target] => step.engine = PeerEngine::Esker(TargetVersion::from_name(target).ok()?),
                ["library", path] => step.engine = PeerEngine::Library(text_of(path)?.into()),
                ["dir", path] => step.dir = text_of(path)?.into(),
                ["options", options] => step.db_options = text_of(options)?,
                ["family", name, options] => {
                    step.families.push(FamilySpec::new(text_of(name)?, text_of(options)?));
                }
                ["batch"] => step.steps.push(WriteStep::Write(Vec::new())),
                ["ingest"] => step.steps.push(WriteStep::Ingest(Vec::new())),
                ["flush"] => step.steps.push(WriteStep::Flush),
                ["op", kind, family, a, b] => {
                    let op = op_of(kind, text_of(family)?, bytes_of(a)?, bytes_of(b)?)?;
                    match step.steps.last_mut()? {
                        WriteStep::Write(ops) | WriteStep::Ingest(ops) => ops.push(op),
                        WriteStep::Flush => return None,
                    }
                }
                ["finish", "Flush"] => step.finish = StepFinish::Flush,
                ["finish", "Compact"] => step.finish = StepFinish::Compact,
                ["finish", _] => {}
                ["end", end] => step.killed = end == "killed",
                ["mode", mode] => step.read_only = mode == "read",
                _ => return None,
            }
        }
        Some(step)
    }
}

/// The kind of an operation, its key and its argument, for the text of a step.
fn op_parts(op: &PeerOp) -> (&'static str, &[u8], &[u8]) {
    match op {
        PeerOp::Put { key, value, .. } => ("put", key, value),
        PeerOp::Delete { key, .. } => ("delete", key, b""),
        PeerOp::SingleDelete { key, .. } => ("single", key, b""),
        PeerOp::Merge { key, operand, .. } => ("merge", key, operand),
        PeerOp::DeleteRange { begin, end, .. } => ("range", begin, end),
    }
}

fn op_of(kind: &str, family: String, a: Vec<u8>, b: Vec<u8>) -> Option<PeerOp> {
    Some(match kind {
        "put" => PeerOp::Put { family, key: a, value: b },
        "delete" => PeerOp::Delete { family, key: a },
        "single" => PeerOp::SingleDelete { family, key: a },
        "merge" => PeerOp::Merge { family, key: a, operand: b },
        "range" => PeerOp::DeleteRange { family, begin: a, end: b },
        _ => return None,
    })
}

fn bytes_text(bytes: &[u8]) -> String {
    if bytes.is_empty() { ".".to_owned() } else { hex(bytes) }
}

fn bytes_of(text: &str) -> Option<Vec<u8>> {
    if text == "." { Some(Vec::new()) } else { unhex(text) }
}

fn text_of(text: &str) -> Option<String> {
    String::from_utf8(bytes_of(text)?).ok()
}

pub(crate) fn print_found(found: &StepContents) -> String {
    let mut out = String::new();
    for (when, families) in [("before", &found.before), ("after", &found.after)] {
        for contents in families {
            writeln!(out, "{when}").expect("a String");
            for (key, value) in &contents.0 {
                out += &bytes_text(key);
                out.push(' ');
                out += &bytes_text(value);
                out.push('\n');
            }
        }
    }
    out
}

pub(crate) fn parse_found(text: &str) -> Result<StepContents, String> {
    let mut found = StepContents::default();
    let mut is_before = true;
    for line in text.lines() {
        match line.split_once(' ') {
            None => {
                is_before = line == "before";
                let list = if is_before { &mut found.before } else { &mut found.after };
                list.push(Contents::default());
            }
            Some((key, value)) => {
                let pair = bytes_of(key).zip(bytes_of(value)).ok_or("the told contents cannot be read")?;
                let list = if is_before { &mut found.before } else { &mut found.after };
                list.last_mut().ok_or("contents of no family were told")?.0.push(pair);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_and_its_contents_come_back_from_text() {
        let family = "with:special#chars\\ and blanks".to_owned();
        let step = PeerStep {
            engine: PeerEngine::Library("/a b/lib.so".into()),
            dir: "/tmp/x y".into(),
            read_only: true,
            db_options: "a=b;c={d=e}".to_owned(),
            families: vec![FamilySpec::new(family.clone(), "")],
            steps: vec![
                WriteStep::Write(vec![
                    PeerOp::Put { family: family.clone(), key: b"k\0".to_vec(), value: Vec::new() },
                    PeerOp::DeleteRange { family: family.clone(), begin: Vec::new(), end: b"z".to_vec() },
                ]),
                WriteStep::Flush,
                WriteStep::Ingest(vec![PeerOp::Delete { family: family.clone(), key: b"d".to_vec() }]),
                WriteStep::Write(vec![PeerOp::SingleDelete { family, key: b"s".to_vec() }]),
            ],
            finish: StepFinish::Compact,
            killed: true,
        };
        assert_eq!(PeerStep::parse(&step.print()), Some(step));
        let contents = Contents(vec![(b"k".to_vec(), Vec::new()), (Vec::new(), b"v".to_vec())]);
        let found =
            StepContents { before: vec![Contents::default(), contents.clone()], after: vec![contents] };
        assert_eq!(parse_found(&print_found(&found)), Ok(found));
        assert!(parse_found("0x6b 0x6c").is_err());
    }
}
