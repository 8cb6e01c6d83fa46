//! Measures every checksum by every path that the processor has: `cargo run --release -p innokit-bench --example kernels`

use innokit_bench::kernels::{KernelsOptions, kernels};

fn main() {
    let report = kernels(&KernelsOptions::default(), &mut |step, _, _| eprintln!("{step}"));
    println!("{report:#?}");
}
