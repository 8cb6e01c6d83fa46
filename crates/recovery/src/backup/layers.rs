//! Reads one tablespace from a full backup and its increments: side by side, from the first page to the last, each file once.

use std::fs::File;
use std::path::{Path, PathBuf};

use format::checksum::crc32c;
use format::keyring::KeyStore;

use super::changes::{SameLsns, lsn_of};
use super::delta_file::{DeltaReader, delta_of};
use super::error::{BackupError, Result, failed};
use super::pages::{PageReader, PagesRead, part_in};
use crate::door;
use crate::manifest::{BackupDelta, BackupTablespace, Manifest};
use datadir::crc32c::Crc32c;
use datadir::reading::read_into;
use datadir::space::SpacePart;

/// Bytes per read, and per call of `take`.
const STRETCH: usize = 1 << 20;

/// Reads tablespaces; owns the state that verifying their pages needs.
#[derive(Debug)]
pub(super) struct Layers<'k> {
    reader: PageReader<'k>,
    /// Pages read so far.
    pub pages: u64,
}

/// One tablespace: a whole file, and the increments' parts since.
#[derive(Debug)]
pub(super) struct Stack<'s> {
    whole: Whole,
    layers: Vec<Layer<'s>>,
    entry: &'s BackupTablespace,
    page_size: usize,
}

impl Stack<'_> {
    /// The path of the whole file.
    pub fn whole(&self) -> &Path {
        &self.whole.path
    }

    /// The files that were read: the number of the set, the name in it, and the CRC-32C of all of its bytes.
    pub fn sums(&self) -> impl Iterator<Item = (usize, PathBuf, u32)> {
        let deltas = self.layers.iter().filter_map(|layer| {
            let changed = layer.changed.as_ref()?;
            Some((layer.set, delta_of(Path::new(&layer.entry.path)), changed.sum.value()))
        });
        std::iter::once((self.whole.set, self.whole.name.clone(), self.whole.sum.value())).chain(deltas)
    }

    /// Reads page `number` as of the last increment. Returns whether the tablespace has it.
    fn page(&mut self, number: u32, page: &mut Vec<u8>) -> Result<bool> {
        let mut is_there = self.whole.next(page, self.page_size)?;
        self.layers.iter_mut().try_for_each(|layer| layer.pass(number, page, &mut is_there))?;
        Ok(is_there)
    }

    /// Pages in the result, and in the longest of the files it is made of: the tablespace may have shrunk.
    fn pages(&self) -> (u64, u64) {
        let sizes = self.layers.iter().map(|layer| layer.entry.size);
        let longest = sizes.fold(self.whole.size.max(self.entry.size), u64::max);
        let of = |size: u64| size.checked_div(self.page_size as u64).unwrap_or(0);
        (of(self.entry.size), of(longest))
    }
}

impl<'k> Layers<'k> {
    pub fn new(keys: &'k KeyStore) -> Self {
        Self { reader: PageReader::new(keys), pages: 0 }
    }

    /// Opens the files that hold pages of a tablespace of the last set.
    pub fn open<'s>(&self, sets: &'s [Set], entry: &'s BackupTablespace) -> Result<Stack<'s>> {
        let mut layers = Vec::new();
        for (number, set) in sets.iter().enumerate().rev() {
            let Some(own) = set.manifest.tablespace(entry.space) else { break };
            match &own.delta {
                Some(delta) => layers.push(Layer::open((number, set), own, delta)?),
                None => {
                    let whole = Whole::open((number, set), &own.path)?;
                    layers.reverse();
                    let page_size = usize::try_from(entry.page_size).unwrap_or(0);
                    return Ok(Stack { whole, layers, entry, page_size });
                }
            }
        }
        let (path, space) = (&entry.path, entry.space);
        Err(BackupError::Damaged(format!("{path}: no backup of the chain has the whole file of tablespace {space}")))
    }

