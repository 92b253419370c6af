//! Keys and values as text in `Debug` output: `b"key\x00"`, not `[107, 101, 121, 0]`.
//!
//! In: a struct and the names of its fields that hold bytes. Out: its `Debug`.

use std::fmt;

/// Bytes, or options and pairs of them, that have a readable form.
pub trait Readable {
    /// Writes the readable form.
    /// # Errors
    /// Those of the formatter.
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

impl Readable for [u8] {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.escape_ascii())
    }
}

impl Readable for Vec<u8> {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice().write(f)
    }
}

impl<T: Readable + ?Sized> Readable for &T {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).write(f)
    }
}

impl<T: Readable> Readable for Option<T> {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.as_ref().map(Text), f)
    }
}

impl<A: Readable, B: Readable> Readable for (A, B) {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&(Text(&self.0), Text(&self.1)), f)
    }
}

/// A value whose `Debug` is its readable form.
#[derive(Clone, Copy)]
pub struct Text<T>(pub T);

impl<T: Readable> fmt::Debug for Text<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(f)
    }
}

/// `debug_with_text!(Name { number, text key })` implements `Debug` for a struct. Fields marked
/// `text` appear in their readable form. A struct with a lifetime is given as `Name<'_>`.
#[macro_export]
macro_rules! debug_with_text {
    ($ty:ident $(<$life:lifetime>)? { $($rest:tt)* }) => {
        impl ::std::fmt::Debug for $ty $(<$life>)? {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                let mut out = f.debug_struct(stringify!($ty));
                $crate::debug_with_text!(@ self, out, $($rest)*);
                out.finish()
            }
        }
    };
    (@ $self:ident, $out:ident $(,)?) => {};
    (@ $self:ident, $out:ident, text $field:ident $(, $($rest:tt)*)?) => {
        $out.field(stringify!($field), &$crate::text::Text(&$self.$field));
        $crate::debug_with_text!(@ $self, $out, $($($rest)*)?);
    };
    (@ $self:ident, $out:ident, $field:ident $(, $($rest:tt)*)?) => {
        $out.field(stringify!($field), &$self.$field);
        $crate::debug_with_text!(@ $self, $out, $($($rest)*)?);
    };
}

#[cfg(test)]
mod tests {
    struct Keys<'a> {
        number: u64,
        begin: Option<&'a [u8]>,
        ends: Option<(Vec<u8>, Vec<u8>)>,
        key: Vec<u8>,
    }

    debug_with_text!(Keys<'_> { number, text begin, text ends, text key });

    #[test]
    fn bytes_are_text() {
        let keys = Keys {
            number: 7,
            begin: Some(b"a\x00"),
            ends: Some((b"b".to_vec(), b"\"".to_vec())),
            key: Vec::new(),
        };
        assert_eq!(
            format!("{keys:?}"),
            r#"Keys { number: 7, begin: Some(b"a\x00"), ends: Some((b"b", b"\"")), key: b"" }"#
        );
    }
}
