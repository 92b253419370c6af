//! The command line: flags of the demonstration and of its victim.
//!
//! In: arguments without the program's name: `--flag value` or `--flag=value`. Out: options, or a
//! failure with exit code 2. The parser is written by hand, because a parser from the registry
//! would take a newcomer longer to build.

use crate::failure::{DemoFailure, DemoOutcome};
use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

pub(crate) const HELP: &str = "\
Shows a real database at work: load, read, scan, delete a range, kill -9, recover; checks every answer

Options:
      --dir <DIR>          Directory for the database: an empty or new one, which stays.
                           Default: a temporary directory, removed at the end
      --records <N>        Records to load [default: 1000000]
      --value-size <N>     Bytes in each value [default: 100]
      --threads <N>        Threads that read. Default: the number of processors
      --kills <N>          Times to kill a writing process [default: 3]
      --seed <N>           Seed of the random choices [default: 42]
      --keep               Keep the temporary directory
  -h, --help               Print help
";

/// Flags of the demonstration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DemoOptions {
    pub(crate) dir: Option<PathBuf>,
    pub(crate) records: u64,
    pub(crate) value_size: usize,
    pub(crate) threads: Option<usize>,
    pub(crate) kills: u32,
    pub(crate) seed: u64,
    pub(crate) keep: bool,
}

impl Default for DemoOptions {
    fn default() -> DemoOptions {
        DemoOptions {
            dir: None,
            records: 1_000_000,
            value_size: 100,
            threads: None,
            kills: 3,
            seed: 42,
            keep: false,
        }
    }
}

impl DemoOptions {
    /// The options in `arguments`; `None` for a request for help.
    pub(crate) fn parse(arguments: &[OsString]) -> DemoOutcome<Option<DemoOptions>> {
        let mut options = DemoOptions::default();
        let mut flags = Flags::new(arguments);
        while let Some(flag) = flags.next()? {
            match flag {
                "--help" | "-h" => return Ok(None),
                "--dir" => options.dir = Some(flags.value(flag)?.into()),
                "--records" => options.records = flags.number(flag, 1_000..=1_000_000_000)?,
                "--value-size" => options.value_size = flags.number(flag, 8..=1_048_576)?,
                "--threads" => options.threads = Some(flags.number(flag, 1..=256)?),
                "--kills" => options.kills = flags.number(flag, 0..=100)?,
                "--seed" => options.seed = flags.number(flag, 0..=u64::MAX)?,
                "--keep" => options.keep = flags.switch(flag)?,
                _ => return Err(unknown(flag)),
            }
        }
        Ok(Some(options))
    }
}

/// Flags of the process that is killed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct VictimOptions {
    pub(crate) dir: PathBuf,
    pub(crate) round: u32,
}

impl VictimOptions {
    /// The options in `arguments`. Both flags are required.
    pub(crate) fn parse(arguments: &[OsString]) -> DemoOutcome<VictimOptions> {
        let (mut dir, mut round) = (None, None);
        let mut flags = Flags::new(arguments);
        while let Some(flag) = flags.next()? {
            match flag {
                "--dir" => dir = Some(flags.value(flag)?.into()),
                "--round" => round = Some(flags.number(flag, 0..=u32::MAX)?),
                _ => return Err(unknown(flag)),
            }
        }
        match (dir, round) {
            (Some(dir), Some(round)) => Ok(VictimOptions { dir, round }),
            _ => Err(DemoFailure::usage("the flags '--dir' and '--round' are needed")),
        }
    }
}

/// An iterator over `--flag value`, `--flag=value` and `--switch`.
struct Flags<'a> {
    arguments: std::slice::Iter<'a, OsString>,
    /// The text behind the `=` of the last flag.
    attached: Option<&'a str>,
}

impl<'a> Flags<'a> {
    fn new(arguments: &'a [OsString]) -> Flags<'a> {
        Flags { arguments: arguments.iter(), attached: None }
    }

    /// The next flag, without its value.
    fn next(&mut self) -> DemoOutcome<Option<&'a str>> {
        let Some(argument) = self.arguments.next() else { return Ok(None) };
        let text = argument.to_str().ok_or_else(|| unknown(&argument.to_string_lossy()))?;
        let (flag, attached) = match text.split_once('=') {
            Some((flag, value)) if flag.starts_with("--") => (flag, Some(value)),
            _ => (text, None),
        };
        self.attached = attached;
        Ok(Some(flag))
    }

