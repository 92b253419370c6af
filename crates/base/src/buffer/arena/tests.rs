use super::*;
use crate::rng::Rng;

/// An arena, its regions, and the allocated pieces.
struct Checked {
    arena: BufferArena,
    regions: Vec<NonNull<u8>>,
    taken: Vec<(NonNull<u8>, usize)>,
}

impl Checked {
    fn new() -> Checked {
        Checked { arena: BufferArena::new(), regions: Vec::new(), taken: Vec::new() }
    }

    fn take(&mut self, length: usize) -> NonNull<u8> {
        if let Some((start, room)) = self.arena.allocate(length) {
            assert!(room >= length, "{room} bytes for {length}");
            assert_eq!(start.as_ptr().addr() % UNIT, 0);
            self.taken.push((start, room));
            return start;
        }
        let region = Region::new(false).unwrap();
        self.regions.push(region.at(0));
        self.arena.add(region, 3);
        self.take(length)
    }

    fn give(&mut self, at: usize) {
        let (start, _) = self.taken.swap_remove(at);
        // SAFETY: the piece was allocated, and nothing refers to it any more.
        assert_eq!(unsafe { BufferArena::number_of(start) }, 3);
        // SAFETY: the piece was allocated by this arena, and nothing refers to it any more.
        let empty = unsafe { self.arena.free(start) };
        self.regions.retain(|start| !empty.iter().any(|region| region.at(0) == *start));
    }

    /// Checks invariants 1 to 3, and that `taken` counts the allocated pieces.
    fn check(&self) {
        let mut free = Vec::new();
        let mut taken = Vec::new();
        for start in &self.regions {
            let (mut at, mut before, mut was_free) = (offset(*start, FIRST_HEAD as isize), 0, false);
            loop {
                let place = PiecePosition(at);
                assert_eq!(place.head().before.get(), before);
                assert!(!(was_free && place.is_free()), "two free pieces are neighbours");
                (before, was_free) = (place.units(), place.is_free());
                if was_free { &mut free } else { &mut taken }.push(place.piece());
                match place.next() {
                    Some(next) => at = next.0,
                    None => break,
                }
            }
            let end = PiecePosition(at).offset() + before as usize * UNIT;
            assert!(end <= Region::BYTES && end + UNIT > Region::BYTES, "the region ends at {end}");
        }
        let mut listed = Vec::new();
        for (list, first) in self.arena.lists.iter().enumerate() {
            assert_eq!(first.is_some(), self.arena.filled[list / 64] >> (list % 64) & 1 == 1);
            let (mut at, mut previous) = (*first, None);
            while let Some(place) = at {
                assert!(place.links().previous.get() == previous && list_of(place.units()) == list);
                listed.push(place.piece());
                (previous, at) = (at, place.links().next.get());
            }
        }
        let mut handed_out: Vec<_> = self.taken.iter().map(|(start, _)| *start).collect();
        for pieces in [&mut free, &mut taken, &mut listed, &mut handed_out] {
            pieces.sort();
        }
        assert_eq!(free, listed);
        let units = |pieces: &[NonNull<u8>]| {
            pieces.iter().map(|start| PiecePosition::of_piece(*start).units() as usize).sum()
        };
        assert_eq!(self.arena.taken, units(&taken));
        let idle: usize = free.iter().map(|start| PiecePosition::of_piece(*start).idle_units()).sum();
        assert_eq!(self.arena.idle, idle);
        assert!(idle <= self.arena.taken.max(MOST_IDLE), "{idle} idle beside {}", self.arena.taken);
        assert_eq!(taken, handed_out);
    }

    fn trim(&mut self) {
        let empty = self.arena.trim();
        self.regions.retain(|start| !empty.iter().any(|region| region.at(0) == *start));
    }
}

#[test]
fn each_size_finds_its_list_and_each_list_is_long_enough() {
    let mut before = 0;
    for units in 1..=REGION_UNITS {
        let list = list_of(units);
        assert!(list == before || list == before + 1, "{units}");
        before = list;
    }
    assert_eq!(before, LISTS - 1);
    let largest = (MOST_ROOM + HEAD_BYTES).div_ceil(UNIT) as u32;
    let least = |list| (1..=REGION_UNITS).find(|&units| list_of(units) == list).unwrap();
    for units in (1..=200).chain((200..=largest).step_by(37)).chain([largest]) {
        assert!(least(list_for(units)) >= units, "{units}");
    }
}

