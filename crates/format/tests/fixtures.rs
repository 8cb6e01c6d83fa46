//! Pages of real servers: every one is intact, and no single bit that its checksum covers can change unnoticed.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

use std::path::Path;
use std::sync::LazyLock;

use innokit_format::{Algorithm, PageId, PageNo, Scheme, SpaceFormat, Verdict, verify_page};
use proptest::prelude::*;

/// One page of a fixture.
struct Sample {
    file: String,
    id: PageId,
    format: SpaceFormat,
    algorithm: Algorithm,
    bytes: Vec<u8>,
}

/// Up to this many pages of each file: the first ones include every kind of page that small tables have.
const PAGES_OF_A_FILE: usize = 24;

/// The pages of all intact fixtures, except zero pages.
static SAMPLES: LazyLock<Vec<Sample>> = LazyLock::new(|| {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    ["mysql-9.7", "mariadb-10.11"].iter().flat_map(|folder| folder_samples(&fixtures.join(folder))).collect()
});

fn folder_samples(folder: &Path) -> Vec<Sample> {
    let entries = std::fs::read_dir(folder).expect("fixtures").map(|entry| entry.expect("an entry").path());
    let mut packed: Vec<_> = entries.filter(|path| path.extension().is_some_and(|kind| kind == "zst")).collect();
    packed.sort();
    assert!(packed.len() > 20, "{} has {} fixtures", folder.display(), packed.len());
    packed.iter().flat_map(|path| file_samples(path)).collect()
}

fn file_samples(path: &Path) -> Vec<Sample> {
    let bytes = zstd::decode_all(std::fs::read(path).expect("a fixture").as_slice()).expect("zstd");
    let format = SpaceFormat::from_page0(&bytes).expect("a tablespace");
    let pages = bytes.chunks_exact(format.physical().bytes()).zip(0..).take(PAGES_OF_A_FILE);
    let samples = pages.filter_map(|(page, number)| {
        let id = PageId { space: format.space(), page_no: PageNo(number) };
        match verify_page(page, id, &format) {
            Verdict::Ok(algorithm) => {
                Some(Sample { file: path.display().to_string(), id, format, algorithm, bytes: page.to_vec() })
            }
            Verdict::Empty => None,
            other => panic!("{}: page {number}: {other:?}", path.display()),
        }
    });
    samples.collect()
}

/// The bytes that a page's checksum covers or that are compared with something else (LSN halves, page number, space id), and the checksum
/// fields themselves. `none` covers nothing, so only those fields count.
fn guarded(sample: &Sample) -> Vec<usize> {
    let n = sample.bytes.len();
    let ranges: &[std::ops::Range<usize>] = match (sample.format.scheme(), sample.algorithm) {
        (Scheme::FullCrc32, _) => return (0..n).collect(),
        (Scheme::Zip, Algorithm::None) => &[0..8, 34..38],
        // No checksum of a compressed page covers the LSN and the field after the type.
        (Scheme::Zip, _) => &[0..16, 24..26, 34..n],
        (Scheme::Classic, Algorithm::None) => &[0..8, 20..24, 34..38, n - 8..n],
        (Scheme::Classic, _) => &[0..26, 34..n],
    };
    ranges.iter().cloned().flatten().collect()
}

#[test]
fn every_scheme_and_page_size_is_among_the_samples() {
    let mut kinds: Vec<_> =
        SAMPLES.iter().map(|s| (format!("{:?} {}", s.format.scheme(), s.algorithm), s.bytes.len())).collect();
    kinds.sort();
    kinds.dedup();
    for size in [4096, 8192, 16384, 32768, 65536] {
        for kind in ["Classic crc32", "Classic innodb", "Classic none", "FullCrc32 full_crc32"] {
            assert!(kinds.contains(&(kind.to_owned(), size)), "{kind}, {size} bytes: not in {kinds:?}");
        }
    }
    for size in [1024, 2048, 4096, 8192, 16384] {
        assert!(kinds.contains(&("Zip crc32".to_owned(), size)), "zip, {size} bytes: not in {kinds:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn any_flipped_bit_is_found(which in any::<prop::sample::Index>(), place in any::<prop::sample::Index>(), bit in 0..8_u8) {
        let sample = which.get(&SAMPLES);
        let places = guarded(sample);
        let at = *place.get(&places);
        let mut bytes = sample.bytes.clone();
        bytes[at] ^= 1 << bit;
        let verdict = verify_page(&bytes, sample.id, &sample.format);
        prop_assert!(
            matches!(verdict, Verdict::Corrupt(_)),
            "{}: {}: byte {at}, bit {bit}: {verdict:?}", sample.file, sample.id
        );
    }

    #[test]
    fn a_sound_page_in_another_place_is_named_as_misplaced(which in any::<prop::sample::Index>(), by in 1..1000_u32) {
        let sample = which.get(&SAMPLES);
        let elsewhere = PageId { space: sample.id.space, page_no: PageNo(sample.id.page_no.0 + by) };
        // The doublewrite area is the one place for copies of other pages, and MySQL takes page 0 of space 0 for a page that was never
        // initialised.
        prop_assume!(!sample.format.is_doublewrite_slot(elsewhere) && sample.id.space.0 != 0);
        match verify_page(&sample.bytes, elsewhere, &sample.format) {
            Verdict::Corrupt(corruption) => prop_assert_eq!(corruption.reason(), "misplaced_page"),
            verdict => prop_assert!(false, "{}: {}: {verdict:?}", sample.file, sample.id),
        }
    }
}
