//! The reason why the demonstration ends early.

use std::fmt;
use std::io;

/// The reason for an early end: a message for the user, and the exit code of the process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DemoFailure {
    code: u8,
    why: String,
}

pub(crate) type DemoOutcome<T = ()> = Result<T, DemoFailure>;

impl DemoFailure {
    /// A failure with exit code 1.
    pub(crate) fn new(why: impl fmt::Display) -> DemoFailure {
        DemoFailure { code: 1, why: why.to_string() }
    }

    /// A failure because of a wrong command line, with exit code 2.
    pub(crate) fn usage(why: impl fmt::Display) -> DemoFailure {
        DemoFailure { code: 2, why: format!("error: {why}\n\nFor more information, try '--help'.") }
    }

    /// The exit code: 2 for a wrong command line, otherwise 1.
    pub fn code(&self) -> u8 {
        self.code
    }
}

impl fmt::Display for DemoFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for DemoFailure {}

impl From<esker::Error> for DemoFailure {
    fn from(error: esker::Error) -> DemoFailure {
        DemoFailure::new(error)
    }
}

impl From<io::Error> for DemoFailure {
    fn from(error: io::Error) -> DemoFailure {
        DemoFailure::new(format_args!("Output: {error}"))
    }
}
