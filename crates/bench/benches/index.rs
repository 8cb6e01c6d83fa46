//! Checking index pages with all rules, with and without the definition of their index, and unpacking compressed ones.
//!
//! `cargo bench -p innokit-bench --bench index`. The checksum of the same pages is beside it, for the ratio.
#![expect(missing_docs, clippy::unwrap_used, reason = "a benchmark, not an interface")]

use std::hint::black_box;
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use format::page::index::{IndexChecker, IndexPage, TreePlace};
use format::page::sdi::{self, SdiRecord};
use format::page::zip::Unpacker;
use format::record::RecordFields;
use format::schema::{IndexDef, builtin};
use format::{SpaceFormat, checksum};

fn fixture(name: &str) -> (Vec<u8>, SpaceFormat) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/mysql-9.7").join(name);
    let bytes = zstd::decode_all(std::fs::read(path).unwrap().as_slice()).unwrap();
    let format = SpaceFormat::from_page0(&bytes).unwrap();
    (bytes, format)
}

fn indexes(bytes: &[u8], format: &SpaceFormat) -> Vec<IndexDef> {
    let size = format.physical().bytes();
    let root = sdi::root(bytes.get(..size).unwrap(), format).unwrap().0 as usize;
    let page = IndexPage::parse(bytes.get(root * size..(root + 1) * size).unwrap(), format).unwrap();
    let record = page.records().next().unwrap().unwrap();
    let mut fields = RecordFields::new();
    builtin::sdi().unwrap().layout.locate(&record, &mut fields).unwrap();
    let object = SdiRecord::read(&record, &fields).unwrap();
    format::schema::sdi::from_sdi(&object.json(object.packed).unwrap()).unwrap().indexes
}

/// The leaves of the clustered index.
fn leaves<'b>(bytes: &'b [u8], format: &'b SpaceFormat, index: &'b IndexDef) -> Vec<&'b [u8]> {
    let pages = bytes.chunks_exact(format.physical().bytes());
    let leaf = |page: &&[u8]| {
        let page = IndexPage::parse(page, format).ok();
        page.is_some_and(|page| page.is_leaf() && Some(page.index_id()) == index.root.map(|root| root.id))
    };
    pages.filter(leaf).collect()
}

fn check(c: &mut Criterion) {
    let (bytes, format) = fixture("dynamic-16k.ibd.zst");
    let indexes = indexes(&bytes, &format);
    let index = indexes.first().unwrap();
    let pages = leaves(&bytes, &format, index);
    let mut group = c.benchmark_group("check");
    group.throughput(Throughput::Bytes(pages.iter().map(|page| page.len() as u64).sum()));
    for (name, index) in [("with fields", Some(index)), ("without fields", None)] {
        let (mut checker, mut findings) = (IndexChecker::new(), Vec::new());
        group.bench_function(name, |b| {
            b.iter(|| {
                for page in &pages {
                    let page = IndexPage::parse(black_box(page), &format).unwrap();
                    checker.check(&page, index, TreePlace::BelowRoot, &mut findings);
                }
                findings.len()
            });
        });
    }
    group.bench_function("checksum", |b| {
        b.iter(|| pages.iter().fold(0, |all, page| all ^ checksum::crc32(black_box(page))));
    });
    group.finish();
}

fn unpack(c: &mut Criterion) {
    let (bytes, format) = fixture("zip-4k.ibd.zst");
    let mut out = vec![0; format.logical().bytes()];
    let mut unpacker = Unpacker::new();
    let pages = bytes.chunks_exact(format.physical().bytes()).skip(3);
    let pages: Vec<&[u8]> = pages.filter(|page| unpacker.unpack(page, &format, &mut out).is_ok()).collect();
    let mut group = c.benchmark_group("unpack");
    group.throughput(Throughput::Bytes((pages.len() * format.logical().bytes()) as u64));
    group.bench_function("4 KiB to 16 KiB", |b| {
        b.iter(|| pages.iter().filter(|page| unpacker.unpack(black_box(page), &format, &mut out).is_ok()).count());
    });
    group.finish();
}

criterion_group!(benches, check, unpack);
criterion_main!(benches);
