//! `bench`: that each measures what it says.

#[path = "../bench_lab/mod.rs"]
mod bench_lab;
#[path = "../common/mod.rs"]
mod common;

mod bench;
mod bench_device;
