//! `innokit innochecksum --write` on a 50 MB tablespace, killed over and over: every page is old or new, and the next run completes.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Dir, fixture, innokit, is_soak};
use format::{Algorithm, PageId, SpaceFormat, Verdict, checksum, verify_page};

const PAGE: usize = 16384;
const PAGES: usize = 3200;
/// Some runs end before they are killed: how long one takes depends on the machine's load.
const RUNS_FOR_EACH: usize = 20;
/// Each run asks for the next algorithm, so there is always something to write.
const TARGETS: [(&str, Algorithm); 3] =
    [("none", Algorithm::None), ("innodb", Algorithm::Innodb), ("crc32", Algorithm::Crc32)];

/// `make soak` kills more often.
fn kills() -> usize {
    if is_soak() { 50 } else { 20 }
}

/// A tablespace of any size: page 0 and copies of the other pages, each with its own page number and a correct checksum.
fn large_tablespace() -> Vec<u8> {
    let source = fixture("mysql-9.7/dynamic-16k.ibd");
    let mut bytes = source[..PAGE].to_vec();
    bytes.reserve(PAGE * PAGES);
    for number in 1..u32::try_from(PAGES).expect("few") {
        let from = 4 + number as usize % 16;
        let start = bytes.len();
        bytes.extend_from_slice(&source[from * PAGE..(from + 1) * PAGE]);
        let page = &mut bytes[start..];
        page[4..8].copy_from_slice(&number.to_be_bytes());
        let checksum = checksum::crc32(page).to_be_bytes();
        page[..4].copy_from_slice(&checksum);
        page[PAGE - 8..PAGE - 4].copy_from_slice(&checksum);
    }
    bytes
}