#[test]
fn pieces_are_cut_and_joined_without_gap_or_overlap() {
    let mut rng = Rng::new(7);
    let mut checked = Checked::new();
    let steps = if cfg!(miri) { 150 } else { 4000 };
    for step in 0..steps {
        // The number of pieces grows to 400 and shrinks again.
        let is_filling = (step / (steps / 8)) % 2 == 0;
        if !checked.taken.is_empty() && rng.below(10) < if is_filling { 2 } else { 8 } {
            let at = rng.below(checked.taken.len() as u64) as usize;
            checked.give(at);
        } else {
            let most = [200, 5000, 40_000, MOST_ROOM as u64][rng.below(4) as usize];
            checked.take(1 + rng.below(most) as usize);
        }
        if step % 16 == 0 {
            checked.check();
        }
        if step % 500 == 499 {
            checked.trim();
            checked.check();
        }
    }
    while !checked.taken.is_empty() {
        checked.give(0);
    }
    checked.check();
    assert_eq!(checked.regions.len(), 1, "one whole region stays");
    checked.trim();
    assert!(checked.regions.is_empty());
}

#[test]
fn pieces_are_initialized_and_survive_their_neighbours() {
    let mut checked = Checked::new();
    for round in 0..3_u8 {
        for i in 0..40 {
            let start = checked.take(1000 + 500 * i);
            // SAFETY: the piece has this many bytes, all initialized.
            let bytes = unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), 1000 + 500 * i) };
            let sum: u64 = bytes.iter().map(|&byte| u64::from(byte)).sum();
            assert!(round > 0 || sum == 0, "fresh memory is zero");
            bytes.fill(round + i as u8);
        }
        for i in (0..40_usize).rev().step_by(2) {
            checked.give(i);
        }
        checked.trim();
        for &(start, room) in &checked.taken {
            // SAFETY: it is still allocated, and all of it is initialized.
            let bytes = unsafe { std::slice::from_raw_parts(start.as_ptr(), room) };
            assert!(
                bytes[..1000].iter().all(|&byte| byte == bytes[0]),
                "a neighbour or trimming wrote to the piece"
            );
        }
        while !checked.taken.is_empty() {
            checked.give(0);
        }
        checked.check();
    }
    checked.trim();
    assert!(checked.regions.is_empty());
}

#[test]
fn a_size_that_comes_back_finds_its_place_again() {
    let mut checked = Checked::new();
    let places: Vec<_> = (0..300).map(|i| checked.take(4000 + i % 5 * 64)).collect();
    let regions = checked.regions.len();
    for _ in 0..20 {
        for i in 0..300 {
            checked.give(0);
            checked.take(4000 + (i * 7) % 5 * 64);
        }
    }
    assert_eq!(checked.regions.len(), regions, "the same sizes need no new region");
    assert_eq!(checked.taken.len(), places.len());
    while !checked.taken.is_empty() {
        checked.give(0);
    }
    checked.trim();
}

#[test]
#[cfg(all(target_os = "linux", not(miri)))]
fn memory_that_is_idle_for_long_is_given_back() {
    let mut checked = Checked::new();
    while checked.regions.len() < 8 {
        checked.take(10_000);
    }
    checked.check();
    // Every second piece, so that no region becomes unused.
    for at in (0..checked.taken.len()).rev().step_by(2) {
        checked.give(at);
    }
    while checked.taken.len() > 8 {
        checked.give(0);
        checked.check();
    }
    while !checked.taken.is_empty() {
        checked.give(0);
    }
    checked.trim();
    assert!(checked.regions.is_empty());
}

#[test]
#[cfg(all(target_os = "linux", not(miri)))]
fn trimming_gives_pages_back() {
    let mut checked = Checked::new();
    while checked.regions.len() < 2 {
        let start = checked.take(100_000);
        // SAFETY: the piece has this many bytes.
        unsafe { start.write_bytes(9, 100_000) };
    }
    let resident = |checked: &Checked| -> usize {
        let pages = |start: &NonNull<u8>| {
            let mut pages = vec![0_u8; Region::BYTES / 4096];
            // SAFETY: the region is mapped, and the vector has a byte for each page of at least 4
            // KiB.
            let outcome = unsafe { libc::mincore(start.as_ptr().cast(), Region::BYTES, pages.as_mut_ptr()) };
            assert_eq!(outcome, 0);
            pages.iter().filter(|&&page| page & 1 == 1).count()
        };
        checked.regions.iter().map(pages).sum()
    };
    let before = resident(&checked);
    // All but the first and the last piece, so that no region becomes unused.
    while checked.taken.len() > 2 {
        checked.give(1);
    }
    checked.trim();
    checked.check();
    let after = resident(&checked);
    assert!(after * 4 < before, "{after} of {before} pages are still there");
    while !checked.taken.is_empty() {
        checked.give(0);
    }
    checked.trim();
}
