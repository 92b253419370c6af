//! Macros that implement the methods of the cursor contract that need no code of their own.
//!
//! `forward_cursor!` forwards methods to another cursor. `plain_cursor!` implements them by the
//! rest of the contract: it ignores hints and decodes no runs. Both take methods by name. A method
//! added to a trait therefore breaks every implementor until its author decides what the method
//! does there.

/// Forwards the named methods of [`InternalIterator`](crate::cursor::InternalIterator) and
/// [`ScanIterator`](crate::cursor::ScanIterator) to the cursor at a place. If the place is an enum
/// with a cursor in every variant, the variants follow in brackets.
///
/// A wrapper that leaves out a method does not compile; here, `status`:
///
/// ```compile_fail,E0046
/// use esker_format::cursor::{InternalIterator, forward_cursor};
///
/// struct Wrapper(Box<dyn InternalIterator>);
///
/// impl InternalIterator for Wrapper {
///     forward_cursor!(self => self.0; valid, seek_to_first, seek_to_last, seek, seek_for_prev, next,
///         prev, key, value, pinned_value);
/// }
/// ```
///
/// With `status` it compiles, and so does an enum:
///
/// ```
/// use esker_format::cursor::{InternalIterator, forward_cursor};
///
/// enum Either {
///     One(Box<dyn InternalIterator>),
///     Other(Box<dyn InternalIterator>),
/// }
///
/// impl InternalIterator for Either {
///     forward_cursor!(self => *self, [Either::One, Either::Other]; valid, seek_to_first,
///         seek_to_last, seek, seek_for_prev, next, prev, key, value, pinned_value, status);
/// }
/// ```
#[macro_export]
macro_rules! forward_cursor {
    ($self:ident => $to:expr, $in:tt; $($method:ident),+ $(,)?) => {
        $($crate::forward_cursor!(@ $method $self ($to) $in);)+
    };
    ($self:ident => $to:expr; $($method:ident),+ $(,)?) => {
        $($crate::forward_cursor!(@ $method $self ($to) []);)+
    };
    (@ valid $self:ident $to:tt $in:tt) => {
        #[inline]
        fn valid(&$self) -> bool {
            $crate::on_cursor!(&$to, $in, iter => $crate::cursor::InternalIterator::valid(iter))
        }
    };
    (@ seek_to_first $self:ident $to:tt $in:tt) => {
        #[inline]
        fn seek_to_first(&mut $self) {
            $crate::on_cursor!(&mut $to, $in, iter => $crate::cursor::InternalIterator::seek_to_first(iter))
        }
    };
    (@ seek_to_last $self:ident $to:tt $in:tt) => {
        #[inline]
        fn seek_to_last(&mut $self) {
            $crate::on_cursor!(&mut $to, $in, iter => $crate::cursor::InternalIterator::seek_to_last(iter))
        }
    };
    (@ seek $self:ident $to:tt $in:tt) => {
        #[inline]
        fn seek(&mut $self, target: &[u8]) {
            $crate::on_cursor!(&mut $to, $in, iter => $crate::cursor::InternalIterator::seek(iter, target))
        }
    };
    (@ seek_for_prev $self:ident $to:tt $in:tt) => {
        #[inline]
        fn seek_for_prev(&mut $self, target: &[u8]) {
            $crate::on_cursor!(&mut $to, $in, iter =>
                $crate::cursor::InternalIterator::seek_for_prev(iter, target))
        }
    };
    (@ next $self:ident $to:tt $in:tt) => {
        #[inline]
        fn next(&mut $self) {
            $crate::on_cursor!(&mut $to, $in, iter => $crate::cursor::InternalIterator::next(iter))
        }
    };
    (@ prev $self:ident $to:tt $in:tt) => {
        #[inline]
        fn prev(&mut $self) {
            $crate::on_cursor!(&mut $to, $in, iter => $crate::cursor::InternalIterator::prev(iter))
        }
    };
    (@ key $self:ident $to:tt $in:tt) => {
        #[inline]
        fn key(&$self) -> &[u8] {
            $crate::on_cursor!(&$to, $in, iter => $crate::cursor::InternalIterator::key(iter))
        }
    };
    (@ value $self:ident $to:tt $in:tt) => {
        #[inline]
        fn value(&$self) -> &[u8] {
            $crate::on_cursor!(&$to, $in, iter => $crate::cursor::InternalIterator::value(iter))
        }
    };
    (@ pinned_value $self:ident $to:tt $in:tt) => {
        #[inline]
        fn pinned_value(&$self) -> ::esker_base::PinnedBytes {
            $crate::on_cursor!(&$to, $in, iter => $crate::cursor::InternalIterator::pinned_value(iter))
        }
    };
    (@ status $self:ident $to:tt $in:tt) => {
        #[inline]
        fn status(&$self) -> ::esker_base::Result<()> {
            $crate::on_cursor!(&$to, $in, iter => $crate::cursor::InternalIterator::status(iter))
        }
    };
    (@ next_key $self:ident $to:tt $in:tt) => {
        #[inline]
        fn next_key(&mut $self) -> Option<&[u8]> {
            $crate::on_cursor!(&mut $to, $in, iter => $crate::cursor::ScanIterator::next_key(iter))
        }
    };
    (@ prev_key $self:ident $to:tt $in:tt) => {
        #[inline]
        fn prev_key(&mut $self) -> Option<&[u8]> {
            $crate::on_cursor!(&mut $to, $in, iter => $crate::cursor::ScanIterator::prev_key(iter))
        }
    };
    (@ prev_key_leaving $self:ident $to:tt $in:tt) => {
        #[inline]
        fn prev_key_leaving(&mut $self, left: &mut $crate::cursor::LeftValue) -> Option<&[u8]> {
            $crate::on_cursor!(&mut $to, $in, iter => $crate::cursor::ScanIterator::prev_key_leaving(iter, left))
        }
    };
    (@ left_value $self:ident $to:tt $in:tt) => {
        #[inline]
        fn left_value(&$self) -> &[u8] {
            $crate::on_cursor!(&$to, $in, iter => $crate::cursor::ScanIterator::left_value(iter))
        }
    };
    (@ pinned_left_value $self:ident $to:tt $in:tt) => {
        #[inline]
        fn pinned_left_value(&$self) -> ::esker_base::PinnedBytes {
            $crate::on_cursor!(&$to, $in, iter => $crate::cursor::ScanIterator::pinned_left_value(iter))
        }
    };
    (@ set_upper_bound $self:ident $to:tt $in:tt) => {
        #[inline]
        fn set_upper_bound(&mut $self, user_key: Option<&[u8]>) {
            $crate::on_cursor!(&mut $to, $in, iter =>
                $crate::cursor::ScanIterator::set_upper_bound(iter, user_key))
        }
    };
    (@ set_wanted_prefix_of $self:ident $to:tt $in:tt) => {
        #[inline]
        fn set_wanted_prefix_of(&mut $self, user_key: Option<&[u8]>) {
            $crate::on_cursor!(&mut $to, $in, iter =>
                $crate::cursor::ScanIterator::set_wanted_prefix_of(iter, user_key))
        }
    };
    (@ progress $self:ident $to:tt $in:tt) => {
        #[inline]
        fn progress(&$self) -> $crate::cursor::ScanProgress {
            $crate::on_cursor!(&$to, $in, iter => $crate::cursor::ScanIterator::progress(iter))
        }
    };
    (@ continue_from $self:ident $to:tt $in:tt) => {
        #[inline]
        fn continue_from(&mut $self, progress: $crate::cursor::ScanProgress) {
            $crate::on_cursor!(&mut $to, $in, iter => $crate::cursor::ScanIterator::continue_from(iter, progress))
        }
    };
    (@ release $self:ident $to:tt $in:tt) => {
        #[inline]
        fn release(&mut $self) {
            $crate::on_cursor!(&mut $to, $in, iter => $crate::cursor::ScanIterator::release(iter))
        }
    };
    (@ look_ahead $self:ident $to:tt $in:tt) => {
        #[inline]
        fn look_ahead(&mut $self, run: &mut $crate::cursor::DecodedRun, ahead: &$crate::cursor::DecodeAhead<'_>) {
            $crate::on_cursor!(&mut $to, $in, iter => $crate::cursor::ScanIterator::look_ahead(iter, run, ahead))
        }
    };
    (@ advance $self:ident $to:tt $in:tt) => {
        #[inline]
        fn advance(&mut $self, run: &$crate::cursor::DecodedRun) {
            $crate::on_cursor!(&mut $to, $in, iter => $crate::cursor::ScanIterator::advance(iter, run))
        }
    };
    (@ pass $self:ident $to:tt $in:tt) => {
        #[inline]
        fn pass(&mut $self, run: &mut $crate::cursor::DecodedRun, ahead: &$crate::cursor::DecodeAhead<'_>) {
            $crate::on_cursor!(&mut $to, $in, iter => $crate::cursor::ScanIterator::pass(iter, run, ahead))
        }
    };
    (@ deleted_run_end $self:ident $to:tt $in:tt) => {
        #[inline]
        fn deleted_run_end(&$self, snapshot: ::esker_base::SequenceNumber, forward: bool) -> Option<&[u8]> {
            $crate::on_cursor!(&$to, $in, iter =>
                $crate::cursor::ScanIterator::deleted_run_end(iter, snapshot, forward))
        }
    };
    (@ was_seen $self:ident $to:tt $in:tt) => {
        #[inline]
        fn was_seen(&$self, known: &$crate::cursor::KnownDeletedRun<'_>, forward: bool) -> bool {
            $crate::on_cursor!(&$to, $in, iter => $crate::cursor::ScanIterator::was_seen(iter, known, forward))
        }
    };
    (@ skip_deleted_run $self:ident $to:tt $in:tt) => {
        #[inline]
        fn skip_deleted_run(
            &mut $self,
            snapshot: ::esker_base::SequenceNumber,
            forward: bool,
            known: Option<&$crate::cursor::KnownDeletedRun<'_>>,
        ) -> $crate::cursor::SkipDistance {
            $crate::on_cursor!(&mut $to, $in, iter =>
                $crate::cursor::ScanIterator::skip_deleted_run(iter, snapshot, forward, known))
        }
    };
}

