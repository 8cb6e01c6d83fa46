//! `innokit backup` and `innokit backup verify`: options in, a summary of the backup out.

use std::error::Error;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use datadir::Outcome;
use datadir::keys::KeyFiles;
use datadir::server::ServerKind;
use recovery::backup::{
    BackupOptions, BackupReport, BackupSignature, BackupVerifyOptions, BackupWatcher, SigningKey, backup, send_backup,
    sign_backup, verify_backup,
};
use recovery::manifest::{BackupDamage, BackupState, Manifest};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tempfile::TempDir;

use crate::args::{BackupArgs, BackupCommand, BackupVerifyArgs};
use crate::print::{grouped, human, position, written};
use crate::progress::Bar;
use crate::table_look::TABLE_LOOK;
use crate::terminal::{self, shown};
use crate::{document, server};

/// The directory in the spool for a backup that is to be sent.
const SPOOLED: &str = "set";

/// The document of a backup.
#[derive(serde::Serialize)]
struct Taken<'m> {
    manifest: &'m Manifest,
}

/// Takes or verifies a backup. Returns the exit status.
pub fn run(args: &BackupArgs) -> Result<u8, Box<dyn Error>> {
    match &args.command {
        Some(BackupCommand::Verify(args)) => verify(args),
        None => take(args),
    }
}

fn take(args: &BackupArgs) -> Result<u8, Box<dyn Error>> {
    let started = SystemTime::now();
    // Keys may come from pipes, in which nothing comes: before signals only set a flag.
    let access = server::access(&args.server);
    let keys = KeyFiles { keyrings: args.keyring.clone(), key_file: args.key_file.clone() };
    keys.hold_pipes()?;
    // A key that cannot be used would else be noticed after hours.
    let key = args.sign.as_deref().map(SigningKey::read).transpose()?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    // Removed when it is dropped, however the backup ends.
    let spool = spool(args)?;
    let access = access?;
    let datadir = args.datadir.clone().unwrap_or_default();
    let to = spool.as_ref().map_or_else(|| args.to.clone().unwrap_or_default(), |spool| spool.path().join(SPOOLED));
    let mut server = server::backup_server(&access, Duration::from_secs(args.lock_wait), &stop)?;
    let mut log = server::log_server(&access, &stop)?;
    let bar = Bar::new(args.progress, None);
    let options = BackupOptions {
        to: to.clone(),
        prepare: args.prepare,
        since: args.incremental_since.clone(),
        allow_damage: args.allow_damage,
        keys,
        rate: args.rate,
        is_idle: args.idle,
        watcher: BackupWatcher(bar.watch_bytes()),
        tables: TABLE_LOOK,
    };
    let taken = backup(&mut *server, &mut *log, &datadir, &options, &stop);
    bar.finish();
    let taken = taken.and_then(|manifest| {
        key.iter().try_for_each(|key| sign_backup(&to, key))?;
        if spool.is_some() {
            send_backup(&to, args.compress, terminal::data(), &stop)?;
        }
        Ok(manifest)
    });
    match taken {
        Ok(manifest) => {
            let status = if manifest.damaged.is_empty() { 0 } else { Outcome::Damage.exit_status() };
            let json = args.json.then_some((started, status));
            // Standard output carries the stream.
            let printed = if spool.is_some() {
                print(&manifest, json, terminal::err())
            } else {
                print(&manifest, json, terminal::out())
            };
            written(printed, status)
        }
        Err(error) if error.is_damage() => {
            document::fail(started, Outcome::Damage.exit_status(), &error, args.json && spool.is_none());
            Ok(Outcome::Damage.exit_status())
        }
        Err(error) => Err(error.into()),
    }
}

/// A temporary directory for a backup that is to be sent. `None` for any other.
fn spool(args: &BackupArgs) -> Result<Option<TempDir>, Box<dyn Error>> {
    let is_sent = args.to.as_deref() == Some(Path::new("-"));
    match &args.spool {
        None if is_sent => {
            Err("--to - takes a directory in which the backup is proved before it is sent: --spool DIR".into())
        }
        None => Ok(None),
        Some(_) if !is_sent => Err("--spool is for --to -: a backup in a directory needs none".into()),
        Some(_) if io::stdout().is_terminal() => Err("--to - sends a stream: name a file or a pipe for it".into()),
        Some(dir) => {
            let made = tempfile::Builder::new().prefix("innokit-backup.").tempdir_in(dir);
            Ok(Some(made.map_err(|error| format!("{}: making the spool: {error}", dir.display()))?))
        }
    }
}

