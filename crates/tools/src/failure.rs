//! Why a subcommand ends early, as the user reads it.

use std::fmt::Display;
use std::io;

/// What stops a subcommand.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Told on standard error; exit code 1.
    Told(String),
    /// Told on standard error; this exit code.
    Coded(u8, String),
    /// Whoever read the output has seen enough (`esker ldb scan | head`); not an error.
    OutputClosed,
}

pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// Ends with `why` on standard error.
    pub(crate) fn new(why: impl Display) -> Failure {
        Failure::Told(why.to_string())
    }
}

impl From<esker::Error> for Failure {
    fn from(error: esker::Error) -> Failure {
        Failure::new(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::OutputClosed,
            _ => Failure::new(format_args!("Output: {error}")),
        }
    }
}
