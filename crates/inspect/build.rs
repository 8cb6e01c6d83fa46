//! Tests that need real servers run where `make test` says that they are; elsewhere they are named as not run.

fn main() {
    // `scripts/fuzz.sh` sets it: what only the fuzz targets see.
    println!("cargo::rustc-check-cfg=cfg(fuzzing)");
    println!("cargo::rustc-check-cfg=cfg(servers)");
    println!("cargo::rerun-if-env-changed=INNOKIT_DATADIRS");
    if std::env::var_os("INNOKIT_DATADIRS").is_some() {
        println!("cargo::rustc-cfg=servers");
    }
}
