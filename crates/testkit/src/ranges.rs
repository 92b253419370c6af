//! Special arrangements of n ranges. Tests use them to find costs that grow faster than n.

/// Gives the begin and the end of range `i` of `n`, as numbers up to `2 * n`.
pub type RangeShape = fn(u32, u32) -> (u32, u32);

/// All shapes, with their names.
pub const RANGE_SHAPES: [(&str, RangeShape); 11] = [
    ("same begin", |i, _| (0, i + 1)),
    ("same begin, shorter and shorter", |i, n| (0, n - i)),
    ("same end", |i, n| (i, n)),
    ("nested", |i, n| (i, 2 * n - i)),
    ("nested, wider and wider", |i, n| (n - i, n + 1 + i)),
    ("a staircase", |i, n| (i, i + n / 4)),
    ("one behind the other", |i, _| (i, i + 1)),
    ("apart", |i, _| (2 * i, 2 * i + 1)),
    ("apart, in no order", |i, n| (2 * (i * 7919 % n), 2 * (i * 7919 % n) + 1)),
    ("identical", |_, _| (3, 4)),
    ("without any order", |i, n| (i * 7919 % n, n + i * 104_729 % n)),
];
