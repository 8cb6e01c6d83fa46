//! Archives that end too early, and archives with holes, of crashed datadirs.

use std::fs;
use std::path::{Path, PathBuf};

use format::Lsn;
use redo::follow::Walk;
use redo::mariadb::{LogFile, START_OFFSET};
use redo::mysql::{LOG_FILE_HDR_SIZE, LogFile as MySqlFile};
use redo::segment::{EndRecord, SegmentHeader};
use tempfile::TempDir;

use crate::backup_lab::ended;
use crate::common::{Run, all_datadirs, innokit};

/// A crashed datadir, which stays as it is, and a folder for its archive.
pub struct Crashed {
    pub folder: TempDir,
    data: PathBuf,
}

impl Crashed {
    pub fn new(name: &str) -> Self {
        let folder = TempDir::new().expect("a folder");
        Self { folder, data: all_datadirs().join(name) }
    }

    pub fn archive(&self, data: &Path) -> Run {
        let words = ["redo", "archive", "--until-caught-up", "--segment-size", "1M", "--to", "redo"];
        ended(innokit().args(words).arg(data).current_dir(self.folder.path()))
    }

    /// Where the archive ends, or its stretch of this number.
    pub fn end(&self, range: usize) -> u64 {
        let verified = ended(innokit().args(["redo", "verify", "--json", "redo"]).current_dir(self.folder.path()));
        verified.json()["ranges"][range]["end_lsn"].as_u64().expect("an LSN")
    }

    pub fn recover(&self, more: &[&str]) -> Run {
        let words = ["recover", "--dry-run", "--json", "--redo", "redo"];
        ended(innokit().args(words).args(more).arg(&self.data).current_dir(self.folder.path()))
    }

    /// Asserts that a recovery is refused with these words, except up to `end`.
    pub fn is_hole(&self, end: u64, says: &[&str]) {
        let way_out = format!("(--until {end})");
        let beyond: [&[&str]; 2] = [&[], &["--until", "999999999999"]];
        for more in beyond {
            let run = self.recover(more);
            let is_said = says.iter().chain([&way_out.as_str()]).all(|words| run.errors.contains(words));
            assert!(run.status == 2 && is_said, "{says:?} {more:?}: {} {}", run.status, run.errors);
        }
        let run = self.recover(&["--until", &end.to_string()]);
        assert!(run.status == 0 && run.json()["end_lsn"] == end, "{says:?}: {}{}", run.text, run.errors);
    }

    /// The recovered datadir, whose log ends a little later than the crashed one's.
    pub fn recovered(&self) -> PathBuf {
        let run = ended(innokit().args(["recover", "--to", "own"]).arg(&self.data).current_dir(self.folder.path()));
        assert_eq!(run.status, 0, "{}", run.errors);
        self.folder.path().join("own")
    }

    pub fn segment(&self, start: u64) -> PathBuf {
        self.folder.path().join(format!("redo/redo.{start:016x}"))
    }

    pub fn newest_segment(&self) -> u64 {
        let names =
            fs::read_dir(self.folder.path().join("redo")).expect("read").map(|entry| entry.expect("one").path());
        let lsns = names.filter_map(|path| u64::from_str_radix(path.extension()?.to_str()?, 16).ok());
        lsns.max().expect("a segment")
    }

    /// Closes the newest segment, so that a run of the archiver continues in another one.
    pub fn close_newest(&self, end: u64) {
        let start = self.newest_segment();
        let record = EndRecord { start: Lsn(start), end: Lsn(end), mtrs: 1, timeline: 1, crc: 0 };
        fs::write(self.segment(start).with_extension(format!("{start:016x}.end")), record.encode()).expect("written");
    }

