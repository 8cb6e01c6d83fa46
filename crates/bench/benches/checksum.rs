//! Verifying pages that are in the processor's second-level cache: what `verify_page` costs where reading costs nothing.
//!
//! `cargo bench -p innokit-bench --bench checksum`. The bare CRC of the same bytes is beside it, for the ratio.
#![expect(missing_docs, clippy::unwrap_used, reason = "a benchmark, not an interface")]

use crc::{CRC_32_ISCSI, CRC_32_ISO_HDLC, Crc, Table};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use format::{
    Algorithm, Family, Lsn, PageId, PageNo, PageSize, Scheme, SpaceFormat, SpaceId, checksum, seal_page, verify_page,
};
use std::hint::black_box;

const SPACE: u32 = 5;
const LSN: Lsn = Lsn(0x1234_5678);
/// As much as stays in the second-level cache of current processors.
const BYTES: usize = 512 * 1024;

fn sealed_pages(format: &SpaceFormat, algorithm: Algorithm) -> Vec<u8> {
    let size = format.physical().bytes();
    let mut pages: Vec<u8> = (0..BYTES).map(|at| (at * 31 + at / 251) as u8).collect();
    for (page_no, page) in (0_u32..).zip(pages.chunks_exact_mut(size)) {
        page.get_mut(..8).unwrap().copy_from_slice(&u64::from(page_no).to_be_bytes());
        page.get_mut(24..26).unwrap().copy_from_slice(&17_855_u16.to_be_bytes());
        page.get_mut(34..38).unwrap().copy_from_slice(&SPACE.to_be_bytes());
        seal_page(page, LSN, algorithm, format).unwrap();
    }
    pages
}

fn verify_all(pages: &[u8], format: &SpaceFormat) -> usize {
    let numbered = (0_u32..).zip(pages.chunks_exact(format.physical().bytes()));
    numbered
        .filter(|&(page_no, page)| {
            let id = PageId { space: SpaceId(SPACE), page_no: PageNo(page_no) };
            matches!(verify_page(black_box(page), id, format), format::Verdict::Ok(_))
        })
        .count()
}

fn verify(c: &mut Criterion) {
    let mut group = c.benchmark_group("verify_page");
    group.throughput(Throughput::Bytes(BYTES as u64));
    let cases = [
        (Family::MySql, Scheme::Classic, Algorithm::Crc32),
        (Family::MySql, Scheme::Zip, Algorithm::Crc32),
        (Family::MariaDb, Scheme::FullCrc32, Algorithm::FullCrc32),
        (Family::MySql, Scheme::Classic, Algorithm::Innodb),
    ];
    for (family, scheme, algorithm) in cases {
        for size in [PageSize::new(4096), Some(PageSize::DEFAULT)].into_iter().flatten() {
            let format = SpaceFormat::new(family, scheme, size, size, SpaceId(SPACE)).unwrap();
            let pages = sealed_pages(&format, algorithm);
            assert_eq!(verify_all(&pages, &format), BYTES / size.bytes());
            let name = format!("{scheme:?}/{algorithm}");
            group.bench_function(BenchmarkId::new(name, size), |b| b.iter(|| verify_all(&pages, &format)));
        }
    }
    group.finish();
}

fn kernels(c: &mut Criterion) {
    let bytes: Vec<u8> = (0..BYTES).map(|at| (at * 31) as u8).collect();
    let zeros = vec![0_u8; BYTES];
    let mut group = c.benchmark_group("kernels");
    group.throughput(Throughput::Bytes(BYTES as u64));
    group.bench_function("crc32c of 16 KiB pieces", |b| {
        b.iter(|| bytes.chunks_exact(16_384).fold(0, |all, page| all ^ checksum::crc32c(black_box(page))));
    });
    group.bench_function("is_zero", |b| b.iter(|| format::bytes::is_zero(black_box(&zeros))));
    group.finish();
}

type CrcOf = fn(&[u8]) -> u32;

/// The crate that innokit takes for its CRCs beside other well-kept ones, at every size of a page.
fn crc_crates(c: &mut Criterion) {
    static CASTAGNOLI: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);
    static ZLIB: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISO_HDLC);
    let contenders: [(&str, CrcOf); 6] = [
        ("CRC-32C/crc-fast", checksum::crc32c),
        ("CRC-32C/crc32c", crc32c::crc32c),
        ("CRC-32C/crc", |page| CASTAGNOLI.checksum(page)),
        ("CRC-32/crc-fast", crc_fast::crc32_iso_hdlc),
        ("CRC-32/crc32fast", crc32fast::hash),
        ("CRC-32/crc", |page| ZLIB.checksum(page)),
    ];
    let bytes: Vec<u8> = (0..BYTES).map(|at| (at * 31) as u8).collect();
    let mut group = c.benchmark_group("crc crates");
    group.throughput(Throughput::Bytes(BYTES as u64));
    for size in PageSize::ALL {
        for (name, crc) in contenders {
            group.bench_function(BenchmarkId::new(name, size), |b| {
                b.iter(|| bytes.chunks_exact(size.bytes()).fold(0, |all, page| all ^ crc(black_box(page))));
            });
        }
    }
    group.finish();
}

/// The `innodb` checksum of pages one by one, and of 4, 8 and 16 side by side.
fn innodb(c: &mut Criterion) {
    let bytes: Vec<u8> = (0..1 << 20).map(|at: usize| (at * 31 + at / 251) as u8).collect();
    let mut group = c.benchmark_group("innodb");
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    for size in PageSize::ALL.map(PageSize::bytes) {
        group.bench_function(BenchmarkId::new("one by one", size), |b| {
            b.iter(|| bytes.chunks_exact(size).fold(0, |all, page| all ^ checksum::innodb_new(black_box(page))));
        });
        for together in [4, 8, 16] {
            group.bench_function(BenchmarkId::new(format!("{together} together"), size), |b| {
                let groups = || bytes.chunks_exact(size * together);
                b.iter(|| {
                    groups().map(|pages| checksum::innodb_new_many(black_box(pages), size)).fold(0, |n, s| n ^ s[0])
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, verify, kernels, crc_crates, innodb);
criterion_main!(benches);
