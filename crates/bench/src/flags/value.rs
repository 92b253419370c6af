//! Text forms of flag values, in gflags' syntax.

/// The type of a flag's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FlagKind {
    Bool,
    Int32,
    UInt32,
    Int64,
    UInt64,
    Double,
    String,
}

impl FlagKind {
    /// gflags' name of the type.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            FlagKind::Bool => "bool",
            FlagKind::Int32 => "int32",
            FlagKind::UInt32 => "uint32",
            FlagKind::Int64 => "int64",
            FlagKind::UInt64 => "uint64",
            FlagKind::Double => "double",
            FlagKind::String => "string",
        }
    }

    /// Whether `a` and `b` are the same value of this type.
    /// # Errors
    /// The expected form, if `a` is no value of this type.
    pub(crate) fn same(self, a: &str, b: &str) -> Result<bool, String> {
        fn same<T: FlagValue + PartialEq>(a: &str, b: &str) -> Result<bool, String> {
            Ok(T::parse(a)? == T::parse(b)?)
        }
        match self {
            FlagKind::Bool => same::<bool>(a, b),
            FlagKind::Int32 => same::<i32>(a, b),
            FlagKind::UInt32 => same::<u32>(a, b),
            FlagKind::Int64 => same::<i64>(a, b),
            FlagKind::UInt64 => same::<u64>(a, b),
            FlagKind::Double => same::<f64>(a, b),
            FlagKind::String => same::<String>(a, b),
        }
    }
}

/// A type of flags' values.
pub(crate) trait FlagValue: Sized {
    const KIND: FlagKind;
    /// Reads a value.
    /// # Errors
    /// The expected form.
    fn parse(text: &str) -> Result<Self, String>;
}

impl FlagValue for bool {
    const KIND: FlagKind = FlagKind::Bool;
    fn parse(text: &str) -> Result<bool, String> {
        match text.to_ascii_lowercase().as_str() {
            "1" | "t" | "true" | "y" | "yes" => Ok(true),
            "0" | "f" | "false" | "n" | "no" => Ok(false),
            _ => Err(format!("'{text}' is neither true nor false")),
        }
    }
}

macro_rules! integers {
    ($($ty:ty => $kind:ident),*) => {$(
        impl FlagValue for $ty {
            const KIND: FlagKind = FlagKind::$kind;
            fn parse(text: &str) -> Result<$ty, String> {
                let (negative, digits) = match text.strip_prefix('-') {
                    Some(rest) => (true, rest),
                    None => (false, text),
                };
                let number = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
                    Some(hex) => i128::from_str_radix(hex, 16),
                    None => digits.parse::<i128>(),
                };
                let number = number.map_err(|_| format!("'{text}' is not a whole number"))?;
                let number = if negative { -number } else { number };
                <$ty>::try_from(number)
                    .map_err(|_| format!("{number} is not in {}..={}", <$ty>::MIN, <$ty>::MAX))
            }
        }
    )*};
}
integers!(i32 => Int32, u32 => UInt32, i64 => Int64, u64 => UInt64);

impl FlagValue for f64 {
    const KIND: FlagKind = FlagKind::Double;
    fn parse(text: &str) -> Result<f64, String> {
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(number),
            _ => Err(format!("'{text}' is not a number")),
        }
    }
}

impl FlagValue for String {
    const KIND: FlagKind = FlagKind::String;
    fn parse(text: &str) -> Result<String, String> {
        Ok(text.to_owned())
    }
}
