//! Setters of option structs, for chaining.

/// Gives a struct one setter for each field that is listed, named as the field.
///
/// A field after `optional` is an `Option`; its setter takes the value, or the option.
///
/// ```
/// #[derive(Default)]
/// pub struct ScanOptions {
///     /// Bytes to read ahead.
///     pub readahead: usize,
///     /// Where to end.
///     pub end: Option<Vec<u8>>,
/// }
/// esker_base::setters! {
///     ScanOptions { readahead: usize; optional end: Vec<u8>; }
/// }
///
/// let options = ScanOptions::default().readahead(4096).end(b"z".to_vec());
/// assert_eq!((options.readahead, options.end.as_deref()), (4096, Some(&b"z"[..])));
/// ```
#[macro_export]
macro_rules! setters {
    ($name:ident { $($rest:tt)* }) => {
        /// Setters for chaining, each named as its field.
        impl $name {
            $crate::setters! { @each $($rest)* }
        }
    };
    (@each) => {};
    (@each optional $field:ident : $ty:ty; $($rest:tt)*) => {
        #[doc = concat!("Sets [`", stringify!($field), "`](#structfield.", stringify!($field), ").")]
        #[must_use]
        pub fn $field(mut self, value: impl Into<Option<$ty>>) -> Self {
            self.$field = value.into();
            self
        }
        $crate::setters! { @each $($rest)* }
    };
    (@each $field:ident : $ty:ty; $($rest:tt)*) => {
        #[doc = concat!("Sets [`", stringify!($field), "`](#structfield.", stringify!($field), ").")]
        #[must_use]
        pub fn $field(mut self, value: $ty) -> Self {
            self.$field = value;
            self
        }
        $crate::setters! { @each $($rest)* }
    };
}
