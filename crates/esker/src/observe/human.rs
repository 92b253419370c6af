//! Numbers as RocksDB's dumps print them for people. Source: RocksDB `util/string_util.cc`.

pub(super) const MB: f64 = 1_048_576.0;
pub(super) const GB: f64 = MB * 1024.0;

/// `9999`, `10K`, `10M`, `10G`: truncated, not rounded.
pub(super) fn number(n: u64) -> String {
    match n {
        0..10_000 => n.to_string(),
        10_000..10_000_000 => format!("{}K", n / 1_000),
        10_000_000..10_000_000_000 => format!("{}M", n / 1_000_000),
        _ => format!("{}G", n / 1_000_000_000),
    }
}

/// `1.50 KB` up to `1024.00 TB`; never plain bytes.
pub(super) fn bytes(n: u64) -> String {
    let mut size = n as f64 / 1024.0;
    let mut unit = 0;
    while unit < 3 && size >= 1024.0 {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.2} {}", ["KB", "MB", "GB", "TB"][unit])
}

/// `HH:MM:SS.mmm H:M:S`; hours have no upper bound.
pub(super) fn micros(n: u64) -> String {
    let seconds = (n % 60_000_000) as f64 / 1e6;
    format!("{:02}:{:02}:{seconds:.3} H:M:S", n / 3_600_000_000, n / 60_000_000 % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_rocksdbs() {
        assert_eq!(number(9_999), "9999");
        assert_eq!(number(10_000), "10K");
        assert_eq!(number(9_999_999), "9999K");
        assert_eq!(number(10_000_000), "10M");
        assert_eq!(number(10_000_000_000), "10G");
        assert_eq!(bytes(0), "0.00 KB");
        assert_eq!(bytes(1536), "1.50 KB");
        assert_eq!(bytes(1 << 20), "1.00 MB");
        assert_eq!(bytes(1 << 50), "1024.00 TB");
        assert_eq!(micros(0), "00:00:0.000 H:M:S");
        assert_eq!(micros(3_723_045_678), "01:02:3.046 H:M:S");
    }
}
