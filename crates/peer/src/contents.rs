//! The contents of a family, as tests compare them between engines.

use esker::{ColumnFamilyHandle, Db, ReadOptions, Result};

/// A key and its value.
pub type ContentsPair = (Vec<u8>, Vec<u8>);

/// The keys and values of a family, in the family's order.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Contents(pub Vec<ContentsPair>);

impl Contents {
    /// Reads `family` with Esker: by a forward scan, a backward scan and a get of each key. All
    /// three must agree.
    /// # Errors
    /// Esker's errors.
    ///
    /// # Panics
    /// If the backward scan or a get differs from the forward scan.
    pub fn of(db: &Db, family: &ColumnFamilyHandle, options: &ReadOptions) -> Result<Contents> {
        let mut iter = db.iter_opt(options.clone(), family)?;
        let mut forward = Vec::new();
        iter.seek_to_first();
        while let Some((key, value)) = iter.item() {
            forward.push((key.to_vec(), value.to_vec()));
            iter.next();
        }
        iter.status()?;
        let mut backward = Vec::new();
        iter.seek_to_last();
        while let Some((key, value)) = iter.item() {
            backward.push((key.to_vec(), value.to_vec()));
            iter.prev();
        }
        iter.status()?;
        backward.reverse();
        let (forward, backward) = (Contents(forward), Contents(backward));
        backward.assert_same(&forward, &format!("'{}' backwards against forwards", family.name()));
        for (key, value) in &forward.0 {
            let got = db.get_opt(options, family, key)?;
            assert_eq!(got.as_ref(), Some(value), "'{}': get of {}", family.name(), hex(key));
        }
        Ok(forward)
    }

    /// Checks that these contents equal `expected`. `what` names the contents in the message.
    ///
    /// # Panics
    /// If the two differ.
    #[track_caller]
    pub fn assert_same(&self, expected: &Contents, what: &str) {
        if let Some(difference) = self.difference(expected) {
            panic!("{what}: {difference}");
        }
    }

    /// Describes the first difference, if there is one.
    pub fn difference(&self, expected: &Contents) -> Option<String> {
        let at = (0..self.0.len().max(expected.0.len())).find(|&i| self.0.get(i) != expected.0.get(i))?;
        let show = |contents: &Contents| match contents.0.get(at) {
            Some((key, value)) => format!("{} : {}", hex(key), hex(value)),
            None => "nothing".to_owned(),
        };
        Some(format!(
            "differs at entry {at}\n  is        {}\n  should be {}\n  ({} entries, should be {})",
            show(self),
            show(expected),
            self.0.len(),
            expected.0.len()
        ))
    }
}

impl std::fmt::Debug for Contents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(k, v)| format!("{} : {}", hex(k), hex(v)))).finish()
    }
}

/// Writes bytes as upper-case hex behind `0x`, the form of `ldb --hex`.
pub fn hex(bytes: &[u8]) -> String {
    // Whole databases become text here. A `format!` for each byte would take most of the time of a
    // step.
    let digit = |nibble: u8| char::from(b"0123456789ABCDEF"[usize::from(nibble)]);
    let mut text = String::with_capacity(2 + 2 * bytes.len());
    text.push_str("0x");
    for byte in bytes {
        text.extend([digit(byte >> 4), digit(byte & 15)]);
    }
    text
}

/// The inverse of [`hex`]. `0x` may be missing. `None` if the text is not hex.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("0x").unwrap_or(text).as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let digit = |byte: u8| (byte as char).to_digit(16);
    let pair = |pair: &[u8]| {
        Some(
            u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?)
                .expect("two hexadecimal digits fit into a byte"),
        )
    };
    digits.chunks(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(pairs: &[(&str, &str)]) -> Contents {
        Contents(pairs.iter().map(|(k, v)| (k.as_bytes().to_vec(), v.as_bytes().to_vec())).collect())
    }

    #[test]
    fn hex_comes_back() {
        for bytes in [&b""[..], b"\0", b"key\xFF"] {
            assert_eq!(unhex(&hex(bytes)).as_deref(), Some(bytes));
        }
        assert_eq!(unhex("6b"), Some(b"k".to_vec()));
        assert_eq!((unhex("0x6"), unhex("0x6g")), (None, None));
    }

    #[test]
    fn equal_contents_are_the_same() {
        contents(&[("a", "1"), ("b", "2")]).assert_same(&contents(&[("a", "1"), ("b", "2")]), "equal");
    }

    #[test]
    #[should_panic(expected = "differs at entry 1\n  is        0x62 : 0x32\n  should be 0x62 : 0x33")]
    fn the_first_difference_is_shown() {
        contents(&[("a", "1"), ("b", "2")]).assert_same(&contents(&[("a", "1"), ("b", "3")]), "values");
    }

    #[test]
    #[should_panic(expected = "should be nothing")]
    fn one_too_many_is_a_difference() {
        contents(&[("a", "1"), ("b", "2")]).assert_same(&contents(&[("a", "1")]), "length");
    }
}
