//! `inplace_callback`: puts that a function of the program turns into values.

use std::fmt;
use std::sync::Arc;

/// The outcome of an [`InplaceCallback`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UpdateStatus {
    /// The key keeps its value, and the put has no effect.
    Failed,
    /// The new value is in the buffer of the existing one, and has this length in bytes. It is not
    /// longer than the existing value.
    UpdatedInPlace(usize),
    /// The new value.
    Updated(Vec<u8>),
}

/// Makes the value of a put, of the key's value and the put's argument:
/// [`ColumnFamilyOptions::inplace_callback`](super::ColumnFamilyOptions::inplace_callback).
#[derive(Clone)]
pub struct InplaceCallback(Arc<UpdateInPlace>);

type UpdateInPlace = dyn Fn(Option<&mut [u8]>, &[u8]) -> UpdateStatus + Send + Sync;

impl InplaceCallback {
    /// A callback. It gets the key's value, or `None` if the key has none, and the put's argument.
    /// It runs while all other writers wait, so it should be quick, and must not write to the
    /// database.
    pub fn new(
        update: impl Fn(Option<&mut [u8]>, &[u8]) -> UpdateStatus + Send + Sync + 'static,
    ) -> InplaceCallback {
        InplaceCallback(Arc::new(update))
    }

    /// Calls it.
    pub(crate) fn update(&self, existing: Option<&mut [u8]>, delta: &[u8]) -> UpdateStatus {
        (self.0)(existing, delta)
    }
}

impl fmt::Debug for InplaceCallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InplaceCallback")
    }
}
