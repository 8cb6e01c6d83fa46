//! Says whose redo log a file is: `cargo run -p innokit-redo --example kind -- ib_logfile0`

use std::error::Error;
use std::fs::File;
use std::io::Read;

use innokit_redo::{LogVendor, identify};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("name a file of a redo log")?;
    let mut head = Vec::new();
    File::open(path)?.take(512).read_to_end(&mut head)?;
    match identify(&head)? {
        LogVendor::MySql => println!("a redo log of MySQL"),
        LogVendor::MariaDb => println!("a redo log of MariaDB"),
    }
    Ok(())
}
