//! `--part K/N`: one Nth of the files, the same Nth tomorrow. `candidate -> name's hash, stretch -> part`
//!
//! A file's place follows from its name and not from its neighbours: tables that come, go or grow move no other file to another part, so
//! that N nights with the parts 1 to N read everything that was there all the time. Long tablespaces are cut into stretches, which go
//! round the parts from where the name's hash begins. A stretch is a multiple of what one page of extent descriptors describes, so that each part
//! can hold zero pages against descriptors that it has read itself.

use std::path::{Path, PathBuf};

use crate::source::content::Content;
use crate::source::datadir::Candidate;
use crate::source::name::NameHint;
use crate::source::space;

/// The smallest stretch, bytes: a multiple of what one page of descriptors describes where pages have 4 KiB or less.
const STRETCH_MIN: u64 = 16 << 20;
/// A multiple of that for pages of every size.
const STRETCH_MAX: u64 = 4 << 30;

/// Part `number` of `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portion {
    number: u32,
    of: u32,
}

impl Portion {
    /// `None` where there is no such part: they count from 1.
    #[must_use]
    pub fn new(number: u32, of: u32) -> Option<Self> {
        (1..=of).contains(&number).then_some(Self { number, of })
    }

    /// Which part.
    #[must_use]
    pub fn number(self) -> u32 {
        self.number
    }

    /// How many there are.
    #[must_use]
    pub fn of(self) -> u32 {
        self.of
    }

    fn has(self, place: u64) -> bool {
        place % u64::from(self.of) == u64::from(self.number - 1)
    }
}

/// What of a file is in the part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// Something.
    pub any: bool,
    /// Its beginning: what page 0 says of the whole file is said here.
    pub first: bool,
    /// Its end: what its length says is said here.
    pub last: bool,
    /// Bytes, `from..to`, ascending.
    pub stretches: Vec<(u64, u64)>,
}

impl Share {
    /// All of a file of `len` bytes.
    pub fn whole(len: u64) -> Self {
        Self { any: true, first: true, last: true, stretches: vec![(0, len)] }
    }

    /// Whether it is all of the file.
    pub fn is_whole(&self) -> bool {
        self.first && self.last && self.stretches.len() == 1
    }

    fn none() -> Self {
        Self { any: false, first: false, last: false, stretches: Vec::new() }
    }

    /// Bytes in the part.
    pub fn bytes(&self) -> u64 {
        self.stretches.iter().map(|(from, to)| to - from).sum()
    }

    /// The share that `portion` has of a file. `walked` are the directories that were named.
    pub fn of(portion: Option<Portion>, candidate: &Candidate, walked: &[PathBuf], page_size: Option<u32>) -> Self {
        let Some(portion) = portion else { return Self::whole(candidate.len) };
        // Copies of pages are judged by their tablespaces' formats, all of which the first part learns for the dictionary's sake.
        let place = if candidate.content == Content::Doublewrite { 0 } else { hash(&group(candidate, walked)) };
        let stretch = stretch_of(candidate, page_size);
        let count = candidate.len.div_ceil(stretch).max(1);
        let is_taken = |at: &u64| portion.has(place.wrapping_add(*at));
        let taken: Vec<u64> = (0..count).filter(is_taken).collect();
        if taken.is_empty() {
            return Self::none();
        }
        let bytes = |at: &u64| (at * stretch, ((at + 1) * stretch).min(candidate.len));
        Self {
            any: true,
            first: taken.first() == Some(&0),
            last: taken.last() == Some(&(count - 1)),
            stretches: taken.iter().map(bytes).collect(),
        }
    }
}

/// How long the stretches of a file are; it is one where they would depend on each other.
fn stretch_of(candidate: &Candidate, page_size: Option<u32>) -> u64 {
    let is_alone = candidate.content == Content::Pages && !matches!(candidate.hint, NameHint::System(_));
    if !is_alone || candidate.len <= STRETCH_MIN {
        return u64::MAX;
    }
    // The file's own word counts for nothing where the user knows better.
    let part = if page_size.is_some() { None } else { space::part_now(&candidate.path) };
    let region = part.map(|part| u64::from(part.format.physical().get()).pow(2));
    region.map_or(STRETCH_MAX, |region| region.max(STRETCH_MIN))
}

