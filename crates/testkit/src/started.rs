//! Programs that tests start, above all the test binary itself.
//!
//! In: the program's path. Out: a command. A program for another processor needs an emulator, which
//! the kernel knows only if an administrator has registered it. So [`RUNNER`] names it.

use std::path::Path;
use std::process::Command;

/// An environment variable: the emulator and its arguments, separated by spaces. Cargo's variable
/// `CARGO_TARGET_…_RUNNER` does the same for the programs that cargo starts.
const RUNNER: &str = "ESKER_TEST_RUNNER";

/// A command that starts `program`, which was built for the target of the tests: under the emulator
/// in `ESKER_TEST_RUNNER`, if that variable is set.
pub fn command(program: &Path) -> Command {
    command_with(&std::env::var(RUNNER).unwrap_or_default(), program)
}

/// A command that starts the running test binary again.
/// # Panics
/// The system does not tell the path of the binary.
pub fn this_program() -> Command {
    command(&std::env::current_exe().expect("a running program has a path"))
}

fn command_with(runner: &str, program: &Path) -> Command {
    let mut words = runner.split_whitespace();
    let Some(emulator) = words.next() else { return Command::new(program) };
    let mut command = Command::new(emulator);
    command.args(words).arg(program);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &Command) -> Vec<&str> {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        words.map(|word| word.to_str().unwrap()).collect()
    }

    #[test]
    fn a_program_starts_under_the_emulator_if_there_is_one() {
        let program = Path::new("/tests/it");
        assert_eq!(words(&command_with("", program)), ["/tests/it"]);
        assert_eq!(words(&command_with("qemu -L /lib64", program)), ["qemu", "-L", "/lib64", "/tests/it"]);
    }
}
