//! Names in memory: directories, their entries and, if tracked, the entries that survive a power
//! loss.
//!
//! Invariants
//!  1. In a tracked tree, `durable` with the journal's operations applied in order is `live`.
//!  2. A new directory is durable at once. All other changes of names can be lost.
//!  3. The operations that a journaling file system has committed are a prefix of the journal.

use super::node::FileNode;
use esker_base::sync::Arc;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Component, Path};

/// The object behind a name.
#[derive(Clone, Debug)]
pub(crate) enum MemNode {
    File(Arc<FileNode>),
    Dir(u64),
}

impl MemNode {
    fn id(&self) -> u64 {
        match self {
            MemNode::File(file) => file.id,
            MemNode::Dir(id) => *id,
        }
    }
}

pub(crate) type Names = BTreeMap<String, MemNode>;

#[derive(Clone, Debug, Default)]
struct Dir {
    live: Names,
    durable: Names,
}

/// A function that changes a directory's names.
type Change<'a> = &'a mut dyn FnMut(&mut Names);

/// A name and the id of its directory.
type Place = (u64, String);

/// An operation on names.
#[derive(Clone, Debug)]
enum NameOp {
    Set { place: Place, node: MemNode },
    Remove { place: Place, id: u64 },
    Move { from: Place, to: Place, node: MemNode },
}

impl NameOp {
    fn dirs(&self) -> (u64, u64) {
        match self {
            NameOp::Set { place, .. } | NameOp::Remove { place, .. } => (place.0, place.0),
            NameOp::Move { from, to, .. } => (from.0, to.0),
        }
    }

    /// Applies the operation. `names_of(dir, change)` must call `change` with the names of
    /// directory `dir`.
    fn apply(&self, names_of: &mut dyn FnMut(u64, Change<'_>)) {
        let mut remove = |place: &Place, id: u64| {
            names_of(place.0, &mut |names| {
                if names.get(&place.1).is_some_and(|there| there.id() == id) {
                    names.remove(&place.1);
                }
            });
        };
        match self {
            NameOp::Remove { place, id } => remove(place, *id),
            NameOp::Move { from, node, .. } => remove(from, node.id()),
            NameOp::Set { .. } => {}
        }
        if let NameOp::Set { place, node } | NameOp::Move { to: place, node, .. } = self {
            names_of(place.0, &mut |names| {
                names.insert(place.1.clone(), node.clone());
            });
        }
    }
}

#[derive(Clone, Debug)]
struct Pending {
    op: NameOp,
    /// Whether a journaling file system has the operation on the medium.
    committed: bool,
}

/// All names of a file system. The tree has no lock of its own.
#[derive(Debug)]
pub(crate) struct MemTree {
    tracked: bool,
    dirs: HashMap<u64, Dir>,
    next_id: u64,
    journal: Vec<Pending>,
    /// Ids of the files that are locked.
    pub(crate) locks: HashSet<u64>,
}

/// The id of "/".
pub(crate) const ROOT: u64 = 0;

type IoResult<T> = Result<T, i32>;

impl MemTree {
    pub(crate) fn new(tracked: bool) -> MemTree {
        MemTree {
            tracked,
            dirs: HashMap::from([(ROOT, Dir::default())]),
            next_id: ROOT + 1,
            journal: Vec::new(),
            locks: HashSet::new(),
        }
    }

    fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// The object that `path` names, or `None`.
    pub(crate) fn lookup(&self, path: &Path) -> Option<MemNode> {
        let mut at = MemNode::Dir(ROOT);
        for name in names(path) {
            let MemNode::Dir(dir) = at else { return None };
            at = self.dirs[&dir].live.get(&name)?.clone();
        }
        Some(at)
    }

    pub(crate) fn file(&self, path: &Path) -> IoResult<Arc<FileNode>> {
        match self.lookup(path) {
            Some(MemNode::File(file)) => Ok(file),
            Some(MemNode::Dir(_)) => Err(libc::EISDIR),
            None => Err(libc::ENOENT),
        }
    }

    pub(crate) fn dir(&self, path: &Path) -> IoResult<u64> {
        match self.lookup(path) {
            Some(MemNode::Dir(id)) => Ok(id),
            Some(MemNode::File(_)) => Err(libc::ENOTDIR),
            None => Err(libc::ENOENT),
        }
    }

    /// The directory of the last name of `path`, and that name.
    fn place(&self, path: &Path) -> IoResult<Place> {
        let mut names = names(path);
        let name = names.pop().ok_or(libc::EISDIR)?;
        let mut dir = ROOT;
        for parent in names {
            match self.dirs[&dir].live.get(&parent) {
                Some(MemNode::Dir(id)) => dir = *id,
                Some(MemNode::File(_)) => return Err(libc::ENOTDIR),
                None => return Err(libc::ENOENT),
            }
        }
        Ok((dir, name))
    }