    /// Passes the verified pages of a tablespace to `take`, each stretch with its offset in the file.
    pub fn read(&mut self, stack: &mut Stack<'_>, take: &mut dyn FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
        let name = PathBuf::from(&stack.entry.path);
        let ((pages, all), mut found) = (stack.pages(), PagesRead::default());
        let (mut part, mut page): (Option<SpacePart>, Vec<u8>) = (None, Vec::new());
        let (mut stretch, mut offset) = (Vec::with_capacity(STRETCH), 0);
        for number in 0..u32::try_from(all).unwrap_or(u32::MAX) {
            let is_there = stack.page(number, &mut page)?;
            // Cut off since: read only so that every older increment is checked to its end.
            if u64::from(number) >= pages {
                continue;
            }
            if number == 0 {
                part = part_in(&page, &name, self.reader.keys());
            }
            let Some(part) = part.as_ref().filter(|_| is_there) else { return Err(bad(&name, number)) };
            self.reader.judge_page(&page, number, part, None, &mut found);
            if let Some(number) = found.bad.first() {
                return Err(bad(&name, *number));
            }
            stretch.extend_from_slice(&page);
            if stretch.len() >= STRETCH {
                take(offset, &stretch)?;
                offset += stretch.len() as u64;
                stretch.clear();
            }
        }
        take(offset, &stretch)?;
        self.pages += found.pages;
        stack.whole.finish()?;
        stack.layers.iter_mut().try_for_each(Layer::finish)
    }
}

/// A backup: its directory and its manifest.
#[derive(Debug)]
pub(super) struct Set {
    pub dir: PathBuf,
    pub manifest: Manifest,
}

impl Set {
    pub fn open(dir: &Path) -> Result<Self> {
        let (manifest, _) = Manifest::read(dir)?;
        Ok(Self { dir: dir.to_path_buf(), manifest })
    }
}

/// A whole file, read from front to back.
#[derive(Debug)]
struct Whole {
    /// The number of its set, and its name there.
    set: usize,
    name: PathBuf,
    path: PathBuf,
    file: File,
    size: u64,
    stretch: Vec<u8>,
    /// Offset of the next page in `stretch`, and of the next stretch in the file.
    at: usize,
    offset: u64,
    /// Of the bytes read so far.
    sum: Crc32c,
}

impl Whole {
    fn open((number, set): (usize, &Set), name: &str) -> Result<Self> {
        let path = set.dir.join(name);
        let file = door::open_file(&path).map_err(failed(&path, "opening the tablespace"))?;
        let size = file.metadata().map_err(failed(&path, "looking at the file"))?.len();
        let (name, stretch, sum) = (PathBuf::from(name), Vec::new(), Crc32c::new());
        Ok(Self { set: number, name, path, file, size, stretch, at: 0, offset: 0, sum })
    }

    fn refill(&mut self) -> Result<()> {
        self.stretch.resize(STRETCH, 0);
        let read = read_into(&self.file, self.offset, &mut self.stretch);
        let read = read.map_err(failed(&self.path, "reading the tablespace"))?;
        self.stretch.truncate(read);
        self.sum.add(&self.stretch);
        (self.at, self.offset) = (0, self.offset + read as u64);
        Ok(())
    }

    /// Reads what is left behind the last whole page, which is nothing as a rule: the sum is of the whole file.
    fn finish(&mut self) -> Result<()> {
        while self.offset < self.size {
            self.refill()?;
            if self.stretch.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Reads the next page. Returns whether there is one.
    fn next(&mut self, page: &mut Vec<u8>, page_size: usize) -> Result<bool> {
        if self.at >= self.stretch.len() {
            self.refill()?;
        }
        page.clear();
        let next = self.stretch.get(self.at..self.at + page_size);
        page.extend_from_slice(next.unwrap_or_default());
        self.at += page.len();
        Ok(next.is_some())
    }
}

/// One increment's part of a tablespace.
#[derive(Debug)]
struct Layer<'s> {
    /// The number of its set.
    set: usize,
    path: PathBuf,
    entry: &'s BackupTablespace,
    delta: &'s BackupDelta,
    changed: Option<DeltaReader>,
    /// The number of the next changed page, whose bytes are in `page`. `None` after the last.
    next: Option<u32>,
    page: Vec<u8>,
    sums: SameLsns,
}

impl<'s> Layer<'s> {
    fn open((number, set): (usize, &Set), entry: &'s BackupTablespace, delta: &'s BackupDelta) -> Result<Self> {
        let path = delta_of(&set.dir.join(&entry.path));
        let changed = (delta.pages > 0).then(|| DeltaReader::open(path.clone())).transpose()?;
        let mut layer =
            Self { set: number, path, entry, delta, changed, next: None, page: Vec::new(), sums: SameLsns::new() };
        layer.advance()?;
        Ok(layer)
    }

