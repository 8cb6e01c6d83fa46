//! The directory to unpack into.
//!
//! It starts empty, and only new directories and files are created in it, never links, so no name can lead elsewhere. A marker shows that
//! its content is incomplete.

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};

use flow::did_bytes;
use flow::durable::{sync_directory, sync_file_system_of};

use super::error::{Result, UnpackError, failed, refused};
use super::holes::punch;
use super::source::{Decoded, of_bytes, pump};
use crate::door::{self, SetDir, SetName, is_own};
use datadir::content::{Content, HEAD, Packing, packed_name, recognise};
use datadir::crc32c::{Crc32c, FileSums};
use datadir::files::AskPath;
use datadir::reading::read_up_to;

/// Marks a directory whose content is incomplete.
pub(crate) const MARKER: &str = "innokit-unpack.unfinished";
/// For the DBA who finds the marker.
const MARKER_TEXT: &str =
    "innokit unpack was interrupted: files are missing here. Remove this directory and unpack again.\n";
/// The files contain rows, so other users get no access.
const FILE_MODE: u32 = 0o640;
const DIRECTORY_MODE: u32 = 0o750;
/// Bytes that an entry takes on disk without any content, roughly: a million empty files of a small archive fill a disk too.
const OF_AN_ENTRY: u64 = 4096;

/// A directory being filled.
#[derive(Debug)]
pub(super) struct UnpackDir {
    root: PathBuf,
    /// All is made, opened, renamed and removed beneath this handle: who may write to the directory can put a link there while we work.
    dir: SetDir,
    /// Whether the directory existed before.
    is_given: bool,
    /// Files created, each with the index of its archive.
    files: HashMap<PathBuf, usize>,
    directories: BTreeSet<PathBuf>,
    /// Files whose names say that they are packed in an unsupported way.
    pub packed: BTreeSet<PathBuf>,
    /// Complete files, as they were written.
    pub sums: FileSums,
    /// How many more bytes may be written, and how many it were in all.
    left: Cell<u64>,
    limit: Limit,
}

/// How much may be unpacked.
#[derive(Debug, Clone, Copy)]
struct Limit {
    bytes: u64,
    is_given: bool,
}

impl Limit {
    /// Without a given limit, the free space less a twentieth: others write to the disk too, and servers stop when it is full.
    fn of(root: &Path, given: Option<u64>) -> std::io::Result<Self> {
        let bytes = match given {
            Some(bytes) => bytes,
            None => {
                let space = rustix::fs::statvfs(root)?;
                let free = space.f_bavail.saturating_mul(space.f_frsize);
                free - free / 20
            }
        };
        Ok(Self { bytes, is_given: given.is_some() })
    }
}

impl UnpackDir {
    /// Takes an empty directory, or creates one.
    pub fn make(root: &Path, max: Option<u64>) -> Result<Self> {
        let is_given = root.is_folder_there();
        let is_free = match is_given {
            true => fs::read_dir(root).map_err(failed(root, "reading the directory"))?.next().is_none(),
            false => fs::symlink_metadata(root).is_err(),
        };
        if !is_free {
            let is_unfinished = root.join(MARKER).is_there();
            return Err(UnpackError::Occupied { path: root.to_path_buf(), is_unfinished });
        }
        let made = DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(root);
        made.map_err(failed(root, "making the directory"))?;
        door::target_made();
        let limit = Limit::of(root, max).map_err(failed(root, "asking for the free space"))?;
        let marker = root.join(MARKER);
        let dir = SetDir::open(root).map_err(failed(root, "opening the directory"))?;
        let written = at(MARKER.as_ref()).and_then(|name| dir.create(&name, door::PRIVATE)).and_then(|file| {
            file.write_all_at(MARKER_TEXT.as_bytes(), 0)?;
            file.sync_all()
        });
        written.map_err(failed(&marker, "writing the file"))?;
        let (files, directories, packed) = (HashMap::new(), BTreeSet::new(), BTreeSet::new());
        let target = Self {
            root: root.to_path_buf(),
            dir,
            is_given,
            files,
            directories,
            packed,
            sums: FileSums::new(),
            left: Cell::new(limit.bytes),
            limit,
        };
        target.sync(root)?;
        Ok(target)
    }

    /// The path of a member with this name, relative to the directory.
    pub fn place(name: &[u8]) -> Result<PathBuf> {
        let mut rest = name;
        while let Some(shorter) = rest.strip_prefix(b"./") {
            rest = shorter;
        }
        let parts = rest.strip_suffix(b"/").unwrap_or(rest).split(|byte| *byte == b'/');
        let is_sound = |part: &[u8]| !part.is_empty() && part != b"." && part != b".." && !part.contains(&0);
        if !parts.clone().all(is_sound) {
            let name = String::from_utf8_lossy(name);
            return refused(format!(
                "a member is called `{name}`, which is not a valid name for a file in the directory"
            ));
        }
        let place: PathBuf = parts.map(OsStr::from_bytes).collect();
        if is_own(&place) {
            return refused(format!(
                "a member is called `{}`: innokit keeps notes about its own work under such names, and they mean something only where they \
                 were made: leave that file out of the archive (an interrupted innokit left it there: finish that run first)",
                place.display()
            ));
        }
        Ok(place)
    }