/// Evaluates an expression with the cursor at a place, or with the cursor in the variant of an enum
/// at that place. For `forward_cursor!`, and for methods that do more than forward.
#[macro_export]
macro_rules! on_cursor {
    ($to:expr, [], $iter:ident => $call:expr) => {{
        let $iter = $to;
        $call
    }};
    ($to:expr, [$($variant:path),+], $iter:ident => $call:expr) => {
        match $to {
            $($variant($iter) => $call,)+
        }
    };
}

/// Implements the named methods by the rest of the contract. Steps call `next` or `prev`, pinned
/// values are copies, hints are ignored, and no runs are decoded. `deleted_run_end` and `was_seen`
/// know no deleted run; `skip_deleted_run` is [`skip_alone`](crate::cursor::skip_alone).
///
/// ```text
/// plain_cursor!(self; look_ahead, advance, pass);
/// ```
#[macro_export]
macro_rules! plain_cursor {
    ($self:ident; $($method:ident),+ $(,)?) => {
        $($crate::plain_cursor!(@ $method $self);)+
    };
    (@ pinned_value $self:ident) => {
        fn pinned_value(&$self) -> ::esker_base::PinnedBytes {
            ::esker_base::PinnedBytes::copy_from($crate::cursor::InternalIterator::value($self))
        }
    };
    (@ next_key $self:ident) => {
        #[inline]
        fn next_key(&mut $self) -> Option<&[u8]> {
            $crate::cursor::InternalIterator::next($self);
            let is_valid = $crate::cursor::InternalIterator::valid($self);
            is_valid.then(|| $crate::cursor::InternalIterator::key($self))
        }
    };
    (@ prev_key $self:ident) => {
        #[inline]
        fn prev_key(&mut $self) -> Option<&[u8]> {
            $crate::cursor::InternalIterator::prev($self);
            let is_valid = $crate::cursor::InternalIterator::valid($self);
            is_valid.then(|| $crate::cursor::InternalIterator::key($self))
        }
    };
    (@ prev_key_leaving $self:ident) => {
        #[inline]
        fn prev_key_leaving(&mut $self, left: &mut $crate::cursor::LeftValue) -> Option<&[u8]> {
            left.keep($self);
            $crate::cursor::ScanIterator::prev_key($self)
        }
    };
    (@ left_value $self:ident) => {
        fn left_value(&$self) -> &[u8] {
            &[]
        }
    };
    (@ pinned_left_value $self:ident) => {
        fn pinned_left_value(&$self) -> ::esker_base::PinnedBytes {
            ::esker_base::PinnedBytes::copy_from($crate::cursor::ScanIterator::left_value($self))
        }
    };
    (@ set_upper_bound $self:ident) => {
        fn set_upper_bound(&mut $self, _user_key: Option<&[u8]>) {}
    };
    (@ set_wanted_prefix_of $self:ident) => {
        fn set_wanted_prefix_of(&mut $self, _user_key: Option<&[u8]>) {}
    };
    (@ progress $self:ident) => {
        fn progress(&$self) -> $crate::cursor::ScanProgress {
            $crate::cursor::ScanProgress::default()
        }
    };
    (@ continue_from $self:ident) => {
        fn continue_from(&mut $self, _progress: $crate::cursor::ScanProgress) {}
    };
    (@ release $self:ident) => {
        fn release(&mut $self) {}
    };
    (@ look_ahead $self:ident) => {
        fn look_ahead(&mut $self, run: &mut $crate::cursor::DecodedRun, _ahead: &$crate::cursor::DecodeAhead<'_>) {
            run.clear();
        }
    };
    (@ advance $self:ident) => {
        fn advance(&mut $self, _run: &$crate::cursor::DecodedRun) {}
    };
    (@ pass $self:ident) => {
        fn pass(&mut $self, run: &mut $crate::cursor::DecodedRun, _ahead: &$crate::cursor::DecodeAhead<'_>) {
            run.clear();
        }
    };
    (@ deleted_run_end $self:ident) => {
        fn deleted_run_end(&$self, _snapshot: ::esker_base::SequenceNumber, _forward: bool) -> Option<&[u8]> {
            None
        }
    };
    (@ was_seen $self:ident) => {
        fn was_seen(&$self, _known: &$crate::cursor::KnownDeletedRun<'_>, _forward: bool) -> bool {
            false
        }
    };
    (@ skip_deleted_run $self:ident) => {
        fn skip_deleted_run(
            &mut $self,
            snapshot: ::esker_base::SequenceNumber,
            forward: bool,
            known: Option<&$crate::cursor::KnownDeletedRun<'_>>,
        ) -> $crate::cursor::SkipDistance {
            $crate::cursor::skip_alone($self, snapshot, forward, known)
        }
    };
}
