//! Failures of subcommands, with messages for the user.

use std::fmt::Display;
use std::io;

/// The reason why a subcommand ends early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A message for standard error; exit code 1.
    Told(String),
    /// A message for standard error, and an exit code.
    Coded(u8, String),
    /// The reader has closed the output (`esker ldb scan | head`). Not an error.
    OutputClosed,
}

pub(crate) type CommandOutcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// A failure with `why` on standard error and exit code 1.
    pub(crate) fn new(why: impl Display) -> Failure {
        Failure::Told(why.to_string())
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Told(why) | Failure::Coded(_, why) => f.write_str(why),
            Failure::OutputClosed => f.write_str("the output is closed"),
        }
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
