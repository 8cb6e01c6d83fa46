//! URLs as paths, if this build reads them.

use std::error::Error;

use datadir::remote;

use crate::args::Command;
use crate::reading::Reading;

/// Lets commands read `s3://`, `gs://`, `az://` and `https://`. Nothing is started until one is used.
///
/// # Errors
/// An environment variable that configures the access has an unusable value.
#[cfg(feature = "cloud")]
pub fn install(command: &mut Command) -> Result<(), Box<dyn Error>> {
    remote::install(Box::new(cloud::Cloud::new(cloud::Policy::from_env()?)));
    enter(command);
    Ok(())
}

/// Without the feature, each URL is refused by name.
#[cfg(not(feature = "cloud"))]
pub fn install(command: &mut Command) -> Result<(), Box<dyn Error>> {
    enter(command);
    Ok(())
}

/// Strips the signatures from the URLs that the user named, so that no report repeats them.
fn enter(command: &mut Command) {
    if let Command::Diff(args) = command {
        for path in std::iter::once(&mut args.a).chain(&mut args.b) {
            *path = remote::entered(std::mem::take(path));
        }
    }
    let Some(reading) = Reading::of(command) else { return };
    for path in reading.paths {
        *path = remote::entered(std::mem::take(path));
    }
}