    fn advance(&mut self) -> Result<()> {
        let Some(changed) = &mut self.changed else { return Ok(()) };
        self.next = changed.next(&mut self.page)?;
        Ok(())
    }

    /// Turns page `number` of the base into the increment's.
    fn pass(&mut self, number: u32, page: &mut Vec<u8>, is_there: &mut bool) -> Result<()> {
        let size = self.entry.page_size;
        if u64::from(number) >= self.entry.size / u64::from(size.max(1)) {
            *is_there = false;
            return Ok(());
        }
        if self.next == Some(number) {
            std::mem::swap(page, &mut self.page);
            *is_there = true;
            self.advance()?;
        } else if self.is_zero(number) {
            page.clear();
            page.resize(usize::try_from(size).unwrap_or(0), 0);
            *is_there = true;
        } else if !*is_there {
            return Err(self.unfit(&format!("page {number} is missing in its base")));
        } else if number > 0 {
            self.sums.add(number, lsn_of(page));
        }
        if number == 0 && format!("{:08x}", crc32c(page)) != self.entry.first_page {
            return Err(self.unfit("the first page is another one in its base"));
        }
        Ok(())
    }

    fn is_zero(&self, number: u32) -> bool {
        let after = self.delta.zeros.partition_point(|(first, _)| *first <= number);
        let run = after.checked_sub(1).and_then(|at| self.delta.zeros.get(at));
        run.is_some_and(|(first, count)| number - *first < *count)
    }

    /// Checks that every changed page was used, and that the pages from the base have the LSNs that the increment saw.
    fn finish(&mut self) -> Result<()> {
        let pages = self.changed.as_ref().map_or(0, |changed| changed.pages);
        if self.next.is_some() || pages != self.delta.pages {
            return Err(BackupError::Damaged(format!(
                "{}: not the pages that the manifest counts",
                self.path.display()
            )));
        }
        if self.sums.count != self.delta.same || self.sums.text() != self.delta.same_lsns {
            return Err(self.unfit("pages that did not change have other LSNs in its base"));
        }
        Ok(())
    }

    fn unfit(&self, why: &str) -> BackupError {
        BackupError::Damaged(format!(
            "{}: this increment does not fit its base, because the server was set back between them, or one of them was changed since: {why}",
            self.path.display()
        ))
    }
}

fn bad(name: &Path, number: u32) -> BackupError {
    BackupError::Damaged(format!("{}: page {number} is damaged in these backups", name.display()))
}

#[cfg(test)]
#[allow(clippy::expect_used, clippy::indexing_slicing, reason = "helpers of tests fail the test")]
mod tests {
    use std::fs;
    use std::sync::atomic::AtomicBool;

    use format::checksum::Algorithm;
    use format::{Lsn, seal_page};
    use logs::delta::Meta;
    use tempfile::TempDir;

    use super::super::changes::{Changes, Notes};
    use super::super::pace::{BackupWatcher, Pace};
    use super::super::pages::part_of;
    use super::*;
    use datadir::content::delta_note;

    const PAGE: usize = 16 << 10;
    const NAME: &str = "t.ibd";
    /// The base's log begins here: later than every change in the table.
    const BEGUN: Lsn = Lsn(1 << 40);

    fn table() -> Vec<u8> {
        let packed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/mariadb-10.11/dynamic-16k.ibd.zst");
        zstd::decode_all(door::open_file(packed).expect("the fixture")).expect("unpacked")
    }

    /// Opens the table at `path` and reads its format.
    fn opened(path: &Path) -> (File, SpacePart) {
        let file = door::open_file(path).expect("open");
        let part = part_of(&file, path, &KeyStore::default()).expect("read").expect("a tablespace");
        (file, part)
    }

