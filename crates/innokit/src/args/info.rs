//! `innokit info`.

use std::path::PathBuf;

use clap::Args;

use crate::options::keys::KeyArgs;
use crate::options::selection::SelectionArgs;
use crate::options::sizes::page_size;
use crate::options::view::ViewArgs;
use crate::picture;

pub(super) const INFO_EXAMPLES: &str = "\
Examples:
  innokit info shop/orders.ibd                    contents and fill level
  innokit info --json shop/*.ibd                  one JSON document
  innokit info shop/orders.ibd --map orders.svg   also draw page types, fill and age over the file

Exit status:
  0  all files described
  1  damage found: pages are only counted here, `innokit check` says more
  2  a file could not be read";

/// Options of `info`.
#[derive(Debug, Args)]
pub struct InfoArgs {
    /// Files: tablespaces, redo logs, binary logs, anything from a datadir or a backup.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// Draw the tablespace (one only) to this .svg or .png file, which is replaced.
    #[arg(long, value_name = "FILE", value_parser = picture::named)]
    pub map: Option<PathBuf>,

    /// Describe every file, however many there are [default: a summary of more than 40].
    #[arg(long)]
    pub all: bool,

    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,

    /// Use this page size (4K to 64K), whatever the files say.
    #[arg(long, value_name = "SIZE", value_parser = page_size)]
    pub page_size: Option<u32>,

    /// Workers [default: the cores available to the process].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,

    #[command(flatten)]
    pub keys: KeyArgs,

    #[command(flatten)]
    pub selected: SelectionArgs,

    #[command(flatten)]
    pub view: ViewArgs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_an_svg_or_a_png_and_never_a_tablespace() {
        assert!(picture::named("a.svg").is_ok() && picture::named("dir/a.PNG").is_ok());
        assert!(picture::named("t.ibd").is_err() && picture::named("svg").is_err());
    }
}
