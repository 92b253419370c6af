//! How do I find the vectors that are nearest to another one?
//!
//! Run: `cargo run -p esker --example nearest_neighbours`
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use esker::txn::{SecondaryIndex, SecondaryIndexIterator, SimpleSecondaryIndex};
use esker::{ColumnFamilyHandle, Error, Options, Result, TransactionDb, TransactionDbOptions};
use std::{borrow::Cow, sync::Arc};

type Point = [f32; 2];

/// An inverted file: a list of points for each centre. A key stores the number of its list, and its
/// entry in the index has the point.
struct InvertedFile {
    families: SimpleSecondaryIndex,
    centres: Vec<Point>,
}

fn bytes(point: Point) -> Vec<u8> {
    point.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn point(bytes: &[u8]) -> Result<Point> {
    let (x, y) = bytes.split_first_chunk().ok_or(Error::invalid_argument("a point has 8 bytes"))?;
    let y = y.try_into().map_err(|_| Error::invalid_argument("a point has 8 bytes"))?;
    Ok([f32::from_le_bytes(*x), f32::from_le_bytes(y)])
}

fn distance(a: Point, b: Point) -> f32 {
    (a[0] - b[0]).hypot(a[1] - b[1])
}

impl InvertedFile {
    /// The numbers of the lists, nearest centre first.
    fn lists(&self, point: Point) -> Vec<u8> {
        let mut lists: Vec<u8> = (0..self.centres.len() as u8).collect();
        lists.sort_by(|a, b| {
            let to = |list: &u8| distance(self.centres[usize::from(*list)], point);
            to(a).total_cmp(&to(b))
        });
        lists
    }
}

impl SecondaryIndex for InvertedFile {
    fn set_primary_column_family(&self, family: &ColumnFamilyHandle) -> Result<()> {
        self.families.set_primary_column_family(family)
    }
    fn set_secondary_column_family(&self, family: &ColumnFamilyHandle) -> Result<()> {
        self.families.set_secondary_column_family(family)
    }
    fn primary_column_family(&self) -> Option<&ColumnFamilyHandle> {
        self.families.primary_column_family()
    }
    fn secondary_column_family(&self) -> Option<&ColumnFamilyHandle> {
        self.families.secondary_column_family()
    }
    fn primary_column_name(&self) -> &[u8] {
        b""
    }
    fn update_primary_column_value(&self, _: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(Some(vec![self.lists(point(value)?)[0]]))
    }
    fn secondary_key_prefix<'a>(&self, _: &'a [u8], list: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        Ok(Cow::Borrowed(list))
    }
    fn finalize_secondary_key_prefix<'a>(&self, list: Cow<'a, [u8]>) -> Result<Cow<'a, [u8]>> {
        Ok(list)
    }
    fn secondary_value<'a>(&self, _: &[u8], _: &[u8], point: &'a [u8]) -> Result<Option<Cow<'a, [u8]>>> {
        Ok(Some(Cow::Borrowed(point)))
    }
}

fn main() -> Result<()> {
    let dir = std::env::temp_dir().join(format!("esker-example-nearest-{}", std::process::id()));
    let centres = vec![[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]];
    let index = Arc::new(InvertedFile { families: SimpleSecondaryIndex::new(""), centres });
    let options = Options::new().create_if_missing(true);
    let indices = TransactionDbOptions::default().secondary_indices(vec![index.clone()]);
    let db = TransactionDb::open(&options, &indices, &dir)?;
    let lists = db.create_column_family("lists", &options.cf)?;
    index.set_primary_column_family(&db.default_column_family())?;
    index.set_secondary_column_family(&lists)?;

    for (name, at) in [("oak", [1.0, 1.0]), ("elm", [9.0, 2.0]), ("fir", [4.0, 1.0]), ("yew", [1.0, 9.0])] {
        db.put(name, bytes(at))?;
    }
    db.put("oak", bytes([8.0, 0.0]))?;

    // The two nearest lists have all candidates.
    let target = [7.0, 1.0];
    let mut found = Vec::new();
    let mut entries = SecondaryIndexIterator::new(index.clone(), db.db().iter_cf(&lists)?);
    for list in index.lists(target).into_iter().take(2) {
        entries.seek([list]);
        while entries.valid() {
            let name = String::from_utf8_lossy(entries.key()).into_owned();
            found.push((distance(point(entries.value())?, target), name));
            entries.next();
        }
        entries.status()?;
    }
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    found.iter().for_each(|(distance, name)| println!("{name} is {distance:.1} away"));
    assert_eq!(found.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>(), ["oak", "elm", "fir"]);

    drop((entries, lists, db));
    esker::destroy_db(&options.db, &dir)
}