    /// Changes page `number` and seals it with this LSN.
    fn changed(bytes: &mut [u8], number: usize, lsn: Lsn, part: &SpacePart) {
        let page = &mut bytes[number * PAGE..][..PAGE];
        page[200] ^= 0x55;
        seal_page(page, lsn, Algorithm::FullCrc32, &part.format).expect("sealed");
    }

    /// Directories of a base, an increment and the server, and the manifests' entries of the table.
    struct Lab {
        dir: TempDir,
        entries: Vec<BackupTablespace>,
    }

    impl Lab {
        /// A full backup of a table with these bytes.
        fn new(bytes: &[u8]) -> Self {
            let dir = TempDir::new().expect("a directory");
            for name in ["base", "more", "server"] {
                fs::create_dir(dir.path().join(name)).expect("made");
            }
            for name in ["base", "server"] {
                fs::write(dir.path().join(name).join(NAME), bytes).expect("written");
            }
            let (file, part) = opened(&dir.path().join("server").join(NAME));
            let mut notes = Notes::new(BEGUN);
            notes.take(0, bytes, &part);
            let entries = vec![notes.entry(&file, &part, bytes.len() as u64)];
            Self { dir, entries }
        }

        fn of(&self, place: &str) -> PathBuf {
            self.dir.path().join(place).join(NAME)
        }

        /// Takes an increment of the table after it has become `bytes`.
        fn increment(&mut self, bytes: &[u8]) -> Result<BackupDelta> {
            fs::write(self.of("server"), bytes).expect("written");
            let ((file, part), path, to) = (opened(&self.of("server")), self.of("server"), delta_of(&self.of("more")));
            fs::remove_file(&to).ok();
            let mut changes = Changes::new(&self.entries[0], BEGUN, &part, to.clone());
            let (mut notes, keys, stop) = (Notes::new(BEGUN), KeyStore::default(), AtomicBool::new(false));
            let mut pace = Pace::new(None, false, BackupWatcher::default(), &stop);
            let found = PageReader::new(&keys).copy_changes((&file, &path), &mut changes, &mut notes, &mut pace)?;
            assert_eq!(found.pages as usize, bytes.len() / PAGE, "each page is read once");
            let delta = changes.finish(&path)?.expect("few runs of zeros");
            assert_eq!(delta.pages > 0, to.exists());
            fs::write(delta_note(&to), Meta { page_size: PAGE as u32, space: None, flags: None }.note())
                .expect("written");
            self.entries.truncate(1);
            self.entries.push(BackupTablespace { delta: Some(delta.clone()), ..notes.entry(&file, &part, found.size) });
            Ok(delta)
        }

        /// The table's bytes, merged from the base and the increment.
        fn merged(&self) -> Result<Vec<u8>> {
            let sets: Vec<Set> = ["base", "more"]
                .iter()
                .zip(&self.entries)
                .map(|(place, entry)| {
                    let tablespaces = vec![BackupTablespace { path: NAME.to_owned(), ..entry.clone() }];
                    Set { dir: self.dir.path().join(place), manifest: Manifest { tablespaces, ..Manifest::begun(0) } }
                })
                .collect();
            let (keys, mut bytes) = (KeyStore::default(), Vec::new());
            let mut layers = Layers::new(&keys);
            let mut stack = layers.open(&sets, &sets[1].manifest.tablespaces[0])?;
            layers.read(&mut stack, &mut |offset, stretch| {
                assert_eq!(offset, bytes.len() as u64);
                bytes.extend_from_slice(stretch);
                Ok(())
            })?;
            Ok(bytes)
        }
    }

