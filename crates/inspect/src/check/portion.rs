//! `--part K/N`: one Nth of the files, and the same Nth tomorrow. `candidate -> hash of the name, stretch -> part`
//!
//! The part follows from a file's name alone: creating, dropping or growing other tables never moves it, so N nights with parts 1 to N read
//! every file that existed throughout. Long tablespaces are cut into stretches, dealt to the parts in turn from the one that the hash
//! selects. A stretch is a multiple of what one page of extent descriptors covers, so each part can compare zero pages with descriptors
//! that it has read itself.

use std::path::{Path, PathBuf};

use datadir::content::Content;
use datadir::inventory::Candidate;
use datadir::name::NameHint;
use datadir::space;

/// The smallest stretch, bytes: a multiple of what one page of descriptors covers, for pages of up to 4 KiB.
const STRETCH_MIN: u64 = 16 << 20;
/// A multiple of what one page of descriptors covers, for every page size, bytes.
const STRETCH_MAX: u64 = 4 << 30;

/// Part `number` of `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portion {
    number: u32,
    of: u32,
}

impl Portion {
    /// `None` if there is no such part; parts count from 1.
    #[must_use]
    pub fn new(number: u32, of: u32) -> Option<Self> {
        (1..=of).contains(&number).then_some(Self { number, of })
    }

    /// The number of this part.
    #[must_use]
    pub fn number(self) -> u32 {
        self.number
    }

    /// The number of parts.
    #[must_use]
    pub fn of(self) -> u32 {
        self.of
    }

    fn has(self, place: u64) -> bool {
        place % u64::from(self.of) == u64::from(self.number - 1)
    }
}

/// The share of a file that falls in the part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// Whether any of the file does.
    pub any: bool,
    /// Whether it has the file's start: here page 0's statements about the whole file are checked.
    pub first: bool,
    /// Whether it has the file's end: here the file's length is checked.
    pub last: bool,
    /// Bytes, `from..to`, ascending.
    pub stretches: Vec<(u64, u64)>,
}

impl Share {
    /// All of a file of `len` bytes.
    pub fn whole(len: u64) -> Self {
        Self { any: true, first: true, last: true, stretches: vec![(0, len)] }
    }

    /// Whether this is the whole file.
    pub fn is_whole(&self) -> bool {
        self.first && self.last && self.stretches.len() == 1
    }

    fn none() -> Self {
        Self { any: false, first: false, last: false, stretches: Vec::new() }
    }

    /// Whether the last of it ends there.
    pub fn ends_at(&self, byte: u64) -> bool {
        self.stretches.last().is_some_and(|(_, to)| *to == byte)
    }

    /// Bytes in this share.
    pub fn bytes(&self) -> u64 {
        self.stretches.iter().map(|(from, to)| to - from).sum()
    }

    /// The share of a file that falls in `portion`. `walked` are the directories the user named.
    pub fn of(portion: Option<Portion>, candidate: &Candidate, walked: &[PathBuf], page_size: Option<u32>) -> Self {
        let Some(portion) = portion else { return Self::whole(candidate.len) };
        // Doublewrite copies are judged with their tablespaces' formats. All go to part 1, which learns every format for the dictionary
        // anyway.
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

/// The length of the file's stretches; a file whose stretches would depend on each other is a single stretch.
fn stretch_of(candidate: &Candidate, page_size: Option<u32>) -> u64 {
    let is_alone = candidate.content == Content::Pages && !matches!(candidate.hint, NameHint::System(_));
    if !is_alone || candidate.len <= STRETCH_MIN {
        return u64::MAX;
    }
    // A page size given by the user overrides the file's own.
    let part = if page_size.is_some() { None } else { space::part_now(&candidate.path) };
    let region = part.map(|part| u64::from(part.format.physical().get()).pow(2));
    region.map_or(STRETCH_MAX, |region| region.max(STRETCH_MIN))
}

/// What gets hashed: the path below the directory the user named. All system tablespace files of a directory share one value, as do its
/// redo log files.
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

/// FNV-1a, 64 bits, both halves folded into one. It must be the same in every version, or an upgrade would move files to other parts.
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
        Candidate { hint: NameHint::of(&path), path, home: None, len, named: false, content }
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
        // If these numbers change, some files are read twice in a cycle and others not at all.
        assert_eq!(["a", "shop/orders.ibd"].map(|name| hash(name.as_bytes())), [0x2962_30c0, 0x436f_0778]);
    }
}