    fn there(&self, place: &Place) -> Option<&MemNode> {
        self.dirs[&place.0].live.get(&place.1)
    }

    fn apply(&mut self, op: NameOp) {
        op.apply(&mut |dir, change| change(&mut self.dirs.get_mut(&dir).expect("directories stay").live));
        if self.tracked {
            self.journal.push(Pending { op, committed: false });
        }
    }

    /// The file of this name, made if it is missing.
    pub(crate) fn create(&mut self, path: &Path) -> IoResult<Arc<FileNode>> {
        let place = self.place(path)?;
        match self.there(&place) {
            Some(MemNode::File(file)) => Ok(Arc::clone(file)),
            Some(MemNode::Dir(_)) => Err(libc::EISDIR),
            None => {
                let file = Arc::new(FileNode::new(self.new_id(), self.tracked));
                self.apply(NameOp::Set { place, node: MemNode::File(Arc::clone(&file)) });
                Ok(file)
            }
        }
    }

    pub(crate) fn link(&mut self, existing: &Path, new: &Path) -> IoResult<()> {
        let file = self.file(existing)?;
        let place = self.place(new)?;
        if self.there(&place).is_some() {
            return Err(libc::EEXIST);
        }
        self.apply(NameOp::Set { place, node: MemNode::File(file) });
        Ok(())
    }

    pub(crate) fn remove_file(&mut self, path: &Path) -> IoResult<()> {
        let file = self.file(path)?;
        let place = self.place(path)?;
        self.apply(NameOp::Remove { place, id: file.id });
        Ok(())
    }

    pub(crate) fn remove_dir(&mut self, path: &Path) -> IoResult<()> {
        let dir = self.dir(path)?;
        let place = self.place(path)?;
        if !self.dirs[&dir].live.is_empty() {
            return Err(libc::ENOTEMPTY);
        }
        self.apply(NameOp::Remove { place, id: dir });
        Ok(())
    }

    pub(crate) fn create_dirs(&mut self, path: &Path) -> IoResult<()> {
        let mut dir = ROOT;
        for name in names(path) {
            dir = match self.dirs[&dir].live.get(&name) {
                Some(MemNode::Dir(id)) => *id,
                Some(MemNode::File(_)) => return Err(libc::EEXIST),
                None => {
                    let id = self.new_id();
                    self.dirs.insert(id, Dir::default());
                    let parent = self.dirs.get_mut(&dir).expect("directories stay");
                    parent.live.insert(name.clone(), MemNode::Dir(id));
                    parent.durable.insert(name, MemNode::Dir(id));
                    id
                }
            };
        }
        Ok(())
    }

    pub(crate) fn children(&self, path: &Path) -> IoResult<Vec<String>> {
        Ok(self.dirs[&self.dir(path)?].live.keys().cloned().collect())
    }

    pub(crate) fn rename(&mut self, from: &Path, to: &Path) -> IoResult<()> {
        let node = self.lookup(from).ok_or(libc::ENOENT)?;
        let (from_place, to_place) = (self.place(from)?, self.place(to)?);
        match (&node, self.there(&to_place)) {
            (_, Some(there)) if there.id() == node.id() => return Ok(()),
            (MemNode::File(_), Some(MemNode::Dir(_))) => return Err(libc::EISDIR),
            (MemNode::Dir(_), Some(MemNode::File(_))) => return Err(libc::ENOTDIR),
            (MemNode::Dir(_), Some(MemNode::Dir(id))) if !self.dirs[id].live.is_empty() => {
                return Err(libc::ENOTEMPTY);
            }
            (MemNode::Dir(_), _) if names(to).starts_with(&names(from)) => return Err(libc::EINVAL),
            _ => {}
        }
        self.apply(NameOp::Move { from: from_place, to: to_place, node });
        Ok(())
    }

    /// Syncs the directory: its names, and those of the directories connected to it, become
    /// durable. A journaling file system makes all names durable.
    pub(crate) fn sync_dir(&mut self, dir: u64) {
        let group = self.connected(dir);
        let mut rest = Vec::new();
        for pending in std::mem::take(&mut self.journal) {
            if group.contains(&pending.op.dirs().0) {
                let dirs = &mut self.dirs;
                pending.op.apply(&mut |dir, change| {
                    change(&mut dirs.get_mut(&dir).expect("directories stay").durable);
                });
            } else {
                rest.push(pending);
            }
        }
        self.journal = rest;
        self.commit_journal();
    }

    /// Writes the journal of a journaling file system.
    pub(crate) fn commit_journal(&mut self) {
        for pending in self.journal.iter_mut().rev().take_while(|p| !p.committed) {
            pending.committed = true;
        }
    }