fn print(manifest: &Manifest, json: Option<(SystemTime, u8)>, mut out: impl Write) -> io::Result<()> {
    if let Some(head) = json {
        return document::write(head, false, &Taken { manifest }, &mut out);
    }
    let bytes: u64 = manifest.files.iter().map(|file| file.size).sum();
    let (bytes, files, pages) = (human(bytes as f64), grouped(manifest.files.len() as u64), grouped(manifest.pages));
    match &manifest.base {
        None => writeln!(out, "backup    {bytes} in {files} files, {pages} pages verified")?,
        Some(base) => {
            let deltas = || manifest.tablespaces.iter().filter_map(|tablespace| tablespace.delta.as_ref());
            let changed = grouped(deltas().map(|delta| delta.pages).sum());
            let whole = manifest.tablespaces.len() - deltas().count();
            writeln!(out, "increment {bytes} in {files} files, {pages} pages verified")?;
            let (whole, from) = (grouped(whole as u64), base.from_lsn);
            writeln!(out, "changed   {changed} pages since LSN {from}, {whole} tablespaces copied whole")?;
        }
    }
    writeln!(out, "redo      LSN {} to {}", manifest.from_lsn, manifest.to_lsn)?;
    match &manifest.binlog {
        Some(binlog) => writeln!(out, "binlog    {}", position(binlog))?,
        None => writeln!(out, "binlog    the server writes none")?,
    }
    let seconds = |ms: u64| format!("{:.2} s", ms as f64 / 1000.0);
    let (ddl, commits) = (seconds(manifest.locks.ddl_ms), seconds(manifest.locks.commit_ms));
    writeln!(out, "locks     no DDL for {ddl}, no commits for {commits}")?;
    for name in &manifest.left_out {
        writeln!(out, "left out  {}: not a file of a known engine", shown(name))?;
    }
    print_damage(&manifest.damaged, &mut out)?;
    let next = match manifest.state {
        BackupState::Prepared => "It is recovered: copy it to the server's datadir.",
        _ if manifest.base.is_some() => "Restore it with its base: innokit restore BASE --to DIR --increment DIR.",
        _ => "A trial recovery succeeded: finish it with innokit recover.",
    };
    writeln!(out, "{next}")?;
    out.flush()
}

/// The damaged pages that a backup was allowed to have.
fn print_damage(damaged: &[BackupDamage], out: &mut impl Write) -> io::Result<()> {
    for BackupDamage { path, pages } in damaged {
        let list: Vec<String> = pages.iter().take(5).map(ToString::to_string).collect();
        let more = pages.len().saturating_sub(list.len());
        let more = if more > 0 { format!(" and {} more", grouped(more as u64)) } else { String::new() };
        writeln!(out, "DAMAGED   {}: page {}{more}, copied as it is", shown(path), list.join(", "))?;
    }
    Ok(())
}

fn verify(args: &BackupVerifyArgs) -> Result<u8, Box<dyn Error>> {
    let started = SystemTime::now();
    let keys = KeyFiles { keyrings: args.keyring.clone(), key_file: args.key_file.clone() };
    keys.hold_pipes()?;
    let (increments, allow_damage, spool) = (args.increment.clone(), args.allow_damage, args.spool.clone());
    let trusted = args.trusted.clone();
    let options = BackupVerifyOptions { increments, keys, allow_damage, trusted, spool, look: TABLE_LOOK };
    let report = Bar::following(args.progress, || verify_backup(&args.backup, &options))?;
    let status = report.exit_status();
    written(print_report(&report, args.json.then_some((started, status))), status)
}

fn print_report(report: &BackupReport, json: Option<(SystemTime, u8)>) -> io::Result<()> {
    let mut out = terminal::out();
    if let Some(head) = json {
        return document::write(head, false, report, &mut out);
    }
    for problem in &report.problems {
        writeln!(out, "WRONG     {}", shown(problem))?;
    }
    print_damage(&report.damaged, &mut out)?;
    let (bytes, files, pages) = (human(report.bytes as f64), grouped(report.files), grouped(report.pages));
    writeln!(out, "read      {bytes} in {files} files, {pages} pages verified")?;
    match &report.signature {
        BackupSignature::None => writeln!(out, "signature not signed")?,
        BackupSignature::Changed => writeln!(out, "signature not of the backup as it is: see above")?,
        BackupSignature::Unproved { key } => writeln!(
            out,
            "signature names key {}: not verified, so anybody can have written it (--trusted KEYFILE)",
            shown(key)
        )?,
        BackupSignature::Proved { keys } => writeln!(out, "signature of key {}: as it was signed", keys.join(", "))?,
    }
    if report.problems.is_empty() {
        let (lsn, version) = (report.to_lsn, &report.server_version);
        let kind = if report.base.is_some() { "increment" } else { "backup   " };
        writeln!(out, "{kind} sound, to LSN {lsn}, of {} {}", ServerKind::of(version).name(), shown(version))?;
        if report.increments > 0 {
            writeln!(out, "chain     {} increments continue it, and all their pages fit", grouped(report.increments))?;
        }
        if let Some(tables) = report.tables {
            writeln!(
                out,
                "indexes   of {} tablespaces: every entry has its row, and every row its entries",
                grouped(tables)
            )?;
        }
        if let Some(base) = &report.base {
            let lsn = base.to_lsn;
            writeln!(
                out,
                "It continues a backup that reaches LSN {lsn}: innokit backup verify BASE --increment DIR verifies both."
            )?;
        }
    }
    out.flush()
}
