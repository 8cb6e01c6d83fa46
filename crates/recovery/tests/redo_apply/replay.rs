//! Applies the redo of a crashed datadir in memory, and compares every page with another recovery.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use datadir::keys::SpaceKey;
use format::codec::{Opened, Scratch, cipher_mode, open_page};
use format::keyring::KeyStore;
use format::page::seal::{seal_encrypted, seal_flush_lsn, seal_recovered};
use format::{Family, Lsn, PageId, PageSize, Scheme, SpaceFormat, SpaceId};
use innokit_recovery::redo_batch::{FileEvent, PageRedo, RedoBatch};
use redo::apply::{Outcome, Replay};
use redo::log_key::LogKey;
use redo::mariadb::{LogFile, START_OFFSET};
use redo::mtr_reader::MtrReader;
use redo::record::RedoRecord;

/// The comparison's counts.
#[derive(Debug, Default)]
pub struct Seen {
    pub mtrs: u64,
    pub records: BTreeMap<&'static str, u64>,
    /// The end of the log.
    pub end: u64,
    /// Pages with redo that are byte-identical after both recoveries.
    pub equal: u64,
    /// Pages that contained all of their redo already.
    pub unchanged: u64,
    /// Pages that are no longer in use.
    pub freed: u64,
    /// Pages of tablespaces that the other recovery lacks.
    pub gone: u64,
    /// Pages initialised without reading their old content.
    pub void: u64,
    pub compressed: u64,
    pub page_compressed: u64,
    pub encrypted: u64,
    /// The pages among these that we encrypted again, with the server's bytes as the result.
    pub encrypted_again: u64,
    /// The differences.
    pub different: Vec<String>,
}

/// A datadir's whole log.
pub struct Log {
    pub file: LogFile,
    header: Vec<u8>,
    bytes: Vec<u8>,
}

impl Log {
    pub fn read(datadir: &Path) -> Self {
        let bytes = fs::read(datadir.join("ib_logfile0")).expect("a log");
        let header = bytes[..START_OFFSET].to_vec();
        let file = LogFile::parse(&header, bytes.len() as u64).expect("a log header");
        Self { file, header, bytes }
    }

    /// One lap around the ring from `lsn`.
    fn ring(&self, lsn: Lsn) -> [&[u8]; 2] {
        let place = MtrReader::place(&self.file, lsn).expect("within the file") as usize;
        [&self.bytes[place..], &self.bytes[self.file.payload_start() as usize..place]]
    }

    pub fn gather(&self, keys: &KeyStore, seen: &mut Seen) -> RedoBatch {
        let checkpoint = self.file.checkpoint;
        let key = LogKey::unlock(&self.file, &self.header, keys, &self.ring(checkpoint.end_lsn).concat());
        let mut reader = MtrReader::new(&self.file, key.expect("the key fits"), checkpoint.lsn);
        let mut batch = RedoBatch::new(1 << 30);
        for mut input in self.ring(checkpoint.lsn) {
            while let Some(mtr) = reader.next_mtr(&mut input) {
                seen.mtrs += 1;
                for record in mtr.records() {
                    let name = match record.expect("a record") {
                        RedoRecord::Page(record) => record.change.name(),
                        RedoRecord::File(record) => record.name(),
                    };
                    *seen.records.entry(name).or_default() += 1;
                }
                batch.add(&mtr).expect("records");
            }
        }
        assert!(reader.has_ended() && reader.at() >= checkpoint.end_lsn, "the log reaches beyond its checkpoint");
        assert!(batch.files().contains(&FileEvent::Checkpoint(checkpoint.lsn)), "the log names its checkpoint");
        seen.end = reader.at().0;
        batch
    }
}

/// The tablespaces of a datadir: their files, by number.
pub fn tablespaces(datadir: &Path) -> BTreeMap<SpaceId, PathBuf> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![datadir.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            if path.is_dir() {
                dirs.push(path);
            } else if name == "ibdata1" || name.ends_with(".ibd") || name.starts_with("undo") {
                let head = head_of(&path);
                if let Ok(format) = SpaceFormat::from_page0(&head) {
                    found.insert(format.space(), path);
                }
            }
        }
    }
    found
}

fn head_of(path: &Path) -> Vec<u8> {
    let file = File::open(path).expect("opens");
    read(&file, 0, 1 << 16)
}

/// Reads `len` bytes. Bytes beyond the end of the file are zeros, as after extending it.
fn read(file: &File, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let mut filled = 0;
    while filled < len {
        match file.read_at(&mut bytes[filled..], offset + filled as u64).expect("reads") {
            0 => break,
            count => filled += count,
        }
    }
    bytes
}

/// A tablespace in a datadir, for reading its pages.
struct Tablespace {
    file: Option<File>,
    format: SpaceFormat,
    key: SpaceKey,
}

impl Tablespace {
    fn of_page0(file: Option<File>, page0: &[u8], keys: &KeyStore) -> Option<Self> {
        let format = SpaceFormat::from_page0(page0).ok()?;
        let key = SpaceKey::unlock(page0, &format, keys).expect("the tablespace's key is there");
        Some(Self { file, format, key })
    }

    fn open(path: &Path, keys: &KeyStore) -> Option<Self> {
        Self::of_page0(Some(File::open(path).expect("opens")), &head_of(path), keys)
    }

