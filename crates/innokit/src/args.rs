//! The command line: what can be asked for, in the words of the help text.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use jobs::source::keys::KeyFiles;

use crate::bench::args::BenchArgs;
use crate::picture;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Verifies InnoDB files of MySQL and MariaDB without a server, at the speed of the hardware.
#[derive(Debug, Parser)]
#[command(name = "innokit", version, styles = STYLES, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Verify tablespaces, datadirs and backups: every page's checksum, place and LSN, and pages that went missing.
    #[command(after_help = CHECK_EXAMPLES)]
    Check(CheckArgs),
    /// Describe files: what they are, page types, space use by index, LSNs, encryption; `--map` draws a tablespace.
    #[command(after_help = INFO_EXAMPLES)]
    Info(InfoArgs),
    /// Look into redo logs.
    Redo {
        /// What to do.
        #[command(subcommand)]
        command: RedoCommand,
    },
    /// Recover a datadir of MariaDB that a crash or a snapshot left, so that its server starts at once.
    #[command(after_help = RECOVER_EXAMPLES)]
    Recover(RecoverArgs),
    /// Look at tables: every page of every index against every rule, or rows counted, without a server.
    #[command(subcommand)]
    Table(TableCommand),
    /// Stand in for MySQL's innochecksum: its options, messages and exit status (also when called by that name).
    #[command(disable_help_flag = true)]
    Innochecksum(InnochecksumArgs),
    /// Measure what this machine can do, and what patterns of databases get of it.
    Bench(BenchArgs),
    /// Check a small sample that is built in, with one planted damage, and see what a report looks like.
    Demo,
}

const CHECK_EXAMPLES: &str = "\
Examples:
  innokit check /var/lib/mysql              a whole datadir
  innokit check backup/ -q && echo good     only findings, then the exit status
  innokit check --json t1.ibd t2.ibd        one JSON document
  innokit check backup.xb                   a backup stream, also compressed
  mariadb-backup --backup --stream=xbstream | innokit check -
  innokit check --live --rate 200M /var/lib/mysql
                                            files that a server has open

Exit status:
  0  all well
  1  damage found
  2  some of the work could not be done: a file could not be read, a page could not be decided";

