//! `innokit table restore`.

use std::path::PathBuf;

use clap::Args;

use super::ServerArgs;
use crate::options::keys::KeyArgs;
use crate::options::output::Progress;
use crate::options::view::ViewArgs;

pub(super) const RESTORE_EXAMPLES: &str = "\
Examples:
  innokit table restore /backup/monday shop.orders --socket /run/mysqld/mysqld.sock
  innokit table restore /backup/monday shop.orders --as shop.orders_monday --socket /run/mysqld/mysqld.sock
  innokit table restore /backup/monday shop.orders --redo /backup/redo --until 2026-11-30T14:05:00+01:00 \\
      --as shop.orders_1405 --socket /run/mysqld/mysqld.sock            beside the table, as it was at that moment

Triggers are left out, and the report says how to add them. The rest of the backup is not restored: definition and rows are read where they are, at the moment that was asked for, and loaded as statements.
The server gets the table under another name, which is removed if anything fails, and its own name once its rows are counted and, where both
can be computed, its CHECKSUM TABLE is that of the files.

Exit status:
  0  the table is there, whole
  1  the backup is damaged, or the server's copy differs; there is no table
  2  it could not be done; there is no table";

/// Options of `table restore`.
#[derive(Debug, Args)]
pub struct TableRestoreArgs {
    /// A datadir, a snapshot or a backup. What its redo log still has to do is done to each page that is read, in memory.
    #[arg(value_name = "SET", num_args = 1, required = true)]
    pub paths: Vec<PathBuf>,

    /// The table: `shop.orders`.
    #[arg(value_name = "DATABASE.TABLE", value_parser = table_name)]
    pub table: (String, String),

    /// Give it this name on the server. Foreign keys are left out, and CHECK constraints named by the server: the original has their names.
    #[arg(long = "as", value_name = "DATABASE.TABLE", value_parser = table_name)]
    pub other: Option<(String, String)>,

    #[command(flatten)]
    pub server: ServerArgs,

    #[command(flatten)]
    pub view: ViewArgs,

    #[command(flatten)]
    pub keys: KeyArgs,

    /// Show progress on standard error: `auto` if that is a terminal.
    #[arg(long, value_enum, default_value_t = Progress::Auto, value_name = "WHEN")]
    pub progress: Progress,

    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

/// Both parts may hold dots only where the other has none: the first dot ends the database.
fn table_name(text: &str) -> Result<(String, String), String> {
    match text.split_once('.') {
        Some((database, table)) if !database.is_empty() && !table.is_empty() => {
            Ok((database.to_owned(), table.to_owned()))
        }
        _ => Err("a table is named by its database and itself: shop.orders".to_owned()),
    }
}
