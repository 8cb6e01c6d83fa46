//! What innokit sees of a bucket: `cargo run -p innokit-cloud --example list -- s3://bucket/prefix/`. Credentials come from where the cloud's
//! own command line has them.

use std::error::Error;
use std::path::{Path, PathBuf};

use datadir::remote::Remote;
use innokit_cloud::{Cloud, Policy};

fn main() -> Result<(), Box<dyn Error>> {
    let prefix = PathBuf::from(std::env::args_os().nth(1).ok_or("name a prefix: s3://bucket/prefix/")?);
    let cloud = Cloud::new(Policy::from_env()?);
    cloud.named(&prefix)?;
    list(&cloud, &prefix)
}

fn list(cloud: &Cloud, prefix: &Path) -> Result<(), Box<dyn Error>> {
    for (name, meta) in cloud.list(prefix)? {
        let path = prefix.join(name);
        if meta.is_dir {
            list(cloud, &path)?;
        } else {
            println!("{:>15} {}", meta.len, path.display());
        }
    }
    Ok(())
}