const INFO_EXAMPLES: &str = "\
Examples:
  innokit info shop/orders.ibd                    what is in it, and how full it is
  innokit info --json shop/*.ibd                  one JSON document
  innokit info shop/orders.ibd --map orders.svg   also draw page types, fill and age over the file

Exit status:
  0  all files described
  1  damage found: pages are counted here, `innokit check` says more
  2  a file could not be read";

/// The commands of `redo`.
#[derive(Debug, Subcommand)]
pub enum RedoCommand {
    /// Describe a redo log: checkpoints, LSNs, what it changes since the checkpoint, by record type, tablespace and page.
    #[command(after_help = REDO_INFO_EXAMPLES)]
    Info(RedoInfoArgs),
}

const REDO_INFO_EXAMPLES: &str = "\
Examples:
  innokit redo info /var/lib/mysql                       the log of a datadir
  innokit redo info --json ib_logfile0                   one JSON document
  innokit redo info --key-file keys.txt /var/lib/mysql   an encrypted log of MariaDB

Exit status:
  0  described
  1  the log is damaged at its newest checkpoint
  2  it could not be read, or is no redo log";

const RECOVER_EXAMPLES: &str = "\
Examples:
  innokit recover --to /srv/recovered /mnt/snapshot   recover a copy, leave the snapshot as it is
  innokit recover --dry-run /mnt/snapshot             say what would be done
  innokit recover /srv/datadir                        in place; killed at any moment, a second run goes on
  innokit recover --until 80703969 --to new /mnt/snap  what was committed by that LSN, if no file is later
  innokit recover --key-file keys.txt /srv/datadir    an encrypted one, with the server's keys

For MariaDB 10.5 and later. What unfinished transactions did is undone by the server when it starts.
Refused before anything is written: what is encrypted, without its keys.

Exit status:
  0  recovered, or there was nothing to do
  1  the log, or a page that it changes, is damaged
  2  it could not be done";

/// Options of `recover`.
#[derive(Debug, Args)]
pub struct RecoverArgs {
    /// A datadir on which no server runs.
    #[arg(value_name = "DATADIR")]
    pub datadir: PathBuf,

    /// Recover a copy, made here (blocks are shared where the file system can), and leave the datadir as it is.
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,

    /// Do everything but write, and say what would be done.
    #[arg(long)]
    pub dry_run: bool,

    /// End at this LSN, as if the server had died there, and drop what is behind it in the log. Refused where files are later.
    #[arg(long, value_name = "LSN")]
    pub until: Option<u64>,

    /// Bytes of memory to work in, at least 64M. If the redo does not fit, the log is read several times.
    #[arg(long, value_name = "SIZE", value_parser = bytes, default_value = "512M")]
    pub memory: u64,

    /// Say on standard error how much memory was used.
    #[arg(short, long)]
    pub verbose: bool,

    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,

    /// The server's key file (file_key_management), and what opens it if it is encrypted: the key, or `FILE:` and a path. Encrypted
    /// logs and tablespaces are recovered with it, and stay encrypted.
    #[arg(long, value_name = "FILE[,FILEKEY]", value_parser = key_file)]
    pub key_file: Option<(PathBuf, Option<String>)>,
}

/// Options of `redo info`.
#[derive(Debug, Args)]
pub struct RedoInfoArgs {
    /// A datadir, or a file of its redo log.
    #[arg(value_name = "PATH")]
    pub path: PathBuf,

    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,

    /// List the N pages with the most records.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub pages: usize,

    /// MariaDB's key file (file_key_management), and what opens it if it is encrypted: the key, or `FILE:` and a path.
    #[arg(long, value_name = "FILE[,FILEKEY]", value_parser = key_file)]
    pub key_file: Option<(PathBuf, Option<String>)>,
}

/// Options that name what opens encrypted files.
#[derive(Debug, Args)]
pub struct KeyArgs {
    /// MySQL's keyring: the data file of component_keyring_file or of the keyring_file plugin (may be given several times).
    #[arg(long, value_name = "FILE", help_heading = "Keys")]
    pub keyring: Vec<PathBuf>,

    /// MariaDB's key file (file_key_management), and what opens it if it is encrypted: the key, or `FILE:` and a path.
    #[arg(long, value_name = "FILE[,FILEKEY]", value_parser = key_file, help_heading = "Keys")]
    pub key_file: Option<(PathBuf, Option<String>)>,
}

impl KeyArgs {
    /// The files that were named.
    pub fn files(&self) -> KeyFiles {
        KeyFiles { keyrings: self.keyring.clone(), key_file: self.key_file.clone() }
    }
}

/// Options of `info`.
#[derive(Debug, Args)]
pub struct InfoArgs {
    /// Files: tablespaces, redo logs, binary logs, whatever lies in a datadir or a backup.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// Draw the (one) tablespace into this file, which is replaced: .svg or .png.
    #[arg(long, value_name = "FILE", value_parser = picture::named)]
    pub map: Option<PathBuf>,

    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,

    /// Take this page size (4K to 64K) in place of what the files say.
    #[arg(long, value_name = "SIZE", value_parser = page_size)]
    pub page_size: Option<u32>,

    /// Workers [default: the cores available to the process].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,

    #[command(flatten)]
    pub keys: KeyArgs,
}

const TABLE_EXAMPLES: &str = "\
Examples:
  innokit table check shop/orders.ibd           every index of one table
  innokit table check /var/lib/mysql -q         a datadir or a backup: findings only
  innokit table check --extended shop           and every entry against its row
  innokit table check --json backup/shop        one JSON document
  innokit table count shop/orders.ibd           rows, by index

Exit status:
  0  all well
  1  damage found
  2  some of the work could not be done: a file could not be read, a finding hangs on recovery to come";

/// The commands of `table`.
#[derive(Debug, Subcommand)]
pub enum TableCommand {
    /// Check the structure of every index: levels, neighbours, node pointers, order of keys, records, segments, off-page values, and
    /// rows against entries.
    #[command(after_help = TABLE_EXAMPLES)]
    Check(TableCheckArgs),
    /// Count the rows of every index, and the deleted ones that wait for purge.
    #[command(after_help = TABLE_EXAMPLES)]
    Count(TableArgs),
}

/// Options of `table check`.
#[derive(Debug, Args)]
pub struct TableCheckArgs {
    /// Also hold every entry of every secondary index against its row, and every row against its entries.
    #[arg(long)]
    pub extended: bool,

    /// The others.
    #[command(flatten)]
    pub table: TableArgs,
}

/// Options of `table`.
#[derive(Debug, Args)]
pub struct TableArgs {
    /// Files and directories: tablespaces (walked; what holds no tables is skipped and counted).
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,

    /// Where bytes come from: `auto` takes what the page cache has and reads the rest around it.
    #[arg(long, value_enum, default_value_t = Io::Auto, value_name = "MODE", help_heading = "Reading")]
    pub io: Io,

    /// How far ahead of need pages are read: `logical` by what the parents say.
    #[arg(long, value_enum, default_value_t = Ahead::Logical, value_name = "POLICY", help_heading = "Reading")]
    pub read_ahead: Ahead,

    /// Workers, each walking one index at a time [default: the cores available to the process].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024), help_heading = "Reading")]
    pub threads: Option<u16>,

    /// Read requests in flight for each worker [default: 32].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024), help_heading = "Reading")]
    pub depth: Option<u32>,

    /// Take this page size (4K to 64K) in place of what the files say.
    #[arg(long, value_name = "SIZE", value_parser = page_size, help_heading = "Reading")]
    pub page_size: Option<u32>,

    #[command(flatten)]
    pub keys: KeyArgs,

    /// Print one JSON document instead of text.
    #[arg(long, help_heading = "Output")]
    pub json: bool,

    /// Show a bar with bytes, rate and time left: `auto` when standard error is a terminal.
    #[arg(long, value_enum, default_value_t = Progress::Auto, value_name = "WHEN", help_heading = "Output")]
    pub progress: Progress,

    /// List at most N findings (all are counted).
    #[arg(long, value_name = "N", default_value_t = 1000, help_heading = "Output")]
    pub max_findings: usize,

    /// Also list each index, what was left out, each skipped file, and how the bytes came.
    #[arg(short, long, action = ArgAction::SetTrue, conflicts_with = "quiet", help_heading = "Output")]
    pub verbose: bool,

    /// Print findings only.
    #[arg(short, long, action = ArgAction::SetTrue, help_heading = "Output")]
    pub quiet: bool,
}

/// What `innochecksum` was called with, which it reads by its own rules.
#[derive(Debug, Args)]
pub struct InnochecksumArgs {
    /// Options and files; `innokit innochecksum --help` lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    pub arguments: Vec<OsString>,
}

/// Options of `check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Files, directories (walked; what is not InnoDB's is skipped and counted), backup streams, or `-` for standard input.
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,

    /// Where bytes come from: `auto` takes what the page cache has and reads the rest around it.
    #[arg(long, value_enum, default_value_t = Io::Auto, value_name = "MODE", help_heading = "Reading")]
    pub io: Io,

    /// What carries the requests: `auto` is io_uring where the system permits it.
    #[arg(long, value_enum, default_value_t = Engine::Auto, value_name = "ENGINE", help_heading = "Reading")]
    pub engine: Engine,

    /// Workers, each reading and verifying [default: the cores available to the process].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024), help_heading = "Reading")]
    pub threads: Option<u16>,

    /// Bytes of a read request, a multiple of 64K [default: 1M].
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Reading")]
    pub block_size: Option<u32>,

    /// Read requests in flight for each worker [default: 8].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024), help_heading = "Reading")]
    pub depth: Option<u32>,

    /// Take this page size (4K to 64K) in place of what the files say.
    #[arg(long, value_name = "SIZE", value_parser = page_size, help_heading = "Reading")]
    pub page_size: Option<u32>,

    #[command(flatten)]
    pub keys: KeyArgs,

    /// How closely to look: `structure` also checks every index as `innokit table check` does (not on standard input, not on files
    /// that a server has open).
    #[arg(long, value_enum, default_value_t = Level::Pages, value_name = "LEVEL", conflicts_with = "live")]
    pub level: Level,

    /// A server has the files open: what looks wrong is read again before it is called so.
    #[arg(long, help_heading = "Reading")]
    pub live: bool,

    /// Read at most so many bytes a second: 200M, 1G/s.
    #[arg(long, value_name = "SIZE/s", value_parser = rate, help_heading = "Reading")]
    pub rate: Option<u64>,

    /// Print one JSON document instead of text.
    #[arg(long, help_heading = "Output")]
    pub json: bool,

    /// Show a bar with bytes, rate and time left: `auto` when standard error is a terminal.
    #[arg(long, value_enum, default_value_t = Progress::Auto, value_name = "WHEN", help_heading = "Output")]
    pub progress: Progress,

    /// List at most N findings (all are counted).
    #[arg(long, value_name = "N", default_value_t = 1000, help_heading = "Output")]
    pub max_findings: usize,

    /// Also list each file, each skipped file, and how the bytes came.
    #[arg(short, long, action = ArgAction::SetTrue, conflicts_with = "quiet", help_heading = "Output")]
    pub verbose: bool,

    /// Print findings only.
    #[arg(short, long, action = ArgAction::SetTrue, help_heading = "Output")]
    pub quiet: bool,
}

/// `--io`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Io {
    /// Each block from where it is fastest, without filling the page cache.
    Auto,
    /// Always the device.
    Direct,
    /// Always through the page cache.
    Buffered,
}

/// `--level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Level {
    /// Every page by itself.
    Pages,
    /// Also the indexes that the pages make up.
    Structure,
}

/// `--read-ahead`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Ahead {
    /// One page at a time, in the order of the key.
    None,
    /// As the servers do: when most of 64 pages were read in order, the next 64.
    Linear,
    /// The pages that the parents name, sorted and joined, many in flight.
    Logical,
}

/// `--engine`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Engine {
    /// io_uring, else threads.
    Auto,
    /// io_uring or an error.
    Uring,
    /// A pool of pread threads.
    Threads,
}

/// `--progress`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Progress {
    /// When standard error is a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// `65536`, `64K`, `1M`, `1MiB`.
pub fn size(text: &str) -> Result<u32, String> {
    u32::try_from(bytes(text)?).map_err(|_| "more than 4 GiB".to_owned())
}

/// The same without a limit: `100G`, `2T`.
pub fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let shift = match text.get(digits.len()..).unwrap_or_default().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        unit => return Err(format!("`{unit}` is not a unit: K, M, G or T")),
    };
    let number: u64 = digits.parse().map_err(|_| "expected a number of bytes such as 65536, 64K or 1M".to_owned())?;
    number.checked_mul(1 << shift).ok_or_else(|| "more than 16 EiB".to_owned())
}

fn rate(text: &str) -> Result<u64, String> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    match size(number)? {
        0 => Err("a rate is at least 1 byte a second".to_owned()),
        bytes => Ok(u64::from(bytes)),
    }
}

fn key_file(text: &str) -> Result<(PathBuf, Option<String>), String> {
    Ok(match text.split_once(',') {
        Some((path, key)) => (PathBuf::from(path), Some(key.to_owned())),
        None => (PathBuf::from(text), None),
    })
}

fn page_size(text: &str) -> Result<u32, String> {
    match size(text)? {
        size @ (4096 | 8192 | 16384 | 32768 | 65536) => Ok(size),
        _ => Err("a page is 4K, 8K, 16K, 32K or 64K".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn sizes_are_read_with_and_without_units() {
        assert_eq!(size("65536"), Ok(65536));
        assert_eq!(size("64k"), Ok(65536));
        assert_eq!(size("1MiB"), Ok(1 << 20));
        assert!(size("4G").is_err() && size("1x").is_err() && size("").is_err());
        assert!(page_size("12K").is_err());
    }

    #[test]
    fn a_map_is_an_svg_or_a_png_and_never_a_tablespace() {
        assert!(picture::named("a.svg").is_ok() && picture::named("dir/a.PNG").is_ok());
        assert!(picture::named("t.ibd").is_err() && picture::named("svg").is_err());
    }
}
