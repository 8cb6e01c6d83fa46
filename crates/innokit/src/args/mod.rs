//! The command line: what can be asked for, in the words of the help text. Each command's options are in a file of its name, what several
//! commands share in `options`.

mod backup;
mod check;
mod diff;
mod info;
mod manual;
#[cfg(all(feature = "mount", target_os = "linux"))]
mod mount;
mod recover;
mod redo;
mod restore;
mod server;
mod table;
mod table_restore;
mod unpack;

use std::ffi::OsString;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, Subcommand};

use self::backup::BACKUP_EXAMPLES;
pub use self::backup::{BackupArgs, BackupCommand, BackupVerifyArgs};
use self::check::CHECK_EXAMPLES;
pub use self::check::{CheckArgs, Engine, Level};
use self::diff::DIFF_EXAMPLES;
pub use self::diff::{DiffArgs, DiffFormat};
use self::info::INFO_EXAMPLES;
pub use self::info::InfoArgs;
pub use self::manual::{CompletionsArgs, ManArgs};
#[cfg(all(feature = "mount", target_os = "linux"))]
use self::mount::{MOUNT_EXAMPLES, SERVE_EXAMPLES};
#[cfg(all(feature = "mount", target_os = "linux"))]
pub use self::mount::{MountArgs, ServeArgs, SetArgs};
use self::recover::RECOVER_EXAMPLES;
pub use self::recover::RecoverArgs;
pub use self::redo::{RedoArchiveArgs, RedoCommand, RedoInfoArgs, RedoVerifyArgs};
use self::restore::RESTORE_EXAMPLES;
pub use self::restore::RestoreArgs;
pub use self::server::ServerArgs;
pub use self::table::{Ahead, SchemaArgs, TableArgs, TableCommand};
pub use self::table_restore::TableRestoreArgs;
use self::unpack::UNPACK_EXAMPLES;
pub use self::unpack::UnpackArgs;
#[cfg(feature = "bench")]
use crate::bench::args::BenchArgs;

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

    /// Do without Landlock, with which the kernel keeps innokit from writing, and from reading, outside of what you named.
    #[arg(long, global = true)]
    pub no_landlock: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Verify tablespaces, datadirs and backups: every page's checksum, place and LSN, and pages that went missing.
    #[command(after_help = CHECK_EXAMPLES)]
    Check(CheckArgs),
    /// Describe files: kind, page types, space used by each index, LSNs, encryption; `--map` draws a tablespace.
    #[command(after_help = INFO_EXAMPLES)]
    Info(InfoArgs),
    /// Redo logs: show what crash recovery would do (info), archive a running server's log (archive), verify the archive (verify).
    Redo {
        /// What to do.
        #[command(subcommand)]
        command: RedoCommand,
    },
    /// Do crash recovery on a MariaDB or MySQL datadir without a server, so that the server starts at once.
    #[command(after_help = RECOVER_EXAMPLES)]
    Recover(RecoverArgs),
    /// Back up a running MariaDB or MySQL server, and prove that the backup can be recovered; verify backups (backup verify).
    #[command(after_help = BACKUP_EXAMPLES)]
    Backup(BackupArgs),
    /// Restore a backup into a datadir: verified, recovered to a moment, and given to the server's user.
    #[command(after_help = RESTORE_EXAMPLES)]
    Restore(RestoreArgs),
    /// Unpack backup streams and tar archives, verified and durable, all or nothing.
    #[command(after_help = UNPACK_EXAMPLES)]
    Unpack(UnpackArgs),
    /// Show a datadir or a backup, at a moment, as files for a server, without a restore: what the server writes goes elsewhere.
    #[cfg(all(feature = "mount", target_os = "linux"))]
    #[command(after_help = MOUNT_EXAMPLES)]
    Mount(MountArgs),
    /// Start a server on a datadir or a backup, at a moment, without a restore: to look into it, and to check it by its own server.
    #[cfg(all(feature = "mount", target_os = "linux"))]
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(ServeArgs),
    /// Tables without a server: check their indexes, count and export their rows, compute CHECKSUM TABLE, print CREATE TABLE.
    #[command(subcommand)]
    Table(TableCommand),
    /// Show which rows differ between two sets, or one set at two moments, and write the SQL that turns one into the other.
    #[command(after_help = DIFF_EXAMPLES)]
    Diff(Box<DiffArgs>),
    /// Replace MySQL's innochecksum: same options, messages and exit status (also if called by that name).
    #[command(disable_help_flag = true)]
    Innochecksum(InnochecksumArgs),
    /// Measure this machine's disk and processor, and how much of their speed a check, a scan, a commit and a recovery reach.
    #[cfg(feature = "bench")]
    Bench(BenchArgs),
    /// Check a small built-in sample with a damaged page, to show what a report looks like.
    Demo,
    /// Print shell completions: `innokit completions bash > /etc/bash_completion.d/innokit`.
    Completions(CompletionsArgs),
    /// Print the manual page of innokit or of one command: `innokit man check | man -l -`.
    Man(ManArgs),
}

/// What `innochecksum` was called with, which it reads by its own rules.
#[derive(Debug, Args)]
pub struct InnochecksumArgs {
    /// Options and files; `innokit innochecksum --help` lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    pub arguments: Vec<OsString>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