    /// The directories connected to this one by pending moves. Operations in them keep their common
    /// order.
    fn connected(&self, dir: u64) -> HashSet<u64> {
        let mut group = HashSet::from([dir]);
        loop {
            let before = group.len();
            for pending in &self.journal {
                let (from, to) = pending.op.dirs();
                if group.contains(&from) || group.contains(&to) {
                    group.extend([from, to]);
                }
            }
            if group.len() == before {
                return group;
            }
        }
    }

    /// The names that a power loss leaves. `keep(n)` returns how many of `n` successive operations
    /// survive. With `journaled`, all operations form one sequence, and those before the last
    /// [`commit_journal`](Self::commit_journal) are safe. Otherwise each group of connected
    /// directories has its own sequence, and only a sync of one of these directories makes it safe.
    pub(crate) fn names_after_power_loss(
        &self,
        journaled: bool,
        keep: &mut dyn FnMut(usize) -> usize,
    ) -> HashMap<u64, Names> {
        let mut after: HashMap<u64, Names> =
            self.dirs.iter().map(|(id, d)| (*id, d.durable.clone())).collect();
        let mut apply = |op: &NameOp| {
            op.apply(&mut |dir, change| change(after.get_mut(&dir).expect("directories stay")));
        };
        if journaled {
            let safe = self.journal.iter().take_while(|p| p.committed).count();
            let kept = safe + keep(self.journal.len() - safe);
            self.journal[..kept].iter().for_each(|p| apply(&p.op));
            return after;
        }
        let mut seen = HashSet::new();
        for first in &self.journal {
            let dir = first.op.dirs().0;
            if seen.contains(&dir) {
                continue;
            }
            let group = self.connected(dir);
            let row: Vec<_> = self.journal.iter().filter(|p| group.contains(&p.op.dirs().0)).collect();
            row[..keep(row.len())].iter().for_each(|p| apply(&p.op));
            seen.extend(group);
        }
        after
    }

    /// A copy of all names, with the same durability. `copy` makes its files, each once. No file of
    /// the copy is locked.
    pub(crate) fn copied(&self, copy: &mut dyn FnMut(&FileNode) -> FileNode) -> MemTree {
        let mut files: HashMap<u64, Arc<FileNode>> = HashMap::new();
        let mut node = |node: &MemNode| match node {
            MemNode::File(file) => {
                MemNode::File(Arc::clone(files.entry(file.id).or_insert_with(|| Arc::new(copy(file)))))
            }
            MemNode::Dir(id) => MemNode::Dir(*id),
        };
        let mut names = |names: &Names| names.iter().map(|(name, n)| (name.clone(), node(n))).collect();
        let dirs = self.dirs.iter().map(|(id, dir)| {
            let (live, durable) = (names(&dir.live), names(&dir.durable));
            (*id, Dir { live, durable })
        });
        let dirs = dirs.collect();
        let journal = self.journal.iter().map(|pending| {
            let op = match &pending.op {
                NameOp::Set { place, node: n } => NameOp::Set { place: place.clone(), node: node(n) },
                NameOp::Remove { place, id } => NameOp::Remove { place: place.clone(), id: *id },
                NameOp::Move { from, to, node: n } => {
                    NameOp::Move { from: from.clone(), to: to.clone(), node: node(n) }
                }
            };
            Pending { op, committed: pending.committed }
        });
        let journal = journal.collect();
        MemTree { tracked: self.tracked, dirs, next_id: self.next_id, journal, locks: HashSet::new() }
    }

    /// A tracked tree in which all these names are durable. `copy` makes the new files; a file with
    /// two names is copied once. The same names give the same order of copies.
    pub(crate) fn from_names(
        from: &HashMap<u64, Names>,
        next_id: u64,
        copy: &mut dyn FnMut(&FileNode) -> FileNode,
    ) -> MemTree {
        let mut tree = MemTree::new(true);
        tree.next_id = next_id;
        let mut files: HashMap<u64, Arc<FileNode>> = HashMap::new();
        let mut todo = vec![ROOT];
        while let Some(dir) = todo.pop() {
            let mut names = Names::new();
            for (name, node) in &from[&dir] {
                let node = match node {
                    MemNode::File(file) => MemNode::File(Arc::clone(
                        files.entry(file.id).or_insert_with(|| Arc::new(copy(file))),
                    )),
                    MemNode::Dir(id) => {
                        todo.push(*id);
                        MemNode::Dir(*id)
                    }
                };
                names.insert(name.clone(), node);
            }
            tree.dirs.insert(dir, Dir { live: names.clone(), durable: names });
        }
        tree
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.next_id
    }
}

/// The names along a path. Relative paths start at the root too.
pub(crate) fn names(path: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name.to_string_lossy().into_owned()),
            Component::ParentDir => {
                names.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    names
}
