//! Numbers for people: sizes, counts, shares, durations, times.
//!
//! In: numbers. Out: short text with a unit, 12 characters at most.

use esker::internals::env::system::local_time;

/// A size in bytes, such as `1.2 GiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    const STEP: f64 = 1024.0;
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let (mut value, mut unit) = (bytes as f64 / STEP, 0);
    // From here on the value would be printed as 1024.
    while value >= STEP - 0.5 && unit + 1 < UNITS.len() {
        value /= STEP;
        unit += 1;
    }
    let decimals = usize::from(value < 99.95);
    format!("{value:.decimals$} {}", UNITS[unit])
}

/// A number with commas between thousands.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 table`, `1,234 tables`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let plural = match noun {
        _ if number == 1 => noun.to_owned(),
        _ => match noun.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'o', 'u'])) {
            Some(stem) => format!("{stem}ies"),
            None => format!("{noun}s"),
        },
    };
    format!("{} {plural}", count(number))
}

/// A part of a whole, such as `3.5%`; `0%` of nothing.
pub(crate) fn share(part: u64, whole: u64) -> String {
    match (part, whole) {
        (0, _) | (_, 0) => "0%".to_owned(),
        _ => match 100.0 * part as f64 / whole as f64 {
            percent if percent < 0.1 => "<0.1%".to_owned(),
            percent if percent < 9.95 => format!("{percent:.1}%"),
            percent => format!("{percent:.0}%"),
        },
    }
}

/// A duration, such as `1.5 s` or `3 days`.
pub(crate) fn duration(seconds: f64) -> String {
    const MINUTE: f64 = 60.0;
    const HOUR: f64 = 60.0 * MINUTE;
    const DAY: f64 = 24.0 * HOUR;
    match seconds {
        s if s < 1e-6 => "0 s".to_owned(),
        s if s < 0.001 => format!("{:.0} µs", s * 1e6),
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 10.0 => format!("{s:.1} s"),
        s if s < 2.0 * MINUTE => format!("{s:.0} s"),
        s if s < 2.0 * HOUR => format!("{:.0} min", s / MINUTE),
        s if s < 2.0 * DAY => format!("{:.0} h", s / HOUR),
        s => format!("{:.0} days", s / DAY),
    }
}

/// A time in Unix seconds in the local zone, such as `2026-11-20 20:25:43`.
pub(crate) fn time(seconds: u64) -> String {
    let t = local_time(seconds);
    format!("{:04}-{:02}-{:02} {:02}:{:02}:{:02}", t.year, t.month, t.day, t.hour, t.minute, t.second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_largest_unit_that_fits() {
        for (size, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (10_240, "10.0 KiB"),
            (102_400, "100 KiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            (3 << 29, "1.5 GiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(bytes(size), text, "{size}");
        }
    }

    #[test]
    fn counts_shares_and_durations_are_short() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(counted(1, "family") + &counted(2000, "family"), "1 family2,000 families");
        assert_eq!(counted(2, "key"), "2 keys");
        let shares = [(0, 10), (1, 0), (1, 10_000), (1, 100), (99, 1000), (995, 1000), (1000, 1000)];
        let text = shares.map(|(part, whole)| share(part, whole));
        assert_eq!(text, ["0%", "0%", "<0.1%", "1.0%", "9.9%", "100%", "100%"]);
        let text = [0.000_01, 0.02, 1.5, 75.0, 600.0, 10_000.0, 1e6].map(duration);
        assert_eq!(text, ["10 µs", "20 ms", "1.5 s", "75 s", "10 min", "3 h", "12 days"]);
    }
}
