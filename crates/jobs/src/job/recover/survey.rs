//! The tablespaces of a datadir, as their first pages tell.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use format::{PageId, SpaceFormat, SpaceId, Verdict, verify_page};

use super::error::{Result, failed, refused};
use super::log::read;
use crate::source::name::NameHint;

/// The largest page.
const HEAD: usize = 1 << 16;

/// What lies in a datadir.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// Files whose first page is sound, by tablespace; relative to the datadir.
    pub files: HashMap<SpaceId, Vec<PathBuf>>,
}

/// The head of a file, if its first page is sound.
#[derive(Debug)]
pub(super) struct Head {
    pub format: SpaceFormat,
    pub page0: Vec<u8>,
}

impl Head {
    /// Reads the head of the file; `None` where the first page is not sound.
    pub fn read(path: &Path) -> Result<Option<Self>> {
        let bytes = File::open(path).and_then(|file| read(&file, 0, HEAD));
        Ok(Self::parse(&bytes.map_err(failed(path, "reading the first page"))?))
    }

    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let format = SpaceFormat::from_page0(bytes).ok()?;
        let page0 = bytes.get(..format.physical().bytes())?;
        let verdict = verify_page(page0, PageId::new(format.space().0, 0), &format);
        matches!(verdict, Verdict::Ok(_)).then(|| Self { format, page0: page0.to_vec() })
    }
}

/// The log names the files of tables. Those of the others it does not name: they lie at the top, and further down are copies.
fn is_of_server(hint: NameHint, below: &Path) -> bool {
    match hint {
        NameHint::Table => true,
        NameHint::System(_) | NameHint::Undo => below.as_os_str().is_empty(),
        _ => false,
    }
}

impl Survey {
    /// Looks at every file that should be a tablespace by its name.
    pub fn take(datadir: &Path) -> Result<Self> {
        let mut survey = Self::default();
        survey.walk(datadir, Path::new(""))?;
        if datadir.join("ibdata2").exists() {
            return refused("the system tablespace has several files, which cannot be recovered yet");
        }
        Ok(survey)
    }

    fn walk(&mut self, datadir: &Path, below: &Path) -> Result<()> {
        let dir = datadir.join(below);
        let entries = fs::read_dir(&dir).map_err(failed(&dir, "reading the directory"))?;
        for entry in entries {
            let entry = entry.map_err(failed(&dir, "reading the directory"))?;
            let name = below.join(entry.file_name());
            let path = datadir.join(&name);
            let metadata = fs::metadata(&path).map_err(failed(&path, "looking at the file"))?;
            let hint = NameHint::of(&name);
            if metadata.is_dir() {
                self.walk(datadir, &name)?;
            } else if is_of_server(hint, below)
                && let Some(head) = Head::read(&path)?
            {
                self.files.entry(head.format.space()).or_default().push(name);
            }
        }
        Ok(())
    }
}