    /// Creates a directory and its parents.
    pub fn directory(&mut self, place: &Path) -> Result<()> {
        if place.as_os_str().is_empty() || self.directories.contains(place) {
            return Ok(());
        }
        if let Some(above) = place.parent() {
            self.directory(above)?;
        }
        self.charge(place, OF_AN_ENTRY)?;
        let path = self.root.join(place);
        // An existing entry was created here and is a file, so this fails.
        let made = at(place).and_then(|name| self.dir.make_dir(&name, DIRECTORY_MODE));
        made.map_err(failed(&path, "making the directory"))?;
        self.directories.insert(place.to_path_buf());
        Ok(())
    }

    /// Creates the file of a member of archive `archive`. It replaces an earlier file of this name from the same archive.
    pub fn file(&mut self, place: &Path, archive: usize) -> Result<File> {
        let path = self.root.join(place);
        match self.files.get(place) {
            Some(other) if *other != archive => {
                return refused(format!("{} is in two of the archives", place.display()));
            }
            Some(_) => {
                at(place).and_then(|name| self.dir.remove(&name)).map_err(failed(&path, "replacing the file"))?
            }
            None => place.parent().map_or(Ok(()), |above| self.directory(above))?,
        }
        self.charge(place, OF_AN_ENTRY)?;
        let file = at(place).and_then(|name| self.dir.create(&name, FILE_MODE));
        let file = file.map_err(failed(&path, "making the file"))?;
        self.files.insert(place.to_path_buf(), archive);
        self.sums.remove(place);
        Ok(file)
    }

    /// Reopens an earlier file of this name from the same archive, to overwrite parts of it.
    pub fn again(&mut self, place: &Path, archive: usize) -> Result<File> {
        if self.files.get(place) != Some(&archive) {
            return self.file(place, archive);
        }
        self.sums.remove(place);
        let path = self.root.join(place);
        at(place).and_then(|name| self.dir.change(&name)).map_err(failed(&path, "opening the file"))
    }

    pub fn rename(&mut self, from: &Path, to: &Path, archive: usize) -> Result<()> {
        if self.files.get(from) != Some(&archive) || self.files.get(to).is_some_and(|other| *other != archive) {
            return refused(format!("the archive renames {} to {}, which is impossible", from.display(), to.display()));
        }
        to.parent().map_or(Ok(()), |above| self.directory(above))?;
        let path = self.root.join(from);
        let renamed = at(from).and_then(|from| self.dir.rename(&from, &at(to)?));
        renamed.map_err(failed(&path, "renaming the file"))?;
        self.files.remove(from);
        self.files.insert(to.to_path_buf(), archive);
        self.sums.remove(to);
        if let Some(sum) = self.sums.remove(from) {
            self.sums.insert(to.to_path_buf(), sum);
        }
        Ok(())
    }

    pub fn remove(&mut self, place: &Path, archive: usize) -> Result<()> {
        if self.files.get(place) != Some(&archive) {
            return Ok(());
        }
        self.files.remove(place);
        self.sums.remove(place);
        let path = self.root.join(place);
        at(place).and_then(|name| self.dir.remove(&name)).map_err(failed(&path, "removing the file"))
    }

    /// Completes a file, and decompresses it if it is packed.
    pub fn complete(&mut self, place: &Path, (file, sum): (File, Option<Crc32c>), archive: usize) -> Result<()> {
        match packed_name(place) {
            Some((inner, Some(packing))) if self.is_packed(place, packing)? => {
                drop(file);
                self.unpack(place, inner, packing, archive)
            }
            Some((_, None)) => {
                self.packed.insert(place.to_path_buf());
                self.settle(place, &file, sum)
            }
            _ => self.settle(place, &file, sum),
        }
    }

    /// Gives a complete file its holes, and notes its checksum.
    fn settle(&mut self, place: &Path, file: &File, sum: Option<Crc32c>) -> Result<()> {
        if let Some(sum) = sum {
            self.sums.insert(place.to_path_buf(), (sum.len, sum.value()));
        }
        punch(file).map_err(failed(&self.root.join(place), "making holes in the file"))
    }

