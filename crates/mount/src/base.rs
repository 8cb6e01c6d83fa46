//! A view as the base of an upper, and what a mount of it refuses.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datadir::catalog::{outside_of_mariadb, outside_of_mysql};
use flow::Job;
use format::keyring::KeyStore;
use recovery::{EntryKind, View, ViewEntry, ViewFile};
use sha2::{Digest, Sha256};

use crate::error::{MountError, Result, failed, refused};
use crate::upper::{Attrs, Base, BaseFile, Entry, Head, Kind};

/// A set at a moment.
#[derive(Debug)]
pub(crate) struct ViewBase {
    view: View,
    entries: Vec<ViewEntry>,
}

impl Base for ViewBase {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn BaseFile>> {
        Ok(Arc::new(OpenFile(self.view.open_file(path)?)))
    }
}

#[derive(Debug)]
struct OpenFile(ViewFile);

impl BaseFile for OpenFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(bytes, offset)
    }
}

impl ViewBase {
    /// Lists the view, and fails for what would lead a server out of the mount, to files that it would then write.
    pub fn of(view: View, keys: &KeyStore) -> Result<Self> {
        let mut entries = view.entries().map_err(failed(view.base(), "listing the directory"))?;
        entries.sort_by(|one, other| one.path.cmp(&other.path));
        let base = Self { view, entries };
        base.refuse_links()?;
        base.refuse_index_files()?;
        base.refuse_outside(keys)?;
        Ok(base)
    }

    fn refuse_links(&self) -> Result<()> {
        for entry in &self.entries {
            let path = self.view.base().join(&entry.path);
            if entry.kind == EntryKind::Link {
                return refused(format!(
                    "{}: a symbolic link, through which a server would write to files outside of the mount: mount a copy that has the files inside \
                     (innokit recover --to)",
                    path.display()
                ));
            }
            if entry.path.extension().is_some_and(|extension| extension == "isl") {
                return refused(format!(
                    "{}: a table with DATA DIRECTORY, which a server would open, and write, outside of the mount: mount a copy that has it inside \
                     (innokit recover --to)",
                    path.display()
                ));
            }
        }
        Ok(())
    }

    /// A list of binary logs may name them by absolute paths: a server appends to the last of them and removes old ones.
    fn refuse_index_files(&self) -> Result<()> {
        /// Longer than any list of logs.
        const INDEX_MAX: u64 = 16 << 20;
        let is_index = |entry: &&ViewEntry| {
            entry.kind == EntryKind::File
                && entry.path.extension().is_some_and(|it| it == "index")
                && entry.path.parent() == Some(Path::new(""))
                && entry.len <= INDEX_MAX
        };
        for entry in self.entries.iter().filter(is_index) {
            let path = self.view.base().join(&entry.path);
            let mut bytes = vec![0; usize::try_from(entry.len).unwrap_or(0)];
            let read = self.view.open_file(&entry.path).and_then(|file| file.read_at(&mut bytes, 0));
            read.map_err(failed(&path, "reading the list of logs"))?;
            if let Some(line) = bytes.split(|byte| *byte == b'\n').find(|line| line.first() == Some(&b'/')) {
                return refused(format!(
                    "{}: names {}, outside of the mount, where a server would write or remove it: mount a copy without this list",
                    path.display(),
                    String::from_utf8_lossy(line)
                ));
            }
        }
        Ok(())
    }

    /// Tablespaces that a dictionary names elsewhere.
    fn refuse_outside(&self, keys: &KeyStore) -> Result<()> {
        let base = self.view.base();
        // The dictionary is read by its paths. In a job of its own, that is through the view.
        let _in_job = Job::default().enter();
        self.view.look_through().map_err(MountError::View)?;
        let is_mysql = self.entries.iter().any(|entry| entry.path == Path::new("mysql.ibd"));
        let outside = if is_mysql { outside_of_mysql(base, keys) } else { outside_of_mariadb(base, keys) };
        let outside = outside.map_err(|why| MountError::Refused(format!("{}: {why}", base.display())))?;
        let known: BTreeSet<PathBuf> = self.entries.iter().map(|entry| base.join(&entry.path)).collect();
        match outside.iter().find(|path| !known.contains(*path)) {
            None => Ok(()),
            Some(path) => refused(format!(
                "{}: the dictionary names this file outside of the datadir, where a server would write it: mount a copy that has it inside (innokit \
                 recover --to)",
                path.display()
            )),
        }
    }

    /// What a new upper begins with.
    pub fn entries(&self) -> Vec<Entry> {
        let kept = self.entries.iter().filter(|entry| entry.kind != EntryKind::Special);
        kept.map(|entry| Entry {
            path: entry.path.clone(),
            kind: if entry.kind == EntryKind::Directory { Kind::Directory } else { Kind::File },
            len: entry.len,
            attrs: Attrs {
                mode: entry.mode,
                uid: entry.uid,
                gid: entry.gid,
                modified: (entry.modified.0, u32::try_from(entry.modified.1).unwrap_or(0)),
            },
        })
        .collect()
    }

    /// The top directory's owner and permissions.
    pub fn root(&self) -> Result<Attrs> {
        use std::os::unix::fs::MetadataExt;
        let meta = fs::metadata(self.view.base()).map_err(failed(self.view.base(), "looking at the directory"))?;
        Ok(Attrs { mode: meta.mode() & 0o7777, uid: meta.uid(), gid: meta.gid(), modified: (meta.mtime(), 0) })
    }

    /// Which base at which moment: its files with their lengths and times, and the LSN. A server never ran on it since, or these differ.
    pub fn head(&self, boot: &str) -> Head {
        let lsn = self.view.lsn().map_or(0, |lsn| lsn.0);
        let mut sum = Sha256::new();
        sum.update(lsn.to_be_bytes());
        for entry in self.entries.iter().filter(|entry| entry.kind == EntryKind::File) {
            let name = entry.path.as_os_str().as_encoded_bytes();
            sum.update((name.len() as u64).to_be_bytes());
            sum.update(name);
            for number in [entry.len, entry.modified.0.cast_unsigned(), entry.modified.1.cast_unsigned()] {
                sum.update(number.to_be_bytes());
            }
        }
        Head { identity: sum.finalize().into(), lsn, boot: boot.to_owned(), next: 0 }
    }
}
