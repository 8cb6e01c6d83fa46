//! `innokit completions` and `innokit man`: both are generated from the clap definitions, so neither can disagree with `--help`.

use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::terminal;

/// Prints the completions of one shell.
pub fn completions(args: &CompletionsArgs) -> Result<u8, Box<dyn Error>> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "innokit", &mut text);
    print(&text)
}

/// Prints one manual page, or writes all of them.
pub fn man(args: &ManArgs) -> Result<u8, Box<dyn Error>> {
    let root = built();
    match &args.dir {
        Some(dir) => {
            fs::create_dir_all(dir)?;
            write_pages(&root, dir)?;
            Ok(0)
        }
        None => print(&page(find(&root, &args.command)?)?),
    }
}

/// The command line with every subcommand's full name filled in: `innokit-table-check`.
fn built() -> Command {
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    root
}

/// The command that `words` name below `root`.
fn find<'c>(root: &'c Command, words: &[String]) -> Result<&'c Command, String> {
    words.iter().try_fold(root, |command, word| {
        command.find_subcommand(word).ok_or_else(|| {
            let known: Vec<&str> = visible(command).map(Command::get_name).collect();
            match known.as_slice() {
                [] => format!("`{}` has no subcommands, so there is no `{word}`", command.get_name()),
                known => format!("`{}` has no command `{word}`: it has {}", command.get_name(), known.join(", ")),
            }
        })
    })
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|sub| !sub.is_hide_set())
}

fn page(command: &Command) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    // No date: the version says which release the page describes, and a date would make every build differ.
    Man::new(command.clone()).date("").source(concat!("innokit ", env!("CARGO_PKG_VERSION"))).render(&mut text)?;
    Ok(text)
}

fn write_pages(command: &Command, dir: &Path) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    fs::write(dir.join(format!("{name}.1")), page(command)?)?;
    visible(command).try_for_each(|sub| write_pages(sub, dir))
}

fn print(text: &[u8]) -> Result<u8, Box<dyn Error>> {
    match terminal::data().write_all(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(0),
    }
}
