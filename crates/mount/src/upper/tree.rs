//! Names: which file or directory is where.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};

use super::content::{Content, State};
use super::record::{Attrs, Kind, Record};

/// The number of the top directory.
pub const ROOT: u64 = 1;

/// A file or a directory.
#[derive(Debug)]
pub struct Node {
    /// The directory that it is in.
    pub parent: u64,
    /// Its name there.
    pub name: OsString,
    /// What it is.
    pub kind: Kind,
    /// Its owner, permissions and time. A file's time is its content's.
    pub attrs: Attrs,
    /// A file's bytes.
    pub content: Option<Arc<Content>>,
    /// How many have it open.
    pub users: u32,
    /// It has no name any more.
    pub is_gone: bool,
}

/// All names.
#[derive(Debug, Default)]
pub struct Tree {
    nodes: HashMap<u64, Node>,
    children: HashMap<u64, BTreeMap<OsString, u64>>,
    /// The lowest number that no file has had.
    pub next: u64,
}

impl Tree {
    /// An empty top directory.
    pub fn new(attrs: Attrs) -> Self {
        let mut tree = Self { nodes: HashMap::new(), children: HashMap::new(), next: ROOT + 1 };
        let node = Node {
            parent: ROOT,
            name: OsString::new(),
            kind: Kind::Directory,
            attrs,
            content: None,
            users: 0,
            is_gone: false,
        };
        tree.nodes.insert(ROOT, node);
        tree.children.insert(ROOT, BTreeMap::new());
        tree
    }

    /// A file or directory, by its number.
    pub fn get(&self, id: u64) -> Option<&Node> {
        self.nodes.get(&id)
    }

    /// The same, to change it.
    pub fn get_mut(&mut self, id: u64) -> Option<&mut Node> {
        self.nodes.get_mut(&id)
    }

    /// The number behind a name.
    pub fn child(&self, parent: u64, name: &OsStr) -> Option<u64> {
        self.children.get(&parent)?.get(name).copied()
    }

    /// What is in a directory. `None` if it is none.
    pub fn children(&self, parent: u64) -> Option<&BTreeMap<OsString, u64>> {
        self.children.get(&parent)
    }

    /// All that have names, each directory before what is in it.
    pub fn walk(&self) -> Vec<u64> {
        let (mut all, mut at) = (vec![ROOT], 0);
        while let Some(id) = all.get(at) {
            all.extend(self.children.get(id).into_iter().flat_map(BTreeMap::values));
            at += 1;
        }
        all
    }

    /// Adds a file or a directory. What had its name has none any more.
    pub fn put(&mut self, id: u64, node: Node) {
        self.displace(node.parent, &node.name, id);
        self.children.entry(node.parent).or_default().insert(node.name.clone(), id);
        if node.kind == Kind::Directory {
            self.children.entry(id).or_default();
        }
        self.nodes.insert(id, node);
        self.next = self.next.max(id + 1);
    }

    /// Takes a file's or a directory's name away. Its number stays valid for those who have it open.
    pub fn remove(&mut self, id: u64) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.is_gone = true;
        if let Some(content) = &node.content {
            content.remove();
        }
        let (parent, name) = (node.parent, node.name.clone());
        if let Some(names) = self.children.get_mut(&parent).filter(|names| names.get(&name) == Some(&id)) {
            names.remove(&name);
        }
        self.children.remove(&id);
    }

    /// Gives a file or a directory another name.
    pub fn rename(&mut self, id: u64, parent: u64, name: &OsStr) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let (old_parent, old_name) = (std::mem::replace(&mut node.parent, parent), node.name.clone());
        node.name = name.to_owned();
        if let Some(names) = self.children.get_mut(&old_parent) {
            names.remove(&old_name);
        }
        self.displace(parent, name, id);
        self.children.entry(parent).or_default().insert(name.to_owned(), id);
    }

    /// Forgets what has no name.
    pub fn forget(&mut self, id: u64) {
        self.nodes.remove(&id);
    }

    fn displace(&mut self, parent: u64, name: &OsStr, by: u64) {
        if let Some(before) = self.child(parent, name).filter(|before| *before != by) {
            self.remove(before);
        }
    }

    /// Carries out a record of the journal. What is about a file that is gone says nothing. `keeps`: what was not synced is there.
    pub fn replay(&mut self, record: Record, keeps: bool) {
        match record {
            Record::Head(head) => self.next = self.next.max(head.next),
            Record::Node { id, parent, name, kind, attrs, base, size } => {
                if id == ROOT {
                    self.nodes.entry(ROOT).and_modify(|root| root.attrs = attrs);
                    return;
                }
                let (path, base_len) = base.map_or((None, 0), |(path, len)| (Some(path), len));
                let state = State::new(size, base_len, attrs.modified);
                let content = (kind == Kind::File).then(|| Arc::new(Content::new(id, path, state)));
                self.put(id, Node { parent, name, kind, attrs, content, users: 0, is_gone: false });
            }
            Record::Blocks { id, size, modified, ranges, is_durable } => {
                if let Some(content) = self.content(id).filter(|_| is_durable || keeps) {
                    content.state().learn((size, modified), &ranges, is_durable);
                }
            }
            Record::Size { id, size, base_len, modified } => {
                if let Some(content) = self.content(id) {
                    let mut state = content.state();
                    state.cut(size, base_len);
                    state.modified = modified;
                }
            }
            Record::Attrs { id, attrs } => {
                if let Some(node) = self.nodes.get_mut(&id) {
                    node.attrs = attrs;
                    node.content.iter().for_each(|content| content.state().modified = attrs.modified);
                }
            }
            Record::Rename { id, parent, name } => self.rename(id, parent, &name),
            Record::Remove { id } => self.remove(id),
        }
    }

    fn content(&self, id: u64) -> Option<Arc<Content>> {
        self.nodes.get(&id).and_then(|node| node.content.clone())
    }

    /// The records that make this tree. Call it when nothing is left to be synced.
    pub fn records(&self) -> Vec<Record> {
        let mut records = Vec::new();
        for id in self.walk() {
            let Some(node) = self.nodes.get(&id) else { continue };
            let (name, mut attrs) = (node.name.clone(), node.attrs);
            let (mut base, mut size, mut ranges) = (None, 0, Vec::new());
            if let Some(content) = &node.content {
                let state = content.state();
                attrs.modified = state.modified;
                base = content.base().map(|path| (path.clone(), state.base_len));
                (size, ranges) = (state.size, state.blocks.ranges());
            }
            records.push(Record::Node { id, parent: node.parent, name, kind: node.kind, attrs, base, size });
            for some in ranges.chunks(super::record::RANGES_MAX) {
                let (ranges, modified) = (some.to_vec(), attrs.modified);
                records.push(Record::Blocks { id, size, modified, ranges, is_durable: true });
            }
        }
        records
    }

    /// Those without a name, with whether somebody has them open.
    pub fn gone(&self) -> Vec<(u64, bool)> {
        self.nodes.iter().filter(|(_, node)| node.is_gone).map(|(id, node)| (*id, node.users > 0)).collect()
    }
}