    /// A log that ends `before` bytes earlier than the crashed one's, in a folder of its own.
    pub fn shorter_log(&self, end: u64, before: u64) -> PathBuf {
        let to = self.folder.path().join("shorter");
        fs::create_dir(&to).expect("made");
        let log = self.data.join("ib_logfile0");
        if let Ok(mut bytes) = fs::read(&log) {
            let file = LogFile::parse(&bytes[..START_OFFSET], bytes.len() as u64).expect("a log");
            let from = file.offset_of(file.checkpoint.lsn).expect("a place") as usize;
            let ring = [&bytes[from..], &bytes[START_OFFSET..from]].concat();
            let (len, _) = Walk::over(&file, file.checkpoint.lsn, &ring).up_to(Lsn(end - before));
            let at = file.offset_of(Lsn(file.checkpoint.lsn.0 + len as u64)).expect("a place");
            bytes[at as usize] = 0;
            fs::write(to.join("ib_logfile0"), bytes).expect("written");
            return to;
        }
        fs::create_dir(to.join("#innodb_redo")).expect("made");
        for entry in fs::read_dir(self.data.join("#innodb_redo")).expect("read") {
            let path = entry.expect("one").path();
            let mut bytes = fs::read(&path).expect("read");
            if let Ok(file) = MySqlFile::parse(&bytes, bytes.len() as u64) {
                let keep = (end - before).saturating_sub(file.start_lsn.0) as usize / 512 * 512;
                let len = bytes.len();
                bytes[(LOG_FILE_HDR_SIZE + keep).min(len)..].fill(0);
            }
            fs::write(to.join("#innodb_redo").join(path.file_name().expect("a name")), bytes).expect("written");
        }
        to
    }
}

/// An archive that ends before a crashed datadir's own log: pages of the datadir may be newer than the archive.
pub fn too_short_is_refused(crashed: &str) {
    let whole = Crashed::new(crashed);
    assert_eq!(whole.archive(&whole.data).status, 0);
    let end = whole.end(0);
    assert_eq!(whole.recover(&[]).status, 0, "an archive that has caught up");
    for before in [1, 40_000] {
        let short = Crashed::new(crashed);
        let log = short.shorter_log(end, before);
        assert_eq!(short.archive(&log).status, 0);
        let archived = short.end(0);
        assert!(archived < end, "{archived}");
        let until = archived.to_string();
        let all: [&[&str]; 2] = [&[], &["--until", &until]];
        for more in all {
            let run = short.recover(more);
            let says =
                [format!("ends at LSN {archived}, before"), format!("(LSN {end})"), "leave out --redo".to_owned()];
            let is_said = says.iter().all(|words| run.errors.contains(words));
            assert!(run.status == 2 && is_said, "{before} {more:?}: {} {}", run.status, run.errors);
        }
    }
}

/// Removes the newest segment of MariaDB's archive, then one in the middle, then gives one another key and another encryption.
pub fn holes_of_mariadb_are_told() {
    let crashed = Crashed::new("mariadb-16k-crashed");
    assert_eq!(crashed.archive(&crashed.data).status, 0);
    let (first, end) = (crashed.segment(crashed.newest_segment()), crashed.end(0));
    crashed.close_newest(end);
    assert_eq!(crashed.archive(&crashed.recovered()).status, 0);
    let (last, newest) = (crashed.end(0), crashed.segment(end));
    assert!(last > end && first.exists(), "{last}");
    let later = crashed.recover(&[]);
    assert_eq!(later.status, 0, "{}", later.errors);

    let bytes = fs::read(&newest).expect("read");
    fs::remove_file(&newest).expect("removed");
    crashed.is_hole(end, &[&format!("the archive had reached LSN {last}"), "put it back"]);
    // Another timeline proves nothing.
    let header = SegmentHeader::parse(&bytes).expect("a header");
    let other = SegmentHeader { timeline: 2, start: Lsn(last + 900), ..header }.build(&bytes).expect("built");
    let of_other = crashed.segment(last + 900).with_extension(format!("{:016x}.2", last + 900));
    fs::write(&of_other, other).expect("written");
    crashed.is_hole(end, &[&format!("the archive had reached LSN {last}")]);
    fs::remove_file(&of_other).expect("removed");

    // The segment in between is missing.
    let next = SegmentHeader { start: Lsn(last), checkpoint: None, ..header }.build(&bytes).expect("built");
    fs::write(crashed.segment(last), next).expect("written");
    crashed.is_hole(end, &[&format!("a hole from LSN {end} to LSN {last}"), "put the missing segments back"]);
    fs::remove_file(crashed.segment(last)).expect("removed");

    // A byte of the message from which the key is derived.
    let mut log = bytes.clone();
    log[60] ^= 1;
    for (log, says) in [(&log, "changed the key of its log"), (&encrypted(&bytes), "changed the encryption of its log")]
    {
        let format = redo::mariadb::Format::of_header(log).expect("a format");
        let other = SegmentHeader { format, ..header }.build(log).expect("built");
        fs::write(&newest, [&other[..], &bytes[START_OFFSET..]].concat()).expect("written");
        crashed.is_hole(end, &[&format!("{says} at LSN {end}"), "take a base copy from after that"]);
    }
    fs::write(&newest, bytes).expect("written");
    assert_eq!(crashed.recover(&[]).status, 0);
}

