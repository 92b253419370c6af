//! The commands of the shell: names, arguments, help.
//!
//! Invariant: `command.rs` runs each command that is listed here.

/// A command.
pub(super) struct ShellCommand {
    pub(super) name: &'static str,
    /// The arguments, as hints show them.
    pub(super) arguments: &'static str,
    /// One line for the list of commands.
    pub(super) summary: &'static str,
    /// More lines for `help COMMAND`.
    pub(super) details: &'static str,
}

const RANGE: &str = "[prefix P] [from K] [to K]";

/// The text about keys and values, for `help`.
pub(super) const ABOUT_WORDS: &str = "\
Keys and values are words. Quote spaces: 'a b' or \"a b\". Outside of single
quotes \\xNN is a byte, and \\n, \\t, \\r, \\\\ are escapes. 0x… is a word of hexadecimal
digits. A ; at the end of a word ends a command. # begins a comment. Printed
keys can be typed again as they are.";

const fn command(
    name: &'static str,
    arguments: &'static str,
    summary: &'static str,
    details: &'static str,
) -> ShellCommand {
    ShellCommand { name, arguments, summary, details }
}

/// All commands, in the order of `help`.
pub(super) const COMMANDS: &[ShellCommand] = &[
    command("get", "KEY", "prints the value of a key", ""),
    command("multi_get", "KEY…", "prints the values of several keys, read together", ""),
    command(
        "scan",
        "[prefix P] [from K] [to K] [limit N] [reverse] [keys]",
        "prints entries in key order",
        "from is the first key, to the key after the last; reverse prints the same\n\
         entries from the end. keys leaves values out. On a terminal a scan without a\n\
         limit ends after .limit rows; more prints the next rows. Ctrl-C stops a scan.",
    ),
    command("more", "[limit N]", "goes on with a scan that was cut", ""),
    command("count", RANGE, "counts keys", "It reads all of them. Ctrl-C stops it."),
    command(
        "explain",
        "get KEY | multi_get KEY… | scan …",
        "shows what a read looks at, and why",
        "It shows memtables, files, filters and blocks with bytes and times. Writes of\n\
         an open transaction are left out.",
    ),
    command("put", "KEY VALUE", "stores a value", ""),
    command("delete", "KEY", "removes a key", ""),
    command("delete_range", "BEGIN END", "removes the keys from BEGIN to before END", ""),
    command("merge", "KEY OPERAND", "merges an operand into a value", "The family needs a merge operator."),
    command("families", "", "lists the column families", ""),
    command("use", "FAMILY", "makes a family the one that commands read and write", ""),
    command(
        "create_family",
        "NAME",
        "creates a family",
        "It gets the options of the first family. A transaction must not be open.",
    ),
    command(
        "drop_family",
        "NAME [force]",
        "drops a family and its data",
        "It asks for the name again. force asks nothing; without a terminal it is required.",
    ),
    command(
        "begin",
        "[optimistic]",
        "begins a transaction",
        "Its writes lock their keys; locks lists them. An optimistic transaction takes no\n\
         locks: its commit fails if others have written one of its keys. The prompt\n\
         shows the transaction.",
    ),
    command("commit", "", "writes the transaction", ""),
    command("rollback", "", "drops the transaction", ""),
    command("savepoint", "[NAME]", "sets a savepoint in the transaction", ""),
    command(
        "rollback_to",
        "[NAME]",
        "undoes the writes behind a savepoint",
        "Without a name it is the newest one. The savepoint stays.",
    ),
    command("locks", "", "lists the locks of the transaction", ""),
    command(
        "snapshot",
        "take | list | use N | use latest | release N",
        "freezes what reads see",
        "take remembers the present state under a number. use N lets reads see that\n\
         state, use latest the newest one. A snapshot keeps old versions of all keys\n\
         until its release.",
    ),
    command("stats", "", "prints statistics of the family and the database", ""),
    command("property", "[NAME]", "prints a property, or lists all", ""),
    command(
        "options",
        "[NAME]",
        "prints options, or those that are changed",
        "They are those of the family and the database. Without a name it prints those\n\
         that differ from the defaults. A part of a name prints all options that\n\
         contain it. Options of tables begin with table.",
    ),
    command("flush", "", "writes the memtables of the family to tables", ""),
    command("compact", "[from K] [to K]", "compacts the family or a range of it", "Ctrl-C stops it."),
    command("help", "[COMMAND]", "prints this list, or more on a command", ""),
    command(
        ".mode",
        "table | raw | hex | json",
        "sets the form of rows",
        "\
table escapes bytes that a terminal does not show, and cuts values at its width.\n\
raw prints the bytes as they are, hex 0x…, json an object a line: key and value,\n\
or key_hex and value_hex for bytes that are no UTF-8.",
    ),
    command(".timer", "on | off", "prints the time of each command", ""),
    command(
        ".limit",
        "N | off",
        "sets the rows of a scan without a limit",
        "It is 100 on a terminal, otherwise off.",
    ),
    command("quit", "", "ends the shell, as ctrl-D does", "An open transaction is rolled back."),
];

/// The command called `name`, or by another spelling.
pub(super) fn find(name: &str) -> Option<&'static ShellCommand> {
    let name = match name {
        "exit" | ".quit" | ".exit" => "quit",
        ".help" | "?" => "help",
        "del" => "delete",
        "deleterange" => "delete_range",
        "mget" | "multiget" => "multi_get",
        "create_column_family" => "create_family",
        "drop_column_family" => "drop_family",
        other => other,
    };
    COMMANDS.iter().find(|command| command.name == name)
}

/// The list of commands.
pub(super) fn list() -> String {
    let left = |command: &ShellCommand| format!("{} {}", command.name, command.arguments);
    let mut text = String::new();
    for command in COMMANDS {
        let left = left(command);
        match left.chars().count() {
            0..=30 => text.push_str(&format!("{left:<31}{}\n", command.summary)),
            _ => text.push_str(&format!("{left}\n{:<31}{}\n", "", command.summary)),
        }
    }
    text + "\n" + ABOUT_WORDS + "\n"
}

/// The help of a command.
pub(super) fn of(command: &ShellCommand) -> String {
    let mut text = format!("{} {}\n{}\n", command.name, command.arguments, command.summary);
    if !command.details.is_empty() {
        text.push_str(command.details);
        text.push('\n');
    }
    text
}