fn write(path: &Path, target: &str, more: &[&str]) -> Command {
    let mut command = innokit();
    command.args(["innochecksum", "--write", target]).args(more).arg(path).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// The checksum stored in each page; `None` for a page that is neither old nor new: torn, or changed elsewhere.
fn states(path: &Path, original: &[u8]) -> Vec<Option<Algorithm>> {
    let bytes = std::fs::read(path).expect("read");
    assert_eq!(bytes.len(), original.len());
    let format = SpaceFormat::from_page0(original).expect("a tablespace");
    let pages = bytes.chunks_exact(PAGE).zip(original.chunks_exact(PAGE)).zip(0..);
    pages
        .map(|((page, original), number)| {
            let same = page[4..PAGE - 8] == original[4..PAGE - 8] && page[PAGE - 4..] == original[PAGE - 4..];
            match verify_page(page, PageId::new(format.space().0, number), &format) {
                Verdict::Ok(algorithm) if same => Some(algorithm),
                _ => None,
            }
        })
        .collect()
}

/// Simulates a power cut on top: half of the first page in a complete journal does not reach the disk. Returns whether there is such a
/// journal.
fn lose_sectors(path: &Path, journal: &Path) -> bool {
    let offset = first_saved_page(&std::fs::read(journal).unwrap_or_default());
    if let Some(offset) = offset {
        let file = std::fs::OpenOptions::new().write(true).open(path).expect("opened");
        file.write_all_at(&[0; PAGE / 2], offset + PAGE as u64 / 2).expect("written");
    }
    offset.is_some()
}

/// The offset of the first page in the first batch of a shadow file (`crates/flow/src/rewrite/shadow.rs`), if that batch is complete.
fn first_saved_page(journal: &[u8]) -> Option<u64> {
    let opening = journal.get(..64)?;
    let batch = journal.get(4096..)?;
    let word = |offset: usize| Some(u32::from_be_bytes(*batch.get(offset..)?.first_chunk()?));
    let long = |offset: usize| Some(u64::from_be_bytes(*batch.get(offset..)?.first_chunk()?));
    let body_len = usize::try_from(long(40)?.checked_add(long(48)?)?).ok()?;
    let body = batch.get(64..)?.get(..body_len)?;
    let is_whole = word(60)? == checksum::crc32c(&batch[..60]) && word(56)? == checksum::crc32c(body);
    // Leftovers of an older chain may follow the new one.
    let is_next = batch[8..24] == opening[8..24] && long(24)? == 1;
    let piece = 64 + 8 + usize::try_from(word(68)?).ok()?;
    if is_whole && is_next { long(piece + 8) } else { None }
}

/// Deterministic numbers below `limit` (xorshift), so a failure can be repeated as far as timing allows.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit.max(1)
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "takes minutes: make test")]
fn kills_leave_every_page_old_or_new_and_the_next_run_finishes() {
    let dir = Dir::new();
    let original = large_tablespace();
    let path = dir.file("large.ibd", &original);
    let journal = dir.path().join("large.ibd.innochecksum-journal");
    assert!(states(&path, &original).iter().all(|state| *state == Some(Algorithm::Crc32)), "sound at first");

    let begin = Instant::now();
    assert!(write(&path, "innodb", &[]).status().expect("runs").success());
    // An upper bound on how long a run takes, lowered by each run that ends before it is killed.
    let mut whole_us = u64::try_from(begin.elapsed().as_micros()).expect("short");

    let (kills, runs_max) = (kills(), RUNS_FOR_EACH * kills());
    let seed = 0x9E37_79B9_7F4A_7C15;
    let mut random = Numbers(seed);
    let (mut interrupted, mut mixed, mut journals, mut torn, mut lost) = (0, 0, 0, 0, 0);
    // The journal of the previous run, which the next one completes before its own work.
    let mut pending = Vec::new();
    for (kill, (target, wanted)) in (0..runs_max).zip(TARGETS.into_iter().cycle()) {
        if interrupted == kills {
            break;
        }
        let before = states(&path, &original);
        let mut child = write(&path, target, &[]).spawn().expect("runs");
        std::thread::sleep(Duration::from_micros(random.below(whole_us)));
        child.kill().expect("killed");
        let was_killed = child.wait().expect("ended").code().is_none();
        interrupted += usize::from(was_killed);
        whole_us = if was_killed { whole_us + whole_us / 50 } else { whole_us - whole_us / 10 };
        journals += usize::from(journal.exists());
        lost += usize::from(lose_sectors(&path, &journal));
        let mut after = states(&path, &original);
        let ragged = after.iter().filter(|state| state.is_none()).count();
        torn += ragged;
        if ragged > 0 {
            // Only pages in the journal may be torn in place. A run over page 0 alone must complete the journal.
            assert!(journal.exists(), "kill {kill}: {ragged} torn pages and no journal (seed {seed:#x})");
            assert!(write(&path, target, &["--page", "0"]).status().expect("runs").success());
            after = states(&path, &original);
        }
        for (number, (old, new)) in before.iter().zip(&after).enumerate() {
            let known = new == old || *new == Some(wanted) || new.is_some_and(|new| pending.contains(&new));
            assert!(new.is_some() && known, "kill {kill}: page {number}: {old:?} -> {new:?} (seed {seed:#x})");
        }
        if journal.exists() {
            pending.push(wanted)
        } else {
            pending.clear()
        }
        mixed += usize::from(after.contains(&Some(wanted)) && after.iter().any(|state| *state != Some(wanted)));
    }
    println!(
        "{interrupted} of {kills} killed, {mixed} half done, {journals} journals left, {torn} pages torn in place, {lost} by us"
    );
    assert!(interrupted == kills, "only {interrupted} of {runs_max} runs were killed before they ended");
    assert!(lost > 0 && mixed > 0, "the kills came too early: {lost} whole journals, {mixed} half done");

    assert!(write(&path, "crc32", &[]).status().expect("runs").success());
    assert!(!journal.exists(), "nothing is left over");
    assert_eq!(std::fs::read(&path).expect("read"), original, "the way back leads to the very same bytes");
}