    /// The page as the server has it in memory, and whether it was encrypted or compressed in the file.
    fn page(&self, id: PageId, scratch: &mut Scratch, seen: &mut Seen) -> (Vec<u8>, bool) {
        let size = self.format.physical().bytes();
        let offset = u64::from(id.page_no.0) * size as u64;
        let stored = self.file.as_ref().map_or_else(|| vec![0; size], |file| read(file, offset, size));
        let context = self.key.context(&self.format);
        let mode = cipher_mode(&stored, id, &context, scratch).unwrap_or_else(|error| panic!("{id}: {error}"));
        let opened = open_page(&stored, id, &context, scratch).unwrap_or_else(|error| panic!("{id}: {error}"));
        if let (SpaceKey::MariaDb(keys), Some(mode), Opened { inflated: None, .. }) = (&self.key, mode, &opened) {
            let mut again = opened.page.to_vec();
            seal_encrypted(&mut again, id, &self.format, keys, mode).expect("seals");
            assert!(again == stored, "{id} is encrypted as the server does it");
            seen.encrypted_again += 1;
        }
        seen.encrypted += u64::from(opened.decrypted);
        seen.page_compressed += u64::from(opened.inflated.is_some());
        (opened.page.to_vec(), opened.decrypted || opened.inflated.is_some())
    }
}

/// Applies the redo of the datadir `crashed` and compares with `recovered`.
pub fn compare(crashed: &Path, recovered: &Path, keys: &KeyStore) -> Seen {
    let mut seen = Seen::default();
    let batch = Log::read(crashed).gather(keys, &mut seen);
    let (ours, theirs) = (tablespaces(crashed), tablespaces(recovered));
    let logical = SpaceFormat::from_page0(&head_of(&ours[&SpaceId::SYSTEM])).expect("ibdata1").logical();
    let mut scratch = Scratch::new();
    let mut current: Option<(SpaceId, Option<[Tablespace; 2]>)> = None;
    for id in batch.pages() {
        if current.as_ref().is_none_or(|(space, _)| *space != id.space) {
            let input = ours.get(&id.space);
            let pair = theirs.get(&id.space).map(|path| {
                let ours = space_of(id.space, input, &batch, logical, keys);
                [ours, Tablespace::open(path, keys).expect("a tablespace")]
            });
            current = Some((id.space, pair));
        }
        match &current {
            Some((_, Some([ours, theirs]))) => compare_page(id, &batch.redo(id), ours, theirs, &mut scratch, &mut seen),
            _ => seen.gone += 1,
        }
    }
    seen
}

/// A tablespace according to its page 0 after replay. Before that, page 0 may not even exist.
fn space_of(
    space: SpaceId,
    path: Option<&PathBuf>,
    batch: &RedoBatch,
    logical: PageSize,
    keys: &KeyStore,
) -> Tablespace {
    let id = PageId::new(space.0, 0);
    let redo = batch.redo(id);
    let (is_void, mut redo) = (redo.is_void, redo.peekable());
    if redo.peek().is_none() {
        return Tablespace::open(path.expect("a file"), keys).expect("a tablespace");
    }
    let in_file = path.map(|path| head_of(path)).filter(|_| !is_void);
    let known = in_file.as_ref().and_then(|head| SpaceFormat::from_page0(head).ok());
    // Pages of a compressed table are smaller, and so is its first page.
    let unknown = SpaceFormat::new(Family::MariaDb, Scheme::FullCrc32, logical, logical, space).expect("a format");
    let format = known.unwrap_or(unknown);
    let mut page0 = in_file.unwrap_or_default();
    page0.resize(format.physical().bytes(), 0);
    let mut replay = Replay::onto(&mut page0, id, &format).expect("a page");
    redo.for_each(|mtr| replay.apply(&mtr).expect("applies"));
    assert_ne!(replay.finish(), Ok(Outcome::Freed), "a tablespace keeps its first page");
    Tablespace::of_page0(path.map(|path| File::open(path).expect("opens")), &page0, keys).expect("a tablespace")
}

fn compare_page(
    id: PageId,
    redo: &PageRedo<'_>,
    ours: &Tablespace,
    theirs: &Tablespace,
    scratch: &mut Scratch,
    seen: &mut Seen,
) {
    let format = &ours.format;
    let mut page = vec![0; format.physical().bytes()];
    if redo.is_void {
        seen.void += 1;
    } else {
        page = ours.page(id, scratch, seen).0;
    }
    let mut replay = Replay::onto(&mut page, id, format).expect("a page");
    for mtr in redo.clone() {
        replay.apply(&mtr).unwrap_or_else(|error| panic!("{id}, LSN {}: {error}", mtr.start));
    }
    match replay.finish().expect("a page") {
        Outcome::Freed => seen.freed += 1,
        Outcome::Unchanged => seen.unchanged += 1,
        Outcome::Changed(lsn) => {
            seal_recovered(&mut page, id, format).expect("seals");
            seen.compressed += u64::from(format.scheme() == Scheme::Zip);
            let (mut other, was_closed) = theirs.page(id, scratch, seen);
            if was_closed {
                seal_recovered(&mut other, id, format).expect("seals");
            }
            // Servers before 10.8 write there that nothing is left to recover, which no redo record does.
            if id == PageId::new(SpaceId::SYSTEM.0, 0) {
                let flushed = other[26..34].try_into().map(u64::from_be_bytes).expect("8 bytes");
                seal_flush_lsn(&mut page, Lsn(flushed), format).expect("seals");
            }
            if page == other {
                seen.equal += 1;
            } else {
                let first = page.iter().zip(&other).position(|(a, b)| a != b).unwrap_or(0);
                let count = page.iter().zip(&other).filter(|(a, b)| a != b).count();
                let here = (page[first], other[first]);
                seen.different.push(format!(
                    "{id} (type {}), LSN {lsn}: {count} bytes differ from byte {first} on {here:02x?}",
                    u16::from_be_bytes([page[24], page[25]])
                ));
            }
        }
    }
}
