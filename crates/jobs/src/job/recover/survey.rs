//! The tablespaces of a datadir, as their first pages tell.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use format::{PageId, SpaceFormat, SpaceId, Verdict, verify_page};

use super::error::{Result, failed};
use super::outside::refuse_open;
use super::place::walk;
use super::system::SystemFiles;
use super::wanted::Wanted;
use crate::source::datadir::link_target;
use crate::source::name::NameHint;
use crate::source::read_up_to;

/// The largest page.
const HEAD: usize = 1 << 16;

/// What lies in a datadir.
#[derive(Debug)]
pub(super) struct Survey {
    /// Files whose first page is sound, by tablespace; relative to the datadir, or absolute if they lie outside.
    pub files: HashMap<SpaceId, Vec<PathBuf>>,
    /// Files outside of the datadir that belong to it, sound or not.
    pub outside: Vec<PathBuf>,
    pub system: SystemFiles,
    /// Link files, relative to the datadir.
    links: Vec<PathBuf>,
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
        let bytes = File::open(path).and_then(|file| read_up_to(&file, 0, HEAD));
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
fn is_of_server(hint: NameHint, name: &Path) -> bool {
    match hint {
        NameHint::Table => true,
        // The first page of the others is not the tablespace's first.
        NameHint::System(1) | NameHint::Undo => name.components().count() == 1,
        _ => false,
    }
}

impl Survey {
    /// Looks at every file that should be a tablespace by its name, and at those outside that the log or a link file names.
    pub fn take(datadir: &Path, wanted: &Wanted) -> Result<Self> {
        let system = SystemFiles::find(datadir)?;
        let mut survey = Self { files: HashMap::new(), outside: Vec::new(), system, links: Vec::new() };
        walk(datadir, &mut |name, metadata| {
            if metadata.is_file() { survey.look_at(datadir, name) } else { Ok(()) }
        })?;
        let links = std::mem::take(&mut survey.links).into_iter();
        let linked = links.filter_map(|link| link_target(&datadir.join(link)).ok());
        let named = wanted.names_outside().cloned();
        let mut seen = HashSet::new();
        for path in named.chain(linked.filter(|path| path.is_absolute())) {
            // A link that leads nowhere was left by a table that is no more.
            let Ok(file) = fs::metadata(&path) else { continue };
            if !file.is_file() || !seen.insert((file.dev(), file.ino())) {
                continue;
            }
            if let Some(head) = Head::read(&path)? {
                survey.files.entry(head.format.space()).or_default().push(path.clone());
            }
            survey.outside.push(path);
        }
        survey.outside.sort();
        refuse_open(&survey.outside)?;
        Ok(survey)
    }

    fn look_at(&mut self, datadir: &Path, name: &Path) -> Result<()> {
        let hint = NameHint::of(name);
        if hint == NameHint::Link {
            self.links.push(name.to_path_buf());
        } else if is_of_server(hint, name)
            && let Some(head) = Head::read(&datadir.join(name))?
        {
            self.files.entry(head.format.space()).or_default().push(name.to_path_buf());
        }
        Ok(())
    }
}