/// The header of a log like this one, but encrypted.
fn encrypted(log: &[u8]) -> Vec<u8> {
    let mut header = log[..START_OFFSET].to_vec();
    // This key id stands for the first form of encrypted logs.
    header[48..52].copy_from_slice(&1u32.to_be_bytes());
    header
}

/// A base copy whose log has no records: its checkpoint is right behind the header of a block, and so is its end. The archive has nothing of
/// that block.
pub fn an_empty_log_of_mysql_is_continued() {
    let crashed = Crashed::new("mysql-16k-crashed");
    let recovered = crashed.recovered();
    let logs = fs::read_dir(recovered.join("#innodb_redo")).expect("read").map(|log| log.expect("one").path());
    let logs: Vec<PathBuf> = logs.filter(|log| !log.to_string_lossy().ends_with("_tmp")).collect();
    let [log] = logs.as_slice() else { panic!("{logs:?}") };
    let mut bytes = fs::read(log).expect("read");
    let start = MySqlFile::parse(&bytes, bytes.len() as u64).expect("a log").start_lsn;
    // What innokit writes if the crashed server's log has no AUTO_INCREMENT counter, as happens.
    let empty = redo::mysql::close::new_file(&bytes[..LOG_FILE_HDR_SIZE], start, &[]).expect("a file");
    bytes.fill(0);
    bytes[..empty.len()].copy_from_slice(&empty);
    fs::write(log, &bytes).expect("written");
    let archived = crashed.archive(&recovered);
    assert_eq!(archived.status, 0, "{}{}", archived.text, archived.errors);
    let words = ["recover", "--dry-run", "--json", "--redo", "redo"];
    let recover =
        |more: &[&str]| ended(innokit().args(words).args(more).arg(&recovered).current_dir(crashed.folder.path()));
    let done = recover(&[]);
    assert_eq!(done.status, 0, "{}", done.errors);
    let checkpoint = redo::mysql::close::checkpoint_of(start).0;
    assert!(done.json()["end_lsn"] == checkpoint && checkpoint == start.0 + 12, "{}", done.text);
    // Without the segment there is nothing that reaches it.
    fs::remove_file(crashed.segment(crashed.newest_segment())).expect("removed");
    let run = recover(&[]);
    assert!(run.status == 2 && run.errors.contains("redo"), "{}: {}", run.status, run.errors);
}

/// A server that outran the archive leaves a gap: the archive goes on behind it, for base copies from after it.
pub fn holes_of_mysql_are_told() {
    let crashed = Crashed::new("mysql-16k-crashed");
    assert_eq!(crashed.archive(&crashed.data).status, 0);
    let end = crashed.end(0);
    let recovered = crashed.recovered();
    let gap = crashed.archive(&recovered);
    assert_eq!(gap.status, 1, "{}{}", gap.text, gap.errors);
    let (last, newest) = (crashed.end(1), crashed.newest_segment());
    let says = format!("a hole from LSN {end} to LSN {newest} (redo.{newest:016x}.gap says why)");
    crashed.is_hole(end, &[&says, "take a base copy from after that"]);
    let words = ["recover", "--dry-run", "--json", "--redo", "redo"];
    let after = ended(innokit().args(words).arg(&recovered).current_dir(crashed.folder.path()));
    assert_eq!(after.status, 0, "a base copy from after the gap: {}", after.errors);
    fs::remove_file(crashed.segment(newest)).expect("removed");
    crashed.is_hole(end, &[&format!("the archive had reached LSN {last}"), "put it back"]);
}
