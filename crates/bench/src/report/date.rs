//! Dates for headers, in UTC.

/// Year, month, day, hour, minute, second, and day of the week (0: Sunday).
///
/// Source: H. Hinnant, "chrono-compatible low-level date algorithms" (days to civil).
fn civil(unix_seconds: u64) -> ([u64; 6], usize) {
    let (days, second) = (unix_seconds / 86_400, unix_seconds % 86_400);
    // Counts from the first of March of the year 0, where eras of 400 years begin.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let weekday = usize::try_from((days + 4) % 7).expect("a weekday is below 7");
    ([year, month, day, second / 3600, second / 60 % 60, second % 60], weekday)
}

/// The date in the form of C's `ctime`, without the end of the line.
pub(crate) fn ctime(unix_seconds: u64) -> String {
    const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let ([year, month, day, hour, minute, second], weekday) = civil(unix_seconds);
    let at = usize::try_from(month - 1).expect("a month is 1 to 12") * 3;
    format!("{} {} {day:2} {hour:02}:{minute:02}:{second:02} {year}", DAYS[weekday], &MONTHS[at..at + 3])
}

/// The date in the form of RocksDB's reports.
pub(crate) fn log_time(unix_seconds: u64) -> String {
    let ([year, month, day, hour, minute, second], _) = civil(unix_seconds);
    format!("{year:04}/{month:02}/{day:02}-{hour:02}:{minute:02}:{second:02} ")
}
