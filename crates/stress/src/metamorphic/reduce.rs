//! Makes a failure small: takes away the parts that it does not need, operations first, then
//! options.
//!
//! Source of the idea: Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input"
//! (2002).

use super::ops::{self, ScriptOp};
use super::run::RunDivergence;
use super::{Case, MetamorphicFailure};
use std::fmt::Write;
use std::time::{Duration, Instant};

/// Number of runs without a failure after which a case counts as one that does not fail. The timing
/// of threads differs from run to run.
const ATTEMPTS: usize = 3;

struct Reducer<'a> {
    ops: &'a [ScriptOp],
    case: Case,
    divergence: RunDivergence,
    until: Instant,
}

/// Shrinks the case, for at most `time`.
#[expect(clippy::disallowed_methods, reason = "the clock of the campaign, not of the engine")]
pub(super) fn shrink(
    case: Case,
    ops: &[ScriptOp],
    divergence: RunDivergence,
    time: Duration,
) -> MetamorphicFailure {
    let mut reducer = Reducer { ops, case, divergence, until: Instant::now() + time };
    reducer.cut_behind();
    // Calm cases fail the same way each time, or not at all.
    let calm = Case { calm: true, ..reducer.case.clone() };
    reducer.try_case(calm);
    reducer.without_chunks();
    reducer.without_options();
    reducer.without_chunks();
    reducer.failure()
}

impl Reducer<'_> {
    #[expect(clippy::disallowed_methods, reason = "the clock of the campaign, not of the engine")]
    fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// Takes the case if it fails.
    fn try_case(&mut self, case: Case) -> bool {
        for _ in 0..ATTEMPTS {
            if self.is_over() {
                return false;
            }
            if let Err(divergence) = case.run(self.ops) {
                (self.case, self.divergence) = (case, divergence);
                self.cut_behind();
                return true;
            }
        }
        false
    }

    /// Cuts operations behind the divergence, and those that made no sense.
    fn cut_behind(&mut self) {
        let script = ops::script(self.ops, &self.case.kept);
        let used = script.iter().take(self.divergence.place + 1).map(|(index, ..)| *index);
        self.case.kept = used.collect();
    }

    fn without_chunks(&mut self) {
        let mut size = self.case.kept.len() / 2;
        while size > 0 && !self.is_over() {
            let mut from = 0;
            while from < self.case.kept.len() && !self.is_over() {
                let mut smaller = self.case.clone();
                smaller.kept.drain(from..(from + size).min(smaller.kept.len()));
                if !self.try_case(smaller) {
                    from += size;
                }
            }
            size /= 2;
        }
    }

    fn without_options(&mut self) {
        let names: Vec<String> =
            self.divergence.options.iter().filter_map(|described| name_of(described)).collect();
        for name in names {
            let mut plainer = self.case.clone();
            if plainer.without.insert(name) {
                self.try_case(plainer);
            }
        }
    }

    fn failure(&self) -> MetamorphicFailure {
        let Case { seed, set, operations, kept, without, calm } = &self.case;
        let mut text =
            format!("metamorphic: divergence with seed {seed}, set {set}: {}\n", self.divergence.what);
        let script = ops::script(self.ops, kept);
        for (index, op, _) in script.iter().take(300) {
            // Writing to a string cannot fail.
            writeln!(text, "  {index}: {}", readable(&format!("{op:?}"))).unwrap_or_default();
        }
        let kept: Vec<String> = kept.iter().map(usize::to_string).collect();
        let without: Vec<&str> = without.iter().map(String::as_str).collect();
        writeln!(text, "options: {}", self.divergence.options.join(" ")).unwrap_or_default();
        write!(
            text,
            "again: metamorphic --seed {seed} --set {set} --operations {operations} --keep {}",
            kept.join(",")
        )
        .unwrap_or_default();
        if !without.is_empty() {
            write!(text, " --without {}", without.join(",")).unwrap_or_default();
        }
        if *calm {
            text.push_str(" --calm");
        }
        MetamorphicFailure { text }
    }
}

/// The name that `--without` has for a choice.
fn name_of(described: &str) -> Option<String> {
    let name = described.split('=').next().filter(|name| !name.starts_with('['))?;
    Some(name.to_owned())
}

/// Lists of bytes as text.
fn readable(debug: &str) -> String {
    let mut text = String::new();
    let mut rest = debug;
    while let Some(start) = rest.find('[') {
        let (before, list) = rest.split_at(start);
        text.push_str(before);
        let bytes = list.find(']').and_then(|end| {
            let numbers = list[1..end].split(", ").filter(|n| !n.is_empty()).map(|n| n.parse::<u8>().ok());
            Some((numbers.collect::<Option<Vec<u8>>>()?, end))
        });
        match bytes {
            Some((bytes, end)) => {
                let shown = bytes[..bytes.len().min(24)].escape_ascii();
                text += &format!("\"{shown}\"{}", if bytes.len() > 24 { "…" } else { "" });
                rest = &list[end + 1..];
            }
            None => {
                text.push('[');
                rest = &list[1..];
            }
        }
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metamorphic::ops::random;

    #[test]
    fn bytes_are_shown_as_text() {
        assert_eq!(readable("Put(1, [97, 98], [0])"), "Put(1, \"ab\", \"\\x00\")");
        assert_eq!(readable("Write([Delete(2, [99])])"), "Write([Delete(2, \"c\")])");
    }

    /// A script leaves out impossible operations. The possible operations alone give the same
    /// script.
    #[test]
    fn a_script_is_the_same_without_its_impossible_operations() {
        let ops = random(3, 600);
        let all: Vec<usize> = (0..ops.len()).collect();
        let used: Vec<usize> = ops::script(&ops, &all).iter().map(|(index, ..)| *index).collect();
        assert_eq!(ops::script(&ops, &all), ops::script(&ops, &used));
        for step in 2..9 {
            let part: Vec<usize> = all.iter().copied().step_by(step).collect();
            assert!(ops::script(&ops, &part).len() <= part.len());
        }
    }
}
