//! Version, help, and the table of variables that `--verbose` prints.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::PathBuf;

use recovery::innochecksum::ChecksumKind;

use super::options::{DEFINITIONS, Definition, OptionKind, Options, TABLESPACE_FLAGS};

/// The version of the original that this one reproduces.
const ORIGINAL: &str = "9.7";
/// Column of the option descriptions.
const COLUMN: usize = 22;

/// `-V`: one line.
pub fn version(program: &str, out: &mut impl Write) -> io::Result<()> {
    let (ours, system, machine) = (env!("CARGO_PKG_VERSION"), std::env::consts::OS, std::env::consts::ARCH);
    writeln!(out, "{program}  Ver {ORIGINAL} (innokit {ours}) for {system} on {machine}")
}

/// `-?`.
pub fn help(program: &str, out: &mut impl Write) -> io::Result<()> {
    version(program, out)?;
    writeln!(out, "\nVerifies, counts and rewrites the checksums of InnoDB files.")?;
    writeln!(out, "Usage: {program} [options] FILE|- ...")?;
    writeln!(out, "Options and output are those of MySQL's innochecksum; `innokit check` does more, and faster.\n")?;
    for definition in DEFINITIONS.iter().chain([&TABLESPACE_FLAGS]) {
        option(definition, out)?;
    }
    variables(None, out)
}

fn option(&(letter, name, kind, what): &Definition, out: &mut impl Write) -> io::Result<()> {
    let name = name.replace('_', "-");
    let value = match kind {
        OptionKind::Now | OptionKind::Flag => "",
        OptionKind::Number => "=#",
        OptionKind::Checksum | OptionKind::Text => "=name",
    };
    let letter = if letter == '\0' { "    ".to_owned() } else { format!("-{letter}, ") };
    let head = format!("  {letter}--{name}{value}");
    if head.len() < COLUMN {
        writeln!(out, "{head:COLUMN$}{what}")
    } else {
        writeln!(out, "{head}\n{:COLUMN$}{what}", "")
    }
}

/// The table of options in force, or of the defaults if there are no options. It lists MySQL's options in MySQL's form, and MariaDB's only
/// if set.
pub fn variables(options: Option<&Options>, out: &mut impl Write) -> io::Result<()> {
    let defaults = Options::default();
    let shown = options.unwrap_or(&defaults);
    writeln!(
        out,
        "\nVariables (--variable-name=value)\nand boolean options {{FALSE|TRUE}}  Value (after reading options)"
    )?;
    writeln!(out, "{:-<33} {:-<40}", "", "")?;
    let mut table = String::new();
    for &(_, name, kind, _) in &DEFINITIONS {
        if kind == OptionKind::Now || (is_mariadb(name) && !is_set(name, shown)) {
            continue;
        }
        let name = name.replace('_', "-");
        // Writing into a String cannot fail.
        writeln!(table, "{name:<33} {}", value(&name, shown)).map_err(io::Error::other)?;
    }
    out.write_all(table.as_bytes())
}

fn is_mariadb(name: &str) -> bool {
    matches!(name, "per-page-details" | "leaf" | "merge" | "skip-freed-pages")
}

/// MariaDB's options are listed only if they are set, so that MySQL's table looks as it always did.
fn is_set(name: &str, options: &Options) -> bool {
    match name {
        "per-page-details" => options.per_page,
        "leaf" => options.leaf,
        "merge" => options.merge != 0,
        _ => options.skip_freed,
    }
}

fn value(name: &str, options: &Options) -> String {
    let flag = |on: bool| if on { "TRUE" } else { "FALSE" }.to_owned();
    let text = |path: &Option<PathBuf>| {
        path.as_ref().map_or_else(|| "(No default value)".to_owned(), |path| path.display().to_string())
    };
    let checksum = |checksum: Option<ChecksumKind>| checksum.unwrap_or(ChecksumKind::Crc32).name().to_owned();
    match name {
        "verbose" => flag(options.verbose),
        "count" => flag(options.count),
        "start-page" => options.start.to_string(),
        "end-page" => options.end.to_string(),
        "page" => options.page.to_string(),
        "strict-check" => checksum(options.strict),
        "no-check" => flag(options.no_check),
        "allow-mismatches" => options.allow.to_string(),
        "write" => checksum(options.write),
        "page-type-summary" => flag(options.summary),
        "page-type-dump" => text(&options.dump),
        "log" => text(&options.log),
        "per-page-details" => flag(options.per_page),
        "leaf" => flag(options.leaf),
        "merge" => options.merge.to_string(),
        _ => flag(options.skip_freed),
    }
}
