//! `esker completions SHELL` and `esker manpages DIR`: what shells and `man` know about the command
//! line.
//!
//! In: the definition of the command line. Out: a script for a shell on standard output, or a file
//! for each command in a directory, such as `esker-ldb.1`. Hidden commands have none.

use crate::failure::CommandOutcome;
use crate::host::{Host, write_file};
use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(crate) struct CompletionsOptions {
    /// The shell
    shell: Shell,
}

#[derive(Args)]
pub(crate) struct ManpagesOptions {
    /// The directory for the files; it is made if it is missing
    dir: PathBuf,
}

/// Writes the script of a shell.
pub(crate) fn completions(options: &CompletionsOptions, mut command: Command, host: &Host) -> CommandOutcome {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut command, "esker", &mut script);
    Ok(host.output().write_all(&script)?)
}

/// Writes a page for `esker` and each of its commands, those of `esker ldb` included.
pub(crate) fn manpages(options: &ManpagesOptions, mut command: Command, host: &Host) -> CommandOutcome {
    host.plain_fs().create_dir_if_missing(&options.dir)?;
    // Gives inner commands their full names, such as `esker-ldb-get`.
    command.build();
    write_pages(&command, &options.dir, host)
}

/// Writes the page of a command, and those of its own commands.
fn write_pages(command: &Command, dir: &Path, host: &Host) -> CommandOutcome {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let mut page = Vec::new();
    Man::new(command.clone()).title(name).render(&mut page)?;
    write_file(host, &dir.join(format!("{name}.1")), &page)?;
    let commands = command.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help");
    for inner in commands {
        write_pages(inner, dir, host)?;
    }
    Ok(())
}
