//! `daily_offpeak_time_utc`: the part of the day in which compactions disturb least.
//!
//! In: the option's text, `HH:mm-HH:mm`, and the time. Out: how far ahead periodic compactions look
//! for files that will be due.
//! Source: RocksDB `options/offpeak_time_info.cc`.

use super::DbOptions;

const MINUTE: u64 = 60;
const DAY: u64 = 24 * 60 * MINUTE;

/// A part of each day, in seconds since midnight. The minute of its end belongs to it. If the end
/// is before the start, it lasts over midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OffpeakTime {
    start: u64,
    end: u64,
}

impl OffpeakTime {
    fn parse(text: &str) -> Option<OffpeakTime> {
        let (start, end) = text.split_once('-')?;
        Some(OffpeakTime { start: time_of_day(start)?, end: time_of_day(end)? })
    }

    /// Seconds until the next start, if `now` is within an off-peak time; otherwise 0.
    fn seconds_ahead(&self, now: u64) -> u64 {
        let second = now % DAY;
        let minute = second / MINUTE * MINUTE;
        let (begun, lasts) = (self.start <= minute, minute <= self.end);
        let is_now = if self.start <= self.end { begun && lasts } else { begun || lasts };
        if is_now { (self.start + DAY - second - 1) % DAY + 1 } else { 0 }
    }
}

fn time_of_day(text: &str) -> Option<u64> {
    let (hours, minutes) = text.trim().split_once(':')?;
    let number = |text: &str, limit| text.parse::<u64>().ok().filter(|number| *number < limit);
    Some((number(hours, 24)? * 60 + number(minutes, 60)?) * MINUTE)
}

impl DbOptions {
    /// Seconds by which periodic compactions are early at `now`, in Unix seconds: off-peak, the
    /// time until the next off-peak time begins; otherwise 0.
    pub(crate) fn offpeak_seconds_ahead(&self, now: u64) -> u64 {
        OffpeakTime::parse(&self.daily_offpeak_time_utc).map_or(0, |time| time.seconds_ahead(now))
    }

    /// The reason for which `daily_offpeak_time_utc` is refused, if it is.
    pub(super) fn wrong_offpeak_time(&self) -> Option<&'static str> {
        match OffpeakTime::parse(&self.daily_offpeak_time_utc) {
            _ if self.daily_offpeak_time_utc.is_empty() => None,
            None => Some("should be set in the format HH:mm-HH:mm (e.g. 04:30-07:30)"),
            Some(time) => (time.start == time.end).then_some("start_time and end_time cannot be the same"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_ahead_ends_at_the_next_start() {
        let at = |hour: u64, minute: u64| 20 * DAY + (hour * 60 + minute) * MINUTE;
        let night = OffpeakTime::parse("23:30-4:00").unwrap();
        let noon = OffpeakTime::parse("11:00-13:30").unwrap();
        let cases = [
            (night, at(23, 29), 0),
            (night, at(23, 30), DAY),
            (night, at(23, 31), DAY - MINUTE),
            (night, at(4, 0) + 59, 19 * 3600 + 30 * MINUTE - 59),
            (night, at(4, 1), 0),
            (noon, at(10, 59), 0),
            (noon, at(12, 0), 23 * 3600),
            (noon, at(13, 31), 0),
        ];
        for (time, now, ahead) in cases {
            assert_eq!(time.seconds_ahead(now), ahead, "{time:?} at {}", now % DAY);
        }
    }

    #[test]
    fn texts_that_name_no_part_of_a_day_are_refused() {
        let refused = |text: &str| {
            let options = DbOptions { daily_offpeak_time_utc: text.to_owned(), ..DbOptions::default() };
            options.validate().err().map(|e| e.message().to_owned())
        };
        for right in ["", "0:00-23:59", "23:30-04:00", "4:5-6:7"] {
            assert_eq!(refused(right), None, "{right}");
        }
        for wrong in ["4", "04:30", "24:00-01:00", "04:60-05:00", "04:30-", "a:30-05:00", "1:00-2:00-3:00"] {
            let message = refused(wrong).expect("refused");
            assert!(message.contains("daily_offpeak_time_utc") && message.contains("HH:mm"), "{message}");
        }
        assert!(refused("04:30-4:30").unwrap().contains("cannot be the same"));
    }
}
