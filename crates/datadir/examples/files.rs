//! Lists the files below directories that are of InnoDB: `cargo run -p innokit-datadir --example files -- DIR`

use std::path::PathBuf;

use innokit_datadir::inventory::Inventory;

fn main() {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let inventory = Inventory::take(&paths);
    for file in &inventory.candidates {
        println!("{}: {:?}, {} bytes", file.path.display(), file.hint, file.len);
    }
    for file in &inventory.skipped {
        println!("{}: {}", file.path.display(), file.why);
    }
}
