//! What an upper must show: the files as they are, and everything that a power cut may leave of them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flow::queue::sim::Random;
use innokit_mount::upper::{Attrs, Base, BaseFile, Entry, Head, Kind, ROOT, Upper};

/// Bytes of a file at most: some blocks, so that few operations meet often.
pub const SIZE_MAX: u64 = 5 * 4096 + 777;

/// A base in memory.
#[derive(Debug, Clone)]
pub struct MemoryBase(pub BTreeMap<PathBuf, Vec<u8>>);

#[derive(Debug)]
struct MemoryFile(Vec<u8>);

impl Base for MemoryBase {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn BaseFile>> {
        Ok(Arc::new(MemoryFile(self.0[path].clone())))
    }
}

impl BaseFile for MemoryFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let from = (offset as usize).min(self.0.len());
        let count = bytes.len().min(self.0.len() - from);
        bytes[..count].copy_from_slice(&self.0[from..from + count]);
        Ok(count)
    }
}

impl MemoryBase {
    /// Two files, one of whole blocks.
    pub fn new() -> Self {
        let bytes = |len: usize, salt: usize| (0..len).map(|at| ((at / 7 + salt) % 250 + 1) as u8).collect();
        Self([("one".into(), bytes(3 * 4096, 0)), ("two".into(), bytes(2 * 4096 + 100, 9))].into())
    }

    pub fn entries(&self) -> Vec<Entry> {
        let entry = |(path, bytes): (&PathBuf, &Vec<u8>)| Entry {
            path: path.clone(),
            kind: Kind::File,
            len: bytes.len() as u64,
            attrs: Attrs::default(),
        };
        self.0.iter().map(entry).collect()
    }
}

pub fn head(boot: &str) -> Head {
    Head { identity: [3; 32], lsn: 7, boot: boot.to_owned(), next: 0 }
}

/// Number of a file in the model, for as long as it lives.
type Serial = u64;

/// The files, and what they were since the last sync.
#[derive(Debug, Clone, Default)]
pub struct Model {
    names: BTreeMap<String, Serial>,
    /// Names at each step since one that is durable.
    names_since: Vec<BTreeMap<String, Serial>>,
    bytes: BTreeMap<Serial, Vec<u8>>,
    /// The bytes at each step since one that is durable.
    since: BTreeMap<Serial, Vec<Vec<u8>>>,
    next: Serial,
}

/// One operation on an upper.
#[derive(Debug, Clone)]
pub enum Step {
    Write(String, u64, Vec<u8>),
    Resize(String, u64),
    Zero(String, u64, u64),
    Create(String),
    Remove(String),
    Rename(String, String),
    Sync(String),
    SyncNames,
    Hydrate,
}

impl Model {
    /// The files as the upper shows them: all of it is durable.
    pub fn of(upper: &Upper) -> Self {
        let mut model = Self::default();
        for (name, bytes) in shown(upper) {
            let serial = model.serial();
            model.names.insert(name, serial);
            model.bytes.insert(serial, bytes.clone());
            model.since.insert(serial, vec![bytes]);
        }
        model.names_since = vec![model.names.clone()];
        model
    }

    fn serial(&mut self) -> Serial {
        self.next += 1;
        self.next
    }

    /// An operation that makes sense.
    pub fn choose(&self, random: &mut Random) -> Step {
        let count = self.names.len() as u64;
        let some = |random: &mut Random| self.names.keys().nth(random.below(count) as usize).cloned();
        let free = |random: &mut Random| format!("file {}", random.below(6));
        let Some(name) = some(random) else { return Step::Create(free(random)) };
        match random.below(20) {
            0..7 => {
                let (from, fill) = (random.below(SIZE_MAX - 1), random.below(255) as u8 + 1);
                let (from, len) = match random.below(3) {
                    0 => (from / 4096 * 4096, 4096 * (1 + random.below(2))),
                    1 => (from, 1 + random.below(SIZE_MAX - from)),
                    _ => (from / 512 * 512, 512),
                };
                Step::Write(name, from, vec![fill; len as usize])
            }
            7..9 => Step::Resize(name, random.below(SIZE_MAX)),
            9 => Step::Zero(name, random.below(SIZE_MAX), random.below(2 * 4096) + 1),
            10 => Step::Create(free(random)),
            11 => Step::Remove(name),
            12..14 => Step::Rename(name, free(random)),
            14..18 => Step::Sync(name),
            18 => Step::SyncNames,
            _ => Step::Hydrate,
        }
    }

    /// Carries out the operation here. Of one that is not allowed nothing changes.
    pub fn step(&mut self, step: &Step) {
        match step {
            Step::Write(name, from, bytes) => self.edit(name, |file| {
                let end = *from as usize + bytes.len();
                file.resize(file.len().max(end), 0);
                file[*from as usize..end].copy_from_slice(bytes);
            }),
            Step::Resize(name, len) => self.edit(name, |file| file.resize(*len as usize, 0)),
            Step::Zero(name, from, len) => self.edit(name, |file| {
                let end = ((from + len) as usize).min(file.len());
                file.get_mut(*from as usize..end).unwrap_or_default().fill(0);
            }),
            Step::Create(name) if !self.names.contains_key(name) => {
                let serial = self.serial();
                self.bytes.insert(serial, Vec::new());
                self.since.insert(serial, vec![Vec::new()]);
                self.names.insert(name.clone(), serial);
            }
            Step::Remove(name) => drop(self.names.remove(name)),
            Step::Rename(from, to) => {
                if let Some(serial) = self.names.remove(from) {
                    self.names.insert(to.clone(), serial);
                }
            }
            Step::Create(_) | Step::Sync(_) | Step::SyncNames | Step::Hydrate => {}
        }
        self.names_since.push(self.names.clone());
    }