    /// Whether the file's content is packed as its name says.
    fn is_packed(&self, place: &Path, packing: Packing) -> Result<bool> {
        let head = self.read(place).and_then(|file| read_up_to(&file, 0, HEAD));
        let head = head.map_err(failed(&self.root.join(place), "reading the file"))?;
        Ok(recognise(&head) == Some(Content::Packed(packing)))
    }

    fn read(&self, place: &Path) -> io::Result<File> {
        self.dir.read(&at(place)?)
    }

    fn unpack(&mut self, place: &Path, inner: &Path, packing: Packing, archive: usize) -> Result<()> {
        Self::place(inner.as_os_str().as_bytes())?;
        let (packed, path) = (self.root.join(place), self.root.join(inner));
        let of_error = |error| of_bytes(place, "reading the file", error);
        let input = self.read(place).map_err(failed(&packed, "opening the file"))?;
        let mut decoded = Decoded::new(packing, input).map_err(of_error)?;
        let output = self.file(inner, archive)?;
        let mut sum = Crc32c::new();
        pump(&mut decoded, &of_error, &mut |bytes| {
            self.count(inner, bytes)?;
            output.write_all_at(bytes, sum.len).map_err(failed(&path, "writing the file"))?;
            sum.add(bytes);
            Ok(())
        })?;
        self.settle(inner, &output, Some(sum))?;
        self.remove(place, archive)
    }

    /// Counts bytes that are about to be written. A few bytes of a compressed archive can be any number of them.
    fn count(&self, place: &Path, bytes: &[u8]) -> Result<()> {
        self.charge(place, bytes.len() as u64)
    }

    fn charge(&self, place: &Path, bytes: u64) -> Result<()> {
        if let Some(left) = self.left.get().checked_sub(bytes) {
            self.left.set(left);
            return Ok(());
        }
        let (place, max) = (place.display(), self.limit.bytes);
        let limit = if self.limit.is_given { "as --max-size says" } else { "which is nearly all that is free there" };
        refused(format!(
            "{place}: the archive holds more than {max} bytes, {limit}: if it is what it should be, make room or give a larger --max-size"
        ))
    }

    /// Writes bytes at an offset.
    pub fn write(&self, place: &Path, file: &File, offset: u64, bytes: &[u8]) -> Result<()> {
        self.count(place, bytes)?;
        did_bytes(bytes.len());
        file.write_all_at(bytes, offset).map_err(failed(&self.root.join(place), "writing the file"))
    }

    /// Sets the file's size: exactly if it `is_whole`, otherwise as a minimum. The file may end with a hole.
    pub fn set_len(&self, place: &Path, file: &File, len: u64, is_whole: bool) -> Result<()> {
        let now = file.metadata().map(|file| file.len());
        let set = now.and_then(|now| if now < len || is_whole { file.set_len(len) } else { Ok(()) });
        set.map_err(failed(&self.root.join(place), "giving the file its size"))
    }

    pub fn has(&self, name: &str) -> bool {
        self.files.contains_key(Path::new(name))
    }

    fn sync(&self, dir: &Path) -> Result<()> {
        sync_directory(dir).map_err(failed(dir, "making names durable"))
    }

    /// Makes everything durable. Returns the number of files and bytes.
    pub fn finish(&self) -> Result<(u64, u64)> {
        let mut bytes = 0;
        for place in self.files.keys() {
            let path = self.root.join(place);
            bytes +=
                self.read(place).and_then(|file| file.metadata()).map_err(failed(&path, "looking at the file"))?.len();
        }
        // One call for all of them: a sync for each of ten thousand tables takes minutes.
        sync_file_system_of(&self.root).map_err(failed(&self.root, "making the files durable"))?;
        let marker = self.root.join(MARKER);
        at(MARKER.as_ref()).and_then(|name| self.dir.remove(&name)).map_err(failed(&marker, "removing the file"))?;
        self.sync(&self.root)?;
        if let Some(above) = self.root.parent().filter(|_| !self.is_given) {
            self.sync(if above.as_os_str().is_empty() { Path::new(".") } else { above })?;
        }
        Ok((self.files.len() as u64, bytes))
    }

    /// Removes everything that was created: an incomplete backup is useless. If something cannot be removed, the marker stays too.
    pub fn discard(self) {
        if !self.is_given {
            fs::remove_dir_all(&self.root).ok();
            return;
        }
        let is_removed = |place: &Path| at(place).and_then(|name| self.dir.remove(&name)).is_ok();
        let is_emptied = |dir: &PathBuf| at(dir).and_then(|name| self.dir.remove_dir(&name)).is_ok();
        let removed = self.files.keys().all(|place| is_removed(place));
        if removed && self.directories.iter().rev().all(is_emptied) {
            is_removed(MARKER.as_ref());
        }
    }
}

fn at(place: &Path) -> io::Result<SetName> {
    door::plain(place)
}
