//! Temperatures of files. Source: RocksDB `include/rocksdb/types.h`.

/// Expected time until a file is read again. The MANIFEST stores it for each table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[repr(u8)]
pub enum Temperature {
    /// No hint.
    #[default]
    Unknown = 0,
    /// Read again at once.
    Hot = 4,
    /// Read again soon.
    Warm = 8,
    /// Read again some day.
    Cool = 10,
    /// Read again rarely.
    Cold = 12,
    /// Perhaps never read again.
    Ice = 16,
}

impl Temperature {
    /// All temperatures.
    pub(crate) const ALL: [Temperature; 6] = {
        use Temperature::{Cold, Cool, Hot, Ice, Unknown, Warm};
        [Unknown, Hot, Warm, Cool, Cold, Ice]
    };

    /// RocksDB's name of this value in OPTIONS files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Temperature::Unknown => "kUnknown",
            Temperature::Hot => "kHot",
            Temperature::Warm => "kWarm",
            Temperature::Cool => "kCool",
            Temperature::Cold => "kCold",
            Temperature::Ice => "kIce",
        }
    }

    /// The temperature with this code in the MANIFEST; `Unknown` for codes of later releases.
    pub(crate) fn from_code(code: u8) -> Temperature {
        Temperature::ALL.into_iter().find(|temperature| *temperature as u8 == code).unwrap_or_default()
    }
}
