//! Numbers of one thread, by name: `PerfContext` and `IoStatsContext` are made of this.
//!
//! In: the names. Out: a struct with a copy of the calling thread's numbers, and the numbers
//! themselves, which change without a lock.

/// Makes a struct of numbers, and those of the calling thread behind it. In braces stand the fields
/// of a thread that are no numbers, with their first values; behind them the name of the function
/// that lends the thread's numbers, and that of a function that a reset calls.
macro_rules! thread_numbers {
    (
        $(#[$attribute:meta])* $copy:ident,
        $live:ident { $($other:ident: $type:ty = $first:expr,)* }, $with:ident, $reset:path,
        $($field:ident,)*
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
        pub struct $copy {
            $(#[doc = concat!("RocksDB's `", stringify!($field), "`.")] pub $field: u64,)*
        }

        impl $copy {
            /// This thread's numbers since its last [`reset`](Self::reset).
            pub fn current() -> $copy {
                $with(|live| $copy { $($field: live.$field.get(),)* })
            }

            /// Sets all numbers of this thread to zero.
            pub fn reset() {
                $with(|live| { $(live.$field.set(0);)* });
                $reset();
            }

            /// Name and value of each number, in RocksDB's order.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($field), self.$field),)*].into_iter()
            }
        }

        /// RocksDB's text form, without numbers that are zero: `name = 1, other = 2`.
        impl std::fmt::Display for $copy {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut separator = "";
                for (name, value) in self.iter().filter(|(_, value)| *value > 0) {
                    write!(f, "{separator}{name} = {value}")?;
                    separator = ", ";
                }
                Ok(())
            }
        }

        /// A thread's numbers while they change; for the macros.
        #[doc(hidden)]
        #[derive(Debug)]
        pub struct $live {
            $(pub $other: $type,)*
            $(pub $field: std::cell::Cell<u64>,)*
        }

        thread_local! {
            static LIVE: $live = const {
                $live { $($other: $first,)* $($field: std::cell::Cell::new(0),)* }
            };
        }

        #[doc(hidden)]
        #[inline]
        pub fn $with<R>(f: impl FnOnce(&$live) -> R) -> R {
            LIVE.with(f)
        }
    };
}

pub(crate) use thread_numbers;
