//! A disk of an upper on flow's simulated device, whose names are lost in a power cut as bytes are.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use flow::FileId;
use flow::queue::sim::{Random, SimDevice, SimOptions};
use innokit_mount::upper::{Disk, DiskFile};

type Names = BTreeMap<String, FileId>;

#[derive(Debug, Clone)]
enum Change {
    Create(String, FileId),
    Rename(String, String),
    Remove(String),
}

fn apply(names: &mut Names, change: &Change) {
    match change {
        Change::Create(name, file) => drop(names.insert(name.clone(), *file)),
        Change::Remove(name) => drop(names.remove(name)),
        Change::Rename(from, to) => {
            if let Some(file) = names.remove(from) {
                names.insert(to.clone(), file);
            }
        }
    }
}

#[derive(Debug, Default)]
struct Directory {
    now: Names,
    durable: Names,
    since: Vec<Change>,
}

/// The device and its names.
#[derive(Debug)]
pub struct SimDisk {
    pub device: SimDevice,
    directory: Mutex<Directory>,
    /// Stands for the directory's own blocks: names are synced by a sync of it, which may be the moment of a power cut.
    itself: FileId,
}

fn off() -> io::Error {
    io::Error::other("the power is off")
}

impl SimDisk {
    pub fn new(seed: u64) -> Self {
        let device = SimDevice::new(SimOptions { seed, ..SimOptions::default() });
        let itself = device.add_file(vec![0; 512]);
        Self { device, directory: Mutex::default(), itself }
    }

    /// The disk after a power cut: some of what was not synced is there, of bytes and of names.
    pub fn after_power_cut(&self, seed: u64) -> Self {
        let device = self.device.reopen(seed);
        let (mut random, directory) = (Random::new(seed), self.directory.lock().unwrap());
        // A journaling file system keeps the order of names; how far it came is open.
        let kept = random.below(directory.since.len() as u64 + 1) as usize;
        let mut names = directory.durable.clone();
        directory.since[..kept].iter().for_each(|change| apply(&mut names, change));
        let directory = Directory { now: names.clone(), durable: names, since: Vec::new() };
        Self { device, directory: Mutex::new(directory), itself: self.itself }
    }

    fn change(&self, change: Change) -> io::Result<()> {
        if self.device.has_crashed() {
            return Err(off());
        }
        let mut directory = self.directory.lock().unwrap();
        apply(&mut directory.now, &change);
        directory.since.push(change);
        Ok(())
    }

    fn file(&self, id: FileId) -> Arc<dyn DiskFile> {
        Arc::new(SimFile { device: self.device.clone(), id })
    }
}

impl Disk for SimDisk {
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let found = self.directory.lock().unwrap().now.get(name).copied();
        found.map(|id| self.file(id)).ok_or(io::ErrorKind::NotFound.into())
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let id = self.device.add_file(Vec::new());
        self.change(Change::Create(name.to_owned(), id))?;
        Ok(self.file(id))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.change(Change::Rename(from.to_owned(), to.to_owned()))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        if self.directory.lock().unwrap().now.contains_key(name) {
            return self.change(Change::Remove(name.to_owned()));
        }
        Err(io::ErrorKind::NotFound.into())
    }

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.directory.lock().unwrap().now.keys().cloned().collect())
    }

    fn sync_names(&self) -> io::Result<()> {
        self.device.write_at(self.itself, 0, &[1])?;
        self.device.sync(self.itself)?;
        let mut directory = self.directory.lock().unwrap();
        directory.durable = directory.now.clone();
        directory.since.clear();
        Ok(())
    }
}

#[derive(Debug)]
struct SimFile {
    device: SimDevice,
    id: FileId,
}

impl DiskFile for SimFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < bytes.len() {
            match self.device.read_at(self.id, offset + done as u64, &mut bytes[done..])? {
                0 => break,
                count => done += count,
            }
        }
        Ok(done)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            done += self.device.write_at(self.id, offset + done as u64, &bytes[done..])?;
        }
        Ok(())
    }

    fn zero(&self, offset: u64, len: u64) -> io::Result<()> {
        let end = (offset + len).min(self.size()?);
        if offset < end { self.write_at(&vec![0; (end - offset) as usize], offset) } else { Ok(()) }
    }

    fn sync(&self) -> io::Result<()> {
        self.device.sync(self.id)
    }

    fn size(&self) -> io::Result<u64> {
        self.device.len(self.id)
    }
}
