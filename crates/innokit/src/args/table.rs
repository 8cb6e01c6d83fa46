//! `innokit table`. The options of `checksum` and `export` are in `table_rows`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::table_restore::{RESTORE_EXAMPLES, TableRestoreArgs};
use crate::options::keys::KeyArgs;
use crate::options::output::OutputArgs;
use crate::options::reading::ReadingArgs;
use crate::options::selection::SelectionArgs;
use crate::options::sizes::page_size;
use crate::options::view::ViewArgs;
use crate::table_rows::{CHECKSUM_EXAMPLES, ChecksumArgs, EXPORT_EXAMPLES, ExportArgs};

pub(super) const TABLE_EXAMPLES: &str = "\
Examples:
  innokit table check shop/orders.ibd           every index of one table
  innokit table check /var/lib/mysql -q         a datadir or a backup: findings only
  innokit table check --extended shop           also compare every entry with its row
  innokit table check --live /var/lib/mysql     files that a server has open
  innokit table check --json backup/shop        one JSON document
  innokit table count shop/orders.ibd           rows, by index

Exit status:
  0  all well
  1  damage found
  2  some of the work could not be done: a file could not be read, or a finding depends on pending recovery";

pub(super) const SCHEMA_EXAMPLES: &str = "\
Examples:
  innokit table schema shop/orders.ibd                      one table
  innokit table schema /var/lib/mysql --table shop.orders   one table of a datadir or a backup
  innokit table schema backup > schema.sql                  all tables, for the mysql client
  innokit table schema --json backup                        one JSON document

MySQL 8.0 and later keep the definition in the tablespace. MariaDB and MySQL 5.7 keep it in the .frm file beside it, and foreign keys in \
ibdata1. An SQL comment names what the files do not hold.

Exit status:
  0  every definition was read
  2  a definition could not be read, or there was none";

/// The commands of `table`.
#[derive(Debug, Subcommand)]
pub enum TableCommand {
    /// Check the structure of every index: levels, sibling links, node pointers, key order, records, segments, off-page values, and row
    /// counts.
    #[command(after_help = TABLE_EXAMPLES)]
    Check(TableCheckArgs),
    /// Count the rows of every index, and those marked as deleted.
    #[command(after_help = TABLE_EXAMPLES)]
    Count(TableArgs),
    /// Compute the value of CHECKSUM TABLE from the files.
    #[command(after_help = CHECKSUM_EXAMPLES)]
    Checksum(ChecksumArgs),
    /// Write rows as CSV, TSV, SQL or JSON lines.
    #[command(after_help = EXPORT_EXAMPLES)]
    Export(Box<ExportArgs>),
    /// Print CREATE TABLE as the server's SHOW CREATE TABLE prints it, from the files alone.
    #[command(after_help = SCHEMA_EXAMPLES)]
    Schema(SchemaArgs),
    /// Load one table of a backup, as it is or was at a moment, into a running server. Nothing else is restored.
    #[command(after_help = RESTORE_EXAMPLES)]
    Restore(Box<TableRestoreArgs>),
}

/// Options of `table schema`.
#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// Tablespaces, .frm files, datadirs, backups.
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,

    /// Use this page size (4K to 64K), whatever the files say.
    #[arg(long, value_name = "SIZE", value_parser = page_size)]
    pub page_size: Option<u32>,

    /// For tablespaces without a definition: print the CREATE TABLE statement in this file, if it fits their rows.
    #[arg(long, value_name = "FILE")]
    pub create_table: Option<PathBuf>,

    /// Print the triggers of the tables instead, from MariaDB's .TRG files. MySQL keeps them in its dictionary:
    /// mysqldump --no-create-info --no-data --triggers.
    #[arg(long, conflicts_with_all = ["create_table", "json"])]
    pub triggers: bool,

    #[command(flatten)]
    pub keys: KeyArgs,

    #[command(flatten)]
    pub selected: SelectionArgs,

    #[command(flatten)]
    pub view: ViewArgs,

    /// Print one JSON document instead of SQL.
    #[arg(long)]
    pub json: bool,
}

/// Options of `table check`.
#[derive(Debug, Args)]
pub struct TableCheckArgs {
    /// Also compare every entry of every secondary index with its row, and every row with its entries.
    #[arg(long)]
    pub extended: bool,

    /// A server has the files open: read again what looks wrong, and decide what can be decided.
    #[arg(long, help_heading = "Reading")]
    pub live: bool,

    #[command(flatten)]
    pub table: TableArgs,
}

/// Options of `table`.
#[derive(Debug, Args)]
pub struct TableArgs {
    /// Tablespaces, and directories to search for them. Other files are skipped and counted.
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,

    #[command(flatten)]
    pub reading: ReadingArgs,

    /// How pages are read ahead of need.
    #[arg(long, value_enum, default_value_t = Ahead::Logical, value_name = "POLICY", help_heading = "Reading")]
    pub read_ahead: Ahead,

    #[command(flatten)]
    pub view: ViewArgs,

    #[command(flatten)]
    pub output: OutputArgs,
}

/// `--read-ahead`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Ahead {
    /// One page at a time, in the order of the key.
    None,
    /// As the servers do: after most of 64 pages were read in order, the next 64.
    Linear,
    /// The pages that the parents name, sorted and joined into large requests.
    Logical,
}
