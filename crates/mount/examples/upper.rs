//! Writes over a file of a directory without changing it: `cargo run -p innokit-mount --example upper -- FILE`.

use std::error::Error;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use innokit_mount::upper::{Attrs, Base, BaseFile, Entry, Folder, Head, Kind, Upper};

#[derive(Debug)]
struct Directory(PathBuf);

#[derive(Debug)]
struct Lies(File);

impl Base for Directory {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn BaseFile>> {
        Ok(Arc::new(Lies(File::open(self.0.join(path))?)))
    }
}

impl BaseFile for Lies {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(bytes, offset)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let file = PathBuf::from(std::env::args_os().nth(1).ok_or("name a file")?);
    let name = PathBuf::from(file.file_name().ok_or("name a file")?);
    let folder = file.parent().unwrap_or(Path::new("")).to_path_buf();
    let entry = Entry { path: name.clone(), kind: Kind::File, len: file.metadata()?.len(), attrs: Attrs::default() };
    let place = tempfile::tempdir()?;
    let disk = Arc::new(Folder::new(place.path().to_path_buf(), true));
    let head = Head { identity: [0; 32], lsn: 0, boot: String::new(), next: 0 };
    let upper = Upper::fresh(disk, Arc::new(Directory(folder)), head, Attrs::default(), &[entry])?;
    let id = upper.find(&name).ok_or("it is not there")?;
    upper.write(id, b"written over it", 0)?;
    upper.sync(id)?;
    let mut bytes = [0; 15];
    upper.read(id, &mut bytes, 0)?;
    println!("{}: {:?}", name.display(), upper.share());
    Ok(())
}
