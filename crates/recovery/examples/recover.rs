//! Recovers a copy of a datadir that a crash has left: `cargo run -p innokit-recovery --example recover -- DATADIR COPY`

use std::error::Error;
use std::path::PathBuf;

use innokit_recovery::{RecoverOptions, recover};

fn main() -> Result<(), Box<dyn Error>> {
    let mut paths = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(datadir), Some(copy)) = (paths.next(), paths.next()) else {
        return Err("name a datadir and a copy".into());
    };
    let recovered = recover(&datadir, &RecoverOptions { to: Some(copy), ..RecoverOptions::default() })?;
    println!("LSN {} to {}: {} pages changed", recovered.checkpoint_lsn, recovered.end_lsn, recovered.pages_changed);
    Ok(())
}