    fn edit(&mut self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let Some(serial) = self.names.get(name) else { return };
        let bytes = self.bytes.get_mut(serial).expect("a file");
        change(bytes);
        self.since.get_mut(serial).expect("a file").push(bytes.clone());
    }

    /// What is durable once the operation has succeeded. Every sync makes all names durable.
    pub fn succeeded(&mut self, step: &Step) {
        let is_sync = matches!(step, Step::Sync(_) | Step::SyncNames);
        if is_sync {
            self.names_since = vec![self.names.clone()];
        }
        if let Step::Sync(name) = step
            && let Some(serial) = self.names.get(name)
        {
            self.since.insert(*serial, vec![self.bytes[serial].clone()]);
        }
    }

    /// Asserts that the upper shows the files as they are.
    pub fn assert_is(&self, upper: &Upper, when: &str) {
        let expected: BTreeMap<_, _> =
            self.names.iter().map(|(name, it)| (name.clone(), self.bytes[it].clone())).collect();
        assert_same(&shown(upper), &expected, when);
    }

    /// Asserts that what a power cut has left is something that it may leave.
    pub fn assert_may_be(&self, upper: &Upper, when: &str) {
        let found = shown(upper);
        let fits = |names: &BTreeMap<String, Serial>| {
            names.len() == found.len()
                && names.iter().all(|(name, it)| found.get(name).is_some_and(|bytes| may_be(bytes, &self.since[it])))
        };
        if self.names_since.iter().any(fits) {
            return;
        }
        let names: Vec<_> = found.iter().map(|(name, bytes)| (name, bytes.len())).collect();
        for (name, serial) in &self.names {
            let (Some(bytes), versions) = (found.get(name), &self.since[serial]) else { continue };
            let is_none = |(at, byte): &(usize, &u8)| versions.iter().all(|version| version.get(*at) != Some(*byte));
            let lens: Vec<_> = versions.iter().map(Vec::len).collect();
            if let Some((at, byte)) = bytes.iter().enumerate().find(is_none) {
                let were: Vec<_> = versions.iter().map(|version| version.get(at)).collect();
                panic!("{when}: byte {at} of {name} is {byte}, and was {were:?}; lengths were {lens:?}");
            }
        }
        panic!("{when}: found {names:?}, which is none of {:?}", self.names_since);
    }
}

/// Whether each byte, and the length, are those of some version.
fn may_be(bytes: &[u8], versions: &[Vec<u8>]) -> bool {
    let is_some = |(at, byte): (usize, &u8)| versions.iter().any(|version| version.get(at) == Some(byte));
    versions.iter().any(|version| version.len() == bytes.len()) && bytes.iter().enumerate().all(is_some)
}

fn assert_same(found: &BTreeMap<String, Vec<u8>>, expected: &BTreeMap<String, Vec<u8>>, when: &str) {
    let names =
        |files: &BTreeMap<String, Vec<u8>>| files.iter().map(|(name, it)| (name.clone(), it.len())).collect::<Vec<_>>();
    assert_eq!(names(found), names(expected), "{when}: names and lengths");
    for (name, bytes) in found {
        let differ = bytes.iter().zip(&expected[name]).position(|(one, other)| one != other);
        assert_eq!(differ, None, "{when}: the first byte of {name} that differs");
    }
}

/// All files of an upper.
fn shown(upper: &Upper) -> BTreeMap<String, Vec<u8>> {
    let read = |id| {
        let mut bytes = vec![0xAA; upper.stat(id).expect("there").size as usize + 10];
        let count = upper.read(id, &mut bytes, 0).unwrap_or_else(|error| panic!("reading: {error}"));
        bytes.truncate(count);
        bytes
    };
    let listed = upper.list(ROOT).expect("listed").into_iter();
    listed.map(|(name, id, _)| (name.to_string_lossy().into_owned(), read(id))).collect()
}

/// Carries out an operation on the upper. What is not allowed is no failure.
pub fn carry_out(upper: &Upper, step: &Step) -> io::Result<()> {
    let id = |name: &str| upper.lookup(ROOT, OsStr::new(name));
    let done = match step {
        Step::Write(name, from, bytes) => id(name).map_or(Ok(()), |id| upper.write(id, bytes, *from)),
        Step::Resize(name, len) => id(name).map_or(Ok(()), |id| upper.resize(id, *len)),
        Step::Zero(name, from, len) => id(name).map_or(Ok(()), |id| upper.zero(id, *from, *len)),
        Step::Create(name) => upper.create(ROOT, OsStr::new(name), Kind::File, Attrs::default()).map(drop),
        Step::Remove(name) => upper.remove(ROOT, OsStr::new(name), false),
        Step::Rename(from, to) => upper.rename((ROOT, OsStr::new(from)), (ROOT, OsStr::new(to)), false),
        Step::Sync(name) => id(name).map_or(Ok(()), |id| upper.sync(id)),
        Step::SyncNames => upper.sync_names(),
        Step::Hydrate => upper.hydrate(&mut |_| true).map(drop),
    };
    match done {
        Err(error) if matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound) => Ok(()),
        other => other,
    }
}