    #[test]
    fn a_base_and_what_has_changed_since_are_the_file_as_it_is() {
        let table = table();
        let (mut lab, pages) = (Lab::new(&table), table.len() / PAGE);
        let part = opened(&lab.of("server")).1;
        let same = lab.increment(&table).expect("taken");
        assert_eq!((same.pages, lab.merged().expect("merged") == table), (0, true), "nothing changed");

        let mut now = table.clone();
        changed(&mut now, 4, Lsn(BEGUN.0 + 9), &part);
        assert_eq!(lab.increment(&now).expect("taken").pages, 2, "the page, and the first one beside it");
        assert!(lab.merged().expect("merged") == now);

        // A page written without an LSN; a freed page, zeroed; a longer file, whose new part has a page with an old LSN and zeros.
        changed(&mut now, 5, Lsn(0), &part);
        now[6 * PAGE..7 * PAGE].fill(0);
        let old = table[7 * PAGE..8 * PAGE].to_vec();
        now.extend(old);
        let page = &mut now[pages * PAGE..];
        page[4..8].copy_from_slice(&(pages as u32).to_be_bytes());
        seal_page(page, Lsn(7), Algorithm::FullCrc32, &part.format).expect("sealed");
        now.extend(vec![0; 3 * PAGE]);
        let delta = lab.increment(&now).expect("taken");
        assert_eq!(delta.pages, 4);
        assert!(delta.zeros.contains(&(6, 1)) && delta.zeros.contains(&(pages as u32 + 1, 3)), "{:?}", delta.zeros);
        assert!(lab.merged().expect("merged") == now);

        // Shorter than in the base.
        let mut short = now[..8 * PAGE].to_vec();
        changed(&mut short, 0, BEGUN, &part);
        assert_eq!(lab.increment(&short).expect("taken").pages, 3);
        assert!(lab.merged().expect("merged") == short);

        // The first page is compared by its bytes, whatever its LSN.
        let mut first = table.clone();
        changed(&mut first, 0, Lsn(1), &part);
        assert_eq!(lab.increment(&first).expect("taken").pages, 1);
        assert!(lab.merged().expect("merged") == first);
    }

    #[test]
    fn a_server_that_was_set_back_is_noticed_at_once_or_when_the_increment_is_merged() {
        let table = table();
        let mut lab = Lab::new(&table);
        let part = opened(&lab.of("server")).1;
        let settled: Vec<u32> = lab.entries[0].settled.iter().map(|(page, _)| *page).collect();
        assert_eq!(settled.len(), 4);
        // An LSN from before the base's log, but not the one that the base noted.
        let mut now = table.clone();
        changed(&mut now, settled[0] as usize, Lsn(5), &part);
        let refused = lab.increment(&now).expect_err("set back").to_string();
        assert!(refused.contains("this server was set back"), "{refused}");
        let other = (1..table.len() as u32 / PAGE as u32)
            .find(|page| !settled.contains(page) && lsn_of(&table[*page as usize * PAGE..]).0 > 0);
        let other = other.expect("more pages") as usize;
        let mut now = table.clone();
        changed(&mut now, other, Lsn(5), &part);
        lab.increment(&now).expect("taken");
        let unfit = lab.merged().expect_err("set back").to_string();
        assert!(unfit.contains("other LSNs in its base"), "{unfit}");
        // A base that lost a page since is noticed as well.
        lab.increment(&table).expect("taken");
        fs::write(lab.of("base"), &table[..8 * PAGE]).expect("written");
        let unfit = lab.merged().expect_err("cut").to_string();
        assert!(unfit.contains("page 8 is missing in its base"), "{unfit}");
    }

    #[test]
    fn damaged_pages_are_named_wherever_they_are() {
        let table = table();
        let mut lab = Lab::new(&table);
        let part = opened(&lab.of("server")).1;
        let mut now = table.clone();
        changed(&mut now, 4, Lsn(BEGUN.0 + 9), &part);
        lab.increment(&now).expect("taken");
        let mut hurt = table.clone();
        hurt[7 * PAGE + 900] ^= 1;
        fs::write(lab.of("base"), &hurt).expect("written");
        let bad = lab.merged().expect_err("damaged").to_string();
        assert!(bad.contains("t.ibd: page 7 is damaged"), "{bad}");
        fs::write(lab.of("base"), &table).expect("written");
        let delta = delta_of(&lab.of("more"));
        let mut bytes = door::read_file(&delta).expect("read");
        bytes[2 * PAGE + 900] ^= 1;
        fs::write(&delta, bytes).expect("written");
        let bad = lab.merged().expect_err("damaged").to_string();
        assert!(bad.contains("t.ibd: page 4 is damaged"), "{bad}");
    }
}