    /// The value of the flag that `next` returned last.
    fn value(&mut self, flag: &str) -> DemoOutcome<OsString> {
        match self.attached.take() {
            Some(value) => Ok(value.into()),
            None => {
                let value = self.arguments.next().cloned();
                value.ok_or_else(|| DemoFailure::usage(format_args!("the flag '{flag}' needs a value")))
            }
        }
    }

    /// The value of the flag that `next` returned last: a number in `range`.
    fn number<N>(&mut self, flag: &str, range: RangeInclusive<N>) -> DemoOutcome<N>
    where
        N: FromStr + PartialOrd + std::fmt::Display,
    {
        let value = self.value(flag)?;
        let number = value.to_str().and_then(|text| text.parse().ok());
        number.filter(|n| range.contains(n)).ok_or_else(|| {
            let (least, most) = (range.start(), range.end());
            let value = value.to_string_lossy();
            DemoFailure::usage(format_args!("'{value}' for '{flag}' is no number from {least} to {most}"))
        })
    }

    /// Returns true. Fails if a value is attached to the flag that `next` returned last.
    fn switch(&mut self, flag: &str) -> DemoOutcome<bool> {
        match self.attached {
            None => Ok(true),
            Some(_) => Err(DemoFailure::usage(format_args!("the flag '{flag}' takes no value"))),
        }
    }
}

fn unknown(flag: &str) -> DemoFailure {
    DemoFailure::usage(format_args!("unexpected argument '{flag}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    fn refusal(line: &str) -> String {
        let failure = DemoOptions::parse(&words(line)).unwrap_err();
        assert_eq!(failure.code(), 2, "{line}");
        failure.to_string()
    }

    #[test]
    fn a_value_stands_behind_its_flag_or_behind_an_equals_sign() {
        let line = "--dir=/a=b --records 5000 --value-size=8 --threads 3 --kills=0 --seed 7 --keep";
        let expected = DemoOptions {
            dir: Some("/a=b".into()),
            records: 5000,
            value_size: 8,
            threads: Some(3),
            kills: 0,
            seed: 7,
            keep: true,
        };
        assert_eq!(DemoOptions::parse(&words(line)).unwrap(), Some(expected));
        assert_eq!(DemoOptions::parse(&[]).unwrap(), Some(DemoOptions::default()));
    }

    #[test]
    fn help_wins_over_flags_before_it() {
        assert_eq!(DemoOptions::parse(&words("--keep --help")).unwrap(), None);
        assert_eq!(DemoOptions::parse(&words("-h")).unwrap(), None);
    }

    #[test]
    fn the_help_names_every_flag() {
        for flag in ["--dir", "--records", "--value-size", "--threads", "--kills", "--seed", "--keep"] {
            assert!(HELP.contains(&format!("{flag} ")), "{flag}");
        }
    }

    #[test]
    fn a_wrong_flag_or_value_is_named() {
        for (line, named) in [
            ("--record=5", "unexpected argument '--record'"),
            ("5000", "unexpected argument '5000'"),
            ("--records", "'--records' needs a value"),
            ("--records=999", "'999' for '--records' is no number from 1000 to 1000000000"),
            ("--records many", "'many' for '--records' is no number"),
            ("--kills=-1", "'-1' for '--kills' is no number from 0 to 100"),
            ("--keep=yes", "'--keep' takes no value"),
        ] {
            assert!(refusal(line).contains(named), "{line}: {}", refusal(line));
        }
    }

    #[test]
    fn a_victim_needs_both_flags() {
        let options = VictimOptions::parse(&words("--dir d --round=2")).unwrap();
        assert_eq!(options, VictimOptions { dir: "d".into(), round: 2 });
        for line in ["--dir d", "--round 1", "--dir d --round 1 --keep"] {
            assert_eq!(VictimOptions::parse(&words(line)).unwrap_err().code(), 2, "{line}");
        }
    }
}