/// What decides about a file: its path below the directory that was named. The files of a system tablespace go together, and those of a redo log.
fn group(candidate: &Candidate, walked: &[PathBuf]) -> Vec<u8> {
    let path = &candidate.path;
    let root = walked.iter().filter(|root| path.starts_with(root)).max_by_key(|root| root.as_os_str().len());
    let below = match root {
        Some(root) => path.strip_prefix(root).unwrap_or(path),
        None => path.file_name().map_or(path.as_path(), Path::new),
    };
    let shared = match candidate.hint {
        NameHint::System(_) => Some("ibdata"),
        NameHint::Redo => Some("redo"),
        _ => None,
    };
    let named = shared.map(|name| below.with_file_name(name));
    named.as_deref().unwrap_or(below).as_os_str().as_encoded_bytes().to_vec()
}

/// FNV-1a, 64 bits, with its halves joined: the same in every version, or files would change their parts with an upgrade.
fn hash(bytes: &[u8]) -> u64 {
    let sum = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
    (sum ^ (sum >> 32)) & 0xffff_ffff
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(path: &str, len: u64, content: Content) -> Candidate {
        let path = PathBuf::from(path);
        Candidate { hint: NameHint::of(&path), path, len, named: false, content }
    }

    fn share(number: u32, of: u32, candidate: &Candidate) -> Share {
        Share::of(Portion::new(number, of), candidate, &["/d".into()], Some(16384))
    }

    #[test]
    fn parts_count_from_one() {
        assert!(Portion::new(0, 3).is_none() && Portion::new(4, 3).is_none() && Portion::new(1, 0).is_none());
        assert!(Portion::new(1, 1).is_some() && Portion::new(3, 3).is_some());
    }

    #[test]
    fn every_byte_is_in_exactly_one_part() {
        for of in [1, 2, 7] {
            for len in [0, 1, STRETCH_MAX, STRETCH_MAX + 1, 9 * STRETCH_MAX + 5] {
                let file = candidate("/d/shop/orders.ibd", len, Content::Pages);
                let shares: Vec<Share> = (1..=of).map(|number| share(number, of, &file)).collect();
                let mut all: Vec<(u64, u64)> = shares.iter().flat_map(|share| share.stretches.clone()).collect();
                all.sort_unstable();
                assert_eq!(all.first().map(|first| first.0), Some(0));
                assert_eq!(all.last().map(|last| last.1), Some(len));
                assert!(all.windows(2).all(|pair| matches!(pair, [a, b] if a.1 == b.0)), "{all:?}");
                let count = |has: fn(&Share) -> bool| shares.iter().filter(|share| has(share)).count();
                assert_eq!(
                    (count(|share| share.first), count(|share| share.last)),
                    (1, 1),
                    "{len} bytes in {of} parts"
                );
            }
        }
    }

    #[test]
    fn long_files_go_round_the_parts() {
        let file = candidate("/d/shop/orders.ibd", 70 * STRETCH_MAX, Content::Pages);
        assert!((1..=7).all(|number| share(number, 7, &file).bytes() == 10 * STRETCH_MAX));
    }

    #[test]
    fn what_must_be_read_together_is_in_one_part() {
        let of = 7;
        let part_of = |file: &Candidate| (1..=of).find(|number| share(*number, of, file).any);
        let pages = |path: &str| candidate(path, 1, Content::Pages);
        let redo = |path: &str| candidate(path, 1, Content::Redo);
        assert_eq!(part_of(&pages("/d/ibdata1")), part_of(&pages("/d/ibdata2")));
        assert_eq!(part_of(&redo("/d/#innodb_redo/#ib_redo7")), part_of(&redo("/d/#innodb_redo/#ib_redo8")));
        assert_eq!(part_of(&candidate("/d/#ib_16384_0.dblwr", 1, Content::Doublewrite)), Some(1));
        let system = candidate("/d/ibdata1", 9 * STRETCH_MAX, Content::Pages);
        assert_eq!((1..=of).filter(|number| share(*number, of, &system).any).count(), 1);
    }

    #[test]
    fn a_name_keeps_its_part() {
        // A change of these numbers would have files read twice in a week, and others not at all.
        assert_eq!(["a", "shop/orders.ibd"].map(|name| hash(name.as_bytes())), [0x2962_30c0, 0x436f_0778]);
    }
}
